"""`Built`: what every builder returns, and the file that holds it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from softwright.errors import FileFormatError, InvalidInput
from softwright.fileformat import ModelFile, read_model, reference_sha256, with_reference, write_model
from softwright.precision import name_of
from softwright.result.at_prompt import AtPrompt
from softwright.result.certificate import Certificate
from softwright.result.certified import Certified, read_certificate
from softwright.result.constructed import Constructed, Network, tensors_of
from softwright.result.kinds import kind_of, loaded
from softwright.result.observed import Observed
from softwright.result.plan import Plan
from softwright.result.standing import Standing, issued, unstorable, void_reason
from softwright.result.told import unprintable

NetworkT = TypeVar("NetworkT", bound=Network)
Rebuilt = Callable[[Mapping[str, Any], Mapping[str, np.ndarray]], Any]  # of a description and tensors
_TARGET = "softwright.targets.coerce:rebuilt"
_FOLDER = "softwright.memory.shards:load_shards"
_EXPORT = "softwright.export:export"
_MODEL_FILE = "softwright.export:check_model_file"
_PAGE, _INLINE = "softwright.page.write:write_page", "softwright.page.write:inline"
_PROOF_FIGURE = "softwright.report.proof_figure:proof_figure"
_STANDING = Standing()
_ENGINES_TOLD = {
    "double": "double: float64 inside, rounded once",
    "window": "window: proved by exact part + network.window_error(), not by the certificate's rounding",
    "tree": "tree: proved by exact part + network.tree_error(), not by the certificate's rounding",
}


@dataclass(frozen=True)
class Built(Generic[NetworkT]):
    """A network, the plan that led to it, what it was asked to be, and how far off it is.

    `network` is a `torch.nn.Module`; its class depends on what was built (see `result.constructed` for what all have in
    common). `certificate` is a proof over the whole domain, rounding included; where there is none, `unproved` says
    why. It speaks of the network as it was proved: once that is cast, moved or changed, `certificate` is None and
    `certificate_void` says why. `observed` is a sample: the largest deviation at inputs that no builder saw. `source`
    is the live target where there is one (a formula is rebuilt from a file; a callable is not). `reference` holds
    arrays that the certificate compares the network with and that are no part of it; a file keeps them, so that a
    checker has them. `parts` are the replaced blocks of a module by their paths, each a network with a certificate and,
    if it is saved, a file of its own.
    """

    network: NetworkT
    plan: Plan
    target: dict[str, Any]
    observed: Observed | None = None
    certificate: Any = _STANDING  # a `Certified`: a Certificate, or a ClosedForm; None if there is none that stands
    unproved: str = ""
    source: Any = field(default=None, repr=False, compare=False)
    reference: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False, compare=False)
    parts: Mapping[str, Built[Any]] = field(default_factory=dict, repr=False, compare=False)
    told: bool = field(default=False, repr=False, compare=False)  # by a file: nothing of it was proved again here

    @property
    def kind(self) -> str:
        return self.network.kind

    @property
    def engine(self) -> str:
        """How the network runs unless a call says otherwise: of an approximation one of `attention.ENGINES`, which
        `built.network.engine = ...` sets; of other kinds the one way that they have."""
        return getattr(self.network, "engine", "sdpa")

    @property
    def certificate_void(self) -> str:
        """Why the certificate that was issued no longer speaks of the network; empty if it does, or there was none."""
        found = issued(self)
        return "" if found is None else void_reason(self.network, found)

    @property
    def observed_error(self) -> float:
        """Largest deviation seen (a sample, not a bound); nan if never checked."""
        return float("nan") if self.observed is None else self.observed.error

    def __call__(self, inputs: Any = None, /, **named: Any) -> Any:
        """The network on NumPy input. Of an approximation: points (..., d), or named, built(x=0.3, y=1.0)."""
        return self.network.evaluate(inputs, **named)

    def certify_at(self, *prompt: Any, radius: float = 0.0, **named: Any) -> AtPrompt:
        """What is proved of one prompt, and of all prompts within `radius` of it where the network allows that: in
        context, built.certify_at(x, y, queries); of a transpiled transformer, built.certify_at(inputs)."""
        prove = kind_of(self.kind).at
        if not prove:
            fault = f"nothing is proved of one input of a network of kind {self.kind!r}"
            raise InvalidInput("certify_at", [f"{fault}; its certificate covers all that it names"])
        return loaded(prove)(self, *prompt, radius=radius, **named)

    def attention(self, inputs: Any = None, /, **named: Any) -> Any:
        """What the network attends to at these inputs, given as in a call: tokens by name, weights, keys, values.

        Returns an `AttentionView` (softwright.attention): a table when printed, arrays in `.heads`.
        """
        show = getattr(self.network, "attention", None)
        if show is None:
            fault = f"a network of kind {self.kind!r} has no one view of its attention"
            raise InvalidInput("attention", [f"{fault}; its layers are modules of built.network, call those"])
        return show(inputs, **named)

    def rows(self) -> list[tuple[str, str]]:
        """The facts worth a line each, for tables on screen."""
        first, *others = self.network.facts()
        rows = [
            ("target", _target_text(self.target)),
            first,
            ("strategy", self.plan.strategy),
            *others,
            ("parameters", str(self.plan.parameters)),
            ("dtype", name_of(self.network.dtype)),
        ]
        if self.engine in _ENGINES_TOLD:
            rows.append(("engine", _ENGINES_TOLD[self.engine]))
        if self.plan.tolerance > 0:
            rows.append(("tolerance", f"{self.plan.tolerance:.3g}"))
        if self.plan.noise is not None:
            rms = ", ".join(f"{each:.3g}" for each in self.plan.noise["rms"])
            rows.append(("cross-validated", f"rms {rms}; a fit, no bound"))
            rows.append(("coverage", f"{100 * self.plan.noise['coverage']:.1f} % of rows within 1.96 rms"))
        if self.plan.queries is not None:
            rows.append(("queries", f"{self.plan.queries} points of the callable"))
        void = self.certificate_void
        if void:
            rows.append(("certificate", f"void: {void}"))
        elif (proved := issued(self)) is not None:
            rows += proved.facts()
            if part := _part(proved, self.network):
                rows.append(("proved on", f"{part} only, a part of the domain"))
        elif self.unproved:
            rows.append(("proved error", f"none: {self.unproved}"))
        if self.observed is not None:
            when = ", before that change" if void else ""
            seen = f"{self.observed.error:.3g} (sampled at {self.observed.points} points{when})"
            rows.append(("observed error", seen))
        rows.append(("build time", f"{self.plan.seconds:.2f} s"))
        if self.told:
            rows.append(("told by a file", "all of the above; `softwright verify` proves the bound again"))
        return rows

    def __repr__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "Built\n" + "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)

    def plot(self, path: str | Path | None = None) -> Any:
        """A figure of what was built and of its error; written to `path` if given. Needs softwright[plot]."""
        return loaded(kind_of(self.kind).figure)(self, path)

    def plot_proof(self, path: str | Path | None = None) -> Any:
        """A figure of the proof: its leaf boxes over the domain, and the error against the bound."""
        return loaded(_PROOF_FIGURE)(self, path)

    def page(self, path: str | Path, *, file: str | None = None) -> None:
        """One HTML file that evaluates the network, shows what it attends to and says what is proved; it opens from
        disk and asks for nothing else. `file` is the name that the network was saved under, for the page to name."""
        loaded(_PAGE)(self, path, file=file)

    def _repr_html_(self) -> str | None:
        """What a notebook shows: a compact page in a frame of its own."""
        return loaded(_INLINE)(self)

    def sections(self) -> dict[str, Any]:
        """Everything that a file says beside the tensors, ready for JSON; `from_sections` reads it.

        A void certificate is left out, with a warning.
        """
        network = self.network
        if not isinstance(network, Constructed):
            instead = "save its state_dict" + (", or its parts (built.parts)," if self.parts else "")
            raise InvalidInput("save", [f"a {type(network).__name__} cannot be rebuilt from a file; {instead} instead"])
        if fault := unstorable(network):
            raise InvalidInput("save", [fault])
        void = self.certificate_void
        if void:
            warnings.warn(f"the file gets no certificate: {void}", UserWarning, stacklevel=3)
        proved = None if void else issued(self)
        names = sorted(network.state_dict()), sorted(self.reference)
        said = {
            "model": {"kind": self.kind, **network.describe()},
            "target": self.target,
            "plan": self.plan.as_dict(),
            "observed": None if self.observed is None else self.observed.as_dict(),
            "certificate": None if proved is None else proved.to_json(*names),
        }
        if fault := unprintable(said):
            raise InvalidInput("save", [f"{fault}, which no reader takes; rename what it names"])
        return said

    def save(self, path: str | Path, *, rows: int | None = None) -> None:
        """Weights and everything said about them in one safetensors file. With `rows`, a memory becomes a folder of
        files of at most so many items each."""
        if rows is None:
            loaded(_MODEL_FILE)(path)
            sections = self.sections()
            write_model(path, with_reference(tensors_of(self.network), self.reference), sections)
            return
        shards = kind_of(self.kind).shards
        if not shards:
            raise InvalidInput("save", [f"a network of kind {self.kind!r} is one file; leave rows out"])
        loaded(shards)(self, path, rows=rows)

    def export(self, path: str | Path, format: str | None = None) -> None:
        """A file for another program, in the format that its ending names (.npz, say) or the one given."""
        loaded(_EXPORT)(self, path, format)


def load(path: str | Path) -> Built[Any]:
    """Read what `Built.save` wrote: a file, or a folder of files."""
    return loaded(_FOLDER)(path) if Path(path).is_dir() else told_by(read_model(path), path)


def told_by(content: ModelFile, path: str | Path, rebuilt: Rebuilt | None = None) -> Built[Any]:
    """What a file that was read holds; `rebuilt` makes something else of description and tensors than the network."""
    try:
        digest, reference = content.weights_sha256, content.reference_tensors
        return from_sections(content.sections, content.subject_tensors, digest, path, reference, rebuilt)
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, MemoryError, ArithmeticError) as error:
        raise FileFormatError(
            f"{path}: the file does not describe a network ({error}); build and save it again"
        ) from error


def from_sections(
    sections: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
    digest: str,
    path: str | Path,
    reference: Mapping[str, np.ndarray] | None = None,
    rebuilt: Rebuilt | None = None,
) -> Built[Any]:
    """What was built, from the sections and tensors of a file at `path`; `digest` is the SHA-256 of these tensors.

    With `rebuilt`, which makes something else of the description than the network, there is no live target either.
    """
    reference = reference or {}
    if fault := unprintable(sections):
        raise ValueError(fault)
    model, target, observed = sections["model"], sections.get("target", {}), sections.get("observed")
    kind = kind_of(model["kind"])
    if not kind.stored:
        raise ValueError(f"no file holds a network of kind {kind.name!r}")
    network = loaded(kind.network).rebuilt(model, tensors) if rebuilt is None else rebuilt(model, tensors)
    certificate, unproved = _certificate(sections.get("certificate"), digest, reference_sha256(reference), path)
    return Built(
        network=network,
        plan=Plan.from_dict(sections["plan"]),
        target=target,
        observed=None if observed is None else Observed.from_dict(observed),
        certificate=certificate,
        unproved=unproved,
        source=loaded(_TARGET)(target) if rebuilt is None else None,
        reference=reference,
        told=True,
    )


def _certificate(data: Any, digest: str, reference: str, path: str | Path) -> tuple[Certified | None, str]:
    """The certificate of a file, if it still speaks of these weights; a changed weight voids it, visibly."""
    if data is None:
        return None, ""
    certificate = read_certificate(data)
    if (certificate.weights_sha256, certificate.reference_sha256) != (digest, reference):
        what = "weights" if certificate.weights_sha256 != digest else "reference tensors"
        reason = f"the {what} in the file are not those that its certificate was proved for"
        warnings.warn(f"{path}: {reason}; the certificate is dropped", UserWarning, stacklevel=4)
        return None, reason
    return certificate, ""


def _part(proved: Certified, network: Any) -> str:
    """The domain of a proof by boxes that does not cover the network's own; nothing if it does."""
    box = getattr(network, "box", None)
    if not isinstance(proved, Certificate) or box is None or proved.covers(box, proved.dtype):
        return ""
    return ", ".join(f"{name} in [{low:g}, {high:g}]" for name, (low, high) in proved.domain.items())


def _target_text(target: dict[str, Any]) -> str:
    return str(target.get("text") or target.get("name") or target.get("kind") or "unknown")
