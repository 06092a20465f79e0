"""What neurons come to together at one input: attacked by climbing over inputs, in the builder and in the checker."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from softwright.checker.transpiled.activations import read_activation
from softwright.checker.transpiled.extents import Extent, activated_extent, affine_extent
from softwright.checker.transpiled.extents import Terms as CheckedTerms
from softwright.checker.transpiled.slips import AtOnce, Slips
from softwright.checker.transpiled.together import Together
from softwright.targets.mlp import Activation, DenseLayer
from softwright.transpiler.errors import Errors, Parts
from softwright.transpiler.joint import Around
from softwright.transpiler.norms import spectral_norm
from softwright.transpiler.values import Terms, Values, activated, affine

Box = tuple[np.ndarray, np.ndarray]


def climbed(value: Callable[[np.ndarray], np.ndarray], box: Box, rng: np.random.Generator, rounds: int = 300) -> float:
    """The largest value (n,) of inputs (n, d) found by moving coordinates to ends, and anywhere between."""
    low, high = box
    x = np.where(rng.random((60, len(low))) < 0.5, low, high)
    best = value(x)
    for _ in range(rounds):
        to = np.where(rng.random(x.shape) < 0.7, np.where(rng.random(x.shape) < 0.5, low, high), rng.uniform(low, high))
        moved = np.where(rng.random(x.shape) < 2 / len(low), to, x)
        rate = value(moved)
        x, best = np.where((rate > best)[:, None], moved, x), np.maximum(rate, best)
    return float(best.max())


def layer_and_box(rng: np.random.Generator, name: str, n: int, count: int) -> tuple[DenseLayer, Box]:
    weight = rng.normal(size=(count, n)) / np.sqrt(n) * rng.choice([0.3, 1.0, 3.0])
    low = -rng.uniform(0.2, 3, size=n)
    return DenseLayer(weight, rng.normal(size=count), Activation(name)), (low, rng.uniform(0.2, 3, size=n))


@pytest.mark.parametrize("name", ["relu", "tanh", "sigmoid", "gelu", "silu", "softplus", "elu"])
@pytest.mark.parametrize("shape", [(6, 40), (30, 12)])
def test_no_input_has_larger_terms_behind_a_layer(name: str, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng([len(name), *shape])
    layer, box = layer_and_box(rng, name, *shape)
    given = Values.box(*box)
    s, _ = affine(layer, given, spectral_norm(layer.weight))
    a = activated(layer, given, s)
    weight, bias = rng.normal(size=(4, shape[1])), rng.normal(size=4)
    after = DenseLayer(weight, bias, Activation("identity"))
    terms = Terms.of(after, a)
    start = Extent.of(*box)
    extent = activated_extent(
        read_activation({"name": name, "parameters": list(layer.activation.parameters)}),
        layer.weight,
        layer.bias,
        start,
        affine_extent(layer.weight, layer.bias, start)[0],
    )
    checked = CheckedTerms.of(weight, bias, extent)
    pairs = ((terms.plus, checked.plus), (terms.minus, checked.minus), (terms.sizes, checked.all))
    for sign, (built, again) in zip((1.0, -1.0, 0.0), pairs, strict=True):
        for row in range(4):

            def sums(x: np.ndarray, sign: float = sign, row: int = row) -> np.ndarray:
                products = np.column_stack([layer(x) * weight[row], np.full(len(x), bias[row])])
                return (np.maximum(sign * products, 0) if sign else np.abs(products)).sum(axis=1)

            found = climbed(sums, box, rng)
            assert found <= again[row] <= built[row]
            assert built[row] <= 3 * found + 1  # and no idle one


def known(layer: DenseLayer, given: Values, edges: np.ndarray, share: np.ndarray) -> tuple[Parts, AtOnce]:
    """What builder and checker remember of causes that are these shares on cells of the range of s."""
    parts = Parts(Around.of(layer, given.low, given.high, given.centre, given.spread), edges, share)
    box, ball = (given.low, given.high), (given.centre, given.spread)
    one, two = (Together.of(layer.weight, layer.bias, box, ball, [(edges, part)]) for part in (share, share**2))
    return parts, AtOnce(one, two)


@pytest.mark.parametrize("seed", range(4))
def test_no_slopes_and_causes_reach_an_output_with_more(seed: int) -> None:
    """Causes of a layer, an activation whose slopes are anything between limits, and a map: the worst signs found."""
    rng = np.random.default_rng([9, seed])
    layer, box = layer_and_box(rng, "tanh", 8, 30)
    given = Values.box(*box)
    s, _ = affine(layer, given, spectral_norm(layer.weight))
    edges = s.low + (s.high - s.low) * np.linspace(0, 1, 17)[:, None]
    edges[-1] = s.high
    share = np.exp(-((0.5 * (edges[1:] + edges[:-1])) ** 2)) if seed % 2 else np.ones((16, 30))
    own, middle, after = (
        rng.random(30),
        rng.normal(size=(12, 30)),
        rng.normal(size=(3, 12)) * 2.0 ** rng.integers(-4, 4),
    )
    least, most = np.sort(rng.uniform(-0.2, 1.0, size=(2, 12)), axis=0)
    parts, at_once = known(layer, given, edges, share)
    extra = 0.01 * rng.random(12)
    sizes = [float(np.linalg.norm(one, 2)) * 1.000001 for one in (middle, after)]
    errors = Errors.none(30).plus(own, parts).through(middle, sizes[0]).sloped(least, most).plus(extra)
    built = errors.through(after, sizes[1]).error
    slips = Slips.nothing(30).with_own(own, at_once).mapped(middle).bent(least, most).with_own(extra)
    checked = slips.mapped(after).each
    apart = np.abs(after) @ (np.maximum(np.abs(least), np.abs(most)) * (np.abs(middle) @ own) + extra)
    for row in range(3):
        found = 0.0
        for _ in range(40):
            now = layer.weight @ rng.uniform(*box) + layer.bias
            place = (now >= edges[1:-1]).sum(axis=0).clip(0, 15)
            causes, slopes = own * share[place, np.arange(30)] * rng.choice([-1.0, 1.0], size=30), most
            for _ in range(20):  # the best slopes for these signs, the best signs for these slopes
                moved = after[row] * (middle @ causes)
                slopes = np.where(moved > 0, most, least)
                causes = np.abs(causes) * np.sign((after[row] * slopes) @ middle)
            found = max(found, float(slopes @ (after[row] * (middle @ causes))) + float(np.abs(after[row]) @ extra))
        assert found <= checked[row] <= built[row]
        assert built[row] <= (2.5 if seed % 2 else 1.35) * found
    assert np.all(built < 0.8 * apart)


@pytest.mark.parametrize("seed", range(4))
def test_no_input_has_larger_errors_of_a_layer(seed: int) -> None:
    """Errors that are functions of each neuron's own s, with steps in them, through the next layer."""
    rng = np.random.default_rng([7, seed])
    layer, box = layer_and_box(rng, "tanh", 8, 50)
    given = Values.box(*box)
    s, _ = affine(layer, given, spectral_norm(layer.weight))
    cells = 24
    edges = s.low + (s.high - s.low) * np.linspace(0, 1, cells + 1)[:, None]
    edges[-1] = s.high
    middle = 0.5 * (edges[1:] + edges[:-1])
    steps = [np.abs(middle), np.where(middle > 0, 1.0 + middle, 0.1), rng.random(middle.shape)][seed % 3]
    own = steps.max(axis=0)
    weight = rng.normal(size=(5, 50))
    size = float(np.linalg.norm(weight, 2)) * 1.000001

    parts, at_once = known(layer, given, edges, steps / own)
    built = Errors.none(50).plus(own, parts).through(weight, size).error
    checked = Slips.nothing(50).with_own(own, at_once).mapped(weight).each

    for row in range(5):

        def errors(x: np.ndarray, row: int = row) -> np.ndarray:
            now = x @ layer.weight.T + layer.bias
            place = ((now[:, None] >= edges[1:-1]).sum(axis=1)).clip(0, cells - 1)  # (n, H)
            return np.take_along_axis(steps, place, axis=0) @ np.abs(weight[row])

        found = climbed(errors, box, rng)
        assert found <= checked[row] <= built[row]
    alone = np.abs(weight) @ own
    assert np.all(built <= alone * (1 + 1e-9)) and (seed % 3 == 2 or np.any(built < 0.8 * alone))


