"""What every method and solver owes its user: one suite, run for each row of METHODS."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flint import ctx
from typer.testing import CliRunner

import softwright as sw
from softwright.attention.stack import apply_layer
from softwright.cli import app
from softwright.errors import Faults, InvalidInput
from softwright.methods.losses import Loss
from softwright.methods.methods import METHODS, Method
from softwright.methods.network import InContextStack
from softwright.methods.prompts import read_prompt
from softwright.methods.reference import exact_predictions, random_design, reference
from softwright.result.kinds import loaded

ROWS = [*METHODS.values()]
FITTED = [row for row in ROWS if row.loss is not None]
JOBS = [(row, solver) for row in ROWS for solver in row.solvers]
PROVED = [(row, name) for row in ROWS for name, solver in row.solvers.items() if solver.certificate is not None]
SMALL: dict[str, dict[str, Any]] = {
    "fista": {"steps": 300},
    "admm": {"steps": 100},
    "projected_gradient": {"steps": 300},
    "chebyshev": {"condition": 10.0, "accuracy": 1e-6},
    "gradient": {"steps": 200, "step_size": 0.1},
    "majorised": {"condition": 30.0, "accuracy": 1e-9},
    "newton": {"steps": 12, "condition": 10.0},
    "em": {"steps": 50, "condition": 30.0},
    "td": {"steps": 500},
}


def _name(job: Any) -> str:
    return job.name if isinstance(job, Method) else str(job)


@cache
def _built(method: str, solver: str, dtype: str = "float64") -> sw.Built[InContextStack]:
    return sw.in_context(
        method, METHODS[method].takes or 3, solver=solver, dtype=dtype, sample=False, **SMALL.get(solver, {})
    )


@pytest.mark.parametrize("row", ROWS, ids=_name)
def test_a_row_is_complete(row: Method) -> None:
    lacking = [
        name
        for name, good in {
            "name": METHODS[row.name] is row and row.name.isidentifier(),
            "objective": bool(row.objective),
            "solvers": bool(row.solvers),
            "loss, or answers": isinstance(row.loss, Loss) != callable(row.answers),
            "exact": callable(row.exact) == (row.loss is not None),
            "options": all(not option.fault(name, option.default) for name, option in row.options.items()),
            "design": callable(row.design),
            "check": callable(row.check),
            "defaults": row.defaults.keys() <= set(sw.in_context.__kwdefaults__ or {}),
            "penalised": row.penalised is not True or row.defaults.get("penalty", 0.0) > 0,
            "peer": row.peer is None or ":" in row.peer.place,
        }.items()
        if not good
    ]
    assert lacking == [], f"the row {row.name!r} lacks {lacking}"


@pytest.mark.parametrize(("row", "solver"), JOBS, ids=_name)
def test_a_method_says_what_is_proved_of_its_answers(row: Method, solver: str) -> None:
    """The distance to the solution, a step, or nothing: plan and certificate say which, in words."""
    built = _built(row.name, solver)
    distance = built.certificate is not None and "leverage" in built.certificate.quantities
    said = [reason for reason in built.plan.reasons if "distance to the exact solution" in reason]
    assert said == [
        f"the distance to the exact solution is {'proved, all layers counted' if distance else 'observed only'}"
    ]
    if built.certificate is None:
        assert built.unproved and ("observed only" in built.unproved or "no bound" in built.unproved), built.unproved


@pytest.mark.parametrize("row", FITTED, ids=_name)
def test_slope_and_curvature_are_the_derivatives_of_the_loss(row: Method) -> None:
    assert row.loss is not None
    rng = np.random.default_rng(0)
    s, y, h = 2 * rng.normal(size=200), row.design(rng, rng.normal(size=200)), 1e-5
    for scale in (0.3, 1.0, 2.0):
        for function, derivative in ((row.loss.value, row.loss.slope), (row.loss.slope, row.loss.curvature)):
            difference = (function(s + h, y, scale) - function(s - h, y, scale)) / (2 * h)
            assert np.allclose(derivative(s, y, scale), difference, rtol=1e-7, atol=1e-8)
    assert (row.loss.curvature(s, y, 1.0) >= 0).all()
    if row.loss.response is not None:
        means = row.loss.response(s)
        assert np.allclose([row.loss.constant(float(mean)) for mean in means], s, atol=1e-9)


@pytest.mark.parametrize("row", FITTED, ids=_name)
def test_the_reference_has_no_better_neighbour(row: Method) -> None:
    constants = _built(row.name, next(iter(row.solvers))).network.constants
    x, y = random_design(row.name, 3, 80, 3)
    w, b = reference(x, y, constants)

    def objective(w: np.ndarray, b: float) -> float:
        assert row.loss is not None
        loss = float(row.loss.value(x @ w + b, y, constants.loss_scale).mean())
        if "|w|_1" in row.objective:
            return loss + constants.penalty * np.abs(w).sum()
        return loss + 0.5 * constants.penalty * float(w @ w)

    rng, best = np.random.default_rng(1), objective(w, b)
    for size in (1e-1, 1e-3):
        for _ in range(50):
            other = w + size * rng.normal(size=3)
            if "w >= 0" in row.objective:
                other = np.maximum(other, 0.0)
            assert objective(other, b + size * rng.normal()) >= best - 1e-13


@pytest.mark.parametrize("row", [row for row in FITTED if row.peer is not None], ids=_name)
def test_the_peer_answers_the_same_question(row: Method) -> None:
    pytest.importorskip("sklearn")
    assert row.peer is not None
    constants = _built(row.name, next(iter(row.solvers))).network.constants
    x, y = random_design(row.name, 3, 80, 4)
    options = row.peer.options(len(y), constants)
    assert options is not None
    model = loaded(row.peer.place)(**options).fit(x, y)
    w, b = reference(x, y, constants)
    assert np.allclose(np.ravel(model.coef_), w, atol=1e-6) and np.allclose(np.ravel(model.intercept_), b, atol=1e-6)


@pytest.mark.parametrize("row", ROWS, ids=_name)
def test_a_method_takes_its_own_designs_and_says_what_it_refuses(row: Method) -> None:
    """A method either refuses negative and fractional y with a remedy, or takes every number."""
    _, y = random_design(row.name, row.takes or 3, 50, 5)
    for values, own in ((y, True), (-1.5 - np.abs(y), False)):
        faults = Faults(row.name)
        row.check(torch.tensor(values), _built(row.name, next(iter(row.solvers))).network.constants, faults)
        if own:
            assert faults.found == []
        else:
            default = Method.__dataclass_fields__["check"].default
            assert bool(faults.found) == (row.check is not default), row.name
            assert all(fault.startswith(row.name) for fault in faults.found)


def _start(stack: InContextStack, x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The predictions before the first step, as the last layers read them: the first entry of `trace`."""
    prompt = read_prompt(x, y, queries, None, stack.constants, stack.dtype, True)
    stream = stack.embed(prompt)
    for place in (*range(stack.head), *range(stack.depth - stack.tail, stack.depth)):
        stream = apply_layer(stack.layer_at(place), stream)
    return prompt.unbatched(stack.answered(prompt, stream["query"])).numpy()


