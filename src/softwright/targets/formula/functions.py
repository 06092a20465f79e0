"""The functions of formulas: one row per function, with all its meanings.

A row here, and one in `checker/functions.py`, is all there is to add: every table of rules (values, derivatives,
intervals, balls, Taylor models, domains, kinks), the parser's list and the documentation are made from these rows, and
`tests/contracts/test_functions.py` holds each of them against an independent library over its whole domain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import special

from softwright.targets.formula.algebra import ONE, TWO, ZERO, add, div, mul, neg, of, power, sub
from softwright.targets.formula.interval_functions import (
    HALF_PI_UP,
    PI_UP,
    STRUCTURAL,
    decreasing,
    even,
    increasing,
    tan,
    wave,
)
from softwright.targets.formula.intervals import Interval, Rule, Ruled, absolute, sqrt
from softwright.targets.formula.nodes import Constant, Node

Slope = Callable[..., Node]


@dataclass(frozen=True)
class Elementary:
    """One function; its number of arguments is that of its slopes."""

    name: str
    meaning: str  # in words, for the documentation
    numpy: Callable[..., Any]
    torch: Callable[..., torch.Tensor]
    slopes: tuple[Slope, ...]  # for each argument: (arguments..., the node itself) -> the partial derivative
    interval: Rule
    ball: Callable[..., Any]  # of balls inside `domain`; of power series too unless `series` is given
    series: Callable[[Any], Any] | None = None
    monotone: bool = False  # on its whole domain: ranges are then those of the ends
    domain: tuple[float, float] = (-math.inf, math.inf)
    outside: Callable[..., np.ndarray] | None = None  # where it is undefined, at points
    reason: str = ""  # ... in words
    pole: bool = False  # whether its values grow without bound where it is undefined
    vanishing: Slope | None = None  # arguments -> an expression that changes its sign at each pole
    kink: Slope | None = None  # arguments -> an expression whose zeros hold every break of smoothness
    jump: bool = False  # whether the value itself breaks there, and not only a slope
    example: tuple[tuple[float, float], ...] = ()  # one interval per argument, on which it is built and proved


def _bell(u: Node, f: Node) -> Node:
    return mul(div(TWO, of("sqrt", Constant("pi"))), of("exp", neg(power(u, TWO))))


def _arc(u: Node, f: Node) -> Node:
    return div(ONE, of("sqrt", sub(ONE, power(u, TWO))))


def _sign(a: Interval) -> Ruled:
    return Interval(np.sign(a.lower), np.sign(a.upper)), None


_UNIT = (-1.0, 1.0)
_ROWS = (
    Elementary(
        "sin", "sine", np.sin, torch.sin, (lambda u, f: of("cos", u),), wave(np.sin, math.pi / 2, -math.pi / 2),
        lambda x: x.sin(), example=((-3, 3),),
    ),
    Elementary(
        "cos", "cosine", np.cos, torch.cos, (lambda u, f: neg(of("sin", u)),), wave(np.cos, 0.0, math.pi),
        lambda x: x.cos(), example=((-3, 3),),
    ),
    Elementary(
        "tan", "tangent", np.tan, torch.tan, (lambda u, f: add(ONE, power(f, TWO)),), tan, lambda x: x.tan(),
        reason="pole of the tangent", pole=True, vanishing=lambda u: of("cos", u), example=((-1, 1),),
    ),
    Elementary(
        "asin", "arcsine", np.arcsin, torch.asin, (_arc,), increasing(np.arcsin, -HALF_PI_UP, HALF_PI_UP, _UNIT),
        lambda x: x.asin(), monotone=True, domain=_UNIT, outside=lambda a: np.abs(a) > 1.0,
        reason="arcsine of a number outside [-1, 1]", example=((-0.9, 0.9),),
    ),
    Elementary(
        "acos", "arccosine", np.arccos, torch.acos, (lambda u, f: neg(_arc(u, f)),),
        decreasing(increasing(lambda x: np.arccos(-x), 0.0, PI_UP, _UNIT)),
        lambda x: x.acos(), monotone=True, domain=_UNIT, outside=lambda a: np.abs(a) > 1.0,
        reason="arccosine of a number outside [-1, 1]", example=((-0.9, 0.9),),
    ),
    Elementary(
        "atan", "arctangent", np.arctan, torch.atan, (lambda u, f: div(ONE, add(ONE, power(u, TWO))),),
        increasing(np.arctan, -HALF_PI_UP, HALF_PI_UP), lambda x: x.atan(), monotone=True, example=((-3, 3),),
    ),
    Elementary(
        "sinh", "hyperbolic sine", np.sinh, torch.sinh, (lambda u, f: of("cosh", u),), increasing(np.sinh),
        lambda x: x.sinh(), monotone=True, example=((-3, 3),),
    ),
    Elementary(
        "cosh", "hyperbolic cosine", np.cosh, torch.cosh, (lambda u, f: of("sinh", u),),
        even(increasing(np.cosh, least=1.0)), lambda x: x.cosh(), example=((-3, 3),),
    ),
    Elementary(
        "tanh", "hyperbolic tangent", np.tanh, torch.tanh, (lambda u, f: sub(ONE, power(f, TWO)),),
        increasing(np.tanh, -1.0, 1.0), lambda x: x.tanh(), series=lambda x: 1 - 2 / ((2 * x).exp() + 1), monotone=True,
        example=((-3, 3),),
    ),
    Elementary(
        "exp", "exponential", np.exp, torch.exp, (lambda u, f: f,), increasing(np.exp, least=0.0), lambda x: x.exp(),
        monotone=True, example=((-3, 3),),
    ),
    Elementary(
        "log", "natural logarithm", np.log, torch.log, (lambda u, f: div(ONE, u),),
        increasing(np.log, domain=(0.0, math.inf), reached=False), lambda x: x.log(), monotone=True,
        domain=(0.0, math.inf), outside=lambda a: a <= 0.0, reason="logarithm of a number that is not positive",
        pole=True, example=((0.1, 10),),
    ),
    Elementary(
        "sqrt", "square root", np.sqrt, torch.sqrt, (lambda u, f: div(ONE, mul(TWO, f)),), sqrt, lambda x: x.sqrt(),
        monotone=True, domain=(0.0, math.inf), outside=lambda a: a < 0.0, reason="square root of a negative number",
        example=((0.1, 10),),
    ),
    Elementary(
        "abs", "absolute value", np.abs, torch.abs, (lambda u, f: of("sign", u),), absolute, abs, kink=lambda u: u,
        example=((-1, 2),),
    ),
    Elementary(
        "sign", "-1, 0 or 1", np.sign, torch.sign, (lambda u, f: ZERO,), _sign, lambda x: x.sgn(), monotone=True,
        kink=lambda u: u, jump=True, example=((-1, 1),),
    ),
    Elementary(
        "erf", "error function", special.erf, torch.erf, (_bell,), increasing(special.erf, -1.0, 1.0),
        lambda x: x.erf(), monotone=True, example=((-3, 3),),
    ),
)  # fmt: skip

ELEMENTARY: dict[str, Elementary] = {row.name: row for row in _ROWS}
OPERATIONS: dict[str, int] = {
    **{name: {"neg": 1, "where": 3}.get(name, 2) for name in STRUCTURAL},
    **{row.name: len(row.slopes) for row in _ROWS},
}
RULES: dict[str, Rule] = {**STRUCTURAL, **{row.name: row.interval for row in _ROWS}}
