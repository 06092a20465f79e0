"""Files to forge: one small file of every kind of network, certificate and dtype, as written today and by version 1.

`Base` holds what a file was asked and answered when it was built: of a memory the file does not hold the sequences.
"""

from __future__ import annotations

import json
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from judging.claim import Known

import softwright as sw
from forgery.file import Forgery
from softwright.fileformat import read_model
from softwright.programs.written import read_tokens

ROOT = Path(__file__).resolve().parent.parent.parent
PROVED = ("VERIFIED", "VERIFIED ON A PART", "VERIFIED GIVEN")
# Slow to build or to verify: an Lp norm in two variables, smaller ones stand in below. Shards are several files.
LEFT_OUT = ("approximation-certified-L", "memory-shards", "approximation-cells", "approximation-uncertified")


@cache
def stored() -> Any:
    """The module that wrote the files of version 1, and knows how they are asked."""
    sys.path.insert(0, str(ROOT))
    return import_module("tests.data.write")


def known(name: str) -> Known | None:
    """What a file without its target was made from: the points and values of a table, or a formula of a callable."""
    x, y = np.linspace(-1, 1, 8), np.linspace(0, 2, 6)
    if "table-line" in name:
        return Known(points=x[:, None], values=np.cos(2 * x)[:, None])
    if "table-plane" in name:
        grid = np.stack([a.ravel() for a in np.meshgrid(x, y, indexing="ij")], axis=1)
        return Known(points=grid, values=(np.sin(2 * grid[:, 0]) * np.exp(-grid[:, 1]))[:, None])
    return Known(text="sin(2*x)") if "callable-promised" in name else None


