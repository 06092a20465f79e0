"""Sums over pairs of tokens, and the order of real numbers: against plain numpy, verified, forged and refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from flint import arb, fmpq

import softwright as sw
from softwright.attention.program import ProgramNetwork
from softwright.checker.programs.pairs.exponentials import check_sum
from softwright.checker.refusal import NotProvedError
from softwright.checker.verify import reprove
from softwright.compiler.nodes import Expression
from softwright.fileformat import ModelFile, read_model, weights_sha256
from softwright.programs.meaning import meaning
from softwright.programs.observe import observe
from softwright.programs.pairs.exponentials import fit_sum, proved

TOKENS = sw.Sequence(length=(1, 6), x=(-1, 1), y=(0.5, 2), s=sw.Symbols("ab"))
ORDERED = sw.Sequence(length=(1, 8), x=(-1, 1))
_TIE = 1e-4  # of the scale at which the head of order mixes


def _apart(x: np.ndarray) -> np.ndarray:
    """(i, j): x_j - x_i"""
    return x[None, :] - x[:, None]


@pytest.mark.parametrize(
    ("text", "tol", "meant"),
    [
        ("sorted(x)[i]", 1e-3, lambda x, y, s: np.sort(x)),
        ("median(x - y)", 1e-2, lambda x, y, s: np.full(len(x), np.sort(x - y)[(len(x) - 1) // 2])),
        ("sorted(x)[n-1-i] - sorted(x)[0]", 1e-3, lambda x, y, s: np.sort(x)[::-1] - x.min()),
        ("sum((x[j] - x[i]) / ((x[j] - x[i])**2 + 0.05)**1.5 for j)", 1e-4, None),
        (
            "sum(y[j]*(x[j] - x[i]) / ((x[j] - x[i])**2 + (y[j] - y[i])**2 + 0.3) for j != i)",
            1e-4,
            lambda x, y, s: (y * _apart(x) / (_apart(x) ** 2 + _apart(y) ** 2 + 0.3)).sum(axis=1),
        ),
        ("mean(exp(-abs(x[j] - x[i])))", 1e-4, lambda x, y, s: np.exp(-abs(_apart(x))).mean(axis=1)),
        (
            "sum(y[j]*exp(-2*(x[j] - x[i])**2) for j <= i)",
            1e-7,
            lambda x, y, s: np.tril(y * np.exp(-2 * _apart(x) ** 2)).sum(axis=1),
        ),
        (
            "sum(log(1 + (x[j]*y[i])**2) for s[j] == s[i])",
            1e-4,
            lambda x, y, s: (np.log(1 + (x * y[:, None]) ** 2) * (s == s[:, None])).sum(axis=1),
        ),
        ("sum(max(x[j], y[i]))", 1e-3, lambda x, y, s: np.maximum(x, y[:, None]).sum(axis=1)),
        ("sum(x[j]*y[i] - x[i]/y[j])", 1e-6, lambda x, y, s: (x * y[:, None] - x[:, None] / y).sum(axis=1)),
    ],
)
def test_sums_over_pairs(text: str, tol: float, meant: Callable | None, tmp_path: Path) -> None:
    built, rng = sw.compile(text, TOKENS, tol=tol), np.random.default_rng(1)
    assert built.observed_error <= built.certificate.bound <= tol
    built.save(tmp_path / "p.safetensors")
    verdict = sw.verify(tmp_path / "p.safetensors")
    assert verdict, verdict.reason
    if meant is None:
        return
    for n in (1, 2, 6):
        x, y = rng.uniform(-1, 1, n), rng.uniform(0.5, 2, n)
        s = rng.choice(["a", "b"], n)
        assert np.abs(built(x=x, y=y, s=list(s)) - meant(x, y, s)).max() <= built.certificate.bound + 1e-12


@lru_cache(maxsize=1)
def _sorting() -> sw.Built:
    return sw.compile("sorted(x)[i]", ORDERED, tol=1e-3)


def test_order_holds_at_ties_and_near_ties() -> None:
    built, rng = _sorting(), np.random.default_rng(2)
    for _ in range(40):
        n, scale = int(rng.integers(1, 9)), _TIE * rng.choice([0.0, 0.1, 0.9, 1.0, 2.0, 7.0])
        x = np.clip(rng.choice(rng.uniform(-1, 1, 2), n) + scale * rng.integers(-2, 3, n), -1, 1)
        assert np.abs(built(x=x) - np.sort(x)).max() <= built.certificate.bound


def test_the_exponential_sum_is_proved_twice_and_not_below_what_it_errs() -> None:
    """sqrt has no series at 0: the sum's largest error is there."""
    node = Expression("sqrt(u)", names=["u"]).nodes[0]
    found = fit_sum(node, Fraction(0), Fraction(4), 1e-12, 1e-14, 1e-4)
    shown = None if found is None else proved(node, found, 1e-4)
    assert shown is not None and shown.exact <= 1e-4
    terms = [(Fraction(rate), arb(factor)) for rate, factor in zip(shown.rates, shown.factors, strict=True)]
    check_sum(("sqrt", ("variable", 0)), Fraction(0), Fraction(4), terms, Fraction(shown.exact))
    u = np.linspace(0, 2, 4001) ** 2
    error = np.abs(np.exp(-np.array(shown.rates) * u[:, None]) @ np.array(shown.factors) - np.sqrt(u)).max()
    with pytest.raises(NotProvedError):
        check_sum(("sqrt", ("variable", 0)), Fraction(0), Fraction(4), terms, Fraction(0.99 * error))
    with pytest.raises(NotProvedError):
        other = ("product", [(1, ("sqrt", ("variable", 0))), (1, ("number", fmpq(1001, 1000)))])
        check_sum(other, Fraction(0), Fraction(4), terms, Fraction(shown.exact))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sorted(y, by=x)[i]", "margin"),
        ("sum(exp(x[j]*y[i]) / (1 + (x[j] - x[i])**2))", "depends on"),
        ("sum(1/(x[j] - x[i]))", "may be 0"),
        ("max(x[j] - x[i])", "token j"),
    ],
)
def test_what_has_no_kernel_is_refused_with_a_remedy(text: str, reason: str) -> None:
    with pytest.raises(sw.InvalidInput, match=reason):
        sw.compile(text, TOKENS, tol=1e-3)


