"""`Built`: what every builder returns, and the file that holds it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softwright.attention import DTYPES, AttentionNetwork, Axis, Head
from softwright.build.check import Observed
from softwright.build.plan import Plan
from softwright.certify.certificate import Certificate
from softwright.domain import Box
from softwright.errors import FileFormatError, InvalidInput
from softwright.fileformat import ModelFile, read_model, write_model
from softwright.targets import Expression, Target


@dataclass(frozen=True)
class Built:
    """A network, the plan that led to it, what it was asked to be, and how far off it is.

    `certificate` is a proof over the whole domain, rounding included; where there is none, `unproved` says why.
    `observed` is a sample: the largest deviation at points that no builder saw. `source` is the live target where
    there is one (a formula is rebuilt from a file; a callable is not).
    """

    network: AttentionNetwork
    plan: Plan
    target: dict[str, Any]
    observed: Observed | None = None
    certificate: Certificate | None = None
    unproved: str = ""
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
                raise InvalidInput(
                    "Built", [f"give every one of {', '.join(names)}, got {', '.join(named) or 'nothing'}"]
                )
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
        if self.certificate is not None:
            c = self.certificate
            parts = f"exact {c.exact_part:.3g} + rounding {c.rounding_part:.2g}, {c.boxes} box(es), {c.seconds:.2f} s"
            where = "at the table's points" if self.target.get("kind") == "table" else f"in {c.norm} norm"
            rows.append(("proved error", f"<= {c.bound:.3g} {where} ({parts})"))
        elif self.unproved:
            rows.append(("proved error", f"none: {self.unproved}"))
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

    def plot_proof(self, path: str | Path | None = None) -> Any:
        """A figure of the proof: its leaf boxes over the domain, and the error against the bound."""
        from softwright.report.proof_figure import proof_figure

        return proof_figure(self, path)

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
            "certificate": None if self.certificate is None else self.certificate.to_json(),
        }
        write_model(path, tensors, sections)


def load(path: str | Path) -> Built:
    """Read a file written by `Built.save`."""
    content = read_model(path)
    try:
        return _rebuilt(content, path)
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise FileFormatError(
            f"{path}: the file does not describe a network ({error}); build and save it again"
        ) from error


def _rebuilt(content: ModelFile, path: str | Path) -> Built:
    model = content.sections["model"]
    heads = [_head(content.tensors, i, info) for i, info in enumerate(model["heads"])]
    network = AttentionNetwork(heads, Box(model["box"]), DTYPES[model["dtype"]])
    network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in content.tensors.items()})
    target = content.sections.get("target", {})
    observed = content.sections.get("observed")
    certificate, unproved = _certificate(content, path)
    return Built(
        network=network,
        plan=Plan.from_dict(content.sections["plan"]),
        target=target,
        observed=None
        if observed is None
        else Observed(observed["error"], tuple(observed["point"]), observed["points"]),
        certificate=certificate,
        unproved=unproved,
        source=Expression(target["text"], target["variables"]) if target.get("kind") == "expression" else None,
    )


def _certificate(content: ModelFile, path: str | Path) -> tuple[Certificate | None, str]:
    """The certificate of a file, if it still speaks of these weights; a changed weight voids it, visibly."""
    data = content.sections.get("certificate")
    if data is None:
        return None, ""
    certificate = Certificate.from_json(data)
    if certificate.weights_sha256 != content.weights_sha256:
        reason = "the weights in the file are not those that its certificate was proved for"
        warnings.warn(f"{path}: {reason}; the certificate is dropped", UserWarning, stacklevel=4)
        return None, reason
    return certificate, ""


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
