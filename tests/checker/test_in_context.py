"""Steps in context are proved again from the file alone: every certificate passes, and nothing false does."""

from __future__ import annotations

import copy
import json
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx, fmpq

import softwright as sw
from softwright.checker.in_context.bilinear import Group, covariance_error, mean_error, power_sums
from softwright.checker.in_context.losses import LOSSES
from softwright.checker.in_context.preparation import richardson
from softwright.checker.in_context.statement import OBJECTIVES, SETTINGS, STEPS
from softwright.checker.verify import reprove
from softwright.fileformat import ModelFile
from softwright.methods.constants import Constants
from softwright.methods.methods import METHODS
from softwright.result.constructed import tensors_of

PROVED = {(row.name, name) for row in METHODS.values() for name, solver in row.solvers.items() if solver.certificate}
JOBS: list[tuple[str, str, dict[str, Any]]] = [
    ("least_squares", "newton_schulz", {}),
    ("ridge", "newton_schulz", {"intercept": False}),
    ("ridge", "newton_schulz", {"scaling": False, "penalty": 0.5}),
    ("least_squares", "gradient", {"intercept": False}),
    ("ridge", "gradient", {"penalty": 0.3}),
    ("logistic", "gradient", {}),
    ("poisson", "gradient", {"response": True}),
    ("robust", "gradient", {"loss_scale": 0.3, "penalty": 0.2}),
]
EVERY = [(*job, dtype) for job in JOBS for dtype in ("float64", "float32")]


def _name(value: Any) -> str:
    return "-".join(map(str, value)) if isinstance(value, dict) else str(value)


def _file(built: sw.Built[Any]) -> ModelFile:
    sections = {
        "model": {"kind": built.kind, **built.network.describe()},
        "target": built.target,
        "plan": built.plan.as_dict(),
        "certificate": None if built.certificate is None else built.certificate.flat(),
    }
    return ModelFile(tensors_of(built.network), json.loads(json.dumps(sections)))


@cache
def _stored(method: str, solver: str, options: str, dtype: str) -> ModelFile:
    return _file(sw.in_context(method, 2, solver=solver, dtype=dtype, steps=2, sample=False, **json.loads(options)))


def _made(method: str, solver: str, options: dict[str, Any], dtype: str = "float64") -> ModelFile:
    """A fresh copy of a file that is true."""
    file = _stored(method, solver, json.dumps(options), dtype)
    return ModelFile({name: array.copy() for name, array in file.tensors.items()}, copy.deepcopy(file.sections))


def _signed(file: ModelFile) -> ModelFile:
    file.sections["certificate"]["weights_sha256"] = file.weights_sha256
    return file


def test_the_checker_knows_what_the_methods_claim() -> None:
    assert set(STEPS) == PROVED
    assert {name: METHODS[name].objective for name in OBJECTIVES} == OBJECTIVES
    assert set(SETTINGS) == set(sw.in_context("ridge", 1, sample=False).network.constants.stored())
    assert set(Constants.__dataclass_fields__) - {"options"} == {
        name.replace("tolerance", "accuracy") for name in SETTINGS
    }


@pytest.mark.parametrize(("method", "solver", "options", "dtype"), EVERY, ids=_name)
def test_what_is_certified_is_verified(method: str, solver: str, options: dict[str, Any], dtype: str) -> None:
    verdict = reprove(_made(method, solver, options, dtype))
    assert verdict.verified, verdict.reason
    assert dtype in verdict.reason and "rounding included" in verdict.reason


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("method", "solver"), sorted(PROVED))
def test_default_certificates_of_any_range_are_verified(method: str, solver: str, dtype: str) -> None:
    rng = np.random.default_rng([len(method), len(solver)])
    tried = 0
    for k in (0, 1, 3):
        options: dict[str, Any] = {} if k == 0 else {"max_rows": int(10 ** rng.uniform(0, 4))}
        if k > 1:
            options |= {name: float(10 ** rng.uniform(-2, 2)) for name in ("x_bound", "y_bound", "w_bound")}
        if k > 2:
            options |= {"order": int(rng.integers(1, 5))}
        built = sw.in_context(method, int(rng.integers(1, 5)), solver=solver, dtype=dtype, sample=False, **options)
        if built.certificate is not None:
            tried += 1
            verdict = reprove(_file(built))
            assert verdict.verified, verdict.reason
    assert tried >= 2


@pytest.mark.parametrize(("method", "solver", "options", "dtype"), EVERY, ids=_name)
def test_a_smaller_bound_is_not_verified(method: str, solver: str, options: dict[str, Any], dtype: str) -> None:
    numbers = ("bound", "exact_part", "rounding_part")
    bounds = [name for name in ("prediction_bound", "link_error") if solver == "gradient"]
    for names in (numbers, ("exact_part",), ("rounding_part",), *((name,) for name in bounds)):
        file = _made(method, solver, options, dtype)
        said = file.sections["certificate"]
        for name in names:
            home = said if name in said else said["quantities"]
            if name in home:
                home[name] /= 1000
        if names == numbers:
            relative = next(name for name in said["quantities"] if name.startswith("relative"))
            said["quantities"][relative] /= 1000
        if all(name in said or name in said["quantities"] for name in names):
            assert not reprove(file), names


