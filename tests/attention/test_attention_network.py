"""`AttentionNetwork`: every way to evaluate a network gives the same numbers, and it is an ordinary torch module."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from softwright.attention import AttentionNetwork, Axis, Head, evaluate, tensors_of
from softwright.attention.self_attention import SelfAttentionNetwork, SumOfLinear
from softwright.domain import Box
from softwright.errors import InvalidInput
from tests.attention.random_heads import grid_of, heads, rounding_slack, scattered_head, unit_points


def unit_box(dim: int) -> Box:
    return Box.from_bounds(-np.ones(dim), np.ones(dim))


@st.composite
def head_lists(draw: st.DrawFn) -> list[Head]:
    dim, outputs = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return [draw(heads(dim=dim, outputs=outputs)) for _ in range(draw(st.integers(1, 3)))]


@given(head_lists(), st.sampled_from(["float64", "float32"]))
def test_all_forms_agree(parts: list[Head], dtype: str) -> None:
    """Dense sdpa, factorised, explicit self-attention and NumPy: a few ulps scaled by sizes."""
    dim = parts[0].dim
    network = AttentionNetwork(parts, unit_box(dim), getattr(torch, dtype))
    stored = network.heads()  # the numbers that run, after rounding to the dtype
    t = unit_points(dim)
    reference = evaluate([Head(h.keys, h.biases, h.values, h.slopes) for h in stored], t)
    slack = sum(rounding_slack(head, dtype) for head in stored) + rounding_slack(stored[0]) * len(stored)
    x = torch.tensor(t, dtype=network.dtype)
    for name, y in {
        "sdpa": network(x),
        "factorised": network(x, engine="factorised"),
        "self-attention": SelfAttentionNetwork(network)(x),
    }.items():
        assert y.dtype == network.dtype
        # 4: float32 grids round the sum of the axes' biases once more than the factorised form does
        assert np.abs(y.double().numpy() - reference).max() <= 4 * slack, name


@given(head_lists())
def test_stored_heads_are_the_given_heads(parts: list[Head]) -> None:
    network = AttentionNetwork(parts, unit_box(parts[0].dim))
    t = unit_points(parts[0].dim)
    for given_head, stored in zip(parts, network.heads(), strict=True):
        assert stored.structure == given_head.structure
        assert np.array_equal(stored.keys, given_head.keys)
        assert np.abs(stored(t) - given_head(t)).max() <= 4 * rounding_slack(given_head)
    assert network.tokens == sum(head.tokens for head in parts)
    assert network.parameter_count == sum(head.parameters for head in parts)


@pytest.fixture
def plane() -> AttentionNetwork:
    """Two heads, one of them a grid with affine values, on a box far from the unit frame."""
    rng = np.random.default_rng(3)
    parts = [grid_of(rng, [3, 4], 2, True, 2.0), scattered_head(rng, 2, 2, 5, affine=True, sharpness=2.0)]
    return AttentionNetwork(parts, Box(x=(10, 14), y=(-3, 1)))


@pytest.mark.parametrize("shape", [(2,), (1, 2), (7, 2), (3, 4, 2), (2, 1, 3, 2)])
@pytest.mark.parametrize("engine", ["sdpa", "factorised"])
def test_any_leading_shape(plane: AttentionNetwork, shape: tuple[int, ...], engine: str) -> None:
    x = torch.tensor(plane.box.sample(int(np.prod(shape)) // 2).reshape(shape))
    y = plane(x, engine=engine)
    assert y.shape == (*shape[:-1], 2)
    assert torch.equal(y.reshape(-1, 2), plane(x.reshape(-1, 2), engine=engine))


def test_no_points_are_no_values(plane: AttentionNetwork) -> None:
    assert plane(torch.zeros(0, 2, dtype=torch.float64)).shape == (0, 2)
    assert plane(torch.zeros(0, 3, 2, dtype=torch.float64)).shape == (0, 3, 2)


def test_the_unit_frame_is_part_of_the_network(plane: AttentionNetwork) -> None:
    x = plane.box.sample(50)
    wanted = evaluate(plane.heads(), plane.box.to_unit(x))
    assert np.abs(plane.evaluate(x) - wanted).max() <= 1e-12


def test_large_batches_are_cut_into_chunks(plane: AttentionNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.tensor(plane.box.sample(300))
    whole = {engine: plane(x, engine=engine) for engine in ("sdpa", "factorised")}
    monkeypatch.setattr("softwright.chunks.MOST_BYTES", 5_000)
    for engine, y in whole.items():
        assert torch.allclose(plane(x, engine=engine), y, rtol=0, atol=1e-13)


@pytest.mark.parametrize("engine", ["sdpa", "factorised"])
def test_gradients_by_autograd(plane: AttentionNetwork, engine: str) -> None:
    x = torch.tensor(plane.box.sample(6), requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: plane(v, engine=engine), (x,))


def test_gradients_of_the_self_attention_form(plane: AttentionNetwork) -> None:
    x = torch.tensor(plane.box.sample(4), requires_grad=True)
    assert torch.autograd.gradcheck(SelfAttentionNetwork(plane), (x,))


def test_weights_can_be_trained_further(plane: AttentionNetwork) -> None:
    plane.requires_grad_(True)
    x = torch.tensor(plane.box.sample(20))
    plane(x).square().sum().backward()
    for name, parameter in plane.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name


def test_weights_are_frozen_unless_asked_for(plane: AttentionNetwork) -> None:
    assert not any(parameter.requires_grad for parameter in plane.parameters())


def test_state_dict_round_trip(plane: AttentionNetwork) -> None:
    state = {name: tensor.clone() for name, tensor in plane.state_dict().items()}
    assert {"center", "scale", "layer.heads.0.keys", "layer.heads.1.slopes"} <= set(state)
    zero = AttentionNetwork([head.scaled(0.0) for head in plane.heads()], plane.box)
    x = torch.tensor(plane.box.sample(50))
    assert torch.count_nonzero(zero(x)) == 0
    zero.load_state_dict(state)
    assert torch.equal(zero(x), plane(x))


def test_to_float32_and_back(plane: AttentionNetwork) -> None:
    x = plane.box.sample(200).astype(np.float32).astype(np.float64)
    single = AttentionNetwork(plane.heads(), plane.box, torch.float32)
    assert single.dtype == torch.float32
    assert np.abs(single.evaluate(x) - plane.evaluate(x)).max() <= 1e-4
    converted = AttentionNetwork(plane.heads(), plane.box).to(torch.float32)
    assert np.array_equal(converted.evaluate(x), single.evaluate(x))


def test_float64_inside_rounds_once(plane: AttentionNetwork) -> None:
    x = torch.tensor(plane.box.sample(300), dtype=torch.float32)
    single = AttentionNetwork(plane.heads(), plane.box, torch.float32, engine="double")
    exact = AttentionNetwork(single.heads(), plane.box)
    exact.center.copy_(single.center.double())
    exact.scale.copy_(single.scale.double())
    assert torch.equal(single(x), exact(x.double()).float()) and single(x).dtype == torch.float32
    assert not torch.equal(single(x), single(x, engine="sdpa"))
    single.engine = "sdpa"
    assert torch.equal(single(x), single(x, engine="sdpa"))
    with pytest.raises(InvalidInput, match="choose from sdpa"):
        single.engine = "fast"
    single.engine = "double"
    assert AttentionNetwork.rebuilt(single.describe(), tensors_of(single)).engine == "double"
    assert "engine" not in plane.describe()  # files of networks that run as ever are as ever


def test_wrong_input_names_the_remedy(plane: AttentionNetwork) -> None:
    with pytest.raises(InvalidInput, match=r"last axis must hold .*x, y.* got .*\(5, 3\)"):
        plane(torch.zeros(5, 3, dtype=torch.float64))
    with pytest.raises(InvalidInput, match=r"last axis must hold .*x, y"):
        plane(torch.zeros((), dtype=torch.float64))
    with pytest.raises(InvalidInput, match=r"x.to\(torch.float64\) or network.to\(torch.float32\)"):
        plane(torch.zeros(5, 2, dtype=torch.float32))
    with pytest.raises(InvalidInput, match="choose from sdpa, factorised"):
        plane(torch.zeros(5, 2, dtype=torch.float64), engine="fast")


def test_networks_that_cannot_be() -> None:
    flat, deep = (
        grid_of(np.random.default_rng(0), [2], 1, False, 1.0),
        grid_of(np.random.default_rng(0), [2, 2], 2, False, 1.0),
    )
    with pytest.raises(InvalidInput, match="no heads given"):
        AttentionNetwork([], unit_box(1))
    with pytest.raises(InvalidInput) as caught:
        AttentionNetwork([flat, deep], unit_box(3), torch.float16)
    assert len(caught.value.faults) == 3


def test_mutated_grid_weights_are_no_longer_taken_for_a_grid() -> None:
    head = grid_of(np.random.default_rng(0), [3, 4], 1, False, 1.0)
    t = unit_points(2)
    for name, place in (("keys", (5, 0)), ("biases", (5,))):
        network = AttentionNetwork([head], unit_box(2))
        with torch.no_grad():
            next(iter(network.layer)).get_parameter(name)[place] += 0.7
        (stored,) = network.heads()
        assert stored.structure == "scattered"
        assert np.abs(stored(t) - network.evaluate(t)).max() <= 1e-13
        assert np.abs(stored(t) - head(t)).max() > 1e-3


def test_a_grid_with_other_axes_is_still_a_grid() -> None:
    head = grid_of(np.random.default_rng(0), [3, 4], 1, False, 1.0)
    network = AttentionNetwork([head], unit_box(2))
    with torch.no_grad():
        next(iter(network.layer)).keys.mul_(2.0)
    (stored,) = network.heads()
    assert stored.structure == "grid"
    assert np.abs(stored(unit_points(2)) - network.evaluate(unit_points(2))).max() <= 1e-13


def test_self_attention_is_spelt_out() -> None:
    """Z = sum P X Q + R, then W_V Z softmax((W_K Z)^T W_Q Z), computed here without any of the library's modules."""
    rng = np.random.default_rng(1)
    network = AttentionNetwork([scattered_head(rng, 2, 2, 4, affine=True, sharpness=1.0)], unit_box(2))
    form = SelfAttentionNetwork(network).heads[0]
    tokens = form.get_submodule("tokens")
    assert isinstance(tokens, SumOfLinear)
    x = torch.tensor(unit_points(2)[:5])
    W_Q, W_K, W_V = (form.get_buffer(name) for name in ("W_Q", "W_K", "W_V"))
    for point in x:
        Z = sum((P @ point[:, None] @ Q for P, Q in zip(tokens.P, tokens.Q, strict=True)), tokens.R)
        out = W_V @ Z @ torch.softmax((W_K @ Z).T @ (W_Q @ Z), dim=0)  # (m, N)
        assert torch.allclose(out, out[:, :1].expand_as(out), rtol=0, atol=1e-14)  # every token asks the same question
        assert torch.allclose(out[:, 0], network(point), rtol=0, atol=1e-14)


