"""Formulas drawn by a seeded grammar, compiled, proved, verified and attacked; and traps of rewriting.

    python benchmarks/grammar.py                          300 formulas at 1e-4, and the traps
    python benchmarks/grammar.py --count 60 --seed 5      others
    python benchmarks/grammar.py --only traps --verify    the traps alone, each file proved again
    python benchmarks/grammar.py --first 100 --last 150   formulas 100 to 149 of the same draw

The grammar: 1 to 10 variables in equal shares, depth 2 to 7, at most 80 nodes, all functions of the language inside
their domains, kinks (abs, max, min), and jumps (where, sign, floor, ceil, round, mod, step), which get `gap=1e-5`. A
formula is kept if a sample of it is defined and finite and it has a moderate range; nothing is looked at that the
compiler does with it. Tolerances are relative to half the range.

Attack: 100,000 fresh points of the box (`--points`), its corners, points at the scale of every gate and just outside of
every band, then a climb from the worst of them. A point at which the network is certainly farther off than what was
proved, in ball arithmetic, makes the run fail. Traps are rewritings that are wrong on a part of their box unless a sign
is known.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import softwright as sw
from softwright.approximation.observe import climbed
from softwright.approximation.problem import probe_points
from softwright.compiler.build import Compiled, compile_formula
from softwright.compiler.evidence import certificate_of
from softwright.compiler.layout import network_of
from softwright.compiler.look import check_rewriting, contradiction, gate_points, outside_bands
from softwright.compiler.nodes import CannotCompile
from softwright.errors import ContradictedProof
from softwright.precision import precision_of

GAP = 1e-5
ANYWHERE = (
    "sin", "cos", "atan", "tanh", "sinh", "cosh", "asinh", "exp", "expm1", "erf", "erfc", "sinc", "sigmoid", "softplus",
    "silu", "gelu", "j0", "j1", "cbrt1", "tan1",
)  # fmt: skip
INSIDE = ("asin", "acos", "atanh")
POSITIVE = ("log", "sqrt", "lgamma", "gamma")
SIDES = ((-1.0, 1.0), (0.0, 1.0), (0.5, 2.0), (-2.0, 1.0), (1.0, 3.0), (-0.5, 0.5), (0.1, 1.0), (-3.0, -1.0))

P, M, N = (
    {"x": (-1.0, 1.5), "y": (0.5, 2.0)},
    {"x": (-1.0, 1.0), "y": (-1.0, 1.0)},
    {"x": (-2.0, -0.5), "y": (-2.0, -1.0)},
)
TRAPS: list[tuple[str, dict[str, tuple[float, float]]]] = [
    *((text, P) for text in (
        "sqrt(x**2*y)", "(x**2)**1.5*y", "(x**2*y)**0.5*x", "log(x**2*y + 0.1)", "sqrt(x**2)*sqrt(y)", "(x**4)**0.25*y",
        "(x**2)**0.5/y", "((x*y)**2)**0.5", "log((x + 2)**2)", "0.5*log(x**4 + y)", "exp(0.5*log(x**2 + 0.1))",
        "x**2/abs(x)*y",
        "abs(x)**3/y", "abs(x)**0.5*y", "(x**2*y**3)**0.5", "(x**3)**2*y", "(x**6)**(1/3)", "sqrt(x**2 + 2*x*y + y**2)",
        "sqrt((x - y)**2)", "abs(x)*abs(y)/y", "max(x, -x)*y", "min(x, -x)/y", "log(exp(x))*y", "exp(log(y))*x",
        "y**x*y**-x*x",
        "(y**x)**2", "(y**2)**x", "sqrt(y)**2*x", "sqrt(y**2)*x", "(x/y)**2*y", "asin(sin(x))*y", "acos(cos(x))",
        "atan(tan(x))",
        "asinh(sinh(x))", "acosh(cosh(x) + 0.01)", "atanh(tanh(x))*y", "hypot(x, 0*y)", "hypot(x, x)*y", "atan2(x, y)",
        "atan2(0*x, y)", "xlogy(y, y)", "log1p(x + 0.5)", "1/(1/y)", "x/(x**2 + 0.01)*x", "(x + y)**2 - x**2 - 2*x*y",
        "sin(x)**2 + cos(x)**2", "exp(x)*exp(-x)*y", "log(y**2)/2", "log(y*y*y)", "sqrt(sqrt(y**4))",
    )),
    *((text, N) for text in (
        "sqrt(x*y)", "log(x*y)", "(x*y)**0.3", "x**3/y", "(x**3*y)**-0.5", "abs(x*y)/x", "log(x/y)", "sqrt(x/y)",
        "(x**2*y**2)**0.25",
        "1/(x*y)", "x**-3*y**-2", "log(-x) + log(-y)", "sqrt(-x)*sqrt(-y)", "(-x)**0.5*y", "abs(x)/x*y", "log(x**2)",
        "(x**2)**-0.5",
    )),
    *((text, M) for text in (
        "where(x < 0, sqrt(x**2), x)", "where(x > 0, abs(x), -x)", "where(x < y, where(y < x, 5, 1), 2)",
        "where(x < 0 and x > 0, 7, x)", "where(x < 0 or x >= 0, y, 9)", "where(x*y > 0, abs(x*y), -abs(x*y))",
        "sign(x)*abs(x)", "sign(x)*sign(x)", "sign(x)**2*y", "sign(-x) + sign(x)", "abs(sign(x))",
        "x - floor(x) - mod(x, 1)",
        "floor(x) + ceil(-x)", "floor(-x) + ceil(x)", "round(x) - floor(x + 0.5)", "mod(x, 0.5) + 0.5*floor(2*x)",
        "floor(floor(2*x))",
        "where(x < y, x, y) - min(x, y)", "where(sign(x) > 0, 1, -1)", "sqrt(where(x < 0, -x, x) + 0.1)*sign(x)",
        "floor(x**2*3)",
        "where(abs(x) < 0.5, where(abs(y) < 0.5, 1, 2), 3)", "step(x)*step(-x)", "max(sign(x), sign(y))",
    )),
]  # fmt: skip


@dataclass
class Result:
    status: str  # proved, unproved, refused, wrong
    text: str
    tokens: int = 0
    layers: int = 0
    seconds: float = 0.0
    ratio: float = 0.0  # observed over proved
    verified: str = ""
    reason: str = ""


class Grammar:
    """One formula: every variable is used, every function stays inside its domain."""

    def __init__(self, rng: np.random.Generator, names: list[str]) -> None:
        self.rng, self.names, self.used = rng, names, 0

    def leaf(self) -> str:
        if self.used < len(self.names):
            name = self.names[self.used]
            self.used += 1
        elif self.rng.random() < 0.25:
            return f"{self.rng.uniform(0.2, 2.5):.3g}"
        else:
            name = str(self.rng.choice(self.names))
        return (
            name
            if self.rng.random() < 0.6
            else f"({name} {self.rng.choice(['+', '-'])} {self.rng.uniform(0.1, 1):.2g})"
        )

    def one(self, depth: int) -> str:
        if depth <= 0:
            return self.leaf()
        a, kind = self.one(depth - 1), int(self.rng.integers(0, 26))
        b = self.one(int(self.rng.integers(0, depth))) if kind < 15 else ""
        match kind:
            case 0 | 1 | 2:
                return f"({a} + {b})"
            case 3 | 4:
                return f"({a} - {b})"
            case 5 | 6 | 7:
                return f"({a}*{b})"
            case 8:
                return f"{a}/(1.5 + {b}**2)"
            case 9:
                return f"{self.rng.choice(['max', 'min'])}({a}, {b})"
            case 10:
                return f"where({a} {self.rng.choice(['<', '>', '<=', '>='])} {b}, {self.leaf()}, {a})"
            case 11:
                word = self.rng.choice(["and", "or"])
                condition = f"{a} < {self.rng.uniform(0, 1):.2g} {word} {b} > {self.rng.uniform(-1, 1):.2g}"
                return f"where({condition}, {b}, {self.leaf()})"
            case 12:
                return f"{self.rng.choice(['hypot', 'atan2'])}({a}, 1.2 + {b}**2)"
            case 13:
                return f"(1.1 + {a}**2)**(tanh({b}))"
            case 14:
                return f"xlogy({a}, 0.5 + {b}**2)"
            case 15:
                return f"{self.rng.choice(['sign', 'floor', 'ceil', 'round', 'step'])}({self.tame(a)})"
            case 16:
                return f"mod({self.tame(a)}, {self.rng.uniform(0.7, 1.5):.2g})"
            case 17:
                return f"abs({a})"
            case 18:
                return (
                    f"({a})**{self.rng.integers(2, 4)}"
                    if self.rng.random() < 0.7
                    else f"(0.3 + abs({a}))**{self.rng.choice(['0.5', '1.5', '-1', '-0.7'])}"
                )
            case 19:
                return f"{self.rng.choice(INSIDE)}(0.8*sin({a}))"
            case 20:
                return f"{self.rng.choice(POSITIVE)}(0.4 + 2*tanh({a})**2)"
            case 21:
                return f"acosh(1.3 + ({a})**2)" if self.rng.random() < 0.5 else f"log1p(abs({a}))"
        name = str(self.rng.choice(ANYWHERE))
        if name.endswith("1") and name not in ("j1", "expm1"):
            return f"{name[:-1]}({'1.5 + sin(' if name == 'cbrt1' else '0.9*sin('}{a}))"
        return f"{name}({self.tame(a) if name in ('exp', 'expm1', 'sinh', 'cosh') else a})"

    def tame(self, a: str) -> str:
        return a if len(a) < 8 else f"2*sin({a})"


def drawn(count: int, seed: int) -> list[tuple[str, sw.Box]]:
    rng = np.random.default_rng(seed)
    found: list[tuple[str, sw.Box]] = []
    while len(found) < count:
        dim = len(found) % 10 + 1
        names = [f"x{i + 1}" for i in range(dim)]
        box = sw.Box({name: SIDES[int(rng.integers(len(SIDES)))] for name in names})
        grammar = Grammar(rng, names)
        text = grammar.one(int(rng.integers(2 if dim < 4 else 4, 8)))
        if grammar.used < dim or len(text) > 600:
            continue
        try:
            expression = sw.Expression(text, box)
        except sw.InvalidInput:
            continue
        with np.errstate(all="ignore"):
            values = expression(box.from_unit(probe_points(dim, 4000, seed=1)))
        half = 0.5 * float(np.ptp(values)) if np.isfinite(values).all() else np.nan
        if len(expression.tape) <= 80 and 1e-3 < half < 1e4:
            found.append((text, box))
    return found


def attacked(compiled: Compiled, expression: sw.Expression, count: int) -> float:
    """Observed over proved; a certain violation raises."""
    network, box, program = network_of(compiled), compiled.box, compiled.program
    points = np.concatenate(
        [box.from_unit(probe_points(box.dim, count, seed=71)), box.corners(256), gate_points(compiled, 120, 23)]
    )
    seen = climbed(network, expression, points, seed=9, counts=lambda x: outside_bands(program, box, x))
    if seen.error > compiled.proof.bound:
        worst = np.asarray(seen.point)
        contradiction(compiled, expression, worst, network.evaluate(worst[None])[0])
    return seen.error / compiled.proof.bound


def tried(text: str, box: sw.Box, tol: float, verify: bool, points: int) -> Result:
    expression = sw.Expression(text, box)
    values = expression(box.from_unit(probe_points(box.dim, 4000, seed=1)))
    half = max(0.5 * float(np.ptp(values[np.isfinite(values)])), 1e-3)
    started = time.process_time()
    try:
        compiled = compile_formula(expression, box, tol * half, precision_of("float64"), gap=GAP)
        seconds = time.process_time() - started
        check_rewriting(compiled.program, expression, box)
        if not compiled.proved:
            return Result(
                "unproved",
                text,
                seconds=seconds,
                reason="; ".join(compiled.proof.faults[:1]) or f"{compiled.proof.bound / half:.2g}",
            )
        ratio = attacked(compiled, expression, points)
    except CannotCompile as error:
        return Result("refused", text, seconds=time.process_time() - started, reason=str(error)[-110:])
    except ContradictedProof as error:
        return Result("wrong", text, reason=str(error))
    verified = ""
    if verify:
        network = network_of(compiled)
        certificate = certificate_of(compiled, network, expression, time.monotonic())
        plan = sw.approximate("x", sw.Box(x=(0, 1)), certify=False).plan
        with tempfile.TemporaryDirectory() as folder:
            sw.Built(network, plan, expression.describe(), certificate=certificate).save(
                path := Path(folder) / "row.safetensors"
            )
            verdict = sw.verify(path, max_seconds=60)
            verified = verdict.status if verdict.status == "VERIFIED" else f"{verdict.status}: {verdict.reason[:80]}"
    return Result("proved", text, compiled.heads.tokens, compiled.program.depth, seconds, ratio, verified)


def report(name: str, results: list[Result], least: float, verify: bool) -> bool:
    by = {status: [r for r in results if r.status == status] for status in ("proved", "unproved", "refused", "wrong")}
    for status in ("wrong", "unproved", "refused"):
        for r in by[status]:
            print(f"  {status}: {r.text[:90]}: {r.reason}")
    good = by["proved"]
    counts = ", ".join(f"{len(by[status])} {status}" for status in ("unproved", "refused", "wrong"))
    print(f"{name}: {len(good)} of {len(results)} built and proved, {counts}")
    if good:
        tokens, seconds = [r.tokens for r in good], [r.seconds for r in good]
        sizes = f"tokens median {np.median(tokens):g}, most {max(tokens)}; layers at most {max(r.layers for r in good)}"
        work = f"CPU s median {np.median(seconds):.2f}, most {max(seconds):.2f}"
        print(f"  {sizes}; {work}; observed/proved at most {max(r.ratio for r in good):.4f}")
    if verify:
        for r in good:
            if r.verified != "VERIFIED":
                print(f"  {r.text[:90]}: {r.verified}")
        print(f"  VERIFIED: {sum(r.verified == 'VERIFIED' for r in good)} of {len(good)}")
    return not by["wrong"] and len(good) >= least * len(results)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--only", choices=["formulas", "traps"])
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int)
    parser.add_argument("--points", type=int, default=100_000, help="fresh points of each attack")
    options = parser.parse_args()
    met = True
    if options.only != "traps":
        formulas = drawn(options.count, options.seed)[options.first : options.last]
        results = []
        for k, (text, box) in enumerate(formulas):
            results.append(tried(text, box, options.tol, options.verify, options.points))
            if results[-1].status != "proved" or results[-1].verified not in ("", "VERIFIED"):
                told = f"{results[-1].reason}{results[-1].verified}"
                print(
                    f"{options.first + k}: {results[-1].status} ({results[-1].seconds:.1f} s): {text}: {told}",
                    flush=True,
                )
            if k % 25 == 24:
                print(f"... {k + 1}: {sum(r.status == 'proved' for r in results)} proved", flush=True)
        jumping = sum(
            "where" in t or any(f"{w}(" in t for w in ("sign", "floor", "ceil", "round", "step", "mod"))
            for t, _ in formulas
        )
        print(f"{jumping} of {len(formulas)} have a jump in their text")
        met &= report(f"grammar, seed {options.seed}, tol {options.tol:g}", results, 0.95, options.verify)
    if options.only != "formulas":
        results = [tried(text, sw.Box(sides), options.tol, options.verify, options.points) for text, sides in TRAPS]
        met &= report(f"traps, tol {options.tol:g}", results, 0.0, options.verify)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
