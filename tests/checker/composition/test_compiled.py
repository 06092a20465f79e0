"""Programs of the compiler are recognised as their formulas, and changed ones are not."""

from __future__ import annotations

import random
import re
import time
from typing import Any

import numpy as np
import pytest

from softwright.checker.composition.program import Program, read_program
from softwright.checker.composition.ranges import Ranges
from softwright.checker.composition.same import prove_defined, prove_same
from softwright.checker.parser import Parser
from softwright.checker.refusal import NotProvedError
from softwright.compiler.features import INPUT
from softwright.compiler.nodes import Expression, text
from softwright.compiler.translate import translate
from softwright.domain import Box

Sides = dict[str, tuple[float, float]]


def sides(names: str, low: float, high: float) -> Sides:
    return dict.fromkeys(names.split(), (low, high))


A = "(P0*S+19.62*M-k*V0/S)"
V = f"(S/(2*k)*(sqrt({A}**2+4*k*P0*V0*Ta/T0)-{A}))"
CASES: dict[str, tuple[str, Sides]] = {
    "I.6.2b": ("exp(-((t-t1)/sigma)**2/2)/(sqrt(2*pi)*sigma)", sides("t t1 sigma", 1, 3)),
    "I.16.6": ("(u+v)/(1+u*v/c**2)", sides("c v u", 1, 5)),
    "I.30.3": ("I0*sin(n*t/2)**2/sin(t/2)**2", sides("I0 t n", 1, 5)),
    "I.32.17": (
        "0.5*q*c*E**2*(8*pi*r**2/3)*(w**4/(w**2-w0**2)**2)",
        {**sides("q c E r w", 1, 2), "w0": (3, 5)},
    ),
    "I.40.1": ("n0*exp(-m*g*x/(kb*T))", sides("n0 m x T g kb", 1, 5)),
    "I.41.16": ("h/(2*pi)*w**3/(pi**2*c**2*(exp((h/(2*pi))*w/(kb*T))-1))", sides("w T h kb c", 1, 5)),
    "II.35.18": ("n0/(exp(m*B/(kb*T))+exp(-m*B/(kb*T)))", sides("n0 kb T m B", 1, 3)),
    "kink": ("abs(x**2+y**2-0.5)", sides("x y", -1, 1)),
    "maximum": ("max(sin(x), cos(y))*min(x, y, 0.3)", sides("x y", -3, 3)),
    "exp of abs": ("exp(abs(x-y))*cos(z)", sides("x y z", -1, 1)),
    "even root": ("sqrt(x**2*y)+(x**2)**1.5", {"x": (-1, 2), "y": (1, 2)}),
    "negative factors": ("sqrt(x*y)/log(x*y)+x**3/y", {"x": (-4, -2), "y": (-3, -2)}),
    "angle": ("atan2(x*y, 1+x**2)-hypot(x, 2+y)", sides("x y", -1, 2)),
    "powers": ("x**y+2**(x*y)+xlogy(y, x)", sides("x y", 1, 2)),
    "surds": ("hypot(x+sqrt(2), 1+abs(y*(1+sqrt(2))-2))/(1+pi**2)", sides("x y", 0.1, 2)),
    "borehole": (
        "2*pi*Tu*(Hu-Hl)/(log(r/rw)*(1+2*L*Tu/(log(r/rw)*rw**2*Kw)+Tu/Tl))",
        {
            "rw": (0.05, 0.15),
            "r": (100, 50000),
            "Tu": (63070, 115600),
            "Hu": (990, 1110),
            "Tl": (63.1, 116),
            "Hl": (700, 820),
            "L": (1120, 1680),
            "Kw": (9855, 12045),
        },
    ),
    "piston": (
        f"2*pi*sqrt(M/(k+S**2*P0*V0*Ta/(T0*{V}**2)))",
        {
            "M": (30, 60),
            "S": (0.005, 0.020),
            "V0": (0.002, 0.010),
            "k": (1000, 5000),
            "P0": (90000, 110000),
            "Ta": (290, 296),
            "T0": (340, 360),
        },
    ),
    "OTL": (
        "((12*b/(a+b)+0.74)*B*(c+9))/(B*(c+9)+f)+11.35*f/(B*(c+9)+f)+0.74*f*B*(c+9)/((B*(c+9)+f)*d)",
        {"a": (50, 150), "b": (25, 70), "f": (0.5, 3), "d": (1.2, 2.5), "c": (0.25, 1.2), "B": (50, 300)},
    ),
}


def parts(formula: str, box: Sides) -> dict[str, Any]:
    """The program as the certificate spells it."""
    program = translate(Expression(formula, list(box)), Box(box))
    names = program.symbols
    rows = []
    for f in program.features:
        if f.kind != INPUT:
            score, value, base = (text(form.node(names)) for form in (f.score, f.value, f.base))
            function = "" if f.function is None else text(f.function)
            rows.append(
                {
                    "name": text(names[f.number]),
                    "kind": f.kind,
                    "layer": f.layer,
                    "score": score,
                    "value": value,
                    "base": base,
                    "function": function,
                }
            )
    return {"features": rows, "outputs": [text(form.node(names)) for form in program.outputs], "tables": []}


