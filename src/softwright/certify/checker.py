"""An independent checker: re-proves a certificate in ball arithmetic. Shares no code with the prover, needs no torch.

Written to be read: whoever believes this file, `checker_formula.py` (parser and Taylor models), python-flint and the file
reader need not believe the rest of softwright.

Boxes. The stored tree is walked from the domain with exact rationals, so its leaves cover the domain. On a leaf
x = c + r s, |s_i| <= 1. A leaf whose bound is not sharp enough here is bisected further.

Network. A head is N/D, N = sum_j u_j(s) W_j e^{y_j(s)} and D = sum_j W_j e^{y_j(s)} with W_j = e^{score at c},
y_j = (k_j - kbar).(r s) and u_j = v_j + G_j t - vbar(s), where kbar and vbar (affine) are free. With rho_j = |k_j - kbar|.r and
tail(x) = sum_{k>p} x^k/k!, the Taylor polynomials of degree p miss at most e_D = sum W_j tail(rho_j) and
e_N = sum W_j (|u_j| tail(rho_j) + |slope of u_j| rho_j^p/p!). The quotient Q of the polynomials as power series obeys

    |N/D - Q| <= (e_N + e_D |Q| + sum_{k+l>p} |Q|_k |D|_l) / D_min,     D_min = D_0 e^{-|D|_1/D_0}   (Jensen's inequality).

Tokens whose weight stays tiny against another's on a whole region are left out there; with T a bound of their softmax
weights this moves g by at most T (max|v| + |g|).

Residual. Its polynomial is bounded by Bernstein coefficients b_i: sup <= max|b_i|, and since the Bernstein polynomials are
weights of equal integral, int |q|^P <= volume * mean |b_i|^P. A centre with a larger error than stated refutes the claim.

Rounding (u unit roundoff, gamma_n = n u/(1 - n u); any order of summation, fused or not). t is rounded twice, a score is a
sum of d + 1 products, the largest score is subtracted, exp errs by EXP_ULPS, blocks of keys are joined by rescaling:

    theta_j = gamma_{d+1}(|k_j||t| + |b_j|) + (2u + u^2)|k_j - kbar||t| + u (s_max - s_j) + exps,   eps_j = e^theta_j - 1,
    |fl(g) - g| <= [sum w eps |v - g| + sum w (1 + eps) dv]/(1 - sum w eps) + gamma_n(sum w (1 + eps)|v|/(1 - ..) + |g|) + ..

dv is the rounding of affine values, n the kept tokens plus the rescalings: adding a term to a sum errs by at most that term,
so terms of negligible weight L cost 8 L (max|v| + |g|) in all and are not counted. The axis-by-axis engine computes the head
whose biases are sums over the axes, with d small softmaxes; it has its own theta and n.
Assumed: IEEE arithmetic, rounded to nearest (subnormal numbers may be flushed to 0), EXP_ULPS and KEY_BLOCK below.
"""

from __future__ import annotations

import base64
import functools
import math
import operator
import re
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from flint import arb, arb_mat, arb_poly, ctx, fmpq

from softwright.certify.checker_formula import (
    NOTHING, ONE, ZERO, Model, NotProvedError, Parser, Parts, Space, UndefinedError,
    additive_terms, dot, evaluate, norms, plus, require, total, truncated,
)  # fmt: skip
from softwright.errors import FileFormatError
from softwright.fileformat import read_model

SCHEMA = "softwright-certificate/1"
ROUNDOFF = {"float64": arb(2) ** -53, "float32": arb(2) ** -24}
SMALLEST_NORMAL = {"float64": arb(2) ** -1022, "float32": arb(2) ** -126}
EXP_ULPS = {"float64": 4, "float32": 24}  # torch's kernels are specified to 1 and, in float32 attention, 20
KEY_BLOCK = 512  # keys between two rescalings in torch's fused CPU attention
ORDERS = {1: (12, 24), 2: (10, 14), 3: (8, 10)}  # dimension -> smallest and largest degree used here; else (4, 6)
LARGEST_TREE = 64 * 2**20  # nodes
EXTRA_DEPTH, OWN_BUDGET = 16, 50_000  # bisections of one leaf here; boxes in all if the file brings no tree
PRECISIONS = (128, 1024)  # bits: first, and last after doublings
Box = tuple[list[fmpq], list[fmpq]]


@dataclass(frozen=True)
class Verdict:
    """`status`: VERIFIED (re-proved), CONSISTENT (nothing is wrong, but it cannot be re-proved here) or NOT VERIFIED."""

    status: str
    reason: str
    boxes: int = 0
    seconds: float = 0.0

    @property
    def verified(self) -> bool:
        return self.status == "VERIFIED"

    def __str__(self) -> str:
        return f"{self.status}: {self.reason} ({self.boxes} boxes, {self.seconds:.2f} s)"


