"""Transformers from end to end: the bound at a prompt holds there and in its ball, and what is not known is refused."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb

import softwright as sw
from softwright.checker.verify import reprove
from softwright.errors import FileFormatError
from softwright.fileformat import ModelFile, read_model, weights_sha256
from softwright.precision import precision_of
from softwright.proof.arithmetic.balls import precision
from softwright.transpiler.whole.bound import Whole
from softwright.transpiler.whole.program import read_program

WIDTH, TOKENS = 8, 5


@cache
def encoder(activation: str, norm_first: bool, dtype: str = "float64") -> tuple[torch.nn.Module, sw.Built[Any]]:
    torch.manual_seed(3)
    layer = torch.nn.TransformerEncoderLayer(
        WIDTH, 2, 12, activation=activation, batch_first=not norm_first, norm_first=norm_first
    )
    last = torch.nn.LayerNorm(WIDTH) if norm_first else None
    whole = (
        torch.nn.TransformerEncoder(layer, 2, norm=last, enable_nested_tensor=False).to(getattr(torch, dtype)).eval()
    )
    return whole, sw.transpile(whole)


def prompt(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(TOKENS, WIDTH))


@pytest.mark.parametrize(("activation", "norm_first"), [("relu", False), ("gelu", True), ("gelu", False)])
def test_the_bound_holds_at_prompts_and_in_their_balls(activation: str, norm_first: bool) -> None:
    source, built = encoder(activation, norm_first)
    rng = np.random.default_rng(1)
    for seed in range(3):
        x = prompt(seed)
        found = built.certify_at(x, radius=1e-4)
        alone = built.certify_at(x)
        assert alone.seen <= alone.bound <= found.bound < 1e-6
        assert (
            next(iter(alone.budget)) == "layers.0, attention"
            and alone.budget["layers.1, block"] <= alone.bound * 1.0001
        )
        for _ in range(10):
            away = rng.normal(size=x.shape)
            moved = torch.tensor(x + 0.999e-4 * away / np.linalg.norm(away, axis=1, keepdims=True))
            with torch.no_grad():
                moved = moved[None] if not norm_first else moved[:, None]
                apart = float((built.network(moved) - source(moved)).abs().max())
            assert apart <= found.bound


def test_a_mask_is_part_of_the_prompt() -> None:
    _, built = encoder("relu", False)
    x, causal = prompt(0), ~np.tri(TOKENS, dtype=bool)
    masked = built.certify_at(torch.tensor(x)[None], mask=torch.tensor(causal))
    assert masked.seen <= masked.bound and masked.bound != built.certify_at(x).bound
    with pytest.raises(sw.InvalidInput, match="hides all keys"):
        built.certify_at(x, mask=np.ones((TOKENS, TOKENS), dtype=bool))


def test_the_ball_holds_the_source_near_the_prompt() -> None:
    """The second number that is carried: how far the source itself moves."""
    source, built = encoder("gelu", False)
    program, x = read_program(built.network.module, built.parts), prompt(2)
    with precision(128):
        whole = Whole(program, precision_of("float64"), None)
        errors: list[Any] = []
        kept = whole.norm
        whole.norm = lambda n, stream, e: errors.append(kept(n, stream, e)) or errors[-1]  # pyright: ignore
        whole.walk(x[None], 1e-4)
        reach = np.array([float(each.upper()) for each in errors[-1][1].ball])
    rng = np.random.default_rng(7)
    with torch.no_grad():
        here = source(torch.tensor(x)[None])[0].numpy()
        for _ in range(20):
            away = rng.normal(size=x.shape)
            near = x + 1e-4 * away / np.linalg.norm(away, axis=1, keepdims=True)
            moved = np.linalg.norm(source(torch.tensor(near)[None])[0].numpy() - here, axis=1)
            assert (moved <= reach * (1 + 1e-6) + 1e-12).all()


def test_what_is_not_what_was_read_is_refused() -> None:
    _, built = encoder("relu", False)
    built.certify_at(prompt(0))

    class Odd(torch.nn.TransformerEncoder):
        pass

    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(WIDTH, 2, 12, batch_first=True)
    odd = sw.transpile(Odd(layer, 1, enable_nested_tensor=False).double().eval())
    with pytest.raises(sw.InvalidInput, match="a Odd is not read"):
        odd.certify_at(prompt(0))
    doubled = sw.transpile(torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).double().eval())
    module: Any = doubled.network.module
    module.layers[0].self_attn.register_forward_hook(lambda m, i, o: (2 * o[0], o[1]))
    with pytest.raises(sw.InvalidInput, match="does not compute what was read"):
        doubled.certify_at(prompt(0))


def test_prompts_may_be_numbers_of_any_type() -> None:
    _, built = encoder("relu", False)
    rounded = torch.tensor(prompt(4)).bfloat16()
    wanted = built.certify_at(rounded.double().numpy())
    assert built.certify_at(rounded) == built.certify_at(rounded.double().to_sparse()) == wanted
    assert built.certify_at(prompt(4).astype(np.longdouble)) == built.certify_at(prompt(4))
    built.network.train()
    try:
        with pytest.raises(sw.InvalidInput, match="training mode"):
            built.certify_at(prompt(4))
    finally:
        built.network.eval()


@pytest.mark.parametrize(
    ("given", "said"), [({"radius": -1.0}, "radius"), ({"radius": 1e3}, "range of its certificate|beyond all bounds")]
)
def test_faults_are_named(given: dict[str, Any], said: str) -> None:
    _, built = encoder("relu", False)
    with pytest.raises(sw.InvalidInput, match=said):
        built.certify_at(prompt(0), **given)
    with pytest.raises(sw.InvalidInput, match="shape"):
        built.certify_at(np.zeros((3, 5)))
    with pytest.raises(sw.InvalidInput, match="equal length"):
        built.certify_at([[1.0, 2.0], [3.0]])
    with pytest.raises(sw.InvalidInput, match="not finite"):
        built.certify_at(np.full((TOKENS, WIDTH), np.inf))


def test_a_softmax_moves_by_the_hyperbolic_tangent_at_most() -> None:
    """The lemma behind the bound of attention, at its worst case and at random."""
    rng = np.random.default_rng(0)
    for move in (1e-3, 0.3, 2.0):
        most = float((arb(move) / 2).tanh().upper())
        a = 1 / (1 + np.exp(move))
        one = np.array([a, 1 - a])
        two = one * np.exp([move, -move])
        assert abs(np.abs(two / two.sum() - one).sum() / 2 - most) < 1e-12
        for _ in range(200):
            p = rng.dirichlet(np.ones(6))
            q = p * np.exp(move * rng.uniform(-1, 1, 6))
            assert np.abs(q / q.sum() - p).sum() / 2 <= most * (1 + 1e-12)


@cache
def stored(activation: str, norm_first: bool, dtype: str = "float64") -> ModelFile:
    _, built = encoder(activation, norm_first, dtype)
    with TemporaryDirectory() as folder:
        mask = ~np.tri(TOKENS, dtype=bool) if norm_first else None
        built.certify_at(prompt(4), radius=1e-6, mask=mask).save(path := Path(folder) / "prompt.safetensors")
        assert sw.verify(path).verified, sw.verify(path)
        with pytest.raises(FileFormatError):
            sw.load(path)
        return read_model(path)


@pytest.mark.parametrize(("activation", "norm_first", "dtype"), [("relu", True, "float64"), ("relu", False, "float32")])
def test_a_saved_bound_is_verified_and_no_smaller_one(activation: str, norm_first: bool, dtype: str) -> None:
    file = stored(activation, norm_first, dtype)
    verdict = reprove(file)
    assert verdict.verified and "at this prompt" in verdict.reason and verdict.hypotheses[0] == "ieee754"
    rng = np.random.default_rng(2)
    for _ in range(12):
        sections = copy.deepcopy(file.sections)
        said, place = sections["certificate"], rng.integers(4)
        if place == 0:
            said["bound"] /= float(10 ** rng.uniform(0.1, 3))
        elif place == 1:
            said["budget"][str(rng.choice(list(said["budget"])))] /= float(10 ** rng.uniform(0.1, 3))
        elif place == 2:
            sections["model"]["radius"] *= 1e4
        else:
            said["statement"] = said["statement"].replace("every", "any")
        assert not reprove(ModelFile(file.tensors, sections))


def test_forged_files_are_not_verified() -> None:
    file = stored("relu", True)

    def forged(tensors: dict[str, np.ndarray], sections: dict[str, Any]) -> bool:
        sections["certificate"]["weights_sha256"] = weights_sha256(tensors)
        return reprove(ModelFile(tensors, sections)).verified

    for name, factor in (("sublayers.0.query.weight", 30.0), ("prompt", 1e-3), ("blocks.0.steps.1.weight", 1.01)):
        assert not forged({**file.tensors, name: file.tensors[name] * factor}, copy.deepcopy(file.sections)), name
    less = {name: array for name, array in file.tensors.items() if name != "last.gain"}
    assert not forged(less, copy.deepcopy(file.sections))
    assert not forged({**file.tensors, "more": np.ones(2)}, copy.deepcopy(file.sections))
    for change in ("block", "eps", "heads", "kind", "unsigned"):
        sections = copy.deepcopy(file.sections)
        if change == "block":
            sections["model"]["sublayers"][1]["block"] = 7
        if change == "eps":
            sections["model"]["sublayers"][1]["eps"] = 0.0
        if change == "heads":
            sections["model"]["sublayers"][0]["heads"] = 3
        if change == "kind":
            sections["model"]["kind"] = "transformer"
        if change == "unsigned":
            sections["certificate"]["weights_sha256"] = "0" * 64
        assert not reprove(ModelFile(file.tensors, sections)), change
    blocks = copy.deepcopy(file.sections)
    said = blocks["model"]["blocks"][0]["certificate"]
    for part in ("bound", "exact_part", "rounding_part"):
        said[part] /= 10
    assert not forged(dict(file.tensors), blocks)


def test_gpt2_is_read_as_a_whole(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="GPT-2 comes with transformers: pip install transformers")
    torch.manual_seed(0)
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 20, "n_positions": 8}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2LMHeadModel(config).double().eval()
    found = sw.transpile(model).certify_at([3, 7, 1, 19])
    assert found.seen <= found.bound < 1e-7 and "head" in found.budget
    found.save(tmp_path / "prompt.safetensors")
    assert sw.verify(tmp_path / "prompt.safetensors").verified


def _signed(tensors: dict[str, np.ndarray], sections: dict[str, Any]) -> ModelFile:
    sections["certificate"]["weights_sha256"] = weights_sha256(tensors)
    return ModelFile(tensors, sections)


def test_the_sums_of_a_norm_are_a_hypothesis_by_name() -> None:
    file = stored("relu", True)
    assert reprove(file).hypotheses == ("ieee754", "exp-ulp<=4", "layernorm-roundings<=4d+32")
    changes = (lambda trust: trust.pop(), lambda trust: trust[2].update(text="nothing"), lambda trust: trust.clear())
    for change in changes:
        sections = copy.deepcopy(file.sections)
        change(sections["certificate"]["trust"])
        assert "hypotheses are not" in reprove(ModelFile(file.tensors, sections)).reason
    sections = copy.deepcopy(file.sections)
    sections["certificate"] |= {"schema": "softwright-prompt/1"}
    assert "certify again" in reprove(ModelFile(file.tensors, sections)).reason


@pytest.mark.parametrize(("factor", "shift", "why"), [(1e160, 0.0, "overflow"), (1.0, 1e9, "half of a variance")])
def test_prompts_at_which_a_norm_runs_wild_have_no_bound(factor: float, shift: float, why: str) -> None:
    """torch's LayerNorm squares its inputs: 1e160 overflows, and 1e9 hides a variance of 1. Whatever is claimed."""
    file = stored("relu", True)
    tensors, sections = dict(file.tensors), copy.deepcopy(file.sections)
    tensors["prompt"] = tensors["prompt"] * factor + shift
    sections["certificate"]["bound"] = 1e30
    sections["certificate"]["budget"] = dict.fromkeys(sections["certificate"]["budget"], 1e30)
    assert why in reprove(_signed(tensors, sections)).reason
    _, built = encoder("relu", True)
    with pytest.raises(sw.InvalidInput, match=r"overflow|variance"):
        built.certify_at(prompt(4) * factor + shift)


def test_subnormal_prompts_are_covered() -> None:
    for dtype, size in (("float64", 1e-310), ("float32", 1e-41)):
        _, built = encoder("relu", False, dtype)
        found = built.certify_at(prompt(1) * size)
        assert found.seen <= found.bound < 1e-2
