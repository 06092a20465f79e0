"""The activations a source may have, as the checker knows them: values, slopes, ranges and the tokens to be expected.

One row per activation. `slope` is sup |phi'|, `least` inf phi', `flat` the two numbers outside of which phi is
constant, `span` an interval that holds phi([low, high]). The constants behind them:

    silu       s sigma(s): min -0.27846.., slope <= 1.09984..       gelu       min -0.16997.., slope <= 1.12890..
    mish       min -0.30884.., slope <= 1.08850..                   gelu_tanh  min -0.17004.., slope <= 1.12901..
    s sigma(z), z = 2 r (s + c s^3):  min >= -0.27847/(2 r), since s sigma(z) >= s sigma(2 r s) for s < 0; with t = c
               s^2, |phi'| = |sigma + z sigma' (1 + 3t)/(1 + t)| <= sigma + 3 |z| sigma' < 1.6, and, as |s| <=
               |z|/(2 r) and |z|^3 sigma'(z) < 1.25, <= 1.1 + 2.5 c/(2 r)^2

Left of s = -r, `left`, with E = e^-r >= sigma(-r):
    silu       phi' = sigma + s sigma (1 - sigma) is at most sigma(-r), at least -(r - 1) sigma(-r), which falls in size
               from r = 2.3 on; min phi' = -0.09985..
    gelu       phi' = Q(r) - r density(r), Q(r) <= e^{-r^2/2}/2, r density(r) falls from r = 1 on; min phi' = -0.12890..
    s sigma(z) phi' = sigma + q z sigma (1 - sigma), 1 <= q <= 3, is at most sigma, at least -3 |z| e^{-|z|}, whose size
               falls from |z| = 1 on, and z as a function of s rises
    mish       phi = s T, T = tanh(log(1 + e^s)): phi' is at most T <= E, and s T' >= -r E, which falls from r = 1 on
    softplus, elu  sigma(beta s) and alpha e^s, which rise

For phi(s) = s F(s), F(s) + F(-s) = 1, as silu and all kinds of gelu are, phi'(s) + phi'(-s) = 1, so phi' >= 1 - slope.

Families say how a head of tokens (k, b, v, u) comes to phi: `exact` tokens are phi itself, `gates` switch between the
pieces of a piecewise linear phi, `powers` are those of ELU, `fitted` ones only come near it, and so do the `sides` of
softsign.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, fmpq

from softwright.checker.refusal import require
from softwright.checker.transpiled.outward import LOST, UNIT, exp_up

Array = np.ndarray
Piece = tuple[Fraction, Fraction]  # slope and offset


@dataclass(frozen=True)
class Smooth:
    """A function to which tokens were fitted: its series, and how far it is from max(s, 0) for |s| >= settled."""

    series: Callable[[Any], Any]
    rate: float  # how narrow it is, about: cells are as narrow
    beyond: Callable[[arb], arb]
    settled: fmpq
    jump: tuple[float, float] | None = None  # from where on phi differs from it, and by how much at most


@dataclass(frozen=True, kw_only=True)
class Row:
    """One activation. Every function takes its parameters, in order, after its own arguments."""

    parameters: dict[str, float] = field(default_factory=dict)
    good: Callable[..., bool] = lambda *_: True
    slope: Callable[..., float]
    least: Callable[..., float] | None = None  # inf phi'; None: no more is known than -slope
    flat: Callable[..., tuple[float, float]] = lambda *_: (-math.inf, math.inf)
    bell: float = 0.0  # r where phi' = height r e/(1 + e)^2, e = e^{-r |s|}
    height: float = 1.0
    fading: Callable[[Array], Array] | None = None  # r -> sup |phi'| over |s| >= r, rounded up
    left: Callable[..., Array] | None = None  # r >= 0 -> sup |phi'| over s <= -r, rounded up
    span: Callable[..., tuple[Array, Array]]
    tokens: tuple[tuple[float, ...], ...] | None = None  # of an exact one, b None where it is log 2
    pieces: Callable[..., tuple[list[Piece], list[Fraction]]] | None = None  # of a gate: pieces and where they meet
    powers: bool = False
    sides: bool = False
    smooth: Callable[..., Smooth] | None = None


@dataclass(frozen=True)
class Activation:
    """A row with its parameters."""

    name: str
    parameters: tuple[float, ...]

    @property
    def row(self) -> Row:
        return ROWS[self.name]

    @property
    def linear(self) -> bool:
        return self.name == "identity"

    @property
    def slope(self) -> float:
        return self.row.slope(*self.parameters)

    @property
    def least_slope(self) -> float:
        """inf phi', at least."""
        return -self.slope if self.row.least is None else self.row.least(*self.parameters)

    @property
    def jumps(self) -> bool:
        return self.row.smooth is not None and self.row.smooth(*self.parameters).jump is not None

    def local_slope(self, low: Array, high: Array) -> Array:
        """sup |phi'| over the range of each neuron: 0 where phi is constant there, less than `slope` far from 0."""
        left, right = self.row.flat(*self.parameters)
        steepest = np.full(np.shape(low), self.slope)
        if self.row.fading is not None:
            steepest = np.minimum(steepest, self.row.fading(np.maximum(np.maximum(low, -high), 0.0)))
        if self.row.bell:  # rate e/(1 + e)^2, e = e^{-rate |s|}, grows with e <= 1
            e = np.minimum(exp_up(-self.row.bell * np.maximum(np.maximum(low, -high), 0.0)), 1.0)
            steepest = np.minimum(steepest, self.row.bell * e / (1 + e) ** 2 * self.row.height * (1 + 16 * UNIT) + LOST)
        if self.row.left is not None:
            beyond = self.row.left(np.clip(-high, 0.0, 1e9), *self.parameters)
            steepest = np.where(high <= 0, np.minimum(steepest, beyond), steepest)
        return np.where((high < left) | (low > right), 0.0, steepest)

    def span(self, low: Array, high: Array) -> tuple[Array, Array]:
        """An interval that holds phi([low, high])."""
        least, most = self.row.span(low, high, *self.parameters)
        return least, most

    def __str__(self) -> str:
        defaults = self.row.parameters.items()
        given = zip(defaults, self.parameters, strict=True)
        shown = [f"{name}={value:g}" for (name, default), value in given if value != default]
        return f"{self.name}({', '.join(shown)})" if shown else self.name


