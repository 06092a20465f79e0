"""Activations that graphs spell out, x * sigmoid(x) say, read exactly: every constant is carried as it is.

Elementwise operations are followed with exact polynomials: a value is a sum of terms c s^k F G .., c a rational
number, s the values of a branch, F and G functions (erf, tanh, sigmoid, softplus, |.|, 1/.) of such values. Products,
sums and quotients of constants are exact in rational numbers, so the order in which an exporter multiplies does not
matter, and what is recognised is

    silu         s sigmoid(r s), which is silu(r s)/r           gelu_erf     s/2 + s/2 erf(r s)
    mish         s tanh(softplus(s))                            gelu_cubic   s/2 + s/2 tanh(r s + r k s^3)
    softsign     s/(1 + r |s|), which is softsign(r s)/r         tanhshrink   s - tanh(s)

with r and k as the graph holds them: the float32 nearest to sqrt(2) makes another function than sqrt(2) does. A form
with any other constant in place of 1 or 1/2 is refused, with the constant.
"""

from __future__ import annotations

from fractions import Fraction

from softwright.errors import InvalidInput
from softwright.targets.mlp.activation import Activation

Atoms = tuple[tuple[str, "Frozen"], ...]
Frozen = frozenset[tuple[tuple[int, Atoms], Fraction]]
Sum = dict[tuple[int, Atoms], Fraction]  # (power of s, functions) -> coefficient

FORMS = ("silu", "mish", "softsign", "tanhshrink", "gelu_erf", "gelu_cubic")  # the rows that are recognised here
FUNCTIONS = ("erf", "tanh", "sigmoid", "softplus", "abs")
ITSELF: Sum = {(1, ()): Fraction(1)}
_TANHSHRINK: Sum = {(1, ()): Fraction(1), (0, (("tanh", frozenset(ITSELF.items())),)): Fraction(-1)}
_MOST, _HIGHEST, _LONGEST = 12, 6, 900  # terms, power and binary digits of what is still followed: ample for the forms
_HALF = Fraction(1, 2)


def of_number(value: float) -> Sum:
    return {(0, ()): Fraction(value)} if value else {}


def combined(kind: str, operands: list[Sum]) -> Sum | None:
    """What an operation makes of its operands; None for anything that is no part of an activation."""
    if kind in FUNCTIONS and any(_nested(atoms) for _, atoms in operands[0]):
        return None
    found = _step(kind, operands)
    if found is None or len(found) > _MOST or any(power > _HIGHEST for power, _ in found):
        return None
    digits = (max(abs(c.numerator), c.denominator).bit_length() for c in found.values())
    return found if max(digits, default=0) <= _LONGEST else None


def multiple(value: Sum, of: Sum) -> Fraction | None:
    """The number k with value = k of, exactly; None if there is none."""
    if not of or not set(value) <= set(of):
        return None
    rates = {value.get(term, Fraction(0)) / factor for term, factor in of.items()}
    return rates.pop() if len(rates) == 1 else None


def _nested(atoms: Atoms) -> bool:
    """Whether functions stand inside functions: tanh(softplus(s)) is the deepest form."""
    return any(inner for _, frozen in atoms for (_, inner), _ in frozen)


def _step(kind: str, operands: list[Sum]) -> Sum | None:
    match kind, operands:
        case ("mul", [a, b]):
            return _product(a, b)
        case ("add", [a, b]):
            return _sum(a, b)
        case ("sub", [a, b]):
            return _sum(a, _product(b, of_number(-1.0)))
        case ("neg", [a]):
            return _product(a, of_number(-1.0))
        case ("div", [a, b]):
            divisor = _constant(b)
            if divisor is None and not any(_nested(atoms) for _, atoms in b):
                return _product(a, {(0, (("one over", frozenset(b.items())),)): Fraction(1)})
            return _product(a, {(0, ()): 1 / divisor}) if divisor else None
        case ("pow", [a, b]):
            power = _constant(b)
            return _product(a, a) if power == 2 else _product(a, _product(a, a)) if power == 3 else None
        case (_, [a]) if kind in FUNCTIONS:
            return {(0, ((kind, frozenset(a.items())),)): Fraction(1)}
    return None


