"""Programs, and the sources printed from them: the same answers as torch's, within the rounding part of the claim."""

from __future__ import annotations

import ctypes
import importlib.util
import math
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.export.c_closed import ClosedForm, form_of
from softwright.export.c_shapes import shapes_of
from softwright.export.c_simplify import padded, simplified
from softwright.export.c_source import c_source
from softwright.export.program import Closed, Product, folded, run
from softwright.export.programs import PROGRAMS, program_of
from softwright.export.selftest import allowance, answered, answers_of, given_to
from softwright.export.vectors.exp import exp_source, lanes_of
from softwright.export.vectors.loops import helpers_of, vectors_source
from softwright.methods.methods import METHODS
from softwright.methods.prompts import read_prompt
from softwright.precision import precision_of
from tests.contracts.kinds_made import MADE
from tests.export.networks import NETWORKS

_STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
_ALL = pytest.mark.parametrize("name", NETWORKS)


def _loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem.replace(".", "_"), path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@_ALL
@pytest.mark.parametrize("batch", [1, 7, 300])
def test_a_program_answers_as_torch_does(name: str, batch: int) -> None:
    built = NETWORKS[name]()
    given = given_to(built, min(batch, 9) if name == "ridge" else batch, seed=3)  # prompts are matrices
    y = answered(built, given)
    for program in (program_of(built), folded(program_of(built))):
        found = run(program, *given)
        assert found.dtype == y.dtype
        assert found.shape == y.shape
        assert np.abs(found - y).max() <= allowance(built, float(np.abs(y).max()))[0]


@_ALL
def test_what_c_leaves_out_and_fills_up_changes_nothing(name: str) -> None:
    built = NETWORKS[name]()
    given = given_to(built, 1, seed=4)
    program = folded(program_of(built))
    shorter = simplified(program, shapes_of(program))
    filled = padded(shorter, shapes_of(shorter), 4)
    wanted = run(program, *given)
    assert np.array_equal(run(shorter, *given), wanted)
    assert np.abs(run(filled, *given) - wanted).max() <= allowance(built, float(np.abs(wanted).max()))[0]


def test_every_kind_with_a_program_is_tried() -> None:
    assert {NETWORKS[name]().kind for name in NETWORKS} == set(PROGRAMS)


