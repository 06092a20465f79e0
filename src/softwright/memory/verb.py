"""`memorize`: labelled sequences in, an attention network that recalls every one of them out, with the proved margin.

check the input -> find equal items and conflicts -> codes, rank and scale (`build`) -> prove the margin (`margin`)
-> ask for everything that was stored
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from softwright.errors import Faults, InvalidInput
from softwright.memory.build import MOST_RANK, Request, store
from softwright.memory.conflicts import first_equals, list_conflicts
from softwright.memory.labels import KINDS, Labels, read_labels
from softwright.memory.margin import certify_memory
from softwright.memory.network import MemoryNetwork
from softwright.memory.sequences import Packed, Reading, pack
from softwright.memory.tokenizer import Tokenizer, read_tokenizer
from softwright.precision import FLOAT64, Dtype, Precision, precision_of
from softwright.progress import Progress, reporting
from softwright.result.built import Built
from softwright.result.observed import Observed
from softwright.result.outcome import Outcome
from softwright.result.plan import Plan

MODES = ("sequence", "token")
READOUTS = ("attention", "feedforward")
_DENSE_SCORES = 20_000_000  # scores spent on asking the dense engine


def memorize(
    sequences: Any,
    labels: Any,
    *,
    positional: bool = True,
    mode: str = "sequence",
    causal: bool = False,
    readout: str = "attention",
    rank: int | None = None,
    dtype: Dtype = "float64",
    label_kind: str | None = None,
    tokenizer: Any = None,
    reserve: int = 0,
    seed: int = 0,
    max_seconds: float = 300.0,
    certify: bool = True,
    progress: Progress = None,
) -> Built[MemoryNetwork]:
    """Store labelled sequences in one softmax attention layer and a readout; nothing is trained.

    sequences    rows of integer tokens of any lengths, an integer array (N, n), vectors (N, n, d), or texts
    labels       one per sequence (mode "sequence") or one per token, row by row (mode "token"): classes (any hashable
                 things), or real numbers or vectors; "next" for the token that follows
    positional   False reads sequences as multisets
    causal       a token's context is what stands before it (mode "token")
    readout      "attention": a second softmax head; "feedforward": the relu readout of paper C
    rank         of W_V; the smallest that keeps ids apart unless given
    label_kind   "classes" or "values" where the labels do not make it plain
    reserve      how many items will be added later: ids are kept so far apart that this is likely to work
    tokenizer    for texts: "whitespace" (default), "bytes", or a file of the package tokenizers
    dtype        "float64" or "float32", or the torch.dtype: what the network runs in
    max_seconds  the budget of the search for codes; `ToleranceNotReached` says how far it came
    certify      prove that every stored item recalls its own label, rounding included
    progress     a function that is given short messages; None reports by itself, False not at all
    """
    started = time.monotonic()
    with reporting(progress, "memorizing") as say:
        say("checking the input")
        reading = Reading(positional=positional, mode=mode, causal=causal)
        for name, value, meaning in (
            ("reserve", reserve, "the number of items that will be added"),
            ("seed", seed, ""),
        ):
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise InvalidInput("memorize", [f"{name} = {value!r}; give {meaning or 'a whole number of 0 or more'}"])
        packed, found, encoder, precision = _checked(
            sequences, labels, reading, readout, rank, dtype, label_kind, tokenizer, max_seconds
        )
        say("looking for conflicts")
        first = first_equals(packed, reading)
        faults = Faults("memorize")
        list_conflicts(packed, found, reading, first, faults)
        faults.raise_if_any()
        keep = np.flatnonzero(first == np.arange(len(first)))
        request = Request(
            packed=packed.rows(keep) if mode == "sequence" and len(keep) < len(packed) else packed,
            labels=found.rows(keep) if len(keep) < len(first) else found,
            reading=reading,
            readout=readout,
            dtype=precision.torch_dtype,
            rank=rank,
            reserve=reserve,
            keep=keep if mode == "token" else None,
            tokenizer=encoder,
            seed=seed,
            max_seconds=max_seconds,
            say=say,
        )
        stored = store(request)
        repeated = [f"{len(first) - len(keep)} repeated item(s) are stored once"] if len(keep) < len(first) else []
        network = stored.network
        target = describe_target(network, len(packed))
        certificate, unproved = None, Outcome.NOT_ASKED.value
        if certify:
            say("proving the margin")
            certificate, unproved = certify_memory(network, target, label_rounding(request.labels, network))
        say("asking for what was stored")
        return Built(
            network=network,
            observed=_observe(network, request),
            plan=plan_of(network, [*stored.reasons, *repeated], started),
            target=target,
            certificate=certificate,
            unproved=unproved,
        )


def label_rounding(labels: Labels, network: MemoryNetwork) -> float:
    """Bound of what storing the labels in the network's dtype changes."""
    precision = network.readout.values.numpy().dtype
    off = np.abs(labels.values.astype(precision).astype(np.float64) - labels.values)
    return float(off.max(initial=0.0)) * (1.0 + 1e-12)


