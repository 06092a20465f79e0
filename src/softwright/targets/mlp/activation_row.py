"""`ActivationRow`: what is known of one activation; `Spelling`: how a library writes it. Rows are in `activations.py`.

Tokens of a head g(s) = sum_j w_j (v_j s + u_j), w = softmax(k_j s + b_j), are rows (k_j, b_j, v_j, u_j). The families:

    exact    the head is the activation; only rounding separates the two
    gate     a continuous piecewise linear function whose pieces are switched by scores as sharp as beta
    powers   powers of e^s and a gate (ELU)
    fitted   no softmax of a few tokens: tokens are fitted (`transpiler/tokens.py`) to a base function B that is s/2
             plus an even function with |B(s) - max(s, 0)| <= e^{-|s|} for |s| >= 8; the row is B(rate s)/rate. Where
             there is a `gate`, B(s) = s Phi(s) with Phi(-s) = 1 - Phi(s), and tokens are those of Phi
             (`transpiler/gate_tokens.py`)
    sides    fitted too (`transpiler/sides/tokens.py`): sums of exponentials on either side of 0 and a gate (softsign)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

import numpy as np

Array = np.ndarray
Token = tuple[float, float, float, float]  # key, bias, slope, offset
Family = Literal["exact", "gate", "powers", "fitted", "sides"]


@dataclass(frozen=True)
class Spelling:
    """One way in which a library writes an activation: what is called, and where its parameters are found.

    `call` is a module's class, a function, the name of a tensor's method, or that of an ONNX operator. `options` are
    the library's names for the row's parameters, in their order, with the library's defaults (None: there is none);
    `fixed` are the parameters where there are no options; `only` is an option, the value that this spelling stands for,
    and the library's default.
    """

    call: Any
    options: tuple[tuple[str, float | None], ...] = ()
    fixed: tuple[float, ...] = ()
    only: tuple[str, str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class ActivationRow:
    """What is known of one activation. Every function takes the parameters of the row, in order, after its own."""

    name: str
    parameters: Mapping[str, float] = field(default_factory=dict)  # with torch's defaults
    function: Callable[..., Array]  # keeps the precision of its argument; the error function is float64 only
    formula: Callable[..., str]  # the same as a formula in x: what proofs are about
    torch: tuple[Spelling, ...] = ()  # modules, functions, methods
    onnx: tuple[Spelling, ...] = ()
    family: Family  # chooses the rounding analysis in transpiler/unit_bounds.py
    tokens: Callable[..., tuple[Token, ...]] | None = None  # (dtype, ...); None: fitted
    slip: float = 0.0  # distance of the tokens as stored from the activation, in units of roundoff
    # of fitted ones, by the number of tokens: (half range, width); with a gate: (spacing of keys, width, change of it);
    # of sides: (sharpness, first and last log rate)
    shapes: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    gate: Callable[..., Any] | None = None  # fitted: Phi, of balls or their series, where phi(s) = s Phi(s)
    rate: Callable[..., float] = lambda *_: 1.0  # fitted: phi(s) = base(rate s)/rate
    base: Callable[..., tuple[float, ...]] = lambda *parameters: parameters  # fitted: the parameters of the base
    smooth: Callable[..., tuple[float, ...]] = lambda *parameters: parameters  # fitted: the parameters without a jump
    jump: Callable[..., tuple[float, float]] | None = None  # where phi leaves its smooth form, and how far at most
    slope: Callable[..., float]  # sup |phi'|, rounded up
    least: Callable[..., float] | None = None  # inf phi', rounded down; None: nothing is known but -sup |phi'|
    flat: Callable[..., tuple[float, float]] = lambda *_: (-math.inf, math.inf)  # phi is constant left and right of it
    fading: Callable[..., Array] | None = None  # (r, ...): sup |phi'(s)| over |s| >= r, within 1e-13; None: `slope`
    left: Callable[..., Array] | None = None  # (r, ...), r >= 0: the same over s <= -r
    span: Callable[..., tuple[Array, Array]]  # (low, high, ...): holds phi([low, high]) up to 4 units of roundoff
    fault: Callable[..., str] = lambda *_: ""  # what is wrong with parameters, with the remedy


def number(value: float) -> str:
    """A float as a formula holds it: exactly the number it is, not the shortest decimal that reads back as it."""
    text = f"{Decimal(value):f}"
    if len(text) <= 100:
        return text if value >= 0 else f"({text})"
    whole, power = value.as_integer_ratio()
    twos = (whole & -whole).bit_length() - power.bit_length()  # value = an odd number times 2^twos
    return f"({whole >> max(twos, 0)}*2**({twos}))"
