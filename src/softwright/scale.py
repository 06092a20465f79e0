"""Many pieces of work at once: the one place that knows of executors.

    with crew(workers=4) as hands:                     processes of this machine
    with crew(cluster="tcp://...") as hands:           the workers of a Dask cluster
    with crew(executor=pool) as hands:                 any concurrent.futures.Executor
        for result in hands.each(function, shared, items): ...

`function` is a function of a module; `shared` and `items` are plain data, so that all of them travel. `shared` is sent
to a cluster once and stays there; to processes of this machine it goes along with every piece. A worker that is lost
costs the pieces it was at: they are given to others, and processes are started anew.

`Crew.pieces` is the queue beneath: pieces are added while others are done, and handed over as they are finished.
Nothing that is proved depends on where it was computed: the checker does not import this file, it is handed somebody
who works.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import multiprocessing
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from softwright.errors import Faults, InvalidInput

if TYPE_CHECKING:
    from softwright.records import Record

_AHEAD = 2  # pieces under way or waiting for each worker
_MOST_LOSSES = 3  # of one piece, before it is taken for one that kills its workers
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_... of glibc's malloc.h
_ROOM = 2**28  # bytes that a worker keeps while it works
_LOOK = 5.0  # seconds after which the workers of a cluster are counted again
_KEPT: dict[str, Any] = {}  # on a worker: what the pieces of one queue share


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
    _check(None, cluster, workers)
    return _completed(function, items, cluster, workers)


def _completed(
    function: Callable[[Any], Any], items: Sequence[Any], cluster: str | None, workers: int | None
) -> Iterator[Done]:
    if cluster is None:
        workers = min(workers or cores(), max(1, len(items)))
    with crew(cluster=cluster, workers=workers) as hands, hands.pieces(_alone, function) as queue:
        for number, item in enumerate(items):
            queue.add(number, item)
        while len(queue):
            number, result, error = queue.next()
            yield Done(items[number], result, error)


def _alone(function: Callable[[Any], Any], item: Any) -> Any:
    return function(item)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def several() -> int | None:
    """As many workers as this process may use cores; None if that is one."""
    return cores() if cores() > 1 else None


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


def _check(executor: Any, cluster: str | None, workers: int | None) -> None:
    faults = Faults("scale")
    whole = workers is None or (isinstance(workers, int) and not isinstance(workers, bool) and workers >= 1)
    faults.check(whole, f"workers = {workers!r}; give a whole number of at least 1")
    given = [
        name for name, what in (("executor", executor), ("cluster", cluster), ("workers", workers)) if what is not None
    ]
    faults.check(len(given) <= 1, f"{' and '.join(given)} are given, and each has workers of its own; give one")
    works = executor is None or isinstance(executor, Crew | Executor)
    faults.check(works, f"executor is a {type(executor).__name__}; give a concurrent.futures.Executor or a crew")
    faults.raise_if_any()


def crew(
    *,
    executor: Executor | Crew | None = None,
    cluster: str | None = None,
    workers: int | None = None,
    record: Record | None = None,
) -> AbstractContextManager[Crew]:
    """Somebody who works: an executor, the Dask cluster at an address, so many processes; with nothing, this process.

    `record` is where `each` writes its results down and finds those of an earlier run.
    """
    _check(executor, cluster, workers)
    if isinstance(executor, Crew):
        return _Lent(executor)
    if cluster is not None:
        return _Cluster(cluster, record)
    return _Processes(workers, record) if workers is not None else Crew(executor, record)


class Crew(AbstractContextManager["Crew"]):
    """Who works. This class is the executor that it is given, or this process itself."""

    def __init__(self, executor: Executor | None = None, record: Record | None = None) -> None:
        self.executor, self.record = executor, record

    def __exit__(self, *_: object) -> None:
        """A lent executor stays open."""

    @property
    def workers(self) -> int:
        return int(getattr(self.executor, "_max_workers", 1)) if self.executor is not None else 1

    @property
    def ahead(self) -> int:
        """How many pieces are sent before one comes back."""
        return 1 if self.executor is None else _AHEAD * self.workers + 1

    def send(self, shared: Any) -> Any:
        """What stands for `shared` in the arguments of a piece."""
        return shared

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        if self.executor is not None:
            return self.executor.submit(function, *arguments)
        done: Future[Any] = Future()
        try:
            done.set_result(function(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done

    def restart(self) -> bool:
        """After workers were lost with what they had: whether pieces can be submitted again."""
        return False

    def pieces(self, function: Callable[[Any, Any], Any], shared: Any, *, first_here: bool = False) -> Pieces:
        """A queue of pieces function(shared, item). With `first_here`, a piece that has no others beside it is done in
        this process: short work is over before a worker would have started."""
        return Pieces(self, function, shared, first_here)

    def each(self, function: Callable[[Any, Any], Any], shared: Any, items: Sequence[Any]) -> Iterator[Any]:
        """function(shared, item) for every item, in their order; the first error is raised. Results are plain data."""
        found: dict[int, Any] = {}
        names = [f"{number} {hashlib.sha256(repr(item).encode()).hexdigest()}" for number, item in enumerate(items)]
        with self.pieces(function, shared) as queue:
            for number, name in enumerate(names):
                content = None if self.record is None else self.record.get(name)
                if content is None:
                    queue.add(number, items[number])
                else:
                    found[number] = json.loads(content)
            for number in range(len(items)):
                while number not in found:
                    done, result, error = queue.next()
                    if error is not None:
                        raise error
                    if self.record is not None:
                        self.record.put(names[done], json.dumps(result).encode())
                    found[done] = result
                yield found.pop(number)


class _Lent(AbstractContextManager[Crew]):
    """A crew that somebody else opened, and will close."""

    def __init__(self, hands: Crew) -> None:
        self._hands = hands

    def __enter__(self) -> Crew:
        return self._hands

    def __exit__(self, *_: object) -> None:
        pass


class _Processes(Crew):
    """Processes of this machine; a pool that lost one of them is replaced."""

    def __init__(self, workers: int, record: Record | None) -> None:
        self._number = workers
        super().__init__(self._pool(), record)

    def _pool(self) -> Executor:
        # Threads of torch do not survive a fork.
        from concurrent.futures import ProcessPoolExecutor

        return ProcessPoolExecutor(self._number, mp_context=multiprocessing.get_context("spawn"))

    @property
    def workers(self) -> int:
        return self._number

    def restart(self) -> bool:
        self._close()
        self.executor = self._pool()
        return True

    def _close(self) -> None:
        if self.executor is not None:
            self.executor.shutdown(wait=True, cancel_futures=True)

    def __exit__(self, *_: object) -> None:
        self._close()


class _Cluster(Crew):
    """The workers of a Dask cluster. The scheduler gives the pieces of a lost worker to others by itself."""

    def __init__(self, address: str, record: Record | None) -> None:
        self._client = connected(address)
        self._counted, self._workers = 0.0, 1
        super().__init__(self._client.get_executor(pure=False), record)

    @property
    def workers(self) -> int:
        if time.monotonic() - self._counted > _LOOK:
            self._counted, self._workers = time.monotonic(), max(1, sum(self._client.nthreads().values()))
        return self._workers

    def send(self, shared: Any) -> Any:
        # On all workers, so that the loss of one loses nothing; under a new name, so that a lost one is not found
        # again.
        return self._client.scatter([shared], broadcast=True, hash=False)[0]

    def restart(self) -> bool:
        return self._client.status == "running"

    def __exit__(self, *_: object) -> None:
        self._client.close(timeout=10)


class Pieces(AbstractContextManager["Pieces"]):
    """A queue of pieces of one kind; `next` hands over what is done, in any order."""

    def __init__(self, hands: Crew, function: Callable[[Any, Any], Any], shared: Any, first_here: bool) -> None:
        self._hands, self._function, self._shared, self._first_here = hands, function, shared, first_here
        self._key, self._sent = uuid4().hex, None
        self._waiting: deque[tuple[Any, Any]] = deque()
        self._losses: dict[Any, int] = {}
        self._under_way: dict[Future[Any], tuple[Any, Any]] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def add(self, name: Any, item: Any) -> None:
        self._waiting.append((name, item))

    def next(self) -> tuple[Any, Any, Exception | None]:
        """The name of a piece that is done, its result, and what it raised instead."""
        if self._first_here and len(self) == len(self._waiting) == 1:
            name, item = self._waiting.popleft()
            return name, self._function(self._shared, item), None
        while True:
            self._fill()
            done, _ = wait(self._under_way, return_when=FIRST_COMPLETED)
            future = next(iter(done))
            name, item = self._under_way.pop(future)
            try:
                return name, future.result(), None
            except (BrokenExecutor, CancelledError) as error:
                self._lost(name, item, error)
            except Exception as error:
                return name, None, error

    def _fill(self) -> None:
        """Send as many pieces as keep all workers busy."""
        while self._waiting and len(self._under_way) < self._hands.ahead:
            if self._sent is None:
                self._sent = self._hands.send(self._shared)
            name, item = self._waiting.popleft()
            try:
                future = self._hands.submit(_work, self._function, self._key, self._sent, item)
            except BrokenExecutor as error:
                self._lost(name, item, error)
                continue
            self._under_way[future] = name, item

    def _lost(self, name: Any, item: Any, error: BaseException) -> None:
        """A worker took a piece with it. All that were under way there are sent again, to new workers."""
        again = [(name, item)]
        if isinstance(error, BrokenExecutor):  # the whole pool is gone, and with it all that it was at
            again += [what for future, what in self._under_way.items() if not _came_back(future)]
            self._under_way = {future: what for future, what in self._under_way.items() if _came_back(future)}
        self._losses[name] = self._losses.get(name, 0) + 1
        if self._losses[name] > _MOST_LOSSES or not self._hands.restart():
            raise RuntimeError(f"the workers were lost {self._losses[name]} times at one piece of work") from error
        self._sent = None
        self._waiting.extendleft(reversed(again))

    def __exit__(self, *_: object) -> None:
        for future in self._under_way:
            with suppress(Exception):
                future.cancel()
        self._under_way, self._sent = {}, None


def _came_back(future: Future[Any]) -> bool:
    return future.done() and not future.cancelled() and not isinstance(future.exception(), BrokenExecutor)


def _work(function: Callable[[Any, Any], Any], key: str, shared: Any, item: Any) -> Any:
    """On a worker: the first copy of what is shared serves all pieces of a queue."""
    kept = _KEPT.get(key)
    if kept is None:
        _KEPT.clear()
        kept = _KEPT[key] = shared
    with _memory_kept():
        return function(kept, item)


@contextmanager
def _memory_kept() -> Iterator[None]:
    """Freed memory stays with the process while a piece is worked on.

    Dask's nanny starts workers with MALLOC_TRIM_THRESHOLD_ = 65536, which also ends glibc's own adjustment: every array
    of more than 128 kB is mapped anew and its pages are cleared. Proofs make such arrays thousands of times a second,
    and took four times as long. Afterwards the thresholds are those of before, and what is free is given back.
    """
    threshold, libc = os.environ.get("MALLOC_TRIM_THRESHOLD_", ""), None
    if threshold.isdecimal() and sys.platform == "linux":
        with suppress(OSError):
            libc = ctypes.CDLL(None)
    if libc is None or not (hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim")):
        yield
        return
    libc.mallopt(_TRIM_THRESHOLD, _ROOM)
    libc.mallopt(_MMAP_THRESHOLD, _ROOM // 16)
    try:
        yield
    finally:
        libc.mallopt(_TRIM_THRESHOLD, min(int(threshold), _ROOM))
        libc.mallopt(_MMAP_THRESHOLD, 128 * 1024)
        libc.malloc_trim(0)
