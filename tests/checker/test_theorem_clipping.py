"""Theorems A1 and A2 proved again: what the builder makes is VERIFIED, what a forger makes of it only if it is true."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwright.errors import InvalidInput
from tests.checker.theorem_files import changed_leaves, changed_tensors, lowered, theorem_file

SMALL = {
    "A1": {"points": 9, "tokens": 3, "dim": 2, "a": -2.0, "b": 3.0},
    "A2": {"heads": 3, "tokens": 4, "dim": 2, "a": -2.0, "b": 3.0},
}
SIZES = [
    ("A1", {}),
    ("A1", {"points": 3, "tokens": 2, "dim": 1, "eps0": 0.5, "a": 0.0, "b": 1.0}),
    ("A1", {"points": 300, "tokens": 7, "outputs": 3, "coordinate": 2, "eps0": 1e-14}),
    ("A1", {"a": 0.0, "b": 1e-12}),  # real arithmetic alone
    ("A2", {}),
    ("A2", {"heads": 1, "tokens": 3, "eps0": 0.5}),
    ("A2", {"heads": 16, "tokens": 12, "dim": 3, "a": 1000.0, "b": 1001.0, "outputs": 2, "coordinate": 1}),
    ("A2", {"a": 0.0, "b": 1e-12}),
]


@pytest.mark.parametrize(("label", "sizes"), SIZES)
def test_what_is_built_is_verified(label: str, sizes: dict) -> None:
    file = theorem_file(label, **sizes)
    verdict = file.verdict()
    assert verdict.status == "VERIFIED", verdict
    assert file.holds()
    assert ("real" in verdict.arithmetic) == (sizes.get("b") == 1e-12)


@given(
    st.sampled_from(["A1", "A2"]),
    st.integers(3, 9),
    st.integers(1, 12),
    st.floats(-1e5, 1e5),
    st.floats(-6, 4),
    st.sampled_from([0.5, 0.1, 1e-6, 1e-15, 1e-200]),
)
@settings(max_examples=60)
def test_any_sizes_are_verified(label: str, tokens: int, more: int, a: float, width: float, eps0: float) -> None:
    own = {"points": tokens + more} if label == "A1" else {"heads": more}
    try:
        file = theorem_file(label, tokens=tokens, dim=2, a=a, b=a + 10.0**width, eps0=eps0, **own)
    except InvalidInput as error:  # the points are too close for float64 to tell apart
        assert "float64" in str(error) or "a < b" in str(error)
        return
    verdict = file.verdict()
    assert verdict, verdict


@pytest.mark.parametrize("label", SMALL)
def test_changed_tensors(label: str) -> None:
    refused = 0
    for what, file in changed_tensors(theorem_file(label, **SMALL[label])):
        verified = bool(file.verdict())
        refused += not verified
        assert not verified or file.holds(), what
    assert refused > 60


@pytest.mark.parametrize("label", SMALL)
@pytest.mark.parametrize("section", ["model", "target"])
def test_changed_entries(label: str, section: str) -> None:
    original = theorem_file(label, **SMALL[label])
    for path, file in changed_leaves(original, section):
        if file.verdict():  # the seed says nothing once what it drew is in the file; a and b may move by a rounding
            assert path[-1] in ("seed", "a", "b", "eps0"), path
            assert path[-1] == "seed" or file.sections["target"]["sizes"][path[-1]] == pytest.approx(
                original.sections["target"]["sizes"][path[-1]], rel=1e-15
            )


@pytest.mark.parametrize("label", SMALL)
def test_a_lower_bound(label: str) -> None:
    for what, file in lowered(theorem_file(label, **SMALL[label])):
        assert not file.verdict() or file.holds(count=2_000), what
    halved = theorem_file(label, points=60) if label == "A1" else theorem_file(label, tokens=3, heads=1, eps0=0.5)
    said = halved.sections["certificate"]
    said["exact_part"] /= 2
    said["bound"] /= 2
    assert not halved.verdict()


def test_a_file_without_what_was_drawn_says_so() -> None:
    file = theorem_file("A1", **SMALL["A1"])
    del file.sections["target"]["drawn"]
    assert "build the theorem again" in file.verdict().reason


def test_values_of_two_neighbours_exchanged() -> None:
    """Between two points the mean stays what it was; next to them it does not."""
    file = theorem_file("A1", **SMALL["A1"])
    row = file.tensors["stages.0.R"][6]
    row[[3, 4]] = row[[4, 3]]
    assert not file.verdict()