def _constant(value: Sum) -> Fraction | None:
    return value.get((0, ()), Fraction(0)) if set(value) <= {(0, ())} else None


def _sum(a: Sum, b: Sum) -> Sum:
    total = dict(a)
    for term, factor in b.items():
        total[term] = total.get(term, Fraction(0)) + factor
    return {term: factor for term, factor in total.items() if factor}


def _product(a: Sum, b: Sum) -> Sum:
    total: Sum = {}
    for (power, atoms), factor in a.items():
        for (more, others), other in b.items():
            term = power + more, tuple(sorted((*atoms, *others), key=repr))
            total = _sum(total, {term: factor * other})
    return total


def recognised(value: Sum) -> tuple[Activation, float] | None:
    """The activation phi and the rate r with which a value is phi(r s)/r, by the forms above."""
    if value == _TANHSHRINK:
        return Activation("tanhshrink"), 1.0
    atoms = [atoms for _, atoms in value if atoms]
    if len(atoms) != 1 or len(atoms[0]) != 1 or any(power != 1 for power, _ in value):
        return None
    kind, inner = atoms[0][0][0], dict(atoms[0][0][1])
    whole, share = value[1, atoms[0]], value.get((1, ()))
    if kind == "sigmoid" and set(inner) == {(1, ())} and share is None:
        rate = _float(inner[1, ()])
        return (_with(Activation("silu"), whole, Fraction(1)), rate) if rate > 0 else None
    if kind == "tanh" and inner == {(0, (("softplus", frozenset(ITSELF.items())),)): Fraction(1)} and share is None:
        return _with(Activation("mish"), whole, Fraction(1)), 1.0
    if kind == "one over" and share is None:
        return _softsign(whole, inner)
    if share is None or not set(inner) <= {(1, ()), (3, ())} or (1, ()) not in inner:
        return None
    rate, cubic = inner[1, ()], inner.get((3, ()))
    if kind == "erf" and cubic is None:
        return _with(_with(_gelu_erf(rate), share, _HALF), whole, _HALF), 1.0
    if kind == "tanh" and cubic is not None:
        found = Activation("gelu_cubic", (_float(rate), _float(cubic / rate)))
        return _with(_with(found, share, _HALF), whole, _HALF), 1.0
    return None


def _softsign(whole: Fraction, divisor: Sum) -> tuple[Activation, float] | None:
    """whole s/(c + f |r s|)."""
    constant = divisor.get((0, ()), Fraction(0))
    others = [(atoms, factor) for (power, atoms), factor in divisor.items() if power == 0 and len(atoms) == 1]
    if len(others) != 1 or len(divisor) != 2 or not constant:
        return None
    ((kind, frozen),), factor = others[0]
    inner = dict(frozen)
    if kind != "abs" or set(inner) != {(1, ())} or factor / constant <= 0:
        return None
    rate = _float(factor * abs(inner[1, ()]) / constant, "softsign")
    return _with(Activation("softsign"), whole / constant, Fraction(1)), rate


def _with(found: Activation, factor: Fraction, wanted: Fraction) -> Activation:
    """The activation, if its factor is the one of the form."""
    if factor != wanted:
        raise InvalidInput(
            "transpile",
            [
                f"{found.name.partition('_')[0]} is spelt out with the factor {float(factor):.9g} instead of "
                f"{float(wanted):g}; export it with that"
            ],
        )
    return found


def _gelu_erf(rate: Fraction) -> Activation:
    """erf(r s) with r or 1/r a float."""
    if Fraction(float(rate)) == rate:
        return Activation("gelu_erf", (float(rate), 1.0))
    return Activation("gelu_erf", (1.0, _float(1 / rate)))


def _float(value: Fraction, name: str = "gelu") -> float:
    if Fraction(float(value)) != value:
        raise InvalidInput(
            "transpile",
            [
                f"{name} is spelt out with constants that make {float(value):.9g}, which is no float64 number; export "
                "it with one constant in place of two"
            ],
        )
    return float(value)
