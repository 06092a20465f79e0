"""`transpile`: trained feed-forward networks, and those inside transformers, as softmax attention, neuron by neuron.

read       the source becomes plain layers (`targets/mlp`); every fault is listed
look       the source itself is run beside its reading: a reading that is not the source is refused
tokens     each activation gets its head: exact where it is a softmax, fitted otherwise (`fit.py`)
bound      a closed formula over the box, rounding included (`bound.py`); finer tokens until it fits
check      the network that runs against the source as it runs, at the same points: observed, not proved
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from softwright.domain import Box, default_names, sides_of
from softwright.errors import Faults, InvalidInput, ToleranceNotReached
from softwright.precision import PRECISIONS, Dtype, assumptions, precision_of
from softwright.progress import Progress, Say, reporting
from softwright.result.built import Built
from softwright.result.closed_form import EXACT_ARITHMETIC, ClosedForm
from softwright.result.observed import Observed
from softwright.result.outcome import Outcome
from softwright.result.plan import Plan
from softwright.targets.mlp import BEFORE_SOFTMAX, GatedNetwork, Sides, look_at, network_of, read_source
from softwright.transpiler.bound import Bound, is_stored_exactly, is_verbatim
from softwright.transpiler.fit import Fitted, fit, observe, points_for
from softwright.transpiler.gated_heads import GATED_LAYOUTS
from softwright.transpiler.inside.blocks import find_job, has_layers
from softwright.transpiler.inside.calling import called_as
from softwright.transpiler.inside.finding import deviation
from softwright.transpiler.inside.watching import example_inputs
from softwright.transpiler.job import Job, Options, Part, Result
from softwright.transpiler.network import TranspiledModule
from softwright.transpiler.neuron_heads import LAYOUTS
from softwright.transpiler.tokens import direct_gate

_SAID = {"double": ": numbers stored in float32, computed with in float64 and rounded once at the end"}
_METHOD = "closed form: unit bounds through |W| or its norm, layer by layer"


def transpile(
    module: Any,
    box: Box | Mapping[str, Sequence[float]] | Sequence[Any] | None = None,
    *,
    tol: float | None = None,
    dtype: Dtype | None = None,
    layout: str | None = None,
    blocks: Sequence[str] | None = None,
    certify: bool = True,
    progress: Progress = None,
) -> Built[Result]:
    """Turn a feed-forward network, or the feed-forward blocks of a module, into softmax attention.

    module    a torch module (an MLP, a gated block, or a transformer), a fitted scikit-learn MLP, or the path of a
              .onnx file or of a .safetensors file written by `save_mlp`
    box       range of the inputs: a `Box`, a pair (low, high), or one such pair per input; for a module with `blocks`,
              the range of what they are given. Without it nothing is said about rounding (transformer layers know
              their own)
    tol       largest deviation that the certificate may leave; without it the finest tokens are taken
    dtype     "float64" or "float32", or the torch.dtype of that name; the source's own unless given
    layout    "softmax" (fastest), "double" (float32 that computes in float64 and rounds once: bounds far smaller),
              "sdpa", "multihead" or "sequence". Unless given, "double" where a network in float64 is asked for in
              float32, since it then costs what the source does, and "softmax" everywhere else
    blocks    names of the submodules to replace, such as ["layers.0.mlp"]; unless given, the feed-forward parts of all
              TransformerEncoderLayer and TransformerDecoderLayer, or every submodule that is a network of its own
    certify   prove a bound; False leaves the deviation observed, i.e. sampled, and holds `tol` against that
    progress  None: automatic; False: nothing is shown; or a function that takes the messages
    """
    started = time.monotonic()
    faults = Faults("transpile")
    faults.check(
        tol is None or (isinstance(tol, int | float) and math.isfinite(tol) and tol > 0),
        f"tol = {tol!r} must be a positive number; leave it out for the finest tokens",
    )
    faults.check(
        layout is None or layout in LAYOUTS, f"layout {layout!r} is not known; use one of {', '.join(LAYOUTS)}"
    )
    asked = None if dtype is None else faults.take(precision_of, dtype)
    if blocks is not None:
        faults.check(isinstance(module, nn.Module), "blocks name parts of a torch module; leave them out")
        faults.check(not isinstance(blocks, str) and len(blocks) > 0, "blocks must be a list of names, such as ['mlp']")
    with reporting(progress, "reading the network") as say:
        say("reading the network")
        if isinstance(module, nn.Module) and (blocks is not None or has_layers(module)):
            job = find_job(module, None if isinstance(blocks, str) else blocks, faults, box is not None)
        else:
            job = _whole(module, faults, box is not None)
        job = _in_known_dtype(job, dtype is None)
        stored = job.dtype if asked is None else asked.name
        options = Options(tol, stored, _default(job, stored) if layout is None else layout, certify)
        job = replace(job, parts=[_ranged(part, box, options, faults) for part in job.parts], boxed=box is not None)
        faults.raise_if_any()
        if job.real:
            job = replace(job, parts=[replace(part, sides=None) for part in job.parts])
        return _within(_built(job, options, started, say), options)


def _in_known_dtype(job: Job, told: bool) -> Job:
    """A source in half precision is run in float32, which holds its weights as they are."""
    if job.dtype in PRECISIONS:
        return job
    reason = f"the source is stored in {job.dtype}; its weights, as they are, run in float32"
    return replace(job, dtype="float32", reasons=[*job.reasons, reason] if told else job.reasons)


def _default(job: Job, stored: str) -> str:
    """The layout of whoever names none: the arithmetic of the source, where it is finer than what is stored."""
    gated = any(isinstance(part.network, GatedNetwork) for part in job.parts)
    narrowed = stored == "float32" and job.dtype == "float64"
    return "double" if narrowed and not gated and job.source is not None else "softmax"


def _whole(thing: Any, faults: Faults, boxed: bool) -> Job:
    """A source that is one network, or a module in which there are some."""
    notes: list[str] = []
    try:
        source = read_source(thing)
    except InvalidInput as error:
        if isinstance(thing, nn.Module):
            found = Faults(error.subject)
            job = find_job(thing, None, found, boxed, notes)
            if job.parts:
                faults.found += found.found
                return job
            if any(True for _ in example_inputs(thing)):  # a model, and no network that could be rewritten
                faults.add(
                    f"{error.subject} has no feed-forward block that can be read: Linear layers with an activation "
                    "between them, in a module of their own or one after the other at its example inputs; name some in "
                    "blocks=[...]"
                )
                return Job([], "float64", "", {}, [])
        named = "" if error.subject == faults.subject else f"{error.subject}: "
        faults.found += [named + fault for fault in error.faults]
        faults.found += notes
        return Job([], "float64", "", {}, [])
    return _alone(Part("", source, called=(thing, {}) if isinstance(thing, nn.Module) else None))


def _alone(part: Part) -> Job:
    """A part of which nothing but itself is spoken."""
    network = part.network
    reason = "every neuron is one head: score and value are linear in the neuron's own input"
    if isinstance(network, GatedNetwork):
        direct = direct_gate(network.gate.activation) is not None
        how = "its gate is a softmax weight" if direct else "its gate is made by heads and multiplied by heads"
        reason = f"{network.name} is gated: {how}"
    elif network.folded:
        reason += "; scales, normalisation and paths beside it are part of the weights, which float64 rounds"
    statement = "every output is within the bound of the source network in real arithmetic"
    reasons = [reason]
    if network.name.endswith(BEFORE_SOFTMAX):
        reasons.append("the graph ends in a softmax, which is left out: the network gives what goes into it")
    boxed = part.sides is not None
    return Job([part], network.dtype, statement, network.describe(), reasons, boxed=boxed, source=network)


def _ranged(part: Part, box: Any, options: Options, faults: Faults) -> Part:
    """The part with the range of its inputs; what is wrong with it for these options is recorded."""
    network, layout = part.network, options.layout
    if layout == "double":
        faults.check(
            options.dtype == "float32",
            f"layout 'double' is for float32 networks, and {network.name} is {options.dtype}; use 'softmax', or "
            "dtype='float32'",
        )
    if box is not None:
        part = replace(part, sides=_sides(box, network.inputs, faults))
    if part.padded and part.sides is not None:
        low, high = part.sides
        part = replace(part, sides=(np.minimum(low, 0.0), np.maximum(high, 0.0)))
    if options.dtype == "float32":
        largest = max(float(np.abs(array).max()) for layer in network.layers for array in (layer.weight, layer.bias))
        faults.check(
            largest <= PRECISIONS["float32"].largest,
            f"{network.name} holds weights of {largest:.3g}, beyond float32; use float64",
        )
    if isinstance(network, GatedNetwork):
        faults.check(
            layout in GATED_LAYOUTS or layout not in LAYOUTS,
            f"{network.name} is gated, and layout {layout!r} has no gated form; use {' or '.join(GATED_LAYOUTS)}",
        )
        faults.check(
            box is not None or part.sides is not None or direct_gate(network.gate.activation) is not None,
            f"{network.name} multiplies by {network.gate.activation}, which needs the range of its inputs; "
            "give it as box=(low, high)",
        )
    return part


def _sides(box: Any, inputs: int, faults: Faults) -> Sides | None:
    """Lower and upper bounds (d,) of the inputs; unlike those of a `Box`, sides may be single points."""
    sides = faults.take(sides_of, box, None if isinstance(box, Box | Mapping) else default_names(inputs))
    if sides is None:
        return None
    try:
        low, high = np.array([[float(end) for end in side] for side in sides.values()]).T
    except (TypeError, ValueError):
        faults.add(f"box must be a Box or a pair (low, high) for {inputs} input(s); got {box!r}")
        return None
    if len(low) != inputs:
        faults.add(f"box has {len(low)} side(s) for {inputs} input(s); give a pair (low, high), or one per input")
    elif not (np.all(np.isfinite(low)) and np.all(np.isfinite(high)) and np.all(low <= high)):
        faults.add("box must have finite bounds with low <= high on every side; mend them")
    elif float(max(np.abs(low).max(), np.abs(high).max())) > 1e15:
        faults.add("box reaches beyond 1e15, where no bound is of use; scale the inputs")
    else:
        return low, high
    return None


def _built(job: Job, options: Options, started: float, say: Say) -> Built[Result]:
    """Every part looked at, fitted and checked, and what is said of all of them together."""
    say("running the source beside its reading")
    faults = Faults("transpile")
    samples = [
        look_at(part.source, part.sides, options.dtype, points_for(part.network, options.layout), faults)
        for part in job.parts
    ]
    faults.raise_if_any()
    found: list[Fitted] = []
    for part, sample in zip(job.parts, samples, strict=True):
        say(f"computing tokens and bound of {part.path or part.network.name}")
        found.append(fit(part, sample, options))
    network = job.assemble([one.network for one in found], options)
    if job.whole is None:
        called_as(network, job.parts[0].called or (None, {}), job.parts[0].source.taken, inside=False)
    say("checking")
    if job.whole is not None and isinstance(network, TranspiledModule):
        apart = deviation(job.whole, network, precision_of(options.dtype).torch_dtype)
        if apart is not None:
            told = f"the whole model moves by {apart:.2g} at its own example inputs: a sample, not a bound"
            job = replace(job, reasons=[*job.reasons, told])
    observed = [
        observe(job.runner(network, part), sample, part.source.least)
        for part, sample in zip(job.parts, samples, strict=True)
    ]
    parts = {
        part.path: _described(_alone(replace(part, path="")), one.network, [one], [seen], options, started)
        for part, one, seen in zip(job.parts, found, observed, strict=True)
        if job.target["kind"] == "module"
    }
    return _described(job, network, found, observed, options, started, parts)


def _described(
    job: Job,
    network: Result,
    found: list[Fitted],
    observed: list[Observed],
    options: Options,
    started: float,
    parts: Mapping[str, Built[Any]] | None = None,
) -> Built[Result]:
    """The network with all that is said of it: plan, target, certificate, what was observed."""
    worst = max(observed, key=lambda one: one.error)
    bound, unproved = _bound(job, [one.bound for one in found if one.bound is not None], options)
    plan = Plan.of(
        network,
        started,
        strategy="transpile",
        tolerance=0.0 if options.tol is None else float(options.tol),
        heads=[
            {"block": part.path, **entry} if part.path or job.ranges else entry
            for part, one in zip(job.parts, found, strict=True)
            for entry in one.heads
        ],
        tokens=network.tokens,
        parameters=sum(tensor.numel() for tensor in network.state_dict().values()),
        reasons=[*job.reasons, f"layout {options.layout}{_SAID.get(options.layout, '')}"],
    )
    return Built(
        network,
        plan,
        _target(job, options),
        Observed(worst.error, worst.point, sum(one.points for one in observed)),
        None if bound is None else _certificate(job, bound, network, options, started),
        unproved,
        source=job.source,
        reference=_reference(job, options),
        parts=parts or {},
    )


def _target(job: Job, options: Options) -> dict[str, Any]:
    """What was asked; `weights` says where a file holds those of the source: in its network, or beside it."""
    if job.target["kind"] == "module":
        return job.target
    sides, weights = job.parts[0].sides, "reference" if _reference(job, options) else "network"
    return {**job.target, "box": None if sides is None else [side.tolist() for side in sides], "weights": weights}


def _reference(job: Job, options: Options) -> dict[str, np.ndarray]:
    """The weights of a source that the network's dtype rounds."""
    if job.source is None or is_verbatim(job.source, options.dtype):
        return {}
    return {
        f"layers.{i}.{name}": np.asarray(getattr(layer, name), dtype=np.float64)
        for i, layer in enumerate(job.source.layers)
        for name in ("weight", "bias")
    }