@pytest.mark.parametrize(("row", "solver"), JOBS, ids=_name)
def test_a_stack_fits_its_own_design(row: Method, solver: str) -> None:
    """The default solver to the digits it promises; every other one comes at least ten times nearer than its start."""
    built = _built(row.name, solver)
    x, y = random_design(row.name, row.takes or 3, 90, 6)
    exact = exact_predictions(x[:80], y[:80], x[80:], built.network.constants)
    allowed = 1e-7
    if solver != next(iter(row.solvers)):
        start = np.abs(_start(built.network, x[:80], y[:80], x[80:]) - exact).max()
        allowed = max(allowed, 0.1 * float(start))
    assert np.abs(built(x=x[:80], y=y[:80], queries=x[80:]) - exact).max() <= allowed
    assert built.target["text"] == row.text
    assert repr(built).count(row.name) >= 1


@pytest.mark.parametrize(("row", "solver"), JOBS, ids=_name)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_precision_of_balls_is_left_as_it_was(row: Method, solver: str, dtype: str) -> None:
    before = (ctx.prec, ctx.cap)
    try:
        ctx.prec = 71
        features = row.takes or 2
        built = sw.in_context(row.name, features, solver=solver, dtype=dtype, steps=2, condition=50.0, sample=False)
        assert ctx.prec == 71 and ctx.cap == before[1]
        with pytest.raises(InvalidInput):
            sw.in_context(row.name, features, solver=solver, steps=-1)
        assert ctx.prec == 71
    finally:
        ctx.prec, ctx.cap = before
    assert (built.certificate is not None) == (row.solvers[solver].certificate is not None), built.unproved


