"""The rooms of the house and what each may import: the table below, and CONTRIBUTING.md shows the same.

Imports are read from the source with `ast`, those inside functions too; only imports for type checkers, which load
nothing, are left out. A room may always import itself; `proof` has floors of its own.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import softwright

SOURCE = Path(__file__).resolve().parent.parent / "src" / "softwright"
LEAVES = "version errors domain precision progress threads chunks settings work"
SHARED = f"{LEAVES} fileformat result targets attention proof report"
NETWORKS = "memory.network transpiler methods theorems"  # what pages look at
VERBS = "approximation programs memory transpiler methods theorems experiments"
ALLOWED: dict[str, str] = {
    **dict.fromkeys(LEAVES.split(), LEAVES),
    "fileformat": "errors",
    "checker": "fileformat errors",
    "result": f"{LEAVES} fileformat",
    "targets": f"{LEAVES} fileformat",
    "attention": f"{LEAVES} targets result.constructed",
    "proof": f"{LEAVES} targets attention result records scale",
    "report": f"{LEAVES} fileformat result",
    "compiler": SHARED,
    "approximation": f"{SHARED} compiler",
    "programs": f"{SHARED} compiler",
    "memory": f"{SHARED} records scale",
    "transpiler": SHARED,
    "methods": SHARED,
    "theorems": f"{SHARED} approximation programs memory transpiler methods",
    "experiments": f"{SHARED} approximation memory transpiler methods theorems",
    "export": f"{LEAVES} fileformat result attention memory.network transpiler.network transpiler.closed_softmax "
    "theorems.tools.network",
    "page": f"{LEAVES} fileformat result targets attention {NETWORKS}",
    "sklearn": f"{LEAVES} result attention approximation methods",
    "zoo": f"{LEAVES} fileformat result targets approximation programs memory transpiler methods theorems",
    "records": "errors fileformat",
    "scale": "errors records",
    "cli": f"{SHARED} checker {VERBS} export page studio zoo scale records",
    "studio": f"{SHARED} checker {VERBS} export page zoo scale",
    "__main__": "cli",
}
FLOORS_OF_PROOF = ("arithmetic", "models", "search", "closed", "question", "conclusion", "prover")
PLOTTING = {"matplotlib", "plotly", "seaborn", "bokeh", "altair", "pyplot"}
LONGEST = 450
MOST_FILES = 25
# Page and studio look into all others; programs 19, reals 7, distances 19, kernels 2, errors 2, candidates 3.
MOST_CROSSINGS = 373

MODULES = sorted(SOURCE.rglob("*.py"))


def _name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def _room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def _is_type_checking(node: ast.If) -> bool:
    test = node.test
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _statements(tree: ast.AST, calls: bool) -> Iterator[ast.AST]:
    """All nodes of a tree but those under `if TYPE_CHECKING:`, and, unless calls are asked for, expressions."""
    waiting = [tree]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if isinstance(child, ast.expr) and not calls:
                continue
            found = child.orelse if isinstance(child, ast.If) and _is_type_checking(child) else [child]
            yield from found
            waiting += found


def _called(function: ast.AST) -> str:
    """The last name of what is called."""
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


@cache
def _imports(path: Path) -> list[tuple[int, str]]:
    """(line, dotted name) of everything imported at run time, read once; `from a import b` counts as a.b."""
    return sorted(_imported(path))


def _imported(path: Path) -> Iterator[tuple[int, str]]:
    package = ["softwright", *path.relative_to(SOURCE).parent.parts]
    text = path.read_text(encoding="utf-8")
    for node in _statements(ast.parse(text), calls="import_module" in text or "__import__" in text):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join(package[: len(package) - node.level + 1] + ([base] if base else []))
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        elif isinstance(node, ast.Call) and _called(node.func) in ("import_module", "__import__"):
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield node.lineno, first.value


def _own(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name below softwright) of the imports of softwright itself."""
    for line, name in _imports(path):
        parts = name.split(".")
        if parts[0] == "softwright":
            yield line, ".".join(parts[1:])


def _allowed(own: str, name: str) -> bool:
    """Whether the room `own` may import `name`: its own things, and what its row of the table names."""
    return any(name == entry or name.startswith(f"{entry}.") for entry in (own, *ALLOWED[own].split()))


