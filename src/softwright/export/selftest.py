"""Points and answers that a source takes along to test itself: inputs of the network's set, what torch gives at them.

Two runs that a certificate covers lie within its rounding part of the network in real arithmetic each, so they differ
by twice that at most; of a program, whose bound is not parted, by twice the bound. Points are of the set that the claim
speaks of: a part of the box where the proof was about a part, outside of the bands of jumps. The rounding part of an
L_p norm is not that of a point: r, proved everywhere, became r vol^(1/p), or r outside of bands that are named.
Where a claim says nothing of the rounding of a whole run (a stack in context is proved step by step, a memory for what
it stores, a table without axes at its points) the allowance is a number of units in the last place of the largest
answer, and the source says so. Of stacks in context it is more where prompts that are moved by one such unit move it by
more, of theorems where a sample of runs moves by more whose every operation is moved by up to one such unit: C5 adds up
terms of 5e8 to an answer of 1.5.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from softwright.domain import Box
from softwright.export import drawn_for, spoken_of
from softwright.precision import name_of, precision_of

if TYPE_CHECKING:
    from softwright.result.built import Built

POINTS = 8
_FEW = 4096
MOVES, RUNS = 4, 8
_ROUNDS = 32  # of draws, where a claim speaks of some inputs alone
_ULPS = {
    "memory": ({"float64": 4096, "float32": 4096}, "the claim speaks of stored items"),
    "in_context": ({"float64": 2**20, "float32": 2**12}, "the claim speaks of one step"),
}


@dataclass(frozen=True)
class Answers:
    """Inputs, each (q, ..), outputs (q, ..), the largest deviation that is allowed, and why."""

    given: tuple[np.ndarray, ...]
    outputs: np.ndarray
    allowed: float
    meaning: str

    @property
    def inputs(self) -> np.ndarray:
        """The only input."""
        (only,) = self.given
        return only


def given_to(built: Built[Any], count: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Inputs of the set that the network was made for, in its dtype: a fixed sample."""
    network, rng = built.network, np.random.default_rng(seed)
    dtype = name_of(network.dtype)
    if (drawn := drawn_for(built, count, seed)) is not None:
        return drawn
    match built.kind:
        case "theorem":
            return (rng.uniform(0.0, 1.0, size=(count, *network.inputs)).astype(dtype),)
        case "memory":
            return (_sequences(network, count, rng).astype(dtype if network.head.takes_vectors else np.int64),)
        case "program":
            return (_spoken_of(built, count, lambda some: _tokens(network, some, rng).astype(dtype)),)
        case "transpiled":
            low, high = built.target.get("box") or (-1.0, 1.0)  # without a box nothing is claimed of any set
            return (rng.uniform(low, high, size=(count, network.inputs)).astype(dtype),)
    part = Box(built.certificate.domain) if built.certificate is not None else network.box
    seeds = itertools.count(seed)  # a new one for every draw; the first is that of a box without bands
    return (_spoken_of(built, count, lambda some: part.sample(some, seed=next(seeds)).astype(dtype)),)


def _sequences(network: Any, count: int, rng: np.random.Generator) -> np.ndarray:
    head = network.head
    shape = (count, max(1, head.longest))
    if head.takes_vectors:
        return rng.uniform(-1, 1, size=(*shape, head.code_size)) * head.reach.double().numpy()
    known = head.vocabulary.numpy() if len(head.vocabulary) else np.arange(len(head.codes))
    return rng.choice(known, size=shape)


def _tokens(network: Any, count: int, rng: np.random.Generator) -> np.ndarray:
    shortest, longest = network.tokens["length"]
    shape = (count, max(shortest, min(longest, 6)))
    columns = []
    for field in network.fields:
        if field["kind"] == "real":
            columns.append(rng.uniform(field["low"], field["high"], size=shape))
        elif field["kind"] == "symbol":
            columns.append(rng.choice([network.symbols.index(one) for one in field["symbols"]], size=shape))
        else:
            columns.append(rng.integers(field.get("low", 0), field.get("high", 1) + 1, size=shape))
    return np.stack(columns, axis=-1)


def _spoken_of(built: Built[Any], count: int, draw: Callable[[int], np.ndarray]) -> np.ndarray:
    """So many inputs of which the claim speaks; those found again where few are, and any where none is found."""
    first = draw(count)
    found = [spoken_of(built, first)]
    for _ in range(_ROUNDS):
        if (have := sum(map(len, found))) >= count:
            break
        found.append(spoken_of(built, draw(max(64, min(count - have, _FEW)))))
    all_of_them = np.concatenate(found)
    return first if not len(all_of_them) else np.resize(all_of_them, (count, *first.shape[1:]))


def inputs_of(built: Built[Any], count: int, seed: int = 0) -> np.ndarray:
    """The same of a network with one input."""
    (only,) = given_to(built, count, seed)
    return only


