"""A softmax head on a box in ball arithmetic: Taylor model and rounding bound.

Model. On t = c + r s, |s_i| <= 1, a head is N/D with N = sum_j u_j(s) W_j e^{y_j(s)}, D = sum_j W_j e^{y_j(s)},
W_j = e^{score at c}, y_j = (k_j - kbar).(r s), u_j = v_j + G_j t - vbar(s); the key kbar and the affine vbar are free.
The Taylor coefficients are moments of k_j - kbar: one product of ball matrices for many boxes, with the keys taken from
a fixed middle, then times the series of e^{-(kbar - middle).(r s)}, which moves them to kbar and cancels in N/D. With
rho_j = |k_j - kbar|.r and tail(x) = sum_{k>p} x^k/k! <= min(e^x, x^(p+1)/(p+1)! (p+2)/(p+2-x)) the polynomials miss

    e_D = sum W_j tail(rho_j),    e_N = sum W_j (|u_j| tail(rho_j) + |linear part of u_j| rho_j^p/p!),

and the quotient Q of the polynomials as power series obeys, with D(s) >= D_0 e^{-|D|_1/D_0} = D_min by Jensen,

    |N/D - Q| <= (e_N + e_D |Q| + sum_{k+l>p} |Q|_k |D|_l) / D_min.

Tokens whose weight stays tiny against another's on a whole region are left out there; with T a bound of the sum of
their softmax weights this moves g by at most T (max|v| + |g|).

Rounding (u unit roundoff, gamma_n = n u/(1 - n u); any order of summation, fused or not). t_i is rounded f_i times: not
by the difference if its centre is 0, not by the product if its scale is a power of two. A score adds up b and one
product for each of the d variables that have keys: each product is rounded, all additions but the last round at most
|k||t| + |b|, and the last rounds s. Then the largest score is subtracted, exp errs by exp_ulps, blocks of keys are
joined by rescaling:

    theta_j = u (|k_j||t| + (d-1)(|k_j||t| + |b_j|) + |s_j|) + (u + u^2)|k_j - kbar|(f|t|) + u (s_max - s_j) + exps,
    eps = e^theta - 1,
    |fl(g) - g| <= [sum w eps |v - g| + sum w (1 + eps) dv]/(1 - tau) + gamma_n (sum w (1 + eps)|v|/(1 - tau) + |g|)

and smaller terms, with tau = sum w eps and w <= omega = W e^rho/D_min. (What t's rounding does to all scores alike
cancels: hence k_j - kbar.) |v| is |v_j| + |G_j||t|, because v and the columns of G are summed apart, normalised one by
one and added up with t at the end: dv = u (|G_j||t| + (e-1)|v|) + (u + u^2)|G_j|(f|t|) with e sloped variables, and
the last of these additions rounds g. n = A + 1 + rescalings with A kept tokens: a term of the numerator meets a
product, A - 1 additions and, where columns or weights are normalised one by one, another product; the denominator A -
1 additions and a reciprocal, and g then the last addition, or the product if there is none. Only kept tokens count:
rounding to nearest errs by no more than the smaller of two addends, so terms
of negligible total weight L cost at most 8 L (max|v| + |g|) and are not counted. L is a sum of weights as they run, in
which a token's rounding and its distance from the largest score stand in one exponent: keys may span many powers of
ten, and then the scores of tokens without weight are rounded by more than 1. The largest computed score differs from
the largest score by at most max_j (theta_j + min(0, log(N omega_j))), as w_j >= e^(s_j - s_max)/N. The axis-by-axis
engine computes the head whose biases are sums over the axes,
by d small softmaxes: its own theta and n.
Numbers below tau, the smallest normal one, may be flushed wherever they are read or computed: t then errs by (3 scale +
2) tau, a score k.t + b by (|k|.(3 scale + 2) + |t| + 6d + 6) tau, a value v + G t by the same with |G|. A weight loses
exp_floor in each exp and tau in each product, against a largest weight that is 1 but for its rounding. Over numerator
and denominator, dropped tokens included, that is at most 2.5 N (rescalings + 1) ((exp_floor + tau) (max|v| + 1) + what
a value loses). Nothing overflows if the sums of all heads' values and the scores leave a factor 16 to the largest
number (`statement.py` looks at t).
Assumed of the run: IEEE arithmetic, rounded to nearest, exp_ulps and exp_floor, and KEY_BLOCK.

Coefficients are balls. Quantities that only bound errors are sums, products and quotients of non-negative numbers,
computed in float64 and then passed through `above`, which covers 2^20 roundings of each, and underflows (parameters are
below 1e100). Assumed for them: IEEE arithmetic, and that NumPy's exp, expm1 and power are right to 2^-32.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from flint import arb, arb_mat, arb_poly, ctx

from softwright.checker.limits import check_time
from softwright.checker.parser import require
from softwright.checker.precision import Precision
from softwright.checker.taylor import (
    NOTHING,
    ONE,
    ZERO,
    Model,
    Parts,
    Space,
    dot,
    norms,
    plus,
    total,
    truncated,
)

KEY_BLOCK = 128  # keys between two rescalings; torch's fused CPU attention takes 512
BALLS, KEPT = 1_500_000, 5_000_000  # held in one list or matrix at a time, and for a head: 80 bytes each
WIDE = 16.0  # keys of a head that spread so many times wider than those of a view
LARGEST_EXPONENT = 600.0  # e^600 is a float64; a box with a larger one is not proved and will be bisected


def exact(x: Any) -> arb:
    return arb(float(x))


def above(x: Any) -> Any:
    """An upper bound of non-negative exact values from their float64 results."""
    return x * (1.0 + 2.0**-30) + 1e-200


def ceiling(x: arb) -> float:
    return math.nextafter(float(abs(x).upper()), math.inf)


class Head:
    """One head on the variables `columns`, in real arithmetic; `sizes` are its axes if it is run axis by axis."""

    def __init__(
        self, data: dict[str, np.ndarray], sizes: list[int] | None, columns: list[int], precision: Precision
    ) -> None:
        keys, biases, self.values = (data[name].astype(float) for name in ("keys", "biases", "values"))
        slopes = data["slopes"].astype(float) if "slopes" in data else np.zeros((*self.values.shape, keys.shape[1]))
        others = [i for i in range(keys.shape[1]) if i not in columns]
        require(not keys[:, others].any() and not slopes[:, :, others].any(), "a part leaves out a variable it needs")
        self.sizes, self.precision, self.affine = sizes, precision, "slopes" in data
        self.tokens, self.stored, self.edges = len(biases), biases, None
        self.float_bias, self.bias_size = biases, np.abs(biases)
        if sizes is not None:
            self._read_edges(sizes, keys)
        self.keys = np.ascontiguousarray(keys[:, columns])
        self.sloped = [n for n, i in enumerate(columns) if slopes[:, :, i].any()]
        self.slopes = np.ascontiguousarray(slopes[:, :, [columns[n] for n in self.sloped]])  # (N, m, sloped)
        self.middle = [exact(x) for x in (self.keys.max(axis=0) + self.keys.min(axis=0)) / 2]
        self.extent = self.largest = self.lost = self.value_lost = 0.0
        self.frame = np.full(len(columns), 2.0)  # how often each variable is rounded on its way to t
        self.terms = int(np.count_nonzero(self.keys.any(axis=0)))  # variables that have keys
        self.rows: tuple[int, list[list[arb]]] = (0, [])
        self.sides: dict[tuple[int, ...], Any] = {}  # its lines, if it is a grid (`grid.py`)

    def _read_edges(self, sizes: list[int], keys: np.ndarray) -> None:
        """A head that is run axis by axis: its bias is the sum over the axes of differences to the grid's corner."""
        d, grid, grid_keys = len(sizes), self.stored.reshape(sizes), keys.reshape(*sizes, -1)
        summed, moduli, corner, self.edges = np.zeros(sizes), np.zeros(sizes), self.stored[0], []
        for i in range(d):
            line, shape = tuple(slice(None) if j == i else 0 for j in range(d)), [-1 if j == i else 1 for j in range(d)]
            along = grid_keys[line][:, i].reshape(shape)
            require(np.array_equal(grid_keys[..., i], np.broadcast_to(along, sizes)), "a grid head is not a grid")
            self.edges.append([exact(b) - exact(corner) for b in grid[line]])
            step = (grid[line] - corner).reshape(shape)
            summed, moduli = summed + step, moduli + np.abs(step)
        # Every stored bias is a rounded sum of rounded numbers: farther off, the engines would be two networks. Floats
        # see nearly all of that; what they leave open, by at most 3 d + 8 roundings, is looked at exactly.
        room = 16 * d * self.precision.unit
        rest, size = np.abs((grid - corner) - summed), abs(corner) + moduli + np.abs(grid)
        certain = rest <= (room - (3 * d + 8) * 2.0**-53) * (1 - 2.0**-40) * size
        for place in np.argwhere(~certain).tolist():
            steps, b = [edge[j] for edge, j in zip(self.edges, place, strict=True)], exact(grid[tuple(place)])
            most = abs(exact(corner)) + total(map(abs, steps)) + abs(b)
            fits = abs(b - exact(corner) - total(steps)) <= room * most
            require(fits, "the biases of a grid head do not add up")
        self.float_bias = summed.ravel()
        self.bias_size = np.nextafter(moduli.ravel() * (1 + 2.0**-40), np.inf)

    # Balls of all tokens are made when somebody asks for them: a large grid is looked at by windows of its lines.
    @functools.cached_property
    def bias(self) -> list[arb]:
        return list(map(exact, self.stored)) if self.edges is None else [total(each) for each in product(*self.edges)]

    @functools.cached_property
    def factors(self) -> list[list[arb]]:
        """Values, then slopes, by columns: m + m * sloped of N numbers."""
        columns = np.concatenate([self.values, self.slopes.reshape(self.tokens, -1)], axis=1).T
        return [[exact(x) for x in column] for column in columns]

    @functools.cached_property
    def exact_keys(self) -> list[list[arb]]:
        return [[exact(k) for k in column] for column in self.keys.T]

    @functools.cached_property
    def span(self) -> np.ndarray:
        return np.ptp(self.keys, axis=0)

    def measure(self, reach: np.ndarray, scale: np.ndarray, frame: np.ndarray | None = None) -> None:
        """Bounds, for |t| <= reach, of |k||t| + |b|, of |v| + |G||t|, and of what flushing takes from either; `frame`
        is how often the variables are rounded, twice unless given."""
        self.frame = self.frame if frame is None else frame
        read, fixed = 3 * scale + 2, np.sum(reach) + 6 * len(reach) + 6
        steepest = np.max(np.abs(self.slopes) @ read[self.sloped])
        self.lost = float(above((np.max(np.abs(self.keys) @ read) + fixed) * self.precision.smallest))
        self.value_lost = float(above((steepest + fixed) * self.precision.smallest))
        reach = np.maximum(reach, 1.0)
        self.extent = float(above(np.max(np.abs(self.keys) @ reach + 2 * self.bias_size + np.abs(self.float_bias))))
        self.largest = float(above(np.max(np.abs(self.values) + np.abs(self.slopes) @ reach[self.sloped])))

    def monomials(self, space: Space, tokens: list[int]) -> list[list[arb]]:
        """(k_j - middle)^alpha/alpha! for these tokens, at the precision of the moment; kept unless too many."""
        if self.tokens * (1 + len(space.recipe)) > KEPT:
            return self.powers(space, tokens, self.middle)
        if self.rows[0] != ctx.prec:
            self.rows = (ctx.prec, self.powers(space, list(range(self.tokens)), self.middle))
        return [self.rows[1][j] for j in tokens]

    def powers(self, space: Space, tokens: list[int], middle: list[arb]) -> list[list[arb]]:
        columns = [[keys[j] - m for j in tokens] for keys, m in zip(self.exact_keys, middle, strict=True)]
        return [space.powers(kappa, True) for kappa in zip(*columns, strict=True)]

    def exps(self) -> float:
        """The relative error of all exponentials that a weight meets, and of the rescalings between blocks of keys."""
        ulps, u = self.precision.exp_error, self.precision.unit
        count = len(self.sizes) if self.sizes else self.rescalings + 1
        return count * ulps / (1 - ulps) + self.rescalings * u / (1 - u)

    @property
    def rescalings(self) -> int:
        return 0 if self.sizes else (self.tokens - 1) // KEY_BLOCK