def read_activation(data: Any) -> Activation:
    """An entry of the target's `activations`."""
    require(isinstance(data, dict) and set(data) == {"name", "parameters"}, "an activation is not described")
    name, parameters = data["name"], data["parameters"]
    require(isinstance(name, str) and name in ROWS, f"nothing is known of an activation {name!r}")
    good = isinstance(parameters, list) and all(type(x) is float and math.isfinite(x) for x in parameters)
    require(good and len(parameters) == len(ROWS[name].parameters), f"the parameters of {name} are damaged")
    require(all(x == 0 or 1e-100 < abs(x) < 1e301 for x in parameters), f"the parameters of {name} are too extreme")
    require(ROWS[name].good(*parameters), f"{name} has no parameters {parameters}")
    return Activation(name, tuple(parameters))


def wider(low: Array, high: Array) -> tuple[Array, Array]:
    """The interval and a number more on either side, for ends that were rounded once."""
    return np.nextafter(low, -np.inf), np.nextafter(high, np.inf)


def rational(x: float) -> fmpq:
    return fmpq(*float(x).as_integer_ratio())


def _dip(least: float, low: Array, high: Array) -> tuple[Array, Array]:
    """phi between s/2 and s for s >= 0, between s and 0 and not below `least` for s < 0."""
    return np.where(low >= 0, 0.5 * low, np.maximum(least, low)), np.maximum(high, 0.0)


def _leaky_span(low: Array, high: Array, slope: float) -> tuple[Array, Array]:
    ends = np.stack([np.where(x > 0, x, slope * x) for x in (low, high, np.clip(0.0, low, high))])
    return wider(ends.min(axis=0), ends.max(axis=0))


def _elu_span(low: Array, high: Array, alpha: float) -> tuple[Array, Array]:
    size, above = np.clip(-low, 0.0, 1.0) * abs(alpha), np.maximum(high, 0.0)
    return wider(-size, above) if alpha >= 0 else wider(0.0 * size, np.maximum(above, size))


