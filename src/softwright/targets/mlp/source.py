"""`Source`: a network as it was read, and the user's own thing beside it: a module, a graph, a fitted model.

A certificate speaks of the reading; it is worth something only if the reading is what the user has. So the source
itself is run, as it is called, at points of the box and at its corners, and compared with the reading in long double.
Nothing but rounding of the source's own evaluation may separate the two. At a point, with u the unit roundoff of the
dtype that the source runs in (and of long double), e the error of a and S = |W| (|a| + e) + |b|,

    |s^ - s|  <=  d  = |W| e + gamma_{n+2} S
    |a^ - a|  <=  e' = L d + 16 u (1 + |s| + d + |phi(s)|),

L the largest slope of phi near s, 16 units of roundoff for what a library's activation may be off, and twice the height
of a jump where d reaches it. A product of gate and value adds |u| e_v + |v| e_u + 2 e_u e_v and its rounding. A source
that is farther away at any point is refused with the point and both values.

A network is read along the last axis, and a source may do something else where it is given more axes, or fewer: join or
normalise along axis 1, flatten, add a bias that has axes of its own. So it is tried with one to four axes, `axes` are
those at which it gives, row by row, what was read, and others are refused by the network that takes its place.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrize

from softwright.errors import Faults, InvalidInput
from softwright.precision import PRECISIONS, name_of, precision_of
from softwright.targets.mlp.dense import DenseLayer, DenseNetwork, GatedNetwork, Runner
from softwright.targets.mlp.estimators import is_sklearn, read_sklearn, run_sklearn
from softwright.targets.mlp.files import read_file
from softwright.targets.mlp.torch_constants import dtype_of
from softwright.targets.mlp.torch_layers import numbers_of
from softwright.targets.mlp.torch_reader import read_module
from softwright.targets.mlp.torch_tracing import FREE

Network = DenseNetwork | GatedNetwork
Sides = tuple[np.ndarray, np.ndarray]
FEWEST = 64  # points at which a source is looked at
_TRIED = 1907  # the seed of what a source is tried with
_LIBRARY = 16  # units of roundoff: an activation of a library, of values of size 1 + |s| + |phi(s)|
AXES = (1, 2, 3, 4)
_LEADS: tuple[tuple[int, ...], ...] = ((), (3,), (1,), (2, 3), (2, 3, 2))  # what stands before a row
_SHOWN = 6  # coordinates of a point in a message


@dataclass(frozen=True)
class Source:
    """`run` is what the user has, as it is called; None where the reading is the meaning (our own files)."""

    network: Network
    run: Runner | None = None
    axes: tuple[int, ...] = AXES  # how many axes what it is given may have
    flat: bool = False  # whether it makes rows first, of whatever it is given

    @property
    def taken(self) -> tuple[tuple[int, ...], bool]:
        """`axes` and `flat`."""
        return self.axes, self.flat

    @property
    def least(self) -> int:
        """With how many axes rows are given to it: two, or the fewest more that it takes."""
        return min((k for k in self.axes if k >= 2), default=2)

    @property
    def dtype(self) -> str:
        """What the source runs in; a half-precision module is run in float32, with the weights it has."""
        return self.network.dtype if self.network.dtype in PRECISIONS else "float32"


@dataclass(frozen=True)
class Sample:
    """Points (n, d) of the box, numbers of every dtype at hand, and what the source gives there, (n, m)."""

    points: np.ndarray
    values: np.ndarray


def read_source(thing: Any, name: str | None = None, given: Mapping[str, Any] | None = None) -> Source:
    """The network that a user hands in, and how to run it; raises `InvalidInput` or `FileFormatError`.

    `given` are options, by name, with which a module is called.
    """
    if isinstance(thing, DenseNetwork | GatedNetwork):
        return Source(thing)
    if isinstance(thing, str | Path):
        network, run, flat = read_file(thing)
        return Source(network, run, flat=flat)
    if isinstance(thing, nn.Module):
        reading = read_module(thing, name, given)
        plain = {key: value for key, value in (given or {}).items() if value is not FREE}
        run = partial(run_module, thing, given=plain, alone=dtype_of(thing) if reading.alone else None)
        tried = run
        if reading.network.dtype not in PRECISIONS and not reading.alone:  # one copy in float32 for all tries
            widened = copy.deepcopy(thing).to("cpu", precision_of("float32").torch_dtype)
            tried = partial(run_module, widened, given=plain)
        same = axes_of(reading.network, tried)
        axes = tuple(k for k in same if k <= 2) if reading.rows else same
        found = Source(reading.network, run, axes, reading.flattens)
        return replace(found, run=partial(run, axes=found.least))
    if is_sklearn(thing):
        return Source(read_sklearn(thing), partial(run_sklearn, thing))
    raise InvalidInput(
        type(thing).__name__, ["this is no network; give a torch module, a scikit-learn MLP or the path of a file"]
    )


def axes_of(network: Network, run: Runner) -> tuple[int, ...]:
    """With how many axes a source gives, row by row, what was read from it; all of them where it never does, which is
    for `look_at` to say. Raises `InvalidInput` if one row alone is something else than one of several."""
    dtype = network.dtype if network.dtype in PRECISIONS else "float32"
    rng = np.random.default_rng(_TRIED)
    found: list[int] = []
    for lead in _LEADS:
        points = rng.normal(size=(*lead, network.inputs)).astype(dtype).astype(np.float64)
        rows = points.reshape(-1, network.inputs)
        try:
            values = run(points, dtype)
        except Exception:  # noqa: S112  # whatever a foreign forward raises at shapes that do not fit
            continue
        if values is None:
            return AXES
        reading, allowed = network(rows, exact=True), own_rounding(network, rows, dtype)
        same = values.shape == (*lead, network.outputs)
        if same:
            apart = np.abs(values.reshape(reading.shape) - reading)
            same = bool(np.all((apart <= allowed) | ~np.isfinite(allowed)))
        if lead == (1,) and 2 in found and not same:
            fault = f"{network.name} gives one row alone something else than several; leave out what asks how many"
            raise InvalidInput("transpile", [fault])
        found += [len(lead) + 1] if same and len(lead) + 1 not in found else []
    return tuple(found) or AXES


def run_module(
    module: nn.Module,
    points: np.ndarray,
    dtype: str,
    method: str = "__call__",
    given: Mapping[str, Any] | None = None,
    alone: str | None = None,
    axes: int = 2,
) -> np.ndarray | None:
    """A torch module, or a method of it, at points (n, d): as it is in its own dtype, else a copy of it on the CPU.

    `given` are options that it is called with; `alone` is the dtype of a module that is another one in another dtype,
    since it casts or makes weights of weights (half precision is run in float32); `axes` is how many axes points must
    have, further ones being of size 1. A module that changes itself or draws random numbers is refused: one call says
    nothing of the next.
    """
    first = next(numbers_of(module))
    if name_of(first.dtype) != dtype:
        if any(parametrize.is_parametrized(part) or part._forward_pre_hooks for part in module.modules()):
            return None  # weights that are computed from others come out differently in another dtype
        if alone is not None and (alone in PRECISIONS or dtype != "float32"):
            return None
        module = copy.deepcopy(module).to("cpu", precision_of(dtype).torch_dtype)
        first = next(numbers_of(module))
    more = (1,) * (axes - 2)
    x = torch.from_numpy(points).to(first.device, first.dtype).reshape(more + points.shape)
    name = _by_name(module) if method == "__call__" else None
    before, random = state_of(module), torch.get_rng_state()
    with torch.no_grad(), torch.autocast(first.device.type, enabled=False):
        args, named = ((x,), {}) if name is None else ((), {name: x})
        found = getattr(module, method)(*args, **named, **(given or {})).double().cpu().numpy()
    if not torch.equal(random, torch.get_rng_state()):
        raise InvalidInput(type(module).__name__, ["it draws random numbers when it is called; leave them out"])
    changed = [entry for entry, value in state_of(module).items() if before.get(entry) != value]
    if changed:
        fault = (
            f"it changes its own {', '.join(changed[:3])} when it is called, so that one call says nothing of the next"
        )
        raise InvalidInput(type(module).__name__, [f"{fault}; leave that out"])
    return found[(0,) * len(more)] if found.shape[: len(more)] == more else found


def _by_name(module: nn.Module) -> str | None:
    """The name of what a module takes, where it takes it by name alone."""
    try:
        takes = list(inspect.signature(module.forward).parameters.values())
    except (TypeError, ValueError):
        return None
    return takes[0].name if takes and takes[0].kind is inspect.Parameter.KEYWORD_ONLY else None


def state_of(module: nn.Module) -> dict[str, Any]:
    """Numbers and buffers of a module by name, the latter by which tensors they are and how often they were changed."""
    found: dict[str, Any] = {}
    for path, part in module.named_modules():
        dot = f"{path}." if path else ""
        plain = {name: value for name, value in vars(part).items() if type(value) in (int, float, bool, str)}
        found.update({dot + name: value for name, value in plain.items()})
        tensors = [*part.named_buffers(recurse=False), *part.named_parameters(recurse=False)]
        found.update(
            {dot + name: (id(tensor), tensor._version) for name, tensor in tensors if not tensor.is_inference()}
        )
    return found


def look_at(source: Source, sides: Sides | None, dtype: str, count: int, faults: Faults, seed: int = 977) -> Sample:
    """Run the source and its reading side by side; a fault if they differ by more than the source's rounding.

    The source is run in its own dtype, and again in float64, where a difference has less rounding to hide behind. The
    sample holds its values in its own dtype; those in float64 for a network that will run in float64.
    """
    name = source.network.name
    points = _points(source.network.inputs, sides, (source.dtype, dtype), max(count, FEWEST), seed)
    reading = source.network(points, exact=True)
    sample = Sample(points, reading)
    if source.run is None:
        return sample
    for kind in dict.fromkeys((source.dtype, "float64")):
        try:
            values = source.run(points, kind)
        except InvalidInput as error:
            faults.found += [f"{name}: {fault}" for fault in error.faults]
            return sample
        except Exception as error:  # whatever a foreign program raises
            faults.add(f"{name} cannot be run at points of shape {points.shape} ({error}); mend it first")
            return sample
        if values is None:
            continue
        if values.shape != reading.shape:
            faults.add(
                f"{name} gives results of shape {values.shape} at points of shape {points.shape}, its layers as read "
                f"{reading.shape}; give a network of one vector per point"
            )
            return sample
        fault = _mismatch(source.network, points, values, reading, kind)
        if fault:
            faults.add(fault)
            return sample
        if kind == source.dtype or dtype == "float64":
            sample = Sample(points, values)
    return sample


def network_of(thing: Any, sides: Sides | None = None) -> Network:
    """The network that a user hands in, after a look at it; raises `InvalidInput` or `FileFormatError`."""
    source = read_source(thing)
    faults = Faults(source.network.name)
    if sides is None or len(sides[0]) == source.network.inputs:
        look_at(source, sides, "float64", FEWEST, faults)
    faults.raise_if_any()
    return source.network


def _mismatch(network: Network, points: np.ndarray, values: np.ndarray, reading: np.ndarray, dtype: str) -> str:
    """Where a source run in `dtype` is farthest beyond its rounding from its reading, in words; nothing if nowhere."""
    allowed = own_rounding(network, points, dtype)
    apart = np.abs(values - reading)
    excess = np.where(apart <= allowed, 0.0, np.where(np.isfinite(apart), apart, np.inf))
    row, column = np.unravel_index(int(excess.argmax()), excess.shape)
    if excess[row, column] == 0:
        return ""
    return (
        f"{network.name} is not what its layers say: at x = {_shown(points[row])} its output {column + 1} is "
        f"{values[row, column]:.10g}, its layers as read give {float(reading[row, column]):.10g}, and rounding in "
        f"{dtype} explains at most {float(allowed[row, column]):.2g}; something in it changes its values (or "
        "overflows): give the bare layers, or a smaller box"
    )


def own_rounding(network: Network, points: np.ndarray, dtype: str) -> np.ndarray:
    """How far the source's own evaluation in `dtype` can be from real arithmetic at each point, (n, m)."""
    unit = PRECISIONS[dtype].unit + float(np.finfo(np.longdouble).eps)
    least = PRECISIONS[dtype].smallest
    a, e = np.asarray(points, dtype=np.float64), np.zeros(points.shape)
    with np.errstate(all="ignore"):
        if isinstance(network, GatedNetwork):
            (u, e_u), (v, e_v) = (_through(layer, a, e, unit, least) for layer in (network.gate, network.value))
            a = u * v
            e = np.abs(u) * e_v + np.abs(v) * e_u + 2 * e_u * e_v + 2 * unit * np.abs(a) + least
            return _through(network.down, a, e, unit, least)[1]
        for layer in network.layers:
            a, e = _through(layer, a, e, unit, least)
    return e


