"""What C runs inside the box of an approximation: as exact as is charged, and for all other points what torch runs."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.export.c_source import c_source
from softwright.export.near.heads import (
    _CHARGED,
    _EXP_ERROR,
    _LOGS,
    _NATURAL,
    _bounded,
    _in_powers_of_two,
    near_of,
)
from softwright.export.near.lines import _SHIFTS, REACH, Exp, Run, Tokens, Writer
from softwright.export.selftest import allowance, answered, inputs_of
from softwright.export.vectors.exp import DIRECT, lanes_of
from softwright.export.vectors.loops import vectors_source
from softwright.precision import precision_of
from softwright.result.constructed import tensors_of

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
_STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2"]
_BUILDS = {
    "gcc": ["gcc", "-O2"],
    "gcc -O0": ["gcc", "-O0"],
    "every processor": ["gcc", "-O2", "-DSOFTWRIGHT_CLONES="],
    "unfused": ["gcc", "-O2", "-ffp-contract=off"],
    "plain": ["gcc", "-O2", "-DSOFTWRIGHT_PLAIN"],
    "native": ["gcc", "-O3", "-march=native"],
    "clang": ["clang", "-O2"],
}
_LINE, _LONG = {"x": (-1.0, 1.0)}, {"x": (-1.0, 2.5)}
_PLANE, _SPACE = {"x": (-1.0, 1.0), "y": (0.0, 2.0)}, {"x": (-1.0, 1.0), "y": (-1.0, 1.0), "z": (-1.0, 1.0)}
_NETWORKS = {  # heads of one and more, pairs of one and more, several outputs, vectors that hold two heads
    "line": ("sin(3*x)", _LINE, 1e-4),
    "kink": ("abs(x - 0.2) + sin(x)", _LONG, 1e-4),
    "kinks": ("abs(x) + abs(y)", _PLANE, 1e-3),
    "sum": ("sin(x) + abs(y) + exp(z)", _SPACE, 1e-3),
    "outputs": ("exp(-x), sin(x), abs(x)", {"x": (0.0, 3.0)}, 1e-3),
    "plane": ("sin(2*x)*cos(y)", _PLANE, 1e-3),
}


def _built(name: str, dtype: str) -> sw.Built[Any]:
    text, box, tol = _NETWORKS[name]
    return sw.approximate(text, sw.Box(box), tol=tol, dtype=dtype)


def _run(built: sw.Built[Any], folder: Path, x: np.ndarray, command: list[str]) -> np.ndarray:
    built.export(folder / "f.c")
    made = [*command, *_STRICT[:-1], "-fPIC", "-shared", str(folder / "f.c"), "-o", str(folder / "f.so"), "-lm"]
    subprocess.run(made, check=True)
    function = ctypes.CDLL(str(folder / "f.so")).network
    y = np.empty(answered(built, (x,)).shape, dtype=x.dtype)  # in rows
    for point, out in zip(x, y, strict=True):
        function(ctypes.c_void_p(point.ctypes.data), ctypes.c_void_p(out.ctypes.data))
    (folder / "f.so").unlink()  # a library of the same name is loaded once
    return y


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", _NETWORKS)
def test_points_in_the_box_and_everywhere_else_get_what_torch_gives(name: str, dtype: str, tmp_path: Path) -> None:
    built = _built(name, dtype)
    assert "softwright_near(" in c_source(built)
    rng, ends = np.random.default_rng(0), np.array(list(_NETWORKS[name][1].values()), dtype=dtype)
    kind, d = np.finfo(dtype), len(ends)
    beside = [ends[:, 0], ends[:, 1], *(np.nextafter(ends[:, i], to, dtype=dtype) for i in (0, 1) for to in (-9, 9))]
    inside = np.concatenate([inputs_of(built, 500), np.array(beside)])
    middle, half = ends.mean(axis=1), (ends[:, 1] - ends[:, 0]) / 2
    outside = (middle + half * rng.uniform(-1, 1, size=(300, d)) * 10.0 ** rng.uniform(0, 6, size=(300, 1))).astype(
        dtype
    )
    odd = [0.0, -0.0, kind.tiny, -kind.tiny, kind.smallest_subnormal, np.inf, -np.inf, np.nan, 1e30, -1e30]
    odd = np.repeat(np.array(odd, dtype=dtype)[:, None], d, axis=1)
    x = np.concatenate([inside, outside, odd])
    wanted = answered(built, (x,)).astype(float)
    allowed = allowance(built, float(np.abs(wanted[: len(inside)]).max()))[0]
    size = np.maximum(1.0, np.abs(x.astype(float)).max(axis=1, keepdims=True))  # parts of which cancel
    far = max(1e3 * allowed, 1e-2 if dtype == "float32" else 1e-9) * np.maximum(size, np.abs(wanted))
    for i, (label, command) in enumerate(_BUILDS.items()):
        if shutil.which(command[0]) is None:
            continue
        (tmp_path / str(i)).mkdir()
        found = _run(built, tmp_path / str(i), x, command).astype(float)
        assert np.abs(found - wanted)[: len(inside)].max() <= allowed, label
        assert np.array_equal(np.isnan(found), np.isnan(wanted)), label
        near = (found == wanted) | ~np.isfinite(wanted) | (np.abs(found - wanted) <= far)
        assert near.all(), (label, x[~near.all(axis=1)])


@pytest.mark.parametrize("command", [["gcc", "-O2"], ["gcc", "-O2", "-mfma", "-mavx2"]])
@pytest.mark.parametrize("natural", [False, True])
@pytest.mark.parametrize("real", ["double", "float"])
def test_exps_of_the_box_are_as_exact_as_they_say(real: str, natural: bool, command: list[str], tmp_path: Path) -> None:
    """Direct ones depend on the distance to the next whole number alone, and so on the numbers up to 1/2."""
    precision = precision_of("float64" if real == "double" else "float32")
    exp = Exp(_NATURAL[real], _LOGS[real]) if natural else Exp(DIRECT[real])
    head = Tokens(np.zeros((1, 1)), np.zeros(1), np.zeros((1, 1)), np.zeros((1, 1, 1)))
    run = Run(real, real, np.zeros(1), np.ones(1))
    power = Writer([head], [0], [(head.keys, head.biases)], exp, run)._power()
    shift = f"const softwright_v shift = {_SHIFTS[real]!r} - (softwright_v){{0}};"
    each = "softwright_v e = softwright_in(x + i); softwright_power(&e, &shift); softwright_out(y + i) = e;"
    loop = f"{shift} for (int i = 0; i < n; i += {lanes_of(real)}) {{ {each} }}"
    whole = f"void all(const {real} *x, {real} *y, int n) {{ {loop} }}"
    lines = ["#include <stdint.h>", "#include <string.h>", vectors_source(real), power, whole, ""]
    (tmp_path / "exp.c").write_text("\n".join(lines))
    subprocess.run([*command, "-fPIC", "-shared", str(tmp_path / "exp.c"), "-o", str(tmp_path / "e.so")], check=True)
    edge = 500.0 if real == "double" else 80.0
    rng = np.random.default_rng(1)
    x = np.concatenate([np.linspace(-0.5, 0.5, 1 << 21), rng.uniform(-edge, edge, 1 << 20), [0.0, -0.0, 0.5, -0.5]])
    x = np.resize(x, -(-len(x) // 8) * 8).astype(precision.name)
    y = np.empty_like(x)
    ctypes.CDLL(str(tmp_path / "e.so")).all(*(ctypes.c_void_p(a.ctypes.data) for a in (x, y)), len(x))
    exact = np.exp(x.astype(np.longdouble)) if natural else np.exp2(x.astype(np.longdouble))
    off = float(np.max(np.abs(y - exact) / exact)) / precision.unit
    assert off <= (6.4 if natural else _EXP_ERROR[real])
    assert off <= _CHARGED


def test_stored_scores_are_off_by_no_more_than_is_said() -> None:
    """Beside a multiple of t and a number that all tokens share."""
    for name in ("line", "plane"):
        head = _head(_built(name, "float64"))
        found = _in_powers_of_two(head, 2.0**-53, np.float64)
        keys, biases = (np.asarray(one, dtype=np.longdouble) for one in (found.keys, found.biases))
        per_log = 1 / np.log(np.longdouble(2))
        off = np.concatenate([keys - head.keys * per_log, (biases - head.biases * per_log)[:, None]], axis=1)
        off = off - off[0]  # what is shared goes, and what the first token is off with it
        spread = np.abs(off).sum(axis=1).max() * np.log(np.longdouble(2)) * REACH
        assert 0 < spread / np.longdouble(2.0**-53) <= 2 * found.off + 0.1
        assert found.off < _CHARGED - _EXP_ERROR["double"]


def _head(built: sw.Built[Any]) -> Tokens:
    tensors = tensors_of(built.network)
    keys, biases, values = (tensors[f"layer.heads.0.{name}"] for name in ("keys", "biases", "values"))
    return Tokens(keys, biases, values, tensors["layer.heads.0.slopes"])


def test_scores_that_exp_cannot_take_have_no_such_way() -> None:
    gates = sw.approximate("max(x, y, z)", sw.Box(_SPACE), tol=1e-3)
    assert near_of(gates) is None
    assert "softwright_near" not in c_source(gates)
    zeros = np.zeros((3, 1))
    head = Tokens(np.array([[400.0], [0.0], [-400.0]]), np.zeros(3), zeros + 1, np.zeros((3, 1, 1)))
    bounded = _bounded(head, "double")
    assert bounded is not None and not bounded.pair
    assert _bounded(head, "float") is None
    huge = Tokens(head.keys, head.biases, zeros + 2.0**600, head.slopes)
    assert _bounded(huge, "double") is None  # sums would overflow
    two = Tokens(np.array([[1e6], [0.0]]), np.zeros(2), zeros[:2] + 1, np.zeros((2, 1, 1)))
    pair = _bounded(two, "float")
    assert pair is not None and pair.pair


def test_the_largest_weight_is_at_least_one_everywhere_on_the_box() -> None:
    """Of these scores the largest is between -41 and -3: c moves all of them."""
    head = Tokens(np.array([[20.0], [-18.0]]), np.array([-21.0, -23.0]), np.ones((2, 1)), np.zeros((2, 1, 1)))
    bounded = _bounded(head, "float")
    assert bounded is not None and not bounded.pair
    t = np.linspace(-1, 1, 1001)[:, None]
    scores = (t @ head.keys.T + head.biases) / np.log(2) + bounded.exponent
    assert scores.max(axis=1).min() >= 1.0
    assert scores.min() > -120 and scores.max() < 120


def test_shifts_of_exponents_are_in_the_file_where_weights_need_them(tmp_path: Path) -> None:
    """Steep heads of float32: without them the largest weight would be subnormal in places."""
    built = sw.approximate("relu(x)*sin(3*x)", sw.Box(_LINE), tol=1e-3, dtype="float32", engine="sdpa")
    x = inputs_of(built, 2000)
    found = _run(built, tmp_path, x, ["gcc", "-O2"])
    with torch.no_grad():
        wanted = built.network(torch.from_numpy(x)).numpy()
    assert np.abs(found - wanted).max() <= allowance(built, 1.0)[0]