def test_gates_far_from_the_origin_survive_float32() -> None:
    # |x - 1000| with gates of steepness 1e5: the centre is subtracted before anything is multiplied.
    head = Head(np.array([[-1e5], [1e5]]), np.zeros(2), np.zeros((2, 1)), np.array([[[-1.0]], [[1.0]]]), "gates")
    box = Box(x=(999, 1001))
    network = AttentionNetwork([head], box, torch.float32)
    x = box.sample(1000).astype(np.float32).astype(np.float64)
    assert np.abs(network.evaluate(x)[:, 0] - np.abs(x[:, 0] - 1000)).max() <= 1e-5


def test_printed_form_is_short(plane: AttentionNetwork) -> None:
    assert plane.extra_repr() == "x, y -> 2 output(s), 17 tokens, torch.float64"


def test_single_token_axes() -> None:
    idle = Axis(np.zeros(1), np.zeros(1))
    head = Head.on_grid([idle, Axis(np.array([-2.0, 2.0]), np.zeros(2)), idle], np.array([[1.0], [3.0]]))
    network = AttentionNetwork([head], unit_box(3))
    t = unit_points(3)
    wanted = 2 + np.tanh(2 * t[:, 1:2])
    for engine in ("sdpa", "factorised"):
        assert np.abs(network.evaluate(t, engine=engine) - wanted).max() <= 1e-15 * 8
