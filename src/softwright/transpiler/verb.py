"""`transpile`: trained feed-forward networks, and those inside transformers, as softmax attention, neuron by neuron.

read       the source becomes plain layers (targets/network*.py); every fault is listed
tokens     each activation gets its head (build/transpile/): exact where it is a softmax, fitted otherwise
bound      a closed formula over the box, rounding included (certify/transpiled_bound.py); finer tokens until it fits
check      the network that runs against the source at inputs nobody chose it for: observed, not proved
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from softwright.attention import digest_of
from softwright.domain import Box
from softwright.errors import Faults, InvalidInput, ToleranceNotReached
from softwright.proof.arithmetic.rounding import ASSUMPTIONS
from softwright.result.built import Built
from softwright.result.certificate import sum_rounded_up
from softwright.result.closed_form import EXACT_ARITHMETIC, ClosedForm
from softwright.result.observed import Observed
from softwright.result.plan import Plan
from softwright.targets.mlp import DenseNetwork, GatedNetwork, is_sklearn, read_file, read_module, read_sklearn
from softwright.transpiler import blocks as modules
from softwright.transpiler import heads as networks
from softwright.transpiler.bound import Bound, bound_gated, bound_network, largest_gate, stored
from softwright.transpiler.gated_heads import GATED_LAYOUTS
from softwright.transpiler.network import TranspiledModule, TranspiledNetwork
from softwright.transpiler.neuron_heads import LAYOUTS
from softwright.transpiler.token_table import TokenTable
from softwright.transpiler.tokens import direct_gate
from softwright.version import __version__

Sides = tuple[np.ndarray, np.ndarray]
_DTYPES = ("float64", "float32")
_EXACT_WORK = 60_000_000  # products of one check in long double, about a second
_METHOD = "closed form: unit bounds through |W| or its norm, layer by layer"


def transpile(
    module: Any,
    box: Box | Mapping[str, Sequence[float]] | Sequence[Any] | None = None,
    *,
    tol: float | None = None,
    dtype: str | torch.dtype | None = None,
    layout: str = "softmax",
    blocks: Sequence[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Built:
    """Turn a feed-forward network, or the feed-forward blocks of a module, into softmax attention.

    module   a torch module (an MLP, a gated block, or a transformer), a fitted scikit-learn MLP, or the path of a .onnx
             file or of a .safetensors file written by `save_mlp`
    box      range of the inputs: a `Box`, a pair (low, high) of numbers or of arrays; for a module with `blocks`, the
             range of what they are given. Without it nothing is said about rounding (transformer layers know theirs)
    tol      largest deviation that the certificate may leave; without it the finest tokens are taken
    dtype    "float64" or "float32"; the source's own unless given
    layout   "softmax" (fastest), "sdpa", "multihead" or "sequence"
    blocks   names of the submodules to replace, such as ["layers.0.mlp"]; the feed-forward parts of all
             TransformerEncoderLayer and TransformerDecoderLayer unless given
    """
    started = time.perf_counter()
    say = progress or (lambda message: None)
    faults = Faults("transpile")
    if tol is not None:
        faults.check(
            isinstance(tol, (int, float)) and math.isfinite(tol) and tol > 0,
            f"tol = {tol!r} must be a positive number; leave it out for the finest tokens",
        )
    faults.check(layout in LAYOUTS, f"layout {layout!r} is not known; use one of {', '.join(LAYOUTS)}")
    name = None if dtype is None else str(dtype).removeprefix("torch.")
    faults.check(name is None or name in _DTYPES, f"dtype {name!r} is not supported; use 'float64' or 'float32'")
    inside = isinstance(module, nn.Module) and (blocks is not None or modules.has_layers(module))
    if blocks is not None:
        faults.check(isinstance(module, nn.Module), "blocks name parts of a torch module; leave them out")
        faults.check(not isinstance(blocks, str) and len(blocks) > 0, "blocks must be a list of names, such as ['mlp']")
    say("reading the network")
    if inside:
        return _module(module, box, tol, name, layout, blocks, faults, started, say)
    network = _read(module, faults)
    sides = None if network is None else _sides(box, network.inputs, faults)
    if network is not None:
        _check_source(network, name, layout, sides, faults)
    faults.raise_if_any()
    if network is None:
        raise InvalidInput("transpile", ["there is no network to transpile"])
    run = name or network.dtype
    built = _network(network, sides, tol, run, layout, started, say)
    return _within(built, tol)


def _read(source: Any, faults: Faults) -> DenseNetwork | GatedNetwork | None:
    try:
        if isinstance(source, (DenseNetwork, GatedNetwork)):
            return source
        if isinstance(source, (str, Path)):
            return read_file(source)
        if isinstance(source, nn.Module):
            return read_module(source)
        if is_sklearn(source):
            return read_sklearn(source)
    except InvalidInput as error:
        faults.found += [f"{error.subject}: {fault}" for fault in error.faults]
        return None
    faults.add(f"a {type(source).__name__} is no network; give a torch module, a scikit-learn MLP or a file")
    return None


def _check_source(
    network: DenseNetwork | GatedNetwork, dtype: str | None, layout: str, sides: Sides | None, faults: Faults
) -> None:
    if dtype is None:
        faults.check(
            network.dtype in _DTYPES,
            f"{network.name} is stored in {network.dtype}, whose rounding is not known here; give dtype='float32'",
        )
    if (dtype or network.dtype) == "float32":
        layers = network.layers if isinstance(network, DenseNetwork) else (network.gate, network.value, network.down)
        largest = max(float(np.abs(array).max()) for layer in layers for array in (layer.weight, layer.bias))
        faults.check(largest < 3e38, f"{network.name} holds weights of {largest:.3g}, beyond float32; use float64")
    if isinstance(network, GatedNetwork):
        faults.check(
            layout in GATED_LAYOUTS or layout not in LAYOUTS,
            f"{network.name} is gated, and layout {layout!r} has no gated form; use {' or '.join(GATED_LAYOUTS)}",
        )
        faults.check(
            sides is not None or direct_gate(network.gate.activation) is not None,
            f"{network.name} multiplies by {network.gate.activation}, which needs the range of its inputs; "
            "give it as box=(low, high)",
        )


def _sides(box: Any, inputs: int, faults: Faults) -> Sides | None:
    """Lower and upper bounds (d,) of the inputs."""
    if box is None:
        return None
    try:
        if isinstance(box, Mapping):
            box = Box(box)
        low, high = (box.lower, box.upper) if isinstance(box, Box) else box
        low, high = (np.asarray(side, dtype=np.float64) for side in (low, high))
        low, high = np.broadcast_to(low, (inputs,)).copy(), np.broadcast_to(high, (inputs,)).copy()
    except InvalidInput as error:
        faults.found += error.faults
        return None
    except (TypeError, ValueError):
        faults.add(f"box must be a Box or a pair (low, high) for {inputs} input(s); got {box!r}")
        return None
    if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high)) and np.all(low <= high)):
        faults.add("box must have finite bounds with low <= high on every side; mend them")
        return None
    if float(max(np.abs(low).max(), np.abs(high).max())) > 1e15:
        faults.add("box reaches beyond 1e15, where no bound is of use; scale the inputs")
        return None
    return low, high


def _attempt(
    network: DenseNetwork | GatedNetwork, sides: Sides | None, dtype: str, layout: str, fineness: int
) -> tuple[TranspiledNetwork, Bound, list[dict[str, Any]]]:
    """Network and bound with tokens of one fineness."""
    if isinstance(network, GatedNetwork):
        largest = 1.0 if sides is None else largest_gate(network, sides)
        plan = networks.plan_gate(network, dtype, largest, fineness)
        bound = bound_gated(network, plan.table, plan.steps, plan.shares, dtype, layout, sides)
        tokens = 0 if plan.table is None else plan.table.tokens
        heads = [
            {
                "units": network.gate.outputs,
                "activation": f"gate {network.gate.activation}",
                "tokens": tokens,
                "product heads": len(plan.steps),
            }
        ]
        return networks.gated_of(network, plan, dtype, layout), bound, heads
    tables = networks.tables_for(network, dtype, fineness)
    bound = bound_network(network, tables, dtype, layout, sides)
    heads = [
        {"units": layer.outputs, "activation": str(layer.activation), "tokens": table.tokens}
        for layer, table in zip(network.layers, tables, strict=True)
        if table is not None
    ]
    return networks.network_of(network, tables, dtype, layout), bound, heads


def _fitting(
    network: DenseNetwork | GatedNetwork, sides: Sides | None, tol: float | None, dtype: str, layout: str
) -> tuple[TranspiledNetwork, Bound, list[dict[str, Any]]]:
    """The coarsest tokens whose bound is within `tol`; the finest if there is no `tol` or none fits."""
    levels = networks.fineness_levels(network)
    for fineness in range(levels - 1 if tol is not None else 0):
        found = _attempt(network, sides, dtype, layout, fineness)
        if tol is not None and sum_rounded_up(found[1].exact, found[1].rounding) <= tol:
            return found
    return _attempt(network, sides, dtype, layout, levels - 1)


def _network(
    network: DenseNetwork | GatedNetwork,
    sides: Sides | None,
    tol: float | None,
    dtype: str,
    layout: str,
    started: float,
    say: Callable[[str], None],
) -> Built:
    say("computing tokens and bound")
    result, bound, heads = _fitting(network, sides, tol, dtype, layout)
    target = network.describe()
    if sides is not None:
        target["box"] = [sides[0].tolist(), sides[1].tolist()]
    else:
        target["box"] = None
    where = "for inputs in the box" if sides is not None else "for all inputs, in real arithmetic"
    unproved = ""
    if sides is None and not _unchanged(network, dtype):
        unproved = f"{dtype} rounds the weights, which no bound on all inputs survives; give a box"
    elif not math.isfinite(bound.exact + bound.rounding):
        unproved = "the box is too wide for a bound in this dtype; give a smaller one"
    statement = f"every output is within the bound of the source network in real arithmetic, {where}"
    seconds = time.perf_counter() - started
    certificate = None if unproved else _certificate(statement, bound, dtype, result, target, sides is None, seconds)
    say("checking")
    observed = _observe(network, result, sides)
    plan = Plan(
        strategy="transpile",
        tolerance=0.0 if tol is None else float(tol),
        heads=heads,
        tokens=result.tokens,
        parameters=sum(tensor.numel() for tensor in result.state_dict().values()),
        dtype=dtype,
        seconds=time.perf_counter() - started,
        reasons=_reasons(network, layout),
    )
    return Built(result, plan, target, observed, certificate, unproved, source=network)


def _unchanged(network: DenseNetwork | GatedNetwork, dtype: str) -> bool:
    """Whether the dtype stores all weights, and the slopes of unbounded pieces, as they are."""
    layers = network.layers if isinstance(network, DenseNetwork) else (network.gate, network.value, network.down)
    return all(
        np.array_equal(array, same)
        for layer in layers
        for array, same in zip(stored(layer, dtype), (layer.weight, layer.bias), strict=True)
    ) and all(
        np.array_equal(TokenTable.of(*tokens).slopes, TokenTable.of(*tokens).rounded(dtype).slopes)
        for layer in layers
        if (tokens := layer.activation.tokens(dtype)) is not None and not layer.activation.bounded
    )


def _certificate(
    statement: str, bound: Bound, dtype: str, network: Any, target: dict[str, Any], real: bool, seconds: float
) -> ClosedForm:
    quantities = {f"error after layer {i}": value for i, value in enumerate(bound.layers, 1)}
    return ClosedForm(
        statement=statement,
        bound=sum_rounded_up(bound.exact, bound.rounding),
        exact_part=float(bound.exact),
        rounding_part=float(bound.rounding),
        method=_METHOD,
        dtype=dtype,
        weights_sha256=digest_of(network),
        target=target,
        version=__version__,
        seconds=seconds,
        quantities=quantities,
        assumptions=(EXACT_ARITHMETIC,) if real else ASSUMPTIONS[dtype],
        engine=network.layout,
    )


def _reasons(network: DenseNetwork | GatedNetwork, layout: str) -> list[str]:
    if isinstance(network, GatedNetwork):
        direct = direct_gate(network.gate.activation) is not None
        how = "its gate is a softmax weight" if direct else "its gate is made by heads and multiplied by heads"
        return [f"{network.name} is gated: {how}", f"layout {layout}"]
    return ["every neuron is one head: score and value are linear in the neuron's own input", f"layout {layout}"]


def _observe(network: DenseNetwork | GatedNetwork, result: nn.Module, sides: Sides | None, seed: int = 977) -> Observed:
    """Largest deviation from the source, evaluated in long double, at random inputs and corners."""
    rng = np.random.default_rng(seed)
    sizes = network.sizes
    work = sum(a * b for a, b in pairwise(sizes))
    slow = any(getattr(part, "layout", "softmax") != "softmax" for part in result.modules())
    count = int(np.clip(_EXACT_WORK // work, 64, 400 if slow else 4000))
    d = network.inputs
    if sides is None:
        points = rng.normal(size=(count, d)) * rng.choice([0.3, 1.0, 3.0], size=(count, 1))
    else:
        low, high = sides
        points = low + (high - low) * rng.uniform(size=(count, d))
        corners = rng.integers(0, 2, size=(max(count // 8, 8), d))
        points[: len(corners)] = np.where(corners == 1, high, low)[: len(points)]
    dtype = next(iter(result.state_dict().values())).dtype
    cast = torch.tensor(points).to(dtype)
    exact = cast.double().numpy()
    if sides is not None:
        keep = np.all((exact >= sides[0]) & (exact <= sides[1]), axis=1)
        if keep.any():
            cast, exact = cast[torch.from_numpy(keep)], exact[keep]
    with torch.no_grad():
        values = result(cast).double().numpy()
    errors = np.abs(values - network(exact, exact=True)).max(axis=1).astype(np.float64)
    worst = int(errors.argmax())
    return Observed(float(errors[worst]), tuple(exact[worst].tolist()), len(errors))


def _module(
    module: nn.Module,
    box: Any,
    tol: float | None,
    dtype: str | None,
    layout: str,
    names: Sequence[str] | None,
    faults: Faults,
    started: float,
    say: Callable[[str], None],
) -> Built:
    """Blocks inside a larger module: every block on its own, one certificate for the worst of them."""
    own = modules.module_dtype(module)
    run = dtype or own
    faults.check(run in _DTYPES, f"the module is stored in {run}; give dtype='float32' or 'float64'")
    listed = None if names is None or isinstance(names, str) else list(names)
    blocks = modules.find_blocks(module, listed, faults)
    faults.check(bool(blocks) or bool(faults.found), "the module has no feed-forward block; name some in blocks=[...]")
    ranges: list[Sides | None] = []
    for block in blocks:
        sides = _sides(box, block.network.inputs, faults)
        ranges.append(block.box if sides is None else sides)
        _check_source(block.network, run if run in _DTYPES else None, layout, ranges[-1], faults)
    faults.raise_if_any()
    if any(sides is None for sides in ranges):  # one statement for all blocks: all inputs, without any range
        ranges = [None] * len(ranges)
    parts, bounds, heads = [], [], []
    for block, sides in zip(blocks, ranges, strict=True):
        say(f"block {block.path or type(module).__name__}")
        part, bound, entries = _fitting(block.network, sides, tol, run, layout)
        parts.append(part)
        bounds.append(bound)
        heads += [{"block": block.path, **entry} for entry in entries]
    result = TranspiledModule(
        modules.replace_blocks(module, blocks, parts, run), [block.path for block in blocks], layout
    )
    observed = [
        _observe(block.network, modules.block_runner(result.module, block), sides)
        for block, sides in zip(blocks, ranges, strict=True)
    ]
    worst = max(observed, key=lambda one: one.error)
    target = {
        "kind": "module",
        "text": f"{type(module).__name__}, feed-forward blocks {', '.join(block.path or '(all)' for block in blocks)}",
        "blocks": [block.network.describe() for block in blocks],
    }
    real = any(sides is None for sides in ranges)
    most = max(bounds, key=lambda one: one.exact + one.rounding)
    total = Bound(most.exact, most.rounding, [one.exact + one.rounding for one in bounds])
    unproved = "" if math.isfinite(total.exact + total.rounding) else "a block has no range; give box=(low, high)"
    if real and not all(_unchanged(block.network, run) for block in blocks):
        unproved = f"{run} rounds the weights, which no bound on all inputs survives; give a box"
    inputs = "all inputs, in real arithmetic" if real else modules.NORMALISED
    statement = (
        "every replaced block is within the bound of the block it replaces, the latter in real arithmetic, "
        f"for {inputs if box is None else 'inputs in the box'}"
    )
    seconds = time.perf_counter() - started
    certificate = None if unproved else _certificate(statement, total, run, result, target, real, seconds)
    plan = Plan(
        strategy="transpile",
        tolerance=0.0 if tol is None else float(tol),
        heads=heads,
        tokens=result.tokens,
        parameters=sum(tensor.numel() for tensor in result.state_dict().values()),
        dtype=run,
        seconds=time.perf_counter() - started,
        reasons=["attention, normalisation and embeddings are the module's own", f"layout {layout}"],
    )
    points = sum(one.points for one in observed)
    built = Built(result, plan, target, Observed(worst.error, worst.point, points), certificate, unproved)
    return _within(built, tol)


def _within(built: Built, tol: float | None) -> Built:
    """The result, or the error that says why its bound is above `tol`."""
    if tol is None or (built.certificate is not None and built.certificate.bound <= tol):
        return built
    if built.certificate is None:
        raise ToleranceNotReached(f"no bound can be proved: {built.unproved}", best=built)
    c = built.certificate
    if c.rounding_part > c.exact_part:
        remedy = f"{c.rounding_part:.3g} of it is rounding: " + (
            "use dtype='float64', " if c.dtype == "float32" else ""
        ) + "give a smaller box, or a larger tol"  # fmt: skip
    else:
        remedy = f"{c.exact_part:.3g} of it comes from the finest tokens there are; give a larger tol"
    raise ToleranceNotReached(f"the bound is {c.bound:.3g}, above tol = {tol:g}; {remedy}", best=built)


def save_mlp(module: Any, path: str | Path) -> None:
    """Write an MLP (a torch module or a fitted scikit-learn MLP) to a .safetensors file for `softwright transpile`."""
    faults = Faults("save_mlp")
    network = _read(module, faults)
    faults.check(not isinstance(network, GatedNetwork), "gated blocks have no file form; transpile them in Python")
    faults.raise_if_any()
    if isinstance(network, DenseNetwork):
        network.save(path)
