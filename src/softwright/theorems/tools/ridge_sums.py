"""A function that varies in several directions, sin(x)*y say, as a sum of functions of one direction each.

A polynomial of degree p in m variables is a sum of powers of linear forms (x*y is ((x + y)^2 - (x - y)^2)/4), so sums

    S(x) = const + L.x + sum_k g_k(c_k.x),    g_k a polynomial of one variable, c_k a vector of small whole numbers,

come as close to a continuous function on a box as asked. Which c_k is found greedily: the next direction is the one
whose polynomials hold most of what is left at sample points, and after each all coefficients are fitted again by least
squares. How many directions, of which degree, is a matter of the units there are: each g_k is then interpolated
between knots, and more directions leave fewer knots to each. The choice is that with the smallest estimate of

    max |f - S|  +  sum_k max |g_k''| h_k^2/8  +  error of a unit * sum |C| U,

and the knots are shared out as (max |g_k''| w_k^2)^(1/3), w_k the width of c_k.x over the box, which makes the second
term smallest. What the first stretch of every g_k rises by goes to L, so that its first unit is not needed.

Nothing is proved with these estimates. S is written down as a formula, whose numbers are the decimal ones, and
|f - S| is bounded over the box: Taylor models on smaller and smaller boxes, until the bound is near what is seen.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev, polynomial

from softwright.domain import Box
from softwright.proof.models.formula import ExpressionModels
from softwright.targets.formula import Expression, Operation

RIDGE = "r"
_DEGREES = (2, 3, 4, 6, 8, 10, 12)
_SAMPLES = 600
_MOST_CANDIDATES = 200
_FEWEST_STRETCHES = 3  # of a direction
_RCOND = 1e-10  # of what is nearly dependent in a fit, nothing is asked
_EXACT = 1e-11  # of the function's size: no direction is missing
_PATIENCE = 4  # directions that make the estimate no better
_MOST_CORNERS = 8  # directions (1, +-1, ..) to begin with
_MOST_TEXT, _LETTERS = 9_000, 36  # of a formula that can be read, and of one coefficient in it
_ORDERS = {2: 8, 3: 6, 4: 4}  # of the Taylor models of |f - S|
_MOST_BOXES = 8_000
_NEAR = 1.02  # how near the bound of |f - S| is to come to what is seen
_NOTHING = 1e-13
_SHARP = 6  # degree of the Taylor models of g''
_GIVEN = 1.05  # what is claimed above the bound, so that a second proof need not be as sharp as this one


@dataclass(frozen=True)
class RidgePart:
    """g(c.x): the direction over all variables, g as a formula in r, and how many stretches it is interpolated on."""

    direction: np.ndarray
    profile: Expression
    stretches: int


@dataclass(frozen=True)
class RidgeSum:
    """The sum as a formula in the variables, its parts, and a bound of how far it is from the function on the box."""

    text: str
    parts: tuple[RidgePart, ...]
    constant: float
    distance: float


@dataclass(frozen=True)
class _Fit:
    """S before it is written down: g_k has coefficients of u^0, u^1, .., u = c_k.(x - middle), the first two 0."""

    constant: float
    linear: np.ndarray  # (m,), of x - middle
    directions: np.ndarray  # (K, m)
    profiles: list[np.ndarray]
    stretches: np.ndarray  # (K,)
    estimate: float  # of all three errors


def ridge_sum(function: Expression, box: Box, units: int, knots: int, unit_error: float) -> RidgeSum | None:
    """A ridge sum of a function with one output, for `units` relu units and at most `knots` of them a direction in the
    mean; None if they are too few. `unit_error` is what a unit, scaled to [0, 1], may be off.
    """
    inner = Expression.from_nodes(function.nodes)
    used = [function.names.index(name) for name in inner.names]
    lower, upper = box.lower[used], box.upper[used]
    fit = _best(inner, lower, upper, units, knots, unit_error)
    if fit is None:
        return None
    parts = _written(fit, lower, upper)
    texts = [profile.replace(RIDGE, _argument(direction, inner.names)) for direction, profile, _ in parts]
    text = "+".join([_digits(fit.constant), *texts])
    gap = Expression.from_nodes(
        [Operation("sub", (inner.nodes[0], Expression(text, inner.names).nodes[0]))], inner.names
    )
    directions = np.zeros((len(parts), len(function.names)))
    directions[:, used] = [direction for direction, _, _ in parts]
    return RidgeSum(
        text,
        tuple(
            RidgePart(direction, Expression(profile, [RIDGE]), stretches)
            for direction, (_, profile, stretches) in zip(directions, parts, strict=True)
        ),
        float(f"{fit.constant:.12g}"),
        largest(gap, lower, upper) * _GIVEN,
    )


def largest(gap: Expression, lower: np.ndarray, upper: np.ndarray) -> float:
    """An upper bound of |gap| over a box, next to what is seen as far as the boxes last."""
    m = len(lower)
    models = ExpressionModels(gap)
    low, high, done, boxes = lower[None].copy(), upper[None].copy(), 0.0, 0
    seen = float(np.nanmax(np.abs(gap(_samples(lower, upper)))))
    while True:
        with np.errstate(all="ignore"):  # what is not a number is not bounded, and cut again
            below, above = models.over(low, high, _ORDERS.get(m, 3))
        bound = np.maximum(-below, above)
        bound = np.where(np.isnan(bound), np.inf, bound)
        seen = max(seen, float(np.nanmax(np.abs(gap(0.5 * (low + high))))))
        boxes += len(low)
        over = bound > _NEAR * seen + _NOTHING
        done = max(done, float(bound[~over].max(initial=0.0)))
        if not over.any() or boxes + 2 * int(over.sum()) > _MOST_BOXES:
            return max(done, float(bound[over].max(initial=0.0)))
        low, high = low[over], high[over]
        rows = np.arange(len(low))
        axis = np.argmax((high - low) / (upper - lower), axis=1)
        middle = 0.5 * (low[rows, axis] + high[rows, axis])
        left, right = high.copy(), low.copy()
        left[rows, axis] = right[rows, axis] = middle
        low, high = np.concatenate([low, right]), np.concatenate([left, high])


def curvature(second: Expression, rho: np.ndarray) -> np.ndarray:
    """Upper bounds of |g''| (K,) between the knots rho (K + 1,), g a polynomial of one variable."""
    below, above = ExpressionModels(second).over(rho[:-1], rho[1:], _SHARP)
    return np.maximum(-below, above)


def _samples(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Points (n, m), denser at the sides, as those of Chebyshev are, with corners."""
    m = len(lower)
    unit = np.cos(np.pi * np.random.default_rng(0).random((_SAMPLES + 60 * m, m)))
    corners = np.array(list(itertools.islice(itertools.product((-1.0, 1.0), repeat=m), 64)))
    return lower + 0.5 * (np.concatenate([unit, corners]) + 1.0) * (upper - lower)


