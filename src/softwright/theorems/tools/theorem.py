"""`Theorem`: a label, what it says, what sizes it takes, how it is built, drawn and compared.

A theorem's module holds one `Theorem` object per label:

    A1 = Theorem(
        label="A1", title="...", paper=PAPER_A + ", Theorem 3.1", conditions=("points > tokens", ...),
        options=options("points  60  interpolation tokens p"),
        construct=_construct,                # keyword arguments are the options' names; its docstring is the statement
        sweep=("points", (10, 20, 40, 80)),  # what tables and figures of the label vary
        details=_draw,                       # the right half of its figure
        rival=_rival,                        # softwright's own constructions beside it
        practical=Practical(...),            # its kind of map as programs over sequences, if it is about such
    )

`build` checks names and types of what is given, fills in the defaults and calls `construct`, which checks the theorem's
own conditions with `Faults(f"theorem {label}")` before any work: every fault names the condition that it breaks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from softwright.domain import Box
from softwright.errors import Faults
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.drawing import draw_errors
from softwright.theorems.tools.practical import Practical
from softwright.theorems.tools.rivals import Rivals

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Made = TypeVar("Made", bound=Construction)

PAPER_A = "Universal Approximation with Softmax Attention (arXiv 2504.15956)"
PAPER_B = "Attention Mechanism, Max-Affine Partition, and Universal Approximation (arXiv 2504.19901)"
PAPER_C = (
    "Are Transformers with One Layer Self-Attention Using Low-Rank Weight Matrices Universal Approximators? "
    "(arXiv 2307.14023)"
)


@dataclass(frozen=True)
class Option:
    """One size or choice of a construction: `--name value` on the command line, `name=value` in Python.

    `type` is int, float or str. `choices`, if any, are all the values allowed. Python callers may pass richer values
    (arrays, callables) for an option whose `type` is `object`; such options do not appear on the command line.
    """

    name: str
    type: type
    default: Any
    help: str
    choices: tuple[Any, ...] = ()

    def checked(self, value: Any, faults: Faults) -> Any:
        """The value in the option's type, or a fault."""
        if self.type is object:
            if value is None or _HOLDS.get(self.name, _is_array)(value):
                return value
            faults.add(f"{self.name} must be {self.help}, in numbers; got {_shown(value)}")
            return self.default
        if self.type is str and hasattr(value, "state_dict"):
            faults.add(
                f"{self.name} must be a text, got a module, {type(value).__name__}; write what it computes as a formula"
            )
            return self.default
        try:
            if self.type is int and (isinstance(value, bool) or float(value) != int(float(value))):
                raise ValueError
            result = self.type(value) if self.type is not int else int(float(value))
        except (TypeError, ValueError, OverflowError):
            wanted = {int: "a whole number", float: "a number", str: "a text"}[self.type]
            faults.add(f"{self.name} must be {wanted}, got {value!r}")
            return self.default
        if isinstance(result, float) and not math.isfinite(result):
            faults.add(f"{self.name} = {value!r} is not finite; give a number")
            return self.default
        if self.name == "seed" and isinstance(result, int) and result < 0:
            faults.add(f"seed must be 0 or more, got {value!r}")
            return self.default
        if self.choices and result not in self.choices:
            faults.add(f"{self.name} must be one of {', '.join(map(str, self.choices))}, got {value!r}")
        return result


def _is_array(value: Any) -> bool:
    """Whether NumPy makes an array of numbers of it."""
    try:
        return np.asarray(value, dtype=float).dtype == float
    except (TypeError, ValueError, RuntimeError):
        return False


def _is_list_of(each: Callable[[Any], bool], count: int | None) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, list | tuple) and count in (None, len(value)) and all(each(item) for item in value)
    )


def _is_even(value: Any) -> bool:
    """Whether NumPy makes an array of anything of it."""
    try:
        return np.asarray(value).dtype != object
    except (TypeError, ValueError, RuntimeError):
        return False


# What options that only Python can give hold, by their names, where it is no array of numbers.
_HOLDS: dict[str, Callable[[Any], bool]] = {
    "box": lambda value: isinstance(value, Box | Mapping),
    "network": _is_list_of(_is_array, 4),
    "layers": _is_list_of(_is_list_of(_is_array, 2), None),
    "labels": _is_even,
}


def _shown(value: Any) -> str:
    """A value that is none, on one line; of a torch module the way to its numbers."""
    if hasattr(value, "state_dict"):
        return (
            f"a module, {type(value).__name__}; give its weight and bias as arrays (.detach().numpy()), those of a "
            "lazy module after it was called once"
        )
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:60]}.."


def options(table: str, **choices: tuple[Any, ...]) -> tuple[Option, ...]:
    """Options from a table with the columns name, default and help, at least two blanks apart.

    The type is that of the default: a whole number, a number or a text ("" for an empty one); - stands for None, of an
    option that only Python can give.
    """
    found = []
    for line in filter(None, map(str.strip, table.splitlines())):
        name, default, text = re.split(r"\s{2,}", line, maxsplit=2)
        value = _value(default)
        kind = object if value is None else type(value)
        found.append(Option(name, kind, value, text, choices.pop(name, ())))
    if choices:
        raise ValueError(f"choices for options that are not in the table: {', '.join(choices)}")
    return tuple(found)


def _value(text: str) -> int | float | str | None:
    if text in ("-", '""'):
        return None if text == "-" else ""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@dataclass(frozen=True)
class Theorem(Generic[Made]):
    """One theorem: what it says and how to build its network."""

    label: str
    title: str  # one line, for the list
    paper: str
    conditions: tuple[str, ...]
    options: tuple[Option, ...]
    construct: Callable[..., Made]
    sweep: tuple[str, tuple[Any, ...]] | None = None  # (option, its values) along which tables and figures are made
    details: Callable[[Axes, Made], None] = draw_errors  # draws the right half of the figure
    rival: Callable[[Made], Rivals] | None = None  # softwright's own constructions for the same task
    practical: Practical | None = None  # maps of this kind of any size, as programs

    @property
    def statement(self) -> str:
        """What the theorem says, in our words: a paragraph."""
        return " ".join((self.construct.__doc__ or "").split())

    def build(self, **sizes: Any) -> Made:
        """The network at the given sizes (defaults elsewhere), with the theorem's bound for them."""
        faults = Faults(f"theorem {self.label}")
        known = {option.name: option for option in self.options}
        for name in sizes:
            faults.check(name in known, f"there is no size {name!r}; {self.label} takes {', '.join(known)}")
        filled = {name: option.checked(sizes.get(name, option.default), faults) for name, option in known.items()}
        faults.raise_if_any()
        return self.construct(**filled)
