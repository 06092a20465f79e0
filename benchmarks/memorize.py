"""Exact recall: our memory, the same architecture trained with Adam, a dict and nearest neighbours, in one run.

    python benchmarks/memorize.py                 everything; training may take ten minutes for each size
    python benchmarks/memorize.py --seconds 60    training stops after a minute for each size
    python benchmarks/memorize.py --quick         small sizes, a few seconds of training
    python benchmarks/memorize.py --part recall   one part alone: recall, train, floor
    python benchmarks/memorize.py --part cluster --sequences 1e8 --folder /big/disk
                                                  by shards on two Dask workers, one of which is killed; needs
                                                  softwright[scale] and 80 bytes of disk for each sequence

Recall is asked of every stored sequence through the pruned engine and of a few hundred through the dense one, which
runs both layers literally. Trained networks have the same parts: embedding, one softmax head of rank s with a residual,
read at a sentinel, and a relu readout; they are stopped as soon as every training sequence is right.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import softwright as sw

Rows = Any


def random(count: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 1000, (count, 16))


def edited(count: int, rng: np.random.Generator) -> np.ndarray:
    """Each differs from another by one token."""
    rows = np.repeat(rng.integers(0, 1000, (max(1, count // 100), 16)), 101, axis=0)[: count + count // 50]
    rows[np.arange(len(rows)), rng.integers(0, 16, len(rows))] = rng.integers(0, 1000, len(rows))
    return distinct(rows, rng)[:count]


def permuted(count: int, rng: np.random.Generator) -> np.ndarray:
    """Half are permutations of others, half differ from another by two neighbours that swapped places."""
    half = count // 2
    wide = np.repeat(rng.integers(0, 1000, (max(1, half // 100), 16)), 101, axis=0)[: half + half // 50]
    near = rng.integers(0, 1000, (-(-(count - half) // 16), 16))
    swapped = np.repeat(near, 16, axis=0)
    at, every = np.tile(np.arange(16), len(near)), np.arange(len(swapped))  # 15 swaps, and the sequence itself
    left, right = np.minimum(at, 14), np.where(at < 15, np.minimum(at, 14) + 1, 14)
    swapped[every, left], swapped[every, right] = swapped[every, right], swapped[every, left].copy()
    return distinct(np.concatenate([rng.permuted(wide, axis=1), swapped]), rng)[:count]


def ragged(count: int, rng: np.random.Generator) -> list[list[int]]:
    """Lengths 1 to 64."""
    lengths = rng.integers(1, 65, 2 * count)
    rows = {tuple(rng.integers(0, 1000, n).tolist()): None for n in lengths}
    return [list(row) for row in rows][:count]


def repeated(count: int, rng: np.random.Generator) -> np.ndarray:
    """Four different tokens in sixteen places."""
    return distinct(rng.integers(0, 4, (count + count // 10, 16)), rng)[:count]


def distinct(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(np.unique(rows, axis=0))


DATA: dict[str, Callable[[int, np.random.Generator], Rows]] = {
    "random": random,
    "one edit": edited,
    "permuted, swapped": permuted,
    "ragged 1..64": ragged,
    "repeated tokens": repeated,
}


def recall_table(count: int, million: bool) -> None:
    print(f"\n## Recall of {count} sequences (n = 16 but for ragged, 1000 tokens, 10 classes, or real labels)\n")
    print(
        "| data | stored | dtype | rank | build s | recall | dense recall | queries/s | margin | parameters | paper C |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, make in DATA.items():
        rng = np.random.default_rng(1)
        rows = make(count, rng)
        for dtype in ("float64", "float32"):
            recall_line(name, rows, rng.integers(0, 10, len(rows)), dtype)
    rng = np.random.default_rng(2)
    rows = edited(count, rng)
    for dtype in ("float64", "float32"):
        recall_line("one edit, real labels", rows, rng.uniform(-1, 1, len(rows)), dtype)
    if million:
        for name in ("random", "one edit", "permuted, swapped"):
            rows = DATA[name](1_000_000, np.random.default_rng(3))
            recall_line(name, rows, np.random.default_rng(4).integers(0, 10, len(rows)), "float64")


def recall_line(name: str, rows: Rows, labels: np.ndarray, dtype: str) -> None:
    started = time.perf_counter()
    built = sw.memorize(rows, labels, dtype=dtype)
    seconds = time.perf_counter() - started
    network = built.network
    started = time.perf_counter()
    found = network.recall(rows)
    speed = len(rows) / (time.perf_counter() - started)
    dense = network.recall(rows[:200], engine="dense")
    if labels.dtype.kind == "f":
        right = f"error {np.abs(found.labels - labels).max():.1e}"
        literal = f"error {np.abs(dense.labels - labels[:200]).max():.1e}"
    else:
        right = f"{np.mean(np.asarray(found.labels) == labels) * 100:.4g} %"
        literal = f"{np.mean(np.asarray(dense.labels) == labels[:200]) * 100:.4g} %"
    q = built.certificate.quantities
    print(
        f"| {name} | {len(rows)} | {dtype} | {network.rank} | {seconds:.1f} | {right} | {literal} | {speed:,.0f} | "
        f"{q['margin']:.1e} | {network.parameter_count} | {q['paper_parameters']:.3g} |",
        flush=True,
    )


class Trained(nn.Module):
    """One softmax head of rank s with a residual, read at a sentinel, and a relu readout."""

    def __init__(self, rank: int, width: int, hidden: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(1001, width), nn.Parameter(0.1 * torch.randn(17, width))
        self.query, self.key = nn.Linear(width, rank, bias=False), nn.Linear(width, rank, bias=False)
        self.value, self.out = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=False)
        self.readout = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, 10))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        sentinel = torch.full((len(rows), 1), 1000)
        x = self.tokens(torch.cat([sentinel, rows], dim=1)) + self.places  # (B, 17, width)
        heard = nn.functional.scaled_dot_product_attention(self.query(x[:, :1]), self.key(x), self.value(x))
        return self.readout((x[:, :1] + self.out(heard))[:, 0])


def train(
    rows: np.ndarray, labels: np.ndarray, rank: int, width: int, hidden: int, limit: float
) -> tuple[float, float]:
    """(recall, CPU seconds) when all are right or the time is up; CPU seconds, so that a busy machine is no excuse."""
    torch.manual_seed(0)
    model = Trained(rank, width, hidden)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    x, y = torch.from_numpy(rows), torch.from_numpy(labels)
    started = time.process_time()
    recall = 0.0
    while time.process_time() - started < limit and recall < 1.0:
        for batch in torch.randperm(len(x)).split(256):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimiser.step()
        with torch.no_grad():
            recall = float((model(x).argmax(dim=1) == y).double().mean())
    return recall, time.process_time() - started


def training_table(counts: tuple[int, ...], limit: float) -> None:
    print(f"\n## The same architecture, constructed and trained with Adam (limit {limit:.0f} CPU s)\n")
    print("| data | stored | ours | Adam, rank 1, width 16, hidden 256 | Adam, rank 8, width 64, hidden 1024 |")
    print("|---|---|---|---|---|")
    for count in counts:
        for name in ("one edit", "permuted, swapped"):
            rng = np.random.default_rng(5)
            rows = DATA[name](count, rng)
            labels = rng.integers(0, 10, len(rows))
            started = time.process_time()
            network = sw.memorize(rows, labels).network
            seconds = time.process_time() - started
            right = float(np.mean(np.asarray(network.recall(rows).labels) == labels))
            cells = [f"{right * 100:.4g} % in {seconds:.2g} s"]
            for rank, width, hidden in ((1, 16, 256), (8, 64, 1024)):
                recall, spent = train(rows, labels, rank, width, hidden, limit)
                cells.append(f"{recall * 100:.4g} % {'in' if recall == 1 else 'after'} {spent:.0f} s")
            print(f"| {name} | {len(rows)} | " + " | ".join(cells) + " |", flush=True)


def floor_table(count: int) -> None:
    """What a dictionary and nearest neighbours need for the same."""
    rng = np.random.default_rng(6)
    rows, labels = edited(count, rng), rng.integers(0, 10, count)
    labels = labels[: len(rows)]
    print(f"\n## The floor: {len(rows)} sequences with one edit\n")
    print("| | build s | queries/s | recall |")
    print("|---|---|---|---|")

    started = time.perf_counter()
    table = dict(zip(map(bytes, rows), labels.tolist(), strict=True))
    built = time.perf_counter() - started
    started = time.perf_counter()
    found = [table[bytes(row)] for row in rows]
    floor_line("dict", built, len(rows), time.perf_counter() - started, np.array(found) == labels)

    try:
        from sklearn.neighbors import KNeighborsClassifier
    except ImportError:
        print("scikit-learn is missing: pip install 'softwright[sklearn]'", file=sys.stderr)
    else:
        started = time.perf_counter()
        model = KNeighborsClassifier(n_neighbors=1, metric="hamming", algorithm="brute").fit(rows, labels)
        built = time.perf_counter() - started
        some = slice(0, 300)
        started = time.perf_counter()
        answer = model.predict(rows[some])
        floor_line("scikit-learn 1-NN", built, 300, time.perf_counter() - started, answer == labels[some])

    for dtype in ("float64", "float32"):
        started = time.perf_counter()
        network = sw.memorize(rows, labels, dtype=dtype).network
        built = time.perf_counter() - started
        for engine, some in (("pruned", len(rows)), ("dense", 300)):
            started = time.perf_counter()
            got = network.recall(rows[:some], engine=engine).labels
            spent = time.perf_counter() - started
            floor_line(f"ours, {dtype}, {engine}", built, some, spent, np.asarray(got) == labels[:some])


def floor_line(name: str, built: float, count: int, seconds: float, right: np.ndarray) -> None:
    print(f"| {name} | {built:.2f} | {count / seconds:,.0f} | {right.mean() * 100:.4g} % |", flush=True)


def drawn(piece: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """One piece of a large memory, drawn again whenever it is needed: 16 tokens of 1000, ten classes."""
    number, rows = piece
    rng = np.random.default_rng([11, number])
    return rng.integers(0, 1000, (rows, 16), dtype=np.int32), rng.integers(0, 10, rows)


class Watch(threading.Thread):
    """The memory of some processes and all their children together, looked at four times a second; and a kill."""

    def __init__(self, victim: int, after: Path, files: int) -> None:
        super().__init__(daemon=True)
        self.victim, self.after, self.files = victim, after, files
        self.peak, self.killed, self.over = 0, "", threading.Event()

    def run(self) -> None:
        own = import_module("psutil").Process()
        gone = import_module("psutil").NoSuchProcess
        while not self.over.wait(0.25):
            held = 0
            for process in [own, *own.children(recursive=True)]:
                try:
                    held += process.memory_info().rss
                except gone:
                    continue
            self.peak = max(self.peak, held)
            written = len(list(self.after.glob("*.part/runs/run-*.npy")))
            if not self.killed and written >= self.files:
                os.kill(self.victim, signal.SIGKILL)
                self.killed = f"process {self.victim}, with {written} pieces written"


@contextmanager
def workers(count: int) -> Iterator[Any]:
    os.environ["OMP_NUM_THREADS"] = "1"
    with import_module("distributed").LocalCluster(
        n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster


def cluster_part(count: int, rows: int, hands: int, place: Path | None) -> None:
    """Many sequences by shards: time, memory, disk, the smallest gap, recall, and a worker that is killed."""
    print(f"\n## {count:,} sequences of 16 tokens by shards of {rows:,}, {hands} Dask worker(s)\n", flush=True)
    pieces = [(number, min(rows, count - at)) for number, at in enumerate(range(0, count, rows))]
    started = time.perf_counter()

    def say(message: str) -> None:
        if message.endswith(f"of {len(pieces)}") and int(message.split()[-3]) % max(1, len(pieces) // 4) == 0:
            print(f"  {time.perf_counter() - started:6.0f} s  {message}", flush=True)

    with tempfile.TemporaryDirectory(dir=place) as made, workers(hands) as cluster:
        folder = Path(made) / "memory"
        victim = next(iter(cluster.workers.values())).process.pid
        watch = Watch(victim, Path(made), max(1, len(pieces) // 3))
        watch.start()
        memory = sw.memorize_shards(
            pieces, folder, read=drawn, rows=rows, ask=min(count, 1_000_000), cluster=cluster.scheduler_address,
            progress=say,
        )  # fmt: skip
        seconds = time.perf_counter() - started
        watch.over.set()
        watch.join()
        disk = sum(path.stat().st_size for path in folder.iterdir())
        used = os.times()
        told = memory.certificate or {}
        claim, quantities = told["claim"], told["evidence"][0]["quantities"]
        print(f"built           {seconds:.0f} s by the clock; killed: {watch.killed or 'nobody'}")
        print(f"memory          {watch.peak / 1e9:.2f} GB at most: client, scheduler and workers together")
        print(f"disk            {disk / 1e9:.2f} GB, {disk / count:.1f} bytes a sequence")
        print(f"rank            {quantities['rank']:.0f}, no two ids closer than {quantities['gap']:.3g}, margin "
              f"{quantities['margin']:.3g}, error of the class index proved below {claim['bound']:.2g}")  # fmt: skip
        print(f"client          {used.user + used.system:.0f} s CPU", flush=True)
        observed = memory.observed or {}
        print(f"asked           {observed.get('points')} stored sequences, largest deviation {observed.get('error')}")
        sequences, labels = drawn(pieces[-1])
        some = slice(0, 4)
        found = memory.recall(sequences[some], engine="dense")
        right = int((np.array(found.labels) == labels[some]).sum())
        print(
            f"dense           {right} of 4 right, attention over all {len(memory):,} keys, weight {found.weight.min()}"
        )
        strangers = np.random.default_rng(12).integers(0, 1000, (1000, 16))
        print(
            f"strangers       {int(memory.recall(strangers, unknown='abstain').known.sum())} of 1000 taken for stored"
        )
        begun, used = time.perf_counter(), time.process_time()
        verdict = sw.verify(folder, progress=False, max_seconds=3600.0)
        print(f"verify          {verdict.status}, {time.process_time() - used:.0f} s CPU, "
              f"{time.perf_counter() - begun:.0f} s by the clock: {verdict.reason}", flush=True)  # fmt: skip
        print(f"whole           {time.perf_counter() - started:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=600.0, help="limit of each training")
    parser.add_argument("--part", choices=("recall", "train", "floor", "cluster"))
    parser.add_argument("--stored", type=int, action="append", help="sequences in the training table; 1000 and 10000")
    parser.add_argument("--sequences", type=float, default=1e8, help="of --part cluster")
    parser.add_argument("--rows", type=float, default=1e6, help="of a piece, and of a shard")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where the shards go; they are removed in the end")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    parts = (arguments.part,) if arguments.part else ("recall", "train", "floor")
    if "cluster" in parts:
        cluster_part(int(arguments.sequences), int(arguments.rows), arguments.workers, arguments.folder)
    if "recall" in parts:
        recall_table(5_000 if arguments.quick else 100_000, million=not arguments.quick)
    if "floor" in parts:
        floor_table(5_000 if arguments.quick else 100_000)
    if "train" in parts:
        training_table(
            (300,) if arguments.quick else tuple(arguments.stored or (1_000, 10_000)),
            min(arguments.seconds, 3.0) if arguments.quick else arguments.seconds,
        )


if __name__ == "__main__":
    main()