def compare(formula: str, box: Sides, program: Program) -> None:
    lower, upper = np.array(list(box.values()), dtype=float).T
    ranges = Ranges(list(box), lower, upper)
    trees = Parser(formula, list(box)).outputs()
    prove_defined(trees, ranges)
    prove_same(trees, [f.meaning for f in program.features], [form.tree for form in program.outputs], ranges)


@pytest.mark.parametrize("name", CASES)
def test_the_compilers_programs_are_recognised_quickly(name: str) -> None:
    formula, box = CASES[name]
    program = read_program(parts(formula, box), list(box))
    started = time.process_time()
    compare(formula, box, program)
    assert time.process_time() - started < 5


def changed(said: dict[str, Any], rng: random.Random) -> dict[str, Any] | None:
    """The program with one number, sign, variable or function of one text replaced; None if nothing was."""
    features, outputs = [dict(row) for row in said["features"]], list(said["outputs"])
    cells: list[tuple[Any, Any]] = [(row, k) for row in features for k in ("score", "value", "base", "function")]
    cells = [(row, k) for row, k in cells if row[k] not in ("", "0")] + [(outputs, i) for i in range(len(outputs))]
    holder, entry = rng.choice(cells)
    written = holder[entry]
    pattern, others = rng.choice(
        [
            (r"(?<![\w.])\d+(\.\d+)?(?![\w.])", ["7", "0.123", "1.0000000000000000000000001"]),
            (r"[+-]", ["+", "-"]),
            (r"\b[A-Za-z]\w*\b(?!\()", [*(row["name"] for row in features), "pi"]),
            (r"\b[a-z]\w*(?=\()", ["sin", "exp", "tanh", "abs"]),
        ]
    )
    places = list(re.finditer(pattern, written))
    if not places:
        return None
    place = rng.choice(places)
    holder[entry] = written[: place.start()] + rng.choice(others) + written[place.end() :]
    return None if holder[entry] == written else {**said, "features": features, "outputs": outputs}


def values(program: Program, x: np.ndarray) -> np.ndarray:
    """The first output at points, in floats."""
    from softwright.checker.composition.enclosing import Enclosing
    from softwright.checker.composition.intervals import Interval

    ranges = Ranges(program.names, x.min(axis=0), x.max(axis=0))
    stream = ranges.stream([f.meaning for f in program.features])
    node = ranges.dag.tree(program.outputs[0].tree, stream)
    given = {n: Interval(x[:, i], x[:, i]) for i, n in enumerate(ranges.inputs)}
    found, _ = Enclosing(ranges.dag).values([node], given, len(x))
    return 0.5 * (found[node].lower + found[node].upper)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("piston", "borehole")])
def test_changed_programs_are_refused(name: str) -> None:
    formula, box = CASES[name]
    said, rng = parts(formula, box), random.Random(name)  # noqa: S311
    x = Box(box).sample(50, seed=3)
    right = values(read_program(said, list(box)), x)
    tried = 0
    for _ in range(150):
        mutant = changed(said, rng)
        if mutant is None or tried >= 5:
            continue
        try:
            program = read_program(mutant, list(box))
        except NotProvedError:
            continue
        tried += 1
        try:
            compare(formula, box, program)
        except NotProvedError:
            continue
        with np.errstate(all="ignore"):  # a change that changes nothing, such as 2*u for u + u, may be recognised
            assert np.allclose(values(program, x), right, rtol=1e-12, atol=1e-12), mutant
    assert tried > 0


def test_hostile_programs_end_in_a_refusal_soon() -> None:
    names = [f"x{i}" for i in range(8)]
    box = dict.fromkeys(names, (0.5, 1.5))
    total = "+".join(names)
    hostile = [
        f"({total}+1)**64",
        f"(({total}+sqrt({total}))**20+1)**0.5",
        "*".join(f"({total}+{i})" for i in range(9)),
        f"exp(({total})**12)+log(({total})**31+1)",
        "+".join(f"abs({a}-{b}*1.1)" for a in names[:5] for b in names),
        "max(" + ",".join(f"{a}*{b}" for a in names[:5] for b in names[:5]) + ")",
        "x0**(1/3)**(1/3)**2.5**9",
        "sqrt(" * 60 + "x0" + ")" * 60,
        "9" * 300 + "**0.5*x0+" + "8" * 299 + "1**0.37",
    ]
    lower, upper = np.array(list(box.values())).T
    for formula in hostile:
        one, other = (Parser(f, names).outputs() for f in (formula, f"({formula})*(1+1e-30)"))
        started = time.process_time()
        with pytest.raises(NotProvedError):
            prove_same(one, [], other, Ranges(names, lower, upper))
        assert time.process_time() - started < 30, formula