def exact(x: Any) -> arb:
    return arb(float(x))


def rational(x: Any) -> fmpq:
    return fmpq(*float(x).as_integer_ratio())


# ------------------------------------------------------------------------------------------------------------ heads


class Head:
    """One head on the variables `columns`, in real arithmetic; `sizes` are its axes if it is run axis by axis."""

    def __init__(self, data: dict[str, np.ndarray], sizes: list[int] | None, columns: list[int], dtype: str) -> None:
        keys, biases, values = (data[name].astype(float) for name in ("keys", "biases", "values"))
        slopes = data["slopes"].astype(float) if "slopes" in data else np.zeros((*values.shape, keys.shape[1]))
        others = [i for i in range(keys.shape[1]) if i not in columns]
        require(not keys[:, others].any() and not slopes[:, :, others].any(), "a part leaves out a variable it needs")
        self.sizes, self.dtype, self.affine = sizes, dtype, "slopes" in data
        self.bias = [exact(b) for b in biases]
        self.bias_size = [abs(b) for b in self.bias]
        if sizes is not None:  # the bias is the sum over the axes of differences to the grid's corner
            lines = [tuple(slice(None) if j == i else 0 for j in range(len(sizes))) for i in range(len(sizes))]
            grid, grid_keys = biases.reshape(sizes), keys.reshape(*sizes, -1)
            for i, line in enumerate(lines):
                along = grid_keys[line][:, i].reshape([-1 if j == i else 1 for j in range(len(sizes))])
                require(np.array_equal(grid_keys[..., i], np.broadcast_to(along, sizes)), "a grid head is not a grid")
            steps = list(product(*[[exact(b) - exact(biases[0]) for b in grid[line]] for line in lines]))
            self.bias, self.bias_size = [total(step) for step in steps], [total(map(abs, step)) for step in steps]
        self.float_keys, self.float_bias = keys[:, columns], np.array([float(b) for b in self.bias])
        self.key = [[exact(k) for k in keys[:, i]] for i in columns]  # [axis][token]
        self.value = [[exact(v) for v in column] for column in values.T]  # [output][token]
        self.sloped = [n for n, i in enumerate(columns) if slopes[:, :, i].any()]
        self.slope = [[[exact(g) for g in slopes[:, o, columns[n]]] for n in self.sloped] for o in range(values.shape[1])]
        self.middle = [exact(x) for x in (self.float_keys.max(axis=0) + self.float_keys.min(axis=0)) / 2]
        self.extent = self.largest = ZERO
        self.rows: tuple[int, list[list[arb]]] = (0, [])

    def measure(self, reach: list[arb]) -> None:
        """Bounds of |k||t| + |b| and of |v| + |G||t| for |t| <= reach."""
        for j in range(len(self.bias)):
            score = total(abs(k[j]) * x for k, x in zip(self.key, reach, strict=True)) + self.bias_size[j]
            self.extent = self.extent.max(score + abs(self.bias[j]))
            for value, slope in zip(self.value, self.slope, strict=True):
                lift = total(abs(g[j]) * reach[n] for g, n in zip(slope, self.sloped, strict=True))
                self.largest = self.largest.max(abs(value[j]) + lift)

    def monomials(self, space: Space) -> list[list[arb]]:
        """(k_j - middle)^alpha/alpha! for every token, at the precision of the moment."""
        if self.rows[0] != ctx.prec:
            columns = [[k - m for k in keys] for keys, m in zip(self.key, self.middle, strict=True)]
            self.rows = (ctx.prec, [space.powers(kappa, True) for kappa in zip(*columns, strict=True)])
        return self.rows[1]


