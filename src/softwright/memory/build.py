"""Memorising: rank, codes and scale chosen so that stored ids stay apart, from the measured gap and the proved error.

With R = max|z_j|, radius the proved distance of a stored id from its key, E the proved rounding error of a score:

    lookup     beta ((g^2 - 2 g radius)/2 - 2E) is the least difference of two scores. A gap g of at least 8 radius
               and 4 sqrt(E) leaves beta g^2/4 of it; beta is then taken so large that every other weight underflows
               to exactly 0.
    relus      a ramp between t_j and t_{j+1} rises over the middle half of the gap: g >= 8 radius + 16 u R is enough.

The lookup wants g > sqrt(u) R and the relus only g > u R; so ids of rank 1 reach further with relus. Ranks are tried
upwards. A rank is passed over if random ids, whose gap is about 2 (2 Gamma(r/2+1)/N^2)^{1/r}/sqrt(r) R (birthday
law), would miss by far. Items that were too close in one draw are asked first in later ones (`witnesses`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

from softwright.errors import ToleranceNotReached
from softwright.memory.codes import alphabet_of, draw_head
from softwright.memory.context_head import ContextHead
from softwright.memory.gap import Closest, closest
from softwright.memory.labels import Labels
from softwright.memory.network import MemoryNetwork
from softwright.memory.readouts import Readout, ReluReadout, SoftmaxLookup
from softwright.memory.rounding import SLACK, IdErrors, id_errors, score_error
from softwright.memory.sequences import Packed, Reading
from softwright.memory.tokenizer import Tokenizer
from softwright.memory.witnesses import Witnesses, least_radius
from softwright.precision import FLOAT64, name_of, precision_of

MOST_RANK = 32
# exp(-x) is 0 in the dtype, with room: the smallest positive numbers are exp(-103.3) and exp(-744.5)
UNDERFLOW = {torch.float64: 760.0, torch.float32: 110.0}
_SAMPLE = 20_000
_FAR, _NO_NEARER = 0.7, 6  # float32 gives up where this share of the gap is the best for so many ranks
_HOPE = 20.0  # how far above the birthday law a gap may be hoped for


@dataclass(frozen=True)
class Request:
    """What is to be stored and how."""

    packed: Packed
    labels: Labels
    reading: Reading
    readout: str
    dtype: torch.dtype
    rank: int | None = None
    reserve: int = 0  # items that may be added later
    keep: np.ndarray | None = None  # the items to be stored; all of them if None
    tokenizer: Tokenizer | None = None
    seed: int = 0
    max_seconds: float = math.inf  # for the search; one draw at least is looked at
    say: Callable[[str], None] = field(default=lambda message: None, repr=False)


@dataclass(frozen=True)
class Miss:
    """A draw that failed: this share of the gap that is needed is there, between two items."""

    share: float
    pair: tuple[int, int]
    rank: int


@dataclass(frozen=True)
class Stored:
    """A memory and what the search for it found."""

    network: MemoryNetwork
    closest: Closest
    reasons: list[str]


def largest_norm(keys: np.ndarray) -> float:
    """max |z_j|, rounded up."""
    return float(np.sqrt((keys.astype(np.float64) ** 2).sum(axis=1).max(initial=0.0))) * SLACK


def gap_floor(errors: IdErrors, largest: float, dimensions: int, readout: str, dtype: torch.dtype) -> float:
    """The gap that keys must keep."""
    radius = max(errors.radii)
    if readout == "feedforward":
        return 8.0 * radius + 16.0 * precision_of(dtype).unit * largest
    return max(8.0 * radius, 4.0 * math.sqrt(score_error(largest, radius, dimensions, dtype)))


def store(request: Request) -> Stored:
    """The memory of smallest rank whose ids are far enough apart."""
    packed, started = request.packed, time.monotonic()
    alphabet = alphabet_of(packed)
    witnesses = Witnesses(packed, request.reading.mode == "token", request.keep)
    best: Miss | None = None
    for rank, places, draw in _draws(request):
        if best is not None and time.monotonic() - started > request.max_seconds:
            raise ToleranceNotReached(
                _advice(request, best, f"found within {request.max_seconds:g} s", "raise max_seconds")
            )
        if best is not None and request.dtype == torch.float32 and best.share < _FAR and rank > best.rank + _NO_NEARER:
            raise ToleranceNotReached(
                _advice(request, best, f"in reach, {_NO_NEARER} more ranks brought them no nearer,")
            )
        request.say(f"rank {rank}, draw {draw + 1}: ids of {len(request.labels.values)} items")
        line = request.readout == "feedforward"
        head = draw_head(
            alphabet, max(packed.longest, 1), request.reading, rank, places, line, request.dtype, request.seed + draw
        )
        if witnesses and _too_close(witnesses, head, request):
            continue
        keys = _centred_keys(head, packed, request.keep)
        errors, floor = _needed(request, head, largest_norm(keys))
        if not math.isfinite(floor):
            continue
        request.say(f"rank {rank}, draw {draw + 1}: smallest gap")
        found = closest(keys[:_SAMPLE].astype(np.float64), floor)  # most draws that fail do so here
        if found.gap >= floor and len(keys) > _SAMPLE:
            found = closest(keys.astype(np.float64), floor)
        if found.gap >= floor:
            network = assemble(head, keys, request.labels, request.readout, found.gap, request.tokenizer, errors)
            return Stored(network, found, _reasons(request, rank, places, draw, found.gap, floor, max(errors.radii)))
        witnesses.note(found.pair)
        if best is None or found.gap / floor > best.share:
            best = Miss(found.gap / floor, found.pair, rank)
    raise ToleranceNotReached(_advice(request, best))


def _too_close(witnesses: Witnesses, head: ContextHead, request: Request) -> bool:
    """Whether the witnesses alone make this draw fail."""
    few, keep = witnesses.few()
    ids = head.ids(few) if keep is None else head.ids(few)[keep]
    least = least_radius(ids)
    errors, floor = _needed(request, head, least)
    floor -= 2.0 * errors.storing + 4.0 * FLOAT64.unit * least  # what rounding may add to the gap of the keys
    return math.isfinite(floor) and closest(ids, floor).gap < floor


def _needed(request: Request, head: ContextHead, largest: float) -> tuple[IdErrors, float]:
    """The errors of the head's ids, none of them larger than `largest`, and the gap that they must keep."""
    errors, dimensions = id_errors(head, largest), len(head.W_I)
    floor = gap_floor(errors, largest, dimensions, request.readout, request.dtype)
    return errors, floor * _room(request, dimensions)


