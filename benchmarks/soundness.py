"""Is a certificate ever wrong? Random networks, false claims, mutated files and float32 runs: each must find nothing.

    python benchmarks/soundness.py          1,000 networks, 500 false claims, 2,000 mutations, 10^6 float32 evaluations
    python benchmarks/soundness.py --quick  a small version of the same, under a minute

*Networks.* 2 to 200 tokens, one to three variables, one or two heads, constant and affine values up to 1e6, soft and
hard gates; one in six is a maximum of affine pieces behind gates, for which there is a proof in closed form, and one in
six such a maximum plus a smooth head, for which walls are taken off in closed form. Against
each proved bound: dense sampling, points on the walls between tokens, and from the best of them gradient ascent in
60-digit ball arithmetic (`ball_ascent.py`). A violation is an error above the proved exact part.

*False claims.* 0.995 of an error that was certainly seen must not be proved.

*Mutations.* Files that `approximate` wrote and `verify` accepts are changed such that they are false (an error above
the bound is computed in ball arithmetic at a point of the domain) or contradict themselves. None may be accepted.

*Float32.* Built networks are run in float32 by every engine and compared with what was proved about that.

*Extremes.* Contrived networks with numbers at the ends of their range (`extremes.py`): none whose run is not finite, or
leaves its bound, may be proved.
"""

from __future__ import annotations

import argparse
import collections
import copy
import itertools
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ball_ascent import BallError
from extremes import attack as attack_extremes
from flint import arb
from scipy.special import lambertw

from softwright.approximation.verb import approximate
from softwright.attention.head import Head
from softwright.attention.network import ENGINES, AttentionNetwork
from softwright.checker.verify import verify
from softwright.domain import Box
from softwright.fileformat import read_model, weights_sha256, write_model
from softwright.proof.arithmetic.balls import precision
from softwright.proof.models.exact_heads import exact_heads, float_values
from softwright.proof.models.head_moments import ExactHead
from softwright.proof.prover import certify
from softwright.proof.search.probe import worst_points
from softwright.result.certificate import decode_tree, encode_tree, sum_rounded_up
from softwright.targets.formula.balls import evaluate
from softwright.targets.formula.expression import Expression

TARGETS = {
    1: ["sin(3*x)", "abs(x - 0.2)", "exp(-x**2)*cos(2*x)", "sqrt(x + 4)", "where(x < 0.5, x**2, 0.25 + (x - 0.5))"],
    2: ["sin(x + 2*y)", "exp(-x**2 - y**2)", "x*y/(3 + x**2)", "max(x, y)"],
    3: ["sin(x + 2*y)*exp(-z**2)", "x*y*z", "tanh(x - y) + z**2"],
}
NAMES = ("x", "y", "z")
PARTS = ("networks", "mutations", "evaluations", "extremes")


@dataclass(frozen=True)
class Row:
    """One line of the summary."""

    part: str
    cases: int
    finding: str
    seconds: float

    def __str__(self) -> str:
        return f"| {self.part} | {self.cases:,} | {self.finding} | {self.seconds:.0f} |"


# ------------------------------------------------------------------------------------------- errors that are certain


def exact_value(heads: Sequence[ExactHead], point: np.ndarray) -> arb:
    """g at a float64 point in balls, from its definition."""
    total = arb(0)
    for head in heads:
        t = [
            (arb(float(x)) - arb(float(c))) * arb(float(s))
            for x, c, s in zip(point, head.center, head.scale, strict=True)
        ]
        scores: list[Any] = [
            sum((arb(float(k)) * y for k, y in zip(row, t, strict=True)), arb(float(b)) + arb(float(low)))
            for row, b, low in zip(head.keys, head.bias, head.bias_low, strict=True)
        ]
        top = max(float(score.mid()) for score in scores)
        weights = [(score - top).exp() for score in scores]
        value = arb(0)
        for j, weight in enumerate(weights):
            v = arb(float(head.values[j, 0]))
            if head.slopes is not None:
                v = v + sum((arb(float(g)) * y for g, y in zip(head.slopes[j, 0], t, strict=True)), arb(0))
            value = value + weight * v
        total = total + value / sum(weights, arb(0))
    return total


def exact_error(heads: Sequence[ExactHead], target: Expression, point: np.ndarray) -> float:
    """|g - f| at a float64 point in 200-bit balls, from the definition of both."""
    with precision(200):
        named = {name: arb(float(x)) for name, x in zip(target.names, point, strict=True)}
        return float(abs(exact_value(heads, point) - evaluate(target.nodes[0], named)).mid())


