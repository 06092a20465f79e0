"""Proofs on a cluster: the same verdict, lost workers and clients, speed-up, and the memory of ten million boxes.

python benchmarks/cluster.py --part all          needs softwright[scale]; about five minutes on two free cores
python benchmarks/cluster.py --part speedup      by the clock it needs two free cores; work is counted beside it

same      a proof of about 10^5 boxes, serial and by two Dask workers: verdict, bound, tree; then `verify`, in pieces
worker    the same while one of the workers is killed
client    the same while the client is killed; then --resume, and how much is computed twice
speedup   one worker and two, of a Dask cluster and as processes, three proofs of 4 to 15 s: seconds by the clock, and
          CPU seconds of the workers, of the client and of everything else that ran
memory    a simulated search of 10^7 boxes: the coordinator's memory, the bytes that travel, the file and its reader
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import softwright as sw
from softwright.checker.parts import PIECE, cut
from softwright.domain import Box
from softwright.proof.arithmetic.series import basis
from softwright.proof.prover import certify
from softwright.proof.question import pose
from softwright.proof.search.residual import BoxBounds, Residual
from softwright.proof.search.search import Goal, Limits, Run
from softwright.proof.search.units import find
from softwright.records import Record
from softwright.result.built import Built
from softwright.result.proof_tree import count_leaves, decode_tree, encode_tree
from softwright.scale import Crew, connected, crew

TEXT, BOX = "sin(3*x)*exp(-y**2)*cos(2*x*y)", {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}
CLAIM: dict[str, Any] = {"bound": 6e-6, "order": 2, "max_boxes": 10**7, "max_work": 1e6, "max_seconds": 3600.0}
# For one worker and two: the same network at two claims, then 2,048 tokens in one variable, whose boxes cost more.
SPED: dict[str, tuple[str, dict[str, Any]]] = {
    "plane, 6e-6": (TEXT, CLAIM),
    "plane, 2e-6": (TEXT, CLAIM | {"bound": 2e-6}),
    "line, 1e-6": ("sin(512*x)", CLAIM | {"bound": 1e-6, "order": 3}),
}


def network() -> Built[Any]:
    return sw.approximate(TEXT, BOX, tol=1e-6, strategy="grid", certify=False, progress=False)


@contextmanager
def local(workers: int) -> Iterator[Any]:
    os.environ["OMP_NUM_THREADS"] = "1"
    with import_module("distributed").LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        warm(cluster.scheduler_address, workers)
        yield cluster


def warm(address: str, workers: int) -> None:
    """Have every worker import what it needs, so that this is no part of a measurement."""
    with connected(address) as client:
        client.wait_for_workers(workers)
        client.run(_imported)


def _imported() -> str:
    import softwright.checker.verify
    import softwright.proof.prover

    return softwright.checker.verify.__name__ + softwright.proof.prover.__name__


def same(bound: float) -> None:
    built = network()
    claim: dict[str, Any] = CLAIM | {"bound": bound}
    started, before = time.perf_counter(), time.process_time()
    serial = certify(built.network, TEXT, progress=False, **claim)
    print(
        f"serial          {serial.status}, {serial.boxes} boxes, {serial.evaluations} bounded, "
        f"{time.process_time() - before:.1f} s CPU, {time.perf_counter() - started:.1f} s"
    )
    with local(2) as cluster:
        started = time.perf_counter()
        found = certify(built.network, TEXT, cluster=cluster.scheduler_address, progress=False, **claim)
        _compare("two workers", serial, found, time.perf_counter() - started)
        # A claim of few boxes at the usual order, because the checker takes its time for each.
        short = certify(built.network, TEXT, bound=bound / 6, order=4, progress=False)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "proved.safetensors"
            replace(built, certificate=short.certificate).save(path)
            alone = sw.verify(path, progress=False)
            with crew(cluster=cluster.scheduler_address) as hands:
                apart = sw.verify(path, progress=False, executor=hands)
            print(f"verify          {short.boxes} boxes: alone {alone.status}, by two workers {apart.status}")
            _demand(alone.status == apart.status == "VERIFIED" and alone.boxes == apart.boxes, "the verdicts differ")


def _compare(name: str, serial: Any, found: Any, seconds: float) -> None:
    tree = found.certificate is not None and found.certificate.tree == serial.certificate.tree
    print(f"{name:15} {found.status}, {found.boxes} boxes, {seconds:.1f} s; the tree of the serial proof: {tree}")
    _demand(found.status == serial.status and found.bound == serial.bound, "the verdicts differ")


def _demand(held: bool, otherwise: str) -> None:
    if not held:
        raise SystemExit(f"FAILED: {otherwise}")


def worker() -> None:
    built = network()
    serial = certify(built.network, TEXT, progress=False, **CLAIM)
    with local(2) as cluster, tempfile.TemporaryDirectory() as folder:
        victim = next(iter(cluster.workers.values())).process.pid
        killer = threading.Thread(target=_kill_at, args=(victim, Path(folder), 8))
        killer.start()
        started = time.perf_counter()
        found = certify(built.network, TEXT, cluster=cluster.scheduler_address, resume=folder, progress=False, **CLAIM)
        killer.join()
        _compare("worker killed", serial, found, time.perf_counter() - started)


def _kill_at(pid: int, folder: Path, pieces: int) -> None:
    while len(_pieces(folder)) < pieces:
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    print(f"                (killed process {pid} with {len(_pieces(folder))} units written down)")


def _pieces(folder: Path) -> list[Path]:
    return list(folder.glob("??/*.piece"))


def client() -> None:
    built = network()
    serial = certify(built.network, TEXT, progress=False, **CLAIM)
    with local(2) as cluster, tempfile.TemporaryDirectory() as made:
        folder, file = Path(made) / "record", Path(made) / "network.safetensors"
        built.save(file)
        options = [
            part
            for name in ("bound", "order", "max_boxes", "max_work", "max_seconds")
            for part in (f"--{name.replace('_', '-')}", str(CLAIM[name]))
        ]
        command = [sys.executable, "-m", "softwright", "certify", str(file), *options]
        command += ["--cluster", cluster.scheduler_address, "--resume", str(folder), "--json"]
        first = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wanted = 25
        while len(_pieces(folder)) < wanted and first.poll() is None:
            time.sleep(0.02)
        first.send_signal(signal.SIGKILL)
        first.wait()
        kept = len(_pieces(folder))
        print(f"client killed   {kept} units written down")
        started = time.perf_counter()
        found = certify(built.network, TEXT, cluster=cluster.scheduler_address, resume=folder, progress=False, **CLAIM)
        _compare("resumed", serial, found, time.perf_counter() - started)
        units, done = len(_pieces(folder)), _executed(cluster.scheduler_address)
        # The first unit, alone in the queue, is computed by the client itself, and is written down.
        again = done - (units - 1)
        print(f"                {units} units; {again} computed twice, {again / units:.1%}")
        _demand(0 < kept < units and again / units < 0.05, "too much was computed twice")


def _executed(address: str) -> int:
    """How many pieces the workers have computed since they started."""
    with connected(address) as client:
        return sum(client.run(_count).values())


def _count(dask_worker: Any = None) -> int:
    return int(dask_worker.state.executed_count)


def speedup() -> None:
    from certify import fitted  # here: processes that start import this file

    line = SPED["line, 1e-6"][0]
    networks = {TEXT: network().network, line: fitted(line, Box(x=(-1, 1)), 2048, 1.5, 3, 1e-9)}
    found: dict[str, dict[str, list[_Timed]]] = {"Dask": {}, "processes": {}}
    for workers in (1, 2):
        with local(workers) as cluster:
            address = cluster.scheduler_address
            for name, (text, claim) in SPED.items():
                with _timed(lambda address=address: _spent(address)) as timed:
                    proof = certify(networks[text], text, cluster=address, progress=False, **claim)
                timed.say(f"Dask, {workers}: {name}, {proof.status}, {proof.evaluations} boxes bounded")
                found["Dask"].setdefault(name, []).append(timed)
    for workers in (1, 2):
        with crew(workers=workers) as hands:
            certify(networks[line], line, bound=1e-3, executor=hands, progress=False)  # processes have started
            for name, (text, claim) in SPED.items():
                with _timed(_children) as timed:
                    certify(networks[text], text, executor=hands, progress=False, **claim)
                timed.say(f"processes, {workers}: {name}")
                found["processes"].setdefault(name, []).append(timed)
    for kind, rows in found.items():
        for name, (one, two) in rows.items():
            clock, work = one.seconds / two.seconds, one.workers[-1] / two.workers[-1]
            print(f"speed-up        {kind}, {name}: {clock:.2f} by the clock, {work:.2f} by work", flush=True)


@dataclass
class _Timed:
    """What a proof took: seconds by the clock, CPU seconds of its workers, of the client and of everybody else."""

    seconds: float = 0.0
    workers: tuple[float, ...] = ()
    client: float = 0.0
    others: float = 0.0

    def say(self, what: str) -> None:
        each = ", ".join(f"{one:.1f}" for one in self.workers)
        print(f"{what}: {self.seconds:.1f} s", flush=True)
        print(
            f"                CPU s: workers {each}, client {self.client:.1f}, all else {self.others:.1f}", flush=True
        )


@contextmanager
def _timed(spent: Callable[[], Mapping[Any, float]]) -> Iterator[_Timed]:
    timed, before, busy = _Timed(), spent(), _busy()
    own, started = time.process_time(), time.perf_counter()
    yield timed
    timed.seconds, timed.client = time.perf_counter() - started, time.process_time() - own
    all_busy = _busy() - busy
    timed.workers = tuple(sorted(after - before.get(name, 0.0) for name, after in spent().items()))
    timed.others = max(0.0, all_busy - timed.client - sum(timed.workers))


def _busy() -> float:
    """CPU seconds that all cores of this machine have worked."""
    user, nice, system, _, _, irq, soft = map(int, Path("/proc/stat").read_text().split(maxsplit=8)[1:8])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def _spent(address: str) -> dict[str, float]:
    """CPU seconds of every worker since it started."""
    with connected(address) as client:
        return dict(client.run(time.process_time))


def _children() -> dict[int, float]:
    """CPU seconds of the processes that this one started."""
    found, ticks = {}, os.sysconf("SC_CLK_TCK")
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == os.getpid():
            found[int(place.parent.name)] = (int(fields[11]) + int(fields[12])) / ticks
    return found


@dataclass(frozen=True)
class Simulated(Residual):
    """Bounds by a formula of place and size of a box, so that a search of any length costs little."""

    def cost(self, boxes: int, groups: int) -> float:
        return 1000.0 * boxes

    @property
    def at_once(self) -> int:
        return 4096

    def bounds(
        self, centers: np.ndarray, radii: np.ndarray, groups: Sequence[np.ndarray], accuracy: float
    ) -> BoxBounds:
        ridge = 1.0 + 40.0 * np.exp(-30.0 * (centers[:, 0] ** 2 + 0.3 * centers[:, 1] - 0.2) ** 2)
        upper = ridge * (radii**2).sum(axis=1)
        nothing, none = np.zeros(len(centers)), np.zeros((1, len(centers)))
        split = radii * (1.0 + 0.3 * np.abs(centers))
        return BoxBounds(upper, nothing, 1e-3 * upper, 1e-3 * upper, split, -upper[None], upper[None], none)


class Counting(Crew):
    """This process as a worker, with a count of what would have travelled."""

    sent = received = pieces_sent = 0

    def submit(self, function: Any, *arguments: Any) -> Any:
        future = super().submit(function, *arguments)
        self.sent += sum(array.nbytes for array in arguments[-1])
        self.received += len(future.result())
        self.pieces_sent += 1
        return future


def memory(leaves: int) -> None:
    built = network()
    real = pose(built.network, TEXT, None, "sdpa", 2).residual
    residual = Simulated(real.heads, real.target, 2, 1, 2, np.zeros(1))
    goal = Goal(52.0 / leaves, 1.0)
    print(f"before          {_peak():.0f} MB, basis of {basis(2, 2).size}")
    started, hands = time.process_time(), Counting()
    with tempfile.TemporaryDirectory() as folder:
        record = Record(folder, {"what": "simulation"})
        run = Run(Limits(1e9, 10**9), crew=hands, record=record)
        low, high = np.full(2, -1.0), np.full(2, 1.0)
        found = find(residual, (low, high), goal, run)
        disk = sum(path.stat().st_size for path in _pieces(Path(folder)))
        files = len(_pieces(Path(folder)))
    seconds = time.process_time() - started
    print(f"search          {found.leaves} leaves, {found.evaluations} boxes, finished: {found.finished}")
    print(f"                {seconds:.0f} s CPU, peak {_peak():.0f} MB")
    back = hands.received / found.leaves
    print(
        f"traffic         {hands.pieces_sent} units: {hands.sent / 1e6:.1f} MB out, {hands.received / 1e6:.1f} MB back"
    )
    print(f"                {back:.2f} bytes a leaf; on disk {disk / 1e6:.1f} MB in {files} files")
    text = encode_tree(found.tree)
    _demand(count_leaves(decode_tree(text), 2) == found.leaves, "the tree is not what was searched")
    print(f"file            tree {len(found.tree) / 1e6:.1f} MB, {len(text) / 1e6:.2f} MB in the file")
    print(f"                peak {_peak():.0f} MB")
    pieces, most, total, nodes = 0, 0, 0, 0
    for way, below in cut(found.tree, 2, PIECE):
        pieces, nodes = pieces + 1, nodes + below.count(255)
        total += len(below) + 2 * len(way)
        most = max(most, len(below))
    _demand(nodes == found.leaves, "the pieces are not the tree")
    print(f"verify          {pieces} pieces, {total / 1e6:.1f} MB out, the largest {most} nodes; peak {_peak():.0f} MB")
    _demand(_peak() < 2000.0, "more than 2 GB")


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="all", choices=("all", "same", "worker", "client", "speedup", "memory"))
    parser.add_argument(
        "--bound", type=float, default=CLAIM["bound"], help="of the proof of `same`: fewer boxes if larger"
    )
    parser.add_argument("--leaves", type=int, default=10_000_000, help="of the simulated proof")
    given = parser.parse_args()
    parts = {
        "same": lambda: same(given.bound),
        "worker": worker,
        "client": client,
        "memory": lambda: memory(given.leaves),
        "speedup": speedup,
    }
    for name in parts if given.part == "all" else [given.part]:
        print(f"--- {name}", flush=True)
        parts[name]()


if __name__ == "__main__":
    main()
