"""Many pieces of work at once: the one place that knows of executors.

    for done in completed(function, items):                        by processes of this machine
    for done in completed(function, items, cluster="tcp://..."):    by the workers of a Dask cluster

`function` is a function of a module and `items` are plain data, so that both travel. Results come in the order in which
they are finished, each with its item; what a piece raises is handed over with it and stops no other. Nothing that is
proved depends on where it was computed: the checker does not import this file.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from softwright.errors import Faults, InvalidInput


@dataclass(frozen=True)
class Done:
    """One piece: its item, and its result or what it raised."""

    item: Any
    result: Any = None
    error: Exception | None = None


def completed(
    function: Callable[[Any], Any], items: Sequence[Any], *, cluster: str | None = None, workers: int | None = None
) -> Iterator[Done]:
    """Every piece once it is done. `cluster`: the address of a Dask scheduler; else `workers` processes are started."""
    faults = Faults("scale")
    faults.check(workers is None or workers >= 1, f"workers = {workers}; give a whole number of at least 1")
    faults.check(cluster is None or workers is None, "a cluster has workers of its own; leave out one of the two")
    faults.raise_if_any()
    if cluster is not None:
        return _by_dask(function, items, cluster)
    return _by_processes(function, items, workers or len(os.sched_getaffinity(0)))


def connected(address: str) -> Any:
    """A client of the Dask scheduler at an address; `InvalidInput` where Dask is missing or nobody answers."""
    try:
        distributed = import_module("distributed")
    except ImportError as error:
        fault = "the package distributed is missing; install it with: pip install 'softwright[scale]'"
        raise InvalidInput("scale", [fault]) from error
    try:
        return distributed.Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        fault = (
            f"no Dask scheduler answers at {address!r} ({error}); start one with: dask scheduler, give tcp://HOST:PORT"
        )
        raise InvalidInput("scale", [fault]) from error


def told_from_worker(topic: str) -> Callable[[str], None]:
    """On a worker of a cluster: a function that sends messages to whoever listens to the topic."""
    worker = import_module("distributed").get_worker()
    return lambda message: worker.log_event(topic, str(message))  # a message may be more than its text


def _by_processes(function: Callable[[Any], Any], items: Sequence[Any], workers: int) -> Iterator[Done]:
    context = multiprocessing.get_context("spawn")  # threads of torch do not survive a fork
    with ProcessPoolExecutor(min(workers, max(1, len(items))), mp_context=context) as pool:
        found: dict[Future[Any], Any] = {pool.submit(function, item): item for item in items}
        for future in as_completed(found):
            yield _done(found[future], future)


def _by_dask(function: Callable[[Any], Any], items: Sequence[Any], address: str) -> Iterator[Done]:
    with connected(address) as client:
        found = {client.submit(function, item, pure=False): item for item in items}
        for future in import_module("distributed").as_completed(list(found), loop=client.loop):
            yield _done(found[future], future)


def _done(item: Any, future: Any) -> Done:
    error = future.exception()
    if error is None:
        return Done(item, future.result())
    if not isinstance(error, Exception):
        raise error
    return Done(item, error=error)
