"""`Function`: a Python callable as a target. Nothing is known of it but its values, so every value is checked.

How the callable wants its arguments is found by a trial on a few points of the domain. The styles, in the order tried:

    columns           fn(x, y, ...) with one array (n,) a variable -> (n,), (n, m) or a sequence of m arrays (n,)
    stacked columns   the same                                     -> (m, n), such as np.array([x + y, x*y])
    points            fn(points) with one array (n, d)             -> (n,) or (n, m)
    tensor ...        these three with torch tensors (float64; for a torch.nn.Module its own dtype and device)
    scalars           fn(x, y, ...) with floats, a point at a time -> a number or a sequence of m numbers

A style counts only if the shapes fit for batches of different sizes *and* the value at a point is the same in all
batches: a callable that mixes points (x / x.max(), say) is then not mistaken for a function of one point. If two
styles fit and give different values, that is an error and not a choice. A callable of `*args` takes its variables one
by one where it can: that it also takes one array is then no second meaning.

All points that a callable is asked for are counted (`asked`), those of the trial included; a builder keeps to `left`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from softwright.domain import Box
from softwright.errors import Faults, InvalidInput
from softwright.targets.points import as_points, show_point
from softwright.targets.target import Target

_TRIAL = 5  # points of the first trial batch; 7 if there are 5 variables, so that a swapped axis shows
_KEPT = 5000  # points at most that are kept for a check
_SAME = 1e-4  # relative: batches may differ by rounding, also in float32, but not by more


class _Style(NamedTuple):
    """How the callable is called: `spread` passes one argument per variable, `container` is array, tensor or float."""

    name: str
    spread: bool
    container: str
    outputs_first: bool = False


_STYLES = (
    _Style("columns", True, "array"),
    _Style("stacked columns", True, "array", outputs_first=True),
    _Style("points", False, "array"),
    _Style("tensor columns", True, "tensor"),
    _Style("tensor stacked columns", True, "tensor", outputs_first=True),
    _Style("tensor points", False, "tensor"),
    _Style("scalars", True, "float"),
)


class _UnfitError(Exception):
    """The callable raised, or gave what is not an array of numbers of a fitting shape; the message says which."""


class Function(Target):
    """A Python callable of named variables.

    `variables` is a `Box` (its names; the call style is then found at once, on points of the box), a sequence of names,
    or a number of variables (named x, or x1, x2, ...). With names only, the style is found at the first call.

    `vectorized=True` admits only styles that take arrays, `False` only single numbers. `outputs` states the number of
    outputs if it is to be checked. At most `chunk` points go to the callable at once.

    `lipschitz` and `second_derivative` are the caller's promises, on which proofs about a callable rest: a number L
    promises |f(x) - f(y)| <= L |x - y| (Euclidean), a sequence promises |f(x) - f(y)| <= sum_i L_i |x_i - y_i|. For the
    second derivative a number bounds the spectral norm of the Hessian, a sequence bounds |d2f/dx_i2| for each variable.
    """

    kind: ClassVar[str] = "function"

    def __init__(
        self,
        fn: Callable[..., Any],
        variables: Box | Sequence[str] | int,
        outputs: int | None = None,
        *,
        vectorized: bool | None = None,
        chunk: int = 65536,
        lipschitz: float | Sequence[float] | None = None,
        second_derivative: float | Sequence[float] | None = None,
        name: str | None = None,
    ) -> None:
        faults = Faults("Function")
        faults.check(callable(fn), f"{type(fn).__name__} is not callable; give a function of the variables")
        self.names = _names(variables, faults)
        faults.check(chunk >= 1, f"chunk is {chunk}; give a positive number of points")
        faults.check(outputs is None or outputs >= 1, f"outputs is {outputs}; give a positive number or leave it out")
        self.lipschitz = _promise("lipschitz", lipschitz, len(self.names), faults)
        self.second_derivative = _promise("second_derivative", second_derivative, len(self.names), faults)
        faults.raise_if_any()
        self.fn = fn
        self.name = name or getattr(fn, "__name__", type(fn).__name__)
        self.vectorized = vectorized
        self.chunk = int(chunk)
        self._outputs = outputs
        self._style: _Style | None = None
        self.asked = 0  # points so far
        self.since = 0  # both as `allow` was told
        self.most: int | None = None
        if isinstance(variables, Box):
            self.detect(variables.sample(8))

    @property
    def outputs(self) -> int:  # type: ignore[override]
        if self._outputs is None:
            fault = "the number of outputs is not known yet; pass outputs=, or a Box instead of names, or call it once"
            raise InvalidInput(f"Function {self.name}", [fault])
        return self._outputs

    def allow(self, most: int | None, since: int) -> None:
        """Remember for whoever asks: at most so many points from when `asked` was `since`; None: any number."""
        self.most, self.since = most, since

    @property
    def left(self) -> int | None:
        """How many points may still be asked for; None if there is no limit."""
        return None if self.most is None else max(self.since + self.most - self.asked, 0)

    @property
    def kept(self) -> int:
        """How many of these are for the check of a result."""
        return 0 if self.most is None else min(self.most // 5, _KEPT)

    @property
    def style(self) -> str | None:
        """The name of the call style found (see the module's text), or None so far."""
        return self._style.name if self._style else None

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Values (n, m) at points (n, d); an exception, a wrong shape, nan or inf is an error that names the point."""
        points = as_points(points, self.names, f"Function {self.name}")
        if len(points) == 0:
            return np.empty((0, self.outputs))
        style = self._style or self._detected(points)
        values = np.empty((len(points), self.outputs))
        for start in range(0, len(points), self.chunk):
            part = points[start : start + self.chunk]
            values[start : start + self.chunk] = self._checked(style, part)
        return values

    @property
    def is_known_between_points(self) -> bool:
        return self.lipschitz is not None or self.second_derivative is not None

    def describe(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "variables": list(self.names),
            "outputs": self._outputs,
            "lipschitz": self.lipschitz,
            "second_derivative": self.second_derivative,
        }

    def __repr__(self) -> str:
        return f"Function({self.name}, names={list(self.names)}, style={self.style})"

    # How the callable is called -----------------------------------------------------------------------------------

    def detect(self, points: np.ndarray) -> None:
        """Find the call style and the number of outputs on a few of `points`; raises if no style fits."""
        self._detected(points)

    def _detected(self, points: np.ndarray) -> _Style:
        subject = f"Function {self.name}"
        trial = self._trial_points(points)
        fitting: list[tuple[_Style, np.ndarray]] = []
        reasons: list[str] = []
        candidates, spread_first = self._candidates()
        for style in candidates:
            if fitting and (style.container != "array" or (spread_first and not style.spread)):
                break  # tensors and single points are for callables that do not take arrays
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the trial of a style that does not fit may well warn
                    fitting.append((style, self._try(style, trial)))
            except _UnfitError as unfit:
                reasons.append(f"{_signature(style, self.names)}: {unfit}")
        if not fitting:
            tried = "".join(f"\n      {reason}" for reason in dict.fromkeys(reasons))
            where = show_point(self.names, trial[0])
            remedy = "take one array or one float per variable, or one array (n, d), and return real numbers"
            raise InvalidInput(
                subject, [f"no way of calling it works at {where} and {len(trial) - 1} more; {remedy}:{tried}"]
            )
        first, values = fitting[0]
        for style, others in fitting[1:]:
            if others.shape != values.shape or not np.allclose(others, values, rtol=_SAME, equal_nan=True):
                ways = f"{_signature(first, self.names)} and {_signature(style, self.names)}"
                raise InvalidInput(subject, [f"{ways} both work but differ; make it accept one of the two only"])
        if self._outputs is not None and values.shape[1] != self._outputs:
            fault = f"it returns {values.shape[1]} outputs but {self._outputs} were stated; correct outputs="
            raise InvalidInput(subject, [fault])
        self._outputs = values.shape[1]
        self._style = first
        return first

    def _trial_points(self, points: np.ndarray) -> np.ndarray:
        """A few distinct points, their number different from the number of variables; rows repeat if they must."""
        distinct = np.unique(points, axis=0)
        count = _TRIAL if self.dim != _TRIAL else _TRIAL + 2
        return distinct[np.linspace(0, len(distinct) - 1, count).round().astype(int)]

    def _try(self, style: _Style, trial: np.ndarray) -> np.ndarray:
        """Values at the trial points; raises `_UnfitError` unless smaller batches give the same values."""
        values = self._evaluate(style, trial)
        if style.container == "float":
            return values
        size = 3 if self.dim != 3 else 2
        for start in (0, 2, 4):  # each point is missing from one of these batches, so no extreme stays in all of them
            rows = np.arange(start, start + size) % len(trial)
            part, same = self._evaluate(style, trial[rows]), values[rows]
            if part.shape != same.shape:
                raise _UnfitError("the number of outputs depends on the number of points; return (n,) or (n, m)")
            finite = np.isfinite(part) & np.isfinite(same)
            difference = np.abs(np.where(finite, part, 0.0) - np.where(finite, same, 0.0))
            if np.any(difference > _SAME * (1.0 + np.abs(np.where(finite, same, 0.0)))):
                raise _UnfitError("the value at a point depends on the others given with it; treat each on its own")
        return values

    def _candidates(self) -> tuple[list[_Style], bool]:
        """The styles that the signature allows, in order, and whether one array is the last resort (`*args`)."""
        styles = [style for style in _STYLES if self.vectorized in (None, style.container != "float")]
        if isinstance(self.fn, torch.nn.Module):
            styles = [style for style in styles if style.container == "tensor"]
        try:
            signature = inspect.signature(self.fn)
        except (TypeError, ValueError):  # some built-in and compiled functions do not tell
            return styles, False
        fitting = []
        for style in styles:
            try:
                signature.bind(*range(self.dim if style.spread else 1))
            except TypeError:
                continue
            fitting.append(style)
        found = fitting or styles
        spread_first = any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())
        return sorted(found, key=lambda style: not style.spread) if spread_first else found, spread_first

    def _evaluate(self, style: _Style, points: np.ndarray) -> np.ndarray:
        """Values (n, m) from one call (or one call per point); raises `_UnfitError` with the reason."""
        self.asked += len(points)
        if style.container == "float":
            rows = [self._row(point) for point in points]
            if len({len(row) for row in rows}) != 1:
                raise _UnfitError("the number of outputs changes from point to point; return the same number always")
            return np.stack(rows)
        # Copies throughout: a callable that writes into its argument must not change the points.
        batch = _as_tensor(self.fn, points) if style.container == "tensor" else points.copy()
        result = self._call(*(_column(batch, i) for i in range(self.dim))) if style.spread else self._call(batch)
        return _as_values(result, len(points), style)

    def _row(self, point: np.ndarray) -> np.ndarray:
        try:
            array = _as_numbers(self._call(*point.tolist()))
            if array.ndim > 1:
                raise _UnfitError(
                    f"it returns shape {array.shape} for one point; return a number or a sequence of numbers"
                )
        except _UnfitError as unfit:
            raise _UnfitError(f"at {show_point(self.names, point)} {unfit}") from unfit
        return np.atleast_1d(array)

    def _call(self, *arguments: Any) -> Any:
        try:
            with np.errstate(all="ignore"), torch.no_grad():
                return self.fn(*arguments)
        except Exception as error:
            raise _UnfitError(f"it raises {type(error).__name__}: {error}") from error

    # Checked evaluation -------------------------------------------------------------------------------------------

    def _checked(self, style: _Style, points: np.ndarray) -> np.ndarray:
        subject = f"Function {self.name}"
        try:
            values = self._evaluate(style, points)
        except _UnfitError as unfit:
            reason = str(unfit) if style.container == "float" else self._locate(style, points, str(unfit))
            raise InvalidInput(subject, [f"{reason}; shrink the box or mend the function"]) from unfit
        if values.shape[1] != self.outputs:
            where = show_point(self.names, points[0])
            fault = (
                f"at {where} it returns {values.shape[1]} outputs, not {self.outputs} as before; return the same number"
            )
            raise InvalidInput(subject, [fault])
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if bad.size:
            where = show_point(self.names, points[bad[0]])
            fault = f"the value at {where} is {values[bad[0]].tolist()} ({bad.size} of {len(points)} points)"
            raise InvalidInput(subject, [f"{fault}; shrink the box or make the function finite there"])
        return values

    def _locate(self, style: _Style, points: np.ndarray, reason: str) -> str:
        """The reason with a single point at which the call fails, found by halving the batch."""
        while len(points) > 1:
            half = len(points) // 2
            for part in (points[:half], points[half:]):
                try:
                    self._evaluate(style, part)
                except _UnfitError as unfit:
                    points, reason = part, str(unfit)
                    break
            else:
                return f"at {show_point(self.names, points[0])} and {len(points) - 1} other points together {reason}"
        return f"at {show_point(self.names, points[0])} {reason}"


def _names(variables: Box | Sequence[str] | int, faults: Faults) -> tuple[str, ...]:
    if isinstance(variables, Box):
        return variables.names
    if isinstance(variables, int):
        faults.check(variables >= 1, f"{variables} variables; give 1 or more")
        return ("x",) if variables == 1 else tuple(f"x{i}" for i in range(1, variables + 1))
    names = (variables,) if isinstance(variables, str) else tuple(variables)
    faults.check(bool(names), "no variables; give their names, for example ['x', 'y']")
    faults.check(all(isinstance(n, str) for n in names), f"names {names} are not all strings; give strings")
    faults.check(len(set(names)) == len(names), f"names {list(names)} repeat; each variable needs its own name")
    return names


def _promise(
    what: str, given: float | Sequence[float] | None, dim: int, faults: Faults
) -> float | tuple[float, ...] | None:
    if given is None:
        return None
    try:
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        faults.add(f"{what} {given!r} is not a number; give a bound or one bound per variable")
        return None
    fits = array.ndim == 0 or array.shape == (dim,)
    faults.check(fits, f"{what} has shape {array.shape}; give one number or {dim}, one per variable")
    faults.check(
        bool(np.all(np.isfinite(array) & (array >= 0))),
        f"{what} {given!r} must be finite and not negative; give a true bound",
    )
    return float(array) if array.ndim == 0 else tuple(array.tolist())


def _signature(style: _Style, names: tuple[str, ...]) -> str:
    container = {"array": "array", "tensor": "torch tensor", "float": "float"}[style.container]
    arguments = (
        f"{', '.join(names)}: one {container} each" if style.spread else f"points: {container} (n, {len(names)})"
    )
    return f"fn({arguments})"


def _column(batch: np.ndarray | torch.Tensor, index: int) -> Any:
    return np.ascontiguousarray(batch[:, index]) if isinstance(batch, np.ndarray) else batch[:, index]


def _as_tensor(fn: Callable[..., Any], points: np.ndarray) -> torch.Tensor:
    tensor = torch.tensor(points)  # a copy, so that the callable cannot change the points
    if isinstance(fn, torch.nn.Module):
        like = next((p for p in [*fn.parameters(), *fn.buffers()] if p.is_floating_point()), None)
        if like is not None:
            tensor = tensor.to(dtype=like.dtype, device=like.device)
    return tensor


def _as_numbers(result: Any) -> np.ndarray:
    """Any real numeric result as a float64 array; raises `_UnfitError` for anything else."""
    if isinstance(result, torch.Tensor):
        result = result.detach().cpu().to(torch.float64 if not result.is_complex() else result.dtype).numpy()
    try:
        array = np.asarray(result)
    except (TypeError, ValueError) as error:
        raise _UnfitError(f"its result is not an array of numbers ({error}); return numbers") from error
    if np.iscomplexobj(array):
        raise _UnfitError("it returns complex numbers; return the real part or the absolute value")
    if array.dtype.kind not in "fiub":
        raise _UnfitError(f"it returns {type(result).__name__} of dtype {array.dtype}; return real numbers")
    return array.astype(np.float64)


def _as_values(result: Any, count: int, style: _Style) -> np.ndarray:
    """The result of a call with arrays as (count, m)."""
    if style.spread and isinstance(result, list | tuple):
        parts = [_as_numbers(part) for part in result]
        if any(part.shape == (count,) for part in parts) and all(part.shape in ((), (count,)) for part in parts):
            return np.stack([np.broadcast_to(part, (count,)) for part in parts], axis=1)
        if any(part.ndim for part in parts):
            raise _UnfitError(
                f"it returns arrays of shapes {[p.shape for p in parts]}, not of {count} values; mend the shapes"
            )
    array = _as_numbers(result)
    if array.shape == (count,):
        return array[:, None]
    if array.ndim == 2 and array.size and array.shape[1 if style.outputs_first else 0] == count:
        return np.ascontiguousarray(array.T) if style.outputs_first else array
    raise _UnfitError(f"it returns shape {array.shape} for {count} points; return ({count},) or ({count}, m)")
