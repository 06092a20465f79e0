"""What `approximate` was asked for: everything that can be wrong with it is found before any work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from softwright.approximation.catalogue import STRATEGIES
from softwright.approximation.in_norm import norm_faults
from softwright.approximation.problem import probe_points
from softwright.approximation.readable import style_faults
from softwright.approximation.strategies.between import WAYS
from softwright.attention import ENGINES
from softwright.domain import Box, as_box
from softwright.errors import Faults, InvalidInput, UndefinedFormula
from softwright.precision import Precision, precision_of
from softwright.targets import Expression, Table, Target, as_target

FEWEST_QUERIES = 100  # with fewer nothing can be said of a function


def checked(
    target: Any,
    box: Any,
    tol: Any,
    strategy: Any,
    dtype: Any,
    gap: Any,
    norm: Any,
    limits: dict[str, Any],
    tightness: Any,
    switches: dict[str, Any],
    max_queries: Any = None,
    noise: Any = None,
    style: Any = "plain",
    between: Any = "auto",
    engine: Any = "auto",
) -> tuple[Target, Box, Precision]:
    """Everything that can be wrong with the input, found before any work and reported together."""
    faults = Faults("approximate")
    if box is None and isinstance(target, Table):
        domain = target.box
    elif faults.check(box is not None, "no box; give the domain, for example Box(x=(-1, 1))"):
        domain = faults.take(as_box, box, _names(target, box))
    else:
        domain = None
    faults.check(_is_positive(tol), f"tol must be a positive number, got {tol!r}; try tol=1e-6")
    known = isinstance(strategy, str) and strategy in STRATEGIES
    faults.check(known, f"unknown strategy {strategy!r}; choose from {', '.join(STRATEGIES)}")
    strategy = strategy if known else "auto"  # for what else is looked at
    precision = faults.take(precision_of, dtype)
    known = ("auto", *ENGINES)
    if faults.check(engine in known, f"unknown engine {engine!r}; choose from {', '.join(known)}"):
        single = engine != "double" or precision is None or precision.name == "float32"
        faults.check(single, "engine 'double' is for dtype='float32'; float64 networks compute so by themselves")
        stacked = strategy in ("compose", "train") and engine not in ("auto", "sdpa")
        faults.check(not stacked, f"strategy={strategy!r} builds stacks, which have one engine; leave engine= out")
    if gap is not None:
        faults.check(_is_positive(gap), f"gap must be a positive number, got {gap!r}; try gap=1e-6")
        composing = strategy in ("auto", "compose")
        faults.check(composing, f"gap= is for stacks; use strategy='compose' or leave it out, not {strategy!r}")
    aim = tightness is None or (isinstance(tightness, int | float) and 1e-3 <= tightness <= 10)
    faults.check(aim, f"tightness must lie between 0.001 and 10, or be None, got {tightness!r}; 0.1 is usual")
    for name, switch in switches.items():
        faults.check(isinstance(switch, bool | np.bool_), f"{name} must be True or False, got {switch!r}")
    if not isinstance(norm, str | int | float):
        faults.add(f"norm must be 'sup', 'L1', 'L2', ... or a number, got {norm!r}; leave it out for sup")
        norm = "sup"
    most = limits["max_tokens"]
    faults.check(isinstance(most, int) and most >= 1, f"max_tokens must be at least 1, got {most!r}")
    for name in ("max_work", "max_seconds"):
        real = isinstance(limits[name], int | float) and limits[name] > 0  # no limit at all is inf
        faults.check(real, f"{name} must be a positive number, got {limits[name]!r}; leave it out for the default")
    if max_queries is not None:
        whole = isinstance(max_queries, int) and not isinstance(max_queries, bool) and max_queries >= FEWEST_QUERIES
        faults.check(whole, f"max_queries must be a whole number from {FEWEST_QUERIES} on, got {max_queries!r}")
        asked = not isinstance(target, str | Expression | Table | tuple)
        faults.check(asked, "max_queries is for callables; leave it out: formulas and tables are not asked")
    is_table = isinstance(target, Table) or (isinstance(target, tuple) and len(target) == 2)
    faults.found += _noise_faults(noise, is_table, strategy, norm)
    ways = ", ".join(WAYS)
    faults.check(isinstance(between, str) and between in WAYS, f"between must be one of {ways}, got {between!r}")
    if isinstance(between, str) and between in ("linear", "smooth"):
        faults.check(is_table, "between= is for tables on a grid; leave it out: formulas and callables are asked there")
    wanted = None
    if domain is not None:
        wanted = faults.take(as_target, target, domain)
    elif isinstance(target, str):
        faults.take(Expression, target)
    if wanted is not None and gap is not None:
        faults.check(isinstance(wanted, Expression), "gap= is for the jumps of a formula; this target is none")
    faults.found += norm_faults(norm, wanted, gap, strategy)
    faults.found += style_faults(style, wanted, domain, norm, gap, strategy)
    if wanted is not None and domain is not None:
        faults.found += wanted.faults_on(domain)
    if isinstance(wanted, Expression) and domain is not None and (places := wanted.undefined_places(domain)):
        raise UndefinedFormula("approximate", faults.found, places)
    faults.raise_if_any()
    if wanted is None or domain is None or precision is None:
        raise RuntimeError("unreachable: a missing target, box or dtype is a fault")
    return wanted, domain, precision


def _names(target: Any, box: Any) -> tuple[str, ...] | None:
    """The variables that the target itself names, for a box that does not; None if it names none."""
    if isinstance(box, Box | Mapping):
        return None
    try:
        known = Expression(target) if isinstance(target, str) else target
    except InvalidInput:
        return None  # what is wrong with the formula is said when it is read for the box
    return known.names if isinstance(known, Target) else None


def absolute_tolerance(target: Target, box: Box, tol: float, relative: bool) -> float:
    """The tolerance in the target's units; relative means times half its range (never larger than max|f|)."""
    if not relative:
        return float(tol)
    given = target.given_points()
    probes = 6000 if target.left is None else min(6000, target.left // 10)
    values = target(box.from_unit(probe_points(box.dim, probes, seed=61))) if given is None else given[1]
    half_range = 0.5 * float((values.max(axis=0) - values.min(axis=0)).max())
    if half_range == 0:
        half_range = max(float(np.abs(values).max()), 1.0)
    return float(tol) * half_range


def largest_value(target: Target, box: Box) -> float:
    """The largest |value| of a formula seen at some points; 0 if it is constant there."""
    values = target(box.from_unit(probe_points(box.dim, 2000, seed=61)))
    return float(np.abs(values).max(initial=0.0)) if np.ptp(values) > 0 else 0.0


def check_resolution(target: Target, box: Box, tolerance: float, precision: Precision) -> None:
    """Refuse what no network can be proved to meet: numbers beyond the type's range, and of formulas a tolerance finer
    than half a step between floats at its values."""
    largest = largest_value(target, box) if isinstance(target, Expression) else 0.0
    reach = max(largest, float(np.abs([box.lower, box.upper]).max()))
    if np.isfinite(reach) and reach > precision.largest / 16:
        wider = "dtype='float64' or " if precision.name != "float64" else ""
        what = "values" if largest == reach else "variables"
        fault = f"the {what} reach {reach:.3g}, next to the end of {precision.name}; take {wider}other units"
        raise InvalidInput("approximate", [fault])
    if not isinstance(target, Expression):
        return
    if np.isfinite(largest) and tolerance < 0.5 * precision.unit * largest:
        raise InvalidInput("approximate", [resolution_advice(tolerance, largest, precision)])


def resolution_advice(tolerance: float, largest: float, precision: Precision) -> str:
    step = 2 * precision.unit * 2.0 ** np.floor(np.log2(largest))
    finer = "" if precision.name == "float64" else "dtype='float64', "
    return (
        f"the values reach {largest:.3g}, where {precision.name} numbers are {step:.2g} apart: a tolerance of "
        f"{tolerance:.3g} is too fine for them; take {finer}relative=True (a share of half the range), "
        f"tol={200 * step:.1g} or more, or other units"
    )


def _noise_faults(noise: Any, is_table: bool, strategy: Any, norm: Any) -> list[str]:
    """What is wrong with the option, each with its remedy."""
    if noise is None:
        return []
    found = []
    if not (isinstance(noise, str) and noise == "auto") and not (_is_positive(noise) and not isinstance(noise, bool)):
        found.append(f'noise must be "auto", a standard deviation above 0 or None, got {noise!r}; try noise="auto"')
    if not is_table:
        found.append("noise= is for tables of measurements; formulas and callables have none: leave it out")
    if strategy != "auto" or norm != "sup":
        found.append("noise= chooses its tokens by cross-validation; leave out strategy= and norm=")
    return found


def _is_positive(given: Any) -> bool:
    return isinstance(given, int | float) and 0 < given < np.inf