def wall_points(heads: Sequence[ExactHead], low: np.ndarray, high: np.ndarray, lines: int = 40) -> np.ndarray:
    """Points round the places where the leading token changes along random lines: hard gates hide between samples."""
    rng = np.random.default_rng(11)
    found = [np.empty((0, len(low)))]
    for head in heads:
        for _ in range(lines):
            start, end = rng.uniform(low, high), rng.uniform(low, high)
            slope = head.keys @ ((end - start) * head.scale)
            bias = head.keys @ ((start - head.center) * head.scale) + head.bias
            leading = np.argmax(np.outer(np.linspace(0, 1, 200), slope) + bias, axis=1)
            for a, b in {(a, b) for a, b in itertools.pairwise(leading) if a != b}:
                gap = slope[b] - slope[a]
                s = (bias[a] - bias[b]) / gap + np.array([0.0, 0.5, -0.5, 1.28, -1.28, 3.0, -3.0]) / gap
                found.append(start + s[(s >= 0) & (s <= 1), None] * (end - start))
    return np.clip(np.concatenate(found), low, high)


def attack(
    network: AttentionNetwork, target: Expression, samples: int, witness: tuple[float, ...]
) -> tuple[float, np.ndarray]:
    """The largest error that dense sampling and gradient ascent find; the ascent runs in 60 digits from start to end.

    Starts are the best samples, points that a pattern search in float64 makes of them, the best points on walls, and
    the prover's own witness: behind hard gates it may know a peak that sampling misses.
    """
    heads = exact_heads(network, "sdpa")
    low, high = network.box.lower, network.box.upper

    def error(points: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.nan_to_num(np.abs(float_values(heads, points) - target(points))[:, 0])

    dense = np.concatenate([network.box.sample(samples, 17), network.box.corners()])
    starts = [dense[np.argsort(-error(dense))[:3]], worst_points(error, heads, low, high, samples)[0][:3]]
    if len(low) > 1:
        walls = wall_points(heads, low, high)
        starts.append(walls[np.argsort(-error(walls))[:2]])
    if witness:
        starts.append(np.array([witness]))
    exact = BallError(heads, target)
    peaks = [exact.climb(start, low, high) for start in np.concatenate(starts)]
    best = max(peaks, key=lambda peak: peak.error)
    return best.error, best.point


# -------------------------------------------------------------------------------------- random networks, false claims


def random_box(rng: np.random.Generator, dim: int) -> Box:
    low = rng.uniform(-2, 2, dim)
    return Box.from_bounds(low, low + rng.uniform(0.1, 3, dim), NAMES[:dim])


def random_network(rng: np.random.Generator, dim: int) -> AttentionNetwork:
    hard = 10.0 ** rng.uniform(-1, [7.0, 2.0, 1.5][dim - 1])
    size = 10.0 ** rng.uniform(-2, 6)
    heads = []
    for _ in range(int(rng.integers(1, 3))):
        tokens = int(rng.integers(2, 201))
        keys = rng.normal(size=(tokens, dim)) * hard
        slopes = rng.normal(size=(tokens, 1, dim)) * size if rng.integers(2) else None
        heads.append(
            Head(keys, rng.normal(size=tokens) * hard * rng.uniform(0, 1), rng.normal(size=(tokens, 1)) * size, slopes)
        )
    return AttentionNetwork(heads, random_box(rng, dim))


def random_gates(rng: np.random.Generator, dim: int) -> tuple[AttentionNetwork, str, float]:
    """A maximum of affine pieces behind gates that are not quite in proportion, its formula, and a bound to ask for."""
    box, pieces, beta = random_box(rng, dim), int(rng.integers(2, 21)), 10.0 ** rng.uniform(0, 8)
    size = 10.0 ** rng.uniform(-1, 3)
    gradients, constants = rng.normal(size=(pieces, dim)) * size, rng.normal(size=pieces) * size
    texts = [
        " + ".join([*(f"({a!r})*{name}" for a, name in zip(row, box.names, strict=True)), f"({c!r})"])
        for row, c in zip(gradients.tolist(), constants.tolist(), strict=True)
    ]
    slopes, values = gradients * box.halfwidth, constants + gradients @ box.center  # of t in [-1, 1]^d
    off = 10.0 ** rng.uniform(-16, -8)
    keys = beta * slopes * (1 + off * rng.normal(size=slopes.shape))
    head = Head(keys, beta * values, values[:, None], slopes[:, None, :], "gates")
    closed_form = float(lambertw((pieces - 1) / math.e).real) / beta
    bound = closed_form * rng.uniform(1.0, 2.0) + off * size * rng.uniform(1, 100)
    return AttentionNetwork([head], box), f"max({', '.join(texts)})", bound


def random_walls(rng: np.random.Generator, dim: int) -> tuple[AttentionNetwork, str]:
    """A maximum behind gates plus a smooth head, and the formula of the maximum plus a smooth one."""
    gates, text, _ = random_gates(rng, dim)
    (gate,) = gates.layer
    slopes = None if gate.slopes is None else gate.slopes.detach().numpy()
    pieces = Head(
        gate.keys.detach().numpy(), gate.biases.detach().numpy(), gate.values.detach().numpy(), slopes, "gates"
    )
    size, tokens = 10.0 ** rng.uniform(-6, 0), int(rng.integers(2, 201))
    smooth = Head(rng.normal(size=(tokens, dim)) * 3, rng.normal(size=tokens), rng.normal(size=(tokens, 1)) * size)
    rest = str(rng.choice([text for text in TARGETS[dim] if not any(kink in text for kink in ("abs", "max", "where"))]))
    return AttentionNetwork([pieces, smooth], gates.box), f"{text} + {size!r}*({rest})"


def random_networks(count: int, claims: int, samples: int, seed: int, first: int = 0) -> list[Row]:
    """Every network has a generator of its own: trials `first` to `first + count` are the same in every run."""
    violations = proved = false_proved = false_refuted = false_asked = 0
    tightest: list[float] = []
    claim_seconds, started = 0.0, time.perf_counter()
    for trial in range(first, first + count):
        rng = np.random.default_rng([seed, trial])
        dim = int(rng.choice([1, 1, 2, 3]))
        budget: dict[str, Any] = {"max_seconds": 3, "max_boxes": 50_000}
        if trial % 6 == 5:
            network, text, asked = random_gates(rng, dim)
            found = certify(network, text, bound=asked, **budget)
        elif trial % 6 == 4:
            network, text = random_walls(rng, max(dim, 2))
            found = certify(network, text, tightness=0.1, **budget)
        else:
            network, text = random_network(rng, dim), str(rng.choice(TARGETS[dim]))
            found = certify(network, text, tightness=0.1, **budget)
        target = Expression(text, network.names)
        seen, point = attack(network, target, samples, found.witness)
        limit = found.certificate.exact_part if found.certificate is not None else found.proved_bound
        if seen > limit:
            violations += 1
            print(f"VIOLATION in trial {trial}: {text} error {seen!r} at {point} above {limit!r}", flush=True)
        if found.lower > seen * (1 + 1e-9) and found.witness and found.status != "refuted":
            again = exact_error(exact_heads(network, "sdpa"), target, np.array(found.witness))
            if found.lower > again * (1 + 1e-12):
                violations += 1
                print(f"VIOLATION in trial {trial}: lower bound {found.lower!r} is not reached: {again!r}", flush=True)
        proved += found.proved
        if found.proved and seen > 0 and trial % 6 < 4:
            tightest.append(limit / seen)
        i = trial - first
        if (i * claims) // count < ((i + 1) * claims) // count and seen > 0:
            asked_at = time.perf_counter()
            false_asked += 1
            claim = certify(network, text, bound=0.995 * seen, max_seconds=2, max_boxes=20_000)
            false_refuted += claim.status == "refuted"
            if claim.proved:
                false_proved += 1
                print(f"FALSE CLAIM PROVED in trial {trial}: {text}, {claim.bound!r} below {seen!r}", flush=True)
            claim_seconds += time.perf_counter() - asked_at
    spread = f"; bound/seen: median {np.median(tightest):.3f}, largest {np.max(tightest):.3f}" if tightest else ""
    finding = f"**{violations} violations**; {proved} proved, {count - proved} not decided in 3 s{spread}"
    undecided = false_asked - false_refuted - false_proved
    refuted = f"**{false_proved} proved**; {false_refuted} refuted with a witness, {undecided} undecided"
    return [
        Row("random networks, ascent in 60 digits", count, finding, time.perf_counter() - started - claim_seconds),
        Row("false claims, 0.995 of the error seen", false_asked, refuted, claim_seconds),
    ]


# ---------------------------------------------------------------------------------------------------------- mutations


@dataclass
class Saved:
    """The content of a file that `verify` accepts, and the network in it."""

    network: AttentionNetwork
    tensors: dict[str, np.ndarray]
    sections: dict[str, Any]

    @property
    def certificate(self) -> dict[str, Any]:
        return self.sections["certificate"]

    @property
    def parts(self) -> list[dict[str, Any]] | None:
        return self.certificate["tree"] if isinstance(self.certificate["tree"], list) else None

    def sign(self) -> None:
        """Make the hash fit the weights, as a forger would."""
        self.certificate["weights_sha256"] = weights_sha256(self.tensors)

    def state(self, name: str, value: float, part: dict[str, Any] | None = None) -> None:
        """Set a number of the statement, or of one part, in both its forms."""
        where = self.certificate if part is None else part
        where[name], where["hex"][name] = value, value.hex()

    def state_domain(self, name: str, low: float, high: float) -> None:
        self.certificate["domain"][name] = [low, high]
        self.certificate["hex"]["domain"][name] = [low.hex(), high.hex()]

    def claim(self, exact: float | None = None, rounding: float | None = None) -> None:
        """State smaller parts, throughout, so that nothing but the proof itself can tell."""
        for name, value in (("exact_part", exact), ("rounding_part", rounding)):
            if value is None:
                continue
            shrink = value / self.certificate[name] * (1 - 2.0**-40)
            for part in self.parts or []:
                self.state(name, part[name] * shrink, part)
            self.state(name, value)
        said = self.certificate
        self.state("bound", sum_rounded_up(said["exact_part"], said["rounding_part"]))
        said["lower"] = min(said["lower"], said["exact_part"])

    def as_run(self) -> AttentionNetwork:
        """The network with the weights of the file, in the dtype of the file."""
        network = copy.deepcopy(self.network).to(torch.float32 if self.kind == np.float32 else torch.float64)
        network.load_state_dict({name: torch.from_numpy(tensor.copy()) for name, tensor in self.tensors.items()})
        return network

    @property
    def kind(self) -> type[np.floating[Any]]:
        return np.float32 if self.tensors["center"].dtype == np.float32 else np.float64

    @property
    def domain(self) -> Box:
        return Box({name: tuple(side) for name, side in self.certificate["domain"].items()})

    def certain_error(self) -> float:
        """A number that sup |g - f| certainly exceeds: the error at a point of the domain, a little less."""
        heads, box = exact_heads(self.as_run(), "sdpa"), self.domain
        target = Expression(self.certificate["target"]["text"], self.certificate["variables"])
        walls = wall_points(heads, box.lower, box.upper, 10)
        points = np.concatenate([box.sample(600, 3), box.corners(), walls])
        with np.errstate(all="ignore"):
            error = np.nan_to_num(np.abs(float_values(heads, points) - target(points))[:, 0])
        return max(exact_error(heads, target, point) for point in points[np.argsort(-error)[:3]]) * (1 - 1e-9)

    def certain_rounding(self) -> float:
        """A number that |fl(g) - g| certainly reaches at some point of the domain."""
        network, box = self.as_run(), self.domain
        points = box.sample(24, 5).astype(self.kind).astype(float)
        points = points[box.contains(points)]
        run, heads = network.evaluate(points, "sdpa")[:, 0], exact_heads(network, "sdpa")
        with precision(200):
            gaps = [abs(exact_value(heads, x) - arb(float(y))) for x, y in zip(points, run, strict=True)]
            return max(float(gap.mid()) for gap in gaps) * (1 - 1e-9)

    def make_false(self, rng: np.random.Generator) -> bool:
        """Lower the claim below the certain error, unless it is below already."""
        certain = self.certain_error()
        if not certain > 0:
            return False
        if certain <= self.certificate["exact_part"]:
            self.claim(exact=certain * rng.uniform(0.5, 0.999))
        return True


Mutation = Callable[[Saved, np.random.Generator], bool]  # False: this file cannot be changed in this way


def some_tree(case: Saved, rng: np.random.Generator) -> dict[str, Any] | None:
    """What holds a tree: the certificate, or one of its parts."""
    holder = case.certificate if case.parts is None else case.parts[int(rng.integers(len(case.parts)))]
    return holder if isinstance(holder["tree"], str) else None


def _subtree_end(tree: bytes, start: int) -> int:
    end, owed = start, 1
    while owed:
        owed += -1 if tree[end] == 255 else 1
        end += 1
    return end


def remove_boxes(case: Saved, rng: np.random.Generator) -> bool:
    """A leaf or a subtree cut out, the count of boxes mended: the rest no longer covers the domain."""
    holder = some_tree(case, rng)
    if holder is None:
        return False
    tree = decode_tree(holder["tree"])
    leaves = [i for i, node in enumerate(tree) if node == 255]
    start = int(rng.choice(leaves)) if rng.integers(2) else int(rng.integers(len(tree) > 1, len(tree)))
    end = _subtree_end(tree, start)
    holder["tree"] = encode_tree(tree[:start] + tree[end:])
    case.certificate["boxes"] -= tree[start:end].count(255)
    return True


def merge_boxes(case: Saved, rng: np.random.Generator) -> bool:
    """A subtree replaced by one wide box: the count contradicts the tree; with the count mended, the claim is false."""
    holder = some_tree(case, rng)
    if holder is None:
        return False
    tree = decode_tree(holder["tree"])
    splits = [i for i, node in enumerate(tree) if node != 255]
    if not splits:
        return False
    start = int(rng.choice(splits))
    end = _subtree_end(tree, start)
    holder["tree"] = encode_tree(tree[:start] + b"\xff" + tree[end:])
    if rng.integers(2):
        return True
    case.certificate["boxes"] -= tree[start:end].count(255) - 1
    return case.make_false(rng)


def damage_tree(case: Saved, rng: np.random.Generator) -> bool:
    """A node too many, a variable that does not exist, a text that is not a tree."""
    holder = some_tree(case, rng)
    if holder is None:
        return False
    tree, way = decode_tree(holder["tree"]), int(rng.integers(3))
    if way == 0:
        holder["tree"] = encode_tree(tree + b"\xff")
        case.certificate["boxes"] += 1
    elif way == 1:
        i = int(rng.integers(len(tree)))
        wrong = int(rng.integers(len(holder["variables"]), 255))
        case.certificate["boxes"] -= tree[i] == 255
        holder["tree"] = encode_tree(tree[:i] + bytes([wrong]) + tree[i + 1 :])
    else:
        holder["tree"] = holder["tree"][: int(rng.integers(len(holder["tree"]) - 4))] + "?"
    return True


def swap_tree(case: Saved, rng: np.random.Generator) -> bool:
    """The tree of another proof, or no tree and another method: with a claim that is false."""
    if case.parts is not None:
        return False
    depth, dim = int(rng.integers(1, 6)), len(case.certificate["variables"])
    tree = bytes([255])
    for _ in range(depth):
        tree = bytes([int(rng.integers(dim))]) + tree + tree
    case.certificate["tree"] = encode_tree(tree) if rng.integers(2) else None
    case.certificate["boxes"] = tree.count(255)
    case.certificate["method"] = str(rng.choice(["taylor", "closed form: gates of affine pieces"]))
    return case.make_false(rng)


def _changed(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One entry off by one unit in the last place, or by up to 1 %."""
    changed = array.copy().ravel()
    i = int(rng.integers(changed.size))
    before = changed[i]
    if rng.integers(2):
        changed[i] = before * (1 + rng.choice([-1, 1]) * 10 ** rng.uniform(-6, -2))
    if changed[i] == before:
        changed[i] = np.nextafter(before, before.dtype.type(np.inf if rng.integers(2) else -np.inf))
    return changed.reshape(array.shape)


def change_weight(case: Saved, rng: np.random.Generator) -> bool:
    """A weight changed, the hash left: the file contradicts itself."""
    name = str(rng.choice(sorted(case.tensors)))
    case.tensors[name] = _changed(case.tensors[name], rng)
    return True


def change_weight_and_sign(case: Saved, rng: np.random.Generator) -> bool:
    """A weight changed and the hash mended, with a claim that is false for the new weights."""
    change_weight(case, rng)
    case.sign()
    return case.make_false(rng)


def lower_exact_part(case: Saved, rng: np.random.Generator) -> bool:
    """Less claimed than the error at a point of the domain."""
    certain = case.certain_error()
    case.claim(exact=certain * rng.uniform(0.5, 0.999))
    return certain > 0


def lower_rounding_part(case: Saved, rng: np.random.Generator) -> bool:
    """Less rounding claimed than a run of the network shows."""
    certain = min(case.certain_rounding(), case.certificate["rounding_part"])
    if not certain > 1e-300:
        return False
    case.claim(rounding=certain * 10 ** rng.uniform(-3, -0.1))
    return True


def lower_total(case: Saved, rng: np.random.Generator) -> bool:
    """A bound below the sum of its parts."""
    said = case.certificate
    by = rng.uniform(0.1, 1 - 1e-9) if rng.integers(2) else 1 - 2.0**-52
    case.state("bound", min(said["bound"], sum_rounded_up(said["exact_part"], said["rounding_part"])) * by)
    return said["bound"] < said["exact_part"] + said["rounding_part"]


def change_one_form(case: Saved, rng: np.random.Generator) -> bool:
    """A number whose decimal form no longer is its hexadecimal form."""
    name = str(rng.choice(["bound", "exact_part", "rounding_part"]))
    before = case.certificate[name]
    case.certificate[name] = before * (1 + rng.choice([-1, 1]) * 10 ** rng.uniform(-12, 0))
    return case.certificate[name] != before


def leave_the_box(case: Saved, rng: np.random.Generator) -> bool:
    """A domain widened or moved out of the model's box."""
    name = str(rng.choice(case.certificate["variables"]))
    low, high = case.certificate["domain"][name]
    by = (high - low) * 10 ** rng.uniform(-14, 1)
    moved = [(low, high + by), (low - by, high), (low + by, high + by)][int(rng.integers(3))]
    if moved[0] >= low and moved[1] <= high:
        return False
    case.state_domain(name, *moved)
    return True


def widen_domain_and_box(case: Saved, rng: np.random.Generator) -> bool:
    """The model's box widened as well: far enough outside the network is off, or the claim is lowered."""
    name = str(rng.choice(case.certificate["variables"]))
    low, high = case.certificate["domain"][name]
    high += (high - low) * rng.uniform(0.05, 2.0)
    case.state_domain(name, low, high)
    case.sections["model"]["box"][name] = [low, high]
    return case.make_false(rng)


def change_variables(case: Saved, rng: np.random.Generator) -> bool:
    """Variables in another order, or under another name."""
    names = case.certificate["variables"]
    if len(names) > 1 and rng.integers(2):
        case.certificate["variables"] = names[::-1]
    else:
        case.certificate["variables"] = [f"u{rng.integers(99)}", *names[1:]]
    return True


def change_dtype(case: Saved, rng: np.random.Generator) -> bool:
    """Another dtype stated; or everything cast to float32 with the rounding that float64 had."""
    other = "float32" if case.kind == np.float64 else "float64"
    case.certificate["dtype"] = other
    way = int(rng.integers(3))
    if way:
        case.sections["model"]["dtype"] = other
    if way < 2 or other == "float64":  # wider floats round less: there the statement would stay true
        return True
    case.tensors = {name: tensor.astype(np.float32) for name, tensor in case.tensors.items()}
    case.sign()
    certain = case.certain_rounding()
    if certain <= case.certificate["rounding_part"]:
        case.claim(rounding=0.9 * certain)
    return certain > 0


def _new_text(case: Saved, rng: np.random.Generator) -> str:
    text = case.sections["target"]["text"]
    digits = [i for i, c in enumerate(text) if c.isdigit() and text[i - 1] != "."]
    words = [(a, b) for a, b in (("sin", "cos"), ("exp", "cosh"), ("max", "min"), ("abs", "sin")) if a in text]
    if words and (rng.random() < 0.3 or not digits):
        return text.replace(*words[int(rng.integers(len(words)))], 1)
    if not digits:
        return f"{text} + {10 ** rng.uniform(-6, 0)!r}"
    i = int(rng.choice(digits))
    whole = text[i + 1 : i + 2] != "."
    return text[: i + 1] + ("." if whole else "") + "0" * int(rng.integers(4)) + "3" + text[i + 1 + (not whole) :]


def change_formula(case: Saved, rng: np.random.Generator) -> bool:
    """Another formula, in the statement only or throughout; then with a claim that is false for it."""
    text = _new_text(case, rng)
    try:
        Expression(text, case.certificate["variables"])
    except ValueError:
        return False
    if text == case.sections["target"]["text"]:
        return False
    case.certificate["target"] = {**case.sections["target"], "text": text}
    if rng.random() < 0.3:
        return True
    case.sections["target"] = case.certificate["target"]
    return case.make_false(rng)


def break_formula(case: Saved, rng: np.random.Generator) -> bool:
    text = case.sections["target"]["text"]
    i = int(rng.integers(len(text)))
    target = {**case.sections["target"], "text": text[:i] + str(rng.choice(list("$;^=["))) + text[i + 1 :]}
    case.sections["target"] = case.certificate["target"] = target
    return True


def move_constants(case: Saved, rng: np.random.Generator) -> bool:
    """More than twice a part's bound added to its constant, and half of the time taken off another's."""
    if case.parts is None:
        return False
    first, second = rng.permutation(len(case.parts))[:2]
    shift = rng.choice([-1, 1]) * rng.uniform(2.1, 100) * case.certificate["exact_part"]
    for i, by in ((first, shift), (second, -shift))[: int(rng.integers(1, 3))]:
        part = case.parts[i]
        part["constant"] = [c + by for c in part["constant"]]
        part["hex"]["constant"] = [c.hex() for c in part["constant"]]
    return True


def move_terms(case: Saved, rng: np.random.Generator) -> bool:
    """A term or a head given to another part, whose variables may be extended to all: what is left is far off."""
    if case.parts is None:
        return False
    one, other = (case.parts[i] for i in rng.permutation(len(case.parts))[:2])
    kind = str(rng.choice(["heads", "terms"]))
    moved = one[kind].pop(int(rng.integers(len(one[kind]))))
    other[kind] = sorted([*other[kind], moved])
    if rng.integers(2):
        other["variables"] = list(case.certificate["variables"])
    return True


def damage_parts(case: Saved, rng: np.random.Generator) -> bool:
    """A part lost or doubled, variables lost, or a bound that the sum cannot hold."""
    if case.parts is None:
        return False
    i, way = int(rng.integers(len(case.parts))), int(rng.integers(4))
    part = case.parts[i]
    if way == 0:
        del case.parts[i]
    elif way == 1:
        case.parts.append(copy.deepcopy(part))
    elif way == 2:
        part["variables"] = [name for name in case.certificate["variables"] if name not in part["variables"]]
    else:
        case.state("exact_part", case.certificate["exact_part"] * rng.uniform(1.01, 3), part)
    return True


def not_a_number(case: Saved, rng: np.random.Generator) -> bool:
    name = str(rng.choice(sorted(case.tensors)))
    changed = case.tensors[name].copy().ravel()
    changed[int(rng.integers(changed.size))] = rng.choice([np.nan, np.inf, -np.inf])
    case.tensors[name] = changed.reshape(case.tensors[name].shape)
    case.sign()
    return True


def shift_frame(case: Saved, rng: np.random.Generator) -> bool:
    """Another centre or scale of the input, signed, with a claim that is false for it."""
    name = str(rng.choice(["center", "scale"]))
    case.tensors[name] = (case.tensors[name] + 10 ** rng.uniform(-6, -1)).astype(case.kind)
    case.sign()
    return case.make_false(rng)


def drop_entry(case: Saved, rng: np.random.Generator) -> bool:
    """An entry without which there is no statement is lost or of another type."""
    needed = ("schema", "bound", "exact_part", "domain", "variables", "dtype", "engine", "weights_sha256", "hex")
    name = str(rng.choice(needed))
    if rng.integers(2):
        del case.certificate[name]
    else:
        case.certificate[name] = (None, "", 7, [], {})[int(rng.integers(5))]
    return True


def drop_tensor(case: Saved, rng: np.random.Generator) -> bool:
    """A tensor lost and the rest signed; slopes are left, because without them there still is a network."""
    name = str(rng.choice([name for name in sorted(case.tensors) if not name.endswith("slopes")]))
    del case.tensors[name]
    case.sign()
    return True


def change_norm(case: Saved, rng: np.random.Generator) -> bool:
    """An exponent beside the sup norm, or a norm that does not exist."""
    norm, p = [("sup", 2.0), ("Lp", None), ("Lp", 0.5), ("L2", 2.0)][int(rng.integers(4))]
    case.certificate["norm"], case.certificate["p"] = norm, p
    return True


MUTATIONS: tuple[Mutation, ...] = (
    remove_boxes,
    merge_boxes,
    damage_tree,
    swap_tree,
    change_weight,
    change_weight_and_sign,
    lower_exact_part,
    lower_rounding_part,
    lower_total,
    change_one_form,
    leave_the_box,
    widen_domain_and_box,
    change_variables,
    change_dtype,
    change_formula,
    break_formula,
    move_constants,
    move_terms,
    damage_parts,
    not_a_number,
    shift_frame,
    drop_entry,
    drop_tensor,
    change_norm,
)
LINE, PLANE = Box(x=(-1, 1)), Box(x=(-1, 1), y=(0, 1))
FILES = [
    ("sin(3*x)", LINE, 1e-6, "float64"),
    ("1/(1 + 25*x**2)", LINE, 1e-3, "float64"),
    ("abs(x - 0.3)", LINE, 1e-5, "float64"),
    ("sin(x + 2*y)*exp(-x**2)", PLANE, 1e-2, "float64"),
    ("max(x, 2*y - 1)", PLANE, 1e-3, "float64"),
    ("abs(x - 0.25*y)", PLANE, 1e-4, "float64"),
    ("sin(3*x) + exp(-2*y)", PLANE, 1e-5, "float64"),
    ("sin(3*x) + x*y - cos(2*z)", Box(x=(-1, 1), y=(0, 1), z=(0, 1)), 1e-3, "float64"),
    ("abs(x - 0.5*y) + sin(x)*y", PLANE, 1e-3, "float64"),
    ("sin(3*x)", LINE, 1e-3, "float32"),
    ("exp(-x**2 - 2*y)", PLANE, 1e-2, "float32"),
]


def mutations(count: int, seed: int) -> list[Row]:
    """Each kind of mutation in turn, on a random file to which it applies."""
    started, cases = time.perf_counter(), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        for text, box, tol, dtype in FILES:
            # one layer, whose proof is a tree; at the tolerance: a tighter proof has more boxes, nothing else to forge
            built = approximate(text, box, tol=tol, dtype=dtype, tightness=None, strategy="layer")
            built.save(path)
            verdict = verify(path)
            if not verdict.verified:
                raise SystemExit(f"{text} in {dtype} is to be mutated but is not verified: {verdict}")
            file = read_model(path)
            flat = {**file.sections, "certificate": built.certificate.flat()}  # easier to forge, and checked alike
            cases.append(Saved(built.network, file.tensors, flat))
        done, accepted, slowest = collections.Counter[str](), 0, 0.0
        for trial in range(count):
            rng = np.random.default_rng([seed, trial])
            mutate = MUTATIONS[trial % len(MUTATIONS)]
            for i in rng.permutation(len(cases)):
                case = copy.deepcopy(cases[i])
                if mutate(case, rng):
                    break
            else:
                raise SystemExit(f"{mutate.__name__} applies to no file")
            write_model(path, case.tensors, case.sections)
            verdict = verify(path)
            done[mutate.__name__] += 1
            slowest = max(slowest, verdict.seconds)
            if verdict.verified:
                accepted += 1
                kept = Path(tempfile.gettempdir()) / f"accepted-{seed}-{trial}.safetensors"
                kept.write_bytes(path.read_bytes())
                print(f"ACCEPTED in trial {trial}: {mutate.__name__}, kept as {kept}: {verdict}", flush=True)
    finding = f"**{accepted} accepted**; {len(FILES)} files, {len(done)} kinds of mutation, slowest {slowest:.1f} s"
    return [Row("mutated certificates", done.total(), finding, time.perf_counter() - started)]


# ------------------------------------------------------------------------------------------------------------ float32


def float32_runs(evaluations: int) -> list[Row]:
    """Built float32 networks: what the run adds to the exact error, seen and proved."""
    started, violations, runs = time.perf_counter(), 0, 0
    jobs = [
        ("sin(3*x)", Box(x=(-1, 1)), 1e-4),
        ("abs(x - 0.3)", Box(x=(-1, 1)), 1e-5),
        ("1/(1 + 25*x**2)", Box(x=(-1, 1)), 1e-4),
        ("sin(x + 2*y)*exp(-x**2)", Box(x=(-1, 1), y=(-1, 1)), 1e-3),
        ("sin(3*x) + exp(-2*y)", Box(x=(-1, 1), y=(0, 1)), 1e-3),
        ("x*y*z", Box(x=(-1, 1), y=(-1, 1), z=(0, 1)), 1e-3),
    ]
    print("| float32 network | engine | tokens | proved bound | error seen | proved rounding | rounding seen | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for text, box, tol in jobs:
        # One layer: `certify` asks about heads, all engines run grids, and the automatic choice may take a stack.
        strategy = "grid" if box.dim > 1 else "auto"
        network = approximate(text, box, tol=tol, dtype="float32", strategy=strategy).network
        target = Expression(text, box)
        for engine in ENGINES:
            found = certify(network, text, tightness=0.1, engine=engine, max_seconds=30)
            rounding = found.certificate.rounding_part if found.certificate is not None else np.inf
            seen, error, count = 0.0, 0.0, 0
            heads = exact_heads(network, engine)
            part = 0
            while count < evaluations:
                points = box.sample(20_000, part).astype(np.float32).astype(float)
                points = points[box.contains(points)]
                run = network.evaluate(points, engine)
                seen = max(seen, float(np.abs(run - float_values(heads, points)).max()))
                error = max(error, float(np.abs(run - target(points)).max()))
                count, part = count + len(points), part + 1
            good = seen <= rounding and error <= found.proved_bound
            violations += not good
            runs += 1
            print(
                f"| `{text}` | {engine} | {network.tokens} | {found.proved_bound:.2e} | {error:.2e} | {rounding:.2e} | "
                f"{seen:.2e} | {rounding / max(seen, 1e-300):.0f}{'' if good else ' VIOLATION'} |",
                flush=True,
            )
    finding = f"**{violations} violations**; {evaluations:,} float32 evaluations a run"
    return [Row("float32 runs (network and engine)", runs, finding, time.perf_counter() - started)]


def extremes(count: int, seed: int) -> list[Row]:
    """Contrived networks: how `certify` answers, and how many of its proofs are false."""
    started = time.perf_counter()
    answers, false = attack_extremes(count, seed)
    print("\n".join(false))
    found = ", ".join(f"{n} {name}" for name, n in sorted(answers.items()))
    return [
        Row("contrived networks", count, f"**{len(false)} proved falsely**; {found}", time.perf_counter() - started)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small version of everything")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--networks", type=int)
    parser.add_argument("--first", type=int, default=0, help="number of the first network, for a run in pieces")
    parser.add_argument("--claims", type=int, help="at most one per network")
    parser.add_argument("--mutations", type=int)
    parser.add_argument("--evaluations", type=int)
    parser.add_argument("--extremes", type=int)
    parser.add_argument("--part", choices=PARTS, help="this part alone")
    options = parser.parse_args()
    torch.set_num_threads(1)

    def size(part: str, quick: int, full: int) -> int:
        given = getattr(options, part)
        if options.part not in (None, part):
            return 0
        return given if given is not None else (quick if options.quick else full)

    rows: list[Row] = []
    networks = size("networks", 60, 1000)
    claims = min(options.claims if options.claims is not None else (30 if options.quick else 500), networks)
    evaluations = size("evaluations", 20_000, 1_000_000)
    if networks:
        rows += random_networks(networks, claims, 500 if options.quick else 3000, options.seed, options.first)
    if mutation_count := size("mutations", 120, 2000):
        rows += mutations(mutation_count, options.seed)
    if contrived := size("extremes", 100, 2000):
        rows += extremes(contrived, options.seed)
    if evaluations:
        rows += float32_runs(evaluations)
        print()
    print("| part | cases | found | seconds |")
    print("|---|---|---|---|")
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
