"""The public face: every name is there, loaded late, known to type checkers; all verbs take the same options alike."""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import softwright

sw: Any = softwright  # what is tried here is what no type checker would let pass
_SOURCE = Path(softwright.__file__)


def test_every_name_is_there() -> None:
    for name in sw.__all__:
        assert getattr(sw, name) is getattr(sw, name), name  # twice: a module of that name would come the second time
    assert dir(sw) == sorted(sw.__all__)
    with pytest.raises(AttributeError, match="aproximate"):
        sw.aproximate  # noqa: B018


def test_functions_stay_functions_when_everything_is_imported() -> None:
    for found in pkgutil.walk_packages(sw.__path__, "softwright."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    assert [name for name in sw.__all__ if isinstance(getattr(sw, name), ModuleType)] == []
    # whatever was imported first: importing a module of that name would put it where the function is
    assert {found.name for found in pkgutil.iter_modules(sw.__path__)} & set(sw.__all__) == set()


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(_SOURCE.read_text(encoding="utf-8"))
    seen: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("softwright."):
            for alias in node.names:
                assert alias.asname == alias.name, f"write `{alias.name} as {alias.name}`: else it counts as private"
                seen[alias.name] = node.module or ""
    assert seen == sw._HOME
    assert (_SOURCE.parent / "py.typed").is_file()


def test_importing_loads_nothing_heavy() -> None:
    code = "import sys, softwright; print(sorted({'torch', 'numpy', 'flint', 'scipy', 'rich'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == "[]"


def test_reading_a_certificate_needs_no_torch() -> None:
    code = "import sys, softwright as sw; sw.verify, sw.Verdict; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == "False"


def test_a_name_that_is_loaded_costs_no_look_at_the_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting what is frozen takes 14 ms where torch is: it was a third of the time of all tests."""

    def looked() -> int:
        pytest.fail("the garbage collector was asked")

    first = [getattr(sw, name) for name in sw.__all__]
    for name in ("get_freeze_count", "freeze", "unfreeze", "disable"):
        monkeypatch.setattr(gc, name, looked)
    assert all(getattr(sw, name) is value for name, value in zip(sw.__all__, first, strict=True))


VERBS: dict[str, Callable[..., Any]] = {
    "approximate": sw.approximate,
    "memorize": sw.memorize,
    "transpile": sw.transpile,
    "in_context": sw.in_context,
    "compile": sw.compile,
    "theorem": sw.theorem("A1").build,
}
_VERBS = pytest.mark.parametrize("verb", VERBS)


@_VERBS
def test_every_verb_takes_the_same_options(verb: str) -> None:
    taken = inspect.signature(VERBS[verb]).parameters
    for option in ("dtype", "certify", "progress"):
        assert option in taken, f"{verb} does not take {option}"
        assert taken[option].kind is inspect.Parameter.KEYWORD_ONLY, f"{verb}: {option} is given by name alone"
    assert taken["certify"].default is True
    assert taken["progress"].default is None
    assert taken["dtype"].default == (None if verb == "transpile" else "float64")  # transpile: the source's own


def test_proving_and_checking_take_progress_alike() -> None:
    for function in (sw.certify, sw.verify):
        taken = inspect.signature(function).parameters
        assert taken["progress"].default is None, function.__name__


_SMALL: dict[str, Callable[..., Any]] = {
    "approximate": lambda **o: sw.approximate("x**2", (-1, 1), tol=1e-3, **o),
    "memorize": lambda **o: sw.memorize([[1, 2], [2, 1]], [0.5, -1.0], **o),
    "transpile": lambda **o: sw.transpile(torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU()), (-1, 1), **o),
    "in_context": lambda **o: sw.in_context("ridge", features=1, penalty=0.1, **o),
    "compile": lambda **o: sw.compile("mean(x)", sw.Sequence(length=(1, 3), x=(-1, 1)), **o),
    "theorem": lambda **o: sw.theorem("A1").build(points=6, tokens=2, dim=1, **o),
}


@_VERBS
@pytest.mark.parametrize("dtype", ["float64", torch.float64])
def test_a_dtype_is_a_name_or_a_torch_dtype(verb: str, dtype: Any) -> None:
    built = _SMALL[verb](dtype=dtype)
    assert built.plan.dtype == "float64"
    assert built.network.dtype == torch.float64


@_VERBS
@pytest.mark.parametrize("wrong", ["float16", torch.bfloat16, 64])
def test_other_dtypes_are_refused_with_the_list(verb: str, wrong: Any) -> None:
    with pytest.raises(sw.InvalidInput, match="'float64', 'float32'"):
        _SMALL[verb](dtype=wrong)


@_VERBS
def test_a_proof_that_is_not_asked_for_is_not_there(verb: str) -> None:
    assert _SMALL[verb]().certificate is not None
    built = _SMALL[verb](certify=False)
    assert built.certificate is None
    assert built.unproved == "not asked for"


@_VERBS
def test_progress_is_told_in_strings_or_not_at_all(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []
    _SMALL[verb](progress=heard.append)
    assert heard
    assert all(isinstance(message, str) for message in heard)
    _SMALL[verb](progress=False)
    with pytest.raises(sw.InvalidInput, match="progress"):
        _SMALL[verb](progress="loud")
    assert capsys.readouterr() == ("", "")


def test_proofs_and_checks_tell_strings_too(tmp_path: Path) -> None:
    built = sw.approximate("exp(-x**2)*sin(3*y)", sw.Box(x=(-1, 1), y=(-1, 1)), tol=1e-3, strategy="layer")
    built.save(tmp_path / "a.safetensors")
    heard: list[str] = []
    sw.certify(built.network, "exp(-x**2)*sin(3*y)", bound=1e-3, progress=heard.append)
    proved = len(heard)
    sw.verify(tmp_path / "a.safetensors", progress=heard.append)
    assert 0 < proved < len(heard)
    assert all(isinstance(message, str) for message in heard)
    sw.verify(tmp_path / "a.safetensors", progress=False)


@pytest.mark.parametrize("box", [sw.Box(x=(-1, 1)), {"x": (-1, 1)}, (-1, 1), [(-1, 1)]])
def test_boxes_are_taken_alike(box: Any) -> None:
    mlp = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU()).double()
    approximated = sw.approximate("x**2", box, tol=1e-3)
    assert approximated.network.box == sw.Box(x=(-1, 1))
    assert sw.transpile(mlp, box).certificate.rounding_part > 0
    assert sw.certify(approximated.network, "x**2", bound=1e-3, domain=box).certificate is not None
    assert approximated.certificate.covers(box, torch.float64)
