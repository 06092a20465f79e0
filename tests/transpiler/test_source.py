"""The source itself is looked at: a module that is not what its layers say is refused, by name or by its values."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.neural_network import MLPClassifier, MLPRegressor
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, prune

import softwright as sw
from softwright.errors import InvalidInput
from softwright.proof.prover import certify
from softwright.targets.mlp.source import FEWEST, Source, _points, own_rounding, read_source


def mlp(activation: nn.Module | None = None, dtype: torch.dtype = torch.float64) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), activation or nn.ReLU(), nn.Linear(5, 2)).to(dtype).eval()


class Written(nn.Module):
    """Two Linear layers and a forward that is given."""

    def __init__(self, forward: Callable[[Written, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.act = nn.Linear(3, 5), nn.Linear(5, 2), nn.ReLU(inplace=True)
        self.written = forward
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.written(self, x)


# ------------------------------------------------------------------------------------------------ refused by name


def _function(net: Written, x: torch.Tensor) -> torch.Tensor:
    h = net.first(x)
    functional.relu(h, inplace=True)
    return net.last(h)


def _by_position(net: Written, x: torch.Tensor) -> torch.Tensor:
    h = net.first(x)
    functional.leaky_relu(h, 0.3, True)
    return net.last(h)


def _method(net: Written, x: torch.Tensor) -> torch.Tensor:
    h = net.first(x)
    h.relu_()
    return net.last(h)


def _module(net: Written, x: torch.Tensor) -> torch.Tensor:
    h = net.first(x)
    net.act(h)
    return net.last(h)


def _multiplied(net: Written, x: torch.Tensor) -> torch.Tensor:
    h = net.first(x)
    g = h
    g *= 2.0
    return net.last(h)


@pytest.mark.parametrize("forward", [_function, _by_position, _method, _module, _multiplied])
def test_operations_in_place_without_a_user_are_refused(forward: Callable) -> None:
    with pytest.raises(InvalidInput, match=r"is not used: .* in place"):
        sw.transpile(Written(forward), (-1, 1))


def _used_again(net: Written, x: torch.Tensor) -> torch.Tensor:
    h = net.first(x)
    return net.last(functional.silu(h, inplace=True) * h)


def _used_by_another_name(net: Written, x: torch.Tensor) -> torch.Tensor:
    h = net.first(x)
    same = functional.dropout(h, 0.5, False)
    return net.last(net.act(same) * h)


@pytest.mark.parametrize("forward", [_used_again, _used_by_another_name])
def test_operations_in_place_on_a_value_that_is_used_again_are_refused(forward: Callable) -> None:
    with pytest.raises(InvalidInput, match="in place on a value that is used again"):
        sw.transpile(Written(forward), (-1, 1))


def test_operations_in_place_on_a_value_of_their_own_are_read() -> None:
    for forward in (
        lambda net, x: net.last(functional.relu(net.first(x), True)),
        lambda net, x: net.last(net.act(net.first(x))),
        lambda net, x: net.last(net.first(x).relu_()),
    ):
        built = sw.transpile(Written(forward), (-1, 1))
        assert built.observed_error <= built.certificate.bound <= 1e-14


def _hooked(where: str) -> nn.Module:
    net = mlp()
    if where == "hook":
        net[0].register_forward_hook(lambda module, inputs, output: torch.add(output, 1))  # type: ignore[arg-type]
    else:
        net.register_forward_pre_hook(lambda module, inputs: (2 * inputs[0],))
    return net


def _normed(norm: str, change: bool = False, train: bool = False) -> nn.Module:
    net = mlp()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if norm == "spectral":
            nn.utils.spectral_norm(net[0])
        elif norm == "weight":
            nn.utils.weight_norm(net[0])
        elif norm == "pruned":
            prune.l1_unstructured(net[0], "weight", amount=0.4)
        else:
            parametrizations.spectral_norm(net[0])
    net.train(train)
    if change:
        with torch.no_grad():
            next(iter(net.parameters())).mul_(2)
            for name in ("weight_g", "weight_orig"):
                if hasattr(net[0], name):
                    getattr(net[0], name).mul_(2)
    return net


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (_hooked("hook"), r"0 \(Linear\) has the forward hook <lambda>.*remove it"),
        (_hooked("pre"), r"Sequential has the forward pre-hook <lambda>.*remove it"),
        (_normed("spectral"), "out of date, because spectral_norm"),
        (_normed("spectral", train=True), "training mode, where spectral_norm"),
        (_normed("weight", change=True), "out of date, because weight_norm"),
        (_normed("pruned", change=True), "out of date, because pruning"),
        (_normed("parametrized", train=True), "training mode, where spectral_norm"),
        (nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.Linear(4, 1)), r"0 \(LazyLinear\) has no weights yet"),
        (nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.2), nn.Linear(4, 1)).train(), "training mode and random"),
        (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).train(), "training mode"),
    ],
)
def test_what_changes_a_module_on_the_side_is_refused_by_name(source: nn.Module, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        sw.transpile(source, (-1, 1))


def test_a_hook_on_all_modules_is_refused() -> None:
    handle = nn.modules.module.register_module_forward_hook(lambda module, inputs, output: None)
    try:
        with pytest.raises(InvalidInput, match="on all modules"):
            sw.transpile(mlp(), (-1, 1))
    finally:
        handle.remove()


def test_a_forward_set_on_an_object_is_refused() -> None:
    net = mlp()
    net[1].forward = torch.tanh  # type: ignore[method-assign]
    with pytest.raises(InvalidInput, match="forward set on the object"):
        sw.transpile(net, (-1, 1))


@pytest.mark.parametrize("norm", ["spectral", "weight", "pruned", "parametrized"])
def test_norms_whose_weights_are_up_to_date_are_read(norm: str) -> None:
    net = _normed(norm)
    x = torch.rand(40, 3, dtype=torch.float64) * 2 - 1
    with torch.no_grad():
        exact = net(x)  # spectral_norm sets its weight here
    built = sw.transpile(net, (-1, 1))
    assert np.abs(built(x.numpy()) - exact.numpy()).max() <= built.certificate.bound


def test_hooks_on_what_is_replaced_in_a_transformer_layer_are_refused_and_others_stay() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).eval()
    seen: list[int] = []
    layer.norm1.register_forward_hook(lambda *_: seen.append(1))
    built = sw.transpile(layer)
    built.network(torch.zeros(1, 2, 8))
    assert seen
    layer.linear1.register_forward_hook(lambda module, inputs, output: torch.add(output, 1))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"linear1 \(Linear\) has the forward hook"):
        sw.transpile(layer)


# ------------------------------------------------------------------------------------------ refused by its values


class Hidden(nn.Linear):
    """A Linear layer whose own call does more than its forward says."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        found = super().__call__(x)
        return found if isinstance(x, torch.fx.Proxy) else found + self.more * (x[..., :1] > 0.9)

    more = 1e-3


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_difference_that_no_check_knows_is_found_by_running_the_source(dtype: torch.dtype) -> None:
    Hidden.__module__ = "torch.nn.modules.linear"  # so that the tracer takes it for a layer of torch
    torch.manual_seed(0)
    net = nn.Sequential(Hidden(3, 5), nn.ReLU(), nn.Linear(5, 2)).to(dtype).eval()
    with pytest.raises(InvalidInput, match=r"is not what its layers say: at x = \[.*explains at most") as error:
        sw.transpile(net, (-1, 1))
    assert "output" in str(error.value) and "as read give" in str(error.value)