def _hardsigmoid_span(low: Array, high: Array, slope: float, offset: float) -> tuple[Array, Array]:
    slack = 2.0**-52 * (1 + 2 * abs(offset))  # two roundings of |slope x| + |offset| <= 1 + 2 |offset|
    least, most = (np.clip(slope * x + offset, 0.0, 1.0) for x in (low, high))
    return least - slack, most + slack


def _e(x: Array) -> Array:
    """e^-x for x >= 0, rounded up."""
    return exp_up(-np.minimum(x, 600.0))


def _logistic(x: Array) -> Array:
    """sigma(-x), rounded up."""
    e = _e(x)
    return e / (1 + e) * (1 + 8 * UNIT)


def _left_silu(r: Array) -> Array:
    small = _logistic(r)
    return np.maximum(small, np.where(r < 2.3, 0.1, np.minimum((r - 1) * small * (1 + 8 * UNIT), 0.1)))


def _left_gelu(r: Array, rate: float) -> Array:
    x = np.minimum(rate * r, 30.0) * (1 - 8 * UNIT)
    e = _e(x * x / 2)
    return np.maximum(e / 2, np.where(x < 1, 0.129, np.minimum(0.39895 * x * e * (1 + 64 * UNIT), 0.129)))


def _left_cubic(r: Array, rate: float, cubic: float, dip: float) -> Array:
    z = np.minimum(2 * rate * (r + cubic * np.minimum(r, 1e9) ** 3), 600.0) * (1 - 16 * UNIT)
    e = _e(z)
    return np.maximum(_logistic(z), np.where(z < 1, dip, np.minimum(3 * z * e * (1 + 64 * UNIT), dip)))


def _softplus_span(low: Array, high: Array, beta: float, threshold: float) -> tuple[Array, Array]:
    least = np.maximum(low, 0.0) if threshold >= 0 else np.minimum(low, 0.0)  # s itself beyond a negative threshold
    return least, np.maximum(high, 0.0) + 0.69315 / beta


def _softsign(x: Array, outward: float) -> Array:
    """x/(1 + |x|), which rises and is rounded twice, or a number above (outward 1) or below (-1)."""
    x = np.clip(x, -1e300, 1e300)
    value = x / (1 + np.abs(x))
    return np.clip(value + outward * (4 * UNIT * np.abs(value) + LOST), -1.0, 1.0)


def _knots(slope: float, offset: float) -> tuple[float, float]:
    left, right = -Fraction(offset) / Fraction(slope), (1 - Fraction(offset)) / Fraction(slope)
    return math.nextafter(float(left), -math.inf), math.nextafter(float(right), math.inf)


def _clip(low: float, high: float) -> tuple[list[Piece], list[Fraction]]:
    zero, least, most = Fraction(0), Fraction(low), Fraction(high)
    return [(zero, least), (Fraction(1), zero), (zero, most)], [least, most]


def _hard(slope: float, offset: float) -> tuple[list[Piece], list[Fraction]]:
    zero, c, e = Fraction(0), Fraction(slope), Fraction(offset)
    return [(zero, zero), (c, e), (zero, Fraction(1))], [-e / c, (1 - e) / c]


def _gelu(inner: Callable[[Any], Any], rate: float, steepness: fmpq) -> Smooth:
    """s (1 + erf(inner s))/2, steepness a lower bound of its factor: |.| <= s e^{-(a s)^2} falls for (a s)^2 >= 1/2."""
    return Smooth(
        lambda s: s * (inner(s).erf() + 1) / 2,
        rate,
        lambda s: s * (-((steepness * s) ** 2)).exp(),
        1 / steepness,
    )


def _cubic(rate: Callable[[], arb], cubic: fmpq, least: fmpq, about: float) -> Smooth:
    """s sigma(2 r (s + c s^3)), `least` a lower bound of r: |s| e^{-2 r |s|} falls for 2 r |s| >= 1."""
    return Smooth(
        lambda s: s * _sigma((s + cubic * s * s * s) * (2 * rate())),
        about,
        lambda s: s * (-2 * least * s).exp(),
        1 / (2 * least),
    )


