"""What a row of METHODS says: a method, its solvers, its own arguments, and the estimator with the same answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from torch import Tensor

from softwright.errors import Faults
from softwright.methods.classical import Solution, Standardised
from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint
from softwright.methods.losses import Loss

if TYPE_CHECKING:
    from softwright.methods.network import InContextStack
    from softwright.result.closed_form import ClosedForm


def noisy(offset: float) -> Callable[[np.random.Generator, np.ndarray], np.ndarray]:
    """y of random rows: s, an offset and noise."""
    return lambda rng, s: s + 0.3 * rng.normal(size=len(s)) + offset


@dataclass(frozen=True)
class Solver:
    """How a method is solved: the stack, the bound of one step where there is one, and where float32 is too coarse.

    `default_step` marks gradient descent, which works on the features as given: it says the step to take unless one is
    asked for, and heads are then of high order for the sake of the bound.
    """

    build: Callable[[Constants], FitBlueprint]
    certificate: Callable[[InContextStack, dict[str, Any]], ClosedForm] | None = None
    float32_condition: float = math.inf
    default_step: Callable[[Constants], float] | None = None
    precise: bool = False  # heads of high order, where few tokens are read or a bound asks for it
    usual_steps: int | None = None  # iterations unless steps are given, where the condition does not set them


@dataclass(frozen=True)
class Peer:
    """An estimator with the same answer: its place, and its arguments for n rows, or None where there are none."""

    place: str
    options: Callable[[int, Constants], dict[str, Any] | None]
    shown: str  # its arguments in documentation


@dataclass(frozen=True)
class Option:
    """An argument of one method alone: its default, the least it may be, whether it is a whole number, its meaning.
    One whose default is a text takes texts."""

    default: float | str
    least: float
    meaning: str
    whole: bool = False
    most: float = math.inf

    @property
    def shown(self) -> str:
        """The default in documentation."""
        return repr(self.default) if isinstance(self.default, str) else f"{self.default:g}"

    def fault(self, name: str, value: Any) -> str:
        """What is wrong with a value, or nothing."""
        if isinstance(self.default, str):
            return "" if isinstance(value, str) and value.strip() else f"{name} must be a text, got {value!r}"
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if number and self.least <= value <= self.most and (not self.whole or value == int(value)):
            return ""
        most = f" and at most {self.most:g}" if math.isfinite(self.most) else ""
        return (
            f"{name} must be a {'whole ' if self.whole else ''}number of at least {self.least:g}{most}, got {value!r}"
        )


@dataclass(frozen=True)
class Method:
    """One method. The first of `solvers` is the default. `penalised` says whether it needs a penalty (True), has none
    (False) or takes any (None); `leverage` times the number of features is the default of score_bound.

    A method that fits coefficients has a `loss` and how it is solved exactly; any other has `answers`: what its stack
    should say, by classical numerics. `columns` names what a stack answers if that is more than one number a query, and
    `finish` makes them of what the stack says, where a product remains to be taken outside."""

    name: str
    objective: str
    solvers: Mapping[str, Solver]
    design: Callable[[np.random.Generator, np.ndarray], np.ndarray]  # y of random rows, from their s
    loss: Loss | None = None
    exact: Callable[[Standardised, Loss], Solution] | None = None
    answers: Callable[[np.ndarray, np.ndarray, np.ndarray, Constants], np.ndarray] | None = None
    posterior: bool = False  # whether a stack says mean and spread x.M x of predictions, w the solution of ridge
    columns: Callable[[Constants], tuple[str, ...]] = lambda c: ()
    finish: Callable[[Tensor, Constants], Tensor] | None = None
    options: Mapping[str, Option] = field(default_factory=dict)
    scaled: bool = True  # whether features are scaled in context; distances are those of the features as given
    defaults: Mapping[str, float] = field(default_factory=dict)
    penalised: bool | None = None
    penalty_power: int = 2  # the penalty is on |w|^2, or with 1 on |w|
    nonnegative: bool = False  # whether coefficients are 0 or more
    needs_intercept: str = ""  # why, if it does
    needs_rows: bool = True  # without a penalty as many as there are unknowns, or the solution is not unique
    leverage: float = 10.0
    check: Callable[[Tensor, Constants, Faults], None] = lambda y, c, faults: None
    check_rows: Callable[[Tensor, Tensor, Constants, Faults], None] = lambda x, queries, c, faults: None
    arranged: Callable[[np.ndarray], np.ndarray] = lambda x: x  # random rows as this method takes them
    takes: int | None = None  # how many columns x has, where the method says so
    follows_y: bool = False  # whether y_bound follows from the range of y in the prompt
    follows: slice | None = None  # columns whose range x_bound follows; all of them where nothing is scaled
    free: slice | None = None  # columns whose units, each its own, change no answer
    varying: int | None = None  # the first of the columns that must vary; all where coefficients are fitted
    as_given: bool = False  # whether units of x matter although the method itself has no penalty
    lengths: tuple[str, ...] | None = None  # options in the units of x, where these do not change the answer otherwise
    answers_x: bool = False  # whether answers have the units of x
    y_units: Literal["", "times", "log"] = ""  # how predictions follow the units of y: as a factor, or by its logarithm
    weights: Literal["any", "positive", "none", "counts"] = "any"  # which have a meaning; their sum has one as counts
    check_size: Callable[[Tensor, Constants, Faults], None] | None = None  # of y, where that has a least one
    resolved: Callable[[Tensor, Tensor, Constants, Faults], None] | None = None  # whether digits are left
    peer: Peer | None = None

    @property
    def text(self) -> str:
        """What a stack of this method does, in a line."""
        return self.objective if self.loss is None else f"minimise {self.objective}"
