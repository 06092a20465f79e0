"""What every row of `PRECISIONS` must say: what NumPy and torch know of the type, and what the checker assumes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from softwright.checker.precision import PRECISIONS as CHECKERS_OWN
from softwright.checker.precision import as_run, assumed_by
from softwright.checker.precision import precision_of as checkers_row
from softwright.errors import InvalidInput
from softwright.precision import (
    PRECISIONS,
    Precision,
    assumptions,
    assumptions_of_all,
    computing_in,
    exp_ulps_of,
    precision_of,
)
from softwright.proof.arithmetic.rounding import arithmetic_of
from softwright.result.closed_form import EXACT_ARITHMETIC
from softwright.result.runtimes import runtimes_of

_ROWS = pytest.mark.parametrize("row", PRECISIONS.values(), ids=list(PRECISIONS))


@_ROWS
def test_a_row_says_what_the_type_is(row: Precision) -> None:
    info = np.finfo(row.name)
    assert row.unit == float(info.eps) / 2
    assert row.smallest == float(info.smallest_normal)
    assert row.least == float(info.smallest_subnormal) > 0
    assert row.largest == float(info.max)
    assert row.torch_dtype == getattr(torch, row.name)
    number = np.dtype(row.name).type
    assert number(2**row.digits) != number(2**row.digits - 1)
    assert number(2**row.digits) == number(2**row.digits + 1)  # the first whole number that is not there
    assert row.exp_error == row.exp_ulps * float(info.eps)


@_ROWS
def test_names_and_torch_types_are_taken_alike(row: Precision) -> None:
    assert precision_of(row.name) is precision_of(row.torch_dtype) is row


@pytest.mark.parametrize("wrong", ["float16", "", "double", None, 32, torch.bfloat16, torch.int64, float])
def test_other_types_are_refused_with_the_list(wrong: Any) -> None:
    with pytest.raises(InvalidInput) as error:
        precision_of(wrong)
    assert all(repr(name) in str(error.value) for name in PRECISIONS)
    assert repr(wrong) in str(error.value)


@_ROWS
@pytest.mark.parametrize(
    "known", ["name", "unit", "exp_ulps", "exp_error", "smallest", "least", "largest", "exp_floor"]
)
def test_the_checker_has_a_row_of_its_own_that_agrees(row: Precision, known: str) -> None:
    assert getattr(CHECKERS_OWN[row.name], known) == getattr(row, known)


@_ROWS
def test_an_exp_is_lost_below_its_floor_only(row: Precision) -> None:
    """16 keys: the vector kernel of attention, which in float32 returns 0 for numbers that are still normal."""
    x = -torch.linspace(0.0, 1.2 * abs(np.log(row.smallest)), 200_001, dtype=row.torch_dtype)
    keys = torch.zeros(1, 1, 16, 2, dtype=row.torch_dtype)
    keys[..., 1, 0], keys[..., 2:, 1] = 1.0, -1e5
    values = torch.zeros(1, 1, 16, 2, dtype=row.torch_dtype)
    values[..., 1, :] = 1.0
    query = torch.stack([x, torch.ones_like(x)], dim=1)[None, None]
    kernel = torch.nn.functional.scaled_dot_product_attention(query, keys, values, scale=1.0)[0, 0, :, 0]
    plain = torch.softmax(torch.stack([torch.zeros_like(x), x], dim=1), dim=1)[:, 1]
    exact = np.exp(x.double().numpy())
    assert row.smallest <= row.exp_floor
    for weights in (kernel, plain):
        assert exact[(weights == 0).numpy()].max() <= row.exp_floor
        assert weights[torch.tensor(exact > row.exp_floor)].min() > 0


def test_the_checker_knows_no_other_type() -> None:
    assert set(CHECKERS_OWN) == set(PRECISIONS)


@_ROWS
def test_the_sentences_are_made_from_the_numbers(row: Precision) -> None:
    arithmetic, inputs = assumptions(row.torch_dtype)
    assert f"IEEE 754 {row.name} arithmetic" in arithmetic
    assert f"accurate to {row.exp_ulps} ulp" in arithmetic
    assert row.name in inputs
    assert f"{row.exp_ulps} ulp in {row.name}" in assumptions_of_all()[1]


def test_the_sentences_of_stored_certificates() -> None:
    assert assumptions("float64") == (
        "IEEE 754 float64 arithmetic, rounded to nearest; exp in torch's CPU kernels accurate to 4 ulp",
        "inputs are float64 numbers of the domain",
    )
    assert assumptions("float32") == (
        "IEEE 754 float32 arithmetic, rounded to nearest, no TF32 or bfloat16 matrix products; "
        "exp in torch's CPU kernels accurate to 4 ulp",
        "inputs are float32 numbers of the domain",
    )
    assert assumptions_of_all() == (
        "IEEE 754 arithmetic, rounded to nearest",
        "exp accurate to 4 ulp in float64, 4 ulp in float32",
    )


def test_the_sentences_of_certificates_from_before_exp_was_measured() -> None:
    """They name what they rest on, and are read as resting on that."""
    for engine in ("", "sdpa", "any"):
        before = assumptions("float32", engine, 32)
        assert "accurate to 32 ulp" in before[0] and exp_ulps_of("float32", engine, before) == 32
        assert exp_ulps_of("float32", engine, assumptions("float32")) == 4
    assert exp_ulps_of("float32", "any", assumptions_of_all(32)) == 32
    assert exp_ulps_of("float64", "any", assumptions_of_all(32)) == 4
    with assumed_by({"claim": {"premises": list(assumptions("float32", ulps=32))}}):
        assert checkers_row("float32").exp_ulps == 32 and checkers_row("float64") is CHECKERS_OWN["float64"]
        assert checkers_row("float32").words == assumptions("float32", ulps=32)[0]
    for damaged in (None, {}, {"claim": None}, {"assumptions": 3}, {"claim": {"premises": [None, 32]}}):
        with assumed_by(damaged):
            assert checkers_row("float32") is CHECKERS_OWN["float32"]


@pytest.mark.parametrize("engine", ["sdpa", "double"])
def test_prover_and_checker_say_the_same_of_an_engine(engine: str) -> None:
    run = as_run("float32", engine)
    assert run.words == assumptions("float32", engine)[0]
    assert run.runtimes == runtimes_of("float32", assumptions("float32", engine), engine)
    assert run.exp_ulps == computing_in("float32", engine).exp_ulps
    charged = arithmetic_of("float32", engine)
    for name in ("unit", "exp_error", "smallest", "largest", "exp_floor", "rounded"):
        assert getattr(charged, name) == getattr(run, name), name


@_ROWS
def test_prover_and_checker_name_the_same_runtimes(row: Precision) -> None:
    said = runtimes_of(row.name, assumptions(row.name))
    assert said == CHECKERS_OWN[row.name].runtimes
    assert row.name in said[0]
    assert any(line.startswith("not ") for line in said)
    assert runtimes_of(row.name, (EXACT_ARITHMETIC,)) == ()
