"""How far a transformer with replaced blocks, as it runs, is from its source in real arithmetic: at a prompt.

The source is run in balls, which enclose its exact stream h. For every token t two numbers are carried: delta_t bounds
|h^_t - h'_t|, what runs minus the source, both at the same prompt, and r_t bounds |h'_t - h_t|, the source at any
prompt within the radius of the one at hand minus the source at that one. Both go through the same inequalities, delta
with what running adds. Norms are Euclidean, |W| is spectral, u the unit roundoff, gamma_k = k u/(1 - k u).

    linear      |W| delta, and gamma_{n+2} (|W|_F |x^| + |b|)
    scores      dq |k| + |q| dk + dq dk over sqrt(size), and gamma_{size+6} |q^| |k^|/sqrt(size)
    weights     scores that move by at most D move a softmax by tanh(D/2) in total variation; exp and the differences
                it takes add to D: (1 + blocks) (exp's error + 2u) + 4u times the largest score
    attention   max |dv| + tanh(D/2) * (the largest distance of two values), and gamma_{2T+4 blocks+8} |v^| for the
                quotient of two sums over T tokens; heads side by side
    sum         delta_1 + delta_2, and u times its size
    norm        x -> x/sqrt(|x|^2/d + eps) of centred x has slopes of at most 1/sd on a segment where sd is the least:
                max |gain| delta/(sd - delta/sqrt(d)). Running it: mean and variance are sums of d terms with at most
                4d + 32 roundings each, which is a hypothesis (`LAYER_NORM`) that certificates name. So the mean is off
                by gamma_{4d+32} |x^|/sqrt(d), the variance by a share r = gamma_{4d+32} |x^|^2/(d sd^2), and as
                |1/sqrt(1+r) - 1| <= r for |r| <= 1/2 the result by gamma_{4d+32} |x^| (1+r)/sd + r sqrt(d), and 8u of
                its size; where r is more, nothing is proved
    block       prod |W| slope * delta, and sqrt(outputs) times the certificate of the block, which is entry by entry
                and for inputs of a range: that the inputs lie in it is shown here. Gated: by the sizes of its factors

Each rounding may lose the smallest normal number besides, each weight `exp_floor`; where a number of the run could come
within 2^8 of overflow nothing is proved. Everything is evaluated in balls and rounded up. `rounded` False leaves out
what running adds, and takes of the blocks what is proved in real arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from flint import arb, arb_mat

from softwright.precision import Precision
from softwright.targets.formula import Expression, evaluate
from softwright.targets.mlp import Activation, DenseLayer, DenseNetwork
from softwright.transpiler.bound import spectral_norm
from softwright.transpiler.whole.program import Attention, Block, Linear, Norm, Program, refused, size_of_heads

LAYER_NORM = "layernorm-roundings<=4d+32"
_BLOCK = 128
Stream = list[list[arb]]


@dataclass
class Errors:
    """Per token: of what runs against the source, and of the source near the prompt against the source at it."""

    run: list[arb]
    ball: list[arb]


def exact(value: float) -> arb:
    return arb(float(value))


def length(vector: Sequence[arb]) -> arb:
    total = sum((entry * entry for entry in vector), arb(0))
    return arb(total.abs_upper()).sqrt().upper()  # the ball of a square may hold numbers below 0


def matrix(rows: np.ndarray | Stream) -> arb_mat:
    if isinstance(rows, np.ndarray):
        return arb_mat(rows.shape[0], rows.shape[1], [arb(float(entry)) for entry in rows.ravel()])
    return arb_mat(len(rows), len(rows[0]), [entry for row in rows for entry in row])


def apply(linear: Linear, stream: Stream) -> Stream:
    product = matrix(stream) * matrix(np.ascontiguousarray(linear.weight.T))
    bias = [exact(b) for b in linear.bias]
    return [[product[t, o] + bias[o] for o in range(len(bias))] for t in range(len(stream))]


class Whole:
    """The recursion for one program, prompt and dtype."""

    def __init__(self, program: Program, precision: Precision, mask: np.ndarray | None, rounded: bool = True) -> None:
        self.program, self.precision, self.mask = program, precision, mask
        self.rounded = rounded
        self.before: Norm | None = None  # whose outputs the stream is at the moment
        self.u = arb(precision.unit) if rounded else arb(0)
        self.tiny, self.floor = (arb(x) if rounded else arb(0) for x in (precision.smallest, precision.exp_floor))
        self.norms: dict[int, tuple[np.ndarray, arb, arb]] = {}  # with the matrix, which keeps its id

    def gamma(self, k: int) -> arb:
        return k * self.u / (1 - k * self.u)

    def runs(self, *sizes: arb) -> None:
        """Sizes of numbers that are computed: none may overflow."""
        if self.rounded and not all(size <= arb(self.precision.largest) / 256 for size in sizes):
            raise refused(f"numbers of the run may overflow {self.precision.name}; give smaller prompts, or float64")

    def sizes(self, weight: np.ndarray) -> tuple[arb, arb]:
        """The spectral and the Frobenius norm, from above."""
        key = id(weight)
        if key not in self.norms:
            frobenius = sum((arb(float(w)) ** 2 for w in weight.ravel()), arb(0)).sqrt().abs_upper()
            self.norms[key] = (weight, arb(spectral_norm(weight)), frobenius)
        return self.norms[key][1:]

    def linear(self, linear: Linear, size: Sequence[arb], errors: Errors) -> Errors:
        """Through W x + b, |x^| <= size for what runs."""
        spectral, frobenius = self.sizes(linear.weight)
        bias = length([exact(b) for b in linear.bias])
        n, sums = linear.weight.shape[1], [frobenius * s + bias for s in size]
        self.runs(*sums)
        lost = (2 * n + 4) * self.tiny * arb(len(linear.bias)).sqrt()
        rounding = [self.gamma(n + 2) * each + lost for each in sums]
        return Errors(
            [spectral * e + r for e, r in zip(errors.run, rounding, strict=True)], [spectral * e for e in errors.ball]
        )

    def allowed(self, tokens: int, causal: bool) -> np.ndarray:
        seen = np.ones((tokens, tokens), dtype=bool) if self.mask is None else ~self.mask
        return seen & np.tri(tokens, dtype=bool) if causal else seen

    def attention(self, a: Attention, x: Stream, errors: Errors) -> tuple[Stream, Errors]:
        T, size = len(x), size_of_heads(a)
        grown = [length(x[t]) + errors.ball[t] + errors.run[t] for t in range(T)]
        allowed = self.allowed(T, a.causal)
        root, blocks = arb(size).sqrt(), 1 + T // _BLOCK
        out: Stream = [[] for _ in range(T)]
        found, held = Errors([arb(0)] * T, [arb(0)] * T), [arb(0)] * T
        for h in range(a.heads):
            part = slice(h * size, (h + 1) * size)
            own = [
                Linear(np.ascontiguousarray(each.weight[part]), each.bias[part]) for each in (a.query, a.key, a.value)
            ]
            (q, k, v), (dq, dk, dv) = (
                [apply(each, x) for each in own],
                [self.linear(each, grown, errors) for each in own],
            )
            nq, nk, nv = ([length(row) for row in each] for each in (q, k, v))
            for t in range(T):
                keys = np.flatnonzero(allowed[t])
                scores = [sum((i * j for i, j in zip(q[t], k[s], strict=True)), arb(0)) / root for s in keys]
                top = max(scores, key=lambda ball: float(ball.mid()))
                weights = [(score - top).exp() for score in scores]
                total = sum(weights, arb(0))
                out[t] += [
                    sum((w * v[s][i] for w, s in zip(weights, keys, strict=True)), arb(0)) / total for i in range(size)
                ]
                apart = max((self.apart(v[s], v[r]) for s in keys for r in keys if s < r), default=arb(0), key=float)
                moved, near, reach, most, near_v, run_v = arb(0), arb(0), arb(0), arb(0), arb(0), arb(0)
                for s in keys:
                    Q, K = nq[t] + dq.ball[t], nk[s] + dk.ball[s]
                    near = _most(near, (dq.ball[t] * nk[s] + nq[t] * dk.ball[s] + dq.ball[t] * dk.ball[s]) / root)
                    whole = (Q + dq.run[t]) * (K + dk.run[s]) / root
                    change = (dq.run[t] * K + Q * dk.run[s] + dq.run[t] * dk.run[s]) / root
                    moved = _most(moved, change + self.gamma(size + 6) * whole)
                    reach, most = _most(reach, whole), _most(most, nv[s] + dv.ball[s] + dv.run[s])
                    near_v, run_v = _most(near_v, dv.ball[s]), _most(run_v, dv.run[s])
                exp = arb(self.precision.exp_error) if self.rounded else arb(0)
                moved += (blocks + 1) * (exp / (1 - exp) + 2 * self.u) + 4 * self.u * reach
                both = nq[t] + dq.ball[t] + dq.run[t]
                both += max((nk[s] + dk.ball[s] + dk.run[s] for s in keys), key=float)
                moved += (4 * size + 24) * self.tiny * (1 + both)
                self.runs(reach * root, T * most)
                wide, lost = apart + 2 * near_v, 8 * (T + 2) * (self.floor * most + self.tiny * root)
                run = run_v + (moved / 2).tanh() * wide + self.gamma(2 * T + 4 * blocks + 8) * most + lost
                ball = near_v + (near / 2).tanh() * apart
                found.run[t], found.ball[t] = found.run[t] + run * run, found.ball[t] + ball * ball
                held[t] = held[t] + most * most
        found = Errors([_root(e) for e in found.run], [_root(e) for e in found.ball])
        return apply(a.output, out), self.linear(a.output, [_root(s) for s in held], found)

    def apart(self, one: Sequence[arb], other: Sequence[arb]) -> arb:
        return length([i - j for i, j in zip(one, other, strict=True)])

    def block(self, b: Block, x: Stream, errors: Errors) -> tuple[Stream, Errors]:
        """The source's block, and the certificate of what took its place."""
        if not all(self.inside(b, row, e, r) for row, e, r in zip(x, errors.run, errors.ball, strict=True)):
            raise refused(f"block {b.path!r}: its inputs may leave the range of its certificate; lower the radius")
        own = arb(b.source.outputs).sqrt() * arb(b.bound if self.rounded else b.exact)
        if isinstance(b.source, DenseNetwork):
            slope = arb(1)
            for layer in b.source.layers:
                slope *= arb(spectral_norm(layer.weight)) * arb(float(layer.activation.slope))
                x = self.dense(layer, x)
            return x, Errors([slope * e + own for e in errors.run], [slope * e for e in errors.ball])
        gate, value, down = b.source.layers
        phi, factor = self.dense(gate, x), self.dense(value, x)
        norms = [arb(spectral_norm(layer.weight)) for layer in (gate, value, down)]
        steep = arb(float(gate.activation.slope)) * norms[0]

        def through(t: int, moved: arb, near: arb) -> arb:
            sizes = [max((abs(entry).abs_upper() for entry in each[t]), key=float) for each in (phi, factor)]
            by_gate = steep * moved * (sizes[1] + norms[1] * (near + moved))
            return norms[2] * (by_gate + (sizes[0] + steep * near) * norms[1] * moved)

        found = Errors(
            [through(t, errors.run[t], errors.ball[t]) + own for t in range(len(x))],
            [through(t, errors.ball[t], arb(0)) for t in range(len(x))],
        )
        return self.dense(
            down, [[p * f for p, f in zip(*rows, strict=True)] for rows in zip(phi, factor, strict=True)]
        ), found

    def inside(self, b: Block, row: Sequence[arb], run: arb, ball: arb) -> bool:
        """Whether a token is in the range of a block's certificate: by its own size, or because of the norm before it,
        whose outputs in real arithmetic are at most sqrt(d) |gain| + |shift|."""
        low, high, more = b.low.tolist(), b.high.tolist(), run + ball
        if all(entry - more >= a and entry + more <= c for entry, a, c in zip(row, low, high, strict=True)):
            return True
        if self.before is None:
            return False
        root = arb(len(row)).sqrt()
        ends = [
            root * abs(exact(g)) + abs(exact(s)) + run for g, s in zip(self.before.gain, self.before.shift, strict=True)
        ]
        return all(-end >= a and end <= c for end, a, c in zip(ends, low, high, strict=True))

    def dense(self, layer: DenseLayer, x: Stream) -> Stream:
        s = apply(Linear(layer.weight, layer.bias), x)
        if layer.activation.name == "identity":
            return s
        return [[activation_ball(layer.activation, entry) for entry in row] for row in s]

    def norm(self, n: Norm, x: Stream, errors: Errors) -> tuple[Stream, Errors]:
        self.before = n
        d, gain = len(n.gain), arb(float(np.abs(n.gain).max()))
        shift = length([exact(entry) for entry in n.shift])
        out, found = [], Errors([], [])
        for t, row in enumerate(x):
            mean = sum(row, arb(0)) / d
            centred = [entry - mean for entry in row]
            deviation = (sum((entry * entry for entry in centred), arb(0)) / d + exact(n.eps)).sqrt()
            out.append([exact(g) * c / deviation + exact(b) for g, c, b in zip(n.gain, centred, n.shift, strict=True)])
            root, floor = arb(d).sqrt(), exact(n.eps).sqrt()
            near, run = errors.ball[t], errors.run[t]
            least = [_most(deviation.lower() - moved / root, floor.lower()) for moved in (near, near + run)]
            size = length(row) + near + run
            self.runs(4 * d * size * size, 2 * gain * root + shift)
            sums, lost = self.gamma(4 * d + 32), (8 * d + 64) * self.tiny
            share = sums * size * size / (d * least[1] * least[1]) + lost / (least[1] * least[1])
            if not share <= 0.5:
                raise refused("a LayerNorm may lose half of its variance to rounding; give a prompt that varies more")
            moved = (sums * size + lost * root) / least[1] * (1 + share) + share * root
            rounding = gain * moved + 8 * self.u * (2 * gain * root + shift) + (1 + gain) * root * lost
            found.ball.append(gain * near / least[0])
            found.run.append(gain * run / least[1] + rounding)
        return out, found

    def added(self, x: Stream, y: Stream, one: Errors, two: Errors) -> tuple[Stream, Errors]:
        self.before = None
        total = [[i + j for i, j in zip(*rows, strict=True)] for rows in zip(x, y, strict=True)]
        ball = [i + j for i, j in zip(one.ball, two.ball, strict=True)]
        run = [i + j for i, j in zip(one.run, two.run, strict=True)]
        sizes, lost = [length(row) + e + r for row, e, r in zip(total, run, ball, strict=True)], self.tiny
        self.runs(*(2 * size for size in sizes))
        run = [e + self.u * size + lost * arb(len(x[0])).sqrt() for e, size in zip(run, sizes, strict=True)]
        return total, Errors(run, ball)

    def walk(self, addends: np.ndarray, radius: float) -> tuple[Stream, list[arb], list[tuple[str, arb]]]:
        """The exact outputs, a bound of every token's outputs, and the budget after each sublayer."""
        T = addends.shape[1]
        x: Stream = [[arb(0)] * addends.shape[2] for _ in range(T)]
        errors, budget = Errors([arb(0)] * T, [arb(float(radius))] * T), []
        for i, addend in enumerate(addends):
            more = [[exact(entry) for entry in row] for row in addend]
            x = [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(x, more, strict=True)]
            sizes = [length(row) + e + r for row, e, r in zip(x, errors.run, errors.ball, strict=True)]
            self.runs(*(2 * size for size in sizes))
            if i:
                lost = self.tiny * addends.shape[2]
                errors.run = [e + self.u * size + lost for e, size in zip(errors.run, sizes, strict=True)]
        for step in self.program.sublayers:
            inner, own = self.norm(step.norm, x, errors) if step.first else (x, errors)
            y, moved = (
                self.attention(step.body, inner, own)
                if isinstance(step.body, Attention)
                else self.block(step.body, inner, own)
            )
            x, errors = self.added(x, y, errors, moved)
            if not step.first:
                x, errors = self.norm(step.norm, x, errors)
            errors = Errors([e.upper() for e in errors.run], [e.upper() for e in errors.ball])
            budget.append((step.name, max(errors.run, key=float)))
        if self.program.last is not None:
            x, errors = self.norm(self.program.last, x, errors)
            budget.append(("last norm", max(errors.run, key=float)))
        bounds = errors.run
        if self.program.head is not None:
            head = self.program.head
            rows = [length([exact(w) for w in row]) for row in head.weight]
            largest = max(rows, key=float) + max((abs(exact(b)) for b in head.bias), key=float)
            sizes = [length(row) + e + r for row, e, r in zip(x, errors.run, errors.ball, strict=True)]
            self.runs(*(largest * (size + 1) for size in sizes))
            rounding, lost = self.gamma(head.weight.shape[1] + 2), (2 * head.weight.shape[1] + 4) * self.tiny
            bounds = [largest * (e + rounding * (s + 1)) + lost for e, s in zip(errors.run, sizes, strict=True)]
            x = apply(head, x)
            budget.append(("head", max(bounds, key=float)))
        return x, bounds, budget


def _most(a: arb, b: arb) -> arb:
    return arb.max(a, b)


def _root(value: arb) -> arb:
    return value.sqrt().abs_upper() if value > 0 else value.abs_upper().sqrt()


@cache
def _formula(activation: Activation) -> Any:
    return Expression(activation.formula, ("x",)).nodes[0]


def activation_ball(activation: Activation, s: arb) -> arb:
    """phi at a ball, from the formula that the proof of its heads is about."""
    return evaluate(_formula(activation), {"x": s})