def _sigma(z: Any) -> Any:
    """1/(1 + e^-z) of a series, so that the denominator is near 1 wherever it is wide."""
    if z[0].mid() > 0:
        return 1 / ((-z).exp() + 1)
    small = z.exp()
    return small / (small + 1)


def _softplus(beta: float, threshold: float) -> Smooth:
    rate = rational(beta)
    height = float((arb(-min(max(threshold, -700.0), 700.0)).exp() / arb(rate)).upper()) * (1 + 1e-15)
    return Smooth(
        lambda s: (((s * rate).exp() + 1).log()) / arb(rate),
        beta,
        lambda s: (-rate * s).exp() / arb(rate),
        fmpq(0),
        (threshold / beta * (1 - math.copysign(1e-15, threshold)), height),
    )


def _root() -> arb:
    """sqrt(2/pi) in balls of the precision at hand."""
    return (2 / arb.pi()).sqrt()


_DIPS: dict[str, Any] = {
    "slope": lambda *_: 1.13,
    "least": lambda *_: -0.13,
    "span": lambda low, high: _dip(-0.1701, low, high),
}

ROWS: dict[str, Row] = {
    "identity": Row(slope=lambda: 1.0, span=lambda low, high: (low, high), tokens=((0, 0, 1, 0),)),
    "sigmoid": Row(
        slope=lambda: 0.25,
        least=lambda: 0.0,
        bell=1.0,
        span=lambda low, high: wider(
            np.maximum(0.5 + np.minimum(low, 0.0) / 4, 0.0), np.minimum(0.5 + np.maximum(high, 0.0) / 4, 1.0)
        ),
        tokens=((0, 0, 0, 0), (1, 0, 0, 1)),
    ),
    "tanh": Row(
        slope=lambda: 1.0,
        least=lambda: 0.0,
        bell=2.0,
        height=2.0,
        span=lambda low, high: (np.maximum(np.minimum(low, 0.0), -1.0), np.minimum(np.maximum(high, 0.0), 1.0)),
        tokens=((1, 0, 0, 1), (-1, 0, 0, -1)),
    ),
    "tanhshrink": Row(  # s - tanh(s): phi' = tanh(s)^2
        slope=lambda: 1.0,
        least=lambda: 0.0,
        span=lambda low, high: (
            np.where(low > 0, np.maximum(wider(low - 1, high)[0], 0.0), low),
            np.where(high < 0, np.minimum(wider(low, high + 1)[1], 0.0), high),
        ),
        tokens=((1, 0, 1, -1), (-1, 0, 1, 1)),
    ),
    "softsign": Row(
        slope=lambda: 1.0,
        least=lambda: 0.0,
        fading=lambda r: (1 + 8 * UNIT) / (1 + np.minimum(r, 1e100)) ** 2,
        span=lambda low, high: (_softsign(low, -1.0), _softsign(high, 1.0)),
        sides=True,
    ),
    "silu": Row(
        slope=lambda: 1.1,
        least=lambda: -0.1,
        left=_left_silu,
        span=lambda low, high: _dip(-0.27847, low, high),
        tokens=((0, 0, 0, 0), (1, 0, 1, 0)),
    ),
    "mish": Row(
        slope=lambda: 1.089,
        left=lambda r: np.where(r < 1, np.maximum(_e(r), 0.3679), np.minimum(r, 600.0) * _e(r) * (1 + 8 * UNIT)),
        span=lambda low, high: _dip(-0.3089, low, high),
        tokens=((0, math.nan, 0, 0), (1, math.nan, 1, 0), (2, 0, 1, 0)),
    ),
    "relu": Row(
        slope=lambda: 1.0,
        least=lambda: 0.0,
        flat=lambda: (0.0, math.inf),
        span=lambda low, high: (np.maximum(low, 0.0), np.maximum(high, 0.0)),
        pieces=lambda: ([(Fraction(0), Fraction(0)), (Fraction(1), Fraction(0))], [Fraction(0)]),
    ),
    "leaky_relu": Row(
        parameters={"slope": 0.01},
        slope=lambda slope: max(1.0, abs(slope)),
        least=lambda slope: min(1.0, slope),
        left=lambda r, slope: np.full_like(r, abs(slope)),
        span=_leaky_span,
        pieces=lambda slope: ([(Fraction(slope), Fraction(0)), (Fraction(1), Fraction(0))], [Fraction(0)]),
    ),
    "hardtanh": Row(
        parameters={"low": -1.0, "high": 1.0},
        good=lambda low, high: low < high,
        slope=lambda low, high: 1.0,
        least=lambda low, high: 0.0,
        flat=lambda low, high: (low, high),
        span=lambda low, high, least, most: (np.clip(low, least, most), np.clip(high, least, most)),
        pieces=_clip,
    ),
    "hardsigmoid": Row(
        parameters={"slope": 1.0 / 6.0, "offset": 0.5},
        good=lambda slope, offset: slope > 0,
        slope=lambda slope, offset: slope,
        least=lambda slope, offset: 0.0,
        flat=_knots,
        span=_hardsigmoid_span,
        pieces=_hard,
    ),
    "elu": Row(
        parameters={"alpha": 1.0},
        slope=lambda alpha: max(1.0, abs(alpha)),
        least=lambda alpha: min(0.0, alpha),
        left=lambda r, alpha: abs(alpha) * _e(r) * (1 + 8 * UNIT),
        span=_elu_span,
        powers=True,
    ),
    "gelu": Row(
        **_DIPS, left=lambda r: _left_gelu(r, 1.0), smooth=lambda: _gelu(lambda s: s / arb(2).sqrt(), 1.0, fmpq(7, 10))
    ),
    "gelu_tanh": Row(
        **_DIPS,
        left=lambda r: _left_cubic(r, 0.79788456, 0.044715, 0.13),
        smooth=lambda: _cubic(_root, fmpq(44715, 10**6), fmpq(79, 100), 1.0),
    ),
    "gelu_erf": Row(
        parameters={"rate": 1.0, "divisor": math.sqrt(2)},
        good=lambda rate, divisor: min(rate, divisor) > 0,
        slope=lambda rate, divisor: 1.13,
        least=lambda rate, divisor: -0.13,
        left=lambda r, rate, divisor: _left_gelu(r, rate / divisor * math.sqrt(2)),
        span=lambda low, high, rate, divisor: _dip(-0.1202 * divisor / rate, low, high),  # 0.16998/sqrt(2)
        smooth=lambda rate, divisor: _gelu(
            lambda s: s * (rational(rate) / rational(divisor)),
            rate / divisor * math.sqrt(2),
            rational(rate) / rational(divisor),
        ),
    ),
    "gelu_cubic": Row(
        parameters={"rate": math.sqrt(2 / math.pi), "cubic": 0.044715},
        good=lambda rate, cubic: rate > 0 and cubic >= 0,
        slope=lambda rate, cubic: min(1.1 + 2.5 * cubic / (2 * rate) ** 2 * (1 + 1e-12), 1.6),
        least=lambda rate, cubic: 1 - min(1.1 + 2.5 * cubic / (2 * rate) ** 2 * (1 + 1e-12), 1.6),
        left=lambda r, rate, cubic: _left_cubic(
            r, rate, cubic, min(0.1 + 2.5 * cubic / (2 * rate) ** 2 * (1 + 1e-12), 0.6) * (1 + 1e-12)
        ),
        span=lambda low, high, rate, cubic: _dip(-0.27847 / (2 * rate), low, high),
        smooth=lambda rate, cubic: _cubic(
            lambda: arb(rational(rate)), rational(cubic), rational(rate), rate * math.sqrt(math.pi / 2)
        ),
    ),
    "softplus": Row(
        parameters={"beta": 1.0, "threshold": 20.0},
        good=lambda beta, threshold: beta > 0 and threshold > -700,
        slope=lambda beta, threshold: 1.0,
        least=lambda beta, threshold: 0.0,
        left=lambda r, beta, threshold: _logistic(beta * r * (1 - 8 * UNIT)) if threshold >= 0 else np.ones_like(r),
        span=_softplus_span,
        smooth=_softplus,
    ),
}
