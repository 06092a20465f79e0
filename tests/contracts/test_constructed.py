"""What every kind of network must do: run after a file as before, keep its certificate, lose it with its weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.attention import Constructed, digest_of
from softwright.fileformat import read_model, write_model
from softwright.result.kinds import KINDS

_RNG = np.random.default_rng(3)
_X, _Y = _RNG.normal(size=(30, 2)), _RNG.normal(size=30)


def _mlp() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)).double().eval()


_KINDS: dict[str, tuple[Callable[[], sw.Built], Callable[[sw.Built], Any]]] = {
    "approximation": (
        lambda: sw.approximate("sin(x)", sw.Box(x=(-1, 1)), tol=1e-4),
        lambda built: built(np.linspace(-1, 1, 5)[:, None]),
    ),
    "memory": (
        lambda: sw.memorize([[1, 2], [2, 1], [3]], [0.5, -1.0, 2.0]),
        lambda built: built([[2, 1], [3], [1, 2]]),
    ),
    "transpiled": (lambda: sw.transpile(_mlp(), box=(-1, 1)), lambda built: built(_X)),
    "in_context": (
        lambda: sw.in_context("ridge", features=2, penalty=0.1),
        lambda built: built(x=_X[:20], y=_Y[:20], queries=_X[20:]),
    ),
    "theorem": (
        lambda: sw.theorem("A1").build(points=12, tokens=3, dim=2),
        lambda built: built(np.full((1, 2, 3), 0.25)),
    ),
}


def test_every_kind_is_covered() -> None:
    assert set(_KINDS) == {name for name, kind in KINDS.items() if kind.stored}


@pytest.mark.parametrize("kind", _KINDS)
def test_contract(kind: str, tmp_path: Path) -> None:
    make, run = _KINDS[kind]
    built, path = make(), tmp_path / "network.safetensors"
    assert isinstance(built.network, torch.nn.Module)
    assert isinstance(built.network, Constructed)
    assert built.kind == kind
    assert built.certificate is not None
    assert built.certificate.weights_sha256 == digest_of(built.network)
    assert built.observed_error <= built.certificate.bound or kind == "in_context"  # which bounds one step
    assert repr(built).count("\n") >= 5
    before = np.asarray(run(built))
    assert np.isfinite(before).all()

    built.save(path)
    again = sw.load(path)
    assert np.array_equal(np.asarray(run(again)), before)
    assert again.certificate == built.certificate
    assert sw.verify(path).status in ("VERIFIED", "CONSISTENT")

    content = read_model(path)
    name = max(content.tensors, key=lambda n: (content.tensors[n].dtype.kind == "f", content.tensors[n].size))
    changed = content.tensors[name].copy()
    changed.reshape(-1)[0] = np.nextafter(changed.reshape(-1)[0], np.inf)
    write_model(path, {**content.tensors, name: changed}, content.sections)
    assert sw.verify(path).status == "NOT VERIFIED"
    with pytest.warns(UserWarning, match="certificate is dropped"):
        assert sw.load(path).certificate is None