def _bound(job: Job, bounds: list[Bound], options: Options) -> tuple[Bound | None, str]:
    """The worst of the parts' bounds, or why there is none."""
    if not bounds:
        return None, Outcome.NOT_ASKED.value
    if job.real and not all(is_stored_exactly(part.network, options.dtype) for part in job.parts):
        return None, f"{options.dtype} rounds the weights, which no bound on all inputs survives; give a box"
    most = max(bounds, key=lambda one: one.total)
    if not math.isfinite(most.total):
        if job.real:
            return None, (
                f"no bound holds for all inputs, or {options.dtype} could overflow for inputs of [-1, 1] already; give "
                "box=(low, high)"
            )
        layer = next((i for i, error in enumerate(most.layers, 1) if not math.isfinite(error)), len(most.layers))
        wider = " or dtype='float64'" if options.dtype == "float32" else ""
        return None, (
            f"at layer {layer} numbers could overflow {options.dtype}, or be lost in its rounding, on this box; give a "
            f"smaller one{wider}"
        )
    if len(bounds) == 1 and job.target["kind"] != "module":
        return most, ""
    exact = max(one.exact for one in bounds)  # of another block than the worst, perhaps
    rounding = max(most.total - exact, 0.0) * (1 + 1e-14)
    return Bound(exact, rounding, [one.total for one in bounds]), ""


