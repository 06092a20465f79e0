"""The bound of a gradient step of a generalised linear model holds where it is hardest, and sees a changed weight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.attention.stack import apply_layer
from softwright.errors import InvalidInput
from softwright.methods.methods import METHODS as ROWS
from softwright.methods.network import InContextStack
from softwright.methods.prompts import read_prompt
from softwright.result.closed_form import ClosedForm

METHODS = ("logistic", "poisson", "robust")
_NORM = 1 - 1e-6  # keeps rounded float32 numbers inside the norms


def _built(method: str, **options: Any) -> sw.Built:
    return sw.in_context(method, 3, **{"solver": "gradient", "steps": 1, "sample": False, **options})


def _certified(stack: InContextStack, target: dict[str, Any]) -> ClosedForm:
    prove = ROWS[stack.constants.method].solvers["gradient"].certificate
    assert prove is not None
    return prove(stack, target)


def _prompts(rng: np.random.Generator, stack: InContextStack, count: int, n: int) -> tuple[np.ndarray, ...]:
    """x, y, (w, b) and a query at the rim: two clusters, one outlier, random rows; w along the rows in half of them."""
    c, d = stack.constants, stack.features
    x = rng.normal(size=(count, n, d))
    kind = rng.integers(0, 4, (count, 1, 1))
    x = np.where(kind == 1, np.sign(x[..., :1]) * rng.normal(size=(count, 1, d)), x)
    x *= c.x_bound * _NORM / np.linalg.norm(x, axis=2, keepdims=True)
    x[:, 1:] *= np.where(kind == 2, 0.0, 1.0)
    x *= np.where(kind == 3, rng.uniform(size=(count, n, 1)), 1.0)
    y = np.where(kind[..., 0] < 2, c.y_bound * np.sign(x[..., 0]), rng.uniform(-1, 1, (count, n)) * c.y_bound)
    w = np.concatenate([x[:, 0], np.ones((count, 1))], axis=1) * rng.choice([-1, 1], (count, 1))
    w = np.where(rng.uniform(size=(count, 1)) < 0.5, w, rng.normal(size=w.shape))
    w[:, d] *= bool(c.intercept)
    w *= c.w_bound * _NORM * rng.uniform(0, 1, (count, 1)) ** 0.2 / np.linalg.norm(w, axis=1, keepdims=True)
    if c.method == "poisson":
        s = (np.einsum("bnd,bd->bn", x, w[:, :d]) + w[:, d:]).max(axis=1, keepdims=True)
        w *= np.minimum(1.0, np.log(c.rate_bound) * _NORM / np.maximum(s, 1e-9))
    return x, y, w, x[:, :1]


def _errors(stack: InContextStack, x: np.ndarray, y: np.ndarray, w: np.ndarray, q: np.ndarray) -> tuple[float, float]:
    """The largest error of a coefficient and of a prediction after one step from a stream that holds w, long double."""
    c, d = stack.constants, stack.features
    prompt = read_prompt(x, y, q, None, c, stack.dtype, False)
    wr = torch.tensor(w, dtype=stack.dtype)
    stream = {name: tokens.clone() for name, tokens in stack.embed(prompt).items()}
    s, g = stack.slots["s"][0], slice(*stack.slots["g"])
    start, stop = stack.slots["x"]
    for name in ("data", "query"):
        stream[name][..., s] = torch.einsum("bnd,bd->bn", stream[name][..., start:stop], wr[:, : stop - start])
    stream["basis"][..., s] = wr[:, :d]
    stream["unit"][..., s] = torch.einsum("bnd,bd->bn", stream["unit"][..., g], wr[:, : stop - start])

    def long(tensor: torch.Tensor) -> np.ndarray:
        return np.asarray(tensor.double().numpy(), dtype=np.longdouble)

    S, Y, X, Q, V = (long(t) for t in (stream["data"][..., s], prompt.y, prompt.x, prompt.queries, wr))
    before = long(stream["query"][..., s])
    for position in (stack.head, stack.head + 1):
        stream = apply_layer(stack.layer_at(position), stream)
    scale = np.longdouble(c.loss_scale)
    slope = {
        "logistic": lambda: 1 / (1 + np.exp(-S)) - Y,
        "poisson": lambda: np.exp(S) - Y,
        "robust": lambda: scale * np.tanh((S - Y) / scale),
    }[c.method]()
    gradient = np.einsum("bnd,bn->bd", X, slope) / X.shape[1] + np.longdouble(c.penalty) * V[:, :d]
    constant = slope.mean(axis=1) * bool(c.intercept)
    eta = np.longdouble(c.step_size)
    coefficient = long(stream["basis"][..., s]) - (V[:, :d] - eta * gradient)
    step = np.einsum("bmd,bd->bm", Q, gradient) + constant[:, None]
    prediction = long(stream["query"][..., s]) - (before - eta * step)
    return float(np.abs(coefficient).max()), float(np.abs(prediction).max())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("options", [{}, {"order": 2, "penalty": 0.2, "loss_scale": 0.3}, {"dtype": "float32"}])
def test_a_step_stays_within_its_bound(method: str, options: dict[str, Any]) -> None:
    built = _built(method, max_rows=300, **options)
    assert built.certificate is not None, built.unproved
    rng = np.random.default_rng(7)
    for n in (1, 2, 40, 300):
        coefficient, prediction = _errors(built.network, *_prompts(rng, built.network, 6 if n > 40 else 24, n))
        assert coefficient <= built.certificate.bound
        assert prediction <= built.certificate.quantities["prediction_bound"]


def test_without_an_intercept() -> None:
    built = _built("logistic", intercept=False, max_rows=50)
    coefficient, prediction = _errors(built.network, *_prompts(np.random.default_rng(3), built.network, 60, 20))
    assert coefficient <= built.certificate.bound < 1e-7
    assert prediction <= built.certificate.quantities["prediction_bound"]


@pytest.mark.parametrize("method", METHODS)
def test_where_truncation_rules_the_bound_is_within_reach(method: str) -> None:
    """With one pair of heads and wide angles the error is truncation: the worst prompt seen is not far below."""
    built = _built(method, order=1, angle=0.3, penalty=0.0, max_rows=50, score_bound=30.0)
    worst = _errors(built.network, *_prompts(np.random.default_rng(5), built.network, 200, 2))[0]
    bound = built.certificate.bound if built.certificate is not None else np.nan
    assert worst <= bound <= 100 * worst


@pytest.mark.parametrize("method", METHODS)
def test_one_value_off_is_noticed(method: str) -> None:
    """Any single value that the two layers read: the analysis refuses the weights, or its bound grows."""
    built = _built(method, penalty=0.1)
    stack, proved = built.network, built.certificate.bound
    link, step = stack.layer_at(stack.head), stack.layer_at(stack.head + 1)
    tensors = [t for layer in (link, step) for t in (layer.Wq, layer.Wk, layer.Wv, layer.Wo)]
    tensors += [link.R, stack.base_link, stack.base_basis, stack.embed_data, stack.embed_query, stack.read_coefficient]
    rng = np.random.default_rng(11)
    for tensor in tensors:
        assert tensor is not None
        flat, places = tensor.view(-1), tensor.view(-1).nonzero()[:, 0].numpy()
        for place in rng.choice(places, min(4, len(places)), replace=False):
            kept = float(flat[place])
            flat[place] = kept * (1 + 1e-6)
            try:
                assert _certified(stack, {}).bound > 2 * proved
            except InvalidInput as error:
                assert "not the weights" in str(error)
            flat[place] = kept
    kept = stack.base_unit.clone()
    stack.base_unit[0, stack.slots["g"][0]] *= 1 + 1e-12
    with pytest.raises(InvalidInput, match="base_unit"):
        _certified(stack, {})
    stack.base_unit.copy_(kept)
    step.Wv[0, stack.slots["offset"][0], 0] = 1e-9  # where a zero belongs
    with pytest.raises(InvalidInput, match="Wv, head 0"):
        _certified(stack, {})


def test_a_changed_output_weight_breaks_the_old_bound_and_keeps_the_new_one() -> None:
    built = _built("logistic")
    stack, proved = built.network, built.certificate.bound
    stack.layer_at(stack.head + 1).Wo[0] *= 1 + 1e-6
    worst = _errors(stack, *_prompts(np.random.default_rng(2), stack, 60, 20))[0]
    assert built.certificate is None
    assert proved < worst <= _certified(stack, {}).bound


def test_larger_ranges_never_lower_the_bound() -> None:
    for method in METHODS:
        base = _built(method, score_bound=400.0, penalty=0.1).certificate.bound
        larger: list[dict[str, Any]] = [{"x_bound": 16.0}, {"w_bound": 16.0}, {"max_rows": 5000}]
        for change in [*larger, {"y_bound": 16.0}]:
            assert _built(method, score_bound=400.0, penalty=0.1, **change).certificate.bound > base


def test_the_certificate_is_stored(tmp_path: Path) -> None:
    built = _built("poisson")
    built.save(tmp_path / "stack.safetensors")
    loaded = sw.load(tmp_path / "stack.safetensors")
    assert loaded.certificate == built.certificate
    assert _certified(loaded.network, built.target).bound == built.certificate.bound
    assert sw.verify(tmp_path / "stack.safetensors").status == "VERIFIED"


def test_a_range_without_a_bound_says_why() -> None:
    assert "raise score_bound" in _built("robust", score_bound=5.0).unproved
    assert "lower rate_bound" in _built("poisson", rate_bound=1e25).unproved
    assert "leave scaling off" in _built("logistic", scaling=True).unproved
