"""`add_sequences`, `remove_sequences`, `relabel_sequences`: a memory changed without building the rest again.

Each returns a new `Built` with a new certificate; the old one stays as it was.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from softwright.errors import Faults, InvalidInput
from softwright.memory.conflicts import first_equals, items_of, list_conflicts
from softwright.memory.labels import Labels, read_as
from softwright.memory.margin import certify_memory
from softwright.memory.network import MemoryNetwork
from softwright.memory.sequences import Packed, pack
from softwright.memory.tokenizer import Tokenizer
from softwright.memory.update import with_items, with_labels, without_items
from softwright.memory.verb import describe_target, label_rounding, plan_of
from softwright.result.built import Built
from softwright.result.observed import Observed

_LISTED = 10


def add_sequences(built: Built, sequences: Any, labels: Any) -> Built[MemoryNetwork]:
    """Store more sequences. What is stored already may come again with the same label, not with another."""
    started = time.monotonic()
    network = _memory(built, "add_sequences")
    packed, found, tokenizer = _read(network, sequences, labels, "add_sequences", learn=True)
    first = first_equals(packed, network.reading)
    faults = Faults("add_sequences")
    list_conflicts(packed, found, network.reading, first, faults)
    new = first == np.arange(len(first))
    if network.stored:
        index, known = _find(network, packed)
        stored = network.readout.values.double().numpy()[np.maximum(index, 0)]
        rounded = found.values.astype(network.readout.values.numpy().dtype).astype(np.float64)
        clash = np.flatnonzero(known & (stored != rounded).any(axis=1))
        rows = items_of(packed, network.reading).rows[clash]
        if len(clash):
            faults.add(
                f"{len(clash)} item(s), in rows {rows[:_LISTED].tolist()}, are stored with another label; "
                "use relabel_sequences for them"
            )
        new &= ~known
    faults.raise_if_any()
    keep = np.flatnonzero(new)
    changed = with_items(network, packed, keep, found.rows(keep), tokenizer) if len(keep) else network
    said = f"{len(keep)} item(s) added, {len(new) - len(keep)} were there already"
    return _again(built, changed, label_rounding(found, changed), said, started, packed, found)


def remove_sequences(built: Built, sequences: Any) -> Built[MemoryNetwork]:
    """Forget sequences (or, in token mode, all their tokens)."""
    started = time.monotonic()
    network = _memory(built, "remove_sequences")
    packed = network.packed(sequences)
    which = _stored(network, packed, "remove_sequences")
    if len(np.unique(which)) == network.stored:
        raise InvalidInput("remove_sequences", ["nothing would be left; delete the memory instead"])
    changed = without_items(network, which)
    return _again(built, changed, 0.0, f"{len(np.unique(which))} item(s) removed", started)


def relabel_sequences(built: Built, sequences: Any, labels: Any) -> Built[MemoryNetwork]:
    """Give stored sequences other labels; ids and keys stay."""
    started = time.monotonic()
    network = _memory(built, "relabel_sequences")
    packed, found, _ = _read(network, sequences, labels, "relabel_sequences", learn=False)
    faults = Faults("relabel_sequences")
    list_conflicts(packed, found, network.reading, first_equals(packed, network.reading), faults)
    faults.raise_if_any()
    which = _stored(network, packed, "relabel_sequences")
    changed = with_labels(network, which, found)
    said = f"{len(which)} item(s) relabelled"
    return _again(built, changed, label_rounding(found, changed), said, started, packed, found)


def _memory(built: Built, subject: str) -> MemoryNetwork:
    if not isinstance(built.network, MemoryNetwork):
        raise InvalidInput(
            subject, [f"a network of kind {built.kind!r} stores no sequences; give a result of memorize"]
        )
    return built.network


def _read(
    network: MemoryNetwork, sequences: Any, labels: Any, subject: str, *, learn: bool
) -> tuple[Packed, Labels, Tokenizer | None]:
    faults = Faults(subject)
    tokenizer = network.tokenizer
    if isinstance(sequences, list | tuple) and sequences and all(isinstance(x, str) for x in sequences):
        if tokenizer is None:
            raise InvalidInput(subject, ["this memory was built without a tokenizer; give rows of integers"])
        tokenizer = tokenizer.learn(sequences) if learn else tokenizer
        sequences = tokenizer.encode(sequences)
    packed = pack(sequences, faults)
    faults.raise_if_any()
    packed = network.packed(sequences)
    found = read_as(labels, packed, network.reading.mode, network.classes, faults) if len(packed) else None
    faults.check(len(packed) > 0, "no sequences; give at least one")
    if found is not None:
        faults.check(
            found.values.shape[1] == network.outputs,
            f"labels have {found.values.shape[1]} number(s), those stored {network.outputs}; they must agree",
        )
    faults.raise_if_any()
    if found is None:
        raise RuntimeError("unreachable: missing labels are a fault")
    return packed, found, tokenizer


def _find(network: MemoryNetwork, packed: Packed) -> tuple[np.ndarray, np.ndarray]:
    """Key and whether it is stored, of every item, those of sequences too long for the memory included."""
    rows = np.flatnonzero(packed.lengths <= network.head.longest)
    items = items_of(packed, network.reading)
    index, known = np.full(len(items), -1), np.zeros(len(items), dtype=bool)
    within = packed.lengths[items.rows] <= network.head.longest
    if len(rows):
        part = packed.rows(rows)
        part = Packed(part.content[:, : max(part.longest, 1)], part.lengths)
        foreign = network.head.foreign(part)
        found, _ = network.index.within(network.head.ids(part), float(network.radii[0]))
        if network.reading.mode == "token":
            foreign = np.repeat(foreign, part.lengths)
        index[within], known[within] = found, (found >= 0) & ~foreign
    return index, known


def _stored(network: MemoryNetwork, packed: Packed, subject: str) -> np.ndarray:
    """Keys of items that must all be stored."""
    index, known = _find(network, packed)
    missing = np.unique(items_of(packed, network.reading).rows[~known])
    if len(missing):
        shown = "; ".join(f"row {row}: {packed.show(int(row))}" for row in missing[:_LISTED])
        raise InvalidInput(subject, [f"{len(missing)} row(s) are not stored ({shown}); leave them out or add them"])
    return index


def _again(
    built: Built,
    network: MemoryNetwork,
    rounding: float,
    said: str,
    started: float,
    packed: Packed | None = None,
    labels: Labels | None = None,
) -> Built[MemoryNetwork]:
    """Certificate and plan of the changed memory; what is certified of old labels is what was certified before."""
    unproved = built.unproved
    certificate = None
    target = describe_target(network, network.stored)
    if built.certificate is not None:
        before = float(built.certificate.quantities.get("label_rounding", 0.0))
        certificate, unproved = certify_memory(network, target, max(rounding, before))
    observed = None
    if packed is not None and labels is not None:
        off = np.abs(network.recalled_values(packed) - labels.values)
        observed = Observed(float(off.max(initial=0.0)), (), len(labels.values))
    plan = plan_of(network, [*built.plan.reasons[:-1], said], started)
    return Built(
        network=network, plan=plan, target=target, observed=observed, certificate=certificate, unproved=unproved
    )
