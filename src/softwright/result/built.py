"""`Built`: what every builder returns, and the file that holds it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from softwright.attention import AttentionNetwork, Constructed, tensors_of
from softwright.errors import FileFormatError, InvalidInput
from softwright.fileformat import ModelFile, read_model, write_model
from softwright.result import closed_form as closed_certificate
from softwright.result.certificate import Certificate
from softwright.result.closed_form import ClosedForm
from softwright.result.observed import Observed
from softwright.result.plan import Plan
from softwright.targets import Expression

# The class that a file's kind names, and the function that draws it: imported only when a file or a figure asks.
_NETWORKS = {
    "memory": "softwright.memory.network:MemoryNetwork",
    "approximation": "softwright.attention.network:AttentionNetwork",
    "in_context": "softwright.methods.network:InContextStack",
    "theorem": "softwright.theorems.tools.network:TheoremNetwork",
    "transpiled": "softwright.transpiler.network:TranspiledNetwork",
}
_FIGURES = {
    "transpiled": "softwright.transpiler.figure:plot_transpiled",
    "transpiled_module": "softwright.transpiler.figure:plot_transpiled",
    "memory": "softwright.memory.figure:plot_memory",
    "approximation": "softwright.approximation.figure:plot_built",
    "in_context": "softwright.methods.figure:plot_in_context",
    "theorem": "softwright.theorems.figure:plot_theorem",
}


@dataclass(frozen=True)
class Built:
    """A network, the plan that led to it, what it was asked to be, and how far off it is.

    `network` is a `torch.nn.Module`; its class depends on what was built (see `attention.Constructed` for what all have
    in common). `certificate` is a proof over the whole domain, rounding included; where there is none, `unproved` says
    why. `observed` is a sample: the largest deviation at inputs that no builder saw. `source` is the live target where
    there is one (a formula is rebuilt from a file; a callable is not).
    """

    network: Any
    plan: Plan
    target: dict[str, Any]
    observed: Observed | None = None
    certificate: Any = None  # a Certificate, or a ClosedForm
    unproved: str = ""
    source: Any = field(default=None, repr=False, compare=False)

    @property
    def kind(self) -> str:
        return self.network.kind

    @property
    def observed_error(self) -> float:
        """Largest deviation seen (a sample, not a bound); nan if never checked."""
        return float("nan") if self.observed is None else self.observed.error

    def __call__(self, inputs: Any = None, /, **named: Any) -> Any:
        """The network on NumPy input. Of an approximation: points (..., d), or named, built(x=0.3, y=1.0)."""
        if not isinstance(self.network, AttentionNetwork):
            return self.network.evaluate(inputs, **named)
        if inputs is None:
            names = self.network.names
            if set(named) != set(names):
                raise InvalidInput(
                    "Built", [f"give every one of {', '.join(names)}, got {', '.join(named) or 'nothing'}"]
                )
            inputs = np.stack(np.broadcast_arrays(*[np.asarray(named[name], dtype=float) for name in names]), axis=-1)
        return self.network.evaluate(np.asarray(inputs, dtype=float))

    def rows(self) -> list[tuple[str, str]]:
        """The facts worth a line each, for tables on screen."""
        first, *others = self.network.facts()
        rows = [
            ("target", _target_text(self.target)),
            first,
            ("strategy", self.plan.strategy),
            *others,
            ("parameters", str(self.plan.parameters)),
            ("dtype", self.plan.dtype),
        ]
        if self.plan.tolerance > 0:
            rows.append(("tolerance", f"{self.plan.tolerance:.3g}"))
        if self.certificate is not None:
            rows.append(("proved error", self._proved()))
            if getattr(self.certificate, "between", None) is not None:
                rows.append(("proved between points", self._proved_between()))
        elif self.unproved:
            rows.append(("proved error", f"none: {self.unproved}"))
        if self.observed is not None:
            rows.append(("observed error", f"{self.observed.error:.3g} (sampled at {self.observed.points} points)"))
        rows.append(("build time", f"{self.plan.seconds:.2f} s"))
        return rows

    def _proved(self) -> str:
        c = self.certificate
        parts = f"exact {c.exact_part:.3g} + rounding {c.rounding_part:.2g}"
        if isinstance(c, ClosedForm):
            return f"<= {c.bound:.3g}, {c.statement} ({parts}, {c.method})"
        where = "at the table's points" if self.target.get("kind") == "table" else f"in {c.norm} norm"
        return f"<= {c.bound:.3g} {where} ({parts}, {c.boxes} box(es), {c.seconds:.2f} s)"

    def _proved_between(self) -> str:
        b = self.certificate.between
        return f"<= {b.bound:.3g} against multilinear interpolation (seen {b.lower:.3g}, {b.boxes} boxes)"

    def __repr__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "Built\n" + "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)

    def plot(self, path: str | Path | None = None) -> Any:
        """A figure of what was built and of its error; written to `path` if given. Needs softwright[plot]."""
        if self.kind not in _FIGURES:
            raise InvalidInput("plot", [f"there is no figure of a network of kind {self.kind!r}"])
        return _named(_FIGURES[self.kind])(self, path)

    def plot_proof(self, path: str | Path | None = None) -> Any:
        """A figure of the proof: its leaf boxes over the domain, and the error against the bound."""
        from softwright.report.proof_figure import proof_figure

        return proof_figure(self, path)

    def save(self, path: str | Path) -> None:
        """Weights and everything said about them in one safetensors file."""
        network = self.network
        if not isinstance(network, Constructed):
            raise InvalidInput(
                "save", [f"a {type(network).__name__} cannot be rebuilt from a file; save its state_dict instead"]
            )
        sections = {
            "model": {"kind": self.kind, **network.describe()},
            "target": self.target,
            "plan": self.plan.as_dict(),
            "observed": None if self.observed is None else self.observed.as_dict(),
            "certificate": None if self.certificate is None else self.certificate.to_json(),
        }
        write_model(path, tensors_of(self.network), sections)


def load(path: str | Path) -> Built:
    """Read a file written by `Built.save`."""
    content = read_model(path)
    try:
        return _rebuilt(content, path)
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise FileFormatError(
            f"{path}: the file does not describe a network ({error}); build and save it again"
        ) from error


def _named(place: str) -> Any:
    module, name = place.split(":")
    return getattr(import_module(module), name)


def _rebuilt(content: ModelFile, path: str | Path) -> Built:
    model = content.sections["model"]
    network = _named(_NETWORKS[model["kind"]]).rebuilt(model, content.tensors)
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


def _certificate(content: ModelFile, path: str | Path) -> tuple[Certificate | ClosedForm | None, str]:
    """The certificate of a file, if it still speaks of these weights; a changed weight voids it, visibly."""
    data = content.sections.get("certificate")
    if data is None:
        return None, ""
    closed = data["schema"] == closed_certificate.SCHEMA
    certificate = ClosedForm.from_json(data) if closed else Certificate.from_json(data)
    if certificate.weights_sha256 != content.weights_sha256:
        reason = "the weights in the file are not those that its certificate was proved for"
        warnings.warn(f"{path}: {reason}; the certificate is dropped", UserWarning, stacklevel=4)
        return None, reason
    return certificate, ""


def _target_text(target: dict[str, Any]) -> str:
    return str(target.get("text") or target.get("name") or target.get("kind") or "unknown")
