"""The truth about a file, by code that shares nothing with builder, prover or checker.

A formula is read by Python's own grammar (`ast`, nothing is executed) and evaluated in NumPy, then in balls; networks
are evaluated from the tensors, by the names that the documentation gives them. Floats search, over the whole box of the
model; balls of 200 bits decide, at the worst points found. What was found false is false; what was not may be true.

    approximation, formula     |network - formula| <= bound at every point of the model's box, in real arithmetic and as
                               the loaded module runs; of an Lp norm, the integral over the box. VERIFIED ON A PART is
                               held to that part
    memory                     the readout gives every key's own label within the bound, rounding of the key included
    anything else that is      as the loaded module runs, it is within the bound of what the unforged file's module
    VERIFIED                   answered, whose own bound is added

For all: `load` takes the file, keeps its certificate, and says the same of it.
"""

from __future__ import annotations

import ast
import base64
import json
import math
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flint import arb, ctx
from safetensors import safe_open

import softwright as sw

BITS = 200
SAMPLES, STARTS, STEPS = 1500, 4, 40
ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24}


@dataclass(frozen=True)
class Falsehood:
    """Why a VERIFIED file is false: the cause, and the numbers of the case."""

    cause: str
    detail: str = ""


class CannotJudge(Exception):
    """The claim is about something that this judge does not know."""


@contextmanager
def bits(count: int) -> Iterator[None]:
    before, ctx.prec = ctx.prec, count
    try:
        yield
    finally:
        ctx.prec = before


# ----------------------------------------------------------------------------------------------------------- formulas

FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    **{
        name: (getattr(np, name), lambda x, name=name: getattr(x, name)())
        for name in ("sin", "cos", "tan", "exp", "log", "sqrt", "sinh", "cosh", "tanh")
    },
    "asin": (np.arcsin, lambda x: x.asin()),
    "acos": (np.arccos, lambda x: x.acos()),
    "atan": (np.arctan, lambda x: x.atan()),
    "abs": (np.abs, abs),
    "sign": (np.sign, lambda x: x.sgn()),
}
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}


