"""What every kind of network must do: run after a file as before, keep its certificate, lose it with its weights."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.attention import Constructed, digest_of
from softwright.cli import app
from softwright.cli.facts import as_json_facts
from softwright.fileformat import read_model, write_model
from softwright.result.certified import SCHEMAS, Certified, read_certificate
from softwright.result.described import FACTS, described
from softwright.result.kinds import KINDS, kind_of, loaded
from tests.contracts.kinds_made import MADE
from tests.contracts.tracing import inputs_of

_RNG = np.random.default_rng(3)
_X, _Y = _RNG.normal(size=(30, 2)), _RNG.normal(size=30)


_RUN: dict[str, Callable[[sw.Built[Any]], Any]] = {
    "approximation": lambda built: built(np.linspace(-1, 1, 5)[:, None]),
    "composition": lambda built: built(_X[:5] / 4),
    "memory": lambda built: built([[2, 1], [3], [1, 2]]),
    "transpiled": lambda built: built(_X),
    "in_context": lambda built: built(x=_X[:20], y=_Y[:20], queries=_X[20:]),
    "program": lambda built: built(s=["ab", "bba"], x=[[0.5, -1.0], [0.25, 1.0, 0.0]]),
    "theorem": lambda built: built(np.full((1, 2, 3), 0.25)),
}


def test_every_kind_is_covered() -> None:
    assert set(MADE) == set(KINDS)
    assert set(_RUN) == set(FACTS) == {name for name, kind in KINDS.items() if kind.stored}


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_names_things_that_are_there(kind: str) -> None:
    row = KINDS[kind]
    assert row.name == loaded(row.network).kind == kind
    assert callable(loaded(row.figure))
    assert all(callable(loaded(place)) for place in (row.at, row.within, row.drawn, row.page, row.shards) if place)
    assert all(hasattr(loaded(row.network), name) for name in ("describe", "rebuilt")) == row.stored
    assert not row.command or row.command in {command.name for command in app.registered_commands}
    assert isinstance(MADE[kind]().network, loaded(row.network))


def test_every_schema_names_a_certificate() -> None:
    for kind, make in MADE.items():
        certificate = make().certificate
        assert isinstance(certificate, Certified), kind
        for written in (certificate.to_json(), certificate.flat()):
            assert loaded(SCHEMAS[written["schema"]](written)) is type(certificate)
            assert read_certificate(written) == certificate


def test_unknown_kinds_and_schemas_are_refused_with_the_list() -> None:
    with pytest.raises(sw.InvalidInput, match="transpiled_module"):
        kind_of("perceptron")
    with pytest.raises(sw.InvalidInput, match="softwright-closed-form/1"):
        read_certificate({"schema": "softwright-hearsay/1"})


@pytest.mark.parametrize("kind", _RUN)
def test_contract(kind: str, tmp_path: Path) -> None:
    run = _RUN[kind]
    built, path = MADE[kind](), tmp_path / "network.safetensors"
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
    told, digest = described(path)
    assert (told.rows(), digest) == (again.rows(), digest_of(again.network))
    assert as_json_facts(told) == as_json_facts(again)
    assert again.certificate == built.certificate
    verdict = sw.verify(path)
    assert verdict.verified

    content = read_model(path)
    name = max(content.tensors, key=lambda n: (content.tensors[n].dtype.kind == "f", content.tensors[n].size))
    changed = content.tensors[name].copy()
    changed.reshape(-1)[0] = np.nextafter(changed.reshape(-1)[0], np.inf)
    write_model(path, {**content.tensors, name: changed}, content.sections)
    assert sw.verify(path).status == "NOT VERIFIED"
    with pytest.warns(UserWarning, match="certificate is dropped"):
        assert sw.load(path).certificate is None


def test_what_a_file_holds_is_told_and_proved_without_torch(tmp_path: Path) -> None:
    """`info` and `verify` in a process in which torch and scipy cannot be imported, on a file of every kind."""
    files = []
    for kind in _RUN:
        files.append(tmp_path / f"{kind}.safetensors")
        MADE[kind]().save(files[-1])
    code = (
        "import sys\nsys.modules['torch'] = sys.modules['scipy'] = None\nfrom softwright.cli import main\n"
        "for command in ('info', 'verify'):\n    for file in sys.argv[1:]:\n"
        "        try:\n            main([command, file])\n"
        "        except SystemExit as leave:\n            assert leave.code in (0, None), (command, file, leave.code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *map(str, files)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("sha256") >= len(files)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"transpiled_module"}))  # that one runs the user's own module
def test_what_is_no_input_is_refused_by_name(kind: str) -> None:
    built = MADE[kind]()
    given = inputs_of(built, 3)
    wrong = [[one.flatten() for one in given], [one[..., None] for one in given]]
    wrong = wrong[:1] if kind == "approximation" and built.network.box.dim == 1 else wrong  # batches of any shape
    if kind != "in_context":  # takes lists and arrays too
        wrong.append([one.to(torch.complex64) for one in given])
    if kind in ("transpiled", "theorem"):
        wrong.append([one.float() for one in given])
    if kind == "transpiled":  # (3, d, 1) holds 3 images of d numbers; these hold one more
        wrong[1] = [torch.cat([one, one[:, :1]], 1)[..., None] for one in given]
        wrong.append([torch.cat([one, one[:, :1]], 1) for one in given])
    for inputs in wrong:
        with pytest.raises(sw.InvalidInput):
            built.network(*inputs)
