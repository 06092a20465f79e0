"""Writes one small file of every kind, dtype and certificate, with inputs and the answers of the code that runs.

    python tests/data/write.py FOLDER

`v1/` was written by version 0.1.0, the last before the rooms were moved, and is never written again: the files of a
version are what that version made. A new version of the file format gets a folder of its own; `v2/` holds the cases of
`CHOSEN`, which have every kind, dtype and type of step between them. Cases called `transpiled-wide` there are of the
time when stock attention of all neurons had width 4 and GELU affine tokens; they are never written again.

    files.zip        <name>.safetensors, a model; <name>/ for one in shards. Weights are mostly zeros: they pack well
    answers.npz      <name>|<argument> inputs, <name>||<engine> outputs
    expected.json    {name: {"engines", "questions", "answers", "status", "tensors"}}; questions and answers that are no
                     arrays stand here, `status` is the checker's verdict, `tensors` a hash of all tensors
"""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

import softwright as sw

DTYPES = ("float64", "float32")
LINE = {"x": (-1.0, 2.0)}
PLANE = {"x": (-1.0, 1.0), "y": (0.0, 2.0)}
SQUARE = {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}
SPACE = {"x": (-1.0, 1.0), "y": (-1.0, 1.0), "z": (0.0, 1.0)}
ENGINES = {"approximation": ("sdpa", "factorised"), "memory": ("pruned", "dense")}


@dataclass(frozen=True)
class Case:
    """`make` builds; `inputs` are the arguments of the question put to it (arrays, or anything that JSON holds)."""

    make: Callable[[], sw.Built]
    inputs: Callable[[sw.Built], Mapping[str, Any]]
    shards: int = 0  # items per file; 0: one file


