"""Errors list every fault at once, name the remedy, and carry what was found."""

from __future__ import annotations

import pytest

from softwright.errors import Faults, FileFormatError, InvalidInput, SoftwrightError, ToleranceNotReached


def test_one_fault_is_one_line() -> None:
    error = InvalidInput("Box", ["side x is empty; widen it"])
    assert str(error) == "Box: side x is empty; widen it"
    assert error.subject == "Box"
    assert error.faults == ["side x is empty; widen it"]


def test_several_faults_are_a_numbered_list() -> None:
    error = InvalidInput("table", ["first", "second"])
    assert str(error).splitlines() == ["table: 2 faults", "  1. first", "  2. second"]


def test_the_list_of_faults_is_a_copy() -> None:
    faults = ["first"]
    error = InvalidInput("table", faults)
    faults.append("later")
    assert error.faults == ["first"]


def test_collector_raises_all_faults_together_and_only_if_there_are_any() -> None:
    faults = Faults("input")
    faults.raise_if_any()
    assert faults.check(True, "never said")
    assert not faults.check(False, "said")
    faults.add("added")
    with pytest.raises(InvalidInput) as caught:
        faults.raise_if_any()
    assert caught.value.faults == ["said", "added"]


@pytest.mark.parametrize("kind", [InvalidInput, FileFormatError, ToleranceNotReached])
def test_one_base_catches_everything(kind: type[Exception]) -> None:
    assert issubclass(kind, SoftwrightError)


@pytest.mark.parametrize("kind", [InvalidInput, FileFormatError])
def test_wrong_input_is_also_a_value_error(kind: type[Exception]) -> None:
    # Callers who know nothing of softwright's errors still catch what Python would have raised.
    assert issubclass(kind, ValueError)


def test_a_missed_tolerance_carries_the_best_result() -> None:
    best = object()
    assert ToleranceNotReached("missed", best).best is best
    assert ToleranceNotReached("missed").best is None


def test_faults_of_what_is_made_join_the_others() -> None:
    faults = Faults("verb")
    faults.add("first")
    assert faults.take(int, "7") == 7

    def refuse(value: int) -> int:
        raise InvalidInput("elsewhere", [f"{value} is wrong", "and late"])

    assert faults.take(refuse, 3) is None
    assert faults.found == ["first", "3 is wrong", "and late"]
