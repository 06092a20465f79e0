"""Tools that people already have: stock attention, TransformerLens, Hugging Face, nnsight."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.export import hugging_face, stock
from softwright.export.extras import needed
from softwright.export.selftest import allowance, answered, given_to
from softwright.export.stock import stock_attention
from softwright.methods.prompts import read_prompt
from tests.contracts.kinds_made import MADE
from tests.export.networks import NETWORKS

_TOKENS = ("line", "kink", "plane", "sum", "plane-sdpa32", "stack")


@pytest.mark.parametrize("name", sw.zoo.names("theorem") + sw.zoo.names("memory")[:2] + sw.zoo.names("in context")[:2])
def test_every_norm_of_a_claim_allows_something(name: str) -> None:
    """Claims in digits, in L_p and of stored items too, whose rounding part is none of a point."""
    allowed, why = allowance(sw.zoo.load(name), 1.0)
    assert 0.0 < allowed < 0.1 and why


def _points(built: sw.Built[Any], count: int = 20) -> torch.Tensor:
    return torch.tensor(built.network.box.sample(count, seed=2)).to(built.network.dtype)


def _allowed(built: sw.Built[Any]) -> float:
    return 2 * built.certificate.rounding_part


@pytest.mark.parametrize("name", _TOKENS)
def test_stock_attention_gives_the_same_numbers(name: str) -> None:
    built = NETWORKS[name]()
    x = _points(built)
    module = stock_attention(built)
    assert all(isinstance(block, torch.nn.MultiheadAttention) for block in module.blocks)
    assert float((module(x) - built.network(x)).abs().max()) <= _allowed(built)


def test_many_heads_are_blocks_side_by_side_and_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One block of 384 heads would hold 2.4e9 numbers."""
    built = NETWORKS["sdpa-float32"]()
    given = given_to(built, 5)
    wanted = answered(built, given)
    monkeypatch.setattr(stock, "WIDEST", 4)
    module = stock_attention(built)
    assert len(module.blocks) > len(module.stack.layers)
    found = module(*map(torch.from_numpy, given)).numpy()
    assert np.abs(found - wanted).max() <= allowance(built, float(np.abs(wanted).max()))[0]
    monkeypatch.setattr(stock, "MOST", 4)
    with pytest.raises(sw.InvalidInput, match="larger tolerance"):
        stock_attention(built)


def test_float64_inside_is_refused_by_name() -> None:
    with pytest.raises(sw.InvalidInput, match="engine='sdpa'"):
        stock_attention(NETWORKS["plane-float32"]())


def test_other_kinds_have_no_tokens_and_missing_packages_name_their_extra() -> None:
    with pytest.raises(sw.InvalidInput, match="memory"):
        stock_attention(MADE["memory"]())
    with pytest.raises(sw.InvalidInput, match=r"pip install 'softwright\[lens\]'"):
        needed("no_such_package_anywhere", "lens")


@pytest.mark.parametrize("name", _TOKENS)
def test_transformer_lens_sees_patterns_and_ablations(name: str) -> None:
    pytest.importorskip("transformer_lens", reason="transformer-lens is not installed: make test-extras does it")
    from softwright.export.lens import to_lens

    built = NETWORKS[name]()
    x = _points(built)
    model = to_lens(built)
    y, cache = model.run_with_cache(x)
    assert float((y - built.network(x)).abs().max()) <= _allowed(built)
    assert len(model.tokens) == model.stack.base.shape[0]
    assert len(model.columns) == model.stack.base.shape[1]
    ulp = 1e-14 if built.network.dtype == torch.float64 else 1e-5
    pattern = cache["blocks.0.attn.hook_pattern"]
    if built.kind == "approximation":
        views = built.network.attention(x.double().numpy()).heads
        for i, (first, last) in enumerate(model.stack.owners):
            assert np.abs(pattern[:, i, 0, first:last].double().numpy() - views[i].weights).max() <= ulp

        def without_first_head(z: torch.Tensor, hook: Any) -> torch.Tensor:
            z = z.clone()
            z.reshape(*z.shape[:2], len(model.stack.owners), -1)[:, :, 0] = 0
            return z

        ablated = model.run_with_hooks(x, [("blocks.0.attn.hook_z", without_first_head)])
        t = (x - built.network.center) * built.network.scale
        first_head = next(iter(built.network.layer))(t)
        assert float((y - ablated - first_head).abs().max()) <= _allowed(built)
        return
    layers = len(model.stack.layers)
    view = built.attention(x[0].double().numpy())
    renamed = [replace(one, tokens=[n.replace("bank", "fixed") for n in one.tokens]) for one in view.heads]
    _same_patterns(model, replace(view, heads=renamed), cache, "data")
    feature = built.network.features[-1]
    column = model.column(feature)

    def without_feature(stream: torch.Tensor, hook: Any) -> torch.Tensor:
        stream = stream.clone()
        stream[:, :, column] = 0
        return stream

    ablated = model.run_with_hooks(x, [(f"blocks.{layers - 1}.hook_resid_post", without_feature)])
    held = torch.tensor(built.network.columns(x.double().numpy())[feature])
    predicted = held[:, None] * built.network.read[column]
    assert float(predicted.abs().max()) > 0
    assert float((y - ablated - predicted).abs().max()) <= _allowed(built)


