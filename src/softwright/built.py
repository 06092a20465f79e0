"""`Built`: what every builder returns, and the file that holds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softwright.attention import DTYPES, AttentionNetwork, Axis, Head
from softwright.build.check import Observed
from softwright.build.plan import Plan
from softwright.domain import Box
from softwright.errors import FileFormatError, InvalidInput
from softwright.fileformat import read_model, write_model
from softwright.targets import Expression, Target


@dataclass(frozen=True)
class Built:
    """A network, the plan that led to it, what it was asked to be, and how far off it was seen to be.

    `observed` is a sample: the largest deviation at points that no builder saw. `source` is the live target where there is one
    (a formula is rebuilt from a file; a callable is not).
    """

    network: AttentionNetwork
    plan: Plan
    target: dict[str, Any]
    observed: Observed | None = None
    source: Target | None = field(default=None, repr=False, compare=False)

    @property
    def observed_error(self) -> float:
        """Largest deviation seen (a sample, not a bound); nan if never checked."""
        return float("nan") if self.observed is None else self.observed.error

    def __call__(self, points: Any = None, /, **named: Any) -> np.ndarray:
        """Values at points (..., d), or at named coordinates: built(x=0.3, y=1.0). NumPy in, NumPy out."""
        if points is None:
            names = self.network.names
            if set(named) != set(names):
                raise InvalidInput("Built", [f"give every one of {', '.join(names)}, got {', '.join(named) or 'nothing'}"])
            points = np.stack(np.broadcast_arrays(*[np.asarray(named[name], dtype=float) for name in names]), axis=-1)
        return self.network.evaluate(np.asarray(points, dtype=float))

    def rows(self) -> list[tuple[str, str]]:
        """The facts worth a line each, for tables on screen."""
        rows = [
            ("target", _target_text(self.target)),
            ("domain", ", ".join(f"{name} in [{low:g}, {high:g}]" for name, low, high in self.network.box)),
            ("strategy", self.plan.strategy),
            ("heads", str(len(self.plan.heads))),
            ("tokens", str(self.network.tokens)),
            ("parameters", str(self.plan.parameters)),
            ("dtype", self.plan.dtype),
            ("tolerance", f"{self.plan.tolerance:.3g}"),
        ]
        if self.observed is not None:
            rows.append(("observed error", f"{self.observed.error:.3g} (sampled at {self.observed.points} points)"))
        rows.append(("build time", f"{self.plan.seconds:.2f} s"))
        return rows

    def __repr__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "Built\n" + "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)

    def plot(self, path: str | Path | None = None) -> Any:
        """A figure of the target, the network and the error; written to `path` if given. Needs softwright[plot]."""
        from softwright.report.figures import plot_built

        return plot_built(self, path)

    def save(self, path: str | Path) -> None:
        """Weights and everything said about them in one safetensors file."""
        heads = [{"structure": head.structure, "axis_sizes": list(head.axis_sizes)} for head in self.network.layer]
        dtype = next(name for name, kind in DTYPES.items() if kind == self.network.dtype)
        model = {"kind": "approximation", "box": self.network.box.as_dict(), "dtype": dtype, "heads": heads}
        tensors = {name: tensor.detach().cpu().numpy() for name, tensor in self.network.state_dict().items()}
        sections = {
            "model": model,
            "target": self.target,
            "plan": self.plan.as_dict(),
            "observed": None if self.observed is None else self.observed.as_dict(),
        }
        write_model(path, tensors, sections)


def load(path: str | Path) -> Built:
    """Read a file written by `Built.save`."""
    content = read_model(path)
    model = content.sections["model"]
    try:
        box = Box(model["box"])
        dtype = DTYPES[model["dtype"]]
        heads = [_head(content.tensors, i, info) for i, info in enumerate(model["heads"])]
        network = AttentionNetwork(heads, box, dtype)
        state = {name: torch.from_numpy(np.array(array)) for name, array in content.tensors.items()}
        network.load_state_dict(state)
        plan = Plan.from_dict(content.sections["plan"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise FileFormatError(f"{path}: the file does not describe a network ({error})") from error
    target = content.sections.get("target", {})
    observed = content.sections.get("observed")
    return Built(
        network=network,
        plan=plan,
        target=target,
        observed=None if observed is None else Observed(observed["error"], tuple(observed["point"]), observed["points"]),
        source=Expression(target["text"], target["variables"]) if target.get("kind") == "expression" else None,
    )


def _head(tensors: dict[str, np.ndarray], index: int, info: dict[str, Any]) -> Head:
    prefix = f"layer.heads.{index}."
    arrays = {name: tensors.get(prefix + name) for name in ("keys", "biases", "values", "slopes")}
    keys, biases, values = arrays["keys"], arrays["biases"], arrays["values"]
    if keys is None or biases is None or values is None:
        raise KeyError(f"{prefix}keys, biases or values")
    sizes = info.get("axis_sizes") or []
    # Only the sizes of the axes matter here: the numbers themselves are loaded into the module from the file.
    axes = tuple(Axis(np.zeros(n), np.zeros(n)) for n in sizes)
    return Head(keys, biases, values, arrays["slopes"], info["structure"], axes)


def _target_text(target: dict[str, Any]) -> str:
    return str(target.get("text") or target.get("name") or target.get("kind") or "unknown")
