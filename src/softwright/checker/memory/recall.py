"""The checker's own proof that a memory recalls: from the tensors in the file alone, with code of its own.

A file holds no sequences, so what can be proved from it is this: *every input whose id, in real arithmetic, is that of
a key up to the key's own rounding recalls the label of that key, in both engines.* Which sequences have these ids, the
builder knew and no file says; nor does the statement.

1. No two keys are closer than the stated gap g (`spacing`).
2. The rounding of an id, by the formula in the docstring of memory.rounding, written again here in ball arithmetic.
3. The margin of the scores, hence the weights of other keys (or the ramps of the relus), by that of memory.margin.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb

from softwright.checker.memory.entries import check_memory, check_quantities, parts_of
from softwright.checker.memory.spacing import check_gap
from softwright.checker.precision import PRECISIONS, Precision, precision_of
from softwright.checker.refusal import require
from softwright.fileformat import ModelFile

LARGER = arb(1) + arb(2) ** -40
UNDERFLOW = {"float64": arb(2) ** -900, "float32": arb(2) ** -120}  # more than all underflows of one sum lose
LARGEST_SCORE = {"float64": arb(2) ** 1000, "float32": arb(2) ** 100}  # far below what overflows
Tensors = dict[str, np.ndarray]


def prove_recall(file: ModelFile) -> str:
    """Redo the proof of a memory; returns what was proved."""
    check_memory(file)
    said, tensors = file.sections["certificate"], file.tensors
    precision, wide = precision_of(file.sections["model"]["dtype"]), PRECISIONS["float64"]
    keys = tensors["readout.keys"]
    gap = float(tensors["gap"].reshape(())[()])
    check_structure(tensors, file.sections["model"]["reading"]["mode"])
    squares = max((float((wide_of(part) ** 2).sum(axis=1).max(initial=0.0)) for part in parts_of(keys)), default=0.0)
    largest = arb(float(np.sqrt(squares))) * LARGER
    own, run = id_error(tensors, wide), id_error(tensors, precision)
    key = own + (arb(0) if precision is wide else largest * precision.unit + UNDERFLOW[precision.name])
    radii = [float(x) for x in tensors["radii"]]
    require(own + key <= radii[0] and run + key <= radii[1], "a search radius is below what rounding can move")
    radius = arb.max(own + key, run + key)
    require(gap > 2 * max(radii), "an id could lie within the search radius of two keys")
    require(gap > 2 * radius, f"the gap {gap:.3g} is not above twice the radius {float(radius):.3g}")
    check_gap(keys, gap)
    size = arb(max(float(np.abs(wide_of(part)).max(initial=0.0)) for part in parts_of(tensors["readout.values"])))
    if file.sections["model"]["readout"] == "attention":
        exact, rounding, found = lookup(tensors, arb(gap), radius, largest, size, precision)
    else:
        exact, rounding, found = ramps(tensors, wide_of(keys), radius, largest, precision.unit)
    found |= {"id_error_dense": float(run), "id_error_pruned": float(own), "radius": float(radius)}
    check_quantities(said["quantities"], tensors, {**found, "margin": float(gap / (2 * radius))})
    rounding += arb(said["quantities"]["label_rounding"])
    require(exact <= said["exact_part"], f"exact part: {float(exact):.3g} against {said['exact_part']:.3g}")
    require(rounding <= said["rounding_part"], f"rounding: {float(rounding):.3g} against {said['rounding_part']:.3g}")
    require(file.sections["model"]["labels"] == "values" or said["bound"] < 0.5, "a class is not recalled exactly")
    return (
        f"{keys.shape[0]} ids, no two closer than {gap:.4g}, moved by rounding at most {float(radius):.3g} from their "
        f"keys: each recalls its label within {said['bound']:.3g}; which sequences have these ids, no file says"
    )


def wide_of(part: np.ndarray) -> np.ndarray:
    """Numbers of either type as float64, which holds them."""
    return part.astype(np.float64)


def check_structure(tensors: Tensors, mode: str) -> None:
    """W_Q must select the constant, W_O copy, and W_K, W_V read nothing but code and place; codes within reach. The
    pruned engine takes for granted that W_K reads log weights as they are and that ids of sequences do not read them.
    """
    codes, places = tensors["head.codes"], tensors["head.place_codes"]
    e, s = codes.shape[1], tensors["head.W_V"].shape[0]
    d = e + 2 + s
    select, copy = np.zeros((1, d)), np.zeros((d, s))
    select[0, e + 1], copy[e + 2 :] = 1.0, np.eye(s)
    require(np.array_equal(tensors["head.W_Q"], select), "W_Q does more than read the constant")
    require(np.array_equal(tensors["head.W_O"], copy), "W_O does more than copy")
    require(not tensors["head.W_K"][:, e + 1 :].any() and not tensors["head.W_V"][:, e:].any(), "W_K or W_V reads more")
    require(tensors["head.W_K"][0, e] == 1, "W_K scales the log weights")
    require(mode != "sequence" or not tensors["head.W_I"][:, e].any(), "the id of a sequence reads a log weight")
    if len(codes):
        bound = np.abs(codes).max(axis=0).astype(np.float64)
        bound = bound * np.abs(places).max(axis=0) if len(places) else bound
        require((bound <= tensors["head.reach"].astype(np.float64) * (1.0 + 1e-15)).all(), "a code exceeds the reach")


def gamma(count: int, unit: arb) -> arb:
    require(count * unit < 0.25, "sums too long for their precision")
    return count * unit / (1 - count * unit)


def total(numbers: Any) -> arb:
    result = arb(0)
    for number in numbers:
        result += number
    return result


def id_error(tensors: Tensors, precision: Precision) -> arb:
    """Bound of |computed id - exact id|_2; the name of each step is that of the table in memory.rounding."""
    e, unit = tensors["head.codes"].shape[1], arb(precision.unit)
    reach = [arb(float(x)) for x in tensors["head.reach"]]
    sigmas = [*tensors["head.log_weights"].tolist(), float(tensors["head.sentinel"].reshape(())[()])]
    sigma = arb(max(map(abs, sigmas)))
    w_k, w_v, w_i = ([[abs(x) for x in row] for row in tensors[f"head.W_{x}"].tolist()] for x in "KVI")
    terms = len(sigmas)
    size = total(arb(a) * b for a, b in zip(w_k[0], [*reach, sigma], strict=False))
    require(size < 600, "the scores are beyond what exp can take without a shift")
    score = gamma(sum(x > 0 for x in w_k[0]), unit) * size
    theta = (1 + arb(precision.exp_error)) * (2 * score + 2 * unit * size * (1 + 4 * unit)).exp() - 1
    require(theta < 0.25, "scores too large for their precision")
    weight = (1 + theta) * (1 + unit) / ((1 - theta) * (1 - gamma(terms, unit)))
    value = 1 + gamma(max(sum(x > 0 for x in row[:e]) for row in w_v), unit)
    factor = weight * value * (1 + gamma(terms + 1, unit)) - 1
    bounds = [total(arb(a) * b for a, b in zip(row, reach, strict=False)) for row in w_v]  # B_i
    moved = [factor * b for b in bounds]
    entries = gamma(max(sum(x > 0 for x in row) for row in w_i), unit)
    stream = [*reach, sigma, arb(1), *[b + m for b, m in zip(bounds, moved, strict=True)]]
    squares = arb(0)
    for row in w_i:
        passed = total(arb(a) * m for a, m in zip(row[e + 2 :], moved, strict=True)) * (1 + entries)
        rest = entries * total(arb(a) * b for a, b in zip(row, stream, strict=True))
        squares += (passed + rest + UNDERFLOW[precision.name]) ** 2
    return squares.sqrt()


def lookup(
    tensors: Tensors, gap: arb, radius: arb, largest: arb, size: arb, precision: Precision
) -> tuple[arb, arb, dict[str, float]]:
    """(error in real arithmetic, error of running, numbers of the proof) of the softmax over the keys."""
    count, dimensions = tensors["readout.keys"].shape
    unit, tiny = arb(precision.unit), UNDERFLOW[precision.name]
    if count < 2:
        return arb(0), arb(0), {"score_margin": 0.0, "off_mass": 0.0}
    beta = float(tensors["readout.beta"].reshape(())[()])
    mantissa, power = np.frexp(beta)
    require(mantissa == 0.5 and power % 2 == 1, "beta is not a power of four")
    half = (0.5 * largest**2 * (gamma(dimensions + 2, arb(2) ** -53) + unit * LARGER) + tiny) * LARGER
    for keys, halves in zip(*(parts_of(tensors[f"readout.{name}"]) for name in ("keys", "halves")), strict=True):
        computed = 0.5 * (wide_of(keys) ** 2).sum(axis=1)
        off = np.abs(computed - wide_of(halves)) + (dimensions + 2) * 2.0**-53 * computed
        require(arb(float(off.max(initial=0.0))) <= half, "a stored half square is wrong")
    products = largest * (largest + radius) + largest**2 / 2 + half
    error = gamma(dimensions + 1, unit) * products + half + tiny
    margin = gap * (gap - 2 * radius) / 2 - 2 * error
    require(margin > 0, "rounding of the scores exceeds their margin")
    require(arb(beta) * products < LARGEST_SCORE[precision.name], "beta is so large that scores overflow")
    other = (-arb(beta) * margin).exp()
    weight = (-arb(beta) * margin * (1 - 2 * unit)).exp() * (1 + arb(precision.exp_error)) + 4 * arb(precision.least)
    require(count * weight < unit / 2, "the weights of other keys do not vanish")
    found = {"score_margin": float(arb(beta) * margin), "off_mass": float((count - 1) * other)}
    return 2 * size * (count - 1) * other, 2 * size * weight * count * count, found


def ramps(
    tensors: Tensors, keys: np.ndarray, radius: arb, largest: arb, unit: float
) -> tuple[arb, arb, dict[str, float]]:
    """Every ramp is below 0 at the key before it and above 1 at the key after it, with room for all errors."""
    line, reach = keys[:, 0], float((largest + radius) * LARGER)
    slopes, offsets = (tensors[f"readout.{name}"].astype(np.float64) for name in ("slopes", "offsets"))
    away = float(radius * LARGER)
    error = 8.0 * unit * (np.abs(slopes) * reach + np.abs(offsets))
    require((slopes > 0).all() and (np.diff(line) > 0).all(), "keys or ramps do not ascend")
    before, after = slopes * (line[:-1] + away) + offsets + error, slopes * (line[1:] - away) + offsets - error
    require((before <= 0).all(), "a ramp begins before its key")
    require((after >= 1).all(), "a ramp ends after the next key")
    found = {"ramp_margin": float(min(-before.max(), after.min() - 1.0))} if len(slopes) else {}
    return arb(0), arb(0), {"off_mass": 0.0, **found}
