"""How far the answers of the normal equations' stack are from the exact solution, for every prompt of the stated set.

Set: n <= max_rows observations of weight 1. s_p^2 is the variance of feature p plus the penalty. Conditions: the matrix
cov(x) + penalty, scaled to the diagonal 1, has no eigenvalue below 1/condition (without scaling: its own eigenvalues
are between 1/condition and largest_eigenvalue + penalty); (x - m)^T (cov(x) + penalty)^-1 (x - m) <= score_bound at all
rows and queries, m the mean; |x_jp| <= OFFSET s_p; with scaling queries are within range_bound/4 ranges of the mean,
ranges between 2^-20 and 2^20 and at least 8 sqrt(penalty), so that s_p <= 9/16 of a range and a range <= 2
sqrt(score_bound) s_p; rms(y), which all is measured in, is between 2^-64 and 2^64. m = 0 without an intercept, where
every row has a mirror image.

1. *Scales* (`tokens`). Ranges are found by heads of sharpness 2^44 whose scores are exact: each loses at most 2^-44 per
key, and rounding. Cells are picked by scores that fall by 64 (v/B - 1) beyond an edge B. One cell an octave with values
1/B at its upper edge gives range * r in [0.498, 1.005]: for v = t B, t in [1, 2] from the lower edge, the cell itself
gives t/2, the one below, value t, weighs at most e^{-64(t-1)}, the one above, value t/4, at most e^{-64(1-t/2)}, and
all others below e^-26 in sum. In the same way two cells an octave give s r r' in [0.998, 1.004 2^(1/4)]. Both need the
range and the spread up to 2^-10 relatively, which is required. Nothing else is used of r and r'. Tokens +e_p and -e_p
may hold different ones; every product over the pair takes their mean.

2. *Moved data*. Tokens are the scaled, centred rows up to e in every entry (centring, first and second scaling, the
latter two by heads that multiply). With E = sqrt(d) e, mu the least eigenvalue without errors and mu' = mu (1 - 2
E/sqrt(mu)) with them, the solution of the tokens answers a query of leverage l differently by at most

    l' (E/sqrt(mu') + E/sqrt(mu) + e_y) + sqrt(d) e_q/sqrt(mu) + e_y,
    l' = sqrt(l/(1 - 2E/sqrt(mu))) + sqrt(d) e/sqrt(mu').

(A(w' - w) = dX^T r + X^T(dy - dX w), |A^{-1/2} X^T| <= 1, |r| <= rms(y), |w| <= rms(y)/sqrt(mu).)

3. *Inverse*. A^ = A + F as computed. With T = Z A^ + a, Z' = 2Z - TZ + b: I - Z'A^ = (I - ZA^)^2 + aZA^ - bA^. What
+e_p and -e_p hold of Z differs from an odd pair by c, c' = c(2 - A^Z) + (odd parts of a) Z + (of b): odd parts are
rounding, and c times the slope of the error by the asking vector, at most its bound at twice the reach over the reach.

4. *Refinement*. w' - w* = (I - ZA)(w - w*) + Z(error of the residual) + error of the product, |I - ZA| <= |I - ZA^| +
|Z||F|. The answer is off by l' |A^{1/2}(w - w*)|, and by what the last product and the sum with the mean of y round.

With a penalty, g at the unit tokens is sqrt(penalty) r r' up to h in every entry: its heads, and the product of the
differences of scales at +e_p and -e_p, which are rounding times at most 256 and 32 (how steep cells are). G is then
within d h of the root of the penalty's matrix P <= A, and |A^{-1/2}(GG - P)w| <= d h (|w| + (|A^{1/2}w| + d h
|w|)/sqrt(mu')).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from flint import arb, fmpq

from softwright.checker.in_context.bilinear import MOST, Group, best_radius, moments, run_error
from softwright.checker.in_context.preparation import Form, only, people, rational, read_group, weighted
from softwright.checker.in_context.stack import Layer, Stack
from softwright.checker.in_context.steps import Claim
from softwright.checker.refusal import require

OFFSET = 1024
UNIT = arb(2) ** 64
LOW, HIGH = arb(fmpq(498, 1000)), arb(fmpq(1005, 1000))
THIN = arb(fmpq(998, 1000))
METHOD = "self-correcting recursions of the inverse and its refinement, Cauchy's estimate and rounding of all layers"


def thick() -> arb:
    return arb(fmpq(1004, 1000)) * arb(2).sqrt().sqrt()


def smaller(a: arb, b: arb) -> arb:
    """Either will do: both are bounds."""
    return a if a < b else b


class Heads:
    """Heads of a layer that multiply, as stored: their error without and with rounding."""

    def __init__(self, stack: Stack, layer: Layer, heads: range, form: Form, wanted: fmpq, rounded: bool) -> None:
        _, self.scales, self.outputs = read_group(layer, heads, form)
        self.precision, self.layer, self.wanted, self.rounded = stack.precision, layer, wanted, rounded
        self.products = form.Q.shape[1]
        E = moments(Group(self.scales, self.outputs, wanted, arb(0), arb(0), arb(0), 1, arb(0)), MOST + 1)
        self.series = [abs(arb(E[0])), abs(arb(E[1] - wanted))]
        for m in range(2, MOST + 1):
            R = best_radius(m)
            self.series.append(abs(arb(E[m])) * arb.max(arb(1), R.tan()) / R**m if E[m] != 0 else arb(0))

    def exact(self, reach: arb, value: arb) -> arb:
        R, total, power = arb(3) / 2, arb(0), arb(1)
        for factor in self.series:
            total, power = total + factor * power, power * reach
        for o, s in zip(self.outputs, self.scales, strict=True):
            ratio = abs(arb(s)) * reach / R
            require(ratio < 1, "scores of a group of heads reach beyond 1.5, where it is not bilinear")
            total += abs(arb(o)) * R.tan() * ratio ** (MOST + 1) / (1 - ratio)
        return total * value

    def run(self, reach: arb, value: arb, keys: int, slot: arb, most: arb, unit: arb) -> arb:
        """What rounding adds, values and slot being in units from 1/unit to unit; `most`: all numbers of a layer."""
        if not self.rounded:
            return arb(0)
        worst, reach, value = arb(0), reach.upper(), value.upper()  # balls would not cancel where they occur twice
        for size in (1 / unit, unit):
            group = Group(self.scales, self.outputs, self.wanted, reach, value * size, arb(0), self.products, most)
            error = run_error(
                [group], self.precision, exact=self.exact(reach, value * size), keys=keys, heads=self.layer.heads,
                slot=slot * size, values=most * size, largest=most * size + most,
            )  # fmt: skip
            worst = arb.max(worst, error / size)
        return worst

    def error(self, reach: arb, value: arb, keys: int, slot: arb, most: arb, unit: arb) -> arb:
        return self.exact(reach, value) + self.run(reach, value, keys, slot, most, unit)

    def steepness(self, reach: arb, value: arb) -> arb:
        return self.exact(2 * reach, value) / reach


@dataclass(frozen=True)
class Tokens:
    coordinate: arb
    least: arb  # mu'
    greatest: arb
    lever: arb  # l'
    y: arb  # e_y
    apart: arb  # 2., the answers of moved data
    g: arb
    h: arb
    most: arb


class Reproof:
    def __init__(self, stack: Stack, rounded: bool) -> None:
        s = stack.settings
        self.stack, self.s, self.rounded, self.d = stack, s, rounded, int(s["features"])
        self.data = people(stack)
        self.keys = int(s["max_rows"]) * len(self.data)
        self.penalised, self.units, self.many = s["penalty"] > 0, 2 * self.d, 2 * int(s["order"])
        self.all_keys = self.keys + (self.units if self.penalised else 0)
        depth = len(stack.program)
        self.refinements = 4
        self.inverted = depth - 1 - 3 * self.refinements

    def heads(self, layer: Layer, heads: range, form: Form, wanted: fmpq | int) -> Heads:
        return Heads(self.stack, layer, heads, form, fmpq(wanted) if isinstance(wanted, int) else wanted, self.rounded)

    def over_units(
        self, place: int, query: str, matrix: str, target: str, sign: int = 1, second: bool = False
    ) -> Heads:
        """Heads that multiply a slot of the asking token with the unit tokens' matrix or vector."""
        block, stack = self.stack.block, self.stack
        form = Form([only(stack, "unit")], block(query), block("e"), block(matrix), sign * block(target).T)
        first = self.many if second else 0
        return self.heads(stack.program[place], range(first, first + self.many), form, self.d)

    def mean(self, value: arb, slot: arb, unit: arb) -> arb:
        """Rounding of a mean over all rows that is taken off a slot."""
        if not self.rounded:
            return arb(0)
        layer, worst, value = self.stack.program[0], arb(0), value.upper()
        for size in (1 / unit, unit):
            group = Group((fmpq(0),), (fmpq(1),), fmpq(0), arb(0), value * size, arb(0), self.d + 4, arb(2) ** 31)
            error = run_error(
                [group], self.stack.precision, exact=value * size, keys=self.keys + 1, heads=layer.heads,
                slot=slot * size, values=value * size + arb(2) ** 31, largest=arb(2) ** 100,
            )  # fmt: skip
            worst = arb.max(worst, error / size)
        return worst

    def tokens(self) -> Tokens:
        s, d = self.s, self.d
        lever, rows = arb(s["score_bound"]).sqrt(), arb(s["max_rows"]).sqrt()
        offset = arb(OFFSET) if s["intercept"] else lever
        e_1, e_y = self.mean(offset, 2 * offset + lever, arb(1)), self.mean(rows, 2 * rows, UNIT)
        condition = arb(s["condition"])
        if s["scaling"]:
            e, e_q, coordinate, h = self.scaled(lever, offset, e_1)
            g, least, greatest = thick(), THIN**2 / condition, thick() ** 2 * d
        else:
            least, greatest = 1 / condition, arb(s["largest_eigenvalue"]) + arb(s["penalty"])
            e = e_q = greatest.sqrt() * e_1
            coordinate, g = greatest.sqrt() * lever + arb(1) / 64, arb(s["penalty"]).sqrt()
            stored = self.stack.tensors["base_unit"][0, self.stack.at("g")]
            h = abs(arb(rational(float(stored))) - g) if self.penalised else arb(0)
        E, e_most, side = arb(d).sqrt() * e, arb.max(e, e_q), least.sqrt()
        lost = 2 * E / side
        require(lost < 0.5 and e_most < arb(1) / 128, "rows may be moved too far before they are fitted")
        moved = least * (1 - lost)
        l_ = lever / (1 - lost).sqrt() + arb(d).sqrt() * e_most / moved.sqrt()
        apart = l_ * (E / moved.sqrt() + E / side + e_y) + arb(d).sqrt() * e_q / side + e_y
        most = 2 * (coordinate + rows + greatest + condition)
        return Tokens(coordinate, moved, (greatest.sqrt() + E) ** 2, l_, e_y, apart, g, h, most)

    def scaled(self, lever: arb, offset: arb, e_1: arb) -> tuple[arb, arb, arb, arb]:
        """Errors of rows and queries, the largest coordinate, and the error h of g."""
        s, d, stack, one, root = self.s, self.d, self.stack, arb(1), math.sqrt(self.s["penalty"])
        x, e, first, second = (stack.block(slot) for slot in ("x", "e", "scale1", "scale2"))
        scale, spread, last = stack.program[2], stack.program[3], stack.program[5]
        near = self.heads(scale, range(scale.heads), Form([], x, first, e, x.T), d)
        far = self.heads(last, range(last.heads // 2), Form([], x, second, e, x.T), d)
        also, to = [only(stack, "data"), weighted(stack)], stack.block("spread").T
        wide = self.heads(spread, range(4), Form(also, e, x, x, to), 1)
        most, none = arb(2) ** 31, arb(0)
        rounding = self.mean(offset, 2 * offset, one)
        found = arb(2 * self.keys) * arb(2) ** (20 - 44) + 2 * rounding
        held = HIGH * (1 + e_1)
        e_2 = near.error(held, one, self.units, none, most, one)
        queries = HIGH * arb.max(arb(s["range_bound"]) / 4, one) * (1 + e_1)
        e_2q = near.error(queries, one, self.units, none, most, one)
        thin = LOW / (2 * lever)  # the least r s_p
        moved = (HIGH * e_1 + e_2) / thin
        off = wide.error(held + e_2, held + e_2, self.keys + self.units, none, arb(4), one) / thin**2
        steep = 1024 * rounding + arb(2) ** -28
        if self.penalised:
            form = Form([only(stack, "pen")], root * first, e, root * first, to)
            penal, share = self.heads(spread, range(4, 6), form, d), HIGH / 8
            lost = penal.error(share, share, self.keys + self.units, none, most, one)
            off += lost / thin**2 + steep + arb(2) ** -40  # scales are read by a division, which rounds
        require(lever < 256 and found < 2.0**-10 and 3 * moved + off < 2.0**-10, "ranges or spreads are not told apart")
        coordinate = thick() * lever * (1 + 2 * moved) + arb(1) / 64
        e_3, r2, h = far.error(coordinate, one, self.units, none, most, one), thick() / thin, arb(0)
        if self.penalised:
            form = Form([], e, second, first, stack.block("g").T)
            group = self.heads(last, range(last.heads // 2, last.heads), form, d * rational(root))
            value = HIGH / 8 / arb(rational(root))
            turned = 64 * (steep + 2 * off) + arb(2) ** -28
            h = group.error(r2, value, self.units, none, most, one) + r2 * HIGH / 8 * (steep * turned + arb(2) ** -50)
        common = thick() * e_1 + e_3
        return common + r2 * e_2, common + r2 * e_2q, coordinate, h

    def total(self) -> dict[str, arb]:
        t, d, s, units = self.tokens(), self.d, self.s, self.units
        stack, none, program, head = self.stack, arb(0), self.stack.program, self.stack.head
        e, x, a = (stack.block(slot) for slot in ("e", "x", "a"))
        also = [only(stack, "data"), weighted(stack)]
        first, asked = range(self.many), (self.all_keys, none, t.most, UNIT)
        entry = self.heads(program[head], first, Form(also, e, x, x, a.T), 1).error(t.coordinate, t.coordinate, *asked)
        heads_off = arb(0)
        if self.penalised:
            g = stack.block("g")
            form = Form([only(stack, "pen")], g, e, g, a.T + stack.block("penalty").T)
            group = self.heads(program[head], range(self.many, 2 * self.many), form, d)
            heads_off = group.error(t.g + t.h, t.g + t.h, *asked)
            entry += heads_off + t.h * (2 * t.g + d * t.h)
        F = d * entry
        require(t.least / 2 > F, "the matrix may be off by more than its smallest eigenvalue")
        big, inverse = t.greatest + F, 1 / (t.least - F)
        R, Z, c = self.inverse(t, F, big, inverse)

        residual = self.heads(
            program[self.inverted], first, Form(also, e, x, stack.vector(y=1.0, f=-1.0), stack.vector(c=1.0)), 1
        )
        solve = self.over_units(self.inverted + 1, "z", "c", "w")
        fit = self.over_units(len(program) - 1, "x", "w", "f")
        root_d, wide, narrow = arb(d).sqrt(), t.greatest.sqrt(), t.least.sqrt()
        y = 1 + t.y
        w_most, q = y / narrow, R + Z * F
        white_Z = (1 + F * inverse) / narrow + wide * R * inverse
        off, e_f, apart, white = w_most, none, none, none
        for k in range(self.refinements):
            w = none if k == 0 else w_most + off
            value = arb(s["max_rows"]).sqrt() + t.y + e_f + (none if k == 0 else t.lever * (y + wide * off))
            lost = root_d * residual.error(t.coordinate, value, *asked) + wide * e_f
            if self.penalised:
                taken = self.over_units(self.inverted, "penalty", "w", "c", -1, True)
                slot = (self.all_keys, value * t.coordinate, t.most, UNIT)
                lost += (
                    root_d * taken.error(t.g**2 + d * heads_off, w + apart + arb(2) ** -60, *slot) + d * heads_off * w
                )
            dh = d * t.h
            in_white, plain = dh * w + dh / narrow * (y + wide * off + dh * w), dh * (2 * t.g + dh) * w
            gradient = t.greatest * off + lost + plain
            slot = (units, w + apart + (Z + c) * gradient, t.most, UNIT)
            e_s = root_d * solve.error(Z + c, gradient, *slot)
            apart += c * gradient + e_s
            white = (
                wide * (q * off + e_s + R * inverse * plain) + white_Z * lost + in_white * (1 + white_Z * F / narrow)
            )
            off = q * off + Z * (lost + plain) + e_s
            e_f = fit.error(t.coordinate, w_most + off + apart, units, none, t.most, UNIT)
        require(off < w_most, "the refinement is not proved to converge")
        read = e_f
        if self.rounded:
            read += 2 * stack.width * arb(stack.precision.unit) * (t.lever * (y + white) + e_f + 2)
        refined = t.lever * white
        parts = {"moved_by_preparation": t.apart, "inverse_off": R, "refinement": refined, "reading": read}
        return {"total": t.apart + refined + read, **parts}

    def inverse(self, t: Tokens, F: arb, big: arb, inverse: arb) -> tuple[arb, arb, arb]:
        """|I - Z A^|, |Z| and |c| after all steps."""
        s, d, stack, none = self.s, self.d, self.stack, arb(0)
        start = arb(fmpq(19, 10)) / (
            arb(d) * arb(2).sqrt() if s["scaling"] else arb(s["largest_eigenvalue"]) + s["penalty"]
        )
        slack = 16 * arb(stack.precision.unit)
        place = stack.head + 1
        product, step = self.over_units(place, "z", "a", "t"), self.over_units(place + 1, "t", "z", "z", -1)
        R = arb.max(1 - start * t.least, start * t.greatest - 1) + start * (F + slack * big)
        right, c, Z = R, start * slack, start * (1 + slack)
        for _ in range((self.inverted - place) // 2):
            require(R < 1, "the iteration of the inverse is not proved to converge")
            held = Z + c
            run = d * product.run(held, big, self.units, none, t.most, UNIT)
            a, odd = d * product.exact(held, big) + run, d * c * product.steepness(held, big) + run
            turned = big * c + odd
            reach = 1 + R + a + turned
            run = d * step.run(reach, held, self.units, 2 * held, t.most, UNIT)
            b = d * step.exact(reach, held) + run
            c = c * (1 + right) + odd * Z + d * turned * step.steepness(reach, held) + run
            right, Z = right**2 + big * (a * Z + b), (1 + R + a) * Z + b
            R = R**2 + a * (1 + R) + b * big
            right, Z = smaller(right, big * inverse * R), smaller(Z, (1 + R) * inverse)
        return R, Z, c


def solution(stack: Stack) -> Claim:
    """The claim of a stack that has been compared entry by entry with what it must be (`normal_equations`)."""
    s = stack.settings
    found, exact = Reproof(stack, True).total(), Reproof(stack, False).total()["total"]
    total = found.pop("total")
    most = s["largest_eigenvalue"] + s["penalty"]
    spectrum = f"condition <= {s['condition']:g}"
    sizes = f", queries within {s['range_bound'] / 4:g} ranges of the mean, ranges between 2^-20 and 2^20"
    if s["penalty"] > 0:
        sizes += f" and at least {8 * math.sqrt(s['penalty']):g}"
    if not s["scaling"]:
        low = 1 / s["condition"]
        spectrum, sizes = f"eigenvalues of the covariance, penalty included, between {low:g} and {most:g}", ""
    what = "ridge" if s["penalty"] > 0 else "least-squares"
    statement = (
        f"each prediction against that of the exact {what} solution, per unit of the root mean square of y, for all "
        f"prompts of up to {s['max_rows']} rows of weight 1 with {spectrum}, leverage <= {s['score_bound']:g} of rows "
        f"and queries, features within {OFFSET} standard deviations of 0{sizes}, root mean square of y between 2^-64 "
        "and 2^64"
    )
    numbers = {
        "order": float(s["order"]),
        "leverage": float(s["score_bound"]),
        "offset": float(OFFSET),
        "ranges": s["range_bound"] / 4,
        "condition": float(s["condition"]),
    }
    return Claim(statement, exact, total - exact, found, method=METHOD, old=statement, numbers=numbers, total=total)
