"""One statement for every certificate: what a verb writes, reads and verifies; and no leaf of it says what it likes.

Every leaf of a file's JSON is changed, removed, exchanged with another or moved away. What is still verified then must
be what nothing rests on (`FREE`), of its own type and printable, or a number beside the proof that is still what it is
called (`NEAR`).
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.checker.verify import STEPS, reprove
from softwright.fileformat import ModelFile, read_model
from softwright.result.certified import read_certificate
from tests.layouts import flat

DTYPES = ("float64", "float32")
LINE = sw.Box(x=(-1, 1))
# leaves of which a verdict does not speak: what is told, what was planned and seen, and what a user is advised
FREE = re.compile(
    r"certificate\.told\.|plan\.|observed\b|model\.guards\.\d+\.remedy$"
    r"|certificate\.evidence\.\d+\.order$"  # how the proof was found; the checker takes its own
    r"|certificate\.evidence\.\d+\.parts\.tables\.\d+\.proofs\.\d+\.order$"
)
NEAR = re.compile(
    r"certificate\.evidence\.\d+\.quantities\."
    # of a table: frame, error and tree are proved again as they are said, whatever better ones there are
    r"|certificate\.evidence\.\d+\.parts\.tables\.\d+\.(center|halfwidth|proofs\.\d+\.(exact|rounding|tree))\b"
    r"|plan\.heads\.\d+\.layer = ['0-9]+$"  # of a planned head: a layer has a name or a number
)


def _mlp(dtype: str) -> torch.nn.Module:
    torch.manual_seed(0)
    layers = torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1)
    return torch.nn.Sequential(*layers).to(getattr(torch, dtype)).eval()


def _table() -> sw.Table:
    x = np.linspace(-1, 1, 5)
    return sw.Table.grid([x], np.cos(x), names=["x"])


def _function() -> sw.Function:
    return sw.Function(lambda x: np.sin(2 * x), LINE, second_derivative=4.0)


# step -> what makes a small file whose evidence is of that type, in a dtype
MAKERS: dict[str, Any] = {
    "boxes": lambda dtype: sw.approximate("sin(x)", LINE, tol=1e-3, dtype=dtype),
    "gates": lambda dtype: sw.approximate("abs(x)", LINE, tol=1e-3, dtype=dtype, tightness=None),
    "boxes and gates": lambda dtype: sw.approximate(
        "abs(x - y) + sin(x)*y",
        sw.Box(x=(-1, 1), y=(-1, 1)),
        tol=1e-2,
        dtype=dtype,
        strategy="layer",
        tightness=None,
    ),
    "points": lambda dtype: sw.approximate(_table(), tol=1e-2, dtype=dtype),
    "callable": lambda dtype: sw.approximate(_function(), LINE, tol=0.1, dtype=dtype),
    "memory": lambda dtype: sw.memorize([[1, 2], [2, 1], [3]], [0.5, -1.0, 2.0], dtype=dtype),
    "layers": lambda dtype: sw.transpile(_mlp(dtype), box=(-1, 1)),
    "solver": lambda dtype: sw.in_context(
        "ridge", 1, solver="gradient", penalty=0.1, dtype=dtype, condition=3.0, steps=1, sample=False
    ),
    # a kink whose side is seen at once: hundreds of changed files are proved below
    "compose": lambda dtype: sw.approximate("max(x, 0.3) + sin(x)*x", LINE, tol=1e-2, strategy="compose", dtype=dtype),
    "columns": lambda dtype: sw.compile(
        "where(n > 1, sum(x[j] for s[j] == 'a'), prev(x, 1)), 0 < count(s[j] < s[i] and j <= i)",
        sw.Sequence(length=(1, 2), s=sw.Symbols("ab"), x=(-1, 1)),
        tol=1e-2,
        dtype=dtype,
    ),
    "theorem": lambda _: sw.theorem("A1").build(points=6, tokens=3, dim=1, progress=False),
}
CASES = [(name, dtype) for name in MAKERS for dtype in DTYPES if (name, dtype) != ("theorem", "float32")]


@functools.cache
def made(name: str, dtype: str) -> sw.Built[Any]:
    return MAKERS[name](dtype)


@functools.cache
def stored(name: str, dtype: str) -> ModelFile:
    with TemporaryDirectory() as folder:
        made(name, dtype).save(path := Path(folder) / "m.safetensors")
        return read_model(path)


def verified(file: ModelFile, sections: dict[str, Any]) -> bool:
    """Whether the file with other sections is verified, and on the whole box of its model."""
    verdict = reprove(ModelFile(file.tensors, sections), max_seconds=20.0)
    return verdict.verified or (verdict.status == "VERIFIED GIVEN" and "on a part" not in verdict.reason)


def test_every_step_has_a_maker() -> None:
    written = {step["step"] for name in MAKERS for step in stored(name, "float64").sections["certificate"]["evidence"]}
    assert written == set(STEPS) - {"cells"}  # no verb compares with a table's interpolant


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_what_a_verb_writes(name: str, dtype: str, tmp_path: Path) -> None:
    built, path = made(name, dtype), tmp_path / "m.safetensors"
    built.save(path)
    said = read_model(path).sections["certificate"]
    assert said["schema"] == "softwright-statement/2"
    assert said["claim"]["dtype"] == dtype == built.certificate.dtype
    again = sw.load(path)
    assert again.certificate == built.certificate == read_certificate(said)
    again.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()
    verdict = sw.verify(path)
    assert verdict.status == ("VERIFIED GIVEN" if name in ("points", "callable") else "VERIFIED"), verdict
    assert [entry["id"] for entry in said["trust"]] == list(verdict.hypotheses) == list(built.certificate.hypotheses)
    old, new = (reprove(file).to_json() for file in (flat(read_model(path)), read_model(path)))
    assert {**old, "seconds": 0.0} == {**new, "seconds": 0.0}


# ------------------------------------------------------------------------------------------------------------- leaves

Place = tuple[str | int, ...]
GONE = object()


def leaves(value: Any, path: Place = ()) -> Iterator[tuple[Place, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
        return
    for key, child in items:
        yield from leaves(child, (*path, key))


def owner(sections: Any, path: Place) -> Any:
    for key in path[:-1]:
        sections = sections[key]
    return sections


def of_its_type(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, 0]
    if isinstance(value, float):
        return [value * 1.5 + 1e-30, value / 1000]
    return [f"{value}x", value[:-1]] if isinstance(value, str) else [0.0]


def of_another_type(value: Any) -> list[Any]:
    """What must be refused of any leaf: another type, or a text that a terminal would obey."""
    if isinstance(value, str):
        return [f"{value}\x1b[2K\n", 0]
    return [str(value), None] if value is not None else [True, "x\n"]


def dotted(path: Place) -> str:
    return ".".join(map(str, path))


@contextmanager
def instead(sections: Any, *changes: tuple[Place, Any]) -> Iterator[None]:
    """Other values at some leaves (`GONE`: none at all) while the block runs; then all is as it was."""
    before = [
        list(place.items()) if isinstance(place := owner(sections, path), dict) else list(place) for path, _ in changes
    ]
    for path, value in changes:
        if value is GONE:
            del owner(sections, path)[path[-1]]
        else:
            owner(sections, path)[path[-1]] = value
    try:
        yield
    finally:
        for (path, _), kept in zip(changes, before, strict=True):
            place = owner(sections, path)
            place.clear()
            place.update(kept) if isinstance(place, dict) else place.extend(kept)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_no_leaf_says_what_it_likes(name: str, dtype: str) -> None:
    file = stored(name, dtype)
    assert verified(file, file.sections)
    sections = copy.deepcopy(file.sections)
    found, survivors = list(leaves(sections)), set()
    stride = max(1, len(found) // 120)  # of long lists only some
    for at, (path, value) in enumerate(found):
        if stride > 1 and at % stride and path[0] in ("model", "target"):
            continue
        if dtype == "float32" and at % 6:  # the same entries as in float64
            continue
        free = FREE.match(dotted(path))
        strange = of_another_type(value)[at % 2]  # one of the two: a leaf and its neighbour are read alike
        near = of_its_type(value)
        if path[0] in ("model", "target"):  # read alike, too
            near = near[at % len(near) :][:1]
        for other in (strange,) if free else (strange, *near):
            with instead(sections, (path, other)):
                if other != value and verified(file, sections):
                    survivors.add(f"{dotted(path)} = {other!r}")
        if not free:
            with instead(sections, (path, GONE)):
                if verified(file, sections):
                    survivors.add(f"{dotted(path)} removed")
    assert sections == file.sections
    assert [path for path in survivors if not NEAR.match(path)] == []


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_leaves_do_not_change_places(name: str, dtype: str) -> None:
    """Two leaves of a certificate exchanged, an object moved to where another is, and one too many."""
    file, rng = stored(name, dtype), np.random.default_rng(0)
    found = list(leaves(file.sections["certificate"], ("certificate",)))
    survivors, sections = set(), copy.deepcopy(file.sections)
    for path, value in found[:: 1 if dtype == "float64" else 6]:  # the same entries as in float64
        alike = [(p, v) for p, v in found if type(v) is type(value) and v != value]
        for k in rng.choice(len(alike), size=min(2, len(alike)), replace=False):
            other, theirs = alike[k]
            with instead(sections, (path, theirs), (other, value)):
                if verified(file, sections):
                    survivors.add((dotted(path), dotted(other)))
    assert sections == file.sections
    for branch in {path[:k] for path, _ in found for k in range(1, len(path))}:
        changed = copy.deepcopy(file.sections)
        place = owner(changed, (*branch, ""))
        if isinstance(place, dict):
            place["remark"] = 1.0
        else:
            place.append(copy.deepcopy(place[0]))
        assert not verified(file, changed), dotted(branch)
    unexpected = [pair for pair in survivors if not all(FREE.match(path) or NEAR.match(path) for path in pair)]
    assert unexpected == []