@pytest.mark.parametrize(("method", "solver", "options", "dtype"), EVERY, ids=_name)
def test_a_changed_tensor_is_not_verified(method: str, solver: str, options: dict[str, Any], dtype: str) -> None:
    rng = np.random.default_rng(3)
    for name, tensor in _made(method, solver, options, dtype).tensors.items():
        axis = int(rng.integers(tensor.ndim))
        one = tensor.copy()
        place = rng.choice(np.flatnonzero(one))
        one.flat[place] *= 1 + 1e-4
        huge = tensor.copy()
        huge.flat[rng.integers(huge.size)] = 3e38
        changes = (-tensor, 1.01 * tensor, np.roll(tensor, 1, axis), np.flip(tensor, 0), one, huge, 0 * tensor)
        for changed in (changes[0], changes[rng.integers(1, 7)])[dtype == "float32" :]:
            if np.array_equal(changed, tensor) or (name == "base_weights" and changed is one):
                continue  # no change, or one of cells that no gradient step reads
            file = _made(method, solver, options, dtype)
            file.tensors[name] = np.ascontiguousarray(changed, dtype=tensor.dtype)
            verdict = reprove(_signed(file))
            assert verdict.status == "NOT VERIFIED", (name, verdict.reason)


SHARED = [
    "penalty",
    "intercept",
    "scaling",
    "score_bound",
    "max_rows",
    "order",
    "angle",
    "features",
    "steps",
    "method",
    "solver",
    "dtype",
]
CLAIMED = {"newton_schulz": SHARED, "gradient": [*SHARED, "step_size", "x_bound", "y_bound", "w_bound"]}


@pytest.mark.parametrize(("method", "solver", "options"), JOBS, ids=_name)
def test_a_changed_setting_is_not_verified(method: str, solver: str, options: dict[str, Any]) -> None:
    """In one of its places or in all: what the statement speaks of cannot be moved."""
    extra = {"robust": ("loss_scale",), "poisson": ("rate_bound", "response")}.get(method, ())
    for name in (*CLAIMED[solver], *extra):
        for everywhere in (True, False):
            file = _made(method, solver, options)
            places = [file.sections["model"]["settings"], file.sections["target"]]
            places.append(file.sections["certificate"]["target"])
            kept = places[0][name]
            other = not kept if isinstance(kept, bool) else 3 * kept if kept else 0.7
            if isinstance(kept, str):
                other = {"method": "ridge" if kept != "ridge" else "robust", "dtype": "float32"}.get(name, "fista")
            for place in places if everywhere else places[:1]:
                place[name] = other
            verdict = reprove(file)
            assert verdict.status == "NOT VERIFIED", (name, everywhere, verdict.reason)


def test_a_changed_sentence_or_structure_is_not_verified() -> None:
    for section, path, value in (
        ("certificate", ("statement",), "every prediction is exact"),
        ("certificate", ("method",), "magic"),
        ("certificate", ("norm",), "L2"),
        ("certificate", ("quantities", "largest_step"), 1e9),
        ("certificate", ("quantities", "more"), 1.0),
        ("model", ("slots", "f"), [40, 39]),
        ("model", ("program",), [0, 1]),
        ("model", ("program",), [0, 1, 0, 1]),
        ("model", ("sources", "query"), "data"),
        ("model", ("layers", 1, "keys"), ["data"]),
        ("model", ("layers", 1, "label"), "newton-schulz"),
        ("model", ("guards", 0, "limit"), 1e9),
        ("model", ("coefficient_segment",), "unit"),
        ("model", ("head",), 2),
        ("model", ("extra",), 1),
    ):
        file = _made("ridge", "gradient", {"penalty": 0.3})
        home = file.sections[section]
        for key in path[:-1]:
            home = home[key]
        home[path[-1]] = value
        assert reprove(file).status == "NOT VERIFIED", path
    file = _made("ridge", "gradient", {"penalty": 0.3})
    file.tensors["layers.1.bias"] = np.zeros(3)
    assert not reprove(_signed(file))


