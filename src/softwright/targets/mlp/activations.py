"""The activations of feed-forward networks: one row per activation says everything that is known of it.

    relu, leaky_relu(slope), hardtanh(low, high), hardsigmoid(slope, offset), elu(alpha), softplus(beta, threshold),
    sigmoid, tanh, tanhshrink, softsign, silu, mish, gelu (0.5 s (1 + erf(s / sqrt 2))), gelu_tanh (its tanh form),
    identity; and GELU with constants of its own, as graphs spell it out: gelu_erf(rate, divisor), gelu_cubic(rate,
    cubic)

Readers (torch, ONNX), the heads of `transpile`, their bounds, and the Taylor models of the prover are derived from the
rows, so a new activation is one row here. `tests/contracts/test_activations.py` runs over all of them.

Tokens, written {score: value}; beta is a power of two, so beta s is not rounded:

    sigmoid       {s: 1, 0: 0}                                             exact
    tanh          {s: 1, -s: -1}                                           exact
    tanhshrink    {s: s - 1, -s: s + 1}                                    exact
    silu          {s: s, 0: 0}                                             exact
    mish          {2s: s, s + ln 2: s, ln 2: 0}                            exact
    identity      {0: s}                                                   exact
    relu          {beta s: s, 0: 0}                                        error <= W0(1/e)/beta < 0.2785/beta
    leaky relu    {beta s: s, 0: a s}                                      |1 - a| times that
    hardtanh      {0: l, beta (s - l): s, beta (2s - l - h): h}            error <= W0(2/e)/beta < 0.4632/beta
    hardsigmoid   the same with the affine piece c s + e in the middle     c times that
    elu           {0: -a, i (s - m): a (e^m - 1) for i = 1..q, beta s: s}

Mish: tanh(log(1 + t)) = (t^2 + 2t)/(t^2 + 2t + 2) with t = e^s. For ELU write z = e^{s - m}: for s <= 0 the first q + 1
tokens give -a + a e^s (1 - z^q (1 - z)/(1 - z^{q+1})), so q tokens err by |a| e^{-q m}, and a small m keeps the scores,
whose rounding costs about m units in the last place, small; the gate of the last token splits at the kink.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from flint import arb
from torch import nn
from torch.nn import functional

from softwright.targets import special
from softwright.targets.mlp.activation_ranges import (
    cubic_left,
    dip,
    elu_span,
    gelu_left,
    hardsigmoid_span,
    leaky_span,
    silu_left,
)
from softwright.targets.mlp.activation_row import ActivationRow, Array, Spelling, Token, number

BETA = 2.0**60
ELU_POWERS = 3
ELU_SHIFT = {"float64": 12.25, "float32": 5.75}
NO_THRESHOLD = 1e300  # of softplus: torch returns s itself beyond a threshold, ONNX and the formula never do
_ROOT = math.sqrt(2 / math.pi)


def sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _gelu_tanh(x: Array, rate: Any, cubic: Any) -> Array:
    return x * sigmoid(2 * rate * (x + cubic * x**3))


def _normal(z: Any) -> Any:
    """(1 + erf(z))/2"""
    return (z.erf() + 1) / 2


def _logistic(s: Any, rate: Any, cubic: Any) -> Any:
    """1/(1 + e^{-2 rate (s + cubic s^3)})"""
    return 1 / (((s + cubic * s * s * s) * (-2 * rate)).exp() + 1)


def _softplus(x: Array, beta: float, threshold: float) -> Array:
    scaled = beta * x
    smooth = (np.maximum(scaled, 0) + np.log1p(np.exp(-np.abs(scaled)))) / beta
    return np.where(scaled > threshold, x, smooth)


def _softplus_formula(beta: float, threshold: float) -> str:
    rate = number(beta)
    smooth = f"0.5*x+log(2*cosh(0.5*{rate}*x))/{rate}"  # log(1 + e^x) without its large exponentials
    return smooth if threshold >= NO_THRESHOLD else f"where({rate}*x > {number(threshold)}, x, {smooth})"


def _mish(x: Array) -> Array:
    small = np.exp(-np.abs(x))  # tanh(log(1 + e^x)) = (e^2x + 2 e^x) / (e^2x + 2 e^x + 2), divided by e^2x for x > 0
    positive = (1 + 2 * small) / (1 + 2 * small + 2 * small**2)
    negative = (small**2 + 2 * small) / (small**2 + 2 * small + 2)
    return x * np.where(x >= 0, positive, negative)


def _clip_tokens(left: float, right: float, slope: float, offset: float, low: float, high: float) -> tuple[Token, ...]:
    """low for s < left, slope s + offset between, high for s > right."""
    return (0, 0, 0, low), (BETA, -BETA * left, slope, offset), (2 * BETA, -BETA * (left + right), 0, high)


def _elu_tokens(dtype: str, alpha: float) -> tuple[Token, ...]:
    m = ELU_SHIFT[dtype]
    powers = [(float(i), -i * m, 0.0, alpha * math.expm1(m)) for i in range(1, ELU_POWERS + 1)]
    return (0, 0, 0, -alpha), *powers, (BETA, 0, 1, 0)


def _knots(slope: float, offset: float) -> tuple[float, float]:
    """Where hardsigmoid is constant, with room for the rounding of the knots."""
    left, right = -offset / slope, (1 - offset) / slope
    margin = 1e-12 * (1 + abs(left) + abs(right))
    return left - margin, right + margin


def _softsign(x: Array) -> Array:
    return x / (1 + np.abs(x))


def _spellings(*calls: Any, options: tuple[tuple[str, float | None], ...] = ()) -> tuple[Spelling, ...]:
    return tuple(Spelling(call, options) for call in calls)


_GELU_SHAPES = {  # numbers of tokens that fill the vectors of kernels
    8: (0.9532, 1.1251, 0.0310),
    16: (0.9044, 0.5876, 0.1523),
    24: (0.7133, 0.6798, 0.0948),
    32: (0.6997, 0.5954, 0.0999),
}
_GELU_TANH_SHAPES = {
    8: (1.2150, 1.2188, 0.0288),
    16: (1.1609, 0.4501, 0.1726),
    24: (1.0698, 0.3847, 0.1265),
    32: (1.3826, 0.2232, 0.1308),
    40: (0.9009, 0.3026, 0.2022),
}
_SOFTSIGN_SHAPES = {
    8: (2.0**5, -3.0, 0.68),
    14: (2.0**6, -5.94, 1.27),
    24: (2.0**6, -9.0, 2.2),
    32: (2.0**11, -11.61, 2.13),
    48: (2.0**13, -15.5, 2.4),
    64: (2.0**14, -18.8, 2.6),
    80: (2.0**16, -21.71, 2.74),
}
_SOFTPLUS_SHAPES = {8: (5.25, 1.0), 12: (6.25, 1.1), 16: (8.25, 1.1), 20: (4.25, 1.5), 24: (8.0, 1.2), 28: (8.0, 1.3)}

ACTIVATIONS: dict[str, ActivationRow] = {
    row.name: row
    for row in (
        ActivationRow(
            name="identity",
            function=lambda x: x,
            formula=lambda: "x",
            torch=_spellings(nn.Identity),
            onnx=_spellings("Identity"),
            family="exact",
            tokens=lambda dtype: ((0, 0, 1, 0),),
            slope=lambda: 1.0,
            least=lambda: 1.0,
            span=lambda low, high: (low, high),
        ),
        ActivationRow(
            name="relu",
            function=lambda x: np.maximum(x, 0),
            formula=lambda: "max(0, x)",
            torch=_spellings(nn.ReLU, torch.relu, torch.relu_, functional.relu, "relu", "relu_"),
            onnx=_spellings("Relu"),
            family="gate",
            tokens=lambda dtype: ((0, 0, 0, 0), (BETA, 0, 1, 0)),
            slope=lambda: 1.0,
            least=lambda: 0.0,
            flat=lambda: (0.0, math.inf),
            span=lambda low, high: (np.maximum(low, 0.0), np.maximum(high, 0.0)),
        ),
        ActivationRow(
            name="leaky_relu",
            parameters={"slope": 0.01},
            function=lambda x, slope: np.where(x > 0, x, slope * x),
            formula=lambda slope: f"max(0, x) - {number(slope)}*max(0, -x)",
            torch=_spellings(
                nn.LeakyReLU, functional.leaky_relu, functional.leaky_relu_, options=(("negative_slope", 0.01),)
            ),
            onnx=_spellings("LeakyRelu", options=(("alpha", 0.01),)),
            family="gate",
            tokens=lambda dtype, slope: ((0, 0, slope, 0), (BETA, 0, 1, 0)),
            slope=lambda slope: max(1.0, abs(slope)),
            least=lambda slope: min(1.0, slope),
            left=lambda r, slope: np.full_like(r, abs(slope)),
            span=leaky_span,
        ),
        ActivationRow(
            name="hardtanh",
            parameters={"low": -1.0, "high": 1.0},
            function=np.clip,
            formula=lambda low, high: f"{number(low)} + max(0, x - {number(low)}) - max(0, x - {number(high)})",
            torch=(
                *_spellings(
                    nn.Hardtanh,
                    nn.ReLU6,
                    functional.hardtanh,
                    functional.hardtanh_,
                    options=(("min_val", -1.0), ("max_val", 1.0)),
                ),
                Spelling(functional.relu6, fixed=(0.0, 6.0)),
            ),
            onnx=_spellings("Clip", options=(("min", None), ("max", None))),
            family="gate",
            tokens=lambda dtype, low, high: _clip_tokens(low, high, 1.0, 0.0, low, high),
            slope=lambda low, high: 1.0,
            least=lambda low, high: 0.0,
            flat=lambda low, high: (low, high),
            span=lambda low, high, least, most: (np.clip(low, least, most), np.clip(high, least, most)),
            fault=lambda low, high: (
                "" if low < high else f"hardtanh needs low < high, got {low:g} and {high:g}; swap or mend them"
            ),
        ),
        ActivationRow(
            name="hardsigmoid",
            parameters={"slope": 1.0 / 6.0, "offset": 0.5},
            function=lambda x, slope, offset: np.clip(slope * x + offset, 0, 1),
            formula=lambda slope, offset: (
                f"max(0, {number(slope)}*x + {number(offset)}) - max(0, {number(slope)}*x + {number(offset)} - 1)"
            ),
            torch=_spellings(nn.Hardsigmoid, functional.hardsigmoid),
            onnx=_spellings("HardSigmoid", options=(("alpha", 0.2), ("beta", 0.5))),
            family="gate",
            tokens=lambda dtype, slope, offset: _clip_tokens(
                -offset / slope, (1 - offset) / slope, slope, offset, 0.0, 1.0
            ),
            slope=lambda slope, offset: slope,
            least=lambda slope, offset: 0.0,
            flat=_knots,
            span=hardsigmoid_span,
            fault=lambda slope, offset: (
                "" if slope > 0 else f"hardsigmoid needs a positive slope, got {slope:g}; mend it"
            ),
        ),
        ActivationRow(
            name="sigmoid",
            function=sigmoid,
            formula=lambda: "0.5 + 0.5*tanh(0.5*x)",
            torch=_spellings(nn.Sigmoid, torch.sigmoid, torch.sigmoid_, functional.sigmoid, "sigmoid", "sigmoid_"),
            onnx=_spellings("Sigmoid"),
            family="exact",
            tokens=lambda dtype: ((0, 0, 0, 0), (1, 0, 0, 1)),
            slope=lambda: 0.25,
            least=lambda: 0.0,
            fading=lambda r: np.exp(-r) / (1 + np.exp(-r)) ** 2,
            span=lambda low, high: (
                np.maximum(0.5 + np.minimum(low, 0.0) / 4, 0.0),
                np.minimum(0.5 + np.maximum(high, 0.0) / 4, 1.0),
            ),
        ),
        ActivationRow(
            name="tanh",
            function=np.tanh,
            formula=lambda: "tanh(x)",
            torch=_spellings(nn.Tanh, torch.tanh, torch.tanh_, functional.tanh, "tanh", "tanh_"),
            onnx=_spellings("Tanh"),
            family="exact",
            tokens=lambda dtype: ((1, 0, 0, 1), (-1, 0, 0, -1)),
            slope=lambda: 1.0,
            least=lambda: 0.0,
            fading=lambda r: 4 * np.exp(-2 * r) / (1 + np.exp(-2 * r)) ** 2,
            span=lambda low, high: (
                np.maximum(np.minimum(low, 0.0), -1.0),
                np.minimum(np.maximum(high, 0.0), 1.0),
            ),
        ),
        ActivationRow(
            name="tanhshrink",
            function=lambda x: x - np.tanh(x),
            formula=lambda: "x - tanh(x)",
            torch=_spellings(nn.Tanhshrink, functional.tanhshrink),
            family="exact",
            tokens=lambda dtype: ((1, 0, 1, -1), (-1, 0, 1, 1)),
            slope=lambda: 1.0,
            least=lambda: 0.0,
            span=lambda low, high: (
                np.where(low >= 0, np.maximum(np.nextafter(low - 1.0, -np.inf), 0.0), low),
                np.where(high <= 0, np.minimum(np.nextafter(high + 1.0, np.inf), 0.0), high),
            ),
        ),
        ActivationRow(
            name="softsign",
            function=_softsign,
            formula=lambda: "x/(1 + abs(x))",
            torch=_spellings(nn.Softsign, functional.softsign),
            onnx=_spellings("Softsign"),
            family="sides",
            shapes=_SOFTSIGN_SHAPES,
            slope=lambda: 1.0,
            least=lambda: 0.0,
            fading=lambda r: 1 / (1 + r) ** 2,
            span=lambda low, high: (_softsign(np.maximum(low, -1e300)), _softsign(np.minimum(high, 1e300))),
        ),
        ActivationRow(
            name="silu",
            function=lambda x: x * sigmoid(x),
            formula=lambda: "x*(0.5 + 0.5*tanh(0.5*x))",
            torch=_spellings(nn.SiLU, functional.silu),
            family="exact",
            tokens=lambda dtype: ((0, 0, 0, 0), (1, 0, 1, 0)),
            slope=lambda: 1.1,
            least=lambda: 1 - 1.1,
            left=silu_left,
            span=lambda low, high: dip(-0.2785, low, high),
        ),
        ActivationRow(
            name="mish",
            function=_mish,
            formula=lambda: "x*tanh(0.5*x + log(2*cosh(0.5*x)))",
            torch=_spellings(nn.Mish, functional.mish),
            onnx=_spellings("Mish"),
            family="exact",
            tokens=lambda dtype: ((0, math.log(2), 0, 0), (1, math.log(2), 1, 0), (2, 0, 1, 0)),
            slip=1.0,  # ln 2 is stored rounded: |s| w (1 - w) u |ln 2|
            slope=lambda: 1.09,
            left=lambda r: np.where(r < 1, np.maximum(np.exp(-r), 0.37), r * np.exp(-r)),
            span=lambda low, high: dip(-0.309, low, high),
        ),
        ActivationRow(
            name="elu",
            parameters={"alpha": 1.0},
            function=lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
            formula=lambda alpha: f"max(0, x) + {number(alpha)}*(exp(min(0, x)) - 1)",
            torch=_spellings(nn.ELU, functional.elu, functional.elu_, options=(("alpha", 1.0),)),
            onnx=_spellings("Elu", options=(("alpha", 1.0),)),
            family="powers",
            tokens=_elu_tokens,
            slope=lambda alpha: max(1.0, abs(alpha)),
            least=lambda alpha: min(0.0, alpha),
            left=lambda r, alpha: abs(alpha) * np.exp(-r),
            span=elu_span,
        ),
        ActivationRow(
            name="gelu",
            function=lambda x: x * 0.5 * special.erfc((-x / np.sqrt(x.dtype.type(2))).astype(np.float64)),
            formula=lambda: "0.5*x*(1+erf(x/sqrt(2)))",
            torch=tuple(Spelling(call, only=("approximate", "none", "none")) for call in (nn.GELU, functional.gelu)),
            onnx=(Spelling("Gelu", only=("approximate", "none", "none")),),
            family="fitted",
            shapes=_GELU_SHAPES,
            gate=lambda s: _normal(s / arb(2).sqrt()),
            slope=lambda: 1.13,
            least=lambda: 1 - 1.13,
            left=gelu_left,
            span=lambda low, high: dip(-0.171, low, high),
        ),
        ActivationRow(
            name="gelu_tanh",
            function=lambda x: _gelu_tanh(x, np.sqrt(x.dtype.type(2) / x.dtype.type(np.pi)), x.dtype.type(0.044715)),
            formula=lambda: "0.5*x*(1+tanh(sqrt(2/pi)*(x+0.044715*x**3)))",
            torch=tuple(Spelling(call, only=("approximate", "tanh", "none")) for call in (nn.GELU, functional.gelu)),
            onnx=(Spelling("Gelu", only=("approximate", "tanh", "none")),),
            family="fitted",
            shapes=_GELU_TANH_SHAPES,
            gate=lambda s: _logistic(s, (2 / arb.pi()).sqrt(), arb(44715) / 10**6),
            slope=lambda: 1.13,
            least=lambda: 1 - 1.13,
            left=lambda r: cubic_left(r, _ROOT, 0.044715, -0.13),
            span=lambda low, high: dip(-0.171, low, high),
        ),
        ActivationRow(
            name="gelu_erf",
            parameters={"rate": 1.0, "divisor": math.sqrt(2)},
            function=lambda x, rate, divisor: x * 0.5 * special.erfc((-(rate * x) / divisor).astype(np.float64)),
            formula=lambda rate, divisor: f"0.5*x*(1+erf({number(rate)}*x/{number(divisor)}))",
            family="fitted",
            shapes=_GELU_SHAPES,
            gate=lambda s, rate, divisor: _normal(s * arb(rate) / arb(divisor)),
            rate=lambda rate, divisor: rate * math.sqrt(2) / divisor,
            base=lambda rate, divisor: (1.0, math.sqrt(2)),
            slope=lambda rate, divisor: 1.13,
            least=lambda rate, divisor: 1 - 1.13,
            left=lambda r, rate, divisor: gelu_left(r, rate * math.sqrt(2) / divisor),
            span=lambda low, high, rate, divisor: dip(-0.171 * divisor / (rate * math.sqrt(2)), low, high),
            fault=lambda rate, divisor: (
                "" if min(rate, divisor) > 0 else "the constants of a GELU must be positive; mend them"
            ),
        ),
        ActivationRow(
            name="gelu_cubic",
            parameters={"rate": _ROOT, "cubic": 0.044715},
            function=_gelu_tanh,
            formula=lambda rate, cubic: f"0.5*x*(1+tanh({number(rate)}*(x+{number(cubic)}*x**3)))",
            family="fitted",
            shapes=_GELU_TANH_SHAPES,
            gate=lambda s, rate, cubic: _logistic(s, arb(rate), arb(cubic)),
            rate=lambda rate, cubic: rate / _ROOT,
            base=lambda rate, cubic: (_ROOT, cubic / (rate / _ROOT) ** 2),
            slope=lambda rate, cubic: min(1.1 + 2.5 * cubic / (2 * rate) ** 2, 1.6),
            least=lambda rate, cubic: 1 - min(1.1 + 2.5 * cubic / (2 * rate) ** 2, 1.6),
            left=lambda r, rate, cubic: cubic_left(r, rate, cubic, 1 - min(1.1 + 2.5 * cubic / (2 * rate) ** 2, 1.6)),
            span=lambda low, high, rate, cubic: dip(-0.2785 / (2 * rate), low, high),
            fault=lambda rate, cubic: (
                "" if rate > 0 and cubic >= 0 else "the constants of a GELU must be positive; mend them"
            ),
        ),
        ActivationRow(
            name="softplus",
            parameters={"beta": 1.0, "threshold": 20.0},
            function=_softplus,
            formula=_softplus_formula,
            torch=_spellings(nn.Softplus, functional.softplus, options=(("beta", 1.0), ("threshold", 20.0))),
            onnx=(Spelling("Softplus", fixed=(1.0, NO_THRESHOLD)),),
            family="fitted",
            shapes=_SOFTPLUS_SHAPES,
            rate=lambda beta, threshold: beta,
            base=lambda beta, threshold: (1.0, NO_THRESHOLD),
            smooth=lambda beta, threshold: (beta, NO_THRESHOLD),
            # torch returns s itself for beta s > threshold: a jump of log(1 + e^-threshold)/beta.
            jump=lambda beta, threshold: (threshold / beta, math.exp(-min(threshold, 700.0)) / beta),
            slope=lambda beta, threshold: 1.0,
            least=lambda beta, threshold: 0.0,
            left=lambda r, beta, threshold: (
                np.exp(-beta * r) / (1 + np.exp(-beta * r)) if threshold >= 0 else np.ones_like(r)
            ),
            span=lambda low, high, beta, threshold: (
                np.maximum(low, 0.0) if threshold >= 0 else np.minimum(low, 0.0),  # s itself is negative there
                np.maximum(high, 0.0) + 0.6932 / beta,
            ),
            fault=lambda beta, threshold: "" if beta > 0 else f"softplus needs a positive beta, got {beta:g}; mend it",
        ),
    )
}
