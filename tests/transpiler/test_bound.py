"""Bounds of heads and of transpiled networks: never below what is seen, and the pieces they are made of."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import softwright as sw
from softwright.targets.mlp.activation import Activation
from softwright.targets.mlp.activations import ACTIVATIONS
from softwright.targets.mlp.dense import DenseLayer, DenseNetwork
from softwright.transpiler.bound import spectral_norm
from softwright.transpiler.neuron_heads import LAYOUTS, NeuronHeads
from softwright.transpiler.token_proof import proved_error, tail_bound
from softwright.transpiler.token_table import TokenTable
from softwright.transpiler.tokens import fitted_table, table_for
from softwright.transpiler.unit_bounds import unit_of

VARIANTS = [Activation(name) for name in ACTIVATIONS] + [
    Activation("leaky_relu", (-0.5,)),
    Activation("hardtanh", (0.0, 6.0)),
    Activation("hardtanh", (-0.3, 2.7)),
    Activation("elu", (-0.7,)),
    Activation("elu", (2.0,)),
    Activation("softplus", (3.0, 5.0)),
    Activation("softplus", (1.0, -4.0)),
]
MODULES: dict[str, nn.Module] = {
    "relu": nn.ReLU(),
    "leaky": nn.LeakyReLU(0.2),
    "hardtanh": nn.Hardtanh(-0.6, 1.2),
    "relu6": nn.ReLU6(),
    "hardsigmoid": nn.Hardsigmoid(),
    "silu": nn.SiLU(),
    "sigmoid": nn.Sigmoid(),
    "tanh": nn.Tanh(),
    "gelu": nn.GELU(),
    "gelu_tanh": nn.GELU(approximate="tanh"),
    "softplus": nn.Softplus(),
    "elu": nn.ELU(1.5),
    "mish": nn.Mish(),
}


def at_the_kinks(activation: Activation, reach: float) -> np.ndarray:
    knots = [0.0, *(value for name, value in activation.options.items() if name in ("low", "high")), -3.0, 3.0, 20 / 3]
    fine = np.concatenate([np.geomspace(1e-21, 1e-3, 60), -np.geomspace(1e-21, 1e-3, 60)])
    points = np.concatenate([np.linspace(-reach, reach, 2001), *(knot * (1 + fine) + fine for knot in knots)])
    return points[np.abs(points) <= reach]


@pytest.mark.parametrize("activation", VARIANTS, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_no_unit_leaves_its_bound(activation: Activation, dtype: str) -> None:
    table = table_for(activation, dtype)
    kind = torch.float32 if dtype == "float32" else torch.float64
    for layout in LAYOUTS:
        if layout == "softmax" and activation == Activation(activation.name):  # in tests/contracts/test_activations.py
            continue
        unit = unit_of(activation, table, dtype, layout)
        for reach in (0.5, 8.0, 200.0):
            s = at_the_kinks(activation, reach).astype(dtype).astype(np.float64)
            heads = NeuronHeads(np.ones((1, 1)), np.zeros(1), table, kind, layout)
            values = heads(torch.tensor(s, dtype=kind)[:, None])[:, 0].double().numpy()
            size = np.array([reach])
            bound = float((unit.exact_for(size) + unit.rounding(size))[0])
            assert np.abs(values - activation(s.astype(np.longdouble))).max() <= bound


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "softplus"])
def test_fitted_tokens_are_proved_on_the_whole_line(name: str) -> None:
    activation = Activation(name, (1.0, 1e300) if name == "softplus" else ())
    for tokens in (8, 24):
        table = fitted_table(activation, tokens, "float64")
        proved = proved_error(activation, table)
        s = np.concatenate([np.linspace(-80, 80, 40001), [1e3, -1e3, 1e8, -1e8]])
        seen = float(np.abs(table(s) - activation(s)).max())
        assert seen <= proved + 1e-14 and proved <= 1.2 * seen + 1e-13
    assert proved_error(Activation("gelu"), fitted_table(Activation("gelu"), 24, "float64")) <= 1e-9


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("alpha", [1.88, 0.1, -0.7])
def test_stored_elu_tokens_stay_within_the_exact_part(alpha: float, dtype: str) -> None:
    """Without a box nothing else is charged: rounding of the stored values belongs to it."""
    activation = Activation("elu", (alpha,))
    table = table_for(activation, dtype)
    s = np.concatenate([-np.geomspace(1e-12, 60, 2000), np.linspace(-3, 3, 2001)]).astype(np.longdouble)
    error = float(np.abs(table(s) - activation(s)).max())
    assert error <= unit_of(activation, table, dtype).exact + 1e-17


def test_a_table_that_misses_its_asymptote_has_no_tail_bound() -> None:
    table = fitted_table(Activation("gelu"), 16, "float64")
    wrong = TokenTable(table.keys, table.biases, np.r_[table.slopes[:-1], 1.001], table.offsets)
    assert tail_bound(wrong, 64.0) == np.inf
    assert tail_bound(table, 1e-3) == np.inf  # too near for the terms to fall
    assert tail_bound(table, 64.0) < 1e-15


@pytest.mark.parametrize("activation", VARIANTS, ids=str)
def test_slopes_and_ranges_hold(activation: Activation) -> None:
    s = np.linspace(-30, 30, 60001)
    values = activation(s)
    beta, threshold = activation.parameters if activation.name == "softplus" else (1.0, 1e9)
    smooth = np.abs(s[1:] - threshold / beta) > 0.01  # torch's softplus jumps there
    slopes = np.abs(np.diff(values) / np.diff(s))[smooth]
    assert slopes.max() <= activation.slope + 1e-9
    rng = np.random.default_rng(0)
    ends = np.sort(rng.uniform(-8, 8, size=(200, 2)), axis=1)
    low, high = activation.span(ends[:, 0], ends[:, 1])
    flat = activation.local_slope(ends[:, 0], ends[:, 1]) == 0
    for (a, b), least, most, constant in zip(ends, low, high, flat, strict=True):
        inside = activation(np.linspace(a, b, 101))
        assert least <= inside.min() and inside.max() <= most
        assert not constant or np.ptp(inside) == 0


def test_the_spectral_norm_is_an_upper_bound_and_close() -> None:
    rng = np.random.default_rng(1)
    for shape in ((1, 1), (3, 8), (40, 12), (64, 64)):
        W = rng.normal(size=shape) * 10.0 ** rng.integers(-8, 8)
        exact = np.linalg.norm(W, 2)
        assert exact <= spectral_norm(W) <= 1.2 * exact
    assert spectral_norm(np.zeros((3, 3))) < 1e-200


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(1, 20), min_size=2, max_size=5),
    st.lists(st.sampled_from(sorted(MODULES)), min_size=4, max_size=4),
    st.sampled_from(LAYOUTS),
    st.sampled_from(["float64", "float32"]),
    st.sampled_from([0.1, 1.0, 10.0]),
    st.integers(0, 10_000),
)
def test_random_networks_stay_within_their_bound(
    sizes: list[int], names: list[str], layout: str, dtype: str, reach: float, seed: int
) -> None:
    torch.manual_seed(seed)
    dtype = "float32" if layout == "double" else dtype
    parts: list[nn.Module] = []
    for i, (a, b) in enumerate(pairwise(sizes)):
        parts += [nn.Linear(a, b, dtype=torch.float64), MODULES[names[i]]]
    source = nn.Sequential(*parts).eval()
    built = sw.transpile(source, (-reach, reach), dtype=dtype, layout=layout)
    x = torch.tensor(np.random.default_rng(seed).uniform(-reach, reach, size=(300, sizes[0])), requires_grad=True)
    double = sw.transpile(source, (-reach, reach), dtype="float64")
    (gradient,) = torch.autograd.grad((double.network(x) - source(x)).abs().sum(), x)
    climbed = (x + 0.2 * reach * torch.nan_to_num(gradient).sign()).clamp(-reach, reach)
    tried = torch.cat([x, climbed]).detach().numpy()
    tried = np.clip(tried.astype(dtype), np.float32(-reach * 0.999), np.float32(reach * 0.999)).astype(dtype)
    tried = tried.astype(np.float64)
    error = float(np.abs(built(tried) - built.source(tried, exact=True)).max())
    assert error <= built.certificate.bound
    assert built.observed_error <= built.certificate.bound


def test_off_neurons_stop_errors() -> None:
    """A neuron that is off on the whole box passes nothing on: the bound sees that by its range."""
    on = nn.Sequential(nn.Linear(2, 3, dtype=torch.float64), nn.ReLU(), nn.Linear(3, 1, dtype=torch.float64)).eval()
    first = on[0]
    assert isinstance(first, nn.Linear)
    with torch.no_grad():
        first.bias.fill_(100.0)
        wide = sw.transpile(on, (-1, 1)).certificate.bound
        first.bias.fill_(-100.0)
        off = sw.transpile(on, (-1, 1)).certificate.bound
    assert off < wide / 5


def test_a_block_behind_a_layer_norm_names_its_range() -> None:
    """A LayerNorm that runs can leave the range of the theorem, so nothing may be said of all that it gives."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).eval()
    rows = 1e6 * (1 + torch.rand(2000, 1, generator=torch.Generator().manual_seed(0))).expand(-1, 8).clone()
    rows += 0.1 * torch.randn(2000, 8, generator=torch.Generator().manual_seed(1))
    assert float(layer.norm1(rows).detach().abs().max()) > 1.001 * 8**0.5 + 1e-6
    statement = sw.transpile(layer).certificate.statement
    assert "can give" not in statement and "1.001 (sqrt(d) |gain_i| + |shift_i|) + 1e-6" in statement


def test_all_inputs_means_no_range_at_all() -> None:
    """The last neuron is off for |x| < 1e31, not for all x: there it passes on what the first is off by."""
    first = DenseLayer(np.eye(2), np.zeros(2), Activation("relu"))
    second = DenseLayer(np.array([[1e7, 1e7]]), np.array([-1e38]), Activation("relu"))
    bound = sw.transpile(DenseNetwork([first, second])).certificate.bound
    assert bound >= 1e7 * 0.278 / 2.0**60


def test_without_a_box_only_real_arithmetic_is_claimed() -> None:
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)).double()
    built = sw.transpile(mlp)
    last = mlp[2]
    assert isinstance(last, nn.Linear)
    assert sw.transpile(mlp, dtype="float32").certificate is not None  # torch drew the weights in float32
    theorem = float(last.weight.detach().abs().sum(dim=1).max()) * 0.27847 / 2.0**60
    assert built.certificate.rounding_part == 0.0 and "real arithmetic" in built.certificate.assumptions[0]
    assert built.certificate.bound == pytest.approx(theorem, rel=1e-6)
    with torch.no_grad():
        last.weight.mul_(1 / 3)
    single = sw.transpile(mlp, dtype="float32")
    assert single.certificate is None and "give a box" in single.unproved