class View:
    """The tokens of a head that matter on a region; `dropped` bounds the sum of the softmax weights of the others."""

    def __init__(self, head: Head, index: list[int], dropped: arb) -> None:
        self.head, self.index, self.dropped = head, index, dropped
        self.key = [[keys[j] for j in index] for keys in head.key]
        self.bias = [head.bias[j] for j in index]
        self.value = [[values[j] for j in index] for values in head.value]
        self.slope = [[[g[j] for j in index] for g in slope] for slope in head.slope]

    def narrowed(self, c: list[arb], r: list[arb], smallest: float) -> View:
        """Leave out tokens whose weight stays below `smallest` on the box c +- r. Floats propose, balls prove."""
        keys, bias = self.head.float_keys[self.index], self.head.float_bias[self.index]
        at, reach = np.array(list(map(float, c))), np.array(list(map(float, r)))
        best = int(np.argmax(keys @ at + bias))
        gain = (keys - keys[best]) @ at + np.abs(keys - keys[best]) @ reach + bias - bias[best]
        far = np.flatnonzero(gain < math.log(smallest)).tolist()
        if len(far) < len(bias) / 2:  # large batches of boxes with the same tokens are worth more than few tokens
            return self
        dropped = self.dropped
        for j in far:  # w_j <= e^{s_j - s_best}, whatever the other tokens do
            away = [k[j] - k[best] for k in self.key]
            dropped += (self.bias[j] - self.bias[best] + dot(away, c) + dot(map(abs, away), r)).exp()
        return View(self.head, [j for n, j in enumerate(self.index) if n not in set(far)], dropped)

    def on_boxes(
        self, space: Space, boxes: list[tuple[list[arb], list[arb]]], allowed: arb
    ) -> Iterator[tuple[list[Model], list[arb], list[arb]]]:
        """For each box (c, r): models of the outputs, bounds of their rounding errors and of their moduli."""
        head, M, stack = self.head, len(space.monomials), []
        scores = (arb_mat([[*c, ONE] for c, _ in boxes]) * arb_mat([*self.key, self.bias])).tolist()
        weights = []
        for row in scores:
            top = exact(max(map(float, row)))
            weights.append([(s - top).exp() for s in row])
            factors = [*self.value, *(g for slope in self.slope for g in slope)]
            stack += [weights[-1], *(list(map(operator.mul, weights[-1], factor)) for factor in factors)]
        rows = head.monomials(space)
        moments = (arb_mat(stack) * arb_mat([rows[j] for j in self.index])).tolist()
        count = len(moments) // len(boxes)
        for b, (c, r) in enumerate(boxes):
            scale, own = space.powers(r), moments[b * count : (b + 1) * count]
            drift = [exact(own[0][n] / own[0][0]) for n in space.first]  # kbar - middle, near the softmax mean
            tilt, step = [arb_poly([1])], space.linear(ZERO, [-x * y for x, y in zip(drift, r, strict=True)])[1]
            for k in range(1, space.degree + 1):
                tilt.append(tilt[-1] * step * (ONE / k))
            series = [space.multiply(tilt, space.polynomial(list(map(operator.mul, row, scale)))) for row in own]
            kbar = list(map(operator.add, head.middle, drift))
            yield self._quotient(space, c, r, scores[b], weights[b], series, kbar, allowed)

    def _quotient(
        self, space: Space, c: list[arb], r: list[arb], S: list[arb], W: list[arb], series: list[Parts], kbar: list[arb],
        allowed: arb,
    ) -> tuple[list[Model], list[arb], list[arb]]:  # fmt: skip
        head, p = self.head, space.degree
        rho = [ZERO] * len(W)
        for keys, k0, x in zip(self.key, kbar, r, strict=True):
            rho = [a + abs(k - k0) * x for a, k in zip(rho, keys, strict=True)]
        last = [x**p * (ONE / math.factorial(p)) for x in rho]
        tails = [t * x * (p + 2) / ((p + 1) * (p + 2 - x)) if 2 * x < p else x.exp() for t, x in zip(last, rho, strict=True)]
        D, inverse = series[0], ONE / series[0][0][0]
        D_norms = norms(D)
        D_min = D[0][0] * (-D_norms[1] * inverse).exp()
        e_D = dot(W, tails)
        models, run = [], []
        for o, values in enumerate(self.value):
            N, at = series[1 + o], 1 + len(self.value) + o * len(head.sloped)
            rise, base = [ZERO] * space.dim, values
            for G, slopes, i in zip(series[at : at + len(head.sloped)], self.slope[o], head.sloped, strict=True):
                N = plus(N, space.multiply(space.linear(c[i], [r[i] if i == k else ZERO for k in range(space.dim)]), G))
                rise[i] = exact(G[0][0] * r[i] * inverse)
                base = [v + g * c[i] for v, g in zip(base, slopes, strict=True)]
            constant = exact(N[0][0] * inverse)
            vbar = space.linear(constant, rise)
            N = list(map(operator.sub, N, space.multiply(vbar, D)))
            lean = [ZERO] * len(W)  # modulus of the part of u_j that is linear in s
            for slopes, i in zip(self.slope[o], head.sloped, strict=True):
                lean = [a + abs(g * r[i] - rise[i]) for a, g in zip(lean, slopes, strict=True)]
            deviation = [abs(v - constant) + a for v, a in zip(base, lean, strict=True)]
            e_N = dot(W, map(operator.mul, deviation, tails)) + (dot(W, map(operator.mul, lean, last)) if head.sloped else ZERO)
            Q: Parts = []
            for k in range(p + 1):
                Q.append((N[k] - sum((D[j] * Q[k - j] for j in range(1, k + 1)), NOTHING)) * inverse)
            Q_norms = norms(Q)
            error = (e_N + e_D * total(Q_norms) + truncated(Q_norms, D_norms)) / D_min
            offset = total(Q_norms) + error  # |g - vbar|
            size = offset + total(norms(vbar))
            far = self.dropped * (head.largest + size)
            models.append(Model(space, plus(Q, vbar), error + far))
            run.append((deviation, offset, size + far))
        peak = functools.reduce(arb.max, map(operator.add, S, rho))
        gaps = [peak - s + x for s, x in zip(S, rho, strict=True)]
        omega = [w * x.exp() / D_min for w, x in zip(W, rho, strict=True)]
        reach = [abs(x) + y for x, y in zip(c, r, strict=True)]
        return models, self._rounding(reach, omega, gaps, kbar, run, allowed), [size for _, _, size in run]

    def _rounding(
        self, reach: list[arb], omega: list[arb], gaps: list[arb], kbar: list[arb],
        run: list[tuple[list[arb], arb, arb]], allowed: arb,
    ) -> list[arb]:  # fmt: skip
        """|fl(g) - g| of each output: w <= omega, s_max - s <= gaps, |t| <= reach; run: |v - vbar|, |g - vbar|, |g|."""
        head, d, N = self.head, len(reach), len(self.head.bias)
        u, tiny, sizes = ROUNDOFF[head.dtype], SMALLEST_NORMAL[head.dtype], head.sizes
        twice, ulps = 2 * u + u * u, 2 * EXP_ULPS[head.dtype] * u

        def gamma(n: int) -> arb:
            return n * u / (1 - n * u)

        rescalings = 0 if sizes else (N - 1) // KEY_BLOCK
        exps = (len(sizes) if sizes else rescalings + 1) * ulps / (1 - ulps) + rescalings * gamma(1)
        per_score = gamma(2 if sizes else d + 1) * (1 + twice)
        worst = per_score * head.extent + twice * (head.extent + dot(map(abs, kbar), reach))
        worst += 2 * tiny * (d + 1 + head.extent)
        # Tokens of negligible weight: `lost` bounds what the run network may give them all together.
        order = np.argsort(list(map(float, omega))).tolist()
        inflated = (3 * worst + exps + 4 * u * head.extent).exp()
        lost, few, first = self.dropped * inflated, allowed / (8192 * (1 + head.largest)), 0
        while first < len(order) - 1 and lost + omega[order[first]] * inflated < few:
            lost += omega[order[first]] * inflated
            first += 1
        kept = order[first:]
        weight = [omega[n] for n in kept]
        k_t, k_r = [ZERO] * len(kept), [ZERO] * len(kept)
        for keys, k0, x in zip(self.key, kbar, reach, strict=True):
            k_t = [a + abs(keys[n]) * x for a, n in zip(k_t, kept, strict=True)]
            k_r = [a + abs(keys[n] - k0) * x for a, n in zip(k_r, kept, strict=True)]
        fixed = exps + 2 * u * worst + 2 * tiny * (d + 1 + head.extent)
        eps = [
            (per_score * (a + head.bias_size[self.index[n]]) + twice * b + u * gaps[n] + fixed).expm1()
            for a, b, n in zip(k_t, k_r, kept, strict=True)
        ]
        tau = lost + dot(weight, eps)
        if not (tau < 0.5 and lost < 0.004 and N * u < 0.1):
            return [arb.pos_inf()] * len(run)
        raised = [w * (1 + e) / (1 - tau) for w, e in zip(weight, eps, strict=True)]
        underflow = 8 * N * (rescalings + 1) * tiny * (head.largest + 1)
        results = []
        for o, (deviation, offset, size) in enumerate(run):
            spread = dot(map(operator.mul, weight, eps), [deviation[n] + offset for n in kept]) / (1 - tau)
            lift = [ZERO] * len(kept)
            for slopes, i in zip(self.slope[o], head.sloped, strict=True):
                lift = [a + abs(slopes[n]) * reach[i] for a, n in zip(lift, kept, strict=True)]
            moduli = dot(raised, [abs(self.value[o][n]) + a * (1 + twice) for a, n in zip(lift, kept, strict=True)])
            wrong = gamma(d + 1) * moduli + twice * dot(raised, lift) if head.affine else ZERO
            moduli += wrong
            g = size + spread + wrong
            if sizes:  # each axis sums its exponentials, divides, and contracts; slopes are added at the end
                sums = gamma(sum(2 * n + 2 for n in sizes) + len(head.sloped) + 1) * moduli
            else:
                n = gamma(len(kept) + rescalings)
                sums = n * (moduli + g) / (1 - n) * (1 + twice) + twice * g
            results.append(spread + wrong + sums + 8 * lost * (head.largest + g) + underflow)
        return results