def describe_target(network: MemoryNetwork, rows: int) -> dict[str, Any]:
    reading = network.reading
    what = f"{rows} labelled sequences" if reading.mode == "sequence" else f"the tokens of {rows} sequences"
    return {
        "kind": "sequences",
        "name": f"recall of {what}",
        "items": network.stored,
        "longest": network.head.longest,
        "mode": reading.mode,
        "positional": reading.positional,
        "causal": reading.causal,
        "labels": "values" if network.classes is None else "classes",
    }


def plan_of(network: MemoryNetwork, reasons: list[str], started: float) -> Plan:
    head, count, spent = network.head, network.stored, network.paper_parameters
    first = {"layer": 1, "rank": network.rank, "width": head.W_Q.shape[1], "places": head.longest}
    second = {"layer": 2, "readout": network.readout.name, "keys": count, "outputs": network.outputs}
    return Plan.of(
        network,
        started,
        strategy=f"memory, {network.readout.name} readout",
        heads=[first, second],
        tokens=count,
        parameters=network.parameter_count,
        reasons=[*reasons, f"{network.parameter_count} parameters; corollary 1 of paper C, 4(s+d)+d(2nN+d): {spent}"],
    )


def _observe(network: MemoryNetwork, request: Request) -> Observed:
    """Everything stored through the pruned engine, and as much as time allows through the dense one."""
    values, packed = request.labels.values, request.packed
    kept = request.keep if request.keep is not None else np.arange(len(values))
    if network.reading.mode == "sequence":
        rows = max(1, min(len(packed), _DENSE_SCORES // max(1, network.stored), 2000))
    else:
        rows = max(1, min(len(packed), _DENSE_SCORES // max(1, network.stored * packed.longest), 2000))
    part = packed.rows(slice(0, rows))
    few = kept[kept < (rows if network.reading.mode == "sequence" else int(part.lengths.sum()))]
    if packed.longest**2 > _DENSE_SCORES:  # one literal layer alone would take minutes
        part, few = packed.rows(slice(0, 0)), few[:0]
    error = max(
        _worst(network, packed, kept, values, "pruned"), _worst(network, part, few, values[: len(few)], "dense")
    )
    return seen_at_most(error, len(values) + len(few))


def seen_at_most(error: float, items: int) -> Observed:
    """The largest deviation over so many stored items."""
    return Observed(error, (), items)


def _worst(network: MemoryNetwork, packed: Packed, kept: np.ndarray, values: np.ndarray, engine: str) -> float:
    if not len(kept):
        return 0.0
    found = network.recalled_values(packed, engine)[kept]
    return float(np.abs(found - values).max(initial=0.0))


def _checked(
    sequences: Any,
    labels: Any,
    reading: Reading,
    readout: str,
    rank: int | None,
    dtype: Dtype,
    label_kind: str | None,
    tokenizer: Any,
    max_seconds: Any,
) -> tuple[Packed, Labels, Tokenizer | None, Precision]:
    """Everything that can be wrong with the input but conflicts, found before any work and reported together."""
    faults = Faults("memorize")
    faults.check(reading.mode in MODES, f"mode = {reading.mode!r}; choose from {', '.join(MODES)}")
    faults.check(readout in READOUTS, f"readout = {readout!r}; choose from {', '.join(READOUTS)}")
    precision = faults.take(precision_of, dtype)
    faults.check(label_kind in (None, *KINDS), f"label_kind = {label_kind!r}; choose from {', '.join(KINDS)}")
    faults.check(
        not reading.causal or reading.mode == "token",
        "causal=True hides what comes later from each token; it needs mode='token'",
    )
    faults.check(
        rank is None or (isinstance(rank, int) and not isinstance(rank, bool) and 1 <= rank <= MOST_RANK),
        f"rank = {rank!r}; give a whole number from 1 to {MOST_RANK}, or leave it out",
    )
    positive = isinstance(max_seconds, int | float) and max_seconds > 0
    faults.check(positive, f"max_seconds = {max_seconds!r}; give the seconds that the search may take")
    encoder, sequences = encoded(sequences, tokenizer, faults)
    packed = pack(sequences, faults) if sequences is not None else None
    found: Labels | None = None
    if packed is not None and faults.check(len(packed) > 0, "no sequences; give at least one"):
        if reading.mode in MODES:
            found = read_labels(labels, packed, reading.mode, label_kind, faults)
        if found is not None:
            faults.check(len(found.values) > 0, "no tokens to label; give at least one sequence that is not empty")
        if found is not None and precision is not None:
            packed = _fitted(packed, found, precision, faults)
    faults.raise_if_any()
    if packed is None or found is None or precision is None:
        raise RuntimeError("unreachable: missing sequences or labels are a fault")
    return packed, found, encoder, precision


def encoded(sequences: Any, tokenizer: Any, faults: Faults) -> tuple[Tokenizer | None, Any]:
    """Texts through the tokenizer, which learns their words first; anything else as it is."""
    texts = isinstance(sequences, list | tuple) and len(sequences) > 0 and all(isinstance(x, str) for x in sequences)
    if not texts:
        faults.check(tokenizer is None, "a tokenizer is for texts; give a list of texts or leave it out")
        return None, sequences
    encoder = faults.take(read_tokenizer, tokenizer or "whitespace")
    if encoder is None:
        return None, None
    encoder = encoder.learn(sequences)
    return encoder, encoder.encode(sequences)


def check_labels(classes: int | None, size: float, precision: Precision, faults: Faults) -> None:
    """Whether the dtype holds the numbers of so many classes, or real labels of this size."""
    name, largest = precision.name, precision.largest / 4  # room for the sums of a readout
    if classes is not None:
        most = 2**precision.digits
        faults.check(classes <= most, f"{classes} classes; {name} counts to {most}")
    else:
        held = f"{name} holds sums of labels up to {largest:.3g}"
        faults.check(size <= largest, f"labels of size {size:.3g}; {held}: scale them down")


def _fitted(packed: Packed, labels: Labels, precision: Precision, faults: Faults) -> Packed:
    """The sequences as numbers of the dtype, which must hold them and their labels."""
    classes = None if labels.classes is None else len(labels.classes)
    check_labels(classes, float(np.abs(labels.values).max(initial=0)), precision, faults)
    name = precision.name
    if not packed.is_vectors or precision is FLOAT64:
        return packed
    with np.errstate(over="ignore"):
        cast = packed.content.astype(name).astype(np.float64)
    faults.check(bool(np.isfinite(cast).all()), f"vectors exceed {name}; use dtype='float64'")
    return Packed(cast, packed.lengths)
