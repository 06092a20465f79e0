"""What every row of `ACTIVATIONS` must say, and that all of it is true: a row that lacks or misstates a field is named.

A new activation is one row in `targets/mlp/activations.py`; it is covered here as soon as it is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, arb_series
from torch import nn

from softwright.checker.transpiled import activations as checkers
from softwright.errors import InvalidInput
from softwright.proof.arithmetic.balls import precision
from softwright.proof.arithmetic.series import basis
from softwright.proof.arithmetic.taylor_model import variables
from softwright.proof.models.mlp import activation_rule
from softwright.targets.formula.expression import Expression
from softwright.targets.mlp.activation import Activation, spellings
from softwright.targets.mlp.activation_row import ActivationRow, number
from softwright.targets.mlp.activations import ACTIVATIONS
from softwright.targets.mlp.spelt import FORMS
from softwright.targets.mlp.torch_follower import KNOWN, activation_of
from softwright.targets.mlp.torch_reader import read_module
from softwright.transpiler.neuron_heads import NeuronHeads
from softwright.transpiler.tokens import fitted_table, table_for, token_counts
from softwright.transpiler.unit_bounds import FAMILIES, unit_of

# Parameters to try beside the defaults: one entry per activation that has any.
PARAMETERS: dict[str, list[tuple[float, ...]]] = {
    "leaky_relu": [(-0.5,), (0.3,), (1.7,)],
    "hardtanh": [(0.0, 6.0), (-0.3, 2.7), (2.0, 5.0)],
    "hardsigmoid": [(0.2, 0.5), (float(np.float32(1 / 6)), 0.5), (1.5, -2.0)],
    "elu": [(-0.7,), (2.0,)],
    "gelu_erf": [(float(np.float32(np.sqrt(0.5))), 1.0), (1.0, float(np.float32(np.sqrt(2)))), (1.7, 1.0)],
    "gelu_cubic": [(float(np.float32(np.sqrt(2 / np.pi))), float(np.float32(0.044715))), (0.8, 0.2), (1.5, 0.0)],
    "softplus": [(3.0, 5.0), (1.0, -4.0), (0.1, 1e300)],
}
VARIANTS = [
    Activation(name, parameters) for name in ACTIVATIONS for parameters in [(), *PARAMETERS.get(name, [])]
]  # fmt: skip
_ROWS = pytest.mark.parametrize("row", ACTIVATIONS.values(), ids=list(ACTIVATIONS))
_EACH = pytest.mark.parametrize("activation", VARIANTS, ids=str)
NEEDED = ("name", "function", "formula", "family", "slope", "span")


def kinks(activation: Activation) -> list[float]:
    """Where the function bends or jumps, as far as the row says so."""
    found = [0.0, *(place for place in activation.row.flat(*activation.parameters) if math.isfinite(place))]
    if activation.row.jump is not None:
        found.append(activation.row.jump(*activation.parameters)[0])
    return [place for place in found if abs(place) < 1e4]


def places(activation: Activation, reach: float, seed: int = 0) -> np.ndarray:
    """Random, regular and adversarial arguments in [-reach, reach]: close to every kink from both sides."""
    fine = np.concatenate([np.geomspace(1e-21, 1e-3, 60), -np.geomspace(1e-21, 1e-3, 60)])
    near = [knot * (1 + fine) + fine for knot in kinks(activation)]
    drawn = np.random.default_rng(seed).uniform(-reach, reach, 250)
    points = np.concatenate([np.linspace(-reach, reach, 501), drawn, *near, kinks(activation)])
    return points[np.abs(points) <= reach]


# ------------------------------------------------------------------------------------------------- nothing is missing


def lacks(row: ActivationRow) -> Iterator[str]:
    """The fields that a row should have and has not."""
    for name in NEEDED:
        if not getattr(row, name):
            yield f"{row.name} lacks {name}"
    if row.family not in FAMILIES:
        yield f"{row.name}: family {row.family!r} has no rounding analysis"
    if row.family in ("fitted", "sides") and not row.shapes:
        yield f"{row.name} is {row.family} and lacks shapes"
    if row.family not in ("fitted", "sides") and row.tokens is None:
        yield f"{row.name} is {row.family} and lacks tokens"
    for spelling in (*row.torch, *row.onnx):
        if spelling.options and len(spelling.options) != len(row.parameters):
            yield f"{row.name}: {spelling.call} does not say where every parameter is found"
    if not row.torch and not row.onnx and row.name not in FORMS:
        yield f"{row.name} is written by no library: it lacks torch and onnx"
    if row.parameters and row.name not in PARAMETERS:
        yield f"{row.name} has parameters and no entry in this test's PARAMETERS"


@_ROWS
def test_no_field_is_missing(row: ActivationRow) -> None:
    assert list(lacks(row)) == []
    for call in (row.function, row.formula, row.slope, row.span):
        assert callable(call), row.name


def test_the_checker_knows_every_row_by_its_own() -> None:
    assert set(checkers.ROWS) == set(ACTIVATIONS)
    for name, row in ACTIVATIONS.items():
        assert checkers.ROWS[name].parameters.keys() == row.parameters.keys(), name


def test_a_missing_field_is_named() -> None:
    good = ACTIVATIONS["leaky_relu"]
    values = {field.name: getattr(good, field.name) for field in fields(good)}
    for name in NEEDED:
        with pytest.raises(TypeError, match=name):
            ActivationRow(**{key: value for key, value in values.items() if key != name})
    assert list(lacks(ActivationRow(**{**values, "tokens": None}))) == ["leaky_relu is gate and lacks tokens"]
    assert list(lacks(ActivationRow(**{**values, "family": "fitted"}))) == ["leaky_relu is fitted and lacks shapes"]
    assert "is written by no library" in next(lacks(ActivationRow(**{**values, "torch": (), "onnx": ()})))


def test_every_torch_activation_is_in_the_message_and_no_call_is_taken_twice() -> None:
    assert all(spelling.call.__name__ in KNOWN for _, spelling in spellings("torch") if isinstance(spelling.call, type))
    for library in ("torch", "onnx"):
        taken = [(spelling.call, spelling.only) for _, spelling in spellings(library)]
        assert len(taken) == len(set(taken))


def test_parameters_are_checked() -> None:
    for wrong in (("hardtanh", (1.0, 0.0)), ("hardsigmoid", (0.0, 0.5)), ("softplus", (-1.0, 20.0)), ("elu", (1, 2))):
        with pytest.raises(InvalidInput, match=wrong[0]):
            Activation(*wrong)
    with pytest.raises(InvalidInput, match="finite"):
        Activation("elu", (math.nan,))
    with pytest.raises(InvalidInput, match=r"use one of .*relu"):
        Activation("hardshrink")


# -------------------------------------------------------------------------------------------------- read alike


def torch_calls(row: ActivationRow) -> Iterator[tuple[Any, dict[str, Any], Activation]]:
    """(callable, its options, the activation that it must be read as) for every spelling, with and without options."""
    for spelling in row.torch:
        fixed = {} if spelling.only is None else {spelling.only[0]: spelling.only[1]}
        defaults = spelling.fixed or tuple(float(default or 0.0) for _, default in spelling.options)
        if spelling.call is nn.ReLU6:
            yield spelling.call, {}, Activation(row.name, (0.0, 6.0))
            continue
        yield spelling.call, fixed, Activation(row.name, defaults)
        for parameters in PARAMETERS.get(row.name, []) if spelling.options else []:
            names = [name for name, _ in spelling.options]
            yield spelling.call, fixed | dict(zip(names, parameters, strict=True)), Activation(row.name, parameters)


class Called(nn.Module):
    """A Linear layer and an activation that is called as a function or as a method of tensors."""

    def __init__(self, call: Any, options: dict[str, Any]) -> None:
        super().__init__()
        self.linear, self.call, self.options = nn.Linear(3, 4, dtype=torch.float64), call, options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        s = self.linear(x)
        return getattr(s, self.call)(**self.options) if isinstance(self.call, str) else self.call(s, **self.options)


@_ROWS
def test_torch_modules_functions_and_methods_are_read_alike_and_mean_the_same(row: ActivationRow) -> None:
    for call, options, meant in torch_calls(row):
        s = torch.tensor(places(meant, 40.0), dtype=torch.float64)
        if isinstance(call, type):
            layer = call(**options)
            assert activation_of(layer) == meant
            source: nn.Module = nn.Sequential(nn.Linear(3, 4, dtype=torch.float64), layer)
            values = layer(s)
        else:
            source = Called(call, options)
            values = getattr(s.clone(), call)(**options) if isinstance(call, str) else call(s.clone(), **options)
        network = read_module(source.eval()).network
        assert [layer.activation for layer in network.layers] == [meant]  # type: ignore[union-attr]
        assert np.abs(values.numpy() - meant(s.numpy())).max() <= 1e-13, f"{row.name} as {call}"


def test_a_forward_of_its_own_is_no_known_activation() -> None:
    class Louder(nn.ReLU):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(input)

    assert activation_of(Louder()) is None
    changed = nn.ReLU()
    changed.forward = torch.tanh  # type: ignore[method-assign]
    assert activation_of(changed) is None


# ------------------------------------------------------------------------------------------------- what is said is true


@_EACH
def test_the_formula_is_the_function(activation: Activation) -> None:
    s = places(activation, 30.0)
    jumps = [] if activation.row.jump is None else [activation.row.jump(*activation.parameters)[0]]
    s = s[np.all([np.abs(s - place) > 1e-12 for place in jumps], axis=0)] if jumps else s
    formula = Expression(activation.formula, ("x",))
    values = formula(s[:, None])[:, 0]
    assert np.abs(values - activation(s)).max() <= 1e-13 * (1 + np.abs(values).max())


@_EACH
def test_taylor_models_hold_the_function(activation: Activation) -> None:
    rng = np.random.default_rng(1)
    near = rng.choice(kinks(activation), 20) + rng.normal(size=20) * 0.3
    centers, radii = np.concatenate([rng.uniform(-6, 6, 20), near])[:, None], rng.uniform(1e-3, 1.5, (40, 1))
    shape = basis(1, 6)
    with np.errstate(all="ignore"):  # as the prover has it
        model = activation_rule(activation)(variables(shape, centers, radii)[0])
    low, high = model.range()
    for (center,), (radius,), least, most in zip(centers, radii, low, high, strict=True):
        values = activation(center + radius * np.linspace(-1, 1, 41))
        assert least <= values.min() + 1e-13 and values.max() - 1e-13 <= most
    assert np.isfinite(model.remainder).mean() > 0.8


def test_numbers_are_written_exactly() -> None:
    for value in (0.1, -1 / 3, 3.0, 1e-300, -1.5e300, 5e-324, float(np.float32(1 / 6))):
        (found,) = Expression(f"x*0+{number(value)}", ("x",))(np.zeros((1, 1)))[0]
        assert found == value, number(value)


@_EACH
def test_slope_is_an_upper_bound(activation: Activation) -> None:
    s = np.sort(np.unique(places(activation, 30.0)))
    s = s[np.diff(s, prepend=-np.inf) > 1e-7].astype(np.longdouble)
    quotients = np.abs(np.diff(activation(s)) / np.diff(s))
    if activation.row.jump is not None:
        place = activation.row.jump(*activation.parameters)[0]
        quotients = quotients[(s[1:] < place) | (s[:-1] > place)]
    assert quotients.max() <= activation.slope + 1e-8
    assert activation.slope <= 1.6 * max(1.0, quotients.max())  # and no idle one


@_EACH
def test_span_and_flat_parts_hold(activation: Activation) -> None:
    rng = np.random.default_rng(0)
    ends = np.sort(rng.uniform(-8, 8, size=(300, 2)), axis=1)
    ends[:100] = np.sort(rng.choice(kinks(activation), (100, 1)) + rng.normal(size=(100, 2)) * 1e-3, axis=1)
    low, high = activation.span(ends[:, 0], ends[:, 1])
    steep = activation.local_slope(ends[:, 0], ends[:, 1])
    assert np.all((steep >= 0) & (steep <= activation.slope))
    for (a, b), least, most, slope in zip(ends, low, high, steep, strict=True):
        inside = activation(np.linspace(a, b, 101))
        assert least <= inside.min() and inside.max() <= most
        jump = 0.0 if activation.row.jump is None else activation.row.jump(*activation.parameters)[1]
        assert np.abs(np.diff(inside)).max() <= slope * (b - a) / 100 * (1 + 1e-9) + 1e-15 * np.abs(inside).max() + jump
    far = activation(np.array([-1e4, 1e4]))
    assert activation.bounded == bool(np.abs(far).max() < 1e3)


@_EACH
def test_fitted_rows_keep_their_promises(activation: Activation) -> None:
    if activation.row.family != "fitted":
        assert token_counts(activation) == sorted(activation.row.shapes)
        assert bool(activation.row.shapes) == (activation.row.family == "sides")
        return
    base, rate, s = activation.base, activation.rate, np.linspace(-40, 40, 4001)
    assert np.abs(activation.smooth(s) - base(rate * s) / rate).max() <= 1e-13 * (1 + 1 / rate)
    assert np.abs(base(s) - s / 2 - (base(-s) + s / 2)).max() <= 1e-13  # s/2 plus an even function
    far = s[np.abs(s) >= 8]
    assert np.all(np.abs(base(far) - np.maximum(far, 0)) <= np.exp(-np.abs(far)) * (1 + 1e-9) + 1e-14)
    table = fitted_table(activation, token_counts(activation)[0], "float64")
    assert table.slopes[[0, -1]].tolist() == [0.0, 1.0] and table.offsets[[0, -1]].tolist() == [0.0, 0.0]
    if activation.row.jump is not None:
        place, height = activation.row.jump(*activation.parameters)
        assert np.all(np.abs(activation(s) - activation.smooth(s))[s <= place] == 0)
        assert np.abs(activation(s) - activation.smooth(s)).max() <= height * (1 + 1e-9)


_BALLS: dict[str, Callable[[arb], arb]] = {  # where NumPy's functions are float64 only, or not good enough to judge
    "gelu": lambda s: s / 2 * (1 + (s / arb(2).sqrt()).erf()),
    "gelu_erf": lambda s, rate, divisor: s / 2 * (1 + (arb(rate) * s / arb(divisor)).erf()),  # type: ignore[misc]
}


def exact_values(activation: Activation, s: np.ndarray) -> np.ndarray:
    if activation.name not in _BALLS:
        return activation(s.astype(np.longdouble))
    with precision(120):
        return np.array([float(_BALLS[activation.name](arb(float(x)), *activation.parameters)) for x in s])


@_EACH
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_no_head_leaves_its_bound(activation: Activation, dtype: str) -> None:
    table = table_for(activation, dtype)
    kind = getattr(torch, dtype)
    unit = unit_of(activation, table, dtype)
    heads = NeuronHeads(np.ones((1, 1)), np.zeros(1), table, kind)
    for reach in (0.5, 8.0, 200.0):
        s = places(activation, reach, seed=int(reach)).astype(dtype).astype(np.float64)
        values = heads(torch.tensor(s, dtype=kind)[:, None])[:, 0].double().numpy()
        bound = float((unit.exact_for(np.array([reach])) + unit.rounding(np.array([reach])))[0])
        assert np.abs(values - exact_values(activation, s)).max() <= bound
        if activation == Activation(activation.name):  # with the usual parameters, it is also of use
            assert bound <= (1e-9 if dtype == "float64" else 1e-3) * (1 + reach)


@_EACH
def test_gates_are_those_of_the_function_in_balls_and_in_floats(activation: Activation) -> None:
    gate = activation.row.gate
    if gate is None:
        return
    parameters = activation.parameters
    with precision(160):
        for s in (0.0, 1e-3, 0.3, 1.0, 2.5, 7.0):
            right, left = (gate(arb(x), *parameters) for x in (s, -s))
            assert abs(right + left - 1) < 1e-40
            assert abs(float(activation(np.array([s]))[0]) - float(right) * s) <= 1e-15 * (1 + s)
            series = gate(arb_series([arb(s), 1], 3), *parameters)
            step = gate(arb(s) + arb(2) ** -40, *parameters) - gate(arb(s) - arb(2) ** -40, *parameters)
            assert series[0].overlaps(right) and abs(series[1] - step * arb(2) ** 39) < 1e-20