# -------------------------------------------------------------------------------------------------------- the proof


@dataclass
class Part:
    """One summand of the proof; a plain proof has one. `outputs` holds the signed terms of each output."""

    heads: list[Head]
    outputs: list[list[tuple[int, Any]]]
    constant: list[arb]
    exact: arb
    rounding: arb
    tree: bytes | None
    domain: Box
    center: list[fmpq]
    scale: list[fmpq]
    columns: list[int]


@dataclass
class Item:
    box: Box
    views: tuple[View, ...]
    depth: int = 0


@dataclass
class Finding:
    """What is known on a box: bounds whose maximum bounds the residual, and whether it may still be improved, and how."""

    bounds: list[arb]
    seen: arb  # a lower bound of the residual at the centre
    rounding: arb
    axis: int  # the variable to bisect
    noisy: bool  # more precision would help more


class Proof:
    """The walk over the boxes of one part."""

    def __init__(self, part: Part, order: int, heads: int, exponent: float | None) -> None:
        self.part, self.exponent, self.boxes, dim = part, exponent, 0, len(part.columns)
        smallest, largest = ORDERS.get(dim, (4, 6))
        self.space = Space(dim, min(max(order, smallest), largest))
        u = ROUNDOFF[part.heads[0].dtype] if part.heads else ZERO
        self.joining = (heads - 1) * u / (1 - (heads - 1) * u)
        self.volume = total([ONE]) * functools.reduce(operator.mul, (b - a for a, b in zip(*part.domain, strict=True)))
        if exponent is not None:
            part.rounding = (part.rounding / self.volume ** (ONE / exact(exponent))).lower()
        c, r = self.frame(part.domain)
        for head in part.heads:
            head.measure([abs(x) + y for x, y in zip(c, r, strict=True)])
        tokens, values = sum(len(head.bias) for head in part.heads), total(head.largest for head in part.heads)
        self.smallest = max(float(part.exact / (2**12 * (tokens + 1) * (values + 1)).upper()), 1e-300)

    def frame(self, box: Box) -> tuple[list[arb], list[arb]]:
        """Centre and radius of a box in the network's frame t = (x - center) * scale."""
        sides = list(zip(*box, self.part.center, self.part.scale, strict=True))
        return [arb(((a + b) / 2 - m) * s) for a, b, m, s in sides], [abs(arb((b - a) / 2 * s)) for a, b, _, s in sides]

    def narrowed(self, item: Item) -> Item:
        c, r = self.frame(item.box)
        views = tuple(view.narrowed(c, r, self.smallest) for view in item.views)
        same = all(a is b for a, b in zip(views, item.views, strict=True))
        return item if same else Item(item.box, views, item.depth)

    def leaves(self) -> Iterator[Item]:
        """The leaves of the tree in preorder; the domain itself if the file brings no tree."""
        root = tuple(View(head, list(range(len(head.bias))), ZERO) for head in self.part.heads)
        pending = [Item(self.part.domain, root)]
        for node in b"\xff" if self.part.tree is None else self.part.tree:
            require(pending, "the proof tree goes on after its last leaf")
            item = pending.pop()
            item = self.narrowed(item) if item.depth % 2 == 0 else item
            if node == 255:
                yield Item(item.box, item.views)
                continue
            require(node < self.space.dim, f"the proof tree splits variable {node} of {self.space.dim}")
            pending += halves(item, node)[::-1]
        require(not pending, "the proof tree ends before it covers the domain")

    def run(self, progress: Callable[[int], None] | None) -> None:
        items = self.leaves()
        for _ in range(6):  # for a sup norm the first pass is the last: it bisects box by box
            integral, parents = ZERO, []
            for batch in batches(items):
                if self.exponent is None:
                    self.settle(batch)
                else:
                    for item, found in zip(batch, self.examine(batch), strict=True):
                        mean = total(x ** exact(self.exponent) for x in found.bounds) / len(found.bounds)
                        integral += mean * volume(item.box)
                        require(found.rounding <= self.part.rounding, f"rounding not re-proved in {show(item.box)}")
                        parents.append((item, found.axis))
                    self.boxes += len(batch)
                if progress:
                    progress(self.boxes)
            if self.exponent is None or integral ** (1 / exact(self.exponent)) <= self.part.exact:
                return
            items = iter([half for item, axis in parents for half in halves(item, axis)])
        require(False, f"not re-proved: the L{self.exponent:g} norm came out as {float(integral ** (1 / exact(self.exponent))):.6g}")

    def settle(self, batch: list[Item]) -> None:
        """Prove the bound on every box of a batch that shares its views, bisecting where that is needed."""
        part, own = self.part, self.part.tree is None
        while batch:
            again: list[Item] = []
            for item, found in zip(batch, self.examine(batch), strict=True):
                self.boxes += 1
                require(not found.seen > part.exact, f"refuted: the error exceeds {float(part.exact):.6g} in {show(item.box)}")
                if all(x <= part.exact for x in found.bounds) and found.rounding <= part.rounding:
                    continue
                if found.noisy and ctx.prec < PRECISIONS[1]:
                    ctx.prec *= 2
                    again.append(item)
                    continue
                got = f"{float(functools.reduce(arb.max, found.bounds)):.6g} + {float(found.rounding):.3g}"
                goal = f"{float(part.exact):.6g} + {float(part.rounding):.3g}"
                small = self.boxes < OWN_BUDGET if own else item.depth < EXTRA_DEPTH
                require(small, f"not re-proved: {got} against {goal} in {show(item.box)}")
                again += [self.narrowed(half) if own else half for half in halves(item, found.axis)]
            batch, rest = again[:64], again[64:]
            if rest or any(item.views is not batch[0].views for item in batch):
                for group in batches(iter(again)):
                    self.settle(group)
                return

    def examine(self, batch: list[Item]) -> Iterator[Finding]:
        part, space, m = self.part, self.space, len(self.part.outputs)
        frames = [self.frame(item.box) for item in batch]
        heads = [list(view.on_boxes(space, frames, part.rounding)) for view in batch[0].views]
        residuals: list[Model] = []
        for b, item in enumerate(batch):
            variables = []
            for i, (low, high) in enumerate(zip(*item.box, strict=True)):
                slopes = [arb((high - low) / 2) if i == k else ZERO for k in range(space.dim)]
                variables.append(Model(space, space.linear(arb((low + high) / 2), slopes)))
            for o, terms in enumerate(part.outputs):
                residual = functools.reduce(operator.add, (head[b][0][o] for head in heads), Model(space, space.linear(ZERO)))
                try:
                    target = evaluate(("sum", [*terms, (1, ("number", part.constant[o]))]), variables)
                except UndefinedError:
                    target = Model(space, space.linear(ZERO), arb.pos_inf())
                residuals.append(residual - target)
        coefficients = [space.coefficients(residual.parts) for residual in residuals]
        bernstein = (arb_mat([row[: space.low_count] for row in coefficients]) * space.bernstein).tolist()
        for b, (_, r) in enumerate(frames):
            own = range(b * m, (b + 1) * m)
            errors = [residuals[n].error + total(map(abs, coefficients[n][space.low_count :])) for n in own]
            bounds = [[abs(x) + e for x in bernstein[n]] for n, e in zip(own, errors, strict=True)]
            rounding = ZERO
            for o in range(m):
                run, size = (total(head[b][which][o] for head in heads) for which in (1, 2))
                rounding = rounding.max(run + self.joining * (size + run))
            pull = [
                sum(powers[i] * abs(float(x)) for n in own for powers, x in zip(space.monomials, coefficients[n], strict=True))
                for i in range(space.dim)
            ]
            axis = int(np.argmax(pull if math.isfinite(sum(pull)) and sum(pull) > 0 else list(map(float, r))))
            noise = functools.reduce(arb.max, (total(x.rad() for x in coefficients[n]) for n in own))
            yield Finding(
                bounds=[functools.reduce(arb.max, column) for column in zip(*bounds, strict=True)],
                seen=functools.reduce(arb.max, (abs(coefficients[n][0]) - residuals[n].error for n in own)),
                rounding=rounding,
                axis=axis,
                noisy=bool(8 * noise > part.exact),
            )