def assemble(
    head: ContextHead,
    keys: np.ndarray,
    labels: Labels,
    readout: str,
    gap: float,
    tokenizer: Tokenizer | None,
    errors: IdErrors,
) -> MemoryNetwork:
    """Both layers, from keys (N, r) in the network's dtype that are at least `gap` apart; `errors` are the head's."""
    # The search computes distances in float64: a millionth of the radius pays for that many times over.
    radii = (errors.radii[0] * (1.0 + 1e-6), errors.radii[1] * (1.0 + 1e-6))
    values = labels.values
    if readout == "feedforward":
        order = np.argsort(keys[:, 0], kind="stable")
        keys, values = keys[order], values[order]
        layer: Readout = _ramps(keys, values, head.dtype)
    else:
        layer = _lookup(keys, values, gap, max(radii), largest_norm(keys), head.dtype)
    return MemoryNetwork(head, layer, classes=labels.classes, tokenizer=tokenizer, radii=radii, gap=gap)


def _room(request: Request, dimensions: int) -> float:
    """How much larger the gap must be now for `reserve` more random ids to leave enough of it (birthday law)."""
    if not request.reserve:
        return 1.0
    count = max(1, len(request.labels.values))
    return 3.0 * ((count + request.reserve) / count) ** (2.0 / dimensions)


def _draws(request: Request) -> Iterator[tuple[int, str, int]]:
    """(rank, how places are coded, number of the draw) in the order of trial."""
    count = len(request.labels.values) + request.reserve
    for rank, places, draws in candidates(count, request.dtype, request.reading, request.readout, request.rank):
        for draw in range(draws):
            yield rank, places, draw


def candidates(
    count: int, dtype: torch.dtype, reading: Reading, readout: str, asked: int | None, hope: float = _HOPE
) -> Iterator[tuple[int, str, int]]:
    """(rank, how places are coded, draws) in the order of trial."""
    draws = 12 if count <= 20_000 else 3 if count <= 200_000 else 2
    double = dtype == torch.float64
    plain = "weights" if double or not reading.positional else "products"
    if asked is not None:
        yield asked, plain, draws
        if plain == "weights" and reading.positional:
            yield asked, "products", draws
        return
    line = readout == "feedforward"
    for rank in range(1, MOST_RANK + 1):
        if line:
            if rank > 4:  # ids are numbers whatever the rank: more of it changes little
                return
        elif count > 1:
            law = 2.0 * math.exp((math.log(2.0) + math.lgamma(rank / 2 + 1) - 2.0 * math.log(count)) / rank)
            need = 4.0 * math.sqrt(score_error(1.0, 0.0, rank, dtype))
            if hope * law / math.sqrt(rank) < need:
                continue
        yield rank, plain, draws
        if plain == "weights" and reading.positional and (rank > 2 or line):
            yield rank, "products", draws