def _through(layer: DenseLayer, a: np.ndarray, e: np.ndarray, unit: float, least: float) -> Sides:
    """Values (n, out) of a layer and what they are off, from those of its inputs (n, in)."""
    size, terms = np.abs(layer.weight), layer.inputs + 2
    s = a @ layer.weight.T + layer.bias
    gamma = terms * unit / (1 - terms * unit) if terms * unit < 1 else np.inf
    d = e @ size.T + gamma * ((np.abs(a) + e) @ size.T + np.abs(layer.bias)) + terms * least
    phi = layer.activation
    if phi.name == "identity":
        return s, d
    value = phi(s)
    off = phi.local_slope(s - d, s + d) * d + _LIBRARY * unit * (1 + np.abs(s) + d + np.abs(value))
    if phi.row.jump is not None:
        place, height = phi.row.jump(*phi.parameters)
        off = off + np.where(np.abs(s - place) <= d + _LIBRARY * unit * (1 + abs(place)), 2 * height, 0.0)
    return value, off


def _points(d: int, sides: Sides | None, dtypes: tuple[str, str], count: int, seed: int) -> np.ndarray:
    """Random points and corners of the box that are numbers of both dtypes."""
    kind = np.float32 if "float32" in dtypes else np.float64
    rng = np.random.default_rng(seed)
    if sides is None:
        drawn = rng.normal(size=(count, d)) * rng.choice([0.3, 1.0, 3.0], size=(count, 1))
        return drawn.astype(kind).astype(np.float64)
    low, high = sides
    points = low + (high - low) * rng.uniform(size=(count, d))
    corners = rng.integers(0, 2, size=(max(count // 8, 8), d))
    points[: len(corners)] = np.where(corners == 1, high, low)[: len(points)]
    rounded = points.astype(kind)
    rounded = np.where(rounded < low, np.nextafter(rounded, kind(np.inf)), rounded)
    rounded = np.where(rounded > high, np.nextafter(rounded, kind(-np.inf)), rounded)
    return rounded.astype(np.float64)


def _shown(point: np.ndarray) -> str:
    more = f", ... ({len(point)} numbers)" if len(point) > _SHOWN else ""
    return f"[{', '.join(f'{x:.9g}' for x in point[:_SHOWN])}{more}]"