class OwnBlock(nn.TransformerEncoderLayer):
    def _ff_block(self, x: torch.Tensor) -> torch.Tensor:
        return 1.001 * super()._ff_block(x)


def test_a_transformer_layer_with_a_block_of_its_own_is_refused() -> None:
    layer = OwnBlock(8, 2, 16, dropout=0.0, batch_first=True).eval()
    with pytest.raises(InvalidInput, match="is not what its layers say"):
        sw.transpile(layer)


def test_a_source_that_overflows_is_refused() -> None:
    net = mlp(dtype=torch.float32)
    with torch.no_grad():
        net[0].weight.fill_(3e38)  # type: ignore[union-attr,operator]
        net[0].bias.zero_()  # type: ignore[union-attr,operator]
    with pytest.raises(InvalidInput, match="overflows"):
        sw.transpile(net, (-1, 1), dtype="float64")


def test_a_source_that_cannot_be_run_or_gives_other_shapes_is_refused() -> None:
    class Odd(Hidden):
        def __call__(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            found = nn.Linear.__call__(self, x)
            if isinstance(x, torch.fx.Proxy):
                return found
            if self.more == 0:
                raise RuntimeError("no such thing")
            return found[..., :1]

    Odd.__module__ = "torch.nn.modules.linear"
    torch.manual_seed(0)
    net = nn.Sequential(Odd(3, 5)).double().eval()
    with pytest.raises(InvalidInput, match="gives results of shape"):
        sw.transpile(net, (-1, 1))
    net[0].more = 0  # type: ignore[assignment]
    with pytest.raises(InvalidInput, match=r"cannot be run .*no such thing"):
        sw.transpile(net, (-1, 1))


def test_targets_of_proofs_and_saved_networks_are_looked_at_too(tmp_path: Path) -> None:
    Hidden.__module__ = "torch.nn.modules.linear"
    torch.manual_seed(0)
    net = nn.Sequential(Hidden(1, 5), nn.ReLU(), nn.Linear(5, 1)).double().eval()
    built = sw.approximate("x", sw.Box(x=(-2, 2)), tol=1e-3, certify=False)
    with pytest.raises(InvalidInput, match="is not what its layers say"):
        certify(built.network, net)
    with pytest.raises(InvalidInput, match="is not what its layers say"):
        sw.save_mlp(net, tmp_path / "net.safetensors")
    assert not list(tmp_path.iterdir())
    with pytest.raises(InvalidInput, match="forward hook"):
        certify(built.network, _hooked("hook"))


# ------------------------------------------------------------------------------------------- what is seen of the source


def test_points_are_numbers_of_both_dtypes_in_the_box_with_corners() -> None:
    low, high = np.array([0.1, -1 / 3, 2.0]), np.array([0.3, 1 / 3, 2.0])
    points = _points(3, (low, high), ("float64", "float32"), 100, 0)
    assert points.shape == (100, 3) and np.all((points >= low) & (points <= high))
    assert np.array_equal(points, points.astype(np.float32))
    assert np.abs(points[:8, 0, None] - [0.1, 0.3]).min(axis=1).max() <= 3e-8
    assert np.array_equal(points, _points(3, (low, high), ("float64", "float32"), 100, 0))


def test_observed_is_against_the_source_as_it_runs() -> None:
    """A float32 module against its heads in float32; heads in float64 against the module in float64."""
    net = mlp(dtype=torch.float32)
    single = sw.transpile(net, (-1, 1))
    x = torch.tensor([single.observed.point], dtype=torch.float32)  # type: ignore[union-attr]
    with torch.no_grad():
        seen = float((single.network(x) - net(x)).abs().max())
    assert single.observed is not None and single.observed.points >= FEWEST
    assert single.observed_error == pytest.approx(seen, abs=1e-12)
    double = sw.transpile(net, (-1, 1), dtype="float64")
    assert double.observed_error <= double.certificate.bound <= 1e-13


def test_half_precision_modules_are_looked_at_in_float32() -> None:
    for kind in (torch.bfloat16, torch.float16):
        built = sw.transpile(mlp(dtype=kind), (-1, 1))
        assert built.network.dtype == torch.float32 and any("run in float32" in told for told in built.plan.reasons)
        assert built.observed_error <= built.certificate.bound


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("activation", [nn.ReLU(), nn.GELU(), nn.Softplus(), nn.Hardsigmoid(), nn.Mish(), nn.ELU()])
def test_the_rounding_of_a_source_is_bounded_and_not_by_much(activation: nn.Module, dtype: str) -> None:
    kind = getattr(torch, dtype)
    for seed in range(5):
        torch.manual_seed(seed)
        net = (
            nn.Sequential(nn.Linear(6, 30), activation, nn.Linear(30, 30), activation, nn.Linear(30, 2)).to(kind).eval()
        )
        source: Source = read_source(net)
        points = _points(6, (np.full(6, -3.0), np.full(6, 3.0)), (dtype, dtype), 500, seed)
        with torch.no_grad():
            values = net(torch.from_numpy(points).to(kind)).double().numpy()
        apart = np.abs(values - source.network(points, exact=True)).astype(np.float64)
        allowed = own_rounding(source.network, points, dtype)
        assert np.all(apart <= allowed) and allowed.max() <= 1e4 * np.finfo(dtype).eps


def test_scikit_learn_models_are_run_too() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        two = MLPClassifier((6,), max_iter=20, random_state=0).fit(X, X[:, 0] > 0)
        many = MLPClassifier((6,), max_iter=20, random_state=0).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
        options: dict[str, Any] = {"hidden_layer_sizes": (6, 4), "max_iter": 20, "random_state": 0}
        line = MLPRegressor(activation="logistic", **options).fit(X, X[:, :2])
        single = MLPRegressor(**options).fit(X.astype(np.float32), X[:, 0].astype(np.float32))
        counts = MLPRegressor(loss="poisson", **options).fit(X, np.abs(X[:, 0]))
    for model, outputs in ((two, 1), (many, 3), (line, 2), (single, 1)):
        built = sw.transpile(model, (-3, 3))
        assert built.network.outputs == outputs and built.observed_error <= built.certificate.bound
    with pytest.raises(InvalidInput, match="output goes through exp"):
        sw.transpile(counts, (-3, 3))

    class Shifted(MLPRegressor):
        def predict(self, X: np.ndarray) -> np.ndarray:
            return np.asarray(super().predict(X)) + 1e-9

    Shifted.__module__, Shifted.__name__ = "sklearn.neural_network", "MLPRegressor"
    line.__class__ = Shifted
    with pytest.raises(InvalidInput, match="is not what its layers say"):
        sw.transpile(line, (-3, 3))


class _ByHand(nn.Module):
    """Weights without layers, one of them used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.shift = nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(torch.relu(x @ self.first.t() + self.shift), self.first.T)


def test_products_with_matrices_of_the_module_are_layers() -> None:
    built = sw.transpile(_ByHand().double().eval(), (-1, 1))
    assert built.network.heads == 4 and built.observed_error is not None and built.certificate is not None
    assert built.observed_error <= built.certificate.bound < 1e-12