def _longer() -> dict[str, tuple[sw.Built[Any], dict[str, int]]]:
    """Networks over sequences, and a transpiled one, with the sizes that they are told."""
    torch.manual_seed(0)
    mlp = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2)).double().eval()
    tokens = sw.Sequence(length=(1, 4), s=sw.Symbols("ab"), x=(-1, 1))
    program = sw.compile("count(s[j] == s[i]), sum(x[j] for j <= i)", tokens, tol=1e-6)
    ridge = sw.in_context("ridge", features=1, penalty=0.1, solver="gradient", steps=2, step_size=0.2)
    return {
        "program": (program, {"length": 4}),
        "transpiled": (sw.transpile(mlp, box=(-1, 1)), {}),
        "in_context": (ridge, {"rows": 12, "queries": 3}),
    }


@pytest.mark.parametrize("name", ["program", "transpiled", "in_context"])
def test_sequences_and_neurons_are_stacks_of_tokens(name: str) -> None:
    built, sizes = _longer()[name]
    given = given_to(built, 5, seed=3)
    y = stock_attention(built, **sizes)(*map(torch.from_numpy, given))
    wanted = answered(built, given)
    assert y.shape == wanted.shape
    assert np.abs(y.numpy() - wanted).max() <= allowance(built, float(np.abs(wanted).max()))[0]
    with pytest.raises(sw.InvalidInput, match="means nothing"):
        stock_attention(built, **sizes, width=3)
    if sizes:
        with pytest.raises(sw.InvalidInput, match=f"{next(iter(sizes))}= must say how many"):
            stock_attention(built)


@pytest.mark.parametrize("name", ["program", "transpiled", "in_context"])
def test_transformer_lens_sees_sequences_and_neurons(name: str) -> None:
    pytest.importorskip("transformer_lens", reason="transformer-lens is not installed: make test-extras does it")
    from softwright.export.lens import to_lens

    built, sizes = _longer()[name]
    given = given_to(built, 3, seed=3)
    model = to_lens(built, **sizes)
    y, cache = model.run_with_cache(*map(torch.from_numpy, given))
    wanted = answered(built, given)
    assert np.abs(y.numpy() - wanted).max() <= allowance(built, float(np.abs(wanted).max()))[0]
    assert len(model.columns) == model.stack.base.shape[1] and len(model.tokens) == len(model.stack.base)
    if name == "program":
        pattern = cache["blocks.0.attn.hook_pattern"][0]
        symbols = "".join("ab"[int(one)] for one in given[0][0, :, 0])
        own = built.network.attention_of(0, s=symbols, x=given[0][0, :, 1])
        bank = len(model.tokens) - 1 - 4
        assert np.abs(pattern[: len(own), bank:-1, :-1].numpy() - own).max() <= 1e-14
    if name == "in_context":
        x, labels, queries = given
        _same_patterns(model, built.attention(x=x[0], y=labels[0], queries=queries[0]), cache, "query")
    _ablated(name, built, model, given, y)


def _same_patterns(model: Any, view: Any, cache: Any, rows: str) -> None:
    """Every head of every layer, as the tokens of one segment see it."""
    asking = [i for i, token in enumerate(model.tokens) if token.partition(" ")[0] == rows]
    assert view.heads
    for head in view.heads:
        layer, number = (int(part.split()[1]) - 1 for part in (head.name, head.name.rpartition(", ")[2]))
        seen = [token if token in model.tokens else token.removesuffix(" 0") for token in head.tokens]
        places = [model.tokens.index(token) for token in seen]
        pattern = cache[f"blocks.{layer}.attn.hook_pattern"][0, number][asking][:, places]
        assert np.abs(pattern.numpy() - head.weights).max() <= 1e-14, head.name


def _ablated(name: str, built: sw.Built[Any], model: Any, given: tuple[np.ndarray, ...], y: torch.Tensor) -> None:
    """What a named feature held, by our own network, is what its ablation takes away."""
    network, inputs = built.network, tuple(map(torch.from_numpy, given))
    if name == "transpiled":
        feature, hidden = "neuron of layer 1 0, token 0", network(inputs[0])
        with torch.no_grad():  # the neuron alone: what the last layer makes of the others is subtracted
            last = network.state_dict()["steps.1.weight"]
            others = torch.stack([_neuron(network, inputs[0], i) * last[:, i] for i in (1, 2)]).sum(dim=0)
        held = hidden - others - network.state_dict()["steps.1.bias"]
    elif name == "program":
        stream = list(network.states_of(inputs[0]))[-1]
        column = int(network.get_buffer("read").abs().sum(dim=1).argmax())
        feature, held = model.columns[column], stream[..., column, None] * network.get_buffer("read")[column]
    else:
        x, labels, queries = inputs
        prompt = read_prompt(x, labels, queries, None, network.constants, network.dtype, True)
        column = int(network.read.abs().argmax())
        feature, held = model.columns[column], network.run(prompt)["query"][..., column] * network.read[column]
    place = model.column(feature)

    def without(stream: torch.Tensor, hook: Any) -> torch.Tensor:
        stream = stream.clone()
        stream[:, :, place] = 0
        return stream

    last = f"blocks.{len(model.stack.layers) - 1}.hook_resid_post"
    changed = y - model.run_with_hooks(inputs, [(last, without)])
    assert float(held.abs().max()) > 1e-3
    assert float((changed - held).abs().max()) <= max(1e-12, allowance(built, float(y.abs().max()))[0])


