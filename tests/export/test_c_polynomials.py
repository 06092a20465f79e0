"""Polynomials in C for heads and for networks of one variable: as near as is charged, and noticed where they end."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import softwright as sw
from softwright.export.c_source import c_source
from softwright.export.near.heads import near_of
from softwright.export.near.lines import Run, Tokens
from softwright.export.near.pieces import Pieces, pieces_of
from softwright.export.near.powers import Powers, powers_of
from softwright.export.near.series import about_middle, interpolated
from softwright.export.program import Product
from softwright.export.selftest import answered, inputs_of, rounding_at_a_point
from softwright.precision import precision_of

_SILU = np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
_SIGMOID = np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
_TANH = np.array([[1.0, -1.0], [0.0, 0.0], [0.0, 0.0], [1.0, -1.0]])
_EVEN = np.array(  # of GELU
    [
        [-2.25, -1.5, -0.75, 0.0 - 0.0, 0.75, 1.5, 2.25, 3.0],
        [-4.0, -2.0, -0.75, -0.125, -0.125, -0.75, -2.0, -4.0],
        [0.0, 0.0625, 0.125, 0.375, 0.625, 0.875, 0.9375, 1.0],
        [0.0, 0.125, 0.25, 0.5, 0.5, 0.25, 0.125, 0.0],
    ]
)
_EVEN[0] -= 0.375
_BUILDS = [
    ["gcc", "-O2"],
    ["gcc", "-O0"],
    ["gcc", "-O2", "-DSOFTWRIGHT_PLAIN"],
    ["clang", "-O3"],
    ["clang", "-O2", "-DSOFTWRIGHT_CLONES="],
]


def _head(table: np.ndarray, s: np.ndarray) -> np.ndarray:
    k, b, v, u = table.astype(np.longdouble)
    s = s.astype(np.longdouble)[:, None]
    scores = s * k + b
    w = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (w * (s * v + u)).sum(axis=1) / w.sum(axis=1)


def _charged(table: np.ndarray, s: np.ndarray) -> np.ndarray:
    """In units of rounding, at s alone."""
    k, b, v, u = table
    scores = s[:, None] * k + b
    w = np.exp(scores - scores.max(axis=1, keepdims=True))
    w /= w.sum(axis=1, keepdims=True)
    values = s[:, None] * v + u
    off = np.abs(values - (w * values).sum(axis=1, keepdims=True))
    off[np.arange(len(s)), scores.argmax(axis=1)] = 0
    return (16 * w * off + 6 * w * (np.abs(s[:, None] * v) + np.abs(u))).sum(axis=1)


def _run(powers: Powers, s: np.ndarray, kind: type) -> np.ndarray:
    """As C runs it, nothing being fused."""
    s = s.astype(kind)
    y = s * s - kind(powers.middle)
    first, *rest = (kind(one) for one in powers.numbers)
    nodes, power = [np.full_like(s, one) for one in rest] or [np.zeros_like(s)], y
    while len(nodes) > 1:
        nodes = [a + power * b[0] if b else a for a, *b in (nodes[i : i + 2] for i in range(0, len(nodes), 2))]
        power = power * power
    lead = (np.ones_like(s), s, s * s)[powers.lead]
    return (kind(powers.offset) + s * kind(powers.slope) + lead * first) + (lead * y) * nodes[0]


@pytest.mark.parametrize("most", [0.3, 1.0, 1.5])
@pytest.mark.parametrize("name", ["silu", "sigmoid", "tanh", "even"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_heads_are_as_near_as_is_charged(dtype: str, name: str, most: float) -> None:
    table = {"silu": _SILU, "sigmoid": _SIGMOID, "tanh": _TANH, "even": _EVEN}[name]
    powers, kind, unit = powers_of(table, most, dtype), np.dtype(dtype).type, precision_of(dtype).unit
    assert powers is not None
    assert np.sqrt(2 * powers.most) == pytest.approx(most, rel=1e-3)
    s = np.concatenate([np.linspace(-1, 1, 20_001), 10.0 ** np.linspace(-12, 0, 2000)]) * most * 0.999
    s = s.astype(kind).astype(np.float64)
    off = np.abs(_run(powers, s, kind) - _head(table, s)).astype(float) / unit
    order = np.argsort(np.abs(s))
    charged = np.maximum(_charged(table, s), _charged(table, -s))
    charged[order] = np.maximum.accumulate(charged[order])
    assert (off <= charged * (1 + 1e-6)).all()
    assert off.max() > 0


def test_ranges_that_rounding_does_not_reach_have_no_polynomial() -> None:
    assert powers_of(_SILU, 30.0, "float64") is None
    assert powers_of(_TANH, 1e-30, "float64") is None
    assert powers_of(np.array([*_SILU[:2], [0.1, 1.0], _SILU[3]]), 1.0, "float64") is None  # 0.55 s is rounded
    assert powers_of(np.array([*_SIGMOID[:3], [0.1, 0.7]]), 1.0, "float64") is None  # 0.1 + 0.7 and 0.7 - 0.1 are


def test_products_of_gates_are_their_tanhs() -> None:
    steps, shares = np.array([0.1, 0.2, 0.3]), np.array([15.0, -6.0, 1.0])
    powers = powers_of(Product(steps, shares, -1.0), 2.0, "float64")
    assert powers is not None and powers.product
    u = np.linspace(-1.99, 1.99, 4001)
    exact = (shares * np.tanh(u[:, None].astype(np.longdouble) * steps)).sum(axis=1)
    assert np.abs(_run(powers, u, np.float64) - exact).max() <= 20 * 22 * 2.0**-53


def _at(series: list[Decimal], x: Decimal) -> Decimal:
    return sum((c * x**n for n, c in enumerate(series)), Decimal(0))


def test_quotients_are_as_near_as_they_say() -> None:
    with localcontext() as context:
        context.prec = 60
        above = [Decimal(1) / Decimal(n + 1) ** 2 for n in range(12)]
        below = [Decimal(2), Decimal(1), Decimal("0.5")]
        p, off = interpolated(above, below, Decimal(2), 14)
        y = about_middle(p, Decimal(1))
        for i in range(100):
            x = Decimal(3 * i + 1) / 301
            wanted = _at(above, x) / _at(below, x)
            found = _at(y, x - Decimal("0.5"))
            assert abs(found - wanted) <= off
        assert 0 < off < Decimal("1e-4")


_LINES = {  # of one and several outputs, smooth and with steps, engines and boxes
    "steep": ("tanh(20*x)", (-1.0, 2.0), 1e-6),
    "wave": ("sin(12*x)", (0.0, 1.0), 1e-4),
    "far": ("sqrt(x)", (1e5, 1e5 + 3e4), 1e-2),
    "kink": ("relu(x)*sin(3*x)", (-1.0, 1.0), 1e-4),
    "clip": ("clip(2*x, -1, 1)", (-1.0, 1.0), 1e-3),
    "outputs": ("exp(-x), sin(x), abs(x - 1), cos(x)", (0.0, 3.0), 1e-3),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", _LINES)
def test_pieces_are_within_the_rounding_part_of_the_claim(name: str, dtype: str) -> None:
    text, box, tol = _LINES[name]
    built = sw.approximate(text, sw.Box(x=box), tol=tol, dtype=dtype)
    pieces = near_of(built)
    assert isinstance(pieces, Pieces)
    real = pieces.run.kind
    given = inputs_of(built, 4000)
    x = given.astype(real)[:, 0]
    i = np.rint((x - real(pieces.center)) * real(pieces.rate)).astype(int) + len(pieces.middles) // 2
    i = i if len(pieces.middles) > 1 else 0 * i
    f = (x - pieces.middles.astype(real)[i])[:, None]
    rows = pieces.rows.astype(real)[i]
    total = np.zeros_like(rows[:, 0])
    for term in range(rows.shape[1] - 1, -1, -1):
        total = total * f + rows[:, term]
    found = total.astype(dtype)
    there = ~np.isnan(found).any(axis=1)
    assert there.mean() > 0.9
    exact = _exact(built, given.astype(np.longdouble))
    off = np.abs(found - exact)[there].max()
    assert off <= rounding_at_a_point(built) * 1.01


def _exact(built: sw.Built[Any], x: np.ndarray) -> np.ndarray:
    state = {name: tensor.numpy().astype(np.longdouble) for name, tensor in built.network.state_dict().items()}
    t, total = (x - state["center"]) * state["scale"], 0
    for h in range(len(built.network.describe()["heads"])):
        keys, biases, values = (state[f"layer.heads.{h}.{name}"] for name in ("keys", "biases", "values"))
        scores = t @ keys.T + biases
        w = np.exp(scores - scores.max(axis=1, keepdims=True))
        w /= w.sum(axis=1, keepdims=True)
        total = total + w @ values
        slopes = state.get(f"layer.heads.{h}.slopes")
        if slopes is not None:
            total = total + (w @ slopes[:, :, 0]) * t
    return np.asarray(total)


class _Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = nn.Linear(2, 5), nn.Linear(2, 5), nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["silu", "tanh", "softplus", "gated", "outputs"])
def test_points_inside_and_far_away_get_what_torch_gives(name: str, dtype: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    if name in _LINES:
        text, box, tol = _LINES[name]
        built: sw.Built[Any] = sw.approximate(text, sw.Box(x=box), tol=tol, dtype=dtype)
    else:
        kinds = {"silu": nn.SiLU, "tanh": nn.Tanh, "softplus": nn.Softplus}
        source: nn.Module = _Gated()
        if name in kinds:
            source = nn.Sequential(nn.Linear(2, 5), kinds[name](), nn.Linear(5, 9), kinds[name](), nn.Linear(9, 2))
        built = sw.transpile(source.to(getattr(torch, dtype)).eval(), box=(-1, 1), tol=1e-3)
        assert "softwright_in_range(" in c_source(built)
    built.export(tmp_path / "f.c")
    x = inputs_of(built, 300)
    odd = np.array([np.inf, -np.inf, np.nan, 1e6, -1e6, 30.0, -30.0], dtype=dtype)
    x = np.concatenate([x, 3 * x, 40 * x[:50], np.repeat(odd[:, None], x.shape[1], axis=1)])
    wanted = answered(built, (x,)).astype(float)
    far = 1e-3 if dtype == "float32" else 1e-9
    for i, command in enumerate(_BUILDS):
        if shutil.which(command[0]) is None:
            continue
        place = tmp_path / f"{i}.so"
        strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fPIC", "-shared"]
        subprocess.run([*command, *strict, str(tmp_path / "f.c"), "-o", str(place), "-lm"], check=True)
        function, found = ctypes.CDLL(str(place)).network, np.empty(wanted.shape, dtype=dtype)
        for point, out in zip(x, found, strict=True):
            function(ctypes.c_void_p(point.ctypes.data), ctypes.c_void_p(out.ctypes.data))
        off = np.abs(found[:300] - wanted[:300]).max()
        assert off <= 2 * rounding_at_a_point(built), command
        finite = np.isfinite(wanted)
        size = np.maximum(1.0, np.abs(wanted))
        assert (np.abs(found - wanted) <= far * size)[finite].all(), command
        assert not np.isfinite(found[~finite]).any(), command


@pytest.mark.parametrize(("text", "dtype"), [("0*x", "float64"), ("0*x", "float32"), ("0*x, exp(x)", "float64")])
def test_heads_that_add_nothing_are_left_out(text: str, dtype: str) -> None:
    pieces = near_of(sw.approximate(text, sw.Box(x=(0, 1)), tol=1e-3, dtype=dtype))
    assert isinstance(pieces, Pieces)
    assert not pieces.rows[:, :, 0].any()


def test_boxes_and_claims_without_a_size_have_no_pieces() -> None:
    run = Run("double", "double", np.zeros(1), np.ones(1))
    zeros = np.zeros((1, 1))
    head = [Tokens(zeros, np.zeros(1), np.ones((1, 1)), zeros[:, :, None])]
    assert pieces_of(head, (0.0, 1.0), 1e-9, run) is not None
    for ends, rounding in (((1.0, 1.0), 1e-9), ((0.0, 1e-310), 1e-9), ((0.0, 1.0), np.inf), ((0.0, 1.0), np.nan)):
        assert pieces_of(head, ends, rounding, run) is None
    tight = Run("float", "float", np.array([1e8]), np.ones(1))
    assert pieces_of(head, (1e8, 1e8 + 1), 1e-3, tight) is None  # one float


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
@pytest.mark.parametrize("kind", ["pieces", "range"])
def test_heads_run_everywhere_where_they_are_asked_for(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    built: sw.Built[Any] = (
        sw.approximate("exp(x)", sw.Box(x=(0, 1)), tol=1e-6)
        if kind == "pieces"
        else sw.transpile(nn.Sequential(nn.Linear(2, 3), nn.SiLU(), nn.Linear(3, 1)).double(), box=(-1, 1))
    )
    built.export(tmp_path / "f.c")
    names = ("softwright_near", "softwright_in_range")
    text = (tmp_path / "f.c").read_text()
    assert any(name in text for name in names)
    command = ["gcc", "-O0", "-g", "-std=c99", "-Wall", "-Wextra", "-Werror", "-DSELFTEST", "-DSOFTWRIGHT_HEADS"]
    subprocess.run([*command, str(tmp_path / "f.c"), "-o", str(tmp_path / "f"), "-lm"], check=True)
    subprocess.run([str(tmp_path / "f")], check=True, capture_output=True)
    program = (tmp_path / "f").read_bytes()
    assert not any(name.encode() in program for name in names)