@_ALL
def test_numpy_source_tests_itself_and_takes_any_batch(name: str, tmp_path: Path) -> None:
    built, path = NETWORKS[name](), tmp_path / "network.py"
    built.export(path)
    if name in ("line", "program"):  # alone, as a user has it; the others here, where NumPy is there already
        ran = subprocess.run([sys.executable, "-I", str(path)], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    else:
        with pytest.raises(SystemExit) as left:
            runpy.run_path(str(path), run_name="__main__")
        assert not left.value.code
    assert "softwright" not in path.read_text().split('"""', 2)[2]  # the claim names it, the code does not need it
    module = _loaded(path)
    for batch in (1, 7):
        assert module.f(*given_to(built, batch, seed=5)).shape[0] == batch


@pytest.mark.parametrize("library", ["numpy", "jax"])
def test_a_number_that_is_no_symbol_gives_nan(library: str, tmp_path: Path) -> None:
    if library == "jax":
        pytest.importorskip("jax", reason="jax is not installed: make test-extras does it")
    built, path = NETWORKS["program"](), tmp_path / ("f.py" if library == "numpy" else "f.jax.py")
    built.export(path)
    (x,) = given_to(built, 1)
    f = _loaded(path).f
    for number in (-1.0, 2.0, 0.5, 1e300, math.nan, math.inf):
        asked = x.copy()
        asked[0, -1, 0] = number
        with pytest.raises(sw.InvalidInput, match="whole numbers"):
            answered(built, (asked,))
        assert np.isnan(np.asarray(f(asked))[0, -1]).all()
    assert np.isfinite(np.asarray(f(x))).all()


def test_a_self_test_asks_what_the_claim_speaks_of() -> None:
    (x,) = given_to(sw.zoo.load("program-interpolate"), 40)
    assert len(x) == 40 and np.diff(x[..., 1], axis=1).min() >= 0.01
    layer = sw.transpile(torch.nn.Linear(2, 1).double().eval(), box=[(-1, 1), (5, 9)])
    (x,) = given_to(layer, 40)
    assert (x >= [-1, 5]).all() and (x <= [1, 9]).all() and x[:, 1].max() > 7


def test_a_self_test_asks_prompts_that_the_method_takes(tmp_path: Path) -> None:
    """Times without a hole, held out rows, labels above 0: any others a stack refuses, and so its file was refused."""
    for method in ("autoregression", "averaging", "gamma", "state_values"):
        options: dict[str, Any] = {"steps": 1} if method == "gamma" else {}
        if method == "autoregression":  # else it has more constants than a source holds
            options = {"condition": 2.0, "accuracy": 0.3}
        built = sw.in_context(method, METHODS[method].takes or 2, sample=False, certify=False, **options)
        x, y, queries = given_to(built, 2)
        assert len(read_prompt(x, y, queries, None, built.network.constants, built.network.dtype, True).x) == 2
        if method == "autoregression":
            built.export(tmp_path / "f.py")
            assert subprocess.run([sys.executable, "-I", str(tmp_path / "f.py")], check=False).returncode == 0


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_prompts_that_do_not_fit_on_a_stack_get_no_answer(tmp_path: Path) -> None:
    NETWORKS["ridge"]().export(tmp_path / "f.c")
    made = ["gcc", "-O0", "-DSOFTWRIGHT_PLAIN", "-fPIC", "-shared", str(tmp_path / "f.c"), "-o", str(tmp_path / "f.so")]
    subprocess.run([*made, "-lm"], check=True)
    function = ctypes.CDLL(str(tmp_path / "f.so")).network
    x, y = np.ones(8), np.full(8, np.nan)  # nothing is read: the sizes alone are looked at
    for rows, queries in ((2000, 1), (1, 1 << 30), (1 << 30, 1 << 30), (0, 1), (1, -1)):
        function(rows, queries, *[x.ctypes.data_as(ctypes.c_void_p)] * 3, y.ctypes.data_as(ctypes.c_void_p))
    assert np.isnan(y).all()


def test_a_program_is_allowed_what_its_claim_allows(tmp_path: Path) -> None:
    """Its heads select, and blow up the roundings of their scores: 4,096 ulp of the answer were too few."""
    built = sw.zoo.load("program-n-body")
    assert built.certificate is not None
    assert allowance(built, 1.0)[0] == 2.0 * built.certificate.bound
    built.export(tmp_path / "f.py")
    assert subprocess.run([sys.executable, "-I", str(tmp_path / "f.py")], check=False).returncode == 0


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
@_ALL
def test_c_source_compiles_without_a_warning_and_tests_itself(name: str, tmp_path: Path) -> None:
    built, path = NETWORKS[name](), tmp_path / "network.c"
    built.export(path)
    program = tmp_path / "test"
    # At -O3 gcc reads whole vectors, and sees what of them was never written: small arrays show it. Three processors
    # take three times as long: some programs are made for all, and all of them by `benchmarks/exports.py`.
    cloned = [] if name in ("hard", "plane", "softmax", "memory") else ["-DSOFTWRIGHT_CLONES="]
    usual = ["-O3" if name.startswith("hard") else "-O2", *cloned]
    for flags in (usual, ["-O0", "-DSOFTWRIGHT_PLAIN"]):
        made = subprocess.run(
            ["gcc", *_STRICT, *flags, "-DSELFTEST", str(path), "-o", str(program), "-lm"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        ran = subprocess.run([str(program)], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_a_self_test_notices_a_changed_constant_and_fast_math_is_refused(tmp_path: Path) -> None:
    path, text = tmp_path / "network.c", ""
    tables = {"plane": ("v_layer_heads_0_biases[", "near_0_0[", "near_1_2["), "line": ("near_rows[",)}  # of either way
    for name, changed in ((name, table) for name, several in tables.items() for table in several):
        NETWORKS[name]().export(path)
        text = path.read_text()
        head, table, rest = text.partition(f"SOFTWRIGHT_TABLE double {changed}")
        assert table
        path.write_text(head + table + rest.replace("0x1.", "0x1.1", 1))
        subprocess.run(["gcc", "-DSELFTEST", str(path), "-o", str(tmp_path / "test"), "-lm"], check=True)
        assert subprocess.run([str(tmp_path / "test")], capture_output=True, check=False).returncode == 1
    path.write_text(text)
    for flag in ("-ffast-math", "-Ofast", "-fassociative-math -fno-signed-zeros -fno-trapping-math"):
        refused = subprocess.run(
            ["gcc", *flag.split(), "-c", str(path), "-o", str(tmp_path / "o")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert refused.returncode != 0 and "voids the claim" in refused.stderr, flag


def test_jax_source_is_the_same_function(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed: make test-extras does it")
    built, path = NETWORKS["plane"](), tmp_path / "network.jax.py"
    built.export(path)
    answers = answers_of(built)
    found = np.asarray(jax.jit(_loaded(path).f)(answers.inputs))
    assert found.dtype == answers.outputs.dtype
    assert np.abs(found - answers.outputs).max() <= answers.allowed


@pytest.mark.parametrize("suffix", [".c", ".py", ".jax.py"])
def test_sources_repeat_claim_bound_dtype_and_runtimes(suffix: str, tmp_path: Path) -> None:
    built = NETWORKS["sum"]()
    path = tmp_path / f"network{suffix}"
    built.export(path)
    text = path.read_text()
    for said in (
        repr(built.certificate.bound),
        repr(built.certificate.rounding_part),
        "float64",
        "exp-ulp<=4",
        "Claim: ",
    ):
        assert said in text


def test_a_claim_ends_no_comment(tmp_path: Path) -> None:
    built = sw.approximate("x**2", sw.Box(x=(0, 1)), tol=1e-2)
    for text in ("*/ int evil; /*", 'a """ b', "a \\", "??/ \u00e4"):
        object.__setattr__(built, "target", {**built.target, "text": text})
        built.export(tmp_path / "f.py")
        built.export(tmp_path / "f.c")
        compile((tmp_path / "f.py").read_text(), "f.py", "exec")
        code = (tmp_path / "f.c").read_text()
        assert "evil; */" not in code and code.index("*/") > code.index("Covers: ")
        object.__setattr__(built, "target", {**built.target, "text": "x**2"})


def test_what_has_no_program_is_refused_by_name(tmp_path: Path) -> None:
    by_axes = sw.approximate("sin(2*x)*cos(y)", sw.Box(x=(-1, 1), y=(0, 2)), tol=1e-2, strategy="affine")
    certificate = sw.certify(by_axes.network, by_axes.source, engine="factorised")
    with pytest.raises(sw.InvalidInput, match="engine='sdpa'"):
        replace(by_axes, certificate=certificate.certificate).export(tmp_path / "f.c")
    with pytest.raises(sw.InvalidInput, match="in_context"):
        MADE["in_context"]().export(tmp_path / "f.c")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
@pytest.mark.parametrize("plain", [[], ["-DSOFTWRIGHT_PLAIN"]])
@pytest.mark.parametrize(("real", "ulps"), [("double", 4), ("float", 4)])
def test_exp_of_c_sources_is_as_exact_as_is_charged(real: str, ulps: int, plain: list[str], tmp_path: Path) -> None:
    place = tmp_path / "exp.so"
    each = "{ softwright_v e = softwright_in(x + i); softwright_exp(&e); softwright_out(y + i) = e; }"
    loop = f"for (int i = 0; i < n; i += SOFTWRIGHT_LANES) {each}"
    source = [vectors_source(real), exp_source(real), f"void all(const {real} *x, {real} *y, int n) {{ {loop} }}"]
    (tmp_path / "exp.c").write_text("\n".join(["#include <stdint.h>", "#include <string.h>", *source, ""]))
    flags = ["-O2", "-fPIC", "-shared", *plain]
    subprocess.run(["gcc", *flags, str(tmp_path / "exp.c"), "-o", str(place)], check=True)
    precision = precision_of("float64" if real == "double" else "float32")
    least = math.log(precision.exp_floor)
    x = np.concatenate([np.linspace(least, 0, 200_001), -np.logspace(-320, 2, 1000), [-np.inf, -1e300, 2 * least]])
    x = np.append(x.clip(-1e30 if real == "float" else -np.inf), [np.nan] * (8 - len(x) % 8)).astype(precision.name)
    y = np.empty_like(x)
    ctypes.CDLL(str(place)).all(x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), len(x))
    exact = np.exp(x.astype(np.longdouble))
    near = exact >= precision.exp_floor
    off = np.abs(y[near] - exact[near]) / exact[near] / (2 * precision.unit)
    assert float(off.max()) <= ulps / 4
    assert np.isnan(y[-1])
    number = ~np.isnan(x)
    assert (y[number & ~near] <= precision.exp_floor).all()
    assert (y[number & (x < 1.1 * least)] == 0).all()


def test_closed_forms_take_the_place_of_softmaxes_where_a_claim_charges_them() -> None:
    softmaxes = ("softwright_columns(", "softwright_weights", "softwright_pairs(")
    for name in ("softmax", "double-float32", "gated"):
        forms = [form_of(closed) for closed in program_of(NETWORKS[name]()).closed.values()]
        assert forms and None not in forms
        assert not any(word in c_source(NETWORKS[name]()) for word in softmaxes)
    for name in ("sdpa-float32", "sequence", "multihead", "gated-sdpa", "gated-multihead"):
        assert not program_of(NETWORKS[name]()).closed
        assert any(word in c_source(NETWORKS[name]()) for word in softmaxes)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("real", ["double", "float"])
def test_tanh_of_steps_in_c_is_as_exact_as_is_charged(real: str, even: bool, tmp_path: Path) -> None:
    precision = precision_of("float64" if real == "double" else "float32")
    K = 7
    steps = (0.19 * np.arange(1, K + 1) + (0 if even else 1e-3) * np.arange(K) ** 2).astype(precision.name)
    x = np.linspace(-1, 1, 20_000).astype(precision.name)
    form = ClosedForm(Closed(("u", "b"), Product(steps, np.eye(K)[-1], -1.0)), precision.name)
    each = form.statements(["softwright_in(x + i)", "1"], "softwright_out(y + i)", "n - i")
    assert each.count("softwright_exp") == (1 if even else K)
    loop = f"for (int i = 0; i < n; i += SOFTWRIGHT_LANES) {{ {each} }}"
    head = ["#include <stdint.h>", "#include <string.h>", vectors_source(real), *helpers_of(loop, real, lanes_of(real))]
    (tmp_path / "t.c").write_text("\n".join([*head, f"void all(const {real} *x, {real} *y, int n) {{ {loop} }}", ""]))
    flags = ["-O2", "-fPIC", "-shared"]
    subprocess.run(["gcc", *flags, str(tmp_path / "t.c"), "-o", str(tmp_path / "t.so")], check=True)
    y = np.empty_like(x)
    ctypes.CDLL(str(tmp_path / "t.so")).all(*(a.ctypes.data_as(ctypes.c_void_p) for a in (x, y)), len(x))
    exact = np.tanh(np.longdouble(steps[-1]) * x.astype(np.longdouble))
    assert float(np.abs(y - exact).max()) <= (2 * (K if even else 1) + 5) * precision.unit  # 20 are charged
