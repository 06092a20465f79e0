"""The activations that `transpile` knows: name, parameters, and the function itself for checks by sampling.

    relu, leaky_relu(slope), hardtanh(low, high), hardsigmoid(slope, offset), elu(alpha), softplus(beta, threshold),
    sigmoid, tanh, silu, mish, gelu (0.5 s (1 + erf(s / sqrt 2))), gelu_tanh (its tanh form), identity

The functions keep the precision of their argument: given `numpy.longdouble` they return it, but for the error function,
which exists in float64 only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import erfc

from softwright.errors import Faults

# Name -> names of the parameters with the values that torch gives them.
PARAMETERS: dict[str, dict[str, float]] = {
    "identity": {},
    "relu": {},
    "leaky_relu": {"slope": 0.01},
    "hardtanh": {"low": -1.0, "high": 1.0},
    "hardsigmoid": {"slope": 1.0 / 6.0, "offset": 0.5},
    "sigmoid": {},
    "tanh": {},
    "silu": {},
    "mish": {},
    "elu": {"alpha": 1.0},
    "gelu": {},
    "gelu_tanh": {},
    "softplus": {"beta": 1.0, "threshold": 20.0},
}


def sigmoid(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    root = np.sqrt(x.dtype.type(2) / x.dtype.type(np.pi))
    return x * sigmoid(2 * root * (x + x.dtype.type(0.044715) * x**3))


def _softplus(x: np.ndarray, beta: float, threshold: float) -> np.ndarray:
    scaled = beta * x
    smooth = (np.maximum(scaled, 0) + np.log1p(np.exp(-np.abs(scaled)))) / beta
    return np.where(scaled > threshold, x, smooth)


def _mish(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))  # tanh(log(1 + e^x)) = (e^2x + 2 e^x) / (e^2x + 2 e^x + 2), divided by e^2x for x > 0
    positive = (1 + 2 * small) / (1 + 2 * small + 2 * small**2)
    negative = (small**2 + 2 * small) / (small**2 + 2 * small + 2)
    return x * np.where(x >= 0, positive, negative)


_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x, slope: np.where(x > 0, x, slope * x),
    "hardtanh": np.clip,
    "hardsigmoid": lambda x, slope, offset: np.clip(slope * x + offset, 0, 1),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "silu": lambda x: x * sigmoid(x),
    "mish": _mish,
    "elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    "gelu": lambda x: x * 0.5 * erfc((-x / np.sqrt(x.dtype.type(2))).astype(np.float64)),
    "gelu_tanh": _gelu_tanh,
    "softplus": _softplus,
}


@dataclass(frozen=True)
class Activation:
    """One activation; parameters left out are torch's."""

    name: str
    parameters: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        faults = Faults("Activation")
        if faults.check(self.name in PARAMETERS, f"{self.name!r} is not known; use one of {', '.join(PARAMETERS)}"):
            defaults = tuple(PARAMETERS[self.name].values())
            given = tuple(float(value) for value in self.parameters) or defaults
            faults.check(
                len(given) == len(defaults),
                f"{self.name} takes {len(defaults)} parameter(s), got {len(given)}; give all of them or none",
            )
            faults.check(
                all(math.isfinite(value) for value in given), f"{self.name}{given}: parameters must be finite numbers"
            )
            object.__setattr__(self, "parameters", given)
            faults.found += [] if faults.found else _faults_of(self.name, self.options)
        faults.raise_if_any()

    @property
    def options(self) -> dict[str, float]:
        """Parameters by name."""
        return dict(zip(PARAMETERS[self.name], self.parameters, strict=True))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return _FUNCTIONS[self.name](x, *self.parameters)

    def __str__(self) -> str:
        shown = [f"{name}={value:g}" for name, value in self.options.items() if value != PARAMETERS[self.name][name]]
        return f"{self.name}({', '.join(shown)})" if shown else self.name

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "parameters": list(self.parameters)}


def _faults_of(name: str, options: dict[str, float]) -> list[str]:
    if name == "hardtanh" and not options["low"] < options["high"]:
        return [f"hardtanh needs low < high, got {options['low']:g} and {options['high']:g}; swap or mend them"]
    if name == "hardsigmoid" and not options["slope"] > 0:
        return [f"hardsigmoid needs a positive slope, got {options['slope']:g}; mend it"]
    if name == "softplus" and not options["beta"] > 0:
        return [f"softplus needs a positive beta, got {options['beta']:g}; mend it"]
    return []