def batches(items: Iterator[Item]) -> Iterator[list[Item]]:
    """Runs of at most 64 boxes with the same views."""
    batch: list[Item] = []
    for item in items:
        if batch and (item.views is not batch[0].views or len(batch) >= 64):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def halves(item: Item, axis: int) -> list[Item]:
    low, high = item.box
    left, right = list(high), list(low)
    left[axis] = right[axis] = (low[axis] + high[axis]) / 2
    return [Item((low, left), item.views, item.depth + 1), Item((right, high), item.views, item.depth + 1)]


def volume(box: Box) -> arb:
    return arb(functools.reduce(operator.mul, (b - a for a, b in zip(*box, strict=True))))


def show(box: Box) -> str:
    return " x ".join(f"[{float(arb(a)):.9g}, {float(arb(b)):.9g}]" for a, b in zip(*box, strict=True))


# ---------------------------------------------------------------------------------------------------- the statement


def decode(text: str) -> bytes:
    unpacker = zlib.decompressobj()
    tree = unpacker.decompress(base64.b64decode(text, validate=True), LARGEST_TREE)
    require(unpacker.eof and not unpacker.unused_data, "the proof tree is damaged or too large")
    return tree


def number(data: dict[str, Any], name: str) -> fmpq:
    """A number >= 0 of the statement, whose decimal and hexadecimal forms must agree."""
    value = float.fromhex(data["hex"][name])
    require(value == data[name] and math.isfinite(value) and value >= 0, f"{name} is damaged")
    return rational(value)