def ripple(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.sin(2 * x) * np.cos(y)


def approximations() -> dict[str, Case]:
    """Every strategy and kind of target; certificates by tree, by parts, in closed form, at points, none."""

    def points(built: sw.Built) -> dict[str, Any]:
        box = built.network.box
        return {"inputs": np.concatenate([box.sample(20, seed=7), box.corners()])}  # (n, d)

    def ask(target: Any, box: Any, tol: float, dtype: str, **options: Any) -> Case:
        return Case(lambda: sw.approximate(target, box, tol=tol, dtype=dtype, **options), points)

    x, y = np.linspace(-1, 1, 8), np.linspace(0, 2, 6)
    curve = sw.Table(x, np.cos(2 * x), names=["x"])
    sheet = sw.Table.grid([x, y], np.sin(2 * x)[:, None] * np.exp(-y), names=["x", "y"])
    promised = sw.Function(lambda x: np.sin(2 * x), sw.Box(LINE), second_derivative=4.0)
    rows = {
        "affine-text": ("3*x - 2*y + 1", PLANE, 1e-5, {}),
        "auto-two-outputs": ("sin(3*x), exp(-x)", LINE, 1e-4, {}),
        "spectral": ("sin(3*x)", LINE, 1e-3, {"strategy": "spectral"}),
        "spectral-plane": ("sin(2*x)*cos(y)", PLANE, 1e-2, {"strategy": "spectral"}),
        "affine": ("tanh(3*x)", LINE, 1e-4, {"strategy": "affine"}),
        "affine-plane": ("sin(2*x)*cos(y)", PLANE, 1e-3, {"strategy": "affine"}),
        "grid": ("exp(-x*y)", PLANE, 1e-3, {"strategy": "grid"}),
        "pieces-gates": ("abs(x - 0.2)", LINE, 1e-4, {"strategy": "pieces"}),
        "pieces-smooth": ("max(x - 0.3, 0) + sin(x)", LINE, 1e-4, {}),
        "polyhedral": ("max(abs(x - y), 0.2)", PLANE, 1e-4, {"strategy": "pieces"}),
        "walls": ("abs(x - y) + sin(x)*y", SQUARE, 1e-4, {}),
        "ridge": ("cos(6*x + 4*y)", PLANE, 1e-3, {"strategy": "ridge"}),
        "ridge-sum": ("sin(x*y) + x", SQUARE, 5e-2, {"strategy": "ridge"}),
        "sum": ("sin(x) + y**2*x + exp(z)", SPACE, 1e-2, {"strategy": "sum"}),
        "scattered": ("exp(-x**2 - y**2)", PLANE, 1e-2, {"strategy": "scattered"}),
        "cells": ("sin(2*x)", LINE, 5e-2, {"strategy": "cells"}),
        "uncertified": ("sin(3*x)", LINE, 1e-4, {"certify": False}),
        "relative": ("100*exp(x)", LINE, 1e-4, {"relative": True}),
        "callable": (ripple, PLANE, 1e-2, {}),
        "callable-promised": (promised, LINE, 1e-3, {}),
        "table-line": (curve, None, 1e-3, {}),
        "table-plane": (sheet, None, 1e-3, {}),
    }
    cases = {
        f"approximation-{name}-{dtype}": ask(target, box, tol, dtype, **options)
        for name, (target, box, tol, options) in rows.items()
        for dtype in DTYPES
    }
    for dtype in DTYPES:
        for name, options in (
            ("L1", {"norm": "L1", "tightness": 0.3}),
            ("L2", {"norm": "L2", "tightness": 0.3}),
            ("part-of-the-box", {"domain": sw.Box(x=(-0.5, 0.5), y=(0.5, 1.5)), "tightness": 0.3}),
            ("factorised", {"engine": "factorised", "tightness": 0.3}),
        ):
            cases[f"approximation-certified-{name}-{dtype}"] = Case(
                lambda dtype=dtype, options=options: certified("exp(-x*y)", PLANE, dtype, options), points
            )
    return cases


def certified(text: str, box: Any, dtype: str, options: dict[str, Any]) -> sw.Built:
    """A grid network with a certificate that was asked for by itself."""
    from softwright.proof import certify

    built = sw.approximate(text, box, tol=1e-2, strategy="grid", dtype=dtype, certify=False)
    found = certify(built.network, text, **options)
    return replace(built, certificate=found.certificate, unproved="")


def memories() -> dict[str, Case]:
    """Every readout, reading, kind of labels and of sequences; one in shards."""
    rng = np.random.default_rng(11)
    numbers = [[1, 2, 3], [3, 2, 1], [2, 2], [5], [4, 1, 4, 1], [1, 3, 2]]
    values = [0.5, -1.25, 3.0, 7.0, 0.1, 2.5]
    texts = ["a new york taxi", "new york a taxi", "the london bus", "a bus"]
    colours = ["yellow", "odd", "red", "green"]
    vectors = rng.normal(size=(5, 3, 2)).tolist()
    pairs = rng.normal(size=(6, 2)).tolist()
    next_of, places = (
        [[1, 2, 3, 1], [2, 3, 1, 1], [3, 3, 2]],
        [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 0.5, 1.5]],
    )

    def ask(sequences: Any, labels: Any, dtype: str, shards: int = 0, **options: Any) -> Case:
        return Case(lambda: sw.memorize(sequences, labels, dtype=dtype, **options), lambda _: {"": sequences}, shards)

    cases = {}
    for dtype in DTYPES:
        for readout in ("attention", "feedforward"):
            end = f"{readout}-{dtype}"
            cases |= {
                f"memory-values-{end}": ask(numbers, values, dtype, readout=readout),
                f"memory-classes-{end}": ask(texts, colours, dtype, readout=readout),
                f"memory-rank-2-{end}": ask(numbers, pairs, dtype, readout=readout, rank=2),
                f"memory-multisets-{end}": ask(numbers[2:5], values[2:5], dtype, readout=readout, positional=False),
                f"memory-vectors-{end}": ask(vectors, values[:5], dtype, readout=readout),
                f"memory-tokens-{end}": ask(next_of, places, dtype, readout=readout, mode="token"),
                f"memory-next-{end}": ask(next_of, "next", dtype, readout=readout, mode="token", causal=True),
            }
        cases[f"memory-bytes-{dtype}"] = ask(texts, values[:4], dtype, tokenizer="bytes")
        cases[f"memory-shards-{dtype}"] = ask(numbers, values, dtype, shards=4)
    return cases


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "identity": nn.Identity,
    "relu": nn.ReLU,
    "leaky_relu": lambda: nn.LeakyReLU(0.05),
    "hardtanh": lambda: nn.Hardtanh(-0.5, 1.5),
    "hardsigmoid": nn.Hardsigmoid,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "silu": nn.SiLU,
    "mish": nn.Mish,
    "elu": lambda: nn.ELU(0.7),
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
    "softplus": nn.Softplus,
}