def _centred_keys(head: ContextHead, packed: Packed, keep: np.ndarray | None) -> np.ndarray:
    """Keys (N, r) in the network's dtype; the shift that centres them goes into W_I, which reads the constant."""
    ids = head.ids(packed) if keep is None else head.ids(packed)[keep]
    shift = torch.tensor(-ids.mean(axis=0) if len(ids) else np.zeros(ids.shape[1]), dtype=head.dtype)
    head.W_I[:, head.code_size + 1] = shift
    return (ids + shift.double().numpy()).astype(head.codes.numpy().dtype)


def sharpness(gap: float, radius: float, largest: float, dimensions: int, dtype: torch.dtype) -> float:
    """beta of the lookup: a power of 4 with which the weights of all other keys underflow to 0."""
    margin = 0.5 * (gap**2 - 2.0 * gap * radius) - 2.0 * score_error(largest, radius, dimensions, dtype)
    return 4.0 ** math.ceil(math.log(UNDERFLOW[dtype] / margin, 4.0)) if margin > 0 else 1.0


def _lookup(
    keys: np.ndarray, values: np.ndarray, gap: float, radius: float, largest: float, dtype: torch.dtype
) -> SoftmaxLookup:
    exact = keys.astype(np.float64)
    beta = sharpness(gap, radius, largest, keys.shape[1], dtype)
    return SoftmaxLookup(
        keys=torch.from_numpy(keys),
        halves=torch.tensor(0.5 * (exact**2).sum(axis=1), dtype=dtype),
        values=torch.tensor(values, dtype=dtype),
        beta=torch.tensor(beta, dtype=dtype),
    )


def _ramps(keys: np.ndarray, values: np.ndarray, dtype: torch.dtype) -> ReluReadout:
    line = keys[:, 0].astype(np.float64)
    slopes = torch.tensor(2.0 / np.diff(line), dtype=dtype)
    starts = line[:-1] + 0.25 * np.diff(line)
    offsets = torch.tensor(-slopes.double().numpy() * starts, dtype=dtype)
    return ReluReadout(
        keys=torch.from_numpy(keys), slopes=slopes, offsets=offsets, values=torch.tensor(values, dtype=dtype)
    )


def _reasons(request: Request, rank: int, places: str, draw: int, gap: float, floor: float, radius: float) -> list[str]:
    order = {"weights": "weights of places in the scores", "products": "codes of places that multiply those of tokens"}
    read = order[places] if request.reading.positional else "no order: scores from the tokens alone"
    chosen = "asked for" if request.rank is not None else "the smallest that keeps ids apart"
    return [
        f"rank {rank} is {chosen} ({draw + 1} draw(s)); {read}",
        f"the smallest gap is {gap:.3g}, {gap / floor:.3g} times what is needed and {gap / (2 * radius):.3g} times "
        "what rounding could close",
    ]


def _advice(request: Request, best: Miss | None, ended: str = "far enough apart", remedy: str = "") -> str:
    what = f"{len(request.labels.values)} items in {name_of(request.dtype)}"
    lines = [f"no context ids of {what} are {ended} for exact recall with readout={request.readout!r}"]
    if best is not None:
        rows = f", between items {best.pair[0]} and {best.pair[1]}" if best.pair[0] >= 0 else ""
        lines.append(f"  the nearest try, at rank {best.rank}, has {best.share:.2g} of the gap that is needed{rows}")
    if request.rank is not None:
        lines.append("  leave rank out, or raise it")
    if remedy:
        lines.append(f"  {remedy}")
    if request.dtype == torch.float32:
        lines.append("  use dtype='float64'")
    if request.readout == "feedforward":
        lines.append("  use readout='attention', whose ids may have more than one dimension")
    if request.packed.is_vectors:
        lines.append("  vectors that differ only in their last digits cannot be told apart: round or merge them")
    return "\n".join(lines)
