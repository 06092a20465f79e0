"""The functions of formulas as mpmath knows them: an independent meaning for every name of the language.

`None` means undefined. Precision is that of `mpmath.mp` where a reference is called.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from softwright.proof.arithmetic.balls import precision
from softwright.targets.formula import ROWS, Expression
from softwright.targets.formula.definitions import DEFINED

Real = Any


@dataclass(frozen=True)
class Reference:
    """A function of one variable: its real value, its domain, and the places at which something happens."""

    value: Callable[[Real], Real]
    domain: tuple[float, float] = (-np.inf, np.inf)
    reached: bool = True  # whether finite ends of the domain belong to it
    places: tuple[float, ...] = ()  # extrema, inflections, zeros
    holes: tuple[float, ...] = ()  # floats at which it is undefined
    largest: float = 1e300  # beyond, the reference takes too long, or float64 overflows
    parts: tuple[float, ...] = ()  # where smoothness breaks, within [-2, 2]

    def __call__(self, x: float) -> Real | None:
        low, high = self.domain
        if x < low or x > high or x in self.holes or (not self.reached and x in (low, high)):
            return None
        return _computed(self.value, x, mp.prec)


@cache
def _computed(value: Callable[[Real], Real], x: float, bits: int) -> Real:
    """The value at a float; ends and marked places are asked for again and again, in as many bits."""
    return value(mpf(x))


def _nearest(x: Real) -> Real:
    below = mpmath.floor(x)
    rest = x - below
    tie_down = rest == mpf(1) / 2 and int(below) % 2 == 0
    return below if rest < mpf(1) / 2 or tie_down else below + 1


def _sigmoid(x: Real) -> Real:
    return 1 / (1 + mpmath.exp(-x))


HALVES, WHOLES = (-1.5, -0.5, 0.5, 1.5), (-2.0, -1.0, 0.0, 1.0, 2.0)
_PI = float(mp.pi)
_POSITIVE = partial(Reference, domain=(0.0, np.inf), reached=False)

ONE_ARGUMENT: dict[str, Reference] = {
    "sin": Reference(mpmath.sin, places=(_PI / 2, -_PI / 2, _PI)),
    "cos": Reference(mpmath.cos, places=(_PI / 2, _PI)),
    "tan": Reference(mpmath.tan, places=(_PI, _PI / 2)),
    "cot": Reference(mpmath.cot, places=(_PI / 2, _PI), holes=(0.0,)),
    "sec": Reference(mpmath.sec, places=(_PI, _PI / 2)),
    "csc": Reference(mpmath.csc, places=(_PI / 2, _PI), holes=(0.0,)),
    "asin": Reference(mpmath.asin, (-1.0, 1.0)),
    "acos": Reference(mpmath.acos, (-1.0, 1.0)),
    "atan": Reference(mpmath.atan),
    "sinh": Reference(mpmath.sinh, largest=1e3),
    "cosh": Reference(mpmath.cosh, largest=1e3),
    "tanh": Reference(mpmath.tanh, largest=1e3),
    "coth": Reference(mpmath.coth, holes=(0.0,), largest=1e3),
    "asinh": Reference(mpmath.asinh),
    "acosh": Reference(mpmath.acosh, (1.0, np.inf)),
    "atanh": Reference(mpmath.atanh, (-1.0, 1.0), reached=False),
    "exp": Reference(mpmath.exp, largest=1e3),
    "exp2": Reference(lambda x: mpf(2) ** x, largest=1e3),
    "expm1": Reference(mpmath.expm1, largest=1e3),
    "log": _POSITIVE(mpmath.log),
    "ln": _POSITIVE(mpmath.ln),
    "log2": _POSITIVE(lambda x: mpmath.log(x, 2)),
    "log10": _POSITIVE(mpmath.log10),
    "log1p": Reference(mpmath.log1p, (-1.0, np.inf), reached=False),
    "sqrt": Reference(mpmath.sqrt, (0.0, np.inf)),
    "cbrt": Reference(lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x))),
    "sinc": Reference(mpmath.sinc, places=(4.493409457909064, 7.725251836937707, _PI)),
    "erf": Reference(mpmath.erf, largest=30.0),
    "erfc": Reference(mpmath.erfc, largest=30.0),
    "normcdf": Reference(mpmath.ncdf, largest=40.0),
    "normpdf": Reference(mpmath.npdf, largest=40.0),
    "gamma": _POSITIVE(mpmath.gamma, places=(1.4616321449683622, 2.0), largest=180.0),
    "lgamma": _POSITIVE(mpmath.loggamma, places=(1.4616321449683622, 2.0)),
    "j0": Reference(lambda x: mpmath.besselj(0, x), places=(2.404825557695773, 3.8317059702075125), largest=1e8),
    "j1": Reference(lambda x: mpmath.besselj(1, x), places=(1.8411837813406593, 3.8317059702075125), largest=1e8),
    "sigmoid": Reference(_sigmoid, largest=800.0),
    "softplus": Reference(lambda x: mpmath.log1p(mpmath.exp(x)), largest=800.0),
    "silu": Reference(lambda x: x * _sigmoid(x), places=(-1.2784645427610738,), largest=800.0),
    "gelu": Reference(lambda x: x * mpmath.ncdf(x), places=(-0.7517915246935645,), largest=40.0),
    "relu": Reference(lambda x: max(x, mpf(0)), parts=(0.0,)),
    "abs": Reference(abs, parts=(0.0,)),
    "sign": Reference(lambda x: mpf(mpmath.sign(x)), parts=(0.0,)),
    "step": Reference(lambda x: mpf(x >= 0), parts=(0.0,)),
    "floor": Reference(mpmath.floor, parts=WHOLES),
    "ceil": Reference(mpmath.ceil, parts=WHOLES),
    "round": Reference(_nearest, parts=HALVES),
}
JUMPS = frozenset({"sign", "step", "floor", "ceil", "round", "mod"})  # atan2 jumps too, but not on a half plane


def _xlogy(x: Real, y: Real) -> Real | None:
    return mpf(0) if x == 0 else x * mpmath.log(y) if y > 0 else None


def _power(x: Real, y: Real) -> Real | None:
    if x == 0:
        return mpf(y == 0) if y >= 0 else None
    if x < 0 and y != mpmath.floor(y):
        return None
    return mpmath.re(mpmath.power(x, y))


def _remainder(a: Real, b: Real) -> Real | None:
    with mp.workprec(2000):  # quotients may have hundreds of digits
        return a - b * mpmath.floor(a / b) if b else None


SEVERAL_ARGUMENTS: dict[str, Callable[..., Real | None]] = {
    "pow": _power,
    "hypot": mpmath.hypot,
    "atan2": lambda y, x: mpmath.atan2(y, x) if (x, y) != (0, 0) else None,
    "xlogy": _xlogy,
    "mod": _remainder,
    "min": min,
    "max": max,
    "clip": lambda x, low, high: min(max(x, low), high),
}
# Not a function of numbers alone; tests/targets has its tests.
CHOICES = frozenset({"where"})


# What the tests share -------------------------------------------------------------------------------------------------

UNIT = 2.0**-53
BITS = 160
NAMES = ("x", "y", "z")
EXAMPLES = {row.name: tuple(row.example.values()) for row in (*ROWS, *DEFINED.values())}
one_argument = pytest.mark.parametrize("name", ONE_ARGUMENT)
several_arguments = pytest.mark.parametrize("name", SEVERAL_ARGUMENTS)


@contextmanager
def exact_enough() -> Iterator[None]:
    """Digits to spare on both sides; boxes that reach beyond a domain are meant, so nothing is warned of."""
    with mp.workprec(BITS), precision(BITS), np.errstate(all="ignore"):
        yield


def generator_of(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def call(name: str, count: int = 1) -> Expression:
    return Expression(f"{name}({', '.join(NAMES[:count])})", NAMES[:count])


def arguments_of(name: str) -> int:
    return {"pow": 2, "hypot": 2, "atan2": 2, "xlogy": 2, "mod": 2, "min": 2, "max": 2, "clip": 3}[name]


def points_of(reference: Reference, generator: np.random.Generator, count: int = 30) -> np.ndarray:
    """Floats of the whole domain: all sizes, both signs, the ends, and the neighbourhood of all special places."""
    top = math.log(reference.largest)
    sizes = np.exp(generator.uniform(math.log(1e-300), top, count))
    usual = np.exp(generator.uniform(math.log(1e-6), min(top, math.log(50.0)), 2 * count))
    special = np.array([0.0, 1.0, 0.5, 1.5, 2.5, *reference.places])
    near = (special[:, None] + generator.normal(0, 1, (len(special), 4)) * [1e-9, 1e-4, 1e-2, 0.1]).ravel()
    points = np.concatenate([sizes, usual, special, near])
    ends = [end for end in reference.domain if math.isfinite(end)]
    inner = [math.nextafter(end, other) for end in ends for other in (-math.inf, math.inf)]
    points = np.unique(np.concatenate([points, -points, ends, inner]))
    return np.array([x for x in points if reference(float(x)) is not None])


def inside_of(reference: Reference, generator: np.random.Generator, count: int) -> np.ndarray:
    """Places at which boxes are tried: moderate ones, and all where something happens."""
    low, high = max(reference.domain[0], -8.0), min(reference.domain[1], 8.0)
    special = [*reference.places, *reference.parts, 0.0, *(-x for x in reference.places)]
    ends = [end for end in reference.domain if math.isfinite(end)]
    middle = generator.uniform(low, high, count)
    return np.array([*middle, *(x for x in special if low <= x <= high), *ends])


def tolerated(name: str, x: float, value: Real, unit: float = UNIT) -> Real:
    """Eight units in the last place of the value, and what a last digit of the argument makes."""
    if name in JUMPS:
        return mpf(0)
    low, high = ONE_ARGUMENT[name].domain
    apart = [min(max(mpf(x) * (1 + s * mpf(unit)), low), high) for s in (-1, 1)]
    return 8 * (abs(value) * unit + max(abs(ONE_ARGUMENT[name].value(other) - value) for other in apart))
