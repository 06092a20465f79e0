"""What is chosen by comparisons, weights that a forward makes of weights, and sums over columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import softwright as sw
from softwright.errors import InvalidInput


class Middle(nn.Module):
    """Two Linear layers beside one another, something of both, and a third layer."""

    def __init__(self, middle: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.a, self.b, self.one, self.end = nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(4, 1), nn.Linear(6, 2)
        self.middle = middle

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.end(self.middle(self.a(x), self.b(x)))


CHOICES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "maximum of a number": lambda a, b: torch.maximum(a, torch.full_like(a, 0.3)),
    "leaky relu": lambda a, b: torch.where(a > 0, a, 0.1 * a),
    "turned": lambda a, b: torch.where(a <= 0, 0.25 * a, a),
    "relu": lambda a, b: torch.where(a >= 0, a, torch.zeros_like(a)),
    "about one": lambda a, b: torch.where(a > 1, a, 2 * a - 1),
    "mask": lambda a, b: a * (a > 0).to(a.dtype),
    "filled": lambda a, b: a.masked_fill(a < 0, 0.0),
    "threshold": lambda a, b: functional.threshold(a, 0.5, 0.5),
    "columns less their mean": lambda a, b: torch.relu(a - a.mean(-1, keepdim=True)),
    "columns and their sum": lambda a, b: torch.relu(a + b.sum(dim=-1, keepdim=True)),
}


@pytest.mark.parametrize("name", CHOICES)
def test_continuous_choices_are_read_exactly(name: str) -> None:
    module = Middle(CHOICES[name]).double().eval()
    built = sw.transpile(module, box=(-2, 2), progress=False)
    x = 4 * torch.rand(500, 4, dtype=torch.float64) - 2
    with torch.no_grad():
        apart = float((built.network(x) - module(x)).abs().max())
    assert built.certificate is not None
    assert apart <= built.certificate.bound + 1e-14


@pytest.mark.parametrize(
    "middle",
    [
        lambda a, b: torch.where(a > 0, a, a + 1e-12),
        lambda a, b: torch.where(b > 0, a, 0.1 * a),
        lambda a, b: torch.where(a > 1e-9, a, 0.5 * a),
        lambda a, b: functional.threshold(a, 0.5, 0.25),
        lambda a, b: (a > 0).to(a.dtype),
    ],
)
def test_choices_that_jump_are_refused(middle: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(InvalidInput, match=r"jumps|no attention form"):
        sw.transpile(Middle(middle).double().eval(), box=(-2, 2), progress=False)


class Weighted(nn.Module):
    def __init__(self, weight: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.a, self.weight = nn.Linear(4, 6), weight
        self.down, self.up = nn.Parameter(torch.randn(2, 6)), nn.Parameter(torch.randn(6, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(torch.relu(self.a(x)), self.weight(self.down, self.up))


WEIGHTS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "low rank": lambda down, up: down + 0.5 * (up @ down)[:2],
    "mask": lambda down, up: down * (up.T > 0),
    "positive": lambda down, up: functional.softplus(down),
    "normalised": lambda down, up: functional.normalize(down, dim=1),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_made_of_weights_are_those_that_the_source_uses(name: str, dtype: torch.dtype) -> None:
    module = Weighted(WEIGHTS[name]).to(dtype).eval()
    before = [parameter.clone() for parameter in module.parameters()]
    built = sw.transpile(module, box=(-2, 2), progress=False)
    x = torch.randn(100, 4, dtype=dtype).clamp(-2, 2)
    with torch.no_grad():
        apart = float((built.network(x) - module(x)).abs().max())
    assert apart < (1e-13 if dtype == torch.float64 else 1e-5)
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))


def test_random_weights_are_no_weights() -> None:
    with pytest.raises(InvalidInput):
        sw.transpile(Weighted(lambda down, up: functional.dropout(down, 0.5)).double().eval(), box=(-2, 2))


@pytest.mark.parametrize("equation", ["bi,ij->bj", "...i,ij->...j", "bi,ji->bj"])
def test_einsum_over_the_last_axis_is_a_layer(equation: str) -> None:
    class Summed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.w = nn.Linear(4, 6), nn.Parameter(torch.randn(6, 6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(torch.einsum(equation, torch.relu(self.a(x)), self.w))

    module = Summed().double().eval()
    built = sw.transpile(module, box=(-2, 2), progress=False)
    assert not built.parts  # one network, not cut
    x = torch.randn(20, 4, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(built.network(x), module(x), atol=1e-12)


# Lines of nodes between the layers: kind, operands -> results.
NODES: dict[str, tuple[str, bool]] = {
    "Max of two": ("Max s t -> a", True),
    "Min of a number": ("Min s c -> a", True),
    "Where": ("Less s z -> g; Mul s c -> q; Where g q s -> a", True),
    "Where and Not": ("Greater s z -> g; Not g -> n; Where n z s -> a", True),
    "Where that jumps": ("Greater s z -> g; Where g s c -> a", False),
    "a gate of a Split": ("Split w -> p q; Sigmoid p -> r; Mul r q -> a", True),
    "ReduceMean": ("ReduceMean s axes -> m; Sub s m -> d; Relu d -> a", True),
    "log sigmoid": ("Sigmoid s -> g; Log g -> a", True),
    "tanhshrink": ("Tanh s -> g; Sub s g -> a", True),
}


@pytest.mark.parametrize("name", NODES)
def test_the_same_in_onnx_graphs(name: str, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    lines, continuous = NODES[name]
    rng = np.random.default_rng(4)
    make = onnx.helper.make_node
    arrays = {
        "w1": rng.normal(size=(4, 6)), "b1": rng.normal(size=6), "w2": rng.normal(size=(4, 6)),
        "w3": rng.normal(size=(4, 12)), "end": rng.normal(size=(6, 2)), "z": 0.0, "c": 0.1,
    }  # fmt: skip
    constants = [onnx.numpy_helper.from_array(np.asarray(v, dtype=np.float64), k) for k, v in arrays.items()]
    constants.append(onnx.numpy_helper.from_array(np.array([-1], dtype=np.int64), "axes"))
    first = [
        make("Gemm", ["x", "w1", "b1"], ["s"]),
        make("MatMul", ["x", "w2"], ["t"]),
        make("MatMul", ["x", "w3"], ["w"]),
    ]
    body = []
    for line in lines.split("; "):
        (kind, *given), results = (side.split() for side in line.split(" -> "))
        options = {"axis": 1, "num_outputs": 2} if kind == "Split" else {}
        body.append(make(kind, given, results, **options))
    double = onnx.TensorProto.DOUBLE
    graph = onnx.helper.make_graph(
        [*first, *body, make("MatMul", ["a", "end"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", double, [None, 4])],
        [onnx.helper.make_tensor_value_info("y", double, [None, 2])],
        constants,
    )
    path = tmp_path / "g.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)]), str(path))
    if continuous:  # reading and graph are compared at thousands of points before anything is built
        assert sw.transpile(path, box=(-2, 2), progress=False).certificate is not None
    else:
        with pytest.raises(InvalidInput, match="jumps"):
            sw.transpile(path, box=(-2, 2), progress=False)
