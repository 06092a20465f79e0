"""Transpiled networks proved again: every activation, dtype and layout, and what the proof's own parts promise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, arb_series, ctx, fmpq
from torch import nn

import softwright as sw
from softwright.checker.precision import PRECISIONS
from softwright.checker.transpiled import outward
from softwright.checker.transpiled.activations import ROWS, read_activation
from softwright.checker.transpiled.extents import Extent, _cells
from softwright.checker.transpiled.fitted import largest_error
from softwright.checker.transpiled.heads import unit_of
from softwright.checker.transpiled.products import _shares
from softwright.checker.transpiled.together import Bowls
from softwright.checker.transpiled.unit import Run
from softwright.targets.mlp import ACTIVATIONS, Activation, DenseLayer, DenseNetwork
from softwright.transpiler.neuron_heads import apply_table
from softwright.transpiler.tokens import table_for
from tests.checker.transpiled_files import MODULES, file_of, made

DTYPES = tuple(PRECISIONS)
LAYOUTS = ("softmax", "sdpa", "multihead", "sequence")


def source_dtype(layout: str) -> str:
    """Sources of both dtypes: of one in float64 that is cast, the file keeps the weights."""
    return "float64" if layout in ("softmax", "multihead") else "float32"


def in_turn(activations: Sequence[str], layouts: Sequence[str]) -> list[tuple[str, str, str]]:
    """Every activation with both dtypes and with all layouts: of other layouts than the first one dtype in turn."""
    found = [(activation, dtype, layouts[0]) for activation in activations for dtype in DTYPES]
    for i, activation in enumerate(activations):
        found += [(activation, DTYPES[(i + k) % 2], layout) for k, layout in enumerate(layouts[1:])]
    return found


@pytest.mark.parametrize(("activation", "dtype", "layout"), in_turn([*MODULES], LAYOUTS))
def test_every_activation_is_verified(activation: str, dtype: str, layout: str) -> None:
    file = made(activation, dtype, layout, source=source_dtype(layout))
    verdict = file.verdict()
    assert verdict, verdict.reason
    assert verdict.domain == "x0 in [-1.5, 2], x1 in [-1.5, 2], x2 in [-1.5, 2]"
    assert verdict.dtype == verdict.arithmetic == dtype
    cast = source_dtype(layout) == "float64" and dtype == "float32"
    assert bool(file.reference) == cast
    assert file.target["weights"] == ("reference" if cast else "network")


@pytest.mark.parametrize("activation", ["relu", "hardtanh", "elu", "mish", "gelu", "softsign"])
def test_float64_inside_is_verified(activation: str) -> None:
    """Of float32 networks alone; the bound is far below that of the same network in float32."""
    file, single = made(activation, "float32", "double"), made(activation, "float32")
    verdict = file.verdict()
    assert verdict, verdict.reason
    assert file.holds() and file.said["rounding_part"] < 0.5 * single.said["rounding_part"]
    file = made(activation, "float64")
    file.sections["model"]["layout"] = file.said["engine"] = "double"
    assert not file.verdict()


@pytest.mark.parametrize(
    ("activation", "dtype", "layout"),
    in_turn(["sigmoid", "tanh", "silu", "relu", "hardtanh", "elu", "gelu", "softsign"], LAYOUTS[:3]),
)
def test_gated_blocks_are_verified(activation: str, dtype: str, layout: str) -> None:
    verdict = made(activation, dtype, layout, gated=True).verdict()
    assert verdict, verdict.reason


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "hardsigmoid", "elu", "mish", "softplus", "softsign"])
def test_all_inputs_in_real_arithmetic(activation: str) -> None:
    verdict = made(activation, boxed=False).verdict()
    assert verdict, verdict.reason
    assert (verdict.domain, verdict.arithmetic) == ("every input", "real")


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_other_sources(tmp_path: Path) -> None:
    """scikit-learn, a file of our own, and a float32 network that runs in float64."""
    sklearn = pytest.importorskip("sklearn.neural_network")
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(40, 3))
    model = sklearn.MLPRegressor(hidden_layer_sizes=(6,), max_iter=20, random_state=0, activation="logistic").fit(
        x, x.sum(axis=1)
    )
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.1), nn.Linear(4, 1)).eval()
    sw.save_mlp(module, tmp_path / "mlp.safetensors")
    for source in (model, tmp_path / "mlp.safetensors", module):
        for dtype in DTYPES:
            path = tmp_path / "out.safetensors"
            sw.transpile(source, (-1, 1), dtype=dtype, progress=False).save(path)
            verdict = sw.verify(path)
            assert verdict, verdict.reason
            assert sw.load(path).certificate is not None


@pytest.mark.parametrize("dtype", DTYPES)
def test_activations_that_graphs_spell_out(dtype: str) -> None:
    rng = np.random.default_rng(3)
    for activation in (Activation("gelu_erf", (1.0, 1.41421)), Activation("gelu_cubic", (0.79, 0.0447))):
        first = DenseLayer(rng.normal(size=(4, 3)), rng.normal(size=4), activation)
        last = DenseLayer(rng.normal(size=(2, 4)), rng.normal(size=2), Activation("identity"))
        built = sw.transpile(DenseNetwork([first, last]), (-1, 1), dtype=dtype, tol=1.0, progress=False)
        verdict = file_of(built).verdict()
        assert verdict, verdict.reason


def test_widths_of_every_shape() -> None:
    """Stock modules pack their weights where widths agree; one neuron, one input and one output are shapes too."""
    for d, h, o in ((1, 1, 1), (4, 4, 4), (6, 2, 1), (2, 3, 5), (4, 8, 1), (12, 8, 2)):
        for activation in (nn.ReLU, nn.SiLU, nn.Hardsigmoid):
            torch.manual_seed(d)
            module = nn.Sequential(nn.Linear(d, h), activation(), nn.Linear(h, o), activation()).double().eval()
            file = file_of(sw.transpile(module, (-1, 1), layout="multihead", progress=False))
            assert file.verdict(), (d, h, o, activation, file.verdict().reason)


def test_every_activation_of_the_builder_has_a_row() -> None:
    assert set(ROWS) == set(ACTIVATIONS)
    for name, row in ACTIVATIONS.items():
        assert ROWS[name].parameters == dict(row.parameters)


PARAMETERS: dict[str, tuple[Any, ...]] = {
    "leaky_relu": (0.01, 1.7, -0.4),
    "hardtanh": ((-1.0, 1.0), (0.5, 6.0)),
    "hardsigmoid": ((1 / 6, 0.5), (0.2, 0.4), (3.0, -0.2)),
    "elu": (1.0, 0.3, -0.5, 4.0),
    "gelu_erf": ((1.0, 1.41421), (2.5, 1.2)),
    "gelu_cubic": ((0.79, 0.0447), (1.7, 0.3), (0.5, 2.0)),
    "softplus": ((1.0, 20.0), (3.0, 1e300), (0.5, 2.0), (1.0, -1.0)),
}
CASES = [(name, given) for name in ROWS for given in PARAMETERS.get(name, ((),))]


@pytest.mark.parametrize(("name", "given"), CASES)
def test_slopes_and_ranges(name: str, given: Any) -> None:
    """No difference quotient is above the slope, and no value outside of the span; flat is flat."""
    parameters = list(given) if isinstance(given, tuple) else [given]
    activation, phi = read_activation({"name": name, "parameters": parameters}), Activation(name, tuple(parameters))
    s = np.linspace(-15, 15, 30001).astype(np.longdouble)
    values = phi(s)
    jumps = np.abs(np.diff(values)) > 0.01 if name == "softplus" else np.zeros(len(s) - 1, dtype=bool)
    quotients = np.where(jumps, 0, np.abs(np.diff(values)) / np.diff(s))
    assert quotients.max() <= activation.slope * (1 + 1e-9)
    low = np.random.default_rng(3).uniform(-9, 6, size=120)
    for a, b in zip(low, low + np.geomspace(1e-3, 9, 120), strict=True):
        inside = values[(s >= a) & (s <= b)].astype(float)
        least, most = activation.span(np.array([a]), np.array([b]))
        assert not inside.size or (least[0] <= inside.min() and inside.max() <= most[0])
        steep = activation.local_slope(np.array([a]), np.array([b]))[0]
        assert np.all(quotients[(s[:-1] >= a) & (s[1:] <= b)] <= steep * (1 + 1e-9) + 1e-15)
        if steep == 0 and inside.size:
            assert inside.max() == inside.min()


@pytest.mark.parametrize(("name", "given"), CASES)
def test_bowls_lie_over_both_parts_of_an_activation(name: str, given: Any) -> None:
    """Between the ends of s, max(phi, 0) and max(-phi, 0) are nowhere above a line or a parabola of theirs."""
    parameters = list(given) if isinstance(given, tuple) else [given]
    activation, phi = read_activation({"name": name, "parameters": parameters}), Activation(name, tuple(parameters))
    rng = np.random.default_rng(6)
    low, zero = rng.uniform(-8, 4, size=60), rng.uniform(-6, 6, size=60)
    high = low + np.geomspace(1e-6, 10, 60)
    between = (low + (high - low) * np.linspace(0, 1, 500)[:, None]).clip(low, high).astype(np.longdouble)
    edges, least, most = _cells(activation, Extent(low, high, low, np.inf))
    for tops, part in ((most, phi(between)), (-least, -phi(between))):
        shapes = Bowls.over(edges - zero, np.maximum(tops, 0.0), rng.uniform(0.1, 9, size=60)).shapes
        z = between - zero
        for height, beta, curve in shapes:
            assert (np.maximum(part, 0) <= height + beta * z + curve * z * z).all()
        assert (shapes[1:, 2] >= 0).all() and (shapes[0, 2] == 0).all()


@pytest.mark.parametrize(
    ("name", "least", "slope"),
    [("silu", -0.27847, 1.1), ("mish", -0.3089, 1.089), ("gelu", -0.1701, 1.13), ("gelu_tanh", -0.1701, 1.13)],
)
def test_constants_in_balls(name: str, least: float, slope: float) -> None:
    """Minima and slopes hold on [-5, 5], cut finely; beyond it the functions go to 0 and s."""
    series: dict[str, Any] = {
        "silu": lambda s: s / ((-s).exp() + 1),
        "mish": lambda s: s * (1 - 2 / ((s.exp() + 1) * (s.exp() + 1) + 1)),
    }
    before = ctx.prec, ctx.cap
    try:
        ctx.prec, ctx.cap = 80, 3
        value = series.get(name) or ROWS[name].smooth().series  # type: ignore[misc]
        width = fmpq(1, 512)
        for i in range(-2560, 2560):
            centre = arb(fmpq(2 * i + 1, 1024))
            at, over = (value(arb_series([c, 1])) for c in (centre, centre + arb(0, width / 2)))
            # Value and slope at the middle, and what they can change by over the cell.
            assert at[0] - abs(over[1]) * width / 2 >= least
            assert abs(at[1]) + 2 * abs(over[2]) * width / 2 <= slope
    finally:
        ctx.prec, ctx.cap = before


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "given"), CASES)
def test_units_hold_what_they_promise(name: str, given: Any, dtype: str) -> None:
    """A head that runs is within exact + run of its activation, at many s; the exact part alone in long double."""
    if name == "identity":
        return
    parameters = list(given) if isinstance(given, tuple) else [given]
    activation, phi = read_activation({"name": name, "parameters": parameters}), Activation(name, tuple(parameters))
    table = table_for(phi, dtype, 0)
    rng = np.random.default_rng(5)
    s = np.concatenate([rng.uniform(-r, r, 1000) for r in (1e-18, 1e-6, 1.0, 8.0, 60.0)]).astype(dtype)
    exact = phi(s.astype(np.longdouble))
    for layout in ("softmax", "sdpa"):
        unit = unit_of(activation, table.stacked, Run(PRECISIONS[dtype], layout))
        real = table(s.astype(np.longdouble))
        size = np.abs(s.astype(float))
        allowed = unit.exact_for(size) + unit.tilt * size
        here = 4 * float(np.finfo(np.longdouble).eps) * (1 + size)  # roundings of `real` and `exact` themselves
        assert (np.abs(real - exact) <= allowed * (1 + 1e-9) + here).all()
        ran = apply_table(
            torch.from_numpy(s)[:, None], torch.tensor(table.stacked, dtype=getattr(torch, dtype)), layout
        )[:, 0]
        total = allowed + unit.run(size, np.abs(exact.astype(float)))
        assert (np.abs(ran.numpy() - exact) <= total).all()


def test_fitted_errors_are_near_the_truth() -> None:
    """Not below the largest error seen, and at most a hundredth above it."""
    for name, given in (("gelu", ()), ("softplus", (2.0, 20.0)), ("gelu_cubic", (0.79, 0.0447))):
        phi = Activation(name, given)
        table = table_for(phi, "float64", 0)
        smooth = ROWS[name].smooth
        assert smooth is not None
        found = largest_error(table.stacked, smooth(*phi.parameters))
        s = np.linspace(-9, 9, 60001).astype(np.longdouble) / phi.rate
        seen = float(np.abs(table(s) - phi.smooth(s)).max())
        assert seen * (1 - 1e-9) <= found <= seen * 1.01


def test_outward_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    monkeypatch.setattr(ctx, "prec", 128)
    x = np.concatenate([rng.uniform(-690, 690, 300), rng.uniform(-1, 1, 300)])
    for value, low, high in zip(x, outward.exp_down(x), outward.exp_up(x), strict=True):
        assert arb(float(low)) <= arb(float(value)).exp() <= arb(float(high))
        assert high <= low * (1 + 1e-14)
    y = np.abs(rng.uniform(0, 1, 300))
    for value, high in zip(y, outward.expm1_up(y), strict=True):
        assert arb(float(value)).exp() - 1 <= arb(float(high))
    for shape in ((3, 7), (7, 3), (1, 5), (40, 40)):
        W = rng.normal(size=shape)
        assert np.linalg.norm(W, 2) * (1 - 1e-12) <= outward.spectral_norm(W)
        assert outward.spectral_norm(W) <= np.sqrt(np.abs(W).sum(0).max() * np.abs(W).sum(1).max()) * (1 + 1e-12)
        assert outward.length(W.ravel()) >= np.linalg.norm(W)


@pytest.mark.parametrize("dtype", DTYPES)
def test_blocks_of_a_transformer_one_by_one(dtype: str, tmp_path: Path) -> None:
    """What is claimed of a module is claimed of its blocks, which have files of their own."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, activation="relu").double()
    module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    with torch.no_grad():
        module.get_parameter("layers.1.linear1.weight").mul_(30.0)
    built = sw.transpile(module, dtype=dtype, progress=False)
    assert list(built.parts) == ["layers.0", "layers.1"]
    whole, quantities = built.certificate, built.certificate.quantities
    for path, part in built.parts.items():
        part.save(tmp_path / "block.safetensors")
        verdict = sw.verify(tmp_path / "block.safetensors")
        assert verdict, verdict.reason
        assert part.certificate.exact_part <= whole.exact_part
        assert part.certificate.bound <= whole.bound * (1 + 1e-14)
        assert quantities[f"error of block {path}"] == part.certificate.bound
        loaded = sw.load(tmp_path / "block.safetensors")
        x = np.linspace(-1, 1, 12).reshape(3, 4)
        network: Any = built.network
        place = network.module.get_submodule(path)
        ours = place.linear2(place.linear1(torch.from_numpy(x).to(network.dtype)))
        assert np.array_equal(loaded(x), ours.double().numpy())
    with pytest.raises(sw.InvalidInput, match="parts"):
        built.save(tmp_path / "whole.safetensors")


def test_layers_of_zeros_and_rounded_shares() -> None:
    """What vanishes is exactly 0 in real arithmetic; shares that float32 rounds are part of the rounding."""
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double().eval()
    with torch.no_grad():
        module.get_parameter("2.weight").zero_()
    file = file_of(sw.transpile(module, (-1, 1), progress=False))
    assert file.said["exact_part"] == 0
    assert file.verdict(), file.verdict().reason
    file = made("silu", "float32", source="float32", gated=True)
    assert file.verdict(), file.verdict().reason
    real = _shares([fmpq(k, 64) for k in range(1, 5)])
    assert sum((a * fmpq(k, 64) for k, a in enumerate(real, 1)), fmpq(0)) == 1
    assert all(sum((a * fmpq(k, 64) ** n for k, a in enumerate(real, 1)), fmpq(0)) == 0 for n in (3, 5, 7))
