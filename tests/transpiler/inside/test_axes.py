"""Sources do other things with more axes than two, or fewer: what was read holds where it was seen to, and is refused
elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import softwright as sw
from softwright.errors import InvalidInput

Forward = Callable[[Any, torch.Tensor], torch.Tensor]


class Own(nn.Module):
    """4-6-3 with something between."""

    def __init__(self, between: Forward, shape: tuple[int, ...] = (6,)) -> None:
        super().__init__()
        self.a, self.b, self.between = nn.Linear(4, 6), nn.Linear(6, 3), between
        self.w = nn.Parameter(torch.randn(shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.between(self, self.a(x))))


def bias(net: Any, s: torch.Tensor) -> torch.Tensor:
    return s + net.w


SOURCES: dict[str, Callable[[], nn.Module]] = {
    "plain": lambda: Own(bias),
    "a bias with an axis": lambda: Own(bias, (1, 6)),
    "a bias with two axes": lambda: Own(bias, (1, 1, 6)),
    "equation": lambda: Own(lambda net, s: torch.einsum("bti,oi->bto", s, net.w), (6, 6)),
    "flatten": lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)),
    "flatten all": lambda: nn.Sequential(nn.Flatten(0), nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)),
    "columns": lambda: Own(lambda net, s: torch.cat([s[:, 3:], s[:, :3]], 1)),
    "normalised": lambda: Own(lambda net, s: nn.functional.batch_norm(s, net.w.detach(), net.w.detach() ** 2 + 1)),
    "a row of weights that one value meets": lambda: Own(lambda net, s: s.mean(-1, keepdim=True) * net.w),
    "largest of a column": lambda: Own(lambda net, s: torch.relu(s) - torch.max(s, -1, keepdim=True)[0]),
    "largest over rows": lambda: Own(lambda net, s: torch.relu(s) + torch.max(s, 0)[0]),
}
SHAPES = [(4,), (3, 4), (1, 4), (2, 3, 4), (3, 1, 4), (3, 2, 2), (3, 4, 1), (2, 2, 3, 4)]


@pytest.mark.parametrize("name", SOURCES)
def test_whatever_shape_it_is_given_it_is_the_source_or_refuses(name: str) -> None:
    torch.manual_seed(2)
    source = SOURCES[name]().double().eval()
    network = sw.transpile(source, box=(-1, 1), progress=False).network
    taken = 0
    for shape in SHAPES:
        x = 2 * torch.rand(shape, dtype=torch.float64) - 1
        try:
            with torch.no_grad():
                wanted = source(x)
        except (RuntimeError, IndexError, ValueError):
            continue
        try:
            found = network(x)
        except InvalidInput as error:
            assert "axes" in str(error)
            continue
        taken += 1
        assert found.shape == wanted.shape and torch.allclose(found, wanted, atol=1e-9)
    assert taken


@pytest.mark.parametrize("between", [lambda: nn.PReLU(6), lambda: nn.BatchNorm1d(6), lambda: nn.GLU(1)])
def test_a_single_sequence_is_the_source_or_refused(between: Callable[[], nn.Module]) -> None:
    torch.manual_seed(3)
    layer = between()
    for tensor in (*layer.parameters(), *layer.buffers()):
        if tensor.is_floating_point():
            nn.init.uniform_(tensor, 0.2, 2.0)
    wide = 3 if isinstance(layer, nn.GLU) else 6
    source = nn.Sequential(nn.Conv1d(2, 6, 3, padding=1), layer, nn.Conv1d(wide, 6, 1), nn.ReLU()).double().eval()
    network = sw.transpile(source, box=(-1, 1), progress=False).network
    many = torch.rand(5, 2, 6, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(network(many), source(many), atol=1e-12)
    try:
        found = network(many[0])
    except InvalidInput as error:
        assert "axis 1 of 2 axes is not that of channels" in str(error)
        return
    with torch.no_grad():
        assert torch.allclose(found, source(many[0]), atol=1e-12)


def test_zeros_beside_an_image_are_in_the_range() -> None:
    """On (5, 6) every neuron is beyond its bend, on zeros none is."""
    source = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.GELU(), nn.Conv2d(3, 2, 1)).double().eval()
    padded, bare = (sw.transpile(source, box=(5, 6), progress=False), nn.Sequential(nn.Conv2d(1, 3, 3), nn.GELU()))
    (part,) = padded.parts.values()
    assert min(part.target["box"][0]) == 0.0 and max(part.target["box"][1]) == 6.0
    (part,) = sw.transpile(bare.double().eval(), box=(5, 6), progress=False).parts.values()
    assert min(part.target["box"][0]) == 5.0


onnx = pytest.importorskip("onnx")
node = onnx.helper.make_node
_RNG = np.random.default_rng(4)
GRAPHS = {
    "Concat, axis 1": ([node("Concat", ["h", "s"], ["y"], axis=1)], False),
    "Concat, axis 2": ([node("Concat", ["h", "s"], ["y"], axis=2)], True),
    "ReduceMean, axis 1": ([node("ReduceMean", ["h", "one"], ["m"]), node("Sub", ["h", "m"], ["y"])], False),
    "ReduceMean, axis 2": ([node("ReduceMean", ["h", "two"], ["m"]), node("Sub", ["h", "m"], ["y"])], True),
    "Slice, axis 1": ([node("Slice", ["h", "zero", "two", "one"], ["y"])], False),
    "Slice, axis 2": ([node("Slice", ["h", "zero", "two", "two"], ["y"])], True),
    "Gather, axis 1": ([node("Gather", ["h", "zero"], ["y"], axis=1)], False),
    "Softmax, axis 1": ([node("Softmax", ["h"], ["y"], axis=1)], False),
    "BatchNormalization": ([node("BatchNormalization", ["h", "v", "v", "v", "v"], ["y"])], False),
    "rows of all": ([node("Flatten", ["h"], ["y"])], False),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("length", [6, None])
def test_a_graph_for_sequences_is_read_along_its_last_axis(name: str, length: int | None, tmp_path: Path) -> None:
    nodes, read = GRAPHS[name]
    constants = {
        "w": _RNG.normal(size=(4, 6)), "v": _RNG.uniform(1, 2, 6),
        **{text: np.array([i]) for i, text in enumerate(("zero", "one", "two"))},
    }  # fmt: skip
    graph = onnx.helper.make_graph(
        [node("MatMul", ["x", "w"], ["s"]), node("Relu", ["s"], ["h"]), *nodes],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, [None, length, 4])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.DOUBLE, None)],
        [onnx.numpy_helper.from_array(array, key) for key, array in constants.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    (tmp_path / "g.onnx").write_bytes(model.SerializeToString())
    if not read:
        with pytest.raises(InvalidInput, match=name.split(",", maxsplit=1)[0] if "," in name else "node"):
            sw.transpile(tmp_path / "g.onnx", box=(-1, 1), progress=False)
        return
    built = sw.transpile(tmp_path / "g.onnx", box=(-1, 1), progress=False)
    x = _RNG.uniform(-1, 1, (3, 6, 4))
    wanted = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})[0]
    assert np.abs(built(x) - wanted).max() <= built.certificate.bound


@pytest.mark.parametrize("shape", [None, [4], [None, 4], ["n", 4]])
def test_a_graph_need_not_say_how_many_axes_it_takes(shape: list[Any] | None, tmp_path: Path) -> None:
    constants = {"w": _RNG.normal(size=(4, 6)), "v": _RNG.normal(size=(6, 2))}
    graph = onnx.helper.make_graph(
        [node("MatMul", ["x", "w"], ["s"]), node("Relu", ["s"], ["h"]), node("MatMul", ["h", "v"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, shape)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.DOUBLE, None)],
        [onnx.numpy_helper.from_array(array, key) for key, array in constants.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    (tmp_path / "g.onnx").write_bytes(model.SerializeToString())
    built = sw.transpile(tmp_path / "g.onnx", box=(-1, 1), progress=False)
    x = _RNG.uniform(-1, 1, (5, 4))
    wanted = np.maximum(x @ constants["w"], 0) @ constants["v"]
    assert np.abs(built(x) - wanted).max() <= built.certificate.bound
