"""A certificate is on display while the network is what was proved, and goes, with the reason, when it is not."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import softwright as sw
from softwright.cli.facts import as_json_facts
from softwright.result.kinds import KINDS
from tests.contracts.kinds_made import MADE

CERTIFIED = list(MADE)


def _fresh(kind: str) -> sw.Built[Any]:
    return copy.deepcopy(MADE[kind]())


def _first(built: sw.Built[Any]) -> torch.Tensor:
    """The largest tensor of numbers that the network holds."""
    floats = [tensor for tensor in built.network.state_dict().values() if tensor.is_floating_point()]
    return max(floats, key=torch.numel)


def _by_data(built: sw.Built[Any]) -> None:
    _first(built).data.view(-1)[0] += 1e-9  # counts as no new version of the tensor


def _by_numpy(built: sw.Built[Any]) -> None:
    _first(built).numpy().reshape(-1)[0] += 1e-9


def _by_loading(built: sw.Built[Any]) -> None:
    state = built.network.state_dict()
    built.network.load_state_dict(
        {name: -tensor if tensor.is_floating_point() else tensor for name, tensor in state.items()}
    )


CHANGES: dict[str, tuple[Callable[[sw.Built[Any]], Any], str]] = {
    "float": (
        lambda built: built.network.float(),
        "cast to float32, the proof is of float64; build with dtype='float32'",
    ),
    "half": (lambda built: built.network.half(), "cast to float16"),
    "bfloat16": (lambda built: built.network.to(torch.bfloat16), "cast to bfloat16"),
    "meta": (lambda built: built.network.to("meta"), "moved to meta, the proof is of torch's CPU kernels"),
    "there and back": (lambda built: built.network.float().double(), "weights were changed"),
    "data": (_by_data, "weights were changed"),
    "numpy": (_by_numpy, "weights were changed"),
    "load_state_dict": (_by_loading, "weights were changed"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", CERTIFIED)
def test_a_changed_network_takes_its_certificate_off_the_display(kind: str, change: str, tmp_path: Path) -> None:
    built = _fresh(kind)
    bound = f"{built.certificate.bound:.3g}"
    assert f"<= {bound}" in repr(built)
    apply, reason = CHANGES[change]
    apply(built)
    if change == "there and back" and not built.certificate_void:
        pytest.skip("all weights of this network are numbers of float32")
    assert built.certificate is None
    assert reason in built.certificate_void
    assert f"void: {built.certificate_void}" in repr(built)
    assert "proved error" not in repr(built)
    assert as_json_facts(built)["certificate"] is None
    assert reason in as_json_facts(built)["unproved"]
    path = tmp_path / "file.safetensors"
    if change in ("half", "bfloat16", "meta"):
        with pytest.raises(sw.InvalidInput, match="save"):
            built.save(path)
        return
    if KINDS[kind].stored:
        with pytest.warns(UserWarning, match="no certificate: "):
            built.save(path)


@pytest.mark.parametrize("kind", CERTIFIED)
def test_what_changes_nothing_voids_nothing(kind: str, tmp_path: Path) -> None:
    built = _fresh(kind)
    issued = built.certificate
    assert issued is not None
    built.network.to("cpu").double().requires_grad_(False).train().eval()
    built.network.load_state_dict(built.network.state_dict())
    assert built.certificate == issued
    assert built.certificate_void == ""
    if not KINDS[kind].stored:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        built.save(tmp_path / "file.safetensors")
        again = sw.load(tmp_path / "file.safetensors")
    assert again.certificate == issued


def test_undoing_the_change_brings_the_certificate_back() -> None:
    built = _fresh("approximation")
    before = copy.deepcopy(built.network.state_dict())
    _by_loading(built)
    assert built.certificate is None
    built.network.load_state_dict(before)
    assert built.certificate is not None


def test_a_saved_network_without_its_certificate_loads_without_it(tmp_path: Path) -> None:
    built = _fresh("approximation")
    built.network.float()
    with pytest.warns(UserWarning, match="cast to float32"):
        built.save(tmp_path / "file.safetensors")
    again = sw.load(tmp_path / "file.safetensors")
    assert again.network.dtype == torch.float32
    assert again.certificate is None
    assert not sw.verify(tmp_path / "file.safetensors")
