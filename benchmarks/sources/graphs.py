"""ONNX files: torch's two exporters, hand-made graphs of opsets 13 to 23, and skl2onnx."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from sources.case import Case
from sources.estimators import fitted
from sources.mlps import mlp

FOLDER = Path(tempfile.mkdtemp(prefix="networks-"))


class Skip(nn.Module):
    """A residual network."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.end = nn.Linear(6, 20), nn.Linear(20, 6), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.end(x + self.down(torch.relu(self.up((x - 0.5) / 2.0))))


def exported(name: str, module: Callable[[], nn.Module], dynamo: bool, opset: int) -> Path:
    torch.manual_seed(opset)
    net = module().float().eval()
    width = next(layer.in_features for layer in net.modules() if isinstance(layer, nn.Linear))
    path = FOLDER / f"{name.replace(' ', '_')}-{'dynamo' if dynamo else 'legacy'}-{opset}.onnx"
    logging.getLogger("torch.onnx").setLevel(logging.CRITICAL)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        options: dict[str, Any] = {"dynamo": dynamo, "opset_version": opset, "input_names": ["x"]}
        if dynamo:
            options["dynamic_shapes"] = ({0: torch.export.Dim("n")},)
        else:
            options["dynamic_axes"] = {"x": {0: "n"}}
        torch.onnx.export(net, (torch.randn(3, width),), str(path), **options)
    return path


def hand_made(name: str, opset: int, kind: type = np.float32) -> Path:
    """Gemm, something in between, Gemm, as graphs of other tools have it."""
    import onnx

    node = onnx.helper.make_node
    rng = np.random.default_rng(opset)
    constants: dict[str, Any] = {
        "w1": rng.normal(size=(5, 12)),
        "b1": rng.normal(size=12),
        "w2": rng.normal(size=(12, 3)),
        "b2": rng.normal(size=3),
        "mean": rng.normal(size=5),
        "spread": rng.uniform(0.5, 2.0, size=5),
        "half": 0.5,
        "six": 6.0,
        "three": 3.0,
    }
    constants = {key: np.asarray(value, dtype=kind) for key, value in constants.items()}
    table = {"rows": np.array([4, 2, 0, 1, 3], dtype=np.int64), "shape": np.array([-1, 5], dtype=np.int64)}
    element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    first = [node("MatMul", ["h", "w1"], ["m"]), node("Add", ["m", "b1"], ["s"])]
    last = [node("Gemm", ["a", "w2", "b2"], ["y"])]
    middle = {
        "standardised": ([node("Sub", ["x", "mean"], ["c"]), node("Div", ["c", "spread"], ["h"])], ["Tanh"]),
        "cast and reshaped": (
            [node("Reshape", ["x", "shape"], ["r"]), node("Cast", ["r"], ["h"], to=element)],
            ["Relu"],
        ),
        "flattened": ([node("Flatten", ["x"], ["h"])], ["Elu"]),
        "gathered": ([node("Gather", ["x", "rows"], ["h"], axis=1)], ["Sigmoid"]),
        "rows of a constant": (
            [node("Gather", ["w1", "rows"], ["w"], axis=0), node("MatMul", ["x", "w"], ["m2"])],
            ["LeakyRelu"],
        ),
        "hard swish": ([node("Identity", ["x"], ["h"])], ["HardSwish"]),
        "residual": ([node("Identity", ["x"], ["h"])], ["Relu"]),
    }[name]
    nodes, (activation,) = middle
    if name == "rows of a constant":
        first = [node("Add", ["m2", "b1"], ["s"])]
    nodes = [*nodes, *first, node(activation, ["s"], ["a" if name != "residual" else "p"])]
    if name == "residual":
        nodes += [node("Mul", ["s", "half"], ["q"]), node("Add", ["p", "q"], ["a"])]
    graph = onnx.helper.make_graph(
        [*nodes, *last],
        "g",
        [onnx.helper.make_tensor_value_info("x", element, [None, 5])],
        [onnx.helper.make_tensor_value_info("y", element, [None, 3])],
        [onnx.numpy_helper.from_array(array, key) for key, array in (constants | table).items()],
    )
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    made.ir_version = min(made.ir_version, 10)
    path = FOLDER / f"{name.replace(' ', '_')}-{opset}.onnx"
    onnx.save(made, str(path))
    return path


def graphs() -> list[Case]:
    """20 graphs over three exporters."""
    torches: list[tuple[str, Callable[[], nn.Module], bool, int]] = [
        *((name, lambda name=name: mlp(name, 3), False, opset) for name, opset in (
            ("ReLU", 13), ("GELU", 14), ("SiLU", 15), ("Hardtanh", 16), ("Softplus", 17), ("ELU", 18))),
        ("residual", Skip, False, 17),
        *((name, lambda name=name: mlp(name, 4), True, opset) for name, opset in (
            ("ReLU", 18), ("GELU", 20), ("Tanh", 21), ("SELU", 22), ("Mish", 23))),
        ("residual", Skip, True, 20),
    ]  # fmt: skip
    found = [
        Case(
            f"ONNX {name}, torch {'dynamo' if dynamo else 'legacy'}, opset {opset}",
            lambda name=name, make=make, dynamo=dynamo, opset=opset: exported(name, make, dynamo, opset),
        )
        for name, make, dynamo, opset in torches
    ]
    hands = (
        ("standardised", 13), ("cast and reshaped", 15), ("flattened", 17), ("gathered", 18),
        ("rows of a constant", 19), ("hard swish", 21), ("residual", 23),
    )  # fmt: skip
    return found + [
        Case(f"ONNX {name}, by hand, opset {opset}", lambda name=name, opset=opset: hand_made(name, opset))
        for name, opset in hands
    ]


def converted() -> list[Case]:
    """Files of skl2onnx: estimators and pipelines, regressors and classifiers, with and without `zipmap`."""

    def make(name: str, options: dict[str, Any]) -> Path:
        to_onnx = importlib.import_module("skl2onnx").to_onnx
        model, X = fitted(name)
        path = FOLDER / f"skl-{name.replace(' ', '_')}.onnx"
        given = {id(model): options} if options else None
        path.write_bytes(to_onnx(model, X[:1].astype(np.float32), options=given).SerializeToString())
        return path

    names: dict[str, dict[str, Any]] = {
        "MLPRegressor relu": {},
        "MLPRegressor tanh": {},
        "MLPRegressor two outputs": {},
        "MLPClassifier digits": {"zipmap": False},
        "MLPClassifier binary": {"zipmap": False},
        "StandardScaler, MLPRegressor": {},
        "MinMaxScaler, MLPRegressor": {},
        "StandardScaler, PCA, MLPRegressor": {},
        "RobustScaler, MLPClassifier": {"zipmap": False},
        "Normalizer-free MaxAbsScaler, MLPClassifier": {"zipmap": False},
    }
    return [
        Case(f"skl2onnx {name}", lambda name=name, options=options: make(name, options), (-2.0, 2.0))
        for name, options in names.items()
    ]
