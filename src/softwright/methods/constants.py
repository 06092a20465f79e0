"""`Constants`: what a stack is built for, fixed before any data are seen. One field per argument of `in_context`.

A field says what its argument may be; `verb` fills in the defaults, which depend on the method, the solver and the
dtype. Files hold the same names, in this order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from softwright.errors import Faults, InvalidInput
from softwright.methods.bilinear import ANGLES, ORDERS
from softwright.methods.standardise import SCALED_MOST

_STORED = {"accuracy": "tolerance"}  # names in files, where they differ from those of the arguments
_MOST = 1_000_000_000  # of what is counted; no stack has more features, steps or rows
_MOST_STEPS = 100_000


def _finite(value: Any) -> bool:
    """Whether it is a number that a float holds; whole numbers may be larger than all of them."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return known and (abs(value) <= 2**1023 if isinstance(value, int) else math.isfinite(value))


def _rule(good: Callable[[Any], bool], remedy: str, optional: bool = False) -> Any:
    """A field whose value must be `good`, or may be None too if `optional`."""
    return field(metadata={"good": lambda value: (optional and value is None) or good(value), "remedy": remedy})


def _text() -> Any:
    return _rule(lambda value: isinstance(value, str), "a text")


def _flag() -> Any:
    return _rule(lambda value: isinstance(value, bool), "True or False")


def _positive(optional: bool = False) -> Any:
    return _rule(lambda value: _finite(value) and value > 0, "a positive number", optional)


def _whole(optional: bool = False, most: int = _MOST) -> Any:
    good = lambda value: isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most  # noqa: E731
    return _rule(good, f"a whole number of at least 1 and at most {most:,}", optional)


@dataclass(frozen=True)
class Constants:
    """The arguments of `in_context`, which says what each one means, with every default filled in."""

    method: str = _text()
    features: int = _whole()
    solver: str = _text()
    penalty: float = _rule(lambda value: _finite(value) and value >= 0, "a number of 0 or more")
    intercept: bool = _flag()
    scaling: bool = _flag()
    condition: float = _positive()
    steps: int | None = _whole(optional=True, most=_MOST_STEPS)
    step_size: float | None = _positive(optional=True)
    largest_eigenvalue: float = _positive()
    score_bound: float = _positive()
    feature_bound: float = _positive()
    range_bound: float = _positive()
    loss_scale: float = _positive()
    rate_bound: float = _positive()
    response: bool = _flag()
    x_bound: float = _positive()
    y_bound: float = _positive()
    w_bound: float = _positive()
    max_rows: int = _whole()
    accuracy: float = _positive()
    order: int = _rule(lambda value: value in ORDERS, f"one of {', '.join(map(str, ORDERS))}")
    angle: float = _positive()
    dtype: str = _rule(lambda value: value in ANGLES, f"one of {', '.join(ANGLES)}")
    options: tuple[tuple[str, Any], ...] = ()  # arguments of one method alone, which its row describes

    @property
    def angles(self) -> dict[int, float]:
        return ANGLES[self.dtype]

    @property
    def most(self) -> float:
        """Bound of the largest eigenvalue of the scaled covariance."""
        return (SCALED_MOST if self.scaling else 1.0) * self.largest_eigenvalue

    @property
    def eta(self) -> float:
        """The step of gradient descent."""
        if self.step_size is None:
            raise InvalidInput("in_context", [f"{self.solver} takes no step of a given size; give step_size"])
        return self.step_size

    def option(self, name: str) -> Any:
        return dict(self.options)[name]

    def stored(self) -> dict[str, Any]:
        """The constants as files hold them; arguments of one method alone only where there are any."""
        values = {_STORED.get(name, name): value for name, value in asdict(self).items()}
        options = dict(values.pop("options"))
        return values | ({"options": options} if options else {})

    @classmethod
    def from_stored(cls, settings: Mapping[str, Any]) -> Constants:
        """The constants of a file; a missing, foreign or wrong one is an error."""
        names = {_STORED.get(name, name): name for name in cls.__dataclass_fields__ if name != "options"}
        faults = Faults("settings")
        known = settings.keys() - {"options"}
        faults.check(known == names.keys(), f"settings are {sorted(names)}, the file has {sorted(settings)}")
        more = settings.get("options", {})
        plain_ones = isinstance(more, Mapping) and all(isinstance(x, str) or _finite(x) for x in more.values())
        faults.check(plain_ones, "the options of the method are not numbers or texts by name")
        faults.raise_if_any()
        values = {names[name]: value for name, value in settings.items() if name != "options"}
        values["options"] = tuple((str(name), value) for name, value in more.items())
        check(values, faults)
        faults.raise_if_any()
        return cls(**values)


def plain(value: Any) -> Any:
    """A NumPy scalar as the Python number that files can hold; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def check(values: Mapping[str, Any], faults: Faults) -> None:
    """Record every value that its field does not take."""
    for rule in fields(Constants):
        if rule.name in values and rule.metadata:
            value = values[rule.name]
            good = bool(rule.metadata["good"](value))
            faults.check(good, f"{rule.name} must be {rule.metadata['remedy']}, got {value!r}")
