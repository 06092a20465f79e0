"""Tensor trains, for functions of 2 to 12 variables that can only be asked.

    f(x) ~ G_1(x_1) G_2(x_2) ... G_d(x_d),      G_k(x_k) a matrix of functions of one variable,

by cross approximation (`train/cross.py`), and each factor a layer of attention (`train/gates.py`). The number of
queries grows like d n r^2, with n nodes along a variable and rank r: what has small ranks is cheap in any number of
variables, and what has none (a kink across many variables, say) is not met at all. Nothing is proved: the error is
what fresh queries show.
"""

from __future__ import annotations

import numpy as np

from softwright.approximation.choose import automatic
from softwright.approximation.formula import Formula
from softwright.approximation.problem import Budget, Fit, OutOfBudget, Problem, probe_points
from softwright.approximation.train.build import Trained, train_of
from softwright.approximation.train.gates import gate_stack
from softwright.precision import precision_of

_FEWEST, _MOST = 4, 12  # variables: with fewer, grids are found as fast; beyond, nothing was tried
_QUERIES = 60_000  # for a train where no limit is given
_LOOK = 3000  # points at which stack and train are compared; no queries
_ONE_LAYER = 2.0  # units of work for one layer with no more tokens than the stack


def fit_train(problem: Problem, formula: Formula | None = None) -> Fit | None:
    """A stack of one layer a variable; None for more than 12 variables, or if queries end too soon."""
    found = _trained(problem)
    return None if found is None else _stacked(problem, found)


def fit_asked(problem: Problem, formula: Formula | None = None) -> Fit | None:
    """For a function of four and more variables of which nothing is known."""
    if formula is not None or problem.kinks is not None or problem.saves_queries or problem.dim < _FEWEST:
        return None
    return fit_frugal(problem)


def fit_frugal(problem: Problem, formula: Formula | None = None) -> Fit | None:
    """A train and, if it is met, whatever one layer makes of it.

    One layer is fitted to the train, not to the function: it costs no queries.
    """
    found = _trained(problem)
    if found is None:
        return None
    stacked = _stacked(problem, found)
    if found.error > problem.tolerance:
        return stacked
    return _one_layer(problem, found, stacked) or stacked


def _trained(problem: Problem) -> Trained | None:
    if problem.dim > _MOST:
        return None
    known, most = problem.budget.answers, len(problem.budget.answers) + _QUERIES

    def ask(t: np.ndarray) -> np.ndarray:
        keys = [point.tobytes() for point in np.ascontiguousarray(t)]
        new = np.array([k for k, key in enumerate(keys) if key not in known], dtype=int)
        if len(known) + len(new) > most:
            raise OutOfBudget
        if len(new):
            known.update(zip([keys[k] for k in new], problem.function(t[new]), strict=True))
        return np.array([known[key] for key in keys])

    return train_of(ask, problem.dim, problem.outputs, problem.tolerance, tick=problem.budget.check)


def _stacked(problem: Problem, found: Trained) -> Fit:
    points = probe_points(problem.dim, _LOOK, seed=17)
    stack, off = gate_stack(found.train, 0.4 * problem.tolerance, precision_of(problem.dtype).unit, points)
    ranks = ", ".join(str(layer.constant.shape[1]) for layer in stack.layers[:-1])
    reasons = (
        "a tensor train by cross approximation, one layer a variable" + (f": ranks {ranks}" if ranks else ""),
        f"the train was {found.error:.2g} off, at most, at points that it was not made from",
    )
    return Fit([], found.error + off, "train", reasons, gates=stack)


def _one_layer(problem: Problem, found: Trained, stacked: Fit) -> Fit | None:
    """Heads that add up, with no more tokens than the stack; None if there are none within the work for it."""
    budget = Budget(min(problem.budget.max_tokens, stacked.tokens), _ONE_LAYER, problem.budget.max_seconds)
    left = problem.tolerance - found.error
    asked = Problem(found.train, problem.dim, problem.outputs, left, problem.dtype, (), budget)
    try:
        fit = automatic(asked)
    except OutOfBudget:
        return None
    if fit.error > left or fit.tokens > stacked.tokens:
        return None
    return fit.because("fitted to a tensor train of the callable, which takes few queries")
