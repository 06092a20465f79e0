"""Heads with a closed form, in C: what torch runs for them in the layout softmax, in vectors over the units.

The program of a network writes every head as the softmax that it is; the writer of a kind whose claim charges closed
forms too names them (`Program.closed`), and C takes those. With e the exp of `exp.py`, off by at most 3 u:

*Pairs* (`transpiler/closed_softmax.py`), t = rate s and y = e(-|t|): the weight of the second token is 1/(1 + y) for
t >= 0 and y/(1 + y) for t < 0, a sum and a quotient of numbers that hold no more than an exp's error, as in a sigmoid.
Of a step, whose rate is steep, y is 0 nearly everywhere: where it is for all numbers of a vector no exp is taken. Of
relu and leaky relu max(s, 0) - slope max(-s, 0) is all there is, near 0 too, as in torch.

*silu*, s w: the product before the quotient, 3 roundings behind the exp as before, and the exp of `softwright_falling`.

*Even tokens* (same place): with m the steps between a token and the edge on the side of s, and y = e^{-D |s|},

    g(s) = max(s, 0) + (U - |s| V)/Z,   Z, U, V = sum_m c_m y^m times 1, u_m, v_m,   c_m = e^{b_m - b_0},

one quotient and nothing before it: torch's w = y/(1 + y) is a second one, for which all that follows would wait. What
is charged for torch's quotient of polynomials in x = w (1 - w) holds this too. u is the unit, n = p/2 - 1, L the
largest number of sums and of products with powers that a term meets (`c_trees.met`).

    y   off by a factor e^t with t at most E'' + u D |s|, E'' < 3.6 u (`exp.py`), where E/(1 - E) + u D |s|, E = 8 u,
        is charged for each step between a token and the leading one. Powers are y y, y^2 y^2, ..: one rounding each,
        and those of what they are made of. Z, U and V have the same ones, so that they change weights: two powers that
        are m - r steps apart differ by at most 4 |m - r| of them (`c_trees.held`), and 4.4 u are left of each step
    N   U - |s| V: a coefficient, L, a product and a sum (without offsets the product alone), and the quotient: L + 4 of
        the sum of |terms|. That is at most the sum of the closed form's |terms|: with 1 + y multiplied out, c_m v_m is
        the sum of what they have at y^m, and Z' has no negative coefficient
    Z   L + 1 of |f| = |N|/Z. Charged are n + 10 of the terms of N and n + 3 of |f|, which is at most the sum of
        |terms|: enough if 2 L + 5 is at most 2 n + 12, one less for squares of u
    g   the last sum is charged as before; (s + |s|)/2 is max(s, 0) exactly
    y^m that underflow, or are 0 where y is near the smallest number, are charged with the coefficients of x

Where L or the powers are too many, and of more than 16 tokens, it is the form in x: w = y/(1 + y), the same products
for the powers of x = w - w w, and max(s, 0) + (U' - |s| (B - 2 w A))/Z', sums of terms in pairs.

*Products* (`transpiler/gated_heads.py`): b sum_k a_k (2 w_k - 1), 2 w_k - 1 = tanh(s_k u), is b sign(u) sum_k a_k
(1 - y_k)/(1 + y_k) with y_k = exp(-2 s_k |u|). Where s_k = k s_1 up to 2 u of it, y_k is the k-th power of y_1, made of
k - 1 products. In u, with t_k = 2 s_k |u|, its relative error is at most 3 k + t_k (y_1 and its argument) + k - 1
(products) + 2 t_k (steps as stored), which moves tanh by 2 w (1 - w) times that; as w (1 - w) <= 1/4 and t w (1 - w) <
0.23, by less than 2 k - 1/2 + 1.4. Sum, difference and quotient are 3 more, and 1/4 if one of the first two is fused
with the last product and the other is not: below 2 k + 5, where E/(1 - E) + 12 u are charged, E = 8 u
(`checker/transpiled/products.py`), so that k may reach 7. A claim demands 2 s_k |u| < pi, so that nothing underflows.
Steps that are not even, or more of them, have an exp each.

*Polynomials* of a range of s (`near/powers.py`) stand in the place of all of these in the function that a point runs
through first; `near` loses its digits where a number leaves its range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np

from softwright.export.c_simplify import read_nodes
from softwright.export.c_trees import folded, held, met, powers
from softwright.export.near.powers import Powers
from softwright.export.program import Closed, Node, Product, Program
from softwright.export.vectors.exp import falling_numbers
from softwright.precision import PRECISIONS
from softwright.transpiler.closed_softmax import HARD, EvenTokens, Pair, power_steps

CLOSED = "Closed"  # the operation of such a node
MOST_POWERS = 7
IN_ORDER = 4  # terms of a sum that is no shorter in pairs, since a product and a sum are one operation
MOST_IN_Y, SPARE = 16, 4  # tokens; roundings of powers for each step
DIGITS = 120  # of coefficients
STEEP = 2.0**20  # the rate of a step: beyond 1e-3 of it, in double, weights are 0 and 1


def shortened(program: Program) -> Program:
    """The program with closed forms in the place of their softmaxes."""
    known = {name for name, closed in program.closed.items() if form_of(closed) is not None}
    nodes = [
        Node(CLOSED, program.closed[node.output].inputs, node.output) if node.output in known else node
        for node in program.nodes
    ]
    return replace(program, nodes=read_nodes(nodes, program.output))


def form_of(closed: Closed) -> Pair | EvenTokens | Product | Powers | None:
    """The form that torch takes, if there is one, or the polynomial that stands for it."""
    if isinstance(closed.what, Product | Powers):
        return closed.what
    return Pair.of(closed.what.tolist()) if closed.what.shape[1] == 2 else EvenTokens.of(closed.what)


class ClosedForm:
    """What a node computes of vectors of its inputs, as statements of C that end in one for `place`."""

    def __init__(self, closed: Closed, dtype: str) -> None:
        self.form, self.dtype = form_of(closed), dtype
        table = closed.what
        self.tokens = table.astype(np.float64) if isinstance(table, np.ndarray) else np.zeros((4, 0))

    @property
    def curved(self) -> bool:
        """Whether it has an exp to take wherever it is asked."""
        return self.form is not None and not (isinstance(self.form, Pair) and abs(self.form.rate) >= STEEP)

    def statements(self, given: Sequence[str], place: str, count: str) -> str:
        """`given` are vectors of the inputs, of whose numbers `count` matter, `place` is where the result goes."""
        named = [f"const softwright_v s = {given[0]};"]
        if isinstance(self.form, Pair):
            return " ".join([*named, *self._pair(self.form, place, count)])
        if isinstance(self.form, EvenTokens):
            return " ".join([*named, *self._even(self.form, place)])
        if isinstance(self.form, Product):
            return " ".join([*named, *self._product(self.form, given[1], place)])
        if isinstance(self.form, Powers):
            return " ".join([*named, *self._in_powers(self.form, [*given, ""][1], place)])
        raise TypeError("a head without a closed form is no node of its own")

    def _number(self, value: float) -> str:
        kind = np.dtype(self.dtype).type
        return f"{float(kind(value)).hex()}{'' if self.dtype == 'float64' else 'f'}"

    def _scaled(self, word: str, factor: float) -> str:
        return word if factor == 1.0 else f"{word} * {self._number(factor)}"

    def _pair(self, pair: Pair, place: str, count: str) -> list[str]:
        def mixed(first: float, second: float) -> str:
            if first == 0.0:
                return "" if second == 0.0 else self._scaled("w", second)
            return f"{self._scaled('w', second - first)} + {self._number(first)}"

        slope, offset = mixed(*pair.slopes), mixed(*pair.offsets)
        parts = [f"({slope}) * s"] * bool(slope) + [offset] * bool(offset)
        found = " + ".join(parts) or "w - w"
        if pair.rate == HARD and pair.slopes[1] == 1.0 and pair.offsets == (0.0, 0.0):
            return self._kink(pair.slopes[0], place)
        falling = falling_numbers(abs(pair.rate), self.dtype) if pair.rate > 0 else None
        if falling is not None and abs(pair.rate) < STEEP and pair.slopes[0] == 0.0 and not any(pair.offsets):
            top = self._scaled("w", pair.slopes[1])
            lines = ["softwright_v w = s, y;", "softwright_abs(&w);", self._falling("w", falling), "y = w;"]
            return [*lines, f"softwright_over(&w, &s); {place} = {top} * s / ({self._number(1.0)} + y);"]
        lines = [f"softwright_v w = {self._scaled('s', pair.rate)};"]
        if abs(pair.rate) < STEEP:
            return [*lines, "softwright_sigmoid(&w);", f"{place} = {found};"]
        step = f"softwright_v v = {self._number(1.0)} - (softwright_v){{0}}; softwright_above(&v, &w); w = v;"
        lines.append(f"if (softwright_far(&w, {count})) {{ {step} }} else softwright_sigmoid(&w);")
        return [*lines, f"{place} = {found};"]

    def _kink(self, slope: float, place: str) -> list[str]:
        lines = ["softwright_v v = s; softwright_above(&v, &s);"]
        if slope == 0.0:
            return [*lines, f"{place} = v;"]
        lines.append("softwright_v below = -s; softwright_above(&below, &below);")
        return [*lines, f"{place} = v - {self._scaled('below', slope)};"]

    def _falling(self, name: str, numbers: tuple[float, float, float]) -> str:
        return f"softwright_falling(&{name}, {', '.join(map(self._number, numbers))});"

    def _even(self, even: EvenTokens, place: str) -> list[str]:
        falling, p = falling_numbers(even.spacing, self.dtype), 2 * even.coefficients.shape[1]
        if falling is not None and p <= MOST_IN_Y and 2 * max(met(p)) + 5 <= p + 10 and held(p) <= SPARE:
            return self._in_y(falling, place)
        return self._in_x(even, place)

    def _in_y(self, falling: tuple[float, float, float], place: str) -> list[str]:
        """The quotient (U - |s| V)/Z of polynomials in y."""
        _, _, slopes, offsets = self.tokens
        weights = _weights(self.tokens[1])
        total, slope, offset = (
            folded([self._number(float(w * Decimal(float(x)))) if x else "" for w, x in zip(weights, row, strict=True)])
            for row in (np.ones(len(weights)), slopes, offsets)
        )
        lines = ["softwright_v size = s, y;", f"softwright_abs(&size); y = size; {self._falling('y', falling)}"]
        lines += powers(len(weights))
        half = f"(s + size) * {self._number(0.5)}"
        if offset:
            return [*lines, f"{place} = {half} + ({offset} - size * {slope or '0'}) / {total};"]
        return [*lines, f"{place} = {half} - size * ({slope} / {total});"]

    def _in_powers(self, form: Powers, b: str, place: str) -> list[str]:
        """offset + slope s + L C_0 and then L y R, y = s s - middle."""
        first, *rest = form.numbers
        middle = self._number(form.middle)
        lines = [f"const softwright_v y = s * s - {middle}; softwright_within(&near, &y, {self._number(form.most)});"]
        lead = ["", "s", "z"][form.lead]
        if form.lead == 2:
            lines.append("const softwright_v z = s * s;")
        parts = [self._number(form.offset)] * (form.offset != 0.0) + [self._scaled("s", form.slope)] * (
            form.slope != 0.0
        )
        parts += [f"{lead} * {self._number(first)}" if lead and first != 1.0 else lead or self._number(first)]
        found = " + ".join(parts)
        if rest:
            lines += powers(len(rest))
            found += f" + {f'({lead} * y)' if lead else 'y'} * {folded([self._number(one) for one in rest])}"
        return [*lines, f"{place} = ({found}) * {b};" if form.product else f"{place} = {found};"]

    def _in_x(self, even: EvenTokens, place: str) -> list[str]:
        twice = np.array([1.0, 1.0, 1.0, 2.0])[:, None]  # B - w (2 A): doubling is exact
        total, offset, slope, fall = (self._polynomial(row) for row in even.coefficients * twice)
        lines = [
            "softwright_v size = s, w, m = s, zero = {0};",
            f"softwright_abs(&size); w = size * {self._number(-even.spacing)}; softwright_exp(&w);",
            f"w /= {self._number(1.0)} + w; softwright_max(&m, &zero);",
            "const softwright_v y1 = w - w * w;",
            *(f"const softwright_v y{i} = {word};" for i, word in _powers(even.coefficients.shape[1] - 1)),
        ]
        above = f"({slope or 'zero'} - w * {fall}) * size" if fall else f"{slope or 'zero'} * size"
        return [*lines, f"{place} = m {f'+ ({offset} - {above})' if offset else f'- {above}'} / {total};"]

    def _polynomial(self, row: np.ndarray) -> str:
        """In brackets, or nothing; of many terms neighbours are added first, so that few sums wait for each other."""
        terms = [self._number(c) if i == 0 else self._scaled(f"y{i}", float(c)) for i, c in enumerate(row) if c != 0.0]
        while 1 < len(terms) <= IN_ORDER:
            terms[:2] = [f"({terms[0]} + {terms[1]})"]
        while len(terms) > 1:
            terms = [
                f"({terms[i]} + {terms[i + 1]})" if i + 1 < len(terms) else terms[i] for i in range(0, len(terms), 2)
            ]
        return terms[0] if terms else ""

    def _product(self, product: Product, b: str, place: str) -> list[str]:
        steps, shares = product.steps.tolist(), product.shares.tolist()
        if product.second == 0.0:
            lines = [f"softwright_v g{k} = {self._scaled('s', step)};" for k, step in enumerate(steps)]
            lines += [f"softwright_sigmoid(&g{k});" for k in range(len(steps))]
            total = " + ".join(self._scaled(f"g{k}", share) for k, share in enumerate(shares))
            return [*lines, f"{place} = ({total}) * {b};"]
        lines = ["softwright_v size = s; softwright_abs(&size);"]
        even = _even_steps(product.steps, self.dtype)
        exp = "softwright_exp_near" if even else "softwright_exp"
        for k in range(1, 2 if even else len(steps) + 1):
            lines.append(f"softwright_v y{k} = size * {self._number(-2.0 * steps[k - 1])}; {exp}(&y{k});")
        if even:
            lines += [f"const softwright_v y{k} = {word};" for k, word in _powers(len(steps))]
        one = self._number(1.0)
        parts = [f"({one} - y{k}) / ({one} + y{k})" for k in range(1, len(steps) + 1)]
        words = [self._scaled(part, share) for part, share in zip(parts, shares, strict=True)]
        pairs = [" + ".join(words[i : i + 2]) for i in range(0, len(words), 2)]
        total = " + ".join(f"({pair})" for pair in pairs)
        return [*lines, f"size = {total}; softwright_sign(&size, &s); {place} = size * {b};"]


def _weights(biases: np.ndarray) -> list[Decimal]:
    """c_m = e^{b_m - b_0}."""
    with localcontext(Context(prec=DIGITS)):
        return [(Decimal(float(b)) - Decimal(float(biases[0]))).exp() for b in biases]


def _powers(highest: int) -> list[tuple[int, str]]:
    """From the second on, each the product of two before it, as in `closed_softmax.power_steps`."""
    return [(m + i, f"y{i} * y{m}") for m, end in power_steps(highest + 1) for i in range(1, end - m + 1)]


def _even_steps(steps: np.ndarray, dtype: str) -> bool:
    """Whether step k is k times the first, up to two units of rounding of it."""
    exact, unit = [Fraction(float(step)) for step in steps], Fraction(PRECISIONS[dtype].unit)
    near = (abs(step - k * exact[0]) <= 2 * unit * step for k, step in enumerate(exact, start=1))
    return len(exact) <= MOST_POWERS and exact[0] > 0 and all(near)