class Gated(nn.Module):
    """down(phi(gate x) * value x), the block of SwiGLU and its relatives."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.gate, self.value, self.down = nn.Linear(2, 3), nn.Linear(2, 3), nn.Linear(3, 2)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.activation(self.gate(x)) * self.value(x))


def transpiled() -> dict[str, Case]:
    """Every activation, with a box and without; every layout; gated blocks."""
    asked = np.random.default_rng(5).uniform(-1, 1, size=(12, 2))

    def mlp(name: str, dtype: str) -> nn.Module:
        torch.manual_seed(3)
        layers = (nn.Linear(2, 4), ACTIVATIONS[name](), nn.Linear(4, 2))
        return nn.Sequential(*layers).to(getattr(torch, dtype)).eval()

    def gated(name: str, dtype: str) -> nn.Module:
        torch.manual_seed(4)
        return Gated(ACTIVATIONS[name]()).to(getattr(torch, dtype)).eval()

    def ask(module: Callable[[], nn.Module], **options: Any) -> Case:
        return Case(lambda: sw.transpile(module(), **options), lambda _: {"inputs": asked})

    cases = {}
    for dtype in DTYPES:
        for name in ACTIVATIONS:
            source = lambda name=name, dtype=dtype: mlp(name, dtype)  # noqa: E731 (bound here)
            cases[f"transpiled-{name}-{dtype}"] = ask(source, box=(-1, 1))
            if name in ("relu", "tanh", "gelu", "softplus"):
                cases[f"transpiled-{name}-unbounded-{dtype}"] = ask(source)
        for layout in ("sdpa", "multihead", "sequence"):
            for name in ("relu", "gelu"):
                source = lambda name=name, dtype=dtype: mlp(name, dtype)  # noqa: E731
                cases[f"transpiled-{name}-{layout}-{dtype}"] = ask(source, box=(-1, 1), layout=layout)
        for name in ("silu", "gelu", "relu", "sigmoid", "identity"):
            source = lambda name=name, dtype=dtype: gated(name, dtype)  # noqa: E731
            cases[f"transpiled-gated-{name}-{dtype}"] = ask(source, box=(-1, 1))
        source = lambda dtype=dtype: gated("sigmoid", dtype)  # noqa: E731
        cases[f"transpiled-gated-sigmoid-unbounded-{dtype}"] = ask(source)
        cases[f"transpiled-cast-{dtype}"] = ask(
            lambda dtype=dtype: mlp("relu", "float32" if dtype == "float64" else "float64"), box=(-1, 1), dtype=dtype
        )
    return cases


SOLVERS = {
    "least_squares": ("newton_schulz", "gradient", "chebyshev"),
    "ridge": ("newton_schulz", "gradient", "chebyshev"),
    "lasso": ("fista", "admm"),
    "nonnegative_least_squares": ("projected_gradient",),
    "logistic": ("irls", "gradient"),
    "poisson": ("irls", "gradient"),
    "robust": ("irls", "gradient"),
}


def in_context() -> dict[str, Case]:
    """Every method and solver, for well-conditioned data in one variable: few layers."""
    rng = np.random.default_rng(2)
    x, queries = rng.uniform(-1, 1, size=(12, 1)), rng.uniform(-1, 1, size=(4, 1))
    line = 0.5 * x[:, 0] + 0.3
    ys = {"logistic": (line > 0.2).astype(float), "poisson": np.floor(np.exp(line) * 2)}

    def ask(method: str, solver: str, dtype: str) -> Case:
        penalty = 0.1 if method in ("ridge", "lasso") else None
        return Case(
            lambda: sw.in_context(method, 1, solver=solver, penalty=penalty, dtype=dtype, condition=3.0, sample=False),
            lambda _: {"x": x, "y": ys.get(method, line), "queries": queries},
        )

    return {
        f"in_context-{method}-{solver}-{dtype}": ask(method, solver, dtype)
        for method, solvers in SOLVERS.items()
        for solver in solvers
        for dtype in DTYPES
    }


# label, with a suffix where one is built twice -> sizes
THEOREMS: dict[str, dict[str, Any]] = {
    "A1": {"points": 9, "tokens": 4, "dim": 2},
    "A2": {"tokens": 5, "heads": 2, "dim": 2},
    "A3": {"heads": 4, "tokens": 3, "dim": 2, "hidden": 2},
    "A3-formula": {"formula": "sin(x) + y, x - y**2", "knots": 4},
    "A4": {"cells": 4},
    "A5": {"points": 20, "tokens": 4, "dim": 2},
    "A5-logistic": {"loss": "logistic", "points": 20, "tokens": 4, "dim": 2},
    "A6": {"points": 20, "width": 3, "dim": 2},
    "B1": {"pieces": 4},
    "B2": {"formula": "x*y", "cells": 4, "columns": 2},
    "B3": {"target": "root", "p": 1, "cells": 6},
    "B4": {"formula": "disc", "norm": "L2", "cells": 4, "eps0": 0.2},
    "B4-sup": {"formula": "x*y", "cells": 4},
    "C1": {"values": 4},
    "C2": {"vocabulary": 3, "sequences": 2},
    "C3": {"dim": 2},
    "C2-tight": {"vocabulary": 3, "sequences": 2, "scale": "tight"},
    "C4": {"sequences": 2},
    "C5": {"levels": 3},
    "C6": {"data": [[[1.0, 2.0]], [[2.0, 3.0]]]},
}


def theorems() -> dict[str, Case]:
    def inputs(built: sw.Built) -> dict[str, Any]:
        return {"inputs": built.source.sample(np.random.default_rng(1), 6)}

    return {
        f"theorem-{name}": Case(lambda name=name, sizes=sizes: sw.theorem(name[:2]).build(**sizes), inputs)
        for name, sizes in THEOREMS.items()
    }


# beginnings of names: what is stored of versions after the first
CHOSEN = (
    *(f"approximation-{name}-" for name in ("affine-text", "spectral", "walls", "sum", "callable", "table-plane")),
    *(f"approximation-{name}-" for name in ("certified-L2", "certified-factorised", "certified-part", "uncertified")),
    *(f"memory-{name}-" for name in ("values-attention", "classes-feedforward", "shards")),
    *(f"transpiled-{name}-float" for name in ("relu", "gelu", "cast")),
    *(
        f"in_context-{name}-"
        for name in ("ridge-gradient", "least_squares-newton_schulz", "poisson-gradient", "lasso-fista")
    ),
    *(f"theorem-{name}" for name in ("A1", "A6", "B1", "C1", "C3", "C4")),
)


def tensors_hash(tensors: Mapping[str, np.ndarray]) -> str:
    """A hash of names, types, shapes and bytes that shares no code with softwright's own."""
    parts = [(name, str(array.dtype), array.shape, array.tobytes().hex()) for name, array in sorted(tensors.items())]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def plain(answers: Any) -> list[Any]:
    """Answers that are no single array, as JSON holds them."""
    return [row.tolist() if isinstance(row, np.ndarray) else row for row in answers]


