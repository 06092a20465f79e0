"""The residual stack by itself: named columns, inputs and fixed tokens, layers that repeat, and what cannot run."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from softwright.attention.stack import (
    FIXED,
    AttentionStack,
    Blueprint,
    HeadWeights,
    LayerWeights,
    Segment,
    Slots,
    check_blueprint,
)
from softwright.errors import InvalidInput
from softwright.result.constructed import tensors_of

SLOTS = Slots(x=2, sum=2, one=1)


def _blueprint() -> Blueprint:
    """Tokens average the words around them and the two of a bank, twice, and keep half of what they had."""
    words = np.zeros((2, SLOTS.width))
    words[:, :2] = np.eye(2)
    bank = np.tile(SLOTS.vector(one=1.0), (2, 1))
    bank[:, :2] = [[3.0, -1.0], [5.0, 7.0]]
    uniform = np.zeros((SLOTS.width, 1))
    head = HeadWeights(uniform, uniform, SLOTS.select("x"), SLOTS.select("sum").T)
    layer = LayerWeights([head], ("words",), ("words", "bank"), SLOTS.residual(("x", "x", 0.5)), "mean")
    segments = [Segment("words", "input", SLOTS.vector(one=1.0)[None], words), Segment("bank", FIXED, bank)]
    return Blueprint(SLOTS.places, segments, [layer, layer])


def test_columns_have_names() -> None:
    token = SLOTS.vector(x=2.0, one=1.0)
    assert token.tolist() == [2.0, 2.0, 0.0, 0.0, 1.0]
    assert (token @ SLOTS.select("x")).tolist() == [2.0, 2.0]
    moved = token @ SLOTS.residual(("x", "sum", 3.0), ("x", "x", 0.0))
    assert moved.tolist() == [0.0, 0.0, 6.0, 6.0, 1.0]


def test_layers_update_their_rows_and_nothing_else() -> None:
    stack = AttentionStack(_blueprint())
    assert (stack.depth, len(stack.distinct), stack.width, stack.fixed_tokens) == (2, 1, 5, 2)
    x = np.random.default_rng(0).normal(size=(3, 4, 2))
    before, middle, after = stack.states(stack.sequence({"input": torch.tensor(x)}))
    bank = np.broadcast_to(np.array([[3.0, -1.0], [5.0, 7.0]]), (3, 2, 2))
    for share, state in ((1.0, before), (0.5, middle), (0.25, after)):
        assert np.array_equal(state["bank"], before["bank"])
        assert np.allclose(state["words"][..., :2], share * x, rtol=0, atol=1e-15)
    first, second = (np.concatenate([share * x, bank], axis=1).mean(axis=1) for share in (1.0, 0.5))
    assert np.allclose(after["words"][..., 2:4], (first + second)[:, None], rtol=0, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_description_and_the_tensors_give_it_back(dtype: torch.dtype) -> None:
    stack = AttentionStack(_blueprint(), dtype)
    again = AttentionStack.rebuilt(stack.describe(), tensors_of(stack))
    assert again.describe() == stack.describe() and again.dtype == dtype
    inputs = {"input": torch.ones(1, 3, 2, dtype=dtype)}
    assert torch.equal(
        [*again.states(again.sequence(inputs))][-1]["words"], [*stack.states(stack.sequence(inputs))][-1]["words"]
    )


def test_a_blueprint_that_cannot_run_is_refused_with_all_its_faults() -> None:
    good = _blueprint()
    narrow = HeadWeights(*(np.zeros((3, 1)) for _ in range(4)))
    bad = LayerWeights([narrow], ("words",), ("nobody",))
    with pytest.raises(InvalidInput) as caught:
        check_blueprint(Blueprint(good.slots, good.segments, [*good.program, bad]))
    assert "nobody" in str(caught.value) and "another width" in str(caught.value)
    check_blueprint(good)
