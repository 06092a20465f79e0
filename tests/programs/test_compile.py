"""`compile`: what comes out is what the program means, proved, and proved again; what cannot be is refused early."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.programs.examples.continuous import CONTINUOUS
from softwright.programs.examples.library import LIBRARY

LETTERS = sw.Sequence(length=(1, 4), s=sw.Symbols("abc"))
MIXED = sw.Sequence(length=(1, 7), x=(-1, 1), y=(-2, 3), s=sw.Symbols("abc"), k=sw.Integers(-2, 4), t=sw.Truths())
# functions of reals on five tokens, a third of them in float32 too; `benchmarks/sequences.py` has all at their lengths
SHORT = {name: 5 if row in CONTINUOUS else 9 for name, row in LIBRARY.items()} | {"parity": 12}
IN_FLOAT32 = [name for name, row in LIBRARY.items() if row not in CONTINUOUS or CONTINUOUS.index(row) % 3 == 1]


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, "float64") for name in LIBRARY), *((name, "float32") for name in IN_FLOAT32)]
)
def test_the_library_is_exact_or_within_tolerance_and_verified(name: str, dtype: str, tmp_path: Path) -> None:
    row = LIBRARY[name]
    tol, longest = max(row.tol, 1e-3) if dtype == "float64" else 1e-2, SHORT[name]
    if dtype == "float32" and row in CONTINUOUS:  # float32 has few digits for them: what it can is seen on three tokens
        tol, longest = 0.5, 3
    try:
        built = sw.compile(row.text, row.tokens(longest), tol=tol, dtype=dtype)
    except sw.ToleranceNotReached as error:  # functions of reals in float32: what is proved is told, not promised
        assert dtype == "float32" and row in CONTINUOUS
        built, tol = error.best, np.inf
    except sw.InvalidInput as error:
        assert dtype == "float32" and row in CONTINUOUS and "use float64" in str(error)
        return
    assert built.observed_error <= built.certificate.bound <= tol
    if any(kind != "real" for kind in built.network.outputs):
        assert built.certificate.bound == 0.0 == built.observed_error
    built.save(tmp_path / "p.safetensors")
    assert sw.verify(tmp_path / "p.safetensors").status == "VERIFIED"


def _all_texts(symbols: str, longest: int) -> list[str]:
    return ["".join(text) for n in range(1, longest + 1) for text in itertools.product(symbols, repeat=n)]


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("s[n-1-i]", lambda t: list(t[::-1])),
        ("sorted(s)[i]", sorted),
        ("count(s[j] == s[i])", lambda t: [t.count(c) for c in t]),
        (
            "count(s[j] < s[i] or j > i)",
            lambda t: [sum(d < c or j > i for j, d in enumerate(t)) for i, c in enumerate(t)],
        ),
        ("count(s[j] >= s[i] and j != i)", lambda t: [sum(d >= c for d in t) - 1 for c in t]),
        ("all(s[j] == s[n-1-j])", lambda t: [float(t == t[::-1])] * len(t)),
        ("min(j for s[j] == s[i])", lambda t: [t.index(c) for c in t]),
        ("prev(s, 2, default='c')", lambda t: [t[i - 2] if i >= 2 else "c" for i in range(len(t))]),
        ("first(s) == last(s)", lambda t: [float(t[0] == t[-1])] * len(t)),
        ("i % 2 == 0 and s != 'b'", lambda t: [float(i % 2 == 0 and c != "b") for i, c in enumerate(t)]),
        ("count(s[j] == 'a') * (n - i) // 2", lambda t: [t.count("a") * (len(t) - i) // 2 for i in range(len(t))]),
    ],
)
def test_every_sequence_against_python(text: str, meaning) -> None:
    built = sw.compile(text, LETTERS, dtype="float32")
    for sequence in _all_texts("abc", 4):
        assert list(built(s=sequence)) == meaning(sequence), sequence


@pytest.mark.parametrize(
    "text",
    [
        "sum(k[j] for t[j] or k[j] < k[i])",
        "k*k - 2*k, t and k > 0, abs(k)",
        "value(y[j], where=largest(x[j]), margin=0.01)",
        "sum(prev(x, 1, default=1)[j] for j < i)",
        "max(prev(x, 1, default=0.7)[j] for s[j] == 'a')",
        "where(s == 'a', x, 2*y - 0.1)",
        "x*k - y/3",
        "k/(i + 1)",
        "sorted(x, by=k)[n-1-i]",
        "prev(prev(x, 1, default=0.25), 1, default=0.5)",
    ],
)
def test_other_programs(text: str, tmp_path: Path) -> None:
    for dtype, tol in (("float64", 1e-6), ("float32", 1e-2)):
        built = sw.compile(text, MIXED, tol=tol, dtype=dtype, seed=3)
        assert built.observed_error <= built.certificate.bound <= tol
        built.save(tmp_path / "p.safetensors")
        assert sw.verify(tmp_path / "p.safetensors"), text


def test_the_network_is_a_module_with_padding() -> None:
    built = sw.compile("count(s[j] == s[i] and j <= i), s[n-1-i]", sw.Sequence(length=(1, 8), s=sw.Symbols("abc")))
    network = built.network
    assert isinstance(network, torch.nn.Module)
    texts = ["abcabc", "c", "bb"]
    together = built(s=texts)
    for row, text in zip(together, texts, strict=True):
        assert np.array_equal(row[: len(text)], built(s=text))
        assert not row[len(text) :].any()
    with pytest.raises(sw.InvalidInput, match="no symbol"):
        built(s="abx")
    with pytest.raises(sw.InvalidInput, match="takes 1 to 8"):
        built(s="a" * 9)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x < 0.5", "compares real numbers"),
        ("1/x", "divides by what may be 0"),
        ("x[i+1]", "default"),
        ("z + 1", "unknown"),
        ("s + 1", "symbol"),
        ("count(s[j] == 'z')", "no symbol of the fields"),
        ("max(x[j] * y[i])", "token j"),
        ("attend(y[j], x[j] for s[j] == 'a')", "up to i|j <= i"),
        ("sum(x[j]", "ends here"),
        ("tangens(x)", "no function here"),
        ("log(x)", "undefined"),
        ("x**y", "exponents are numbers"),
        ("asin(x)", "steep"),
        ("max(s[j] for j > i)", "several cases"),
        ("max(x[j] for k[j] != k[i] and j != i)", "more than 24 cases"),
        ("value(y[j], where=largest(x[j]))", "margin"),
        ("i = 3; i", "already"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(text: str, fault: str) -> None:
    with pytest.raises(sw.InvalidInput, match=fault) as error:
        sw.compile(text, MIXED)
    assert "^" in str(error.value)


def test_all_faults_come_together() -> None:
    with pytest.raises(sw.InvalidInput) as error:
        sw.compile("mean(z)", {"length": (1, 4), "x": (-1, 1)}, tol=-1, dtype="float16")
    assert len(error.value.faults) == 3
    with pytest.raises(sw.InvalidInput) as error:
        sw.Sequence(length=(3, 1), x=(1, 0), s=sw.Symbols("aa"), n=(0, 1))
    assert len(error.value.faults) >= 4


def test_a_tolerance_that_is_not_reached_says_so_and_keeps_the_best() -> None:
    with pytest.raises(sw.ToleranceNotReached, match="larger tolerance") as error:
        sw.compile("sum(x[j] for j <= i)", sw.Sequence(length=64, x=(-1, 1)), tol=1e-9, dtype="float32")
    assert error.value.best.certificate.bound > 1e-9


def test_hypotheses_are_in_the_claim() -> None:
    built = sw.compile("value(x[j], where=smallest(y[j]), margin=0.125)", MIXED)
    assert "the largest -y[j] leads by at least 0.125" in built.certificate.statement


@pytest.mark.parametrize("text", ["n", "count(s[j] < s[i] and j <= i)", "s[n-1-i]"])
def test_numbers_of_two_digits_are_verified(text: str, tmp_path: Path) -> None:
    """A range whose size is a power of two needs one more bit: its last number must not look like no number."""
    built = sw.compile(text, sw.Sequence(length=(1, 256), s=sw.Symbols("abc")), dtype="float32")
    assert built.observed_error == 0.0 == built.certificate.bound
    built.save(tmp_path / "p.safetensors")
    assert sw.verify(tmp_path / "p.safetensors")
