"""`transpile` from end to end: what it reads, what it returns, and what it refuses."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier, MLPRegressor
from torch import nn
from torch.nn import functional
from typer.testing import CliRunner

import softwright as sw
from softwright.cli import app
from softwright.errors import FileFormatError, InvalidInput, ToleranceNotReached
from softwright.transpiler.neuron_heads import LAYOUTS, NeuronHeads


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    images, labels = load_digits(return_X_y=True)
    return np.asarray(images) / 16.0, np.asarray(labels)


def fitted(X: np.ndarray, y: np.ndarray, hidden: tuple[int, ...], rounds: int = 15) -> MLPClassifier:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MLPClassifier(hidden, max_iter=rounds, random_state=0).fit(X, y)


def small(activation: nn.Module | None = None) -> nn.Sequential:
    torch.manual_seed(0)
    middle = nn.ReLU() if activation is None else activation
    return nn.Sequential(nn.Linear(3, 5), middle, nn.Linear(5, 2)).double().eval()


# ------------------------------------------------------------------------------------------------------ acceptance


@pytest.mark.parametrize("hidden", [(100,), (64, 32)])
def test_digits(digits: tuple[np.ndarray, np.ndarray], hidden: tuple[int, ...]) -> None:
    X, y = digits
    mlp = fitted(X, y, hidden)
    built = sw.transpile(mlp, (0, 1))
    exact = built.source(X, exact=True)
    deviation = float(np.abs(built(X) - exact).max())
    assert deviation <= 1e-12
    assert np.array_equal(mlp.classes_[built(X).argmax(axis=1)], np.asarray(mlp.predict(X)))
    assert deviation <= built.certificate.bound <= 1e-10
    single = sw.transpile(mlp, (0, 1), dtype="float32")
    h = torch.tensor(X, dtype=torch.float32)
    for layer in built.source.layers:
        weight, bias = (torch.tensor(a, dtype=torch.float32) for a in (layer.weight, layer.bias))
        h = functional.linear(h, weight, bias)
        h = functional.relu(h) if layer.activation.name == "relu" else h
    native = float(np.abs(h.double().numpy() - exact).max())
    assert float(np.abs(single(X) - exact).max()) <= min(2 * native, single.certificate.bound)


class Encoder(nn.Module):
    """Two transformer layers over the rows of a digit."""

    def __init__(self, activation: object, norm_first: bool) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.1, activation, batch_first=True, norm_first=norm_first)  # type: ignore[arg-type]
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first)
        self.out = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.encoder(self.embed(x)).mean(1))


@pytest.mark.parametrize(
    ("activation", "norm_first", "most"),
    [("relu", False, 1e-12), (functional.silu, True, 1e-12), ("gelu", False, 1e-9), (nn.GELU(), True, 1e-9)],
    ids=["relu", "silu", "gelu", "gelu module"],
)
def test_transformer_encoder(
    digits: tuple[np.ndarray, np.ndarray], activation: object, norm_first: bool, most: float
) -> None:
    X, y = torch.tensor(digits[0]).reshape(-1, 8, 8), torch.tensor(digits[1])
    torch.manual_seed(0)
    net = Encoder(activation, norm_first)
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    for rows in torch.randperm(1500).split(150):
        optimiser.zero_grad()
        functional.cross_entropy(net(X[rows].float()), y[rows]).backward()
        optimiser.step()
    net = net.eval().double()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    with torch.inference_mode():  # what lets torch take its fused path
        exact = net(X[:600])
        for layout in set(LAYOUTS) - {"double"}:  # the network is float64
            built = sw.transpile(net, layout=layout)
            ran: list[nn.Module] = []
            for part in built.network.modules():
                if isinstance(part, NeuronHeads):
                    part.register_forward_hook(lambda module, *_, ran=ran: ran.append(module))
            rows = 600 if layout == "softmax" else 60
            values = built.network(X[:rows])
            assert len(ran) == 2, "torch went round the heads"
            assert float((values - exact[:rows]).abs().max()) <= most
            assert torch.equal(values.argmax(1), exact[:rows].argmax(1))
            assert built.observed_error <= built.certificate.bound <= 1e-9
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    with pytest.raises(InvalidInput, match="save its state_dict"):
        sw.transpile(net).save("nowhere.safetensors")


def test_a_padding_mask_does_not_bring_the_fast_path_back() -> None:
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 24, 0.0, batch_first=True), 2).double().eval()
    x = torch.randn(3, 5, 16, dtype=torch.float64)
    mask = torch.zeros(3, 5, dtype=torch.bool)
    mask[0, 3:] = True
    built = sw.transpile(encoder)
    with torch.no_grad():
        plain = copy.deepcopy(encoder)
        plain.use_nested_tensor = False
        assert torch.allclose(
            built.network(x, src_key_padding_mask=mask)[~mask], plain(x, src_key_padding_mask=mask)[~mask], atol=1e-12
        )


# ----------------------------------------------------------------------------------------------------------- gates


class Gated(nn.Module):
    def __init__(self, act: object, kind: str = "two") -> None:
        super().__init__()
        torch.manual_seed(1)
        self.kind, self.act = kind, act
        self.gate, self.up = nn.Linear(6, 10, bias=False), nn.Linear(6, 10)
        self.both, self.down = nn.Linear(6, 20), nn.Linear(10, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "glu":
            return self.down(functional.glu(self.both(x)))
        if self.kind == "chunk":
            a, b = self.both(x).chunk(2, dim=-1)
            return self.down(self.act(a) * b)  # type: ignore[operator]
        return self.down(self.act(self.gate(x)) * self.up(x))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("act", "kind"),
    [(functional.silu, "two"), (functional.gelu, "chunk"), (torch.sigmoid, "two"), (torch.tanh, "two"), (None, "glu")],
    ids=["swiglu", "geglu", "glu by hand", "tanh gate", "torch's glu"],
)
def test_gated_blocks(act: object, kind: str) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.mlp = nn.LayerNorm(6), Gated(act, kind)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.mlp(self.norm(x))

    model = Model().double().eval()
    x = torch.randn(4, 3, 6, dtype=torch.float64)
    with torch.no_grad():
        exact = model(x)
        for layout in ("softmax", "sdpa", "multihead"):
            built = sw.transpile(model, (-2.5, 2.5), blocks=["mlp"], layout=layout)
            assert float((built.network(x) - exact).abs().max()) <= 1e-11
            assert built.observed_error <= built.certificate.bound <= 1e-8
        single = sw.transpile(model, (-2.5, 2.5), blocks=["mlp"], dtype="float32")
        assert float((single.network(x.float()) - exact).abs().max()) <= 2e-4
        assert single.observed_error <= single.certificate.bound


def test_blocks_that_compute_in_float64_return_float32() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 12, activation="relu", batch_first=True).eval()
    built, plain = (sw.transpile(layer, layout=layout) for layout in ("double", "softmax"))
    x = torch.randn(2, 3, 8)
    with torch.no_grad():
        found, exact = built.network(x), layer(x)
    assert found.dtype == torch.float32 and float((found - exact).abs().max()) <= 2e-6
    assert built.certificate.bound < 0.1 * plain.certificate.bound
    with pytest.raises(InvalidInput, match="layout 'double' is for float32 networks"):
        sw.transpile(layer, layout="double", dtype="float64")


def test_a_product_gate_needs_the_range_of_its_inputs() -> None:
    with pytest.raises(InvalidInput, match=r"give it as box=\(low, high\)"):
        sw.transpile(Gated(functional.silu).eval())
    with pytest.raises(InvalidInput, match="has no gated form"):
        sw.transpile(Gated(functional.silu).eval(), (-1, 1), layout="sequence")


# --------------------------------------------------------------------------------------------------------- reading


def test_functional_activations_and_the_order_of_the_forward_are_read() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last, self.first = nn.Linear(4, 2), nn.Linear(3, 4)  # not the order in which they are used

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return functional.leaky_relu(self.last(functional.dropout(self.first(x), 0.5, False).tanh()), 0.3)

    torch.manual_seed(0)
    net = Net().double().eval()
    built = sw.transpile(net, (-1, 1))
    x = np.random.default_rng(0).uniform(-1, 1, (50, 3))
    assert np.abs(built(x) - net(torch.tensor(x)).detach().numpy()).max() < 1e-14


def test_regressor_agrees_with_predict() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MLPRegressor(hidden_layer_sizes=(8, 8), activation="tanh", max_iter=30, random_state=0).fit(
            X, X[:, 0] * X[:, 1]
        )
    assert np.abs(sw.transpile(model)(X)[:, 0] - model.predict(X)).max() < 1e-13


def test_files_round_trip_and_the_certificate_speaks_of_the_layout(tmp_path: Path) -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (20, 3))
    for layout in LAYOUTS:
        dtype = "float32" if layout == "double" else "float64"
        built = sw.transpile(small(nn.GELU()), (-1, 1), layout=layout, dtype=dtype)
        built.save(tmp_path / "net.safetensors")
        loaded = sw.load(tmp_path / "net.safetensors")
        assert np.array_equal(loaded(x), built(x))
        assert loaded.certificate == built.certificate and loaded.certificate.engine == layout
    gated = sw.transpile(Gated(functional.silu).eval(), (-1, 1))
    gated.save(tmp_path / "gated.safetensors")
    z = np.zeros((2, 6))
    assert np.array_equal(sw.load(tmp_path / "gated.safetensors")(z), gated(z))


def test_the_command_reads_safetensors_and_onnx(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    mlp = small(nn.SiLU())
    sw.save_mlp(mlp, tmp_path / "mlp.safetensors")
    w = [tensor.numpy() for tensor in mlp.state_dict().values()]
    names = ("w1", "b1", "w2", "b2")
    node = onnx.helper.make_node
    graph = onnx.helper.make_graph(
        [
            node("Gemm", ["x", "w1", "b1"], ["h"], transB=1),
            node("Sigmoid", ["h"], ["s"]),
            node("Mul", ["h", "s"], ["a"]),
            node("MatMul", ["a", "w2t"], ["m"]),
            node("Add", ["m", "b2"], ["y"]),
        ],
        "mlp",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, [None, 3])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.DOUBLE, [None, 2])],
        [onnx.numpy_helper.from_array(array, name) for array, name in zip(w, names, strict=True)]
        + [onnx.numpy_helper.from_array(w[2].T.copy(), "w2t")],
    )
    onnx.save(onnx.helper.make_model(graph), str(tmp_path / "mlp.onnx"))
    x = np.random.default_rng(0).uniform(-1, 1, (9, 3))
    exact = mlp(torch.tensor(x)).detach().numpy()
    for ending in ("safetensors", "onnx"):
        arguments = [
            str(tmp_path / f"mlp.{ending}"),
            "--tol",
            "1e-8",
            "--box",
            "-1:1",
            "-o",
            str(tmp_path / "o.safetensors"),
        ]
        result = CliRunner().invoke(app, ["transpile", *arguments])
        assert result.exit_code == 0, result.output
        assert np.abs(sw.load(tmp_path / "o.safetensors")(x) - exact).max() < 1e-14
    result = CliRunner().invoke(app, ["transpile", str(tmp_path / "mlp.onnx"), "--box", "-1:1", "--tol", "1e-30"])
    assert result.exit_code == 3 and "above tol" in result.output
    (tmp_path / "old.pt").write_bytes(b"anything")
    result = CliRunner().invoke(app, ["transpile", str(tmp_path / "old.pt")])
    assert result.exit_code == 4 and "save_mlp" in result.output and "never loaded" in result.output


def test_an_onnx_graph_lists_all_its_faults(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node
    graph = onnx.helper.make_graph(
        [
            node("Relu", ["x"], ["r"]),
            node("Gemm", ["r", "w"], ["h"]),
            node("Conv", ["h", "w"], ["c"]),
            node("Shrink", ["c"], ["y"]),
        ],
        "bad",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [None, None])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None, 3])],
        [onnx.numpy_helper.from_array(np.eye(3, dtype=np.float32), "w")],
    )
    onnx.save(onnx.helper.make_model(graph), str(tmp_path / "bad.onnx"))
    with pytest.raises(InvalidInput) as error:
        sw.transpile(tmp_path / "bad.onnx")
    assert len(error.value.faults) == 3
    (tmp_path / "cut.onnx").write_bytes(b"\x08\xff\xff")
    with pytest.raises(FileFormatError):
        sw.transpile(tmp_path / "cut.onnx")


# ------------------------------------------------------------------------------------------------------- bad input


def test_every_fault_is_listed_at_once() -> None:
    bad = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Hardshrink(), nn.BatchNorm1d(4), nn.Linear(5, 2))
    with torch.no_grad():
        bad[0].weight[0, 0] = float("nan")  # type: ignore[union-attr,operator,index]
    with pytest.raises(InvalidInput) as error:
        sw.transpile(bad, (1, -1), tol=-1.0, layout="flash", dtype="float16")
    text = str(error.value)
    for part in ("training mode", "Hardshrink", "BatchNorm1d", "tol = -1.0", "layout 'flash'", "float16"):
        assert part in text, part
    mended = nn.Sequential(bad[0], nn.ReLU(), bad[4])
    with pytest.raises(InvalidInput) as error:
        sw.transpile(mended, (1, -1))
    assert "NaN" in str(error.value) and "takes 5 numbers but gets 4" in str(error.value)
    with pytest.raises(InvalidInput, match="low <= high"):
        sw.transpile(small(), (1, -1))


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (nn.Sequential(nn.ReLU()), {}, "does not follow a Linear layer"),
        (nn.Conv1d(1, 1, 1), {}, "has no attention form|no Linear layer|cannot be followed"),
        ("model.pt", {}, "never loaded"),
        ("missing.onnx", {}, "no such file"),
        (MLPClassifier(), {}, "not fitted"),
        (3, {}, "no network"),
        (small(), {"blocks": ["mlp"]}, "there is no block 'mlp'"),
        (small(), {"box": (0, 1, 2)}, "pair"),
        (small(), {"box": (0, 1e30)}, "1e15"),
    ],
)
def test_bad_input_names_the_remedy(source: object, options: dict, message: str) -> None:
    with pytest.raises((InvalidInput, FileFormatError), match=message):
        sw.transpile(source, **options)


def test_a_tolerance_out_of_reach_says_what_to_change() -> None:
    with pytest.raises(ToleranceNotReached, match="use dtype='float64'") as error:
        sw.transpile(small(), (-1, 1), tol=1e-9, dtype="float32")
    assert error.value.best.certificate.bound > 1e-9
    with pytest.raises(ToleranceNotReached, match="finest tokens"):
        sw.transpile(small(nn.GELU()), tol=1e-15)
    loose, tight = (sw.transpile(small(nn.GELU()), (-1, 1), tol=tol) for tol in (1e-3, 1e-9))
    assert loose.plan.tokens < tight.plan.tokens and tight.certificate.bound <= 1e-9


def test_training_mode_and_unknown_activations_of_transformer_layers_are_faults() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 8, 0.1, batch_first=True, activation=torch.sin)
    with pytest.raises(InvalidInput) as error:
        sw.transpile(layer)
    assert "training mode" in str(error.value) and "sin has no attention form" in str(error.value)


def test_figures_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    sw.transpile(small(nn.ELU()), (-1, 1)).plot(tmp_path / "mlp.png")
    layer = nn.TransformerEncoderLayer(8, 2, 8, 0.0, batch_first=True).eval()
    sw.transpile(layer).plot(tmp_path / "layer.svg")
    assert (tmp_path / "mlp.png").stat().st_size > 5000 and (tmp_path / "layer.svg").stat().st_size > 5000
