"""What a stack in context must hold besides its steps: its tokens, and the layers that prepare a prompt.

Tokens, one per observation unless said otherwise, D columns by name:

    data      x, y, log weight as given; one = data = 1, and a last x of 1 that carries an intercept as a coefficient
    mirror    (without an intercept, for squares) the same with the signs of x and y turned
    count     log weight; one = count = 1
    query     x
    basis     e_1, .., e_d, fixed
    unit      +e_p and -e_p for every coordinate: e = +-e_p, own = e_p, other = 1 - e_p, and g = +-sqrt(penalty) e_p
    null      one = null = 1, for heads that have nothing to say

The layer `centre` takes the mean of x (and y) off; more layers follow with scaling (`scaling`). The claims about steps
hold whatever these layers do; that they do it is compared entry by entry, so that nothing in a verified file is
unaccounted for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb, fmpq

from softwright.checker.in_context.stack import OMEGA, ExpectedHead, Layer, Pair, Stack
from softwright.checker.refusal import require


def rational(x: float) -> fmpq:
    return fmpq(*float(x).as_integer_ratio())


def close(stack: Stack) -> float:
    """Relative room for numbers that were computed before they were rounded."""
    return 8 * stack.precision.unit


def people(stack: Stack) -> tuple[str, ...]:
    return ("data",) if stack.settings["intercept"] else ("data", "mirror")


def weighted(stack: Stack) -> Pair:
    return stack.vector(one=1.0), stack.vector(log_weight=1.0)


def only(stack: Stack, *flags: str) -> Pair:
    """Scores of tokens without one of these flags are OMEGA below."""
    one = stack.vector(one=1.0)
    return one, OMEGA * (stack.vector(**dict.fromkeys(flags, 1.0)) - one)


@dataclass(frozen=True)
class Form:
    """What the heads of a group share: scores `also` + s (x_i Q).(x_j K), values V (D, v) or (D,), outputs o O."""

    also: Sequence[Pair]
    Q: np.ndarray
    K: np.ndarray
    V: np.ndarray
    O: np.ndarray  # noqa: E741

    def head(self, s: float, o: float) -> ExpectedHead:
        V, O = self.V.reshape(len(self.V), -1), self.O.reshape(-1, self.O.shape[-1])  # noqa: E741
        return ExpectedHead([*self.also, (s * self.Q, self.K)], V, o * O)


def read_group(layer: Layer, heads: range, form: Form) -> tuple[list[ExpectedHead], tuple[fmpq, ...], tuple[fmpq, ...]]:
    """What the heads of a group must be, given their scales and outputs as stored; and those."""
    row, column = _place(form.Q)
    writes = form.O.reshape(-1, form.O.shape[-1])
    value, slot = _place(writes)
    expected, scales, outputs = [], [], []
    for h in heads:
        s = float(layer.tensors["Wq"][h, row, len(form.also) + column]) / form.Q[row, column]
        o = float(layer.tensors["Wo"][h, value, slot]) / writes[value, slot]
        expected.append(form.head(s, o))
        scales.append(rational(s))
        outputs.append(rational(o))
    return expected, tuple(scales), tuple(outputs)


def _place(matrix: np.ndarray) -> tuple[int, int]:
    """Where to read a factor of the matrix from: at a 1 if there is one, so that no division rounds."""
    found = np.argwhere(matrix == 1) if (matrix == 1).any() else np.argwhere(matrix)
    return int(found[0][0]), int(found[0][1])


def richardson(order: int) -> list[fmpq]:
    """c_1, .., c_H with sum c_h h = 1 and sum c_h h^3 = .. = sum c_h h^(2H-1) = 0."""
    found = []
    for h in range(1, order + 1):
        c = fmpq(1, h)
        for other in range(1, order + 1):
            if other != h:
                c *= fmpq(other * other, other * other - h * h)
        found.append(c)
    return found


def check_product(
    stack: Stack, scales: Sequence[fmpq], outputs: Sequence[fmpq], factor: float, reach: float, order: int, angle: float
) -> None:
    """Heads at +-h delta, h = 1..order, delta = angle/reach, with outputs +-factor c_h/(2 delta): they stand for
    `factor` times a product that is `reach` at most."""
    require(len(scales) == 2 * order, "there are more or fewer heads than a product takes")
    delta, room = angle / reach, close(stack)
    for h, c in enumerate(richardson(order), 1):
        for k, sign in ((2 * h - 2, 1.0), (2 * h - 1, -1.0)):
            wanted = sign * h * delta, sign * factor * float(arb(c)) / (2 * delta)
            for found, wish in zip((scales[k], outputs[k]), wanted, strict=True):
                require(abs(float(arb(found)) - wish) <= room * abs(wish), "heads that should multiply do not")


def check_tokens(
    stack: Stack, constant: bool, counting: bool, start: float, log_a: float, inverse: float = 0.0
) -> None:
    """All tokens but the cells; `start` > 0: z begins as start times x; `inverse`: at unit tokens as that times e."""
    d, settings = stack.settings["features"], stack.settings
    one, x = stack.vector(one=1.0), stack.at("x")
    last = np.zeros(stack.width)
    if constant:
        last[x + d] = 1.0

    def rows(sign: float, response: bool, features: bool) -> np.ndarray:
        embed = np.zeros((d + 2, stack.width))
        if features:
            embed[:d, x : x + d] = sign * np.eye(d)
        if response:
            embed[d] = stack.vector(y=sign)
        return embed

    weight = np.zeros((d + 2, stack.width))
    weight[d + 1] = stack.vector(log_weight=1.0)
    data = one + stack.vector(data=1.0)
    begin = stack.vector(log_a=log_a) if log_a else 0.0 * one
    stack.same_tokens("base_data", data + last + begin, close(stack))
    stack.same_tokens("embed_data", rows(1.0, True, True) + weight)
    if "mirror" in stack.sources:
        stack.same_tokens("base_mirror", data - last)
        stack.same_tokens("embed_mirror", rows(-1.0, True, True) + weight)
    require(("count" in stack.sources) == counting, "there are counting tokens where there should be none, or none")
    if counting:
        stack.same_tokens("base_count", one + stack.vector(count=1.0))
        stack.same_tokens("embed_count", weight)
    stack.same_tokens("base_query", one + last)
    stack.same_tokens("embed_query", rows(1.0, False, True))
    basis = np.tile(one, (d, 1))
    basis[:, x : x + d] += np.eye(d)
    if start:
        basis[:, stack.at("z") : stack.at("z") + d] += start * np.eye(d)
    stack.same_tokens("base_basis", basis, close(stack))
    stack.same_tokens("base_null", one + stack.vector(null=1.0))
    units = [_unit(stack, p, sign, start, inverse) for p in range(d + constant) for sign in (1.0, -1.0)]
    stack.same_tokens("base_unit", np.stack(units), close(stack))
    known = {"data", "query", "basis", "unit", "null", *(("count",) if counting else ())}
    known |= {"mirror"} if not settings["intercept"] else set()
    known |= {"ranges", "spreads"} if settings["scaling"] else set()
    require(stack.sources.keys() - {"link", "weights", "rates"} == known, "the file has other segments of tokens")
    inputs = {"data": "data", "mirror": "data", "count": "data", "query": "query"}
    require(
        all(source == inputs.get(name, "fixed") for name, source in stack.sources.items()),
        "a segment takes the wrong input",
    )


def _unit(stack: Stack, p: int, sign: float, start: float, inverse: float) -> np.ndarray:
    d, settings = stack.settings["features"], stack.settings
    token = stack.vector(one=1.0, unit=1.0, other=1.0, **{"pos" if sign > 0 else "neg": 1.0})
    token[stack.at("e") + p], token[stack.at("own") + p], token[stack.at("other") + p] = sign, 1.0, 0.0
    if p == d:
        token[stack.at("scale1") + p] = token[stack.at("scale2") + p] = sign
    else:
        token += stack.vector(pen=1.0)
    if inverse:
        token[stack.at("z") + p] = inverse * sign
    if not settings["scaling"]:
        root = math.sqrt(settings["penalty"])
        token[stack.at("g") + p] = sign * root
        token[stack.at("tau")] = sign
        if start:
            token[stack.at("z") + p] = start * sign * root
    return token


def check_centre(stack: Stack, layer: Layer, centre_y: bool, targets: Sequence[str], start: float) -> None:
    """The first layer: a uniform head takes the mean off; with scaling two hard heads find the range of a feature."""
    d, scaling = stack.settings["features"], stack.settings["scaling"]
    one, null, x = stack.vector(one=1.0), stack.vector(null=1.0), stack.block("x", d)
    also = [weighted(stack), (one, -OMEGA * null), (2 * OMEGA * stack.vector(unit=1.0), null)]
    takes = -x.T
    if start and not scaling:
        takes = takes - start * stack.block("z", d).T
    mean = (-1.0 if centre_y else 0.0) * stack.vector(y=1.0)
    for target in targets:
        mean = mean + stack.vector(**{target: 1.0})
    V = np.concatenate([x, stack.vector(y=1.0)[:, None]], axis=1)
    heads = [ExpectedHead(also, V, np.concatenate([takes, mean[None]]))]
    rows = (*people(stack), "query")
    if scaling:
        for sign in (1.0, -1.0):
            hard = (sign * 2.0**44 * stack.block("e"), stack.block("x"))
            pairs = [weighted(stack), (one, -1e28 * null), hard]
            heads.append(ExpectedHead(pairs, stack.block("x"), sign * stack.block("range").T))
        rows = (*rows, "unit")
    R = stack.residual(("x", "z", start)) if start and not scaling else None
    stack.same_layer(layer, "centre", rows, (*people(stack), "null"), heads, R, close(stack))