def test_forged_kernels_are_refused_or_still_covered(tmp_path: Path) -> None:
    """Weights changed by a thousandth, one at a time: a file that is VERIFIED still keeps its bound."""
    _sorting().save(tmp_path / "p.safetensors")
    true, rng = read_model(tmp_path / "p.safetensors"), np.random.default_rng(3)
    meant, bound, caught = meaning("sorted(x)[i]", ORDERED), true.sections["certificate"]["claim"]["bound"], 0
    names = [name for name, array in true.tensors.items() if array.any()]
    for _ in range(8):
        tensors = {name: array.copy() for name, array in true.tensors.items()}
        flat = tensors[str(rng.choice(names))].reshape(-1)
        flat[rng.choice(np.flatnonzero(flat))] *= 1.001
        said = copy.deepcopy(true.sections)
        said["certificate"]["claim"]["subject"]["sha256"] = weights_sha256(tensors)
        if not reprove(ModelFile(tensors, said)).verified:
            caught += 1
            continue
        assert observe(ProgramNetwork.rebuilt(true.sections["model"], tensors), meant, bound).error <= bound
    assert caught > 4


@pytest.mark.parametrize("text", ["sorted(-x)[i]", "sorted(x)[n-1-i]", "x"])
def test_no_other_order_is_verified(text: str, tmp_path: Path) -> None:
    _sorting().save(tmp_path / "p.safetensors")
    file = read_model(tmp_path / "p.safetensors")
    for target in (file.sections["target"], file.sections["certificate"]["claim"]["reference"]["target"]):
        target["text"] = text
    assert not reprove(file).verified


def test_the_mean_of_the_three_nearest(tmp_path: Path) -> None:
    tokens, rng = sw.Sequence(length=(3, 7), x=(-1, 1), y=(-1, 1), q=(-1, 1)), np.random.default_rng(5)
    text = "value(y[j], where=smallest((x[j] - q[i])**2), margin=0.001, count=3)"
    built = sw.compile(text, tokens, tol=1e-6)
    assert "number 3 of the largest" in built.certificate.statement
    assert built.observed_error <= built.certificate.bound <= 1e-6
    for n in (3, 5, 7):
        x, y, q = np.linspace(-1, 0.9, n) ** 3, rng.uniform(-1, 1, n), rng.uniform(-1, 1, n)
        away = np.sort((x - q[:, None]) ** 2, axis=1)[:, :4]
        good = (np.diff(away, axis=1) >= 0.001).all(axis=1)
        meant = np.array([y[np.argsort((x - one) ** 2)[:3]].mean() for one in q])
        assert np.abs(built(x=x, y=y, q=q) - meant)[good].max(initial=0) <= built.certificate.bound + 1e-15
    built.save(tmp_path / "p.safetensors")
    assert sw.verify(tmp_path / "p.safetensors")
    file = read_model(tmp_path / "p.safetensors")
    for target in (file.sections["target"], file.sections["certificate"]["claim"]["reference"]["target"]):
        target["text"] = text.replace("count=3", "count=2")
    assert not reprove(file).verified


def test_more_neighbours_than_tokens_are_refused() -> None:
    tokens = sw.Sequence(length=(1, 7), x=(-1, 1))
    with pytest.raises(sw.InvalidInput, match="count is a number from 1 to 1"):
        sw.compile("value(x[j], where=largest(x[j]), margin=0.1, count=2)", tokens)
