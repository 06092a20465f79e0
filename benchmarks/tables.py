"""Large tables, and real ones: how tokens, time and memory follow rows, and what lies between the rows.

    python benchmarks/tables.py                      sizes, then property tables
    python benchmarks/tables.py --rows 10000         sizes up to so many rows
    python benchmarks/tables.py --part properties    property tables alone (pip install CoolProp psychrolib iapws)

Sizes: the same function as a table of more and more rows, on a line, on a grid of two variables and scattered in eight,
each in a process of its own so that the peak of its memory is its own. Property tables: every other node of a grid is
left out, the network is built from the rest, and both it and bilinear interpolation of the same nodes are asked at what
was left out; errors are over half the range, and a row that is worse than interpolation by more than the tolerance says
so. Times are CPU seconds.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

import softwright as sw

_SCATTERED_MOST = 100_000


def line(rows: int) -> tuple[sw.Table, float]:
    x = np.linspace(0, 1, rows)
    return sw.Table(x[:, None], np.sin(20 * x)[:, None], names=["x"]), 1e-4


def plane(rows: int) -> tuple[sw.Table, float]:
    side = round(rows**0.5)
    x, y = (each.ravel() for each in np.meshgrid(np.linspace(-1, 1, side), np.linspace(-1, 1, side), indexing="ij"))
    return sw.Table(np.stack([x, y], axis=1), (np.sin(3 * x) * np.exp(-(y**2)))[:, None], names=["x", "y"]), 1e-4


def scattered(rows: int) -> tuple[sw.Table, float]:
    x = np.random.default_rng(2).uniform(-1, 1, (rows, 8))
    values = np.exp(-0.25 * (x**2).sum(axis=1)) + 0.5 * x[:, 0]
    return sw.Table(x, values[:, None], names=[f"x{i}" for i in range(8)]), 5e-2


SHAPES: dict[str, Callable[[int], tuple[sw.Table, float]]] = {"line": line, "plane": plane, "scattered": scattered}


def one(shape: str, rows: int) -> None:
    """One row of the table of sizes; runs in a process of its own."""
    table, tol = SHAPES[shape](rows)
    started = time.process_time()
    try:
        built: Any = sw.approximate(table, tol=tol, progress=False, certify=False)
        met = "met"
    except sw.ToleranceNotReached as missed:
        built, met = missed.best, "**not met**"
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seen = "no network" if built is None else f"{built.plan.tokens} | {built.observed_error:.1e} ({met})"
    print(f"| {shape} | {rows:,} | {tol:g} | {seen} | {seconds:.1f} | {peak:.0f} |", flush=True)


def _coolprop(output: str, fluid: str = "Water") -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    properties: Any = import_module("CoolProp.CoolProp")

    def values(p: np.ndarray, t: np.ndarray) -> np.ndarray:
        return np.array([properties.PropsSI(output, "P", a, "T", b, fluid) for a, b in zip(p, t, strict=True)])

    return values


def _wet_bulb() -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    psychrolib: Any = import_module("psychrolib")
    psychrolib.SetUnitSystem(psychrolib.SI)

    def values(t: np.ndarray, humidity: np.ndarray) -> np.ndarray:
        pairs = zip(t, humidity, strict=True)
        return np.array([psychrolib.GetTWetBulbFromRelHum(a, b, 101325.0) for a, b in pairs])

    return values


def _humidity(name: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    psychrolib: Any = import_module("psychrolib")
    psychrolib.SetUnitSystem(psychrolib.SI)
    more = () if name == "GetTDewPointFromRelHum" else (101325.0,)

    def values(t: np.ndarray, humidity: np.ndarray) -> np.ndarray:
        return np.array([getattr(psychrolib, name)(a, b, *more) for a, b in zip(t, humidity, strict=True)])

    return values


def _iapws(output: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    steam: Any = import_module("iapws")

    def values(p: np.ndarray, t: np.ndarray) -> np.ndarray:
        return np.array([getattr(steam.IAPWS97(P=a, T=b), output) for a, b in zip(p, t, strict=True)])

    return values


STEAM, AIR = ((1e5, 1e6), (480.0, 800.0)), ((5.0, 45.0), (0.1, 1.0))
PROPERTIES = (
    ("steam enthalpy", lambda: _coolprop("H"), STEAM, 25, 1e-4),
    ("steam density", lambda: _coolprop("D"), STEAM, 25, 1e-3),
    ("steam enthalpy to 5 MPa", lambda: _coolprop("H"), ((1e5, 5e6), (550.0, 900.0)), 25, 1e-4),
    ("steam enthalpy to 5 MPa, finer", lambda: _coolprop("H"), ((1e5, 5e6), (550.0, 900.0)), 25, 2e-5),
    ("steam enthalpy, 1 to 5 MPa", lambda: _coolprop("H"), ((1e6, 5e6), (550.0, 1000.0)), 25, 1e-4),
    ("steam density, 1 to 5 MPa", lambda: _coolprop("D"), ((1e6, 5e6), (550.0, 1000.0)), 25, 1e-3),
    ("steam density to 10 MPa", lambda: _coolprop("D"), ((1e5, 1e7), (600.0, 900.0)), 25, 1e-3),
    ("nitrogen viscosity", lambda: _coolprop("V", "Nitrogen"), ((1e5, 1e7), (250.0, 500.0)), 20, 1e-3),
    ("IAPWS-97 enthalpy", lambda: _iapws("h"), ((0.1, 5.0), (550.0, 900.0)), 20, 1e-4),
    ("IAPWS-97 density through saturation", lambda: _iapws("rho"), ((0.1, 4.0), (380.0, 560.0)), 20, 1e-3),
    ("humidity ratio", lambda: _humidity("GetHumRatioFromRelHum"), AIR, 20, 1e-3),
    ("dew point", lambda: _humidity("GetTDewPointFromRelHum"), ((1.0, 45.0), (0.1, 1.0)), 20, 1e-3),
    ("wet bulb", _wet_bulb, AIR, 20, 1e-3),
    ("wet bulb through 0 C", _wet_bulb, ((-15.0, 25.0), (0.1, 1.0)), 20, 1e-3),
)


def properties() -> None:
    from scipy.interpolate import RegularGridInterpolator

    print("| property | nodes | tolerance | tokens | at the nodes | at left-out points | bilinear | CPU s |")
    print("|" + "---|" * 8)
    for name, maker, sides, nodes, tol in PROPERTIES:
        ask = maker()
        fine = [np.linspace(low, high, 2 * nodes - 1) for low, high in sides]
        x, y = np.meshgrid(*fine, indexing="ij")
        values = ask(x.ravel(), y.ravel()).reshape(x.shape)
        half = 0.5 * float(np.ptp(values))
        kept = np.zeros(x.shape, dtype=bool)
        kept[::2, ::2] = True
        table = sw.Table(np.stack([x[kept], y[kept]], axis=1), values[kept][:, None], names=["a", "b"])
        started = time.process_time()
        try:
            built: Any = sw.approximate(table, tol=tol, relative=True, progress=False, certify=False)
        except sw.ToleranceNotReached as missed:
            built = missed.best
        seconds = time.process_time() - started
        left = np.stack([x[~kept], y[~kept]], axis=1)
        bilinear = RegularGridInterpolator((fine[0][::2], fine[1][::2]), values[::2, ::2])
        off = float(np.abs(built(left)[:, 0] - values[~kept]).max()) / half
        other = float(np.abs(bilinear(left) - values[~kept]).max()) / half
        worse = "" if off <= other + tol else " **worse**"
        cells = [name, f"{nodes} x {nodes}", f"{tol:g}", str(built.plan.tokens), f"{built.observed_error / half:.1e}"]
        print("| " + " | ".join([*cells, f"{off:.1e}{worse}", f"{other:.1e}", f"{seconds:.1f}"]) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["all", "sizes", "properties"], default="all")
    parser.add_argument("--rows", type=int, default=1_000_000, help="the largest size")
    parser.add_argument("--one", nargs=2, metavar=("SHAPE", "ROWS"), help="one row of the sizes, in this process")
    given = parser.parse_args()
    if given.one:
        one(given.one[0], int(given.one[1]))
        return
    if given.part != "properties":
        print("| table | rows | tolerance | tokens | error at the rows | CPU s | peak MB |")
        print("|" + "---|" * 7, flush=True)
        for shape in SHAPES:
            most = min(given.rows, _SCATTERED_MOST) if shape == "scattered" else given.rows
            for rows in [size for size in (10_000, 100_000, 1_000_000) if size <= most] or [most]:
                subprocess.run([sys.executable, __file__, "--one", shape, str(rows)], check=False)
        print(flush=True)
    if given.part != "sizes":
        properties()


if __name__ == "__main__":
    main()