def test_terms_of_a_sum_that_is_known() -> None:
    """Positive and negative terms of inputs at which s is in a part of its range."""
    rng = np.random.default_rng(2)
    layer, box = layer_and_box(rng, "tanh", 12, 9)
    terms = Terms.of(layer, Values.box(*box))
    checked = CheckedTerms.of(layer.weight, layer.bias, Extent.of(*box))
    x = np.where(rng.random((4000, 12)) < 0.7, np.where(rng.random((4000, 12)) < 0.5, *box), rng.uniform(*box))
    products = np.concatenate([x[:, None] * layer.weight, np.broadcast_to(layer.bias[:, None], (4000, 9, 1))], axis=2)
    plus, minus = np.maximum(products, 0).sum(axis=2), np.maximum(-products, 0).sum(axis=2)
    closest = 0.0
    for low, high in ((-4.0, -2.0), (-0.3, 0.3), (1.0, 1.2)):
        inside = (plus - minus >= low) & (plus - minus <= high)
        ends = np.full(9, low), np.full(9, high)
        for rising, falling in (terms.between(*ends), checked.within(*ends)):
            assert np.all(plus * inside <= rising) and np.all(minus * inside <= falling)
            closest = max(closest, float((plus * inside / rising).max()))
    assert closest > 0.8
