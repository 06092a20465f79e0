"""Verdicts: one truth value, one exit code each, what they are about, and a limit of time."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import softwright as sw
from softwright.checker.limits import UndecidedError, check_time, limited
from softwright.checker.parser import DEEPEST
from softwright.checker.verdict import GIVEN, NOT_VERIFIED, ON_A_PART, VERIFIED, Verdict, settled
from softwright.cli import app
from softwright.proof import certify
from softwright.targets.formula.checks import DEEPEST as DEEPEST_LOADED
from tests.contracts.kinds_made import MADE


def damped(t: np.ndarray) -> np.ndarray:
    return np.exp(-t) * np.cos(5 * t)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file for every verdict."""
    folder, side, whole = tmp_path_factory.mktemp("verdicts"), sw.Box(t=(0, 2)), MADE["approximation"]()
    part = certify(whole.network, "sin(x)", domain=sw.Box(x=(-0.5, 0.5)), bound=1e-4).certificate
    built = {
        VERIFIED: whole,
        ON_A_PART: sw.Built(whole.network, whole.plan, whole.target, certificate=part),
        GIVEN: sw.approximate(sw.Function(damped, side, second_derivative=26), side, tol=1e-3),
        NOT_VERIFIED: sw.approximate("sin(x)", sw.Box(x=(-1, 1)), tol=1e-4, certify=False),
    }
    for status, one in built.items():
        one.save(folder / f"{status}.safetensors")
    return {status: folder / f"{status}.safetensors" for status in built}


@pytest.mark.parametrize(("status", "code"), [(VERIFIED, 0), (ON_A_PART, 5), (GIVEN, 6), (NOT_VERIFIED, 1)])
def test_every_verdict_has_its_truth_value_and_its_exit_code(paths: dict[str, Path], status: str, code: int) -> None:
    verdict = sw.verify(paths[status])
    assert verdict.status == status
    assert bool(verdict) == (status == VERIFIED)
    assert str(verdict).startswith(status)
    shown = CliRunner().invoke(app, ["verify", str(paths[status])])
    assert shown.exit_code == code
    assert shown.stdout.startswith(status)
    told = CliRunner().invoke(app, ["verify", str(paths[status]), "--json"])
    assert told.exit_code == code
    content = json.loads(told.stdout)
    assert (content["ok"], content["status"]) == (status == VERIFIED, status)
    if status != NOT_VERIFIED:
        assert {content["dtype"], content["arithmetic"]} == {"float64"}
        assert content["target"] and content["domain"] and content["hypotheses"][:2] == ["ieee754", "exp-ulp<=4"]
    assert bool(content["given"]) == (status == GIVEN)


def test_hypotheses_of_a_callable_are_named(paths: dict[str, Path]) -> None:
    verdict = sw.verify(paths[GIVEN])
    assert verdict.given == ("callable-values", "user-second-derivative", "stated-exact-part")
    assert verdict.boxes > 0  # cover and rounding were proved again


def test_time_is_limited(paths: dict[str, Path]) -> None:
    verdict = sw.verify(paths[VERIFIED], max_seconds=0.0)
    assert verdict.status == NOT_VERIFIED
    assert "undecided within 0 s" in verdict.reason
    assert CliRunner().invoke(app, ["verify", str(paths[VERIFIED]), "--max-seconds", "0"]).exit_code == 1
    assert sw.verify(paths[VERIFIED])


def test_a_limit_holds_within_its_block_only() -> None:
    check_time()
    with limited(0.001):
        time.sleep(0.002)
        with pytest.raises(UndecidedError, match=r"undecided within 0\.001 s"):
            check_time()
        with limited(60):
            check_time()
    check_time()


def test_a_verdict_given_nothing_is_verified() -> None:
    assert settled("all") == Verdict(VERIFIED, "all")
    assert settled("all", ["x"]).status == GIVEN


def test_who_loads_and_who_checks_read_formulas_of_the_same_depth() -> None:
    assert DEEPEST == DEEPEST_LOADED
