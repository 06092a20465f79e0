"""Strategy `compose`: the formula is cut into features, each a head of a few tokens, in layers of one residual stream.

Cost grows with the formula, not with the number of variables. The rules are in `compiler/translate.py`, the heads and
their lemmas in `compiler/tables.py` and `compiler/gates.py`, the proof in `compiler/adjoints.py`: errors of heads times
Lipschitz constants, summed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from softwright.approximation.formula import Formula
from softwright.approximation.problem import Budget, Fit, OutOfBudget, Problem, affine_fit, probe_points
from softwright.compiler.build import Compiled, NothingToCompile, compile_formula
from softwright.compiler.look import check_rewriting
from softwright.compiler.nodes import CannotCompile
from softwright.domain import Box
from softwright.errors import InvalidInput
from softwright.precision import Precision, precision_of
from softwright.targets.formula import Expression, is_affine

if TYPE_CHECKING:
    from softwright.compiler.integrals import NormProof

_SHARE = 0.3  # of the work, before anything else is tried


def fit_compose(problem: Problem, formula: Formula | None) -> Fit | None:
    """The stack of a formula; an `InvalidInput` that names the sub-expression if it cannot be compiled."""
    try:
        return fit_composed(problem, formula)
    except CannotCompile as error:
        raise cannot_compile(error) from error


def cannot_compile(error: CannotCompile) -> InvalidInput:
    """The same as something that is wrong with the input, with a remedy."""
    remedy = "choose another strategy, or a box on which it keeps clear of this"
    return InvalidInput("compose", [f"{error}; {remedy}"])


def fit_composed(problem: Problem, formula: Formula | None) -> Fit | None:
    """The same for the automatic choice; raises `CannotCompile`. None without a formula."""
    if formula is None:
        return None
    expression, box = formula.expression, formula.box
    if all(map(is_affine, expression.nodes)):
        return _affine(problem)
    problem.budget.say("cutting the formula into a stack of layers")
    precision = precision_of(problem.dtype)
    try:
        compiled = compile_formula(expression, box, problem.tolerance, precision, problem.budget.check, problem.gap)
    except NothingToCompile:
        if (fit := _affine(problem)) is not None:
            return fit
        raise
    check_rewriting(compiled.program, expression, box)
    error = float("inf") if compiled.proof.faults else compiled.proof.bound
    return Fit([], error, "compose", reasons(compiled), composed=compiled)


def _affine(problem: Problem) -> Fit | None:
    points = probe_points(problem.dim, 4000, seed=1)
    return affine_fit(problem, points, problem.function(points))


def fit_in_norm(
    expression: Expression, box: Box, tolerance: float, p: int, precision: Precision, budget: Budget
) -> tuple[Fit, Compiled, NormProof] | None:
    """The stack of a formula that may jump, for an L_p norm, with what is proved of that norm; None if it is affine
    once its comparisons are decided."""
    from softwright.compiler.integrals import compile_in_norm

    try:
        compiled, norm = compile_in_norm(expression, box, tolerance, p, precision, budget.check)
    except NothingToCompile:
        return None
    except CannotCompile as error:
        raise cannot_compile(error) from error
    check_rewriting(compiled.program, expression, box)
    told = f"outside of bands of gap {compiled.program.gap:.3g} the error is at most {compiled.proof.bound:.3g}"
    return Fit([], norm.bound, "compose", (told, *reasons(compiled)), composed=compiled), compiled, norm


def proved_stack(problem: Problem, formula: Formula | None) -> Fit | str:
    """The stack of a formula if its proof meets the tolerance and it has no more tokens than allowed.

    Otherwise the reason why there is none, in words; nothing, where no stack is to be compared with.
    """
    if formula is None or (formula.jumps and problem.gap is not None):  # a gap is asked of the stack itself
        return ""
    try:
        with problem.budget.share(_SHARE):
            fit = fit_composed(problem, formula)
    except CannotCompile as error:
        return f"no stack is compiled ({error})"
    except OutOfBudget:
        return "no stack was compiled with its share of the work"
    if fit is None or fit.composed is None:
        return ""
    if not fit.composed.proved:
        return f"a stack of {fit.tokens} tokens is proved to {fit.error:.3g} only"
    most = problem.budget.max_tokens
    return fit if fit.tokens <= most else f"a stack has {fit.tokens} tokens, more than the {most} that are allowed"


def reasons(compiled: Compiled) -> tuple[str, ...]:
    """What was cut into what."""
    program, heads = compiled.program, compiled.heads
    features = len(program.features) - len(program.names)
    size = f"{features} features in {program.depth} layers of {heads.count} heads, {heads.tokens} tokens"
    found = [f"the formula is {size}"]
    if program.differences:
        listed = ", ".join(program.differences[:6]) + (", ..." if len(program.differences) > 6 else "")
        where = f"where none of {listed} is within {program.gap:g} of 0"
        found.append(f"{len(program.differences)} jump(s): proved {where}; elsewhere between the values of each jump")
    found += [f"{condition.text} on the box: {condition.why}" for condition in program.conditions]
    return tuple(found)
