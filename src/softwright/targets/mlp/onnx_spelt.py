"""Activations that ONNX exporters spell out, x * Sigmoid(x) say, read exactly: every constant is carried as it is.

The nodes are followed with exact polynomials: a value is a sum of terms c s^k F G .., c a rational number, s the input,
F and G functions (Erf, Tanh, Sigmoid, Softplus) of such values. Products, sums and quotients of constants are exact in
rational numbers, so the order in which an exporter multiplies does not matter, and what is recognised is

    silu         s Sigmoid(s)                                   gelu_erf     s/2 + s/2 Erf(r s)
    mish         s Tanh(Softplus(s))                            gelu_cubic   s/2 + s/2 Tanh(r s + r k s^3)

with r and k as the graph holds them: the float32 nearest to sqrt(2) makes another function than sqrt(2) does. A form
with any other constant in place of 1 or 1/2 is refused, with the constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from softwright.errors import InvalidInput
from softwright.targets.mlp.activation import Activation

Atoms = tuple[tuple[str, "Frozen"], ...]
Frozen = frozenset[tuple[tuple[int, Atoms], Fraction]]
Sum = dict[tuple[int, Atoms], Fraction]  # (power of s, functions) -> coefficient

LONGEST = 12  # nodes of the longest form, with room for exporters that multiply one constant at a time
FORMS = ("silu", "mish", "gelu_erf", "gelu_cubic")  # the rows that are recognised here
_FUNCTIONS = ("Erf", "Tanh", "Sigmoid", "Softplus")
_HALF = Fraction(1, 2)
_S: Sum = {(1, ()): Fraction(1)}


def spelt_out(nodes: Sequence[Any], source: str, constants: Mapping[str, np.ndarray]) -> tuple[Activation, int] | None:
    """The activation that the next nodes spell out, and how many they are; the longest form that is one.

    Raises `InvalidInput` where the form is known and a constant in it is not.
    """
    values: dict[str, Sum] = {source: _S}
    best: tuple[Activation, int] | None = None
    fault: InvalidInput | None = None
    for count, node in enumerate(nodes[:LONGEST], 1):
        operands = [values.get(name, _number(constants.get(name))) for name in node.input]
        value = _step(node.op_type, operands)
        if value is None or not node.output:
            break
        values[node.output[0]] = value
        try:
            found = _recognised(value)
        except InvalidInput as error:
            fault = error
            continue
        if found is not None and count > 1:
            best = found, count
    if best is None and fault is not None:
        raise fault
    return best


def _number(value: np.ndarray | None) -> Sum | None:
    if value is None or value.size != 1 or value.dtype.kind != "f" or not np.isfinite(value).all():
        return None
    return {(0, ()): Fraction(float(value.reshape(())))}


def _step(kind: str, operands: list[Sum | None]) -> Sum | None:
    """What a node makes of its operands; None for anything that is no part of an activation."""
    known = [operand for operand in operands if operand is not None]
    if len(known) < len(operands):
        return None
    match kind, known:
        case ("Mul", [a, b]):
            return _product(a, b)
        case ("Add", [a, b]):
            return _sum(a, b)
        case ("Div", [a, b]):
            divisor = _constant(b)
            return _product(a, {(0, ()): 1 / divisor}) if divisor else None
        case ("Pow", [a, b]):
            power = _constant(b)
            return _product(a, a) if power == 2 else _product(a, _product(a, a)) if power == 3 else None
        case (_, [a]) if kind in _FUNCTIONS:
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


def _recognised(value: Sum) -> Activation | None:
    """The activation that a value is, by the forms above."""
    atoms = [atoms for _, atoms in value if atoms]
    if len(atoms) != 1 or len(atoms[0]) != 1 or any(power != 1 for power, _ in value):
        return None
    kind, inner = atoms[0][0][0], dict(atoms[0][0][1])
    whole, share = value[1, atoms[0]], value.get((1, ()))
    if kind == "Sigmoid" and inner == _S and share is None:
        return _with(Activation("silu"), whole, Fraction(1))
    if kind == "Tanh" and inner == {(0, (("Softplus", frozenset(_S.items())),)): Fraction(1)} and share is None:
        return _with(Activation("mish"), whole, Fraction(1))
    if share is None or not set(inner) <= {(1, ()), (3, ())} or (1, ()) not in inner:
        return None
    rate, cubic = inner[1, ()], inner.get((3, ()))
    if kind == "Erf" and cubic is None:
        return _with(_with(_gelu_erf(rate), share, _HALF), whole, _HALF)
    if kind == "Tanh" and cubic is not None:
        found = Activation("gelu_cubic", (_float(rate), _float(cubic / rate)))
        return _with(_with(found, share, _HALF), whole, _HALF)
    return None


def _with(found: Activation, factor: Fraction, wanted: Fraction) -> Activation:
    """The activation, if its factor is the one of the form."""
    if factor != wanted:
        raise InvalidInput(
            "ONNX",
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


def _float(value: Fraction) -> float:
    if Fraction(float(value)) != value:
        raise InvalidInput(
            "ONNX",
            [
                f"gelu is spelt out with constants that make {float(value):.9g}, which is no float64 number; export it "
                "with one constant in place of two"
            ],
        )
    return float(value)