def _step_error(stack: InContextStack, row: Method, x: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    """The largest error of a coefficient after one gradient step that starts at w, beside the loss in long double.

    w (B, d + 1) ends with the intercept, which only generalised linear models carry in their tokens."""
    c, d = stack.constants, stack.features
    slot = stack.slots["s" if "s" in stack.slots else "f"][0]
    w = w * ([1.0] * d + [float("s" in stack.slots and c.intercept)])
    wr = torch.tensor(w, dtype=stack.dtype)
    prompt = read_prompt(x, y, None, None, c, stack.dtype, False)
    stream = {name: tokens.clone() for name, tokens in stack.embed(prompt).items()}
    for name in ("data", "mirror"):
        if name in stream:
            fits = torch.einsum("bnd,bd->bn", stream["data"][..., slice(*stack.slots["x"])][..., :d], wr[:, :d])
            stream[name][..., slot] = (fits + wr[:, d:]) * (1.0 if name == "data" else -1.0)
    stream["basis"][..., slot] = wr[:, :d]
    stream["unit"][..., slot] = torch.einsum(
        "btd,bd->bt", stream["unit"][..., slice(*stack.slots["g"])][..., :d], wr[:, :d]
    )

    def long(tensor: torch.Tensor) -> np.ndarray:
        return np.asarray(tensor.double().numpy(), dtype=np.longdouble)

    S, Y, X, V = long(stream["data"][..., slot]), long(prompt.y), long(prompt.x), long(wr)[:, :d]
    for position in range(stack.head, stack.depth if stack.depth - stack.head < 3 else stack.head + 2):
        layer = stack.layer_at(position)
        stream = apply_layer(layer, stream)
        if layer.label in ("gradient", "step"):
            break
    assert row.loss is not None
    slope = row.loss.slope(S, Y, c.loss_scale)
    centred = slope - slope.mean(axis=1, keepdims=True) if c.intercept and "s" not in stack.slots else slope
    gradient = np.einsum("bnd,bn->bd", X, centred) / X.shape[1] + np.longdouble(c.penalty) * V
    exact = V - np.longdouble(c.eta) * gradient
    return float(np.abs(long(stream["basis"][..., slot]) - exact).max())


def _newton_schulz_error(stack: InContextStack, x: np.ndarray, M: np.ndarray) -> tuple[float, float]:
    """The largest error of a coordinate of z = M x after one layer, per unit of the largest; and the largest |x||z|."""
    layer = stack.layer_at(stack.head)
    prompt = read_prompt(x, x[..., 0], None, None, stack.constants, stack.dtype, False)
    stream = {name: tokens.clone() for name, tokens in stack.embed(prompt).items()}
    z = slice(*stack.slots["z"])
    for name in layer.keys:
        rows = stream[name][..., slice(*stack.slots["g" if name == "unit" else "x"])]
        stream[name][..., z] = rows @ torch.tensor(M, dtype=stack.dtype)
    X = stream["data"][..., slice(*stack.slots["x"])].double().numpy().astype(np.longdouble)
    Z = stream["data"][..., z].double().numpy().astype(np.longdouble)
    t = np.einsum("bnd,bmd->bmn", X, Z)
    exact = 2 * Z - np.einsum("bmn,bnd->bmd", t - t.mean(axis=2, keepdims=True), Z) / X.shape[1]
    units = stream["unit"].double().numpy().astype(np.longdouble)
    g, zg = units[..., slice(*stack.slots["g"])], units[..., z]
    exact -= np.einsum("bmd,bpd,bpe->bme", Z, g, zg) / 2
    after = apply_layer(layer, stream)["data"][..., z].double().numpy()
    size = max(np.abs(Z).max(), np.abs(zg).max())
    reach = np.linalg.norm(X, axis=2).max() * np.linalg.norm(Z, axis=2).max()
    return float(np.abs(after - exact).max() / size), float(reach)


def _matrix_error(stack: InContextStack, x: np.ndarray) -> float:
    """The largest error of an entry of the matrix of the normal equations, for tokens that hold x as they stand."""
    prompt = read_prompt(x, x[..., 0], None, None, stack.constants, stack.dtype, False)
    stream = {name: tokens.clone() for name, tokens in stack.embed(prompt).items()}
    g, d = slice(*stack.slots["g"]), stack.features
    stream["unit"][..., g] = 0.9 * stream["unit"][..., slice(*stack.slots["e"])] if stack.constants.penalty > 0 else 0.0
    X = stream["data"][..., slice(*stack.slots["x"])].double().numpy().astype(np.longdouble)
    held = stream["unit"][..., ::2, g].double().numpy().astype(np.longdouble)
    centred = X - X.mean(axis=1, keepdims=True)
    exact = np.einsum("bnp,bnq->bpq", centred, centred) / X.shape[1] + np.einsum("bpi,bpj->bij", held, held)
    after = apply_layer(stack.layer_at(stack.head), stream)["unit"][:, ::2, slice(*stack.slots["a"])].double().numpy()
    return float(np.abs(after[:, :d] - exact).max())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("row", "solver"), PROVED, ids=_name)