def test_what_may_overflow_is_neither_certified_nor_verified() -> None:
    """Keys of 3e38 in float32 and their like: the run gives nan, so there must be no certificate."""
    for bounds in ({"x_bound": 1e18}, {"y_bound": 1e37}, {"w_bound": 1e36}):
        built = sw.in_context("least_squares", 2, solver="gradient", dtype="float32", sample=False, **bounds)  # pyright: ignore[reportArgumentType]
        assert built.certificate is None and built.unproved
        file = _made("least_squares", "gradient", {"intercept": False}, "float32")
        for place in (file.sections["model"]["settings"], file.sections["target"]):
            place.update(bounds)
        said = file.sections["certificate"]
        said["target"] = file.sections["target"]
        for name in ("bound", "exact_part", "rounding_part"):
            said[name] = 1e300
        said["quantities"] = dict.fromkeys(said["quantities"], 1e300)
        assert not reprove(file)


def test_power_sums_and_richardson_weights() -> None:
    for x in (0.0, 0.3, 0.9):
        for k, found in enumerate(power_sums(arb(x), 9)):
            terms = math.fsum(x**i * (i + 1) ** k for i in range(2000))
            assert float(found) == pytest.approx(terms, rel=1e-12)
    for order in range(1, 7):
        c = richardson(order)
        for q in range(order):
            total = sum((weight * fmpq(h) ** (2 * q + 1) for h, weight in enumerate(c, 1)), fmpq(0))
            assert total == (1 if q == 0 else 0)


def _group(order: int, angle: float, sink: float | None = None) -> tuple[Group, list[float], list[float]]:
    scales, outputs = [], []
    for h, c in enumerate(richardson(order), 1):
        for sign in (1.0, -1.0):
            scales.append(sign * h * angle)
            outputs.append(sign * float(arb(c)) / (2 * angle) * (1.0 if sink is None else math.exp(sink)))
    rational = [tuple(fmpq(*x.as_integer_ratio()) for x in numbers) for numbers in (scales, outputs)]
    m = None if sink is None else fmpq(*sink.as_integer_ratio())
    return Group(rational[0], rational[1], fmpq(1), arb(1), arb(1), arb(0), 1, arb(1), m), scales, outputs


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_error_of_a_group_holds_and_is_within_reach(order: int) -> None:
    """Heads run in 200 bits on prompts at the rim of the range: the bound holds, and the worst is not far below it."""
    rng = np.random.default_rng(order)
    before = ctx.prec
    try:
        ctx.prec = 200
        for sink in (None, 12.0):
            group, scales, outputs = _group(order, 0.3, sink)
            bound = covariance_error(group) if sink is None else mean_error(group)
            worst = arb(0)
            for k in range(60):
                n = int(rng.integers(1 if sink else 2, 6))
                t = rng.choice([-1.0, 1.0], n) if k % 2 else rng.uniform(-1, 1, n)
                v = np.sign(t) if k % 3 else rng.uniform(-1, 1, n)
                if k == 1:
                    t, v = np.array([1.0, -1.0]), np.array([1.0, -1.0])
                total = arb(0)
                for s, o in zip(scales, outputs, strict=True):
                    weights = [(arb(s) * arb(x)).exp() for x in t]
                    whole = sum(weights, arb(0)) + (0 if sink is None else len(t) * arb(sink).exp())
                    total += arb(o) * sum((w * arb(x) for w, x in zip(weights, v, strict=True)), arb(0)) / whole
                exact = sum((arb(a) * arb(b) for a, b in zip(t, v, strict=True)), arb(0)) / len(t)
                if sink is None:
                    means = [sum((arb(a) for a in numbers), arb(0)) / len(t) for numbers in (t, v)]
                    exact -= means[0] * means[1]
                worst = arb.max(worst, abs(total - exact))
            assert worst <= bound
            assert bound <= 60 * worst
    finally:
        ctx.prec = before


def test_every_loss_of_the_checker_is_that_of_its_method() -> None:
    """slope = sum of weights times G and y, G the link of the argument: against the loss that the method minimises."""
    links = {"sigmoid": lambda a: 1 / (1 + np.exp(-a)), "tanh": np.tanh, "exp": np.exp}
    s, y, c = np.linspace(-2, 2, 9), np.linspace(-1, 1, 9), 0.7
    for method, loss in LOSSES.items():
        scale = fmpq(*c.as_integer_ratio())
        values = {"s": s, "y": y, "data": np.ones(9)}
        argument = sum(float(arb(w)) * values[slot] for slot, w in loss.argument(scale).items())
        values["G"] = links[loss.link](argument)
        slope = sum(float(arb(w)) * values[slot] for slot, w in loss.slope(scale).items())
        own = METHODS[method].loss
        assert own is not None and np.allclose(slope, own.slope(s, y, c), atol=1e-14)


@pytest.mark.parametrize("place", [("shapes", "base_unit"), ("slots", "y")])
def test_sizes_are_whole_numbers(place: tuple[str, str]) -> None:
    """3.0 is a size to Python's ==, and none to who builds the tensors."""
    file = _made("ridge", "gradient", {"penalty": 0.3})
    owner = file.sections["model"][place[0]]
    owner[place[1]] = [float(size) for size in owner[place[1]]]
    assert not reprove(file)