def _candidates(m: int) -> np.ndarray:
    """Directions (n, m) of small whole numbers, one of each two that are opposite, without multiples."""
    for reach in (6, 4, 3, 2, 1):
        if (2 * reach + 1) ** m <= 4 * _MOST_CANDIDATES:
            grid = np.array(list(itertools.product(range(-reach, reach + 1), repeat=m)))
            break
    else:  # of many variables, up to three at a time
        few = [
            dict(zip(places, signs, strict=True))
            for k in (1, 2, 3)
            for places in itertools.combinations(range(m), k)
            for signs in itertools.product((-1, 1), repeat=k)
        ]
        grid = np.array([[each.get(i, 0) for i in range(m)] for each in few])
    first = np.take_along_axis(grid, (grid != 0).argmax(axis=1)[:, None], axis=1)[:, 0]
    kept = grid[(first > 0) & (np.gcd.reduce(grid, axis=1) == 1)]
    return kept[np.argsort(np.abs(kept).sum(axis=1), kind="stable")][: 2 * _MOST_CANDIDATES].astype(float)


def _best(
    function: Expression, lower: np.ndarray, upper: np.ndarray, units: int, knots: int, unit_error: float
) -> _Fit | None:
    """The fit with the smallest estimate over degrees and numbers of directions."""
    points, middle, half = _samples(lower, upper), 0.5 * (lower + upper), 0.5 * (upper - lower)
    values = function(points)[:, 0]
    points, values = points[np.isfinite(values)], values[np.isfinite(values)]
    t = (points - middle) / half  # (n, m)
    candidates = _candidates(t.shape[1])
    widths = np.abs(candidates) @ half  # (n,) half the width of c.x
    corners = [k for k, c in enumerate(candidates) if (np.abs(c) == 1).all()][:_MOST_CORNERS]
    best: _Fit | None = None
    exact = False
    for degree in _DEGREES:
        if exact:  # a higher degree is only harder to interpolate
            break
        blocks = [
            chebyshev.chebvander(((points - middle) @ c) / w, degree)[:, 2:]
            for c, w in zip(candidates, widths, strict=True)
        ]
        spans = [np.linalg.qr(block - block.mean(axis=0))[0] for block in blocks]
        most = min((units - t.shape[1]) // _FEWEST_STRETCHES, len(candidates), _MOST_TEXT // (degree * _LETTERS))
        for start in ([], corners):
            chosen, least, worse = list(start[: max(most - 1, 0)]), np.inf, 0
            while len(chosen) < most and worse < _PATIENCE:
                design = np.concatenate([np.ones((len(t), 1)), t, *(blocks[k] for k in chosen)], axis=1)
                found = np.linalg.lstsq(design, values, rcond=_RCOND)[0]
                left = values - design @ found
                off = float(np.abs(left).max())
                if chosen:
                    fit = _fit_of(found, candidates[chosen], widths[chosen], half, off, units, knots, unit_error)
                    best = fit if best is None or fit.estimate < best.estimate else best
                    least, worse = (fit.estimate, 0) if fit.estimate < least else (least, worse + 1)
                    if off <= _EXACT * float(np.abs(values).max()):
                        exact = True
                        break
                held = [float(((span.T @ left) ** 2).sum()) for span in spans]
                chosen.append(max((k for k in range(len(held)) if k not in chosen), key=held.__getitem__))
    return best


def _fit_of(
    found: np.ndarray, directions: np.ndarray, widths: np.ndarray, half: np.ndarray, off: float, units: int, knots: int,
    unit_error: float,
) -> _Fit:  # fmt: skip
    """Coefficients of Chebyshev's polynomials as powers of u, the units shared out, and the estimate of all errors."""
    K, m = directions.shape
    constant, linear = float(found[0]), found[1 : m + 1] / half
    profiles, bends, weights = [], np.zeros(K), np.zeros(K)
    for k, own in enumerate(found[m + 1 :].reshape(K, -1)):
        series = np.concatenate([[0.0, 0.0], own])
        powers = chebyshev.cheb2poly(series)
        powers = np.pad(powers, (0, len(series) - len(powers))) / widths[k] ** np.arange(len(series))
        constant += powers[0]
        linear = linear + powers[1] * directions[k]
        powers[:2] = 0.0
        profiles.append(powers)
        u = np.linspace(-widths[k], widths[k], 101)
        second = np.abs(polynomial.polyval(u, polynomial.polyder(powers, 2)))
        bends[k] = second.max()
        weights[k] = float((second * (widths[k] - u)).mean() * 2 * widths[k])
    share = np.cbrt(bends * (2 * widths) ** 2) + 1e-300
    total = min(units - m, knots * K)
    stretches = np.maximum(np.floor(total * share / share.sum()), 1).astype(int)
    interpolation = float((bends * (2 * widths / stretches) ** 2).sum() / 8)
    return _Fit(constant, linear, directions, profiles, stretches, off + interpolation + unit_error * weights.sum())


def _written(fit: _Fit, lower: np.ndarray, upper: np.ndarray) -> list[tuple[np.ndarray, str, int]]:
    """Direction, profile as a text in r, and stretches of every part; the parts of single variables hold L."""
    middle, half = 0.5 * (lower + upper), 0.5 * (upper - lower)
    linear = fit.linear.copy()
    parts = []
    for direction, powers, stretches in zip(fit.directions, fit.profiles, fit.stretches, strict=True):
        width = float(np.abs(direction) @ half)
        first = -width + np.array([0.0, 2 * width / stretches])
        rise = float(np.diff(polynomial.polyval(first, powers))[0] / np.diff(first)[0])
        own = powers.copy()
        own[1] -= rise
        linear += rise * direction
        parts.append((direction, _horner(own, float(direction @ middle)), int(stretches)))
    for i, slope in enumerate(linear):
        parts.append((np.eye(len(linear))[i], f"{_digits(float(slope))}*({RIDGE}{-middle[i]:+.12g})", 1))
    return parts


def _horner(powers: np.ndarray, shift: float) -> str:
    """sum_k powers_k u^k with u = r - shift, without its constant."""
    u = f"({RIDGE}{-shift:+.12g})" if shift else RIDGE
    text = _digits(float(powers[-1]))
    for power in powers[-2:0:-1]:
        text = f"({_digits(float(power))}+{u}*{text})"
    return f"{u}*{text}"


def _digits(number: float) -> str:
    """A number as the formula has it; negative ones in parentheses."""
    return f"({number:.12g})" if number < 0 else f"{number:.12g}"


def _argument(direction: np.ndarray, names: tuple[str, ...]) -> str:
    text = "".join(f"{w:+g}*{name}" for w, name in zip(direction, names, strict=True) if w)
    return f"({text.replace('+1*', '+').replace('-1*', '-').removeprefix('+')})"
