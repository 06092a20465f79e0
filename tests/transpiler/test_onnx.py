"""ONNX graphs: constants are carried as the file holds them, inputs keep their places, and bad files get our errors."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import erf
from torch import nn

import softwright as sw
from softwright.errors import FileFormatError, InvalidInput
from softwright.targets.mlp.activation import Activation, spellings

onnx = pytest.importorskip("onnx")
node = onnx.helper.make_node
_RNG = np.random.default_rng(0)
W1, B1, W2, B2 = _RNG.normal(size=(5, 3)), _RNG.normal(size=5), _RNG.normal(size=(2, 5)), _RNG.normal(size=2)
X = _RNG.uniform(-1, 1, (200, 3)).astype(np.float32).astype(np.float64)


def model(
    nodes: list[Any], constants: dict[str, Any], kind: type = np.float64, outputs: tuple[str, ...] = ("y",)
) -> Any:
    """A graph from x (n, 3); the constants get the dtype."""
    element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    arrays = {name: np.asarray(value, dtype=kind) for name, value in constants.items()}
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info("x", element, [None, 3])],
        [onnx.helper.make_tensor_value_info(name, element, [None, None]) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)])


def between(nodes: list[Any], kind: type = np.float64, **constants: Any) -> Any:
    """Gemm, the nodes from s to a, Gemm."""
    layers = {"w1": W1, "b1": B1, "w2": W2, "b2": B2}
    first, last = node("Gemm", ["x", "w1", "b1"], ["s"], transB=1), node("Gemm", ["a", "w2", "b2"], ["y"], transB=1)
    return model([first, *nodes, last], layers | constants, kind)


def written(path: Path, content: Any) -> Path:
    path.write_bytes(content.SerializeToString())
    return path


def gelu(root: float, kind: type = np.float64, half: float = 0.5, one: float = 1.0) -> Any:
    return between(
        [
            node("Div", ["s", "root"], ["e"]),
            node("Erf", ["e"], ["f"]),
            node("Add", ["f", "one"], ["g"]),
            node("Mul", ["s", "g"], ["m"]),
            node("Mul", ["m", "half"], ["a"]),
        ],
        kind,
        root=root,
        one=one,
        half=half,
    )


def layers(activation: Any, kind: type = np.float64) -> np.ndarray:
    """The network itself at X, in float64, with the constants as the dtype stores them."""
    w1, b1, w2, b2 = (array.astype(kind).astype(np.float64) for array in (W1, B1, W2, B2))
    return activation(X @ w1.T + b1) @ w2.T + b2


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("root", [math.sqrt(2), float(np.float32(math.sqrt(2))), 1.4142, 1.41421])
def test_constants_of_a_gelu_are_carried(tmp_path: Path, root: float, kind: type) -> None:
    built = sw.transpile(written(tmp_path / "gelu.onnx", gelu(root, kind)), (-1, 1), dtype="float64", tol=1e-9)
    held = float(np.asarray(root, dtype=kind))
    exact = layers(lambda s: 0.5 * s * (1 + erf(s / held)), kind)
    assert np.abs(built(X) - exact).max() <= built.certificate.bound <= 1e-9
    if root == 1.4142:
        ideal = layers(lambda s: 0.5 * s * (1 + erf(s / math.sqrt(2))), kind)
        assert np.abs(built(X) - ideal).max() > 1e-6  # what replacing the constant would be off by


def test_the_tanh_form_is_carried_in_whatever_order_it_is_written(tmp_path: Path) -> None:
    rate, cubic = float(np.float32(math.sqrt(2 / math.pi))), float(np.float32(0.044715))
    forms = {
        "products": [
            node("Mul", ["s", "s"], ["q"]),
            node("Mul", ["q", "s"], ["p"]),
            node("Mul", ["p", "cubic"], ["k"]),
            node("Add", ["s", "k"], ["z"]),
            node("Mul", ["z", "rate"], ["t"]),
            node("Tanh", ["t"], ["h"]),
            node("Add", ["h", "one"], ["o"]),
            node("Mul", ["s", "o"], ["m"]),
            node("Mul", ["m", "half"], ["a"]),
        ],
        "powers": [
            node("Pow", ["s", "three"], ["p"]),
            node("Mul", ["cubic", "p"], ["k"]),
            node("Add", ["k", "s"], ["z"]),
            node("Mul", ["rate", "z"], ["t"]),
            node("Tanh", ["t"], ["h"]),
            node("Add", ["one", "h"], ["o"]),
            node("Mul", ["half", "s"], ["m"]),
            node("Mul", ["o", "m"], ["a"]),
        ],
    }
    exact = layers(lambda s: 0.5 * s * (1 + np.tanh(rate * (s + cubic * s**3))))
    for name, nodes in forms.items():
        content = between(nodes, rate=rate, cubic=cubic, one=1.0, half=0.5, three=3.0)
        built = sw.transpile(written(tmp_path / f"{name}.onnx", content), (-1, 1))
        assert built.source.layers[0].activation == Activation("gelu_cubic", (rate, cubic))
        assert np.abs(built(X) - exact).max() <= built.certificate.bound <= 1e-10


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gelu(math.sqrt(2), half=0.5000008), "gelu is spelt out with the factor 0.5000008 instead of 0.5"),
        (gelu(math.sqrt(2), one=1.00001), "gelu is spelt out with the factor"),
        (between([node("Clip", ["s", "low"], ["a"])], low=math.nan), "has limits nan and None; give finite ones"),
        (
            between([node("Imputer", ["s"], ["a"], domain="ai.onnx.ml", imputed_value_floats=[9.0])]),
            "Imputer that replaces a number",
        ),
        (between([node("Celu", ["s"], ["a"], alpha=-0.5)]), "not positive"),
        (between([node("Cast", ["s"], ["t"], to=10), node("Cast", ["t"], ["a"], to=11)]), "rounds values to fewer"),
        (between([node("Softmax", ["s"], ["a"], axis=0)]), "node Softmax"),
        (between([node("Clip", ["s", "low", "high"], ["a"])], low=[-1.0, 0.0], high=1.0), "no number"),
        (between([node("Clip", ["s", "low", "high"], ["a"])], low=1.0, high=-1.0), "low < high"),
        (between([node("LeakyRelu", ["s"], ["a"], alpha="steep")]), "no number"),
        (between([node("Dropout", ["s", "ratio", "train"], ["a"])], ratio=0.5, train=1.0), "training mode"),
        (between([node("Shrink", ["s"], ["a"])]), "node Shrink has no attention form; use .*Gelu"),
        (
            between([node("Abs", ["s"], ["p"]), node("Add", ["p", "c"], ["q"]), node("Div", ["s", "q"], ["a"])], c=1.5),
            "softsign is spelt out with",
        ),
        (model([node("Gemm", ["x", "w", "b"], ["y"], transB=1)], {"w": W1, "b": np.zeros(4)}), "4 numbers for 5"),
        (model([node("Gemm", ["x", "w"], ["y"], transB=1)], {"w": W1}, outputs=()), "0 outputs"),
        (model([node("MatMul", ["x", "nothing"], ["y"])], {}), "constant matrix"),
    ],
)
def test_what_is_not_represented_exactly_is_refused_with_the_reason(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        sw.transpile(written(tmp_path / "bad.onnx", content), (-1, 1))


def test_limits_and_slopes_are_those_of_the_file(tmp_path: Path) -> None:
    sixth = float(np.float32(1 / 6))
    cases = {
        Activation("relu"): ([node("Clip", ["s", "low"], ["a"])], {"low": 0.0}),
        Activation("hardtanh", (-0.3, 0.7)): ([node("Clip", ["s", "low", "high"], ["a"])], {"low": -0.3, "high": 0.7}),
        Activation("hardsigmoid", (sixth, 0.5)): ([node("HardSigmoid", ["s"], ["a"], alpha=1 / 6)], {}),
        Activation("leaky_relu", (float(np.float32(0.3)),)): ([node("LeakyRelu", ["s"], ["a"], alpha=0.3)], {}),
        Activation("elu", (float(np.float32(0.3)),)): ([node("Elu", ["s"], ["a"], alpha=0.3)], {}),
    }
    for meant, (nodes, constants) in cases.items():
        built = sw.transpile(written(tmp_path / "a.onnx", between(nodes, **constants)), (-1, 1))
        assert built.source.layers[0].activation == meant
        assert np.abs(built(X) - layers(meant)).max() <= built.certificate.bound


def test_clips_of_one_side_or_none_and_activations_of_the_input(tmp_path: Path) -> None:
    for low, high in ((-0.5, None), (None, 0.2), (None, 0.0), (None, None)):
        names = ["s", "" if low is None else "low", "" if high is None else "high"]
        limits: dict[str, Any] = {name: value for name, value in (("low", low), ("high", high)) if value is not None}
        path = written(tmp_path / "a.onnx", between([node("Clip", names, ["a"])], **limits))
        built = sw.transpile(path, (-1, 1))
        hidden = X @ W1.T + B1
        exact = (hidden if low is None and high is None else np.clip(hidden, low, high)) @ W2.T + B2
        assert np.abs(built(X) - exact).max() <= built.certificate.bound < 1e-12
    first = model([node("Tanh", ["x"], ["t"]), node("Gemm", ["t", "w"], ["y"], transB=1)], {"w": W1})
    built = sw.transpile(written(tmp_path / "first.onnx", first), (-1, 1))
    assert np.abs(built(X) - np.tanh(X) @ W1.T).max() <= built.certificate.bound < 1e-12


@pytest.mark.parametrize(("row", "spelling"), spellings("onnx"), ids=lambda entry: getattr(entry, "name", None))
def test_every_operator_of_the_rows_is_read_and_means_the_same(tmp_path: Path, row: Any, spelling: Any) -> None:
    options = {name: 0.25 for name, _ in spelling.options}
    parameters = tuple(float(np.float32(value)) for value in options.values()) or spelling.fixed
    inputs: list[str] = ["s"]
    constants: dict[str, Any] = {}
    if spelling.call == "Clip":  # limits are inputs, not attributes
        inputs, constants, options, parameters = ["s", "low", "high"], {"low": -0.5, "high": 0.25}, {}, (-0.5, 0.25)
    if spelling.only is not None:
        options[spelling.only[0]] = spelling.only[1]
    content = between([node(spelling.call, inputs, ["a"], **options)], **constants)
    built = sw.transpile(written(tmp_path / "a.onnx", content), (-1, 1))
    assert built.source.layers[0].activation == Activation(row.name, parameters)
    assert np.abs(built(X) - layers(Activation(row.name, parameters))).max() <= built.certificate.bound


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


FIRST, LAST = node("Gemm", ["h", "w1", "b1"], ["s"], transB=1), node("Gemm", ["a", "w2", "b2"], ["y"], transB=1)
LAYERS = {"w1": W1, "b1": B1, "w2": W2, "b2": B2}
GRAPHS: dict[str, tuple[list[Any], dict[str, Any], Any]] = {
    "standardised": (
        [node("Sub", ["x", "m"], ["c"]), node("Div", ["c", "d"], ["h"]), FIRST, node("Relu", ["s"], ["a"]), LAST],
        {"m": [1.0, 2.0, 3.0], "d": [2.0, 0.5, 4.0]},
        lambda x: _relu((x - [1.0, 2.0, 3.0]) / [2.0, 0.5, 4.0] @ W1.T + B1) @ W2.T + B2,
    ),
    "scaled": (
        [
            node("Scaler", ["x"], ["h"], offset=[1.0, 2.0, 3.0], scale=[2.0, 0.5, 4.0], domain="ai.onnx.ml"),
            FIRST,
            node("Tanh", ["s"], ["a"]),
            LAST,
        ],
        {},
        lambda x: np.tanh((x - [1.0, 2.0, 3.0]) * [2.0, 0.5, 4.0] @ W1.T + B1) @ W2.T + B2,
    ),
    "residual": (
        [
            node("Reshape", ["x", "wide"], ["r"]),
            node("Cast", ["r"], ["h"], to=11),
            FIRST,
            node("Relu", ["s"], ["p"]),
            node("Mul", ["s", "half"], ["q"]),
            node("Add", ["p", "q"], ["a"]),
            LAST,
        ],
        {"half": 0.5},
        lambda x: (_relu(x @ W1.T + B1) + 0.5 * (x @ W1.T + B1)) @ W2.T + B2,
    ),
    "gathered": (
        [node("Gather", ["x", "places"], ["h"], axis=1), FIRST, node("Sigmoid", ["s"], ["a"]), LAST],
        {},
        lambda x: 1 / (1 + np.exp(-(x[:, [2, 0, 1]] @ W1.T + B1))) @ W2.T + B2,
    ),
    "slopes and scales": (
        [
            node("Identity", ["x"], ["h"]),
            FIRST,
            node("PRelu", ["s", "slopes"], ["a"]),
            node("Gemm", ["a", "w2", "b2"], ["y"], transB=1, alpha=2.0, beta=0.5),
        ],
        {"slopes": [0.1, 0.2, 0.3, 0.4, 0.5]},
        lambda x: 2 * np.where(x @ W1.T + B1 > 0, 1, [0.1, 0.2, 0.3, 0.4, 0.5]) * (x @ W1.T + B1) @ W2.T + 0.5 * B2,
    ),
    "hard swish": (
        [node("Identity", ["x"], ["h"]), FIRST, node("HardSwish", ["s"], ["a"]), LAST],
        {},
        lambda x: (x @ W1.T + B1) * np.clip((x @ W1.T + B1) * float(np.float32(1 / 6)) + 0.5, 0, 1) @ W2.T + B2,
    ),
    "joined": (
        [
            node("Identity", ["x"], ["h"]),
            FIRST,
            node("Relu", ["s"], ["p"]),
            node("Split", ["x", "two"], ["u", "v"], axis=1),
            node("Slice", ["p", "zero", "four", "one"], ["k"]),
            node("Concat", ["k", "v"], ["a"], axis=1),
            LAST,
        ],
        {},
        lambda x: np.concatenate([_relu(x @ W1.T + B1)[:, :4], x[:, 2:]], axis=1) @ W2.T + B2,
    ),
}
WHOLE = {"places": [2, 0, 1], "wide": [-1, 3], "two": [2, 1], "zero": [0], "four": [4], "one": [1]}


@pytest.mark.parametrize("name", GRAPHS)
def test_what_converters_put_between_layers_is_read(tmp_path: Path, name: str) -> None:
    nodes, constants, meant = GRAPHS[name]
    content = model(nodes, LAYERS | constants)
    content.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 3))
    content.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.array(value, dtype=np.int64), key) for key, value in WHOLE.items()
    )
    built = sw.transpile(written(tmp_path / "a.onnx", content), (-1, 1))
    assert np.abs(built(X) - meant(X)).max() <= built.certificate.bound + 1e-14 * 30 <= 1e-10
    built.save(tmp_path / "a.safetensors")
    assert sw.verify(tmp_path / "a.safetensors")


def test_a_classifier_is_read_up_to_its_logits_and_several_inputs_are_columns(tmp_path: Path) -> None:
    nodes = [
        node("Concat", ["u", "v"], ["h"], axis=1),
        FIRST,
        node("Relu", ["s"], ["a"]),
        node("Gemm", ["a", "w2", "b2"], ["logits"], transB=1),
        node("Softmax", ["logits"], ["y"], axis=1),
        node("ArgMax", ["y"], ["label"], axis=1, keepdims=0),
    ]
    content = model(nodes, LAYERS)
    del content.graph.input[:]
    for entry, width in (("u", 2), ("v", 1)):
        content.graph.input.append(onnx.helper.make_tensor_value_info(entry, 11, [None, width]))
    content.graph.output.insert(0, onnx.helper.make_tensor_value_info("label", 7, [None]))
    built = sw.transpile(written(tmp_path / "a.onnx", content), (-1, 1))
    assert "before Softmax" in built.target["text"] and built.network.inputs == 3
    assert np.abs(built(X) - layers(_relu)).max() <= built.certificate.bound


@pytest.mark.parametrize("form", ["silu", "mish", "softsign"])
def test_forms_without_constants_are_recognised(tmp_path: Path, form: str) -> None:
    forms = {
        "silu": [node("Sigmoid", ["s"], ["p"]), node("Mul", ["p", "s"], ["a"])],
        "mish": [node("Softplus", ["s"], ["p"]), node("Tanh", ["p"], ["t"]), node("Mul", ["s", "t"], ["a"])],
        "softsign": [node("Abs", ["s"], ["p"]), node("Add", ["p", "one"], ["q"]), node("Div", ["s", "q"], ["a"])],
    }
    built = sw.transpile(written(tmp_path / "a.onnx", between(forms[form], one=1.0)), (-1, 1))
    assert built.source.layers[0].activation == Activation(form)


def test_torch_exports_are_read_with_their_float32_constants(tmp_path: Path) -> None:
    path = str(tmp_path / "net.onnx")
    for activation in (nn.GELU(), nn.GELU("tanh"), nn.Hardsigmoid(), nn.Softsign()):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 5), activation, nn.Linear(5, 2)).eval()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(net, (torch.zeros(1, 3),), path, dynamo=False, opset_version=17)
        built = sw.transpile(path, (-1, 1), dtype="float64", tol=1e-9)
        assert built.observed_error <= built.certificate.bound <= 1e-9


def _cut(content: Any) -> Any:
    content.graph.initializer[0].raw_data = content.graph.initializer[0].raw_data[:7]
    return content


def _unknown(content: Any) -> Any:
    content.graph.initializer[0].data_type = 99
    return content


def _elsewhere(content: Any) -> Any:
    content.graph.initializer[0].data_location = 1
    entry = content.graph.initializer[0].external_data.add()
    entry.key, entry.value = "location", "../secret"
    return content


def _bare(content: Any) -> Any:
    del content.graph.node[1].output[:]
    return content


def _no_version(content: Any) -> Any:
    del content.opset_import[:]
    return content


@pytest.mark.parametrize("damage", [_cut, _unknown, _elsewhere, _bare, _no_version])
def test_damaged_files_get_our_errors(tmp_path: Path, damage: Any) -> None:
    path = written(tmp_path / "bad.onnx", damage(between([node("Relu", ["s"], ["a"])])))
    with pytest.raises((InvalidInput, FileFormatError), match=r"bad"):
        sw.transpile(path, (-1, 1))


CONSTANTS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "value_float": (
        [node("Constant", [], ["two"], value_float=2.0), node("Mul", ["two", "s"], ["t"]), node("Tanh", ["t"], ["a"])],
        {},
    ),
    "value_floats": (
        [
            node("Constant", [], ["c"], value_floats=[0.5, -0.25, 1.0, 2.0, 0.0]),
            node("Add", ["s", "c"], ["t"]),
            node("Relu", ["t"], ["a"]),
        ],
        {},
    ),
    "a weight times a number": (
        [node("Mul", ["w", "two"], ["w3"]), node("MatMul", ["s", "w3"], ["t"]), node("Relu", ["t"], ["a"])],
        {"w": _RNG.normal(size=(5, 5)), "two": 0.7},
    ),
    "Min": ([node("Min", ["s", "h"], ["a"])], {"h": 0.25}),
    "Abs": ([node("Abs", ["s"], ["a"])], {}),
}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_however_a_graph_holds_them(tmp_path: Path, name: str, kind: type) -> None:
    nodes, constants = CONSTANTS[name]
    if name.startswith("value_") and kind is np.float64:
        return  # such constants are float32
    graph = between(nodes, kind, **constants)
    built = sw.transpile(written(tmp_path / "g.onnx", graph), (-1, 1))
    assert str(built.network.dtype) == f"torch.{np.dtype(kind)}"
    found = onnx.reference.ReferenceEvaluator(graph).run(None, {"x": X.astype(kind)})[0]
    assert built.certificate is not None
    assert np.abs(built(X) - found).max() <= built.certificate.bound + 50 * float(np.finfo(kind).eps)


def test_a_softmax_that_is_left_out_is_told(tmp_path: Path) -> None:
    graph = between([node("Relu", ["s"], ["a"])])
    graph.graph.node[-1].output[0] = "z"
    graph.graph.node.append(node("Softmax", ["z"], ["y"], axis=1))
    built = sw.transpile(written(tmp_path / "g.onnx", graph), (-1, 1))
    assert any("ends in a softmax, which is left out" in reason for reason in built.plan.reasons)


def test_a_weight_that_is_cast_to_fewer_digits_is_not_the_weight(tmp_path: Path) -> None:
    narrowed = [node("Cast", ["w"], ["h"], to=10), node("Cast", ["h"], ["v"], to=11), node("MatMul", ["s", "v"], ["t"])]
    graph = between([*narrowed, node("Relu", ["t"], ["a"])], w=_RNG.normal(size=(5, 5)))
    with pytest.raises(InvalidInput, match=r"fewer digits|constant matrix"):
        sw.transpile(written(tmp_path / "g.onnx", graph), (-1, 1))
