"""Sums and means of reals over few places around a token."""

from __future__ import annotations

import copy
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import softwright as sw
from softwright.checker.verify import reprove
from softwright.fileformat import ModelFile, read_model
from softwright.programs.meaning import meaning
from softwright.programs.reading.windows import window_of
from tests.programs.plain_python import Plain

TOKENS = sw.Sequence(length=(1, 8), x=(-1, 1), k=sw.Integers(0, 3))
WINDOWS = {
    "abs(i - j) <= 2": lambda i, j: abs(i - j) <= 2,
    "j > i - 3 and j <= i": lambda i, j: i - 3 < j <= i,
    "2*j - 3 < 2*i and j >= i - 1": lambda i, j: 2 * j - 3 < 2 * i and j >= i - 1,
    "2*i - 2*j < 3 and j <= i": lambda i, j: 2 * i - 2 * j < 3 and j <= i,
    "-j < 2 - i and 3 - j >= 1 - i": lambda i, j: -j < 2 - i and 3 - j >= 1 - i,
    "j == i + 2": lambda i, j: j == i + 2,
}
NONE = ("not j > i and i - j <= 1", "j <= i + 2", "j + i <= 3 and j >= i", "j > i + 2 and j < i", "abs(i - j) <= 5")
NONE += ("abs(i - j) <= 1 and k[j] == k[i]", "2*j == 2*i + 1", "j >= 2 and j <= 4")


@pytest.mark.parametrize("condition", WINDOWS)
def test_a_window_has_the_places_of_its_condition(condition: str) -> None:
    found = window_of(meaning(f"count({condition})", TOKENS).outputs[0].args[1])
    assert found is not None
    for i in range(-4, 5):
        for j in range(-9, 10):
            assert WINDOWS[condition](i, j) == (found[0] <= j - i <= found[1])


@pytest.mark.parametrize("condition", NONE)
def test_what_is_no_window_is_left_as_it_is(condition: str) -> None:
    assert window_of(meaning(f"count({condition})", TOKENS).outputs[0].args[1]) is None


def test_windows_are_exact_in_proportion_to_what_they_add(tmp_path: Path) -> None:
    text = "mean(x[j] for abs(i - j) <= 2), sum(x[j]*k[j] for j > i - 3 and j <= i), sum(2*x[j] + 1 for j == i + 2)"
    built = sw.compile(text, TOKENS, tol=1e-3, dtype="float32", progress=False)
    assert built.certificate.bound < 2e-4
    path = tmp_path / "w.safetensors"
    built.save(path)
    assert sw.verify(path, progress=False).verified
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 8):
        fields = {"x": rng.uniform(-1, 1, n).astype(np.float32).tolist(), "k": rng.integers(0, 4, n).tolist()}
        exact = {name: [Fraction(v) for v in row] for name, row in fields.items()}
        wanted = np.array(Plain(text, exact, ()).outputs, dtype=float)
        assert np.abs(built(**fields) - wanted).max() <= built.certificate.bound
    for other in ("<= 1", "<= 3", "< 2"):  # the claim of another window
        base = read_model(path)
        sections = copy.deepcopy(base.sections)
        for target in (sections["certificate"]["claim"]["reference"]["target"], sections["target"]):
            target["text"] = target["text"].replace("<= 2", other)
        assert not reprove(ModelFile(dict(base.tensors), sections)).verified