def _floor(parts: tuple[str, ...] | list[str]) -> int | None:
    """The floor of a module of `proof`, counted from below."""
    if len(parts) > 1 and parts[0] == "proof" and parts[1] in FLOORS_OF_PROOF:
        return FLOORS_OF_PROOF.index(parts[1])
    return None


def _faults(path: Path) -> list[str]:
    own = _room(path)
    floor = _floor(path.relative_to(SOURCE).with_suffix("").parts)
    faults = []
    for line, name in _own(path):
        imported = _floor(name.split("."))
        if not _allowed(own, name):
            faults.append(f"{_name(path)}:{line} ({own}) imports softwright.{name}, which its room may not")
        elif floor is not None and imported is not None and imported > floor:
            faults.append(f"{_name(path)}:{line} imports softwright.{name}, which lies on a higher floor of proof")
    return faults


def test_there_is_something_to_check() -> None:
    assert len(MODULES) > 20


def test_every_module_imports_only_what_its_room_may() -> None:
    face = SOURCE / "__init__.py"
    # The public face names everything; it must only not load anything before a name is used.
    assert [name for _, name in _own(face) if not name.startswith("version")] == []
    rooms = [path for path in MODULES if path != face]
    assert [_name(path) for path in rooms if _room(path) not in ALLOWED] == [], "give each a room in ALLOWED"
    assert [fault for path in rooms for fault in _faults(path)] == []


def test_the_table_has_no_room_that_is_gone() -> None:
    assert {_room(path) for path in MODULES} - {"__init__"} == set(ALLOWED)


def test_the_checker_needs_no_torch() -> None:
    modules = list((SOURCE / "checker").rglob("*.py"))
    assert len(modules) > 20
    assert [_name(p) for p in modules if any(name.split(".")[0] == "torch" for _, name in _imports(p))] == []


def test_contributing_shows_the_same_table() -> None:
    shown = (SOURCE.parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|$", shown, flags=re.MULTILINE))
    stated = {room: " ".join(row.split()) for room, row in ALLOWED.items() if room not in LEAVES.split()}
    assert {room: rows.get(room, "").replace("`", "") for room in stated} == stated


def test_no_room_bears_the_name_of_a_public_function() -> None:
    rooms = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in MODULES}
    assert not rooms & set(softwright.__all__)  # importing such a room would replace the function


def test_no_folder_holds_more_files_than_a_reader_can_survey() -> None:
    sizes = Counter(path.parent for path in [*MODULES, *SOURCE.parent.parent.joinpath("tests").rglob("*.py")])
    assert {str(folder): size for folder, size in sizes.items() if size > MOST_FILES} == {}


def test_imports_that_cross_a_room_stay_few() -> None:
    crossing = [
        (_name(path), name)
        for path in MODULES
        for name in {name.rpartition(".")[0] or name for _, name in _own(path)}
        if path.parent != SOURCE and name.split(".")[0] != _room(path) and (SOURCE / name.split(".")[0]).is_dir()
    ]
    assert len(crossing) <= MOST_CROSSINGS


def test_modules_are_short_enough_to_read() -> None:
    lines = {_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: n for name, n in lines.items() if n > LONGEST} == {}, "one algorithm per file"


def test_numeric_modules_import_no_plotting_library() -> None:
    numeric = [p for p in MODULES if _room(p) not in ("report", "cli") and p.stem not in ("figure", "details")]
    drawn = [(_name(p), name) for p in numeric for _, name in _imports(p) if PLOTTING & set(name.split("."))]
    assert drawn == []


def test_the_rule_is_really_read_from_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The test of the test: imports inside functions, relative imports and import_module are all seen.
    (tmp_path / "targets").mkdir()
    bad = tmp_path / "targets" / "bad.py"
    bad.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from softwright.cli import main\n"
        "def f():\n    from softwright.proof import prover\n"
        "from ..approximation import verb\n"
        "from importlib import import_module\n"
        "import_module('softwright.cli')\n"
        "from softwright import Box\n"
        "from softwright.targets import Table\n"
        "from softwright.errors import Faults\n"
    )
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    assert [fault.split(" ")[0] for fault in _faults(bad)] == [f"targets/bad.py:{line}" for line in (5, 6, 8, 9)]
    (tmp_path / "proof" / "arithmetic").mkdir(parents=True)
    low = tmp_path / "proof" / "arithmetic" / "low.py"
    low.write_text("from softwright.proof.models.formula import models\n")
    assert len(_faults(low)) == 1