@dataclass
class Base:
    """A true file, what it was asked and answered, and its verdict."""

    file: Forgery
    status: str
    questions: dict[str, Any]
    engines: list[str]
    answers: list[Any]

    def asked(self, built: sw.Built) -> list[Any]:
        """The answers of a network to the questions that the file was stored with."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [stored().answer(built, self.questions, engine) for engine in self.engines]
        return [
            out.tolist() if isinstance(out, np.ndarray) else json.loads(json.dumps(stored().plain(out)))
            for out in found
        ]


def read(path: Path, name: str) -> Forgery:
    file = read_model(path)
    return Forgery(name, dict(file.tensors), dict(file.sections))


def old_files(place: Path, chosen: Callable[[str], bool] = lambda name: True) -> list[Base]:
    """The stored files of version 1 that a checker does not refuse, written to `place`."""
    folder = ROOT / "tests" / "data" / "v1"
    with zipfile.ZipFile(folder / "files.zip") as archive:
        archive.extractall(place)
    arrays = np.load(folder / "answers.npz", allow_pickle=False)
    bases = []
    for name, said in json.loads((folder / "expected.json").read_text("utf-8")).items():
        path, status = place / f"{name}.safetensors", said.get("status")
        if not chosen(name):
            continue
        if status == "CONSISTENT":  # of a checker that could say no more
            status = sw.verify(path, max_seconds=30).status
        if status not in PROVED:
            continue
        questions = {} if said["questions"] is None else {"": said["questions"]}
        for key in arrays.files:
            owner, argument, *engine = key.split("|")
            if owner == name and not engine:
                questions[argument] = arrays[key]
        answers = [
            arrays[f"{name}||{engine}"].tolist() if f"{name}||{engine}" in arrays.files else said["answers"][engine]
            for engine in said["engines"]
        ]
        bases.append(Base(read(path, name), status, questions, said["engines"], answers))
    return bases


def makers() -> dict[str, Callable[[], sw.Built]]:
    """Everything that is written and built today: the cases of version 1, and more of the kinds that need more."""
    found = {name: case.make for name, case in stored().cases().items() if not name.startswith(LEFT_OUT)}
    for dtype in ("float64", "float32"):
        for norm in ("L1", "L2", "L3"):
            options = {"norm": norm, "tightness": 0.5}
            found[f"approximation-norm-{norm}-{dtype}"] = lambda dtype=dtype, options=options: stored().certified(
                "exp(-x)*x", {"x": (-1.0, 2.0)}, dtype, options
            )
        for method, solver, options in STEPS:
            name = "-".join((method, solver, *(f"{k}={v}" for k, v in options.items())))
            found[f"in_context-{name}-{dtype}"] = lambda m=method, s=solver, o=options, dtype=dtype: sw.in_context(
                m, 2, solver=s, dtype=dtype, steps=2, sample=False, **o
            )
        for name, (text, box, tol) in STACKS.items():
            found[f"composition-{name}-{dtype}"] = lambda text=text, box=box, tol=tol, dtype=dtype: sw.approximate(
                text, sw.Box(box), tol=tol if dtype == "float64" else 1e-2, strategy="compose", dtype=dtype
            )
        for number, (text, box) in enumerate(GUARDED):
            found[f"approximation-guard{number}-{dtype}"] = lambda text=text, box=box, dtype=dtype: sw.approximate(
                text, sw.Box(box), tol=1e-2, strategy="layer", dtype=dtype
            )
        for name, (text, fields) in PROGRAMS.items():
            tokens = read_tokens(f"length=1:6 {fields}")
            found[f"program-{name}-{dtype}"] = lambda text=text, tokens=tokens, dtype=dtype: sw.compile(
                text, tokens, tol=1e-2, dtype=dtype, progress=False
            )
    for name, sizes in THEOREMS.items():
        found[f"theorem-{name}"] = lambda name=name, sizes=sizes: sw.theorem(name[:2]).build(progress=False, **sizes)
    return found


STACKS: dict[str, tuple[str, dict[str, tuple[float, float]], float]] = {
    "kink": ("max(x, x**2)", {"x": (-1.0, 1.0)}, 1e-4),
    "circle": ("abs(x**2 + y**2 - 0.5)", {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}, 1e-6),
    "monomial": ("x*y/(z + 1)**2", {"x": (1.0, 2.0), "y": (-1.0, 1.0), "z": (1.0, 3.0)}, 1e-5),
    "tables": ("sin(x) + cos(x)*y", {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}, 1e-3),
    "fold": ("exp(abs(x - y))*cos(z)", dict.fromkeys("xyz", (-1.0, 1.0)), 1e-3),
    "deep": ("exp(-sqrt(x**2 + y**2 + 1))*x", {"x": (-1.0, 1.0), "y": (0.0, 2.0)}, 1e-6),
    "decades": ("log(x)*y", {"x": (1e-5, 1e4), "y": (0.0, 1.0)}, 1e-3),
    "outputs": ("x*y, max(x, y**2)", {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}, 1e-3),
}
GUARDED: list[tuple[str, dict[str, tuple[float, float]]]] = [
    ("where(x >= 1, sqrt(x**2 - 1), 0)", {"x": (0.0, 2.0)}),
    ("where(abs(x) <= 1, sqrt(1 - x**2), 0)", {"x": (-2.0, 2.0)}),
    ("where(x > 0, sqrt(x)*log(x), 0)", {"x": (-1.0, 1.0)}),
    ("where(x > 0, x*log(x), 0)", {"x": (-1.0, 1.0)}),
    ("where(x <= 0.1, acos(10*x), 0)", {"x": (0.0, 0.2)}),
    ("where(x < 0, 0, where(x < 1, 1 - sqrt(1 - x), 1 + log(x)))", {"x": (-1.0, 2.0)}),
    ("where(x >= 0.3, sqrt(x**3 - 0.027), 0)", {"x": (0.0, 1.0)}),
    ("where(x > 0 and x < 1, sqrt(x*(1 - x)), 0)", {"x": (-1.0, 2.0)}),
    ("where(x >= 1, sqrt(log(x)), 0)", {"x": (0.5, 2.0)}),
    ("max(x**2 - 1, 0)**0.5", {"x": (-2.0, 2.0)}),
    ("where(x > 1, sqrt(x - 1), 1 - x)", {"x": (0.0, 2.0)}),
]
PROGRAMS: dict[str, tuple[str, str]] = {
    "histogram": ("count(s[j] == s[i])", "s=abc"),
    "sort": ("sorted(s)[i]", "s=abc"),
    "window": ("max(k[j] for j > i - 3 and j <= i)", "k=-2..3"),
    "rotate": ("k[(i + 1) % n]", "k=0..5"),
    "running": ("max(x[j] for j < i)", "x=-1:1"),
    "product": ("x*mean(x), exp(x)/(1 + x**2)", "x=-1:1"),
    "causal": ("attend(x[j], 2*x[j]*x[i] for j <= i)", "x=-1:1"),
    "spread": ("mean((x[j] - x[i])**2)", "x=-1:1"),
    "groups": ("mean(x[j] for s[j] == s[i])", "x=-1:1 s=ab"),
}
STEPS: list[tuple[str, str, dict[str, Any]]] = [
    ("least_squares", "newton_schulz", {}),
    ("ridge", "newton_schulz", {"scaling": False, "penalty": 0.5}),
    ("least_squares", "gradient", {"intercept": False, "max_rows": 50}),
    ("ridge", "gradient", {"penalty": 0.3, "x_bound": 3.0}),
    ("logistic", "gradient", {"order": 2}),
    ("poisson", "gradient", {"response": True}),
    ("robust", "gradient", {"loss_scale": 0.3, "penalty": 0.2}),
]
THEOREMS: dict[str, dict[str, Any]] = {
    "A1-real": {"points": 6, "tokens": 3, "dim": 1, "eps0": 0.1},
    "A1-wide": {"points": 12, "tokens": 3, "dim": 2, "a": -2.0, "b": 3.0},
    "A2-one": {"heads": 1, "tokens": 5, "dim": 1},
    "A2-many": {"heads": 3, "tokens": 4, "dim": 2},
    "C1-more": {"values": 5, "length": 3},
    "C3-more": {"dim": 3, "heads": 2, "head_size": 2},
    "C4-more": {"sequences": 3, "length": 3, "vocabulary": 4},
    "C6-more": {"sequences": 3, "length": 3},
}


def new_files(place: Path, chosen: Callable[[str], bool] = lambda name: True) -> Iterator[Base]:
    """Everything built today, written to `place` unless it is there already, with what it answers."""
    cases = stored().cases()
    for name, make in makers().items():
        path = place / f"new-{name}.safetensors"
        if not chosen(name):
            continue
        if not path.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                built = make()
            if built.certificate is None:
                continue
            built.save(path)
        file, status = read(path, name), sw.verify(path, max_seconds=30).status
        base = Base(file, status, {}, [], [])
        if file.kind == "memory":
            built, engines = sw.load(path), list(stored().ENGINES["memory"])
            base = Base(file, status, dict(cases[name].inputs(built)), engines, [])
            base.answers = base.asked(built)
        if status in PROVED:
            yield base