def answered(built: Built[Any], given: tuple[np.ndarray, ...]) -> np.ndarray:
    """What torch gives."""
    # What looks at the numbers of a prompt refuses some and changes no answer; files hold nothing of it.
    unasked = {"check": False} if built.kind == "in_context" else {}
    with torch.no_grad():
        return built.network(*(torch.from_numpy(array) for array in given), **unasked).numpy()


def answers_of(built: Built[Any], count: int = POINTS) -> Answers:
    """What torch answers at a few inputs."""
    given = given_to(built, count)
    outputs = answered(built, given)
    allowed, meaning = allowance(built, float(np.abs(outputs).max(initial=0.0)))
    return Answers(given, outputs, allowed, meaning)


def allowance(built: Built[Any], size: float) -> tuple[float, str]:
    """How far two runs of the network may differ, and why."""
    ulp = 2.0 * precision_of(built.network.dtype).unit * max(size, 1.0)
    if built.kind in _ULPS:  # their claims are not about the rounding of a run at any input
        count, why = _ULPS[built.kind]
        usual = count[name_of(built.network.dtype)]
        if built.kind == "in_context" and (apart := MOVES * _apart(built)) > usual * ulp:
            return apart, f"{MOVES} times what inputs that were moved by one ulp moved: {why}"
        return usual * ulp, f"{usual} ulp: {why}"
    rounding = rounding_at_a_point(built)
    if rounding > 0.0:
        return 2.0 * rounding, "twice the rounding part of the claim"
    bound = 0.0 if built.certificate is None else float(built.certificate.bound)
    if built.kind == "program" and _FEW * ulp < bound < np.inf:  # heads that select blow up the roundings of scores
        return 2.0 * bound, "twice the bound of the claim, which is not parted"
    if built.kind == "theorem" and (moved := MOVES * _moved(built)) > _FEW * ulp:
        return moved, f"{MOVES} times what a sample of runs moved whose every operation was off by up to one ulp"
    return _FEW * ulp, f"{_FEW} ulp: nothing is proved of rounding here"


class _EachOff(TorchDispatchMode):
    """Every number that an operation makes anew is moved up or down by about one unit in its last place, or not."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = np.random.default_rng(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        same = func._schema.is_mutable or any(one.alias_info for one in func._schema.returns)
        if same or not isinstance(out, torch.Tensor) or not out.is_floating_point():
            return out
        sign = torch.from_numpy(self.rng.integers(-1, 2, size=tuple(out.shape))).to(out.dtype)
        return out + out * (sign * torch.finfo(out.dtype).eps)


def _moved(built: Built[Any]) -> float:
    """How far answers move, over a few such runs: sums of terms that are far larger than they are lose far more than a
    unit of the answer, and in every order something else. It is a sample."""
    given = given_to(built, POINTS)
    exact, most = answered(built, given), 0.0
    for seed in range(RUNS):
        with _EachOff(seed):
            most = max(most, float(np.abs(answered(built, given).astype(float) - exact).max(initial=0.0)))
    return most


def _apart(built: Built[Any]) -> float:
    """How far answers to prompts move with inputs that are moved by a unit in their last place, or not: so far apart
    are two runs whose sums have another order, where an iteration is badly conditioned. Labels, times, marks stay."""
    given, most = given_to(built, POINTS), 0.0
    exact = answered(built, given)
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        signs = [np.where(part == np.rint(part), 0, rng.integers(-1, 2, size=part.shape)) for part in given]
        moved = (part + part * (sign * np.finfo(part.dtype).eps) for part, sign in zip(given, signs, strict=True))
        found = answered(built, tuple(part.astype(one.dtype) for part, one in zip(moved, given, strict=True)))
        most = max(most, float(np.abs(found.astype(float) - exact).max(initial=0.0)))
    return most


def rounding_at_a_point(built: Built[Any]) -> float:
    """How far rounding moves an answer at any point of which the claim speaks; 0 where that is not proved."""
    certificate = built.certificate
    if certificate is None:
        return 0.0
    rounding = float(certificate.rounding_part)
    if certificate.norm == "sup":
        between = getattr(certificate, "between", None)  # of a table, whose claim is about its own points
        if built.target.get("kind") == "table":
            return 0.0 if between is None else max(rounding, float(between.rounding_part))
        return rounding
    if bands := getattr(certificate, "parts", {}).get("bands"):
        return max(float(one["rounding"]) for one in bands)
    power = getattr(certificate, "p", None)
    if power is None:  # digits, and the L_p norms of theorems, whose rounding part is none of a point
        return 0.0
    volume = float(np.prod([high - low for low, high in certificate.domain.values()]))
    return rounding / volume ** (1.0 / power) if volume > 0.0 else 0.0