class Formula:
    """A formula's outputs, at points or at balls."""

    def __init__(self, text: str, names: list[str]) -> None:
        self.names, self.text = names, " ".join(text.split())
        try:
            body = ast.parse(self.text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise CannotJudge(f"no formula: {error}") from error
        self.outputs = body.elts if isinstance(body, ast.Tuple) else [body]

    def at_points(self, points: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, m)"""
        variables = dict(zip(self.names, points.T, strict=True))
        with np.errstate(all="ignore"):
            columns = [np.broadcast_to(self._value(node, variables, 0), len(points)) for node in self.outputs]
        return np.stack(columns, axis=1)

    def at_ball(self, point: list[Any]) -> list[Any]:
        return [self._value(node, dict(zip(self.names, point, strict=True)), 1) for node in self.outputs]

    def _value(self, node: ast.expr, variables: dict[str, Any], way: int) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return arb(ast.get_source_segment(self.text, node) or "nan") if way else float(node.value)
        if isinstance(node, ast.Name):
            if node.id in variables:
                return variables[node.id]
            if node.id == "pi":
                return arb.pi() if way else math.pi
            if node.id == "e":
                return arb(1).exp() if way else math.e
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            value = self._value(node.operand, variables, way)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return self._operation(node, variables, way)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            values = [self._value(argument, variables, way) for argument in node.args]
            if node.func.id in FUNCTIONS and len(values) == 1:
                return FUNCTIONS[node.func.id][way](values[0])
            if node.func.id in ("max", "min") and values:
                largest = node.func.id == "max"
                result = values[0]
                for value in values[1:]:
                    if way:
                        result = result.max(value) if largest else result.min(value)
                    else:
                        result = (np.maximum if largest else np.minimum)(result, value)
                return result
        raise CannotJudge(f"{ast.unparse(node)} is not in this judge's grammar")

    def _operation(self, node: ast.BinOp, variables: dict[str, Any], way: int) -> Any:
        left, right = self._value(node.left, variables, way), self._value(node.right, variables, way)
        if way and isinstance(node.op, ast.Pow):
            whole = float(right.mid())
            if right.is_exact() and whole == int(whole):
                return left ** int(whole)
        return OPERATORS[type(node.op)](left, right)


# ----------------------------------------------------------------------------------------------------------- networks


@dataclass
class Layer:
    """One layer of softmax heads by the documented names of its tensors."""

    tensors: dict[str, np.ndarray]
    heads: int

    def of(self, head: int, name: str) -> np.ndarray | None:
        array = self.tensors.get(f"layer.heads.{head}.{name}")
        return None if array is None else array.astype(np.float64)

    def at_points(self, points: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, m)"""
        t = (points - self.tensors["center"].astype(float)) * self.tensors["scale"].astype(float)
        total: Any = 0.0
        for i in range(self.heads):
            keys, biases, values, slopes = (self.of(i, name) for name in ("keys", "biases", "values", "slopes"))
            if keys is None or biases is None or values is None:
                raise CannotJudge("a head is incomplete")
            scores = t @ keys.T + biases  # (n, N)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            total = total + weights @ values
            if slopes is not None:
                total = total + np.einsum("nj,jmd,nd->nm", weights, slopes, t)
        return total

    def at_ball(self, point: list[Any]) -> list[Any]:
        center, scale = self.tensors["center"].tolist(), self.tensors["scale"].tolist()
        t = [(x - arb(c)) * arb(s) for x, c, s in zip(point, center, scale, strict=True)]
        total: list[Any] = []
        for i in range(self.heads):
            keys, biases, values, slopes = (self.of(i, name) for name in ("keys", "biases", "values", "slopes"))
            if keys is None or biases is None or values is None:
                raise CannotJudge("a head is incomplete")
            scores = [_dot(k, t) + arb(b) for k, b in zip(keys.tolist(), biases.tolist(), strict=True)]
            top = arb(max(float(s.mid()) for s in scores))
            weights = [(s - top).exp() for s in scores]
            whole = sum(weights, arb(0))
            for o in range(values.shape[1]):
                each = [
                    arb(v) + (arb(0) if slopes is None else _dot(slopes[j, o].tolist(), t))
                    for j, v in enumerate(values[:, o].tolist())
                ]
                out = sum((w * v for w, v in zip(weights, each, strict=True)), arb(0)) / whole
                if i:
                    total[o] += out
                else:
                    total.append(out)
        return total


def _dot(numbers: list[float], balls: list[Any]) -> Any:
    return sum((arb(a) * b for a, b in zip(numbers, balls, strict=True)), arb(0))


# ------------------------------------------------------------------------------------------------------------- judges


@dataclass(frozen=True)
class Claim:
    """A forged file as it is read, with what the unforged one was asked and answered."""

    path: Path
    tensors: dict[str, np.ndarray]
    sections: dict[str, Any]
    asked: Callable[[sw.Built], list[Any]]  # the answers of a network to the questions stored with the file
    answers: list[Any]
    bound: float  # of the unforged file
    part: bool = False  # whether the verdict speaks of the certificate's domain alone

    @property
    def box(self) -> dict[str, list[float]]:
        """Where the verdict says that the bound holds."""
        return self.said["domain"] if self.part else self.sections["model"]["box"]

    @property
    def said(self) -> dict[str, Any]:
        return self.sections["certificate"]


def falsehood(claim: Claim) -> Falsehood | None:
    """Why a VERIFIED file is false; None if nothing was found against it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            built = sw.load(claim.path)
    except Exception as error:  # whatever it is, the file is not one that can be used
        return Falsehood("load refuses it", f"{type(error).__name__}: {error}"[:150])
    if built.certificate is None:
        return Falsehood("load drops the certificate")
    read, said = _unpacked(built.certificate.flat()), _unpacked(claim.said)  # files of version 1
    if read != said:
        parts = sorted(k for k in read.keys() | said.keys() if k not in read or k not in said or read[k] != said[k])
        return Falsehood("load reads another statement", ", ".join(parts))
    if claim.sections["model"]["kind"] == "approximation":
        return _approximation(claim, built)
    if claim.sections["model"]["kind"] == "memory":
        return _memory(claim)
    return _answers(claim, built)


def _unpacked(certificate: dict[str, Any]) -> dict[str, Any]:
    """A certificate as JSON gives it back, its trees unpacked: one tree can be packed in several ways."""
    plain = json.loads(json.dumps(certificate))
    pieces = plain["tree"] if isinstance(plain.get("tree"), list) else [plain]
    for piece in pieces:
        if isinstance(piece.get("tree"), str):
            piece["tree"] = zlib.decompress(base64.b64decode(piece["tree"])).hex()
    return plain


def _approximation(claim: Claim, built: sw.Built) -> Falsehood | None:
    said, model = claim.said, claim.sections["model"]
    if said["target"]["kind"] != "expression":
        return Falsehood("there is no formula in the file")
    names = list(model["box"])
    low, high = (np.array([claim.box[name][k] for name in names], dtype=float) for k in (0, 1))
    formula, layer = Formula(said["target"]["text"], names), Layer(claim.tensors, len(model["heads"]))

    def errors(points: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            gaps = np.abs(layer.at_points(points) - formula.at_points(points)).max(axis=1)  # (n,)
        return np.where(np.isnan(gaps), np.inf, gaps)

    if said["norm"] != "sup":
        return _integral(errors, low, high, float(said["p"]), float(said["bound"]))
    sampled, worst_points = _searched(errors, low, high)
    for point in worst_points:
        with bits(BITS):
            balls = [arb(x) for x in point.tolist()]
            wanted = formula.at_ball(balls)
            gaps = [abs(a - b) for a, b in zip(layer.at_ball(balls), wanted, strict=True)]
            if any(gap > said["bound"] for gap in gaps):
                worst = max(float(gap.lower()) for gap in gaps)
                inside = all(a <= x <= b for x, (a, b) in zip(point, said["domain"].values(), strict=True))
                cause = "the network is off by more" if inside else "off by more outside the certificate's domain"
                return Falsehood(cause, f"{worst:.3g} at {point.tolist()}, claimed {said['bound']:.3g}")
    return _run(built, formula, np.concatenate([worst_points, sampled[::4]]), claim)


def _run(built: sw.Built, formula: Formula, points: np.ndarray, claim: Claim) -> Falsehood | None:
    """The module as it was loaded, at numbers of its own type."""
    said, box = claim.said, np.array([claim.box[name] for name in claim.sections["model"]["box"]], dtype=float)
    cast = points.astype(said["dtype"]).astype(float)
    cast = cast[((box[:, 0] <= cast) & (cast <= box[:, 1])).all(axis=1)]
    rough = formula.at_points(cast)
    for engine in ("sdpa", "factorised") if said["engine"] == "any" else (said["engine"],):
        run = built.network.evaluate(cast, engine)
        for point, row, near in zip(cast, run, rough, strict=True):
            if not np.isfinite(row).all():
                return Falsehood("the network runs to no number", f"{row.tolist()} at {point.tolist()}")
            if np.abs(row - near).max() < 0.5 * said["bound"]:
                continue
            with bits(BITS):
                wanted = formula.at_ball([arb(x) for x in point.tolist()])
                if any(abs(arb(y) - f) > said["bound"] for y, f in zip(row.tolist(), wanted, strict=True)):
                    return Falsehood("the network runs off by more", f"{said['bound']:.3g} at {point.tolist()}")
    return None


def _searched(
    errors: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Random points, corners and what lies near them, a diagonal; and the ends of climbs from the worst of them."""
    rng, d, width = np.random.default_rng(0), len(low), high - low
    corners = np.array(np.meshgrid(*[[0.0, 1.0]] * d)).reshape(d, -1).T
    near = np.abs(corners[:, None] - np.geomspace(1e-12, 1e-2, 11)[:, None]).reshape(-1, d)
    line = np.linspace(0, 1, 201)[:, None] * np.ones(d)
    unit = np.concatenate([rng.random((SAMPLES, d)), corners, near, line])
    points = np.clip(low + unit * width, low, high)
    found = errors(points)
    best = points[np.argsort(-found)[:STARTS]]
    step = 0.02 * width
    for _ in range(STEPS):
        moves = np.clip(best[:, None] + rng.uniform(-1, 1, (len(best), 12, d)) * step, low, high)
        tried = np.concatenate([best[:, None], moves], axis=1)  # (starts, 13, d)
        chosen = errors(tried.reshape(-1, d)).reshape(len(best), -1).argmax(axis=1)
        best = tried[np.arange(len(best)), chosen]
        step = step * 0.75
    return points, best


def _integral(
    errors: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray, p: float, bound: float
) -> Falsehood | None:
    """The norm over the box by midpoints: an estimate, so it must exceed the claim by a fiftieth."""
    d = len(low)
    ticks = (np.arange(round(20_000 ** (1 / d))) + 0.5) / round(20_000 ** (1 / d))
    unit = np.array(np.meshgrid(*[ticks] * d)).reshape(d, -1).T
    mean = np.mean(errors(low + unit * (high - low)) ** p)
    norm = float((mean * np.prod(high - low)) ** (1 / p))
    return Falsehood("the norm is larger", f"{norm:.3g}, claimed {bound:.3g}") if not norm <= 1.02 * bound else None


def _memory(claim: Claim) -> Falsehood | None:
    """Every key, moved by the rounding that storing it can cost, must give its own label."""
    keys, values = (claim.tensors[f"readout.{name}"].astype(float) for name in ("keys", "values"))
    unit = ROUNDOFF[claim.said["dtype"]]
    if claim.said["target"]["items"] != len(keys):
        return Falsehood("the number of items is wrong", f"{claim.said['target']['items']}, stored are {len(keys)}")
    bound = 0.5 if claim.sections["model"]["labels"] == "classes" else claim.said["bound"]
    for j, key in enumerate(keys):
        nearest = keys[np.argsort(np.abs(keys - key).sum(axis=1))[: min(3, len(keys))]]
        for towards in nearest:
            length = float(np.linalg.norm(towards - key)) or 1.0
            with bits(BITS):
                moved = unit * float(np.abs(key).max()) / length
                at = [
                    arb(k) + arb(moved) * (arb(t) - arb(k)) for k, t in zip(key.tolist(), towards.tolist(), strict=True)
                ]
                out = _lookup(claim, at) if claim.sections["model"]["readout"] == "attention" else _ramps(claim, at[0])
                gaps = [abs(a - arb(v)) for a, v in zip(out, values[j].tolist(), strict=True)]
                if any(gap > bound for gap in gaps):
                    detail = f"key {j} gives {[float(a) for a in out]}, its label is {values[j].tolist()}"
                    return Falsehood("a key does not give its label", detail)
    return None


def _lookup(claim: Claim, at: list[Any]) -> list[Any]:
    keys, halves, values = (claim.tensors[f"readout.{name}"].astype(float) for name in ("keys", "halves", "values"))
    beta = arb(float(claim.tensors["readout.beta"].reshape(())[()]))
    scores = [beta * (_dot(k, at) - arb(h)) for k, h in zip(keys.tolist(), halves.tolist(), strict=True)]
    top = arb(max(float(s.mid()) for s in scores))
    weights = [(s - top).exp() for s in scores]
    return [_dot(column, weights) / sum(weights, arb(0)) for column in values.T.tolist()]


def _ramps(claim: Claim, at: Any) -> list[Any]:
    slopes, offsets, values = (
        claim.tensors[f"readout.{name}"].astype(float) for name in ("slopes", "offsets", "values")
    )
    nothing = arb(0)
    ramps = [(arb(a) * at + arb(b)).max(nothing) for a, b in zip(slopes.tolist(), offsets.tolist(), strict=True)]
    steps = [(1 - ramp).max(nothing) for ramp in ramps]
    cells = [(a - b).max(nothing) for a, b in zip([*steps, arb(1)], [nothing, *steps], strict=True)]
    return [_dot(column, cells) for column in values.T.tolist()]


def _answers(claim: Claim, built: sw.Built) -> Falsehood | None:
    if not all(isinstance(answer, np.ndarray) for answer in claim.answers):
        raise CannotJudge("answers are no arrays")
    for now, before in zip(claim.asked(built), claim.answers, strict=True):
        gap = float(np.abs(np.asarray(now) - before).max())
        if not gap <= claim.said["bound"] + claim.bound:
            return Falsehood("answers differ from the unforged file's", f"{gap:.3g}, claimed {claim.said['bound']:.3g}")
    return None


def oddity(path: Path) -> Falsehood | None:
    """What lets a file be read in two ways, or lets a text of it act on a terminal."""
    with safe_open(path, framework="numpy") as file:
        texts = file.metadata()
    for name, text in texts.items():
        twice: list[str] = []

        def pairs(found: list[tuple[str, Any]], twice: list[str] = twice) -> dict[str, Any]:
            names = [key for key, _ in found]
            twice += [key for key in set(names) if names.count(key) > 1]
            return dict(found)

        parsed = json.loads(text, object_pairs_hook=pairs) if name != "softwright" else text
        if twice:
            return Falsehood("a key stands twice", f"{name}: {', '.join(sorted(twice))}")
        if not json.dumps(parsed, ensure_ascii=False).replace("\\u00", "\0").isprintable():
            return Falsehood("control characters", name)
    unknown = sorted(texts.keys() - {"softwright", "model", "target", "plan", "observed", "certificate"})
    return Falsehood("an unknown section", ", ".join(unknown)) if unknown else None
