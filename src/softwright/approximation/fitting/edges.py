"""Where a function of one variable stops being smooth.

From a formula: the kink functions are given (|u| breaks where u = 0), and their zeros are bracketed and bisected.
From a black box: zoom by factors of four on the largest finite difference while it keeps growing, as one does in
piecewise-Chebyshev codes; a difference of order q that grows under zooming betrays a jump of the (q-1)-th derivative.
A kink of the slope is then placed by intersecting cubics fitted on both sides.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Line = Callable[[np.ndarray], np.ndarray]  # t (n,) -> (n,)


def zeros_of(function: Line, samples: int = 4001) -> list[float]:
    """Sign changes of a function on (-1, 1), to the last bit; identically zero stretches give their ends."""
    t = np.unique(np.concatenate([np.linspace(-1, 1, samples), -np.cos(np.linspace(0, np.pi, 501))]))
    with np.errstate(all="ignore"):
        u = function(t)
    sign = np.sign(np.where(np.isfinite(u), u, 0.0))
    before, after = sign[:-2], sign[2:]
    crossed = (before * after < 0) | ((before == 0) != (after == 0))
    found: list[float] = [float(x) for x in t[1:-1][(sign[1:-1] == 0) & crossed]]
    for i in np.flatnonzero(sign[:-1] * sign[1:] < 0):
        found.append(_bisected(function, float(t[i]), float(t[i + 1])))
    return merged(found)


def _bisected(function: Line, low: float, high: float) -> float:
    """The sign change between low and high, to the last bit, sixteen subdivisions a call of the function."""
    sign = np.sign(function(np.array([low]))[0])
    while True:
        t = np.linspace(low, high, 17)
        signs = np.sign(function(t))
        first = int(np.argmax(signs != sign))
        if signs[first] == 0:
            return float(t[first])
        if first == 0 or np.nextafter(low, high) >= high or (t[first - 1], t[first]) == (low, high):
            return 0.5 * (low + high)
        low, high = float(t[first - 1]), float(t[first])


def merged(points: list[float], gap: float = 1e-9) -> list[float]:
    """Sorted, inside (-1, 1), with near-duplicates dropped."""
    out: list[float] = []
    for x in sorted(points):
        if abs(x) < 1 - 1e-9 and (not out or x - out[-1] > gap):
            out.append(x)
    return out


def _zoom(function: Line, low: float, high: float, nodes: int = 33) -> tuple[float, int, float] | None:
    """(place, order of the growing difference, final step) of the worst break in [low, high], or None if smooth."""
    a, b = low, high
    scale = np.abs(function(np.linspace(a, b, nodes))).max() + 1e-300
    previous: np.ndarray | None = None
    grown, order, place = 0, 3, 0.5 * (a + b)
    while True:
        t = np.linspace(a, b, nodes)
        h = t[1] - t[0]
        difference, largest, where = function(t), [], []
        for q in range(1, order + 1):
            difference = np.diff(difference) / h
            j = int(np.abs(difference).argmax())
            largest.append(abs(difference[j]))
            where.append(0.5 * (t[j] + t[j + q]))
        sizes = np.array(largest)
        if previous is not None:
            noise = np.array([2.0**q * 4e-16 * scale / h**q for q in range(1, order + 1)])
            growing = np.flatnonzero((sizes > 1.8 * previous[:order]) & (sizes > 30 * noise))
            if len(growing) == 0:
                return (place, order, h) if grown >= 5 else None
            order = int(growing[0]) + 1
            grown += 1
        place, previous = where[order - 1], sizes
        quarter = (b - a) / 8
        a, b = max(low, place - quarter), min(high, place + quarter)
        if b - a < 4e-15 * max(1.0, abs(place)):
            return place, order, h


def _place_kink(function: Line, near: float, width: float) -> float:
    """Intersection of the cubics fitted to both sides of a kink of the slope."""
    offsets = width * np.linspace(1, 3, 13)
    left = np.polyfit(-offsets / width, function(near - offsets), 3)
    right = np.polyfit(offsets / width, function(near + offsets), 3)
    roots = np.roots(left - right)
    real = roots[np.abs(roots.imag) < 1e-6].real * width
    real = real[np.abs(real) < width]
    return float(near + real[np.abs(real).argmin()]) if len(real) else near


def find_edges(function: Line, most: int = 16, shortest: float = 1e-2) -> list[float]:
    """Breaks of a black-box function on (-1, 1), at most `most` of them."""
    found: list[float] = []
    stack = [(-1.0, 1.0)]
    while stack and len(found) < most:
        low, high = stack.pop()
        if high - low < shortest:
            continue
        edge = _zoom(function, low, high)
        if edge is None:
            # One look at a wide stretch can miss a weak break beside a strong slope: look at both halves, off-centre.
            middle = 0.5 * (low + high) + 1.1e-3 * (high - low)
            if high - low > 0.48:
                stack += [part for part in ((low, middle), (middle, high)) if _zoom(function, *part) is not None]
            continue
        place, order, step = edge
        width = max(200 * step, 2e-5)
        if order == 2 and 3 * width < min(place - low, high - place):
            place = _place_kink(function, place, width)
        if min(place - low, high - place) < 1e-7:
            continue
        found.append(place)
        stack += [(low, place - 2e-6), (place + 2e-6, high)]
    return merged(found)


def steep_places(f: Callable[[np.ndarray], np.ndarray], least: float, most: int = 8) -> list[float]:
    """Where a smooth function (n,) -> (n, m) on [-1, 1] moves much between neighbours of a sample of 2,001 points.

    tanh(1e6 t) and exp(-(1e4 t)^2) do at one place each, and no fit to such a sample can see how. The place is where
    the function passes the middle of what it steps over, or where it is farthest from both sides if it comes back. A
    function that moves so much at many places oscillates: none is of use then.
    """
    t = np.linspace(-1, 1, 2001)
    values = f(t)
    steps = np.abs(np.diff(values, axis=0)).max(axis=1)
    large = np.flatnonzero(steps > max(least, 0.05 * float(np.ptp(values, axis=0).max())))
    groups = np.split(large, np.flatnonzero(np.diff(large) > 1) + 1) if len(large) else []
    if len(groups) > most or len(large) > 4 * most:
        return []
    found: list[float] = []
    for group in groups:
        low, high = float(t[group[0]]), float(t[group[-1] + 1])
        inner = np.linspace(low, high, 257)
        at = f(inner)
        o = int(np.ptp(at, axis=0).argmax())
        first, last = at[0, o], at[-1, o]
        if abs(last - first) < 0.5 * np.ptp(at[:, o]):
            found.append(float(inner[np.abs(at[:, o] - 0.5 * (first + last)).argmax()]))
            continue
        for _ in range(60):
            half = 0.5 * (low + high)
            if (f(np.array([half]))[0, o] < 0.5 * (first + last)) == bool(last > first):
                low = half
            else:
                high = half
        found.append(0.5 * (low + high))
    return merged(found)
