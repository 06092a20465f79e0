"""ONNX files: damaged bytes, graphs that contradict themselves, attributes and tensors of wrong types and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from hostility.folder import Folder
from hostility.mutations import garbled, text

OPERATORS = (
    "Gemm", "MatMul", "Add", "Relu", "Clip", "Gelu", "HardSigmoid", "LeakyRelu", "Elu", "Tanh", "Sigmoid", "Erf", "Mul",
    "Div", "Sub", "Constant", "Identity", "Loop", "If", "Softplus", "Cast", "Reshape", "BatchNormalization",
    "Frobnicate", "",
)  # fmt: skip
ATTRIBUTES: tuple[Any, ...] = (0, 1, -1, 2.5, float("nan"), float("inf"), "text", [1, 2], [0.5], ["a", "b"], b"\xff")


def model(rng: np.random.Generator, activation: str = "Relu") -> Any:
    weights = {
        "W1": rng.normal(size=(3, 2)), "b1": rng.normal(size=3), "W2": rng.normal(size=(1, 3)),
        "b2": rng.normal(size=1),
    }  # fmt: skip
    nodes = [
        helper.make_node("Gemm", ["x", "W1", "b1"], ["h"], transB=1),
        helper.make_node(activation, ["h"], ["a"]),
        helper.make_node("Gemm", ["a", "W2", "b2"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", int(rng.choice([13, 17, 20])))])


class OnnxFiles:
    def prepare(self, folder: Folder) -> None:
        """Nothing is needed."""

    def spoil(self, rng: np.random.Generator, content: Any) -> None:
        """One change to a graph."""
        graph = content.graph
        node = graph.node[rng.integers(len(graph.node))] if len(graph.node) else graph.node.add()
        tensor = (
            graph.initializer[rng.integers(len(graph.initializer))]
            if len(graph.initializer)
            else graph.initializer.add()
        )
        names = ["x", "h", "a", "y", "W1", "b1", "", text(rng).encode("utf-8", "replace").decode()[:30]]
        match rng.integers(14):
            case 0:
                node.op_type = OPERATORS[rng.integers(len(OPERATORS))]
            case 1 if len(node.input):
                node.input[rng.integers(len(node.input))] = str(rng.choice(names))
            case 2:
                node.input.append(str(rng.choice(names)))
            case 3 if len(node.output):
                node.output[0] = str(rng.choice(names))
            case 4:
                attribute = ATTRIBUTES[rng.integers(len(ATTRIBUTES))]
                name = str(
                    rng.choice(["alpha", "beta", "transA", "transB", "min", "max", "approximate", "value", "to"])
                )
                node.attribute.append(helper.make_attribute(name, attribute))
            case 5:
                tensor.dims[:] = [int(n) for n in rng.choice([0, 1, 2, 3, -1, 2**31, 2**62], rng.integers(0, 4))]
            case 6:
                tensor.data_type = int(rng.choice([0, 1, 2, 6, 7, 8, 9, 10, 11, 14, 16, 23, 99]))
            case 7:
                tensor.raw_data = rng.bytes(int(rng.integers(0, 40)))
            case 8:
                tensor.data_location = TensorProto.EXTERNAL
                entry = tensor.external_data.add()
                entry.key = "location"
                entry.value = str(rng.choice(["../../../etc/passwd", "/etc/passwd", "t.csv", "", "/dev/zero"]))
            case 9:
                del graph.output[:]
            case 10:
                del graph.input[:]
            case 11:
                graph.node.append(node)
            case 12 if len(graph.input):
                shape = graph.input[0].type.tensor_type.shape
                del shape.dim[:]
                for size in rng.choice([0, 1, 2, 2**40], rng.integers(0, 4)):
                    shape.dim.add().dim_value = int(size)
            case _:
                content.opset_import[0].version = int(rng.choice([0, 1, 7, 99, 2**40]))

    def attack(self, rng: np.random.Generator, folder: Folder) -> str:
        content = model(rng, str(rng.choice(["Relu", "Tanh", "Sigmoid", "HardSigmoid", "LeakyRelu", "Elu", "Gelu"])))
        if rng.random() < 0.35:
            data = garbled(rng, content.SerializeToString())
        else:
            for _ in range(rng.integers(1, 4)):
                self.spoil(rng, content)
            data = content.SerializeToString()
        path = folder.write("m.onnx", data)
        return folder.run("transpile", path, "--box", "-1:1", *(() if rng.random() < 0.5 else ("--no-certify",)))