def _neuron(network: Any, x: torch.Tensor, i: int) -> torch.Tensor:
    """(q, 1): one neuron of the first layer."""
    tensors = network.state_dict()
    s = x @ tensors["steps.0.weight"][i] + tensors["steps.0.bias"][i]
    keys, biases, slopes, offsets = tensors["steps.0.tokens"]
    weights = torch.softmax(s[:, None] * keys + biases, dim=1)
    return (weights * (s[:, None] * slopes + offsets)).sum(dim=1, keepdim=True)


def test_the_model_card_shows_a_figure_where_one_can_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = MADE["approximation"]()
    built.export(tmp_path / "a.hf")
    card = (tmp_path / "a.hf" / "README.md").read_text()
    assert f"]({hugging_face.FIGURE})" in card
    drawn = (tmp_path / "a.hf" / hugging_face.FIGURE).read_bytes()
    assert drawn.startswith(b"\x89PNG\r\n\x1a\n") and len(drawn) > 5000
    monkeypatch.setattr(hugging_face, "find_spec", lambda _: None)
    built.export(tmp_path / "b.hf")
    assert not (tmp_path / "b.hf" / hugging_face.FIGURE).exists()
    assert "![" not in (tmp_path / "b.hf" / "README.md").read_text()


@pytest.mark.parametrize("kind", ["approximation", "composition", "transpiled", "memory", "theorem"])
def test_hugging_face_reads_what_was_written_and_writes_it_again(kind: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: make test-extras does it")
    from softwright.export.hugging_face import register

    register()
    built = MADE[kind]()
    built.export(tmp_path / "model.hf")
    assert sw.verify(tmp_path / "model.hf" / "softwright.safetensors").status == "VERIFIED" or kind == "composition"
    assert repr(built.certificate.bound) in (tmp_path / "model.hf" / "README.md").read_text()
    model = transformers.AutoModel.from_pretrained(str(tmp_path / "model.hf"))
    assert model.built.certificate == built.certificate
    assert model.network.dtype == built.network.dtype
    model.save_pretrained(str(tmp_path / "again"))
    again = transformers.AutoModel.from_pretrained(str(tmp_path / "again"))
    if kind == "memory":
        x: Any = torch.tensor([[1, 2], [2, 1]])
    elif kind == "theorem":
        x = torch.full((2, *built.network.inputs), 0.25, dtype=torch.float64)
    else:
        x = torch.full((2, built.network.inputs if kind == "transpiled" else built.network.box.dim), 0.25).double()
    assert torch.equal(again(x).values, built.network(x))
    assert torch.equal(again(x, return_dict=False)[0], built.network(x))
    assert again.built.certificate is not None


def test_a_folder_whose_configuration_says_nothing_is_a_file_error(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: make test-extras does it")
    hugging_face.register()
    MADE["approximation"]().export(tmp_path / "model.hf")
    for said in ('{"model_type": "softwright"}', '{"model_type": "softwright", "sections": {"model": 3}}'):
        (tmp_path / "model.hf" / "config.json").write_text(said)
        with pytest.raises(sw.FileFormatError, match="does not say what the weights mean"):
            transformers.AutoModel.from_pretrained(str(tmp_path / "model.hf"))


def test_nnsight_traces_a_head() -> None:
    nnsight = pytest.importorskip("nnsight", reason="nnsight is not installed: make test-extras does it")
    built = NETWORKS["line"]()
    x = _points(built, 5)
    model = nnsight.NNsight(built.network)
    with model.trace(x):
        seen = model.layer.heads[0].output.save()
    assert torch.equal(seen, built.network(x))


def test_a_graph_of_torch_has_no_largest_batch() -> None:
    """A size that is compared with a limit before it is known that a graph is recorded becomes a guard of the graph."""
    torch.manual_seed(0)
    source = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.SiLU(), torch.nn.Linear(6, 3)).double().eval()
    batch = torch.export.Dim("batch", min=1, max=1 << 20)
    for layout in ("softmax", "sdpa"):
        network = sw.transpile(source, box=(-1, 1), layout=layout).network
        given = (torch.zeros(5, 4, dtype=torch.float64),)
        torch.export.export(network, given, dynamic_shapes=({0: batch},), strict=False)
