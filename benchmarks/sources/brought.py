"""The formulas of `brought.py`, with the boxes on which they are asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from softwright.targets.formula import ROWS
from softwright.targets.formula.definitions import DEFINED

Sides = dict[str, tuple[float, float]]


class Row(NamedTuple):
    """A formula on a box; `refused` if no network can be near it, so that a refusal is right."""

    text: str
    box: Sides
    relative: bool = False
    refused: bool = False


def _x(low: float, high: float) -> Sides:
    return {"x": (low, high)}


def _xy(low: float, high: float) -> Sides:
    return {"x": (low, high), "y": (low, high)}


def _many(count: int, low: float, high: float) -> Sides:
    return {f"x{j}": (low, high) for j in range(1, count + 1)}


def _sum(text: str, count: int) -> str:
    return " + ".join(text.replace("#", str(j)) for j in range(1, count + 1))


def _product(text: str, count: int) -> str:
    return "*".join(text.replace("#", str(j)) for j in range(1, count + 1))


PLANCK = "2*6.62607015e-34*299792458**2/L**5/(exp(6.62607015e-34*299792458/(L*1.380649e-23*5778)) - 1)"
FRICTION = "(-1.8*log10((r/3.7)**1.11 + 6.9/Re))**(-2)"

NAMED = [
    Row("sign(x)*abs(x)**(1/3)", _x(-1, 1)),
    Row("cbrt(x)", _x(-1, 1)),
    Row("abs(x)**0.3", _x(-1, 1)),
    Row("x**0.3", _x(0, 1)),
    Row("sign(x)*sqrt(abs(x))", _x(-1, 1)),
    Row("where(x < 0, -sqrt(-x), sqrt(x))", _x(-1, 1)),
    Row("where(x > 0, x*log(x), 0)", _x(0, 1)),
    Row("where(abs(x) < 1e-12, 0, x*log(abs(x) + 1e-300))", _x(-1, 1)),
    Row(PLANCK, {"L": (2e-7, 3e-6)}, refused=True),  # values up to 1e14: no float64 is within 1e-6
    Row(PLANCK, {"L": (2e-7, 3e-6)}, relative=True),
    Row("1e-30/L**5", {"L": (1e-6, 2e-6)}),
    Row("1e25/(N*1e13)**2", {"N": (0.5, 2)}),
    Row("1e-36/(R**2)**3", {"R": (1e-6, 2e-6)}),
    Row("max(x,0)*max(y,0)", _xy(-1, 1)),
    Row("max(x,0)*max(y,0)*max(z,0)", {**_xy(-1, 1), "z": (-1, 1)}),
    Row("exp(-3*abs(x - 0.4) - 2*abs(y - 0.6))", _xy(0, 1)),
    Row("exp(-3*abs(x - 0.4) - 2*abs(y - 0.6) - 2.5*abs(z - 0.3))", {**_xy(0, 1), "z": (0, 1)}),
    Row(_product("(abs(4*x# - 2) + #)/(1 + #)", 3), _many(3, 0, 1)),
    Row(_product("(abs(4*x# - 2) + #)/(1 + #)", 5), _many(5, 0, 1)),
    Row("x/(1 + abs(x))", _x(-8, 8)),
    Row("tanh(1e6*x)", _x(-1, 1)),
    Row("erf(1e4*x)", _x(-1, 1)),
    Row("sin(x)/x", _x(-10, 10), refused=True),  # which names the function to use
    Row("x*log(x)", _x(0, 1), refused=True),
    Row("sinc(x)", _x(-10, 10)),
    Row("xlogy(x, x)", _x(0, 1)),
    Row(FRICTION, {"Re": (4e3, 1e7), "r": (1e-5, 0.05)}),
    Row("log(x)", _x(1e-6, 1e3)),
    Row("log(x)*y", {"x": (1e-4, 1e4), "y": (0, 1)}),
    Row("24/R + 6/(1 + sqrt(R)) + 0.4", {"R": (0.1, 1e5)}),
]

GUARDS = [
    Row("where(x >= 1, sqrt(x**2 - 1), 0)", _x(0, 2)),
    Row("where(x > 1, sqrt(x**2 - 1), 0)", _x(-2, 2)),
    Row("where(x**2 >= 1, sqrt(x**2 - 1), 0)", _x(-2, 2)),
    Row("where(abs(x) <= 1, sqrt(1 - x**2), 0)", _x(-2, 2)),
    Row("where(x < 1, sqrt(1 - x), 0)", _x(0, 2)),
    Row("where(x <= 2, sqrt(8 - x**3), 0)", _x(0, 3)),
    Row("max(x, 0)**0.5", _x(-1, 1)),
    Row("sqrt(max(x, 0))", _x(-1, 1)),
    Row("sqrt(max(x**2 - 1, 0))", _x(-2, 2)),
    Row("max(1 - x**2, 0)**0.5", _x(-2, 2)),
    Row("max(x, 0)**1.5", _x(-1, 1)),
    Row("max(1 - x, 0)**0.3", _x(0, 2)),
    Row("where(x > 0, x**0.7, 0)", _x(-1, 1)),
    Row("where(x > 0, x**2*log(x), 0)", _x(-1, 1)),
    Row("where(x > 0, sqrt(x)*log(x), 0)", _x(-1, 1)),
    Row("where(x > 0, exp(-1/x), 0)", _x(-1, 1)),
    Row("where(abs(x) < 1, exp(-1/(1 - x**2)), 0)", _x(-2, 2)),
    Row("where(x >= 1, acosh(x), 0)", _x(0, 3)),
    Row("where(x >= 1, log(x), 0)", _x(-1, 3)),
    Row("where(x <= 1, acos(x), 0)", _x(0, 2)),
    Row("where(abs(x) <= 1, asin(x), where(x > 1, pi/2, -pi/2))", _x(-2, 2)),
    Row("asin(min(max(x, -1), 1))", _x(-2, 2)),
    Row("acos(clip(x, -1, 1))", _x(-2, 2)),
    Row("where(x > 1, 1/x, x)", _x(-1, 3)),
    Row("where(x > 0, sin(x)/x, 1)", _x(-3, 3)),
    Row("where(abs(x) > 1, 1/x**2, 1)", _x(-3, 3)),
    Row("where(x < 0, 0, where(x < 1, sqrt(x), 1))", _x(-1, 2)),
    Row("where(x < 0, 0, where(x < 1, 1 - sqrt(1 - x), 1 + log(x)))", _x(-1, 2)),
    Row("where(x > 0 and x < 1, sqrt(x*(1 - x)), 0)", _x(-1, 2)),
    Row("where(0 < x < 1, -x*log(x) - (1 - x)*log(1 - x), 0)", _x(0, 1)),
    Row("where(x > y, sqrt(x - y), 0)", _xy(-1, 1)),
    Row("where(x > y, sqrt(x**2 - y**2), 0)", {"x": (0, 1), "y": (0, 1)}),
    Row("where(x + y > 0, (x + y)**1.5, 0)", _xy(-1, 1)),
    Row("where(x + y > 0, (x + y)*log(x + y), 0)", _xy(-1, 1)),
    Row("max(x + 2*y - 1, 0)**0.5", _xy(0, 1)),
    Row("where(x**2 + y**2 < 1, sqrt(1 - x**2 - y**2), 0)", _xy(-1.2, 1.2)),
    Row("where(x >= 1, sqrt(x**2 - 1)*y, 0)", {"x": (0, 2), "y": (-1, 1)}),
    Row("where(x > 1, sqrt(x - 1), 1 - x)", _x(0, 2)),
    Row("where(x >= 2, sqrt(x**2 - 3*x + 2), 0)", _x(0, 3)),
    Row("where(x > 0.5, sqrt(2*x - 1), 0)", _x(0, 1)),
    Row("where(x > 0, sqrt(sin(x)), 0)", _x(-1, 3)),
    Row("where(x > 0, sqrt(exp(x) - 1), 0)", _x(-1, 1)),
    Row("where(x >= 1, sqrt(log(x)), 0)", _x(0.5, 2)),
    Row("where(x > 0, x*sin(1/x), 0)", _x(-1, 1)),
    Row("where(x >= 3, sqrt(x**2 - 9)/x, 0)", _x(0, 5)),
    Row("where(x <= 0, 0, x**x - 1)", _x(-1, 1)),
]

MANY = [
    *(
        Row(_sum(text, count), _many(count, -1, 1))
        for count in (9, 10, 20)
        for text in ("#*x#", "sin(x#)", "x#**2", "exp(-x#)", "abs(x#)")
    ),
    Row(" - ".join(f"0.{j}*x{j}" for j in range(1, 10)) + " + 3", _many(9, -5, 5)),
    Row(_sum("log(1 + x#**2)", 12), _many(12, -2, 2)),
]

FURTHER = [
    # engineering
    Row("where(Re < 2300, 64/Re, 0.3164/Re**0.25)", {"Re": (100, 2299)}, True),
    Row("rho*v**2/2*A*Cd", {"rho": (1.0, 1.3), "v": (0, 60), "A": (0.5, 3), "Cd": (0.2, 1.2)}, True),
    Row("P*L**3/(48*E*I)", {"P": (1e3, 1e5), "L": (1, 10), "E": (7e10, 2.1e11), "I": (1e-7, 1e-4)}, True),
    Row("pi**2*E*I/(K*L)**2", {"E": (7e10, 2.1e11), "I": (1e-8, 1e-5), "K": (0.5, 2), "L": (0.5, 6)}, True),
    Row("where(lam < 1.5, 0.658**(lam**2), 0.877/lam**2)*Fy", {"lam": (0, 1.45), "Fy": (2e8, 5e8)}, True),
    Row("Cd*A*sqrt(2*9.81*max(h - z, 0))", {"Cd": (0.5, 1), "A": (1e-4, 1e-2), "h": (0, 5), "z": (0, 2)}, True),
    Row("5.670374419e-8*eps*(T**4 - Ta**4)", {"eps": (0.1, 1), "T": (250, 1500), "Ta": (250, 320)}, True),
    Row("max(0, min(1, (v**3 - 27)/(1728 - 27)))", {"v": (0, 25)}, True),
    Row("0.023*Re**0.8*Pr**0.4", {"Re": (1e4, 1e6), "Pr": (0.6, 100)}, True),
    Row("(1 - exp(-N*(1 - C)))/(1 - C*exp(-N*(1 - C)))", {"N": (0, 5), "C": (0, 0.95)}, True),
    Row("sqrt(sx**2 - sx*sy + sy**2 + 3*t**2)", {"sx": (-2e8, 2e8), "sy": (-2e8, 2e8), "t": (0, 1e8)}, True),
    Row("(sx + sy)/2 + sqrt(((sx - sy)/2)**2 + t**2)", {"sx": (0, 1e8), "sy": (-1e8, 0), "t": (0, 5e7)}, True),
    Row("20*log10(4*pi*d*f/299792458)", {"d": (10, 1e5), "f": (1e8, 6e9)}, True),
    Row("1/sqrt((1 - r**2)**2 + (2*z*r)**2)", {"r": (0, 3), "z": (0.05, 1)}, True),
    Row("288.15*(1 - 0.0065*min(h, 11000)/288.15)", {"h": (0, 20000)}, True),
    Row("101325*where(h <= 11000, (1 - 2.25577e-5*min(h, 11000))**5.2559, 0.22336*exp(-(h - 11000)/6341.6))",
        {"h": (0, 10900)}, True),
    Row("611.2*exp(17.62*T/(243.12 + T))", {"T": (-45, 60)}, True),
    Row("k*A*(T1 - T2)/L + h*A*(T2 - T3)",
        {"k": (0.1, 400), "A": (0.1, 2), "T1": (300, 800), "T2": (280, 300), "L": (0.01, 1), "h": (5, 50),
         "T3": (250, 280)}, True),
    Row("abs(V)*abs(I)*cos(a - b)", {"V": (-400, 400), "I": (-50, 50), "a": (-1, 1), "b": (-1, 1)}, True),
    Row("where(t < 1, 0, 1 - exp(-(t - 1)/0.3))", {"t": (0, 5)}, True),
    # physics
    Row("6.6743e-11*m1*m2/r**2", {"m1": (1e20, 1e25), "m2": (1, 1e3), "r": (6e6, 4e8)}, True),
    Row("1.602176634e-19*V/(9.1093837e-31*299792458**2)", {"V": (0, 1e6)}, True),
    Row("1/sqrt(1 - (v/299792458)**2)", {"v": (0, 2.9e8)}, True),
    Row("6.62607015e-34*299792458/(L*1.602176634e-19)", {"L": (2e-7, 1e-6)}, True),
    Row("8.8541878128e-12*A/d", {"A": (1e-6, 1e-2), "d": (1e-6, 1e-3)}, True),
    Row("4*1e-21*((3.4e-10/r)**12 - (3.4e-10/r)**6)", {"r": (3e-10, 1e-9)}, True),
    Row("x**2*exp(-x)*(1 - 0.1*x)", _x(0, 20), True),
    Row("(1 + cos(t)**2)/2*(P**2*(P + 1/P - sin(t)**2))", {"t": (0, math.pi), "P": (0.2, 1)}, True),
    Row("where(r < 1, r, 1/r**2)", {"r": (0, 4)}, True),
    Row("1/(exp((E - mu)/(8.617e-5*T)) + 1)", {"E": (0, 1), "mu": (0.3, 0.6), "T": (50, 1000)}, True),
    Row("sqrt(max(2*(E - 0.5*k*x**2)/m, 0))", {"E": (0.1, 1), "k": (1, 4), "x": (-1, 1), "m": (0.5, 2)}, True),
    Row("4*pi*(m/(2*pi*1.380649e-23*T))**1.5*v**2*exp(-m*v**2/(2*1.380649e-23*T))",
        {"m": (3e-27, 7e-26), "T": (200, 1000), "v": (0, 3000)}, True),
    Row("sin(2*pi*x/L)*exp(-g*t)*cos(w*t)", {"x": (0, 1), "L": (0.5, 2), "g": (0, 1), "t": (0, 5), "w": (0, 6)}, True),
    Row("n1*sin(a)/n2", {"n1": (1, 1.5), "a": (0, 1.5), "n2": (1, 2)}, True),
    Row("((cos(a) - sqrt(n**2 - sin(a)**2))/(cos(a) + sqrt(n**2 - sin(a)**2)))**2", {"a": (0, 1.5), "n": (1.3, 2.5)},
        True),
    # finance
    Row("max(S - K, 0)*exp(-r*T)", {"S": (50, 150), "K": (80, 120), "r": (0, 0.1), "T": (0, 2)}, True),
    Row("max(min(S, 120) - K, 0)", {"S": (50, 150), "K": (80, 110)}, True),
    Row("P*r*(1 + r)**n/((1 + r)**n - 1)", {"P": (1e4, 1e6), "r": (0.001, 0.02), "n": (12, 360)}, True),
    Row("F*exp(-y*T) + c*F*(1 - exp(-y*T))/y", {"F": (100, 1000), "y": (0.005, 0.1), "T": (1, 30), "c": (0, 0.08)},
        True),
    Row("S*normcdf((log(S/K) + (r + s**2/2)*T)/(s*sqrt(T))) - K*exp(-r*T)*normcdf((log(S/K) + (r - s**2/2)*T)"
        "/(s*sqrt(T)))", {"S": (80, 120), "K": (80, 120), "r": (0, 0.08), "s": (0.1, 0.5), "T": (0.05, 2)}, True),
    Row("where(inc < 1e4, 0, where(inc < 4e4, 0.2*(inc - 1e4), 6e3 + 0.4*(inc - 4e4)))", {"inc": (0, 1e5)}, True),
    Row("min(max(loss - d, 0), lim)*q", {"loss": (0, 1e6), "d": (1e4, 1e5), "lim": (1e5, 5e5), "q": (0, 1)}, True),
    Row("w1*w1*s1*s1 + w2*w2*s2*s2 + 2*w1*w2*s1*s2*r",
        {"w1": (0, 1), "w2": (0, 1), "s1": (0.05, 0.4), "s2": (0.05, 0.4), "r": (-1, 1)}, True),
    Row("(1 + r/m)**(m*t)", {"r": (0.01, 0.15), "m": (1, 12), "t": (0, 30)}, True),
    Row(f"log({_sum('exp(x#)', 6)})", _many(6, -2, 2), True),
    # statistics, learning
    Row("exp(-(x - m)**2/(2*s**2))/(s*sqrt(2*pi))", {"x": (-3, 3), "m": (-1, 1), "s": (0.5, 2)}, True),
    Row("k/l*(x/l)**(k - 1)*exp(-(x/l)**k)", {"k": (1.5, 4), "l": (0.5, 2), "x": (0.01, 3)}, True),
    Row("gamma((n + 1)/2)/(sqrt(n*pi)*gamma(n/2))*(1 + t**2/n)**(-(n + 1)/2)", {"n": (1, 20), "t": (-4, 4)}, True),
    Row("where(abs(r) <= 1.345, r**2/2, 1.345*(abs(r) - 0.67250))", {"r": (-5, 5)}, True),
    Row("where(abs(r) < 4.685, r*(1 - (r/4.685)**2)**2, 0)", {"r": (-8, 8)}, True),
    Row("max(0, 1 - y*(w1*x1 + w2*x2 + b))",
        {"y": (-1, 1), "w1": (-1, 1), "w2": (-1, 1), "x1": (-1, 1), "x2": (-1, 1), "b": (-1, 1)}, True),
    Row("-p*log(q) - (1 - p)*log(1 - q)", {"p": (0, 1), "q": (0.01, 0.99)}, True),
    Row("xlogy(p, p/q) + xlogy(1 - p, (1 - p)/(1 - q))", {"p": (0, 1), "q": (0.05, 0.95)}, True),
    Row("1/(1 + exp(-(b0 + " + _sum("0.#*x#", 8) + ")))", {"b0": (-1, 1), **_many(8, -2, 2)}, True),
    Row("sqrt(" + _sum("(x# - 0.#)**2", 6) + ")", _many(6, 1, 2), True),
    Row(f"({_sum('x#', 12)})/12", _many(12, 0, 1), True),
    Row(f"sqrt(({_sum('x#**2', 10)})/10 + 0.1)", _many(10, 0, 1), True),
    Row("max(x, y, z) - min(x, y, z)", {**_xy(-1, 1), "z": (-1, 1)}, True),
    Row("0.5*x**2*log(x + 1) + max(x - 0.5, 0)**2", _x(0, 2), True),
    Row("abs(sin(x))*sqrt(abs(cos(x)))", _x(0, 6), True),
]  # fmt: skip

JUMPS = ("sign", "step", "floor", "ceil", "round", "mod")


def _call(name: str, example: Mapping[str, tuple[float, float]]) -> Row:
    """A function of the language on its own example; an argument that does not vary is a number."""
    written = [variable if low < high else repr(low) for variable, (low, high) in example.items()]
    return Row(f"{name}({', '.join(written)})", {v: side for v, side in example.items() if side[0] < side[1]})


CALLS = [_call(row.name, row.example) for row in (*ROWS, *DEFINED.values()) if row.name not in JUMPS]

LISTS = {"named": NAMED, "guards": GUARDS, "many": MANY, "further": FURTHER, "functions": CALLS}