def _certificate(job: Job, bound: Bound, network: Result, options: Options, started: float) -> ClosedForm:
    where = "inputs in the box" if job.boxed else "all inputs, in real arithmetic" if job.real else job.ranges
    return ClosedForm.of(
        network,
        _target(job, options),
        started,
        statement=f"{job.statement}, for {where}",
        bound=bound.total,
        exact_part=float(bound.exact),
        rounding_part=float(bound.rounding),
        method=_METHOD,
        quantities=dict(zip(_names(job, bound), bound.layers, strict=True)),
        assumptions=(EXACT_ARITHMETIC,) if job.real else assumptions(options.dtype, options.layout),
        engine=network.layout,
        reference=_reference(job, options),
    )


def _names(job: Job, bound: Bound) -> list[str]:
    """What the errors of a bound are called: those after the layers of a network, or of the blocks of a module."""
    if job.target["kind"] == "module":
        return [f"error of block {part.path or '(all)'}" for part in job.parts]
    return [f"error after layer {i}" for i in range(1, len(bound.layers) + 1)]


def _within(built: Built[Result], options: Options) -> Built[Result]:
    """The result, or the error that says why it is not within `tol`."""
    tol, c = options.tol, built.certificate
    if tol is None or (c.bound if c is not None else math.inf if options.certify else built.observed_error) <= tol:
        return built
    if not options.certify:
        raise ToleranceNotReached(
            f"the largest deviation seen is {built.observed_error:.3g}, above tol = {tol:g}; "
            + ("use dtype='float64', or " if options.dtype == "float32" else "")
            + "give a larger tol",
            best=built,
        )
    if c is None:
        raise ToleranceNotReached(f"no bound can be proved: {built.unproved}", best=built)
    if c.rounding_part > c.exact_part:
        remedy = f"{c.rounding_part:.3g} of it is rounding: " + (
            "use dtype='float64', " if c.dtype == "float32" else ""
        ) + "give a smaller box, or a larger tol"  # fmt: skip
    else:
        remedy = f"{c.exact_part:.3g} of it comes from the finest tokens there are; give a larger tol"
    raise ToleranceNotReached(f"the bound is {c.bound:.3g}, above tol = {tol:g}; {remedy}", best=built)


def save_mlp(module: Any, path: str | Path) -> None:
    """Write an MLP (a torch module or a fitted scikit-learn MLP) to a .safetensors file for `softwright transpile`."""
    network = network_of(module)
    if isinstance(network, GatedNetwork):
        raise InvalidInput("save_mlp", ["gated blocks have no file form; transpile them in Python"])
    network.save(path)
