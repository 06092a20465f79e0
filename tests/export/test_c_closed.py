"""Closed forms in C: the exp of a multiple of a size, and heads of even tokens as one quotient."""

from __future__ import annotations

import ctypes
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from softwright.export.c_closed import ClosedForm
from softwright.export.c_trees import held as held_by
from softwright.export.c_trees import met
from softwright.export.program import Closed
from softwright.export.vectors.exp import FALLEN, falling_numbers, lanes_of
from softwright.export.vectors.loops import helpers_of, vectors_source
from softwright.precision import precision_of
from softwright.transpiler.closed_softmax import EvenTokens

_REALS = {"float64": "double", "float32": "float"}
_BUILDS = [["gcc", "-O2", "-ffp-contract=off"], ["gcc", "-O2", "-mfma", "-mavx2"], ["gcc", "-O2", "-DSOFTWRIGHT_PLAIN"]]


def _run(statements: str, dtype: str, x: np.ndarray, command: list[str], folder: Path) -> np.ndarray:
    """Statements of a vector x to a vector found, at as many numbers as whole vectors hold."""
    real = _REALS[dtype]
    each = f"softwright_v found; {statements} softwright_out(y + i) = found;"
    loop = f"for (int i = 0; i < n; i += SOFTWRIGHT_LANES) {{ {each} }}"
    whole = f"void all(const {real} *x, {real} *y, int n) {{ {loop} }}"
    lines = ["#include <stdint.h>", "#include <string.h>", vectors_source(real)]
    lines += [*helpers_of(whole, real, lanes_of(real)), whole, ""]
    (folder / "f.c").write_text("\n".join(lines))
    subprocess.run([*command, "-fPIC", "-shared", str(folder / "f.c"), "-o", str(folder / "f.so")], check=True)
    x = np.resize(x, -(-len(x) // 8) * 8).astype(dtype)
    y = np.empty_like(x)
    ctypes.CDLL(str(folder / "f.so")).all(*(ctypes.c_void_p(a.ctypes.data) for a in (x, y)), len(x))
    return y


@pytest.mark.parametrize("command", _BUILDS)
@pytest.mark.parametrize("rate", [1.0, 0.953125, 1.90625, 3.7, 1e-4, 4097.3])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_exp_of_a_size_is_off_by_less_than_is_said(dtype: str, rate: float, command: list[str], tmp_path: Path) -> None:
    rate, unit = float(np.dtype(dtype).type(rate)), precision_of(dtype).unit
    numbers = falling_numbers(rate, dtype)
    assert numbers is not None
    words = ", ".join(f"({_REALS[dtype]}){one.hex()}" for one in numbers)
    x = np.random.default_rng(0).uniform(0, FALLEN[dtype] / rate, 1 << 18)
    x = np.concatenate([x, np.linspace(0, 2 / rate, 1 << 18), [0.0, 1e300 if dtype == "float64" else 1e38, np.inf]])
    y = _run(f"found = softwright_in(x + i); softwright_falling(&found, {words});", dtype, x, command, tmp_path)
    given = np.resize(x, len(y)).astype(dtype).astype(np.longdouble)
    exact = np.exp(-given * np.longdouble(rate))
    inside = given < numbers[2]
    off = np.abs(y - exact)[inside] / exact[inside] / unit
    assert (off <= 3.6 + (rate * given[inside])).all()
    assert (y[~inside] == 0).all()


def test_rates_whose_parts_would_be_lost_have_no_such_exp() -> None:
    assert falling_numbers(1e-30, "float32") is None
    assert falling_numbers(2.0**60, "float64") is None


@pytest.mark.parametrize("count", range(2, 33))
def test_counts_of_roundings_are_those_of_the_tree(count: int) -> None:
    """Each sum and product once; powers as they are made."""
    terms: list[dict[int, int]] = [{m: 0} for m in range(count)]
    while len(terms) > 1:
        joined = []
        for i in range(0, len(terms), 2):
            two = terms[i : i + 2]
            grown = {m: n + (len(two) - 1) + place for place, one in enumerate(two) for m, n in one.items()}
            joined.append(grown)
        terms = joined
    assert met(count) == [terms[0][m] for m in range(count)]
    held: dict[int, dict[int, int]] = {1: {}}
    for power in (2, 4, 8, 16):
        held[power] = {own: 2 * n for own, n in held[power // 2].items()} | {power: 1}

    def of(m: int) -> dict[int, int]:
        total: dict[int, int] = {}
        for bit in (1, 2, 4, 8, 16):
            for own, n in held[bit].items() if m & bit else ():
                total[own] = total.get(own, 0) + n
        return total

    apart = [
        Fraction(sum(abs(of(m).get(p, 0) - of(r).get(p, 0)) for p in held), m - r)
        for m in range(count)
        for r in range(m)
    ]
    assert held_by(count) == pytest.approx(float(max(apart)))


@pytest.mark.parametrize("command", _BUILDS)
@pytest.mark.parametrize("count", [6, 8, 10, 16])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_even_tokens_are_their_softmax(dtype: str, count: int, command: list[str], tmp_path: Path) -> None:
    """Of slopes and offsets drawn at random, to a few units; far out the asymptotes; nan stays nan."""
    rng, half = np.random.default_rng(count), count // 2
    keys = 0.75 * (np.arange(count) - (count - 1) / 2)
    weights = np.ones(2)  # (1 + y) times (1 + y)^2 + a y for several a: Z' is the product of 1 + a x
    for _ in range(half - 1):
        weights = np.convolve(weights, [1.0, 2.0 + rng.uniform(0.5, 3.0), 1.0])
    slope, offset = rng.uniform(-0.2, 0.5, half), rng.uniform(-0.5, 0.5, half)
    bias = np.log(weights[:half]).astype(dtype)
    slope, offset = (np.round(64 * one) / 64 for one in (slope, offset))
    slope[0] = offset[0] = 0.0
    table = np.stack([keys, *(np.concatenate([one, one[::-1]]) for one in (bias, slope, offset))])
    table[2, half:] = 1 - slope[::-1]
    closed = Closed(("s",), table.astype(dtype))
    assert EvenTokens.of(table) is not None
    text = ClosedForm(closed, dtype).statements(["softwright_in(x + i)"], "found", "1")
    assert "softwright_falling(" in text
    ends = 1e300 if dtype == "float64" else 1e37
    x = np.concatenate([rng.uniform(-20, 20, 4096), rng.uniform(-1, 1, 4093), [ends, -ends, np.nan]])
    y = _run(f"{{ {text} }}", dtype, x, command, tmp_path)
    s = x.astype(dtype).astype(np.longdouble)[:-3, None]
    scores = s * table[0] + table[1]
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    exact = (weights * (s * table[2] + table[3])).sum(axis=1) / weights.sum(axis=1)
    unit, size = precision_of(dtype).unit, np.maximum(1.0, np.abs(s[:, 0]))
    assert (np.abs(y[:-3] - exact) <= 16 * unit * count * size).all()
    assert y[-3] == np.dtype(dtype).type(ends) and y[-2] == 0 and np.isnan(y[-1])
