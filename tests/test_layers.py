"""The layer rule of the design: a module may import from its left, never from its right.

    errors, domain, fileformat < targets < attention < build, theorems < certify
        < export, report < built < pipelines < cli

`attention` is the shared vocabulary that everyone may import. Imports are read from the source with `ast`, those inside
functions too; only imports for type checkers, which load nothing, are left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "softwright"
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "domain", "fileformat"),
    ("targets",),
    ("attention",),
    ("build", "theorems"),
    ("certify",),
    ("export", "report"),
    ("built",),
    ("pipelines",),
    ("sklearn",),
    ("cli", "__main__"),
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
SHARED = "attention"
CHECKER_MAY_IMPORT = {"fileformat", "errors"}
PLOTTING = {"matplotlib", "plotly", "seaborn", "bokeh", "altair", "pyplot"}
LONGEST = 450

MODULES = sorted(SOURCE.rglob("*.py"))


def _name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def _layer(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def _is_type_checking(node: ast.If) -> bool:
    test = node.test
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a tree but those under `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and _is_type_checking(child):
            for other in child.orelse:
                yield other
                yield from _statements(other)
            continue
        yield child
        yield from _statements(child)


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything imported at run time; `from a import b` counts as a.b."""
    package = ["softwright", *path.relative_to(SOURCE).parent.parts]
    for node in _statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join(package[: len(package) - node.level + 1] + ([base] if base else []))
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "import_module",
            "importlib.import_module",
            "__import__",
        ):
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield node.lineno, first.value


def _own(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name below softwright) of the imports of softwright itself; its version belongs to no layer."""
    for line, name in _imports(path):
        parts = name.split(".")
        if parts[0] == "softwright" and parts[1:] != ["__version__"]:
            yield line, ".".join(parts[1:])


def _layer_faults(path: Path) -> list[str]:
    own = _layer(path)
    faults = []
    for line, name in _own(path):
        imported = name.split(".")[0]
        where = f"{_name(path)}:{line}"
        if imported not in RANK:
            faults.append(f"{where} imports softwright.{name}, which belongs to no layer; import from its home module")
        elif imported != SHARED and RANK[imported] > RANK[own]:
            faults.append(f"{where} ({own}) imports softwright.{name}, which lies to its right")
    return faults


def test_there_is_something_to_check() -> None:
    assert len(MODULES) > 20


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_every_module_has_a_layer_and_imports_from_its_left(path: Path) -> None:
    if path == SOURCE / "__init__.py":
        # The public face names everything; it must only not load anything before a name is used.
        assert list(_own(path)) == []
        return
    assert _layer(path) in RANK, f"{_name(path)} belongs to no layer: give it one in LAYERS"
    assert _layer_faults(path) == []


def _checker_modules() -> list[Path]:
    return sorted((SOURCE / "certify").glob("checker*.py"))


@pytest.mark.parametrize("path", _checker_modules(), ids=_name)
def test_the_checker_stands_alone(path: Path) -> None:
    # What is proved is proved again by independent code, which shares the file format with the rest and nothing else.
    siblings = {f"certify.{module.stem}" for module in _checker_modules()}
    foreign = [
        (line, name)
        for line, name in _own(path)
        if name.split(".")[0] not in CHECKER_MAY_IMPORT and ".".join(name.split(".")[:2]) not in siblings
    ]
    assert foreign == []
    assert not [name for _, name in _imports(path) if name.split(".")[0] == "torch"]


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_modules_are_short_enough_to_read(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST, f"{_name(path)} has {lines} lines: one algorithm a file, at most {LONGEST}"


@pytest.mark.parametrize("path", [p for p in MODULES if _layer(p) not in ("report", "cli")], ids=_name)
def test_numeric_modules_import_no_plotting_library(path: Path) -> None:
    assert [name for _, name in _imports(path) if PLOTTING & set(name.split("."))] == []


def test_the_rule_is_really_read_from_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The test of the test: imports inside functions, relative imports and import_module are all seen.
    (tmp_path / "build").mkdir()
    bad = tmp_path / "build" / "bad.py"
    bad.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from softwright.cli import main\n"
        "def f():\n    from softwright.certify import prover\n"
        "from ..pipelines import approximate\n"
        "from importlib import import_module\n"
        "import_module('softwright.cli')\n"
        "from softwright import Box\n"
        "from softwright.attention import Head\n"
    )
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    faults = _layer_faults(bad)
    assert [fault.split(" ")[0] for fault in faults] == [f"build/bad.py:{line}" for line in (5, 6, 8, 9)]