def test_the_bound_of_a_step_holds_at_random_prompts(row: Method, solver: str, dtype: str) -> None:
    built = sw.in_context(row.name, 3, solver=solver, dtype=dtype, steps=1, max_rows=60, sample=False)
    assert built.certificate is not None, built.unproved
    c, rng = built.network.constants, np.random.default_rng(12)
    for n in (2, 9, 60):
        x, y = rng.normal(size=(20, n, 3)), rng.uniform(-1, 1, (20, n)) * c.y_bound
        if c.intercept:
            x -= x.mean(axis=1, keepdims=True)
        x *= 0.999 * c.x_bound / np.linalg.norm(x, axis=2).max(axis=1)[:, None, None]
        if solver == "newton_schulz":
            error, reach = _newton_schulz_error(built.network, x, 0.3 * np.eye(3) * c.score_bound / c.x_bound**2)
            assert reach <= c.score_bound
        elif solver == "normal_equations":
            error = _matrix_error(built.network, x * 0.999 * c.feature_bound / np.abs(x).max())
        else:
            w = rng.normal(size=(20, 4))
            w *= (
                0.999
                * min(c.w_bound, 0.7 * np.log(c.rate_bound) / c.x_bound)
                / np.linalg.norm(w, axis=1, keepdims=True)
            )
            error = _step_error(built.network, row, x, y, w)
        assert error <= built.certificate.bound


@pytest.mark.parametrize("row", ROWS, ids=_name)
def test_help_and_documentation_name_every_method(row: Method) -> None:
    page = (Path(__file__).parents[2] / "docs" / "in_context.md").read_text(encoding="utf-8")
    assert f"| `{row.name}` |" in page, "refresh the lists of the documentation: python docs/refresh_outputs.py"
    assert f"{row.name}: {row.objective}" in (sw.in_context.__doc__ or "")


def test_the_command_lists_the_methods_when_asked_for_another(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,y\n1,2\n2,3\n")
    found = CliRunner().invoke(app, ["in-context", "gues", "--data", str(tmp_path / "data.csv"), "--target", "y"])
    assert found.exit_code == 2 and all(name in found.stderr for name in METHODS)


def test_the_old_name_of_accuracy_is_refused_with_the_new_one() -> None:
    with pytest.raises(InvalidInput, match="accuracy="):
        sw.in_context("ridge", 2, tolerance=1e-9)  # pyright: ignore[reportArgumentType]
    few, many = (sw.in_context("ridge", 2, accuracy=value, sample=False).network.depth for value in (1e-2, 1e-12))
    assert few < many