class View:
    """The tokens of a head that matter on a region.

    `dropped` bounds the sum of the softmax weights of the others, and `run` that of their weights as they are computed.
    """

    def __init__(self, head: Head, index: np.ndarray, dropped: float = 0.0, run: float = 0.0) -> None:
        self.head, self.index, self.dropped, self.run = head, index, dropped, run
        self.keys, self.values, self.slopes = head.keys[index], head.values[index], head.slopes[index]
        # Moments are taken about the middle of the keys: about one of this view if the head's keys spread much wider.
        span = np.ptp(self.keys, axis=0)
        self.own = bool(len(index) < head.tokens and (span < head.span / WIDE).any())
        middle = (self.keys.max(axis=0) + self.keys.min(axis=0)) / 2
        self.middle = [exact(x) for x in middle] if self.own else head.middle

    def monomials(self, space: Space, tokens: list[int]) -> list[list[arb]]:
        return self.head.powers(space, tokens, self.middle) if self.own else self.head.monomials(space, tokens)

    def narrowed(self, c: list[arb], r: list[arb], smallest: float) -> View:
        """Leave out tokens whose weight stays below `smallest` on the box c +- r, and below e times that as it is
        computed. Floats propose, balls prove."""
        head, at, reach = self.head, np.array(list(map(float, c))), np.array(list(map(float, r)))
        bias = head.float_bias[self.index]
        best = int(np.argmax(self.keys @ at + bias))
        away = self.keys - self.keys[best]
        far = away @ at + np.abs(away) @ reach + bias - bias[best] < math.log(smallest)
        if 4 * np.count_nonzero(far) < len(far):  # large batches of boxes with the same tokens are worth more
            return self
        dropped, run, top = self.dropped, self.run, int(self.index[best])
        errors = self._score_errors(c, r, best)
        kept = ~far
        for place in np.flatnonzero(far).tolist():  # w_j <= e^{s_j - s_top}, whatever the other tokens do
            j = int(self.index[place])
            step = [keys[j] - keys[top] for keys in head.exact_keys]
            gap = head.bias[j] - head.bias[top] + dot(step, c) + dot(map(abs, step), r)
            computed = gap + arb(float(errors[place]))
            if not computed < math.log(smallest) + 1:  # its rounding might make it one that counts
                kept[place] = True
                continue
            dropped += ceiling(gap.exp())
            run += ceiling(computed.exp())
        return View(head, self.index[kept], float(above(dropped)), float(above(run)))

    def _score_errors(self, c: list[arb], r: list[arb], best: int) -> np.ndarray:
        """By how much the computed weight of each token may be too large against that of token `best`, as a logarithm.

        A difference of scores is rounded relatively to |k||t| + |b| of both, by d + 1 terms, two roundings of t, and
        that of each distance from the largest computed score, which is one of this view's.
        """
        head, d = self.head, len(c)
        u = head.precision.unit
        reach = np.array([ceiling(abs(x) + y) for x, y in zip(c, r, strict=True)])
        size = np.abs(self.keys) @ reach + head.bias_size[self.index] + np.abs(head.float_bias[self.index])
        gamma = (d + 8) * u / (1 - (d + 8) * u)
        both = size + size[best]
        at, radius = np.array(list(map(float, c))), np.array([ceiling(y) for y in r])
        away = self.keys - self.keys[best]
        bias = head.float_bias[self.index]
        # An upper bound of s_j - s_best as computed; what these float sums round is far below gamma * both.
        most = max(float(np.max(away @ at + np.abs(away) @ radius + bias - bias[best] + 2 * gamma * both)), 0.0)
        return above(2 * gamma * (both + most) + 2 * head.exps() + 2 * head.lost)

    def on_boxes(
        self, space: Space, boxes: list[tuple[list[arb], list[arb]]], allowed: float
    ) -> Iterator[tuple[list[Model], list[float], list[float]]]:
        """For each box (c, r): models of the outputs, bounds of their rounding errors and of their moduli.

        `allowed` is the rounding error that is claimed; it only decides which tokens are worth counting.
        """
        step = max(1, BALLS // (len(self.index) * (3 + len(self.head.factors))))
        for first in range(0, len(boxes), step):
            yield from self._on_some(space, boxes[first : first + step], allowed)

    def _on_some(
        self, space: Space, boxes: list[tuple[list[arb], list[arb]]], allowed: float
    ) -> Iterator[tuple[list[Model], list[float], list[float]]]:
        """The same for as many boxes as the memory allows at once."""
        head, tokens = self.head, self.index.tolist()
        score = arb_mat([*([keys[j] for j in tokens] for keys in head.exact_keys), [head.bias[j] for j in tokens]])
        factors = [[column[j] for j in tokens] for column in head.factors]
        shifted, stack = [], []
        for row in (arb_mat([[*c, ONE] for c, _ in boxes]) * score).tolist():
            top = max(row, key=float).mid()  # no float: what one misses of a large score may exceed 1
            z = [s - top for s in row]
            W = [x.exp() for x in z]
            shifted.append(np.array(list(map(float, z))))
            stack += [W, *(list(map(operator.mul, W, factor)) for factor in factors)]
        count, step, product = 1 + len(factors), max(1, BALLS // (1 + len(space.recipe))), None
        for first in range(0, len(tokens), step):  # the sum over the tokens in parts
            check_time()
            rows = arb_mat(self.monomials(space, tokens[first : first + step]))
            part = arb_mat([row[first : first + step] for row in stack]) * rows
            product = part if product is None else product + part
        moments = [] if product is None else product.tolist()
        for b, (c, r) in enumerate(boxes):
            scale, own = space.powers(r), moments[b * count : (b + 1) * count]
            drift = [float(own[0][n] / own[0][0]) for n in space.first]  # near the softmax mean of k - middle
            kbar = np.array([float(m) + x for m, x in zip(self.middle, drift, strict=True)])
            tilt, step = [arb_poly([1])], [(m - exact(k)) * x for m, k, x in zip(self.middle, kbar, r, strict=True)]
            slant = space.linear(ZERO, step)[1]
            for k in range(1, space.degree + 1):
                tilt.append(tilt[-1] * slant * (ONE / k))
            series = [space.multiply(tilt, space.polynomial(list(map(operator.mul, row, scale)))) for row in own]
            yield self._quotient(space, c=c, r=r, z=shifted[b], series=series, kbar=kbar, allowed=allowed)

    def _quotient(
        self,
        space: Space,
        *,
        c: list[arb],
        r: list[arb],
        z: np.ndarray,
        series: list[Parts],
        kbar: np.ndarray,
        allowed: float,
    ) -> tuple[list[Model], list[float], list[float]]:
        head, p, m = self.head, space.degree, self.values.shape[1]
        radius, reach = (
            np.array(list(map(ceiling, r))),
            np.array([ceiling(abs(x) + y) for x, y in zip(c, r, strict=True)]),
        )
        kappa = np.abs(self.keys - kbar)
        rho = (kappa @ radius) * (1 + 2.0**-48)
        slack = np.abs(z) * 2.0**-50
        exponent = np.nextafter(z + slack + rho, np.inf)
        weight = np.exp(z + slack)
        raised = np.where(
            exponent < LARGEST_EXPONENT, np.exp(np.minimum(exponent, LARGEST_EXPONENT)), np.inf
        )  # W e^rho
        small = np.minimum(rho, p / 2)
        last = small**p / math.factorial(p)
        tails = np.where(rho < p / 2, weight * last * small * (p + 2) / ((p + 1) * (p + 2 - small)), raised)
        last = np.where(rho < p / 2, weight * last, raised)
        D, inverse = series[0], ONE / series[0][0][0]
        D_norms = norms(D)
        D_min = D[0][0] * (-D_norms[1] * inverse).exp()
        e_D = arb(float(above(tails.sum())))
        models, run = [], []
        for o in range(m):
            N, at = series[1 + o], 1 + m + o * len(head.sloped)
            rise, base, doubt = [ZERO] * space.dim, self.values[:, o], np.abs(self.values[:, o])
            for G, slopes, i in zip(series[at : at + len(head.sloped)], self.slopes[:, o].T, head.sloped, strict=True):
                N = plus(N, space.multiply(space.linear(c[i], [r[i] if i == k else ZERO for k in range(space.dim)]), G))
                rise[i] = exact(G[0][0] * r[i] * inverse)
                base, doubt = base + slopes * float(c[i]), doubt + np.abs(slopes * float(c[i]))
            constant = exact(N[0][0] * inverse)
            vbar = space.linear(constant, rise)
            N = list(map(operator.sub, N, space.multiply(vbar, D)))
            lean = np.zeros(len(z))  # bound of the modulus of the part of u_j that is linear in s
            for slopes, i in zip(self.slopes[:, o].T, head.sloped, strict=True):
                term = slopes * float(r[i])
                lean += np.abs(term - float(rise[i])) + 2.0**-50 * (np.abs(term) + abs(float(rise[i])))
            deviation = np.abs(base - float(constant)) + lean + 2.0**-48 * (doubt + abs(float(constant)))
            e_N = arb(float(above(tails @ deviation + last @ lean)))
            Q: Parts = []
            for k in range(p + 1):
                Q.append((N[k] - sum((D[j] * Q[k - j] for j in range(1, k + 1)), NOTHING)) * inverse)
            Q_norms = norms(Q)
            error = (e_N + e_D * total(Q_norms) + truncated(Q_norms, D_norms)) / D_min
            offset = total(Q_norms) + error  # |g - vbar|
            size = offset + total(norms(vbar))
            far = arb(self.dropped) * (arb(head.largest) + size)
            models.append(Model(space, plus(Q, vbar), error + far))
            run.append((deviation, ceiling(offset + far), ceiling(size + far)))
        norm = math.nextafter(float(-D_min.log().lower()), math.inf) if D_min > 0 else math.inf
        log_omega = np.nextafter(exponent + norm, np.inf)  # of W e^rho/D_min
        gaps = max(float(exponent.max()), 0.0) + rho - (z - slack)
        at = np.array(list(map(float, c)))
        errors = self.rounding(
            at=at, radius=radius, reach=reach, log_omega=log_omega, gaps=gaps, kappa=kappa, run=run, allowed=allowed
        )
        return models, errors, [size for _, _, size in run]

    def rounding(
        self,
        *,
        at: np.ndarray,
        radius: np.ndarray,
        reach: np.ndarray,
        log_omega: np.ndarray,
        gaps: np.ndarray,
        kappa: np.ndarray,
        run: list[tuple[np.ndarray, float, float]],
        allowed: float,
    ) -> list[float]:
        """|fl(g) - g| of each output: log w <= log_omega, s_max - s <= gaps, |t| <= reach, |t - at| <= radius; run:
        |v - vbar|, |g - vbar|, |g|."""
        head, d, N = self.head, self.head.terms, self.head.tokens
        u, tiny, sizes = head.precision.unit, head.precision.smallest, head.sizes
        twice, rescalings, exps = 2 * u + u * u, head.rescalings, head.exps()

        def gamma(n: int) -> float:
            return n * u / (1 - n * u)

        products = np.abs(self.keys) @ reach * (1 + twice)  # of t as it is computed
        size = products + head.bias_size[self.index]
        if sizes:
            moved = gamma(2) * size * (1 + twice)
        else:
            bias = head.float_bias[self.index]
            doubt = 2.0**-48 * (np.abs(self.keys) @ np.abs(at) + np.abs(bias)) + 2 * twice * products
            last = np.minimum(size, np.abs(self.keys @ at + bias) + np.abs(self.keys) @ radius + doubt)
            moved = u * (products + max(d - 1, 0) * size + last) * (1 + 8 * (d + 1) * u)
        framed = reach * head.frame
        moved = above(moved + (u + u * u) * (kappa @ framed) + head.lost)
        below = np.minimum(log_omega + math.log(N) * (1 + 2.0**-40), 0.0)  # s_j - s_max at most
        worst = float(above(max(np.max(below + moved), 0.0)))  # by which the largest computed score is off
        theta = above(moved + u * (gaps + 2 * worst) + exps)
        # Tokens of negligible weight: `lost` bounds what the run network may give to them all.
        computed = np.exp(np.minimum(below + theta + worst, LARGEST_EXPONENT))
        order = np.argsort(computed)
        running = above(self.run + np.concatenate([[0.0], np.cumsum(computed[order])]))
        first = max(int(np.searchsorted(running[:-1], allowed / (8192 * (1 + head.largest)), side="right")) - 1, 0)
        lost, kept = float(running[first]), order[first:]
        w = np.exp(np.minimum(log_omega[kept], LARGEST_EXPONENT)) * (1 + 2.0**-30)
        eps = np.expm1(np.minimum(theta[kept], LARGEST_EXPONENT)) * (1 + 2.0**-30)
        tau = float(above(lost + w @ eps))
        sound = lost < 0.004 and N * u < 0.1
        usable = sound and tau < 0.5 and float(np.max(theta[kept])) < LARGEST_EXPONENT / 8
        usable = usable and float(np.max(log_omega[kept])) < LARGEST_EXPONENT
        if not sound:
            return [math.inf] * len(run)
        # Whatever the weights become, both means lie in the hull of the kept values: all there is for hard gates.
        grown = w * (1 + eps) / (1 - tau) if usable else np.full(len(kept), np.inf)
        results = []
        for o, (deviation, offset, modulus) in enumerate(run):
            lift = np.abs(self.slopes[kept, o]) @ reach[head.sloped]
            sizes_kept = np.abs(self.values[kept, o]) + lift * (1 + twice)
            spread, values, lifted = 2 * float(np.max(deviation[kept])), float(np.max(sizes_kept)), float(np.max(lift))
            if usable:
                spread = min(spread, float((w * eps) @ (deviation[kept] + offset) / (1 - tau)))
                values, lifted = min(values, float(grown @ sizes_kept)), min(lifted, float(grown @ lift))
            wrong, sloped = 0.0, len(head.sloped)
            if head.affine and sloped:  # the last addition, which rounds g, is below
                most = max(head.frame[head.sloped])
                wrong = u * (lifted + (sloped - 1) * values) * (1 + 8 * (sloped + 1) * u) + most * (u + u * u) * lifted
            g = modulus + spread + wrong
            if sizes:  # each axis sums its exponentials, divides, and contracts; slopes are added at the end
                sums = gamma(sum(2 * n + 2 for n in sizes) + len(head.sloped) + 1) * (values + wrong)
            else:
                n = gamma(len(kept) + 1 + rescalings)
                sums = n * (values + wrong + g) / (1 - n) * (1 + twice)
            flushed = (head.precision.exp_floor + tiny) * (head.largest + 1) + head.value_lost
            negligible = 8 * lost * (head.largest + g) + 2.5 * N * (rescalings + 1) * flushed
            results.append(float(above(spread + wrong + sums + negligible)))
        return results
