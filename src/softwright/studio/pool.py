"""`Pool`: threads that take jobs from a queue and give each to a process of its own, which they watch and may end.

Processes are forked from a server that has everything loaded, so that a small job costs what it takes and not the
import of torch. A process that dies, is too slow or is stopped costs its job alone.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import threading
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from softwright.studio.cluster import Cluster
from softwright.studio.limits import Limits
from softwright.studio.store import DONE, FAILED, QUEUED, RUNNING, STOPPED, Job, Store
from softwright.studio.worker import PRELOADED, work

_TICK = 0.2  # seconds between two looks at a silent process


class Pool:
    """Runs the jobs of a store."""

    def __init__(self, store: Store, limits: Limits, cluster: str = "") -> None:
        self.store, self.limits = store, limits
        self._cluster = Cluster(cluster) if cluster else None
        self._queue: queue.SimpleQueue[tuple[Job, dict[str, Any], threading.Event | None] | None] = queue.SimpleQueue()
        self._running: dict[str, BaseProcess] = {}
        self._lock, self._closing = threading.Lock(), False
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(PRELOADED))
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(limits.workers)]
        for thread in self._threads:
            thread.start()

    def add(self, job: Job) -> None:
        self._queue.put((job, {"what": job.what, "entries": job.entries}, None))

    def make(self, job: Job, name: str) -> threading.Event:
        """Have a file of a finished job written; the event is set when a worker has tried."""
        over = threading.Event()
        self._queue.put((job, {"what": "make", "entries": {"name": name}}, over))
        return over

    def stop(self, job: Job) -> bool:
        """End a job, running or not; says whether there was one to end."""
        stopped = self.store.set(job, STOPPED, error="stopped")
        with self._lock:
            process = self._running.get(job.id)
        if stopped and process is not None:
            process.kill()
        return stopped

    def close(self) -> None:
        """End all processes and threads; what waits stays as it is on the disk."""
        self._closing = True
        for _ in self._threads:
            self._queue.put(None)
        with self._lock:
            for process in self._running.values():
                process.kill()
        for thread in self._threads:
            thread.join(timeout=5)
        if self._cluster is not None:
            self._cluster.close()

    @property
    def closing(self) -> bool:
        return self._closing

    def _serve(self) -> None:
        while (task := self._queue.get()) is not None and not self._closing:
            job, request, over = task
            try:
                if over is not None:
                    self._run(job, request)
                elif self.store.set(job, RUNNING):
                    told = self._run(job, request)
                    if not self._closing:
                        self._finish(job, *told)
            finally:
                if over is not None:
                    over.set()

    def _finish(self, job: Job, told: dict[str, Any], seconds: float) -> None:
        if "done" in told:
            self.store.set(job, DONE, result=told["done"], seconds=seconds)
        else:
            self.store.set(job, FAILED, error=told["failed"], seconds=seconds)
        self.store.prune(job.user, self.limits.kept)

    def _run(self, job: Job, request: dict[str, Any]) -> tuple[dict[str, Any], float]:
        """What a process told at its end, and the seconds it took."""
        started = time.monotonic()
        file = self.store.upload(job.user, job.file) if job.file else None
        if self._cluster is not None and request["what"] != "make":
            told = self._cluster.run(request, self.store.folder_of(job), file, self.limits, _Watch(job, self))
            return told, time.monotonic() - started
        hears, tells = self._context.Pipe(duplex=False)
        folder = self.store.folder_of(job)
        arguments = (tells, request, str(folder), None if file is None else str(file), self.limits)
        process = self._context.Process(target=work, args=arguments, daemon=True)
        try:
            process.start()
        except OSError as error:
            return {"failed": f"no process could be started ({error}); ask again"}, 0.0
        tells.close()
        with self._lock:
            self._running[job.id] = process
        if job.state not in (QUEUED, RUNNING, DONE):  # stopped while the process was started
            process.kill()
        try:
            told = self._listen(job, process, hears, started)
        finally:
            with self._lock:
                self._running.pop(job.id, None)
            hears.close()
            process.kill()
            process.join()
        return told, time.monotonic() - started

    def _listen(self, job: Job, process: BaseProcess, hears: Any, started: float) -> dict[str, Any]:
        while True:
            if time.monotonic() - started > self.limits.seconds:
                return {"failed": f"the job took longer than the {self.limits.seconds:g} s it may take"}
            try:
                if not hears.poll(_TICK):
                    continue
                told = hears.recv()
            except (EOFError, OSError):
                process.join(timeout=2)
                return {"failed": f"the worker was ended from outside or by a limit (code {process.exitcode})"}
            if "say" not in told:
                return told
            job.said(told["say"])
            if "boxes" in told:
                job.settled(told["boxes"], told["first"])


class _Watch:
    """How a cluster speaks to the job that it runs."""

    def __init__(self, job: Job, pool: Pool) -> None:
        self._job, self._pool = job, pool

    def said(self, message: str) -> None:
        self._job.said(message)

    def over(self) -> bool:
        return self._job.state not in (QUEUED, RUNNING) or self._pool.closing


def default_folder() -> Path:
    """Where histories are kept unless said otherwise."""
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "softwright" / "studio"