def answer(built: sw.Built, inputs: Mapping[str, Any], engine: str) -> Any:
    """What the network says to stored inputs, by an engine where there are several."""
    if built.kind == "approximation":
        return built.network.evaluate(inputs["inputs"], engine)
    if built.kind == "memory":
        return built.network.evaluate(inputs[""], engine=engine)
    return built(**inputs) if built.kind == "in_context" else built(inputs["inputs"])


def cases() -> dict[str, Case]:
    return approximations() | memories() | transpiled() | in_context() | theorems()


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    arrays: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    with TemporaryDirectory() as place:
        for name, case in cases().items():
            if not name.startswith(CHOSEN):
                continue
            built = case.make()
            inputs = case.inputs(built)
            said: dict[str, Any] = {"engines": ENGINES.get(built.kind, ("",)), "questions": None, "answers": {}}
            for argument, given in inputs.items():
                if isinstance(given, np.ndarray):
                    arrays[f"{name}|{argument}"] = given
                else:
                    said["questions"] = given
            for engine in said["engines"]:
                out = answer(built, inputs, engine)
                if isinstance(out, np.ndarray):
                    arrays[f"{name}||{engine}"] = out
                else:
                    said["answers"][engine] = plain(out)
            if case.shards:
                sw.save_shards(built, Path(place) / name, rows=case.shards)
            else:
                built.save(Path(place) / f"{name}.safetensors")
                said["status"] = sw.verify(Path(place) / f"{name}.safetensors").status
            state = built.network.state_dict()
            said["tensors"] = tensors_hash({key: tensor.numpy() for key, tensor in state.items()})
            expected[name] = said
            print(name, said.get("status"), built.unproved, flush=True)
        with zipfile.ZipFile(folder / "files.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for path in sorted(Path(place).rglob("*")):
                archive.write(path, path.relative_to(place))
    np.savez_compressed(folder / "answers.npz", **arrays)
    (folder / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
