"""What the printer of C does with sums, tables and kinks: the same answers as torch's, by every way it is compiled."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import softwright as sw
from softwright.export import spoken_of
from softwright.export.c_shapes import shapes_of
from softwright.export.c_simplify import with_biases
from softwright.export.c_source import c_source
from softwright.export.program import Program, folded, run
from softwright.export.programs import program_of
from softwright.export.selftest import allowance, answered, inputs_of, rounding_at_a_point
from tests.export.networks import NETWORKS

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
_STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2"]


def _self_test(built: sw.Built[Any], folder: Path, *flags: str) -> str:
    built.export(folder / "f.c")
    made = [*_STRICT, *flags, "-DSELFTEST", str(folder / "f.c"), "-o", str(folder / "f"), "-lm"]
    subprocess.run(["gcc", *made], check=True)
    return subprocess.run([str(folder / "f")], check=True, capture_output=True, text=True).stdout


def _pruned(layout: str) -> sw.Built[Any]:
    """Rows and columns of weights that are zeros."""
    torch.manual_seed(1)
    source = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 3)).double().eval()
    with torch.no_grad():
        for number in (0, 2, 4):
            weight = source.get_parameter(f"{number}.weight")
            weight[1], weight[:, 2] = 0.0, 0.0
    return sw.transpile(source, box=(-1, 1), layout=layout, tol=1e-4)


@pytest.mark.parametrize("layout", ["softmax", "sdpa", "multihead"])
@pytest.mark.parametrize("flags", [[], ["-DSOFTWRIGHT_CLONES="], ["-DSOFTWRIGHT_PLAIN"]])
def test_sums_begin_with_their_bias_and_leave_out_zeros(layout: str, flags: list[str], tmp_path: Path) -> None:
    built = _pruned(layout)
    program = folded(program_of(built))
    joined = [node for node in with_biases(program).nodes if node.op == "MatMul" and len(node.inputs) == 3]
    assert len(joined) == (0 if layout == "multihead" else 3)
    _self_test(built, tmp_path, *flags)


def test_sums_keep_their_bias_apart_where_a_claim_does_not_charge_it_first() -> None:
    program = Program({"x": ("q", 2)}, {"w": np.ones((2, 2)), "b": np.ones(2)}, "float64")
    program.add("MatMul", ["x", "w"], "products")
    program.ended(program.add("Add", ["products", "b"], "sums"), ("q", 2))
    assert with_biases(program) is program
    program.bias_anywhere = True
    assert [node.inputs for node in with_biases(program).nodes] == [("x", "w", "b")]
    assert shapes_of(with_biases(program))["sums"] == (1, 2)
    assert not program_of(NETWORKS["line"]()).bias_anywhere


def test_columns_of_zeros_of_a_weighted_sum_are_left_out(tmp_path: Path) -> None:
    """Of heads of few variables among many most columns of slopes are zeros."""
    box = sw.Box(dict.fromkeys("abcd", (0.0, 1.0)))
    for dtype in ("float64", "float32"):
        wave = sw.approximate(lambda a, b, c, d: np.sin(a + b) * np.cos(c * d), box, tol=1e-2, dtype=dtype)
        _self_test(wave, tmp_path)
    plane = sw.approximate("sin(2*x)*cos(y)", sw.Box(x=(-1, 1), y=(0, 2)), tol=1e-3)
    assert " = 0;" in c_source(plane)
    _self_test(plane, tmp_path)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kink", [nn.ReLU(), nn.LeakyReLU(0.3), nn.LeakyReLU(-0.5)])
def test_a_kink_is_what_torch_runs_near_and_far(kink: nn.Module, dtype: str, tmp_path: Path) -> None:
    kind = getattr(torch, dtype)
    source = nn.Sequential(nn.Linear(1, 4), kink, nn.Linear(4, 4)).to(kind).eval()
    with torch.no_grad():
        for number, weight in ((0, torch.ones(4, 1)), (2, torch.eye(4))):
            source.get_parameter(f"{number}.weight").copy_(weight)
            source.get_parameter(f"{number}.bias").zero_()
    built = sw.transpile(source, box=(-1, 1))
    built.export(tmp_path / "f.c")
    made = ["gcc", *_STRICT, "-fPIC", "-shared", str(tmp_path / "f.c"), "-o", str(tmp_path / "f.so"), "-lm"]
    subprocess.run(made, check=True)
    function = ctypes.CDLL(str(tmp_path / "f.so")).network
    near = np.ldexp(np.linspace(-4, 4, 41), -60)
    for value in (*near, -1.0, -0.3, 0.3, 1.0, np.inf, -np.inf, np.nan):
        x, y = np.array([value], dtype=dtype), np.empty(4, dtype=dtype)
        function(x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p))
        wanted = built.network(torch.from_numpy(x)[None]).detach().numpy()[0]
        assert np.allclose(y, wanted, rtol=1e-5 if dtype == "float32" else 1e-13, atol=1e-30, equal_nan=True)


def test_a_table_that_one_sum_reads_lies_as_its_result_does(tmp_path: Path) -> None:
    built = sw.theorem("B1").build(dtype="float32")
    assert "softwright_in(v_stages_0_R" in c_source(built)
    _self_test(built, tmp_path)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_jumps_compile_without_a_warning_at_every_level(dtype: str, tmp_path: Path) -> None:
    """gcc 12 at -O3 warns of the room between rows of gates, in float32, which no answer takes."""
    built = sw.approximate("floor(3*x) + x", sw.Box(x=(-1, 1)), tol=1e-3, gap=1e-3, dtype=dtype)
    for level in ("-O0", "-O3"):
        _self_test(built, tmp_path, level)
    if shutil.which("clang"):  # and its memory sanitizer finds that none is read for an answer
        strict = ["-std=c99", "-O1", "-fsanitize=memory", "-fno-sanitize-recover=memory", "-DSOFTWRIGHT_CLONES="]
        files = ["-DSELFTEST", str(tmp_path / "f.c"), "-o", str(tmp_path / "m"), "-lm"]
        if subprocess.run(["clang", *strict, *files], check=False, capture_output=True).returncode == 0:
            subprocess.run([str(tmp_path / "m")], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("text", "box", "norm", "tol"),
    [
        ("exp(x)*sin(40*x)", sw.Box(x=(0, 1e-2)), "L1", 1e-9),
        ("sin(x*y)", sw.Box(x=(0, 1e-3), y=(0, 1e-3)), "L2", 1e-9),
        ("where(x < y, 1, 0)", sw.Box(x=(-0.01, 0.01), y=(-0.01, 0.01)), "L1", 1e-6),
    ],
)
def test_of_a_norm_the_self_test_allows_the_rounding_of_a_point(
    text: str, box: sw.Box, norm: str, tol: float, tmp_path: Path
) -> None:
    """On a small box the rounding part of the norm is far smaller."""
    built = sw.approximate(text, box, norm=norm, tol=tol)
    assert built.certificate is not None
    volume = float(np.prod(box.upper - box.lower))
    assert rounding_at_a_point(built) >= built.certificate.rounding_part * min(1.0, volume**-0.5)
    x = inputs_of(built, 2000)
    off = float(np.abs(run(program_of(built), x) - answered(built, (x,))).max())
    assert off <= allowance(built, 1.0)[0] <= 1e-12
    _self_test(built, tmp_path)


def test_what_is_asked_of_a_formula_with_jumps_lies_outside_of_their_bands() -> None:
    built = sw.approximate("floor(3*x) + x", sw.Box(x=(-1, 1)), tol=1e-3, gap=0.1)
    x = inputs_of(built, 5000)[:, 0]
    assert len(x) == 5000
    assert np.abs(3 * x - np.round(3 * x)).min() >= 0.1
    assert len(np.unique(x)) == 5000  # others are drawn for those that are left out
    rest = spoken_of(built, np.array([[0.0], [0.02], [0.05], [1 / 3]]))
    assert rest.tolist() == [[0.05]]


def test_what_is_asked_lies_in_the_part_of_the_box_that_was_proved() -> None:
    built = sw.approximate("sin(3*x)", sw.Box(x=(-1, 1)), tol=1e-4)
    part = sw.certify(built.network, built.source, domain=sw.Box(x=(0.25, 0.5))).certificate
    x = inputs_of(replace(built, certificate=part), 500)
    assert x.min() >= 0.25 and x.max() <= 0.5


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_masked_score_of_a_pair_has_weight_zero(dtype: str, tmp_path: Path) -> None:
    built = sw.theorem("C6").build(dtype=dtype)
    assert "-HUGE_VAL" in c_source(built)
    assert "largest deviation" in _self_test(built, tmp_path)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
@pytest.mark.parametrize("field", [sw.Symbols("abc"), sw.Integers(-1, 1)])
def test_tokens_that_name_no_row_get_no_answer(field: Any, tmp_path: Path) -> None:
    tokens = sw.Sequence(length=(1, 3), x=(-1, 1), s=field)
    built = sw.compile("count(s[j] == s[i]) + x[i]", tokens, tol=1e-3)
    built.export(tmp_path / "f.c")
    command = ["gcc", "-O1", "-std=c99", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-DSOFTWRIGHT_CLONES="]
    subprocess.run([*command, str(tmp_path / "f.c"), "-o", str(tmp_path / "f.so"), "-lm"], check=True)
    function, low = ctypes.CDLL(str(tmp_path / "f.so")).network, 0 if isinstance(field, sw.Symbols) else -1
    for token in (0, 1, low, low + 2, low - 1, low + 3, 0.5, 1e300, -1e300, np.nan, np.inf, -np.inf):
        given = np.array([[0.5, 0.0], [0.25, token], [0.125, 1.0]])
        found = np.full((3, 1), -7.0)
        function(3, *(ctypes.c_void_p(array.ctypes.data) for array in (given, found)))
        if low <= token <= low + 2 and token == int(token):
            assert np.abs(found - answered(built, (given[None],))[0]).max() < 1e-9
        else:
            assert (found == -7.0).all()
