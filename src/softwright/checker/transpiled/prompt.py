"""A transformer with replaced blocks at a prompt, proved again from a file that holds all of it.

    tensors     prompt (k, T, d): the first stream is the sum of its k parts; mask (T, T), 1 where a row must not see
                a key; sublayers.<i>.query/key/value/output.weight/.bias, sublayers.<i>.norm.gain/.shift;
                last.gain/.shift; head.weight/.bias; blocks.<j>.*, the tensors of a transpiled network
    model       kind, dtype, radius, sublayers [{name, body, first, eps, heads, causal} or {.., block}], last (eps or
                null), head, masked, blocks [{path, model, target, certificate}]
    certificate schema, statement, bound, budget by sublayer, dtype, assumptions, trust, weights_sha256

Claim: in real arithmetic the source is x <- x + body(norm(x)) where `first`, else x <- norm(x + body(x)), the bodies
being attention and the blocks' sources; run in the dtype with the heads of the blocks, at the prompt and at all prompts
within `radius` of it, token by token, every output is within the bound. The blocks are proved first, as files of their
own.

Exact numbers are balls. A token has two errors besides: `run`, of what runs against the source at the same prompt,
`near`, of the source at another prompt of the ball against the one stored. Slopes: a linear map its spectral norm;
softmax weights, when scores move by D, tanh(D/2) in total variation, times how far values lie apart; x/sqrt(|x|^2/d +
eps) one over its least denominator on the way; a block the product of its norms and slopes. Running adds gamma_{n+2}
(|W|_F |x| + |b|) to a linear map, gamma_{s+6} |q||k|/sqrt(s) to a score, (b+1)(exp's error + 2u) + 4u |score| to the
logarithm of a weight, gamma_{2T+4b+8} |v| to the quotient of two sums, b blocks of 128 keys; u |x| to a sum; and to a
block sqrt(outputs) times its bound, once its inputs are known to be in its box. Of a norm, mean and variance are sums
over d entries: how many roundings they take is no business of IEEE 754 but of the library, and a hypothesis by name,
`LAYER_NORM`. Then the mean is off by gamma_{4d+32} |x|/sqrt(d), the variance by a share r = gamma_{4d+32}
|x|^2/(d sd^2) of sd^2, and if r <= 1/2 the result by gain (gamma_{4d+32} |x| (1+r)/sd + r sqrt(d)) and 8u of its size.

Every rounding may lose `smallest` besides (underflow, or flushed), every weight `exp_floor` of the largest; and nothing
that is computed may come within a factor of 2^8 of overflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat

from softwright.checker.entries import is_flag, is_number, is_object, is_text, list_of
from softwright.checker.limits import check_time
from softwright.checker.precision import Precision, precision_of
from softwright.checker.refusal import require
from softwright.checker.subject import check_certificate
from softwright.checker.transpiled.activations import Activation
from softwright.checker.transpiled.outward import spectral_norm
from softwright.checker.transpiled.reading import Network, read_network
from softwright.checker.transpiled.statement import prove_transpiled
from softwright.checker.trust import check_named
from softwright.fileformat import ModelFile

KIND, SCHEMA = "transformer at a prompt", "softwright-prompt/2"
CLOSED = "softwright-closed-form/1"
LAYER_NORM = "layernorm-roundings<=4d+32"
Rows = list[list[arb]]
MODEL: dict[str, Callable[[Any], bool]] = {
    "kind": is_text,
    "dtype": is_text,
    "radius": lambda value: is_number(value) and 0 <= value < math.inf,
    "sublayers": lambda value: list_of(is_object)(value) and len(value) > 0,
    "last": lambda value: value is None or is_number(value),
    "head": is_flag,
    "masked": is_flag,
    "blocks": list_of(is_object),
}


def sigma(s: arb) -> arb:
    return (s / 2).tanh() / 2 + arb(1) / 2


def cubic(s: arb, rate: arb, factor: arb) -> arb:
    return s * sigma(2 * rate * (s + factor * s**3))


def softsign(s: arb) -> arb:
    """Rising, so its values over a ball are between those at the ends."""
    low, high = s.lower(), s.upper()
    return (low / (1 + abs(low))).union(high / (1 + abs(high)))


VALUES: dict[str, Callable[..., arb]] = {
    "identity": lambda s: s,
    "relu": lambda s: arb.max(s, arb(0)),
    "leaky_relu": lambda s, slope: arb.max(s, arb(0)) + arb(slope) * arb.min(s, arb(0)),
    "hardtanh": lambda s, low, high: arb.min(arb.max(s, arb(low)), arb(high)),
    "hardsigmoid": lambda s, slope, offset: arb.min(arb.max(arb(slope) * s + arb(offset), arb(0)), arb(1)),
    "sigmoid": sigma,
    "tanh": lambda s: s.tanh(),
    "softsign": softsign,
    "silu": lambda s: s * sigma(s),
    "mish": lambda s: s * (1 + s.exp()).log().tanh(),
    "elu": lambda s, alpha: arb.max(s, arb(0)) + arb(alpha) * (arb.min(s, arb(0)).exp() - 1),
    "gelu": lambda s: s * (1 + (s / arb(2).sqrt()).erf()) / 2,
    "gelu_tanh": lambda s: cubic(s, (2 / arb.pi()).sqrt(), arb(44715) / 10**6),
    "gelu_erf": lambda s, rate, divisor: s * (1 + (s * arb(rate) / arb(divisor)).erf()) / 2,
    "gelu_cubic": lambda s, rate, factor: cubic(s, arb(rate), arb(factor)),
}


def size(vector: list[arb]) -> arb:
    total = arb(0)
    for entry in vector:
        total += entry * entry
    return arb(total.abs_upper()).sqrt().upper()


def largest(values: list[arb]) -> arb:
    found = arb(0)
    for value in values:
        found = arb.max(found, value)
    return found.upper()


@dataclass
class Stream:
    rows: Rows
    run: list[arb]
    near: list[arb]
    norm: tuple[np.ndarray, np.ndarray] | None = None  # gain and shift of the norm that it comes from

    def grown(self) -> list[arb]:
        return [size(row) + run + near for row, run, near in zip(self.rows, self.run, self.near, strict=True)]


class Proof:
    def __init__(self, file: ModelFile) -> None:
        self.file, self.model = file, file.sections["model"]
        require(set(self.model) == set(MODEL), "the model has other entries than one of this kind")
        for name, good in MODEL.items():
            require(good(self.model[name]), f"the entry {name} of the model is damaged")
        self.precision: Precision = precision_of(self.model["dtype"])
        self.u, self.used = arb(self.precision.unit), set[str]()
        require(
            all(np.isfinite(array).all() for array in file.tensors.values()), "tensors hold NaN or infinite entries"
        )
        self.blocks = [self.block_of(j, entry) for j, entry in enumerate(self.model["blocks"])]
        self.parts = self.tensor("prompt", 3)
        self.hidden = None
        if self.model["masked"]:
            mask, tokens = self.tensor("mask", 2), self.parts.shape[1]
            require(mask.shape == (tokens, tokens) and bool(((mask == 0) | (mask == 1)).all()), "the mask is damaged")
            self.hidden = mask == 1
            require(not bool(self.hidden.all(axis=1).any()), "a row of the mask hides all keys")

    def tensor(self, name: str, axes: int) -> np.ndarray:
        require(name in self.file.tensors, f"the tensor {name} is missing")
        found = self.file.tensors[name]
        require(found.ndim == axes and found.size > 0 and str(found.dtype) == "float64", f"{name} has another form")
        exact = found.astype(self.precision.name).astype(np.float64)
        require(np.array_equal(exact, found), f"{name} holds numbers that {self.precision.name} would round")
        self.used.add(name)
        return found

    def lost(self, roundings: int) -> arb:
        """What so many results may lose because they are too small."""
        return roundings * arb(self.precision.smallest)

    def finite(self, sizes: list[arb]) -> None:
        """Nothing of these sizes may overflow."""
        most = arb(self.precision.largest) / 256
        require(all(bool(each <= most) for each in sizes), f"numbers of {self.precision.name} may overflow on the way")

    def gamma(self, count: int) -> arb:
        require(count * self.precision.unit < 0.1, f"{count} roundings are too many for {self.precision.name}")
        return count * self.u / (1 - count * self.u)

    def block_of(self, j: int, entry: dict[str, Any]) -> tuple[Network, float]:
        """A replaced block, proved as a file of its own: what it stores, and its bound."""
        require(
            set(entry) == {"path", "model", "target", "certificate"} and is_text(entry["path"]), "a block is damaged"
        )
        start = f"blocks.{j}."
        own = {name.removeprefix(start): x for name, x in self.file.tensors.items() if name.startswith(start)}
        self.used |= {start + name for name in own}
        part = ModelFile(own, {name: entry[name] for name in ("model", "target", "certificate")})
        said = entry["certificate"]
        good = isinstance(said, dict) and said.get("schema") == CLOSED and entry["model"]["kind"] == "transpiled"
        require(good, "a block is no transpiled network with a certificate in closed form")
        check_certificate(part)
        require(entry["model"]["dtype"] == self.model["dtype"] == said["dtype"], "a block is of another dtype")
        prove_transpiled(part)
        network = read_network(part)
        require(network.box is not None, "a block is proved in real arithmetic only")
        names = {activation.name for activation in network.source.activations}
        require(names <= set(VALUES), f"no slope bounds {', '.join(sorted(names - set(VALUES)))}")
        return network, float(said["bound"])

    def affine(self, x: Stream, weight: np.ndarray, bias: np.ndarray) -> Stream:
        check_time()
        require(weight.shape == (len(bias), len(x.rows[0])), "the sizes of two sublayers do not meet")
        product = _matrix(weight) * arb_mat(x.rows).transpose()
        rows = [[product[o, t] + arb(float(b)) for o, b in enumerate(bias)] for t in range(len(x.rows))]
        steep, all_entries = arb(spectral_norm(weight)), size([arb(float(w)) for w in weight.ravel()])
        added, shift = self.gamma(weight.shape[1] + 2), size([arb(float(b)) for b in bias])
        sums = [all_entries * s + shift for s in x.grown()]
        self.finite(sums)
        lost = self.lost(2 * weight.shape[1] + 4) * arb(len(bias)).sqrt()
        run = [steep * e + added * each + lost for e, each in zip(x.run, sums, strict=True)]
        return Stream(rows, run, [steep * e for e in x.near])

    def attention(self, x: Stream, name: str, entry: dict[str, Any]) -> Stream:
        heads, T = entry["heads"], len(x.rows)
        made = {
            part: (self.tensor(f"{name}.{part}.weight", 2), self.tensor(f"{name}.{part}.bias", 1))
            for part in ("query", "key", "value", "output")
        }
        width = len(made["query"][1])
        require(type(heads) is int and heads > 0 and width % heads == 0, "heads do not share the width evenly")
        s = width // heads
        seen = np.ones((T, T), dtype=bool) if self.hidden is None else ~self.hidden
        seen = seen & np.tri(T, dtype=bool) if entry["causal"] else seen
        rows: Rows = [[] for _ in range(T)]
        run, near = [arb(0)] * T, [arb(0)] * T
        for h in range(heads):
            cut = slice(h * s, (h + 1) * s)
            q, k, v = (self.affine(x, made[part][0][cut], made[part][1][cut]) for part in ("query", "key", "value"))
            for t in range(T):
                keys = [int(key) for key in np.flatnonzero(seen[t])]
                row, ran, moved = self.one_row(q, k, v, t, keys, s)
                rows[t] += row
                run[t], near[t] = run[t] + ran**2, near[t] + moved**2
        joined = Stream(rows, [_root(e) for e in run], [_root(e) for e in near])
        return self.affine(joined, *made["output"])

    def one_row(self, q: Stream, k: Stream, v: Stream, t: int, keys: list[int], s: int) -> tuple[list[arb], arb, arb]:
        """The exact mean of the values, and its two errors."""
        root, blocks = arb(s).sqrt(), 1 + len(k.rows) // 128
        scores = [sum((a * b for a, b in zip(q.rows[t], k.rows[j], strict=True)), arb(0)) / root for j in keys]
        top = max(float(score.mid()) for score in scores)
        weights = [(score - top).exp() for score in scores]
        total = sum(weights, arb(0))
        row = [sum((w * v.rows[j][i] for w, j in zip(weights, keys, strict=True)), arb(0)) / total for i in range(s)]
        apart = largest(
            [size([a - b for a, b in zip(v.rows[i], v.rows[j], strict=True)]) for i in keys for j in keys if i < j]
        )
        of_q, own_q = size(q.rows[t]), q.near[t]
        there, here, reach = [], [], []
        for j in keys:
            of_k = size(k.rows[j])
            there.append((own_q * of_k + of_q * k.near[j] + own_q * k.near[j]) / root)
            big_q, big_k = of_q + own_q, of_k + k.near[j]
            here.append((q.run[t] * big_k + big_q * k.run[j] + q.run[t] * k.run[j]) / root)
            reach.append((big_q + q.run[t]) * (big_k + k.run[j]) / root)
        score, exp, count = largest(reach), arb(self.precision.exp_error), len(k.rows)
        sizes = largest([size(k.rows[j]) + k.near[j] + k.run[j] for j in keys]) + of_q + own_q + q.run[t]
        D = (
            largest(here)
            + self.gamma(s + 6) * score
            + (blocks + 1) * (exp / (1 - exp) + 2 * self.u)
            + 4 * self.u * score
            + self.lost(4 * s + 24) * (1 + sizes)
        )
        near_v, run_v = largest([v.near[j] for j in keys]), largest([v.run[j] for j in keys])
        most = largest([size(v.rows[j]) + v.near[j] + v.run[j] for j in keys])
        self.finite([score * root, count * most])
        lost = 8 * (count + 2) * (arb(self.precision.exp_floor) * most + self.lost(1) * root)
        ran = run_v + (D / 2).tanh() * (apart + 2 * near_v) + self.gamma(2 * count + 4 * blocks + 8) * most + lost
        return row, ran, near_v + (largest(there) / 2).tanh() * apart

    def block(self, x: Stream, place: Any) -> Stream:
        require(type(place) is int and 0 <= place < len(self.blocks), "a sublayer names a block that is not there")
        network, bound = self.blocks[place]
        require(len(x.rows[0]) == network.layers[0].weight.shape[1], "the sizes of two sublayers do not meet")
        require(self.inside(x, network), "the inputs of a block may leave its box")
        source = network.source
        steps = list(zip(source.weights, source.biases, source.activations, strict=True))
        norms = [arb(spectral_norm(weight)) for weight, _, _ in steps]
        if network.products is None:
            rows, steep = x.rows, arb(1)
            for (weight, bias, activation), norm in zip(steps, norms, strict=True):
                rows, steep = _dense(rows, weight, bias, activation), steep * norm * arb(activation.slope)
            run, near = [steep * e for e in x.run], [steep * e for e in x.near]
        else:
            gate, factor = (_dense(x.rows, *step) for step in steps[:2])
            rows = _dense(
                [[a * b for a, b in zip(*two, strict=True)] for two in zip(gate, factor, strict=True)], *steps[2]
            )
            steep = arb(steps[0][2].slope) * norms[0]
            run, near = [], []
            for a, b, e, r in zip(gate, factor, x.run, x.near, strict=True):
                of_a, of_b = largest([abs(entry) for entry in a]), largest([abs(entry) for entry in b])
                run.append(norms[2] * (steep * e * (of_b + norms[1] * (r + e)) + (of_a + steep * r) * norms[1] * e))
                near.append(norms[2] * (steep * r * (of_b + norms[1] * r) + of_a * norms[1] * r))
        own = arb(len(rows[0])).sqrt() * arb(bound)
        return Stream(rows, [e + own for e in run], near)

    def inside(self, x: Stream, network: Network) -> bool:
        """By the sizes of the tokens, or because a norm puts them there, at most at sqrt(d) |gain| + |shift|."""
        require(network.box is not None, "a block has no box")
        low, high = (side.tolist() for side in network.box or ())
        for row, run, near in zip(x.rows, x.run, x.near, strict=True):
            room = run + near
            good = all(entry - room >= a and entry + room <= b for entry, a, b in zip(row, low, high, strict=True))
            if not good and x.norm is not None:
                root = arb(len(row)).sqrt()
                ends = [root * abs(float(g)) + abs(float(s)) + run for g, s in zip(*x.norm, strict=True)]
                good = all(-end >= a and end <= b for end, a, b in zip(ends, low, high, strict=True))
            if not good:
                return False
        return True

    def norm(self, x: Stream, name: str, eps: float) -> Stream:
        gain, shift = self.tensor(f"{name}.gain", 1), self.tensor(f"{name}.shift", 1)
        d = len(x.rows[0])
        require(len(gain) == len(shift) == d and is_number(eps) and eps > 0, f"{name} is damaged")
        root, floor, steep = arb(d).sqrt(), arb(eps).sqrt().lower(), arb(float(np.abs(gain).max()))
        rows, run, near, moved = [], [], [], size([arb(float(b)) for b in shift])
        for row, e, r, grown in zip(x.rows, x.run, x.near, x.grown(), strict=True):
            mean = sum(row, arb(0)) / d
            rest = [entry - mean for entry in row]
            deviation = (sum((entry * entry for entry in rest), arb(0)) / d + arb(eps)).sqrt()
            rows.append(
                [arb(float(g)) * c / deviation + arb(float(b)) for g, c, b in zip(gain, rest, shift, strict=True)]
            )
            far, both = (arb.max(deviation.lower() - more / root, floor) for more in (r, r + e))
            self.finite([4 * d * grown**2, 2 * steep * root + moved])
            lost = self.lost(8 * d + 64)
            share = self.gamma(4 * d + 32) * (grown / both) ** 2 / d + lost / both**2
            require(bool(share <= 0.5), f"{name}: rounding may be half of a variance")
            mean_off = (self.gamma(4 * d + 32) * grown + root * lost) / both
            added = steep * (mean_off * (1 + share) + share * root) + 8 * self.u * (2 * steep * root + moved)
            run.append(steep * e / both + added + root * lost * (1 + steep))
            near.append(steep * r / far)
        return Stream(rows, run, near, (gain, shift))

    def add(self, x: Stream, y: Stream) -> Stream:
        require(len(x.rows[0]) == len(y.rows[0]), "the sizes of two sublayers do not meet")
        rows = [[a + b for a, b in zip(*two, strict=True)] for two in zip(x.rows, y.rows, strict=True)]
        near = [a + b for a, b in zip(x.near, y.near, strict=True)]
        run = [a + b for a, b in zip(x.run, y.run, strict=True)]
        lost = self.lost(1) * arb(len(rows[0])).sqrt()
        run = [e + self.u * (size(row) + e + r) + lost for e, r, row in zip(run, near, rows, strict=True)]
        found = Stream(rows, [e.upper() for e in run], [r.upper() for r in near])
        self.finite(found.grown())
        return found

    def start(self) -> Stream:
        _, T, d = self.parts.shape
        x = Stream([[arb(0)] * d for _ in range(T)], [arb(0)] * T, [arb(self.model["radius"])] * T)
        for i, part in enumerate(self.parts):
            x.rows = [[a + float(b) for a, b in zip(*two, strict=True)] for two in zip(x.rows, part, strict=True)]
            if i:
                x.run = [e + self.u * all_of + self.lost(d) for e, all_of in zip(x.run, x.grown(), strict=True)]
            self.finite(x.grown())
        return x

    def outputs(self) -> tuple[arb, dict[str, arb]]:
        """The bound, and the error after every sublayer."""
        x, budget = self.start(), {}
        for i, entry in enumerate(self.model["sublayers"]):
            body, name = entry.get("body"), f"sublayers.{i}"
            wanted = {"name", "body", "first", "eps"} | ({"heads", "causal"} if body == "attention" else {"block"})
            require(
                set(entry) == wanted and body in ("attention", "block"), f"sublayer {i} is described in another way"
            )
            require(is_text(entry["name"]) and is_flag(entry["first"]), f"sublayer {i} is damaged")
            require(body == "block" or is_flag(entry["causal"]), f"sublayer {i} is damaged")
            require(entry["name"] not in budget, "two sublayers have one name")
            inner = self.norm(x, f"{name}.norm", entry["eps"]) if entry["first"] else x
            y = self.attention(inner, name, entry) if body == "attention" else self.block(inner, entry["block"])
            x = self.add(x, y)
            if not entry["first"]:
                x = self.norm(x, f"{name}.norm", entry["eps"])
            budget[entry["name"]] = largest(x.run)
        if self.model["last"] is not None:
            x = self.norm(x, "last", self.model["last"])
            budget["last norm"] = largest(x.run)
        bound = largest(x.run)
        if self.model["head"]:
            weight, bias = self.tensor("head.weight", 2), self.tensor("head.bias", 1)
            require(weight.shape == (len(bias), len(x.rows[0])), "the sizes of two sublayers do not meet")
            steep = largest([size([arb(float(w)) for w in row]) for row in weight]) + float(np.abs(bias).max())
            added = self.gamma(weight.shape[1] + 2)
            self.finite([steep * (s + 1) for s in x.grown()])
            lost = self.lost(2 * weight.shape[1] + 4)
            bound = largest([steep * (e + added * (s + 1)) + lost for e, s in zip(x.run, x.grown(), strict=True)])
            budget["head"] = bound
        unknown = sorted(set(self.file.tensors) - self.used)
        require(not unknown, f"unknown tensor {unknown[0] if unknown else ''!r}")
        return bound, budget


def _matrix(rows: np.ndarray) -> arb_mat:
    return arb_mat(rows.shape[0], rows.shape[1], [arb(float(entry)) for entry in rows.ravel()])


def _root(value: arb) -> arb:
    return arb(value.abs_upper()).sqrt().upper()


def _dense(rows: Rows, weight: np.ndarray, bias: np.ndarray, activation: Activation) -> Rows:
    product = _matrix(weight) * arb_mat(rows).transpose()
    phi = VALUES[activation.name]
    return [
        [phi(product[o, t] + arb(float(b)), *activation.parameters) for o, b in enumerate(bias)]
        for t in range(len(rows))
    ]


def hypotheses_of(precision: Precision) -> tuple[str, ...]:
    """What a bound at a prompt rests on."""
    return (*precision.hypotheses, LAYER_NORM)


def prove_prompt(file: ModelFile) -> str:
    """Redo the proof of a file of this kind; returns what was proved."""
    said, model = file.sections["certificate"], file.sections["model"]
    known = {"schema", "statement", "bound", "budget", "dtype", "assumptions", "trust", "weights_sha256"}
    require(isinstance(said, dict) and "schema" in said, "the certificate is damaged")
    require(said["schema"] == SCHEMA, f"the certificate's schema is {said['schema']!r}, not {SCHEMA}; certify again")
    require(set(said) == known, "the certificate has other entries than one at a prompt")
    require(said["weights_sha256"] == file.weights_sha256, "the tensors are not the ones that were certified (SHA-256)")
    require(set(file.sections) == {"model", "certificate"}, "the file has other sections than one at a prompt")
    proof = Proof(file)
    bound, budget = proof.outputs()
    radius = model["radius"]
    near = f" and all within {radius:g} of it, token by token" if radius else ""
    statement = f"every output of the model as it runs against its source in real arithmetic, at this prompt{near}"
    require(said["statement"] == statement, f"the statement should read: {statement}")
    words = [proof.precision.words, f"inputs are {proof.precision.name} numbers of the domain"]
    require(said["dtype"] == proof.precision.name and said["assumptions"] == words, "the assumptions should be others")
    check_named(said["trust"], hypotheses_of(proof.precision))
    require(
        is_number(said["bound"]) and bool(bound <= said["bound"]), f"{float(bound):.6g} can be proved, less is stated"
    )
    stated = said["budget"]
    require(isinstance(stated, dict) and set(stated) == set(budget), "the budget is not that of these sublayers")
    for name, error in budget.items():
        require(is_number(stated[name]) and bool(error <= stated[name]), f"{name}: {float(error):.6g} can be proved")
    return f"{statement}: within {said['bound']:.6g} in {proof.precision.name}, rounding included"
