"""`memorize_shards`: a memory of more sequences than fit into memory, built by many workers, piece by piece.

    look      every piece once: how many rows, which tokens, which classes
    runs      every piece: its ids, sorted, into a file                          (`merge.write_run`)
    shards    every range of ids, from all runs: keys, and the smallest gap      (`merge.write_shard`)
    equal     keys that lie too close: are their sequences the same? then one of them is stored
    margin    the certificate, from the largest numbers of all shards: the same statement as that of `memorize`
    ask       as many stored sequences as wanted, drawn from all pieces

What is written is a folder as `save_shards` writes it: `sw.load` reads it whole where memory allows, and `open_shards`
asks it shard by shard. Workers share the folder; one that is lost costs the pieces it was at.

With `resume` runs and shards are written into that folder first, and every finished piece is written down there
(`records`): a killed client goes on from them. A run counts if its file has its rows, a shard if it has its digest.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from softwright.errors import Faults, InvalidInput, ToleranceNotReached
from softwright.fileformat import InParts, weights_sha256, write_atomically, write_folder, write_model
from softwright.memory.build import MOST_RANK, candidates, gap_floor, sharpness
from softwright.memory.codes import draw_head
from softwright.memory.context_head import ContextHead
from softwright.memory.gap import closest
from softwright.memory.large import merge, pieces
from softwright.memory.large.pieces import Read, Seen, read_npz
from softwright.memory.large.stored import StoredMemory, open_shards
from softwright.memory.margin import Held, certify_memory
from softwright.memory.network import MemoryNetwork
from softwright.memory.readouts import SoftmaxLookup
from softwright.memory.rounding import SLACK, IdErrors, id_errors
from softwright.memory.sequences import Packed, Reading
from softwright.memory.shards import ROWS, SCHEMA, sha256_of
from softwright.memory.verb import check_labels, describe_target, plan_of, seen_at_most
from softwright.precision import Dtype, Precision, precision_of
from softwright.progress import Progress, reporting
from softwright.records import Record
from softwright.scale import Crew, crew
from softwright.version import __version__

_SAMPLE = 20_000
_HOPE = 0.6  # a draw that is likely to fail costs as much as one that succeeds: it is passed over
_MOST_EQUAL = 1_000_000  # pairs of equal sequences that are looked up


def memorize_shards(
    parts: Sequence[Any],
    folder: str | Path,
    *,
    read: Read = read_npz,
    positional: bool = True,
    rank: int | None = None,
    dtype: Dtype = "float64",
    rows: int | None = None,
    ask: int = 100_000,
    seed: int = 0,
    cluster: str | None = None,
    workers: int | None = None,
    resume: str | Path | None = None,
    progress: Progress = None,
) -> StoredMemory:
    """Store the labelled sequences of many pieces in a folder, for exact recall; no more than a piece is in memory.

    parts      the pieces, plain data that `read` understands: paths of .npz files with arrays `sequences` and `labels`
    read       a function of a module, of one piece: its (sequences, labels), the same whenever it is called
    folder     where the memory goes: a new folder that all workers can write to
    positional False reads sequences as multisets
    rank       of W_V; the smallest that keeps ids apart unless given
    rows       about so many items in a shard; a million unless given
    ask        how many stored sequences are asked for when the memory is complete
    cluster    the address of a Dask scheduler; or `workers`, processes of this machine; with neither, this process
    resume     a folder where what is finished is kept until all is done; the same call goes on from there
    """
    started = time.monotonic()
    faults, rows = Faults("memorize_shards"), ROWS if rows is None else rows
    listed = isinstance(parts, Sequence) and not isinstance(parts, str | bytes) and len(parts) > 0
    faults.check(listed, "no pieces; give a list of them, such as the paths of .npz files")
    faults.check(callable(read), f"read = {read!r}; give a function of one piece")
    for name, value, least in (("rows", rows, 1), ("ask", ask, 0), ("seed", seed, 0), ("rank", rank or 1, 1)):
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
        faults.check(whole, f"{name} = {value!r}; give a whole number of at least {least}")
    faults.check(not isinstance(rank, int) or rank <= MOST_RANK, f"rank = {rank!r}; give at most {MOST_RANK}")
    precision = faults.take(precision_of, dtype)
    faults.raise_if_any()
    if precision is None:
        raise RuntimeError("unreachable: an unknown dtype is a fault")
    reading = Reading(positional=positional)
    asked = {"positional": positional, "rank": rank, "dtype": precision.name, "rows": rows, "seed": seed}
    record = None if resume is None else Record(resume, _question(parts, read, asked))
    with reporting(progress, "memorizing") as say, crew(cluster=cluster, workers=workers) as hands:

        def fill(place: Path) -> None:
            work = _Work(list(parts), read, place, reading, precision, rank, rows, seed, hands, say, record)
            work.build(started, ask)

        write_folder(folder, fill)
    if record is not None:
        shutil.rmtree(record.folder / "runs", ignore_errors=True)
    return open_shards(folder)


def _question(parts: Sequence[Any], read: Read, asked: dict[str, Any]) -> dict[str, Any]:
    """What tells one memory from another on its way."""
    pieces_sha256 = hashlib.sha256(repr(list(parts)).encode()).hexdigest()
    name = f"{getattr(read, '__module__', '')}.{getattr(read, '__qualname__', '')}"
    return {"what": "memorize_shards", "pieces": pieces_sha256, "read": name, "version": __version__, **asked}


class _Work:
    """One memory on its way into a folder."""

    def __init__(
        self,
        parts: list[Any],
        read: Read,
        place: Path,
        reading: Reading,
        precision: Precision,
        rank: int | None,
        rows: int,
        seed: int,
        hands: Crew,
        say: Any,
        record: Record | None,
    ) -> None:
        self.parts, self.read, self.place, self.reading, self.precision = parts, read, place, reading, precision
        self.rank, self.rows, self.seed, self.hands, self.say, self.record = rank, rows, seed, hands, say, record
        self.seen: Seen

    def build(self, started: float, ask: int) -> None:
        self.seen = self._look()
        head, gap, found, errors, dropped, why = self._separated()
        count = sum(each["rows"] for each in found)
        held = Held(
            max(each["largest"] for each in found) * SLACK,
            max(each["size"] for each in found),
            max(each["half_error"] for each in found),
        )
        network = self._shell(head, gap, held, errors, count)
        tensors = tensors_of_shell(network)
        shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items() if tensor.is_meta}
        files = [merge.shard_name(number) for number in range(len(found))]
        for name in files:
            shutil.move(self._runs / name, self.place / name)
        if self.record is None:
            shutil.rmtree(self._runs)
        parted = {
            name: InParts(shape, self._numpy, lambda n=name: self._stream(files, n)) for name, shape in shapes.items()
        }
        self.say("hashing the shards")
        held = replace(held, digest=weights_sha256({**tensors, **parted}))
        target = describe_target(network, self.seen.total)
        rounding = max(each["label_rounding"] for each in found) * (1.0 + 1e-12)
        certificate, unproved = certify_memory(network, target, rounding, held)
        if certificate is None:
            raise ToleranceNotReached(f"the margin is not proved: {unproved}")
        repeated = [f"{dropped} repeated item(s) are stored once"] if dropped else []
        sections = {
            "model": {"kind": network.kind, **network.describe()},
            "target": target,
            "plan": plan_of(network, [*why, *repeated], started).as_dict(),
            "observed": None,
            "certificate": certificate.to_json(sorted(network.state_dict()), []),
        }
        entries = [
            {"name": name, "sha256": each["sha256"], "rows": each["rows"], "from": each["from"], "to": each["to"]}
            for name, each in zip(files, found, strict=True)
        ]
        named = {name: [list(shape), self.precision.name] for name, shape in shapes.items()}
        self._write(tensors, sections, entries, named)
        if ask:
            sections["observed"] = self._ask(min(ask, self.seen.total))
            self._write(tensors, sections, entries, named)

    # ------------------------------------------------------------------------------------------------- the steps

    def _look(self) -> Seen:
        found = self._each("looking at the pieces", pieces.look, self.read, self.parts)
        seen = pieces.put_together(found, lambda: list(self.hands.each(pieces.tokens_of, self.read, self.parts)))
        faults = Faults("memorize_shards")
        check_labels(None if seen.classes is None else len(seen.classes), seen.size, self.precision, faults)
        faults.raise_if_any()
        return seen

    def _separated(self) -> tuple[ContextHead, float, list[dict[str, Any]], IdErrors, int, list[str]]:
        """The first draw whose ids are far enough apart, its shards written."""
        count = self.seen.total
        sample = self._sample()
        nearest = 0.0
        dtype = self.precision.torch_dtype
        for rank, places, draws in candidates(count, dtype, self.reading, "attention", self.rank, _HOPE):
            for draw in range(min(draws, 3)):
                head = draw_head(
                    self.seen.alphabet, max(self.seen.longest, 1), self.reading, rank, places, False,
                    self.precision.torch_dtype, self.seed + draw,
                )  # fmt: skip
                name = f"rank {rank} {places}, draw {draw + 1}"
                failed = None if self.record is None else self.record.get(f"failed: {name}")
                if failed is not None:
                    nearest = max(nearest, float(failed))
                if failed is not None or not self._hopeful(head, sample):
                    continue
                found, floor, errors, dropped = self._draw(head, name)
                gap = min((each["gap"] for each in found), default=0.0)
                if gap >= floor:
                    why = f"rank {rank} is the smallest that keeps ids apart ({draw + 1} draw(s))"
                    return (
                        head,
                        gap,
                        found,
                        errors,
                        dropped,
                        [why, f"no two ids are closer than {gap:.3g}, by a sorted merge"],
                    )
                nearest = max(nearest, gap / floor)
                if self.record is not None:
                    self.record.put(f"failed: {name}", repr(gap / floor).encode())
        raise ToleranceNotReached(
            f"no context ids of {count} items in {self.precision.name} are far enough apart for exact recall\n"
            f"  the nearest try has {nearest:.2g} of the gap that is needed\n"
            + ("  use dtype='float64'" if self.precision.name == "float32" else "  leave rank out, or raise it")
        )

    def _sample(self) -> Packed:
        """Different rows of the first piece that has any: most draws that fail do so there."""
        first = next(i for i, n in enumerate(self.seen.rows) if n)
        packed, _ = pieces.checked(self.read, self.parts[first])
        packed = packed.rows(slice(0, _SAMPLE))
        content = packed.content if self.reading.positional else np.sort(packed.content, axis=1)
        flat = np.concatenate([content.reshape(len(packed), -1), packed.lengths[:, None]], axis=1)
        return packed.rows(np.unique(flat, axis=0, return_index=True)[1])

    def _hopeful(self, head: ContextHead, sample: Packed) -> bool:
        keys = head.ids(sample)
        keys = keys - keys.mean(axis=0)
        largest = float(np.sqrt((keys**2).sum(axis=1).max(initial=0.0)))
        floor = gap_floor(id_errors(head, largest), largest, len(head.W_I), "attention", head.dtype)
        return math.isfinite(floor) and closest(keys, floor).gap >= 0.5 * floor

    def _each(
        self,
        stage: str,
        function: Callable[[Any, Any], dict[str, Any]],
        shared: Any,
        items: Sequence[Any],
        there: Callable[[int, dict[str, Any]], bool] = lambda number, result: True,
    ) -> list[dict[str, Any]]:
        """What a stage finds of every item; those that an earlier run has written down are not done again if what they
        speak of is `there`."""
        found: dict[int, dict[str, Any]] = {}
        for number in range(len(items)) if self.record is not None else ():
            content = self.record.get(f"{stage} {number}") if self.record is not None else None
            if content is not None and there(number, result := json.loads(content)):
                found[number] = result
        left = [number for number in range(len(items)) if number not in found]
        for number, each in zip(left, self.hands.each(function, shared, [items[n] for n in left]), strict=True):
            found[number] = each
            if self.record is not None:
                self.record.put(f"{stage} {number}", json.dumps(each).encode())
            self.say(f"{stage}, {len(found)} of {len(items)}")
        return [found[number] for number in range(len(items))]

    @property
    def _runs(self) -> Path:
        return (self.place if self.record is None else self.record.folder) / "runs"

    def _begin(self, name: str) -> None:
        """An empty folder for the runs of a draw; or the one that an earlier run began for the same draw."""
        same = self.record is not None and self.record.get("draw") == name.encode()
        if self._runs.exists() and not same:
            shutil.rmtree(self._runs)
        self._runs.mkdir(exist_ok=True)
        if self.record is not None:
            self.record.put("draw", name.encode())

    @property
    def _numpy(self) -> np.dtype:
        return np.dtype(self.precision.name)

    def _draw(self, head: ContextHead, name: str) -> tuple[list[dict[str, Any]], float, IdErrors, int]:
        """Runs and shards of one draw: what is known of the shards, and the gap that they need."""
        rank = len(head.W_I)
        self._begin(name)
        shared: dict[str, Any] = {
            "read": self.read, "classes": self.seen.classes, "folder": str(self._runs),
            "reading": {"positional": self.reading.positional}, "head": merge.tensors_of_head(head),
        }  # fmt: skip

        def has_rows(number: int, result: dict[str, Any]) -> bool:
            path = merge.run_path(str(self._runs), number)
            return path.is_file() and len(np.load(path, mmap_mode="r")) == result["rows"]

        runs = self._each(f"{name}: sorted runs", merge.write_run, shared, list(enumerate(self.parts)), has_rows)
        total = sum(each["rows"] for each in runs)
        shift = torch.tensor(-np.sum([each["sum"] for each in runs], axis=0) / total, dtype=head.dtype)
        head.W_I[:, head.code_size + 1] = shift
        moved = shift.double().numpy()
        low = np.min([each["low"] for each in runs], axis=0) + moved
        high = np.max([each["high"] for each in runs], axis=0) + moved
        largest = float(np.linalg.norm(np.maximum(np.abs(low), np.abs(high)))) * (1.0 + 1e-6)
        floor = gap_floor(id_errors(head, largest), largest, rank, "attention", head.dtype)
        law = 2.0 * math.exp((math.log(2.0) + math.lgamma(rank / 2 + 1) - 2.0 * math.log(max(total, 2))) / rank)
        window = max(2.0 * floor, min(0.5 * largest * law / math.sqrt(rank), largest / 64.0))
        # Keys are ids shifted and rounded: what that can move them is added to the margin.
        margin = window * (1.0 + 1e-6) + 8.0 * self.precision.unit * largest
        ends = merge.borders(runs, self.rows)
        shared = {
            "folder": str(self._runs), "runs": len(runs), "rank": rank, "dtype": self.precision.name, "shift": moved,
            "window": window, "floor": floor, "margin": margin, "drop": {},
        }  # fmt: skip
        dropped, stage = 0, f"{name}: shards"
        found = self._merged(shared, ends, stage, check=False)
        if any(each["near"] for each in found):
            shared["drop"] = self._equal(found)
            dropped = sum(map(len, shared["drop"].values()))
        if dropped or self.record is not None:
            found = self._merged(shared, ends, f"{stage} without repetitions" if dropped else stage, check=True)
        errors = id_errors(head, max(each["largest"] for each in found) * SLACK)
        return found, floor, errors, dropped

    def _merged(self, shared: dict[str, Any], ends: list[float], stage: str, check: bool) -> list[dict[str, Any]]:
        """All ranges; with `check`, those that were written down by an earlier run have their files."""
        items = [(i, low, high) for i, (low, high) in enumerate(zip(ends, [*ends[1:], math.inf], strict=True))]

        def has_digest(number: int, result: dict[str, Any]) -> bool:
            path = self._runs / merge.shard_name(number)
            return not check or (path.is_file() and sha256_of(path) == result["sha256"])

        return self._each(stage, merge.write_shard, shared, items, has_digest)

    def _equal(self, found: list[dict[str, Any]]) -> dict[int, np.ndarray]:
        """Rows of pieces that equal an earlier one and say the same; those that say otherwise are faults."""
        near = sorted({tuple(pair[:4]) for each in found for pair in each["near"]})
        crowded = any(
            len(each["near"]) >= merge.MOST_LISTED or (each["gap"] == 0.0 and not each["near"]) for each in found
        )
        if crowded or len(near) > _MOST_EQUAL:
            fault = f"more than {len(near)} pairs of sequences are equal or all but equal"
            raise InvalidInput("memorize_shards", [f"{fault}; remove repeated sequences first"])
        wanted: dict[int, set[int]] = {}
        for a, i, b, j in near:
            wanted.setdefault(a, set()).add(i)
            wanted.setdefault(b, set()).add(j)
        rows = {piece: np.array(sorted(some)) for piece, some in wanted.items()}
        shared = {"read": self.read, "classes": self.seen.classes}
        order = sorted(rows)
        held = dict(
            zip(order, self.hands.each(pieces.part_of, shared, [(self.parts[p], rows[p]) for p in order]), strict=True)
        )

        def one(piece: int, row: int) -> tuple[tuple[Any, ...], np.ndarray]:
            content, lengths, values = held[piece]
            at = int(np.searchsorted(rows[piece], row))
            tokens = content[at, : lengths[at]].tolist()
            return tuple(map(repr, tokens if self.reading.positional else sorted(tokens))), values[at]

        faults, drop = Faults("memorize_shards"), {}
        for pair in near:
            (a, i), (b, j) = sorted([pair[:2], pair[2:]])
            (left, said), (right, other) = one(a, i), one(b, j)
            if left != right:
                continue  # too close: the draw fails by its gap
            if np.array_equal(said, other):
                drop.setdefault(b, set()).add(j)
            elif len(faults.found) < 10:
                where = f"row {i} of piece {self.parts[a]!r} and row {j} of piece {self.parts[b]!r}"
                faults.add(f"{where} are the same but labelled differently; give them one label")
        faults.raise_if_any()
        return {piece: np.array(sorted(some)) for piece, some in drop.items()}

    def _shell(self, head: ContextHead, gap: float, held: Held, errors: IdErrors, count: int) -> MemoryNetwork:
        """The network with the shapes of its keys and values, and not those themselves."""
        dtype, rank = self.precision.torch_dtype, len(head.W_I)
        radii = (errors.radii[0] * (1.0 + 1e-6), errors.radii[1] * (1.0 + 1e-6))
        beta = sharpness(gap, max(radii), held.largest, rank, dtype)
        empty = {"dtype": dtype, "device": "meta"}
        readout = SoftmaxLookup(
            keys=torch.empty(count, rank, **empty),
            halves=torch.empty(count, **empty),
            values=torch.empty(count, self.seen.outputs, **empty),
            beta=torch.tensor(beta, dtype=dtype),
        )
        return MemoryNetwork(head, readout, classes=self.seen.classes, radii=radii, gap=gap)

    def _stream(self, files: list[str], name: str) -> Any:
        for file in files:
            with safe_open(str(self.place / file), framework="numpy") as opened:
                yield opened.get_tensor(name)

    def _write(self, tensors: Any, sections: Any, entries: list[dict[str, Any]], shapes: Any) -> None:
        path = self.place / "memory.safetensors"
        write_model(path, tensors, sections)
        files = [{"name": path.name, "sha256": sha256_of(path)}, *entries]
        index = {"schema": SCHEMA, "files": files, "tensors": shapes, "rows": self.rows}
        write_atomically(self.place / "index.json", json.dumps(index, indent=1).encode())

    def _ask(self, count: int) -> dict[str, Any]:
        """The largest deviation over stored sequences drawn from all pieces."""
        rng = np.random.default_rng(self.seed)
        whole = np.array(self.seen.rows)
        shares = whole if count == self.seen.total else rng.multinomial(count, whole / self.seen.total)
        items = [
            (piece, np.sort(rng.choice(rows, min(share, rows), replace=False)))
            for piece, rows, share in zip(self.parts, self.seen.rows, shares.tolist(), strict=True)
            if share
        ]
        stored, shared = StoredMemory(self.place), {"read": self.read, "classes": self.seen.classes}
        contents, lengths, values = zip(*self.hands.each(pieces.part_of, shared, items), strict=True)
        widest = max(content.shape[1] for content in contents)
        full = [np.pad(c, [(0, 0), (0, widest - c.shape[1]), *[(0, 0)] * (c.ndim - 2)]) for c in contents]
        packed, said = Packed(np.concatenate(full), np.concatenate(lengths)), np.concatenate(values)
        self.say(f"asking for {len(said)} of the stored sequences")
        error = float(np.abs(stored.values(packed) - said).max(initial=0.0))
        return seen_at_most(error, len(said)).as_dict()


def tensors_of_shell(network: MemoryNetwork) -> dict[str, np.ndarray]:
    """The tensors that are there."""
    return {name: tensor.numpy() for name, tensor in network.state_dict().items() if not tensor.is_meta}