def read_heads(tensors: dict[str, np.ndarray], count: int, dim: int) -> list[dict[str, np.ndarray]]:
    heads: list[dict[str, np.ndarray]] = [{} for _ in range(count)]
    require(tensors["center"].shape == tensors["scale"].shape == (dim,), "center and scale do not fit the variables")
    for name in tensors.keys() - {"center", "scale"}:
        match = re.fullmatch(r"layer\.heads\.(\d+)\.(keys|biases|values|slopes)", name)
        require(match is not None, f"unknown tensor {name!r}")
        if match:
            heads[int(match[1])][match[2]] = tensors[name]
    m = heads[0]["values"].shape[1]
    for head in heads:
        N = len(head["biases"])
        shapes = {"keys": (N, dim), "biases": (N,), "values": (N, m), "slopes": (N, m, dim)}
        require(N and {"keys", "biases", "values"} <= head.keys(), "a head is incomplete")
        require(all(tensor.shape == shapes[kind] for kind, tensor in head.items()), "tensor shapes disagree")
    return heads


def read_statement(path: str | Path) -> tuple[list[Part], dict[str, Any], str]:
    """The parts to prove, the certificate, and what keeps it from being re-proved; all that needs no proof is checked."""
    file = read_model(path)
    require("certificate" in file.sections, "the file holds no certificate; certify the network and save it again")
    said, model, tensors = file.sections["certificate"], file.sections["model"], file.tensors
    require(said["schema"] == SCHEMA, f"unknown certificate schema {said['schema']!r}")
    require(said["weights_sha256"] == file.weights_sha256, "the weights are not the ones that were certified (SHA-256)")
    require(said["target"] == file.sections.get("target"), "the file's target is not the one that was certified")
    require(said["dtype"] in ROUNDOFF and said["dtype"] == model["dtype"], "the dtype stated is not the model's")
    require(all(str(tensor.dtype) == said["dtype"] for tensor in tensors.values()), "tensors are not of the dtype stated")
    require(all(np.isfinite(tensor).all() for tensor in tensors.values()), "weights hold NaN or infinite entries")
    require(said["engine"] in ("sdpa", "factorised", "any"), f"unknown engine {said['engine']!r}")
    exponent = said.get("p")
    good_norm = exponent is None if said["norm"] == "sup" else said["norm"] == "Lp" and 1 <= exponent < math.inf
    require(good_norm, f"unknown norm {said['norm']!r} with p = {exponent!r}")
    bound, exact_part, rounding_part = (number(said, name) for name in ("bound", "exact_part", "rounding_part"))
    require(exact_part + rounding_part <= bound, "the bound is below the sum of its parts")
    names, low, high = said["variables"], [], []
    require(sorted(names) == sorted(said["domain"]) == sorted(model["box"]), "domain and model name different variables")
    for name in names:
        ends, side = [float.fromhex(text) for text in said["hex"]["domain"][name]], model["box"][name]
        good = ends == said["domain"][name] and side[0] <= ends[0] < ends[1] <= side[1]
        require(good and math.isfinite(ends[1] - ends[0]), f"the domain of {name} is damaged or leaves the model's box")
        low.append(rational(ends[0]))
        high.append(rational(ends[1]))
    heads = read_heads(tensors, len(model["heads"]), len(names))
    m = heads[0]["values"].shape[1]
    target, everything = said["target"], {"variables": names, "heads": list(range(len(heads))), "constant": [0.0] * m}
    if target["kind"] != "expression":
        outputs: list[Any] = [("number", fmpq(0))] * m
    else:
        require(target["variables"] == names, "formula and statement order the variables differently")
        outputs = Parser(target["text"], names).outputs()
    require(len(outputs) == m, f"the formula has {len(outputs)} outputs, the network {m}")
    terms = [(o, *term) for o, node in enumerate(outputs) for term in additive_terms(node)]
    everything["terms"] = list(range(len(terms)))
    specs = said["tree"] if isinstance(said["tree"], list) else [{**said, **everything}]
    require(exponent is None or len(specs) == 1, "an Lp statement in parts cannot be checked")
    for what in ("heads", "terms"):
        require(sorted(i for spec in specs for i in spec[what]) == everything[what], f"the parts do not use all {what} once")
    numbers = [(number(s, "exact_part"), number(s, "rounding_part"), [rational(c) for c in s["constant"]]) for s in specs]
    rest = max(abs(sum((c[o] for _, _, c in numbers), fmpq(0))) for o in range(m))
    require(sum((e for e, _, _ in numbers), rest) <= exact_part, "the parts' exact bounds exceed the statement")
    require(sum((r for _, r, _ in numbers), fmpq(0)) <= rounding_part, "the parts' rounding bounds exceed the statement")
    grids = [head.get("structure") == "grid" for head in model["heads"]]
    engines = {"any": ["sdpa", "factorised"]}.get(said["engine"], [said["engine"]]) if any(grids) else ["sdpa"]
    parts = []
    for engine, (spec, (e, r, constant)) in product(engines, zip(specs, numbers, strict=True)):
        columns = [names.index(name) for name in spec["variables"]]
        require(columns and columns == sorted(set(columns)), "a part's variables are out of order")
        made = []
        for i in spec["heads"]:
            sizes = [int(n) for n in model["heads"][i]["axis_sizes"]] if engine == "factorised" and grids[i] else None
            made.append(Head(heads[i], sizes, columns, said["dtype"]))
        own = [[renamed(terms[i][1:], columns) for i in spec["terms"] if terms[i][0] == o] for o in range(m)]
        require(len(constant) == m, "a part's constant does not fit the outputs")
        parts.append(Part(
            made, own, [arb(c) for c in constant], arb(e), arb(r), None if spec["tree"] is None else decode(spec["tree"]),
            ([low[i] for i in columns], [high[i] for i in columns]), [rational(tensors["center"][i]) for i in columns],
            [rational(tensors["scale"][i]) for i in columns], columns,
        ))  # fmt: skip
    return parts, said, "" if target["kind"] == "expression" else f"the target is a {target['kind']}"


