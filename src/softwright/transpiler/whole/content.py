"""The file of a bound at a prompt: tensors and sections, as `checker/transpiled/prompt.py` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from softwright.fileformat import weights_sha256, with_reference
from softwright.result.at_prompt import AtPrompt
from softwright.result.built import Built
from softwright.result.constructed import tensors_of
from softwright.transpiler.whole.program import Attention, Linear, Norm, Program

KIND, SCHEMA = "transformer at a prompt", "softwright-prompt/2"


def content(
    found: AtPrompt,
    program: Program,
    parts: Mapping[str, Built[Any]],
    addends: np.ndarray,
    hidden: np.ndarray | None,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Everything that the bound rests on; weights of a shared block are stored once."""
    tensors: dict[str, np.ndarray] = {"prompt": addends}
    if hidden is not None:
        tensors["mask"] = hidden.astype(np.float64)
    paths = list(dict.fromkeys(step.body.path for step in program.sublayers if not isinstance(step.body, Attention)))
    sublayers: list[dict[str, Any]] = []
    for i, step in enumerate(program.sublayers):
        name, entry = f"sublayers.{i}", {"name": step.name, "first": bool(step.first), "eps": step.norm.eps}
        tensors |= _norm(f"{name}.norm", step.norm)
        if isinstance(step.body, Attention):
            for part in ("query", "key", "value", "output"):
                tensors |= _linear(f"{name}.{part}", getattr(step.body, part))
            entry |= {"body": "attention", "heads": int(step.body.heads), "causal": step.body.causal}
        else:
            entry |= {"body": "block", "block": paths.index(step.body.path)}
        sublayers.append(entry)
    if program.last is not None:
        tensors |= _norm("last", program.last)
    if program.head is not None:
        tensors |= _linear("head", program.head)
    blocks = []
    for j, path in enumerate(paths):
        part = parts[path]
        own = with_reference(tensors_of(part.network), part.reference)
        tensors |= {f"blocks.{j}.{name}": array for name, array in own.items()}
        model = {"kind": part.kind, **part.network.describe()}
        said = {"model": model, "target": part.target, "certificate": part.certificate.flat()}
        blocks.append({"path": path or "(all)", **said})
    certificate = {
        "schema": SCHEMA,
        "statement": found.statement,
        "bound": found.bound,
        "budget": dict(found.budget),
        "dtype": found.dtype,
        "assumptions": list(found.assumptions),
        "trust": found.trust,
        "weights_sha256": weights_sha256(tensors),
    }
    model = {
        "kind": KIND,
        "dtype": found.dtype,
        "radius": found.quantities["radius"],
        "sublayers": sublayers,
        "last": None if program.last is None else program.last.eps,
        "head": program.head is not None,
        "masked": hidden is not None,
        "blocks": blocks,
    }
    return tensors, {"model": model, "certificate": certificate}


def _linear(name: str, linear: Linear) -> dict[str, np.ndarray]:
    return {f"{name}.weight": np.ascontiguousarray(linear.weight), f"{name}.bias": np.ascontiguousarray(linear.bias)}


def _norm(name: str, norm: Norm) -> dict[str, np.ndarray]:
    return {f"{name}.gain": norm.gain, f"{name}.shift": norm.shift}
