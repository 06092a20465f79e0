"""Networks, trees and certificates made without the prover, so that the checker is tested on its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softwright.attention import AttentionNetwork, Axis, Head
from softwright.domain import Box
from softwright.fileformat import weights_sha256, write_model
from softwright.result.certificate import Certificate, sum_rounded_up

Values = Callable[[np.ndarray], np.ndarray]
PLAN = {"strategy": "by hand", "tolerance": 0.0, "heads": [], "tokens": 0, "parameters": 0, "seconds": 0.0}


def uniform_tree(dim: int, depth: int) -> bytes:
    """Every branch bisected `depth` times, the variables in turn."""
    tree = bytes([255])
    for level in reversed(range(depth)):
        tree = bytes([level % dim]) + tree + tree
    return tree


def soft_axis(tokens: int, margin: int = 3, width: float = 1.5) -> Axis:
    spacing = 2.0 / (tokens - 1 - 2 * margin)
    centres = (np.arange(tokens) - (tokens - 1) / 2) * spacing
    variance = (width * spacing) ** 2
    return Axis(centres / variance, -(centres**2) / (2 * variance))


def fitted_head(box: Box, values: Values, tokens: int, **axis: Any) -> Head:
    """Least-squares values on a grid of soft cells."""
    line = soft_axis(tokens, **axis)
    samples = {1: 20 * tokens, 2: 3 * tokens}.get(box.dim, 2 * tokens)
    t = np.cos(np.linspace(0.0, np.pi, samples))
    grid = np.stack([a.ravel() for a in np.meshgrid(*[t] * box.dim, indexing="ij")], axis=1)
    table = values(box.from_unit(grid)).reshape(*[samples] * box.dim, -1)
    solve = np.linalg.lstsq(line.weights(t), np.eye(samples), rcond=1e-12)[0]  # (tokens, samples)
    for i in range(box.dim):
        table = np.moveaxis(np.tensordot(solve, table, axes=(1, i)), 0, i)
    return Head.on_grid([line] * box.dim, table.reshape(tokens**box.dim, -1))


@dataclass
class Case:
    """Everything that goes into a file; tests change one thing and see what the checker says."""

    tensors: dict[str, np.ndarray]
    model: dict[str, Any]
    target: dict[str, Any]
    certificate: dict[str, Any]
    observed: float = 0.0
    network: AttentionNetwork | None = field(default=None, repr=False)

    def write(self, path: Path) -> Path:
        plan = {**PLAN, "dtype": self.certificate.get("dtype")}
        sections = {"model": self.model, "target": self.target, "plan": plan, "certificate": self.certificate}
        write_model(path, self.tensors, sections)
        return path

    def sign(self) -> None:
        """Make the hash fit the weights, as a forger would."""
        self.certificate["weights_sha256"] = weights_sha256(self.tensors)

    def state(self, name: str, value: float) -> None:
        """Set a number of the statement in both its forms."""
        self.certificate[name] = value
        self.certificate["hex"][name] = float(value).hex()


def make_case(
    heads: list[Head],
    box: Box,
    text: str,
    values: Values,
    tree: bytes | tuple[Any, ...] | None,
    *,
    factor: float = 1.2,
    rounding: float = 1e-9,
    dtype: torch.dtype = torch.float64,
    engine: str = "sdpa",
    p: float | None = None,
    exact: float | None = None,
) -> Case:
    network = AttentionNetwork(heads, box, dtype)
    tensors = {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
    points = np.concatenate([box.sample(20_000, seed=1), box.corners()])
    with torch.no_grad():
        run = network.double()
        error = np.abs(run.evaluate(points) - values(points).reshape(len(points), -1))
    observed = float(error.max())
    stated = float(observed * factor) if exact is None else exact
    leaves = tree.count(255) if isinstance(tree, bytes) else sum(part.tree.count(255) for part in tree or ())
    certificate = Certificate(
        norm="sup" if p is None else "Lp",
        p=p,
        bound=sum_rounded_up(stated, rounding),
        exact_part=stated,
        rounding_part=rounding,
        domain={name: (low, high) for name, low, high in box},
        dtype=str(dtype).removeprefix("torch."),
        engine=engine,
        method="taylor",
        order=10,
        boxes=leaves,
        tree=tree,
        weights_sha256=weights_sha256(tensors),
        target={"kind": "expression", "text": text, "variables": list(box.names)},
        version="0.1.0",
        seconds=0.1,
    )
    model = {
        "kind": "approximation",
        "box": box.as_dict(),
        "dtype": certificate.dtype,
        "heads": [{"structure": h.structure, "axis_sizes": [a.tokens for a in h.axes]} for h in heads],
    }
    return Case(tensors, model, certificate.target, certificate.flat(), observed, network)


def sine_case(**options: Any) -> Case:
    """sin(3x) on 12 tokens: the small standard example."""
    box = Box(x=(-1.0, 1.0))
    head = fitted_head(box, lambda x: np.sin(3 * x), 12)
    return make_case([head], box, "sin(3*x)", lambda x: np.sin(3 * x), uniform_tree(1, 4), **options)


def plane_case(**options: Any) -> Case:
    """A two-variable formula on 8 x 8 tokens."""
    box = Box(x=(-1.0, 1.0), y=(0.0, 1.0))

    def values(x: np.ndarray) -> np.ndarray:
        return np.sin(2 * x[:, :1]) * np.exp(-x[:, 1:])

    head = fitted_head(box, values, 8, margin=2)
    return make_case([head], box, "sin(2*x)*exp(-y)", values, uniform_tree(2, 6), **options)