def renamed(term: Any, columns: list[int]) -> Any:
    """The term with its variables numbered as the part numbers them."""
    if isinstance(term, tuple) and term[0] == "variable":
        require(term[1] in columns, "a part leaves out a variable that its terms need")
        return ("variable", columns.index(term[1]))
    return type(term)(renamed(child, columns) for child in term) if isinstance(term, tuple | list) else term


def verify(path: str | Path, progress: Callable[[int], None] | None = None) -> Verdict:
    """Re-prove the certificate in a model file. `progress` is called with the number of boxes done so far."""
    started, boxes, before = time.perf_counter(), 0, (ctx.prec, ctx.cap)
    try:
        ctx.prec, ctx.cap = PRECISIONS[0], 64
        parts, said, obstacle = read_statement(path)
        heads = sum(len(part.heads) for part in parts) // (2 if len(parts) > 1 and False else 1)
        for part in parts:
            proof = Proof(part, said["order"], heads, said.get("p"))
            if obstacle:
                boxes += sum(1 for _ in proof.leaves())
                continue
            proof.run(progress)
            boxes += proof.boxes
        status, reason = "VERIFIED", f"|network - target| <= {said['bound']:.6g} re-proved"
        if obstacle:
            status = "CONSISTENT"
            reason = f"{obstacle}, so the statement rests on: {'; '.join(said['assumptions'])}. Only weights, cover and format were checked"
    except NotProvedError as error:
        status, reason = "NOT VERIFIED", str(error)
    except FileFormatError as error:
        status, reason = "NOT VERIFIED", str(error)
    except (KeyError, TypeError, ValueError, IndexError, ArithmeticError, AttributeError, RecursionError, zlib.error) as error:
        status, reason = "NOT VERIFIED", f"the statement is damaged ({type(error).__name__}: {error})"
    finally:
        ctx.prec, ctx.cap = before
    return Verdict(status, reason, boxes, time.perf_counter() - started)
