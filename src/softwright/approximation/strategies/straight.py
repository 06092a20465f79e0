"""Axes of tokens on the cells of a grid: what is linear, or constant, in every cell is met there.

Three of them. *Gated*: one token with affine values a cell, gates at the nodes. *Paired*: two tokens with constant
values a cell, whose keys differ so little that their weights are linear in it: with D the difference of their scores
from one end of the cell to the other, the best multiple of tanh is off from a straight line by about D^2/60 of what
the line rises in the cell, and the values are 2/D times that. *Stepped*: one token with a constant value a node.

A grid head has affine values along one axis, so the multilinear interpolation of a table is one gated axis and paired
ones: exact but for the gates, whatever the spacing of the nodes and however sharp the kinks at them are. At a node
with a jump C of the slope a gate of steepness beta is off by W0(1/e) C / beta (`pieces.py`).
"""

from __future__ import annotations

import numpy as np

from softwright.approximation.fitting.axis_search import AxisFit
from softwright.approximation.fitting.families import centred_axis

_GATE = 0.2785  # W0(1/e), from above
_SHARE = 0.1  # of the tolerance, for a gate
_LEAST = 50.0  # steepness of a gate with affine values on both sides, which go on beyond it
_APART = 20.0  # logarithm of the weight that constant tokens keep in the middle of the next cell but one
_RISE = 0.2  # D: 7e-4 of a cell's rise, and values ten times as large


def _slopes(t: np.ndarray, F: np.ndarray, axis: int) -> np.ndarray:
    """In the cells of an axis (n - 1, q)."""
    return np.diff(np.moveaxis(F, axis, 0).reshape(len(t), -1), axis=0) / np.diff(t)[:, None]


def steepest(t: np.ndarray, F: np.ndarray, axis: int) -> float:
    return float(np.abs(_slopes(t, F, axis)).max())


def _steepness(t: np.ndarray, F: np.ndarray, axis: int, relative: float) -> np.ndarray:
    """Of the gate at each inner node (n - 2,), by the jump of the slope there."""
    jumps = np.abs(np.diff(_slopes(t, F, axis), axis=0)).max(axis=1)
    return np.maximum(_LEAST, _GATE * jumps / (_SHARE * relative))


def _fit(keys: np.ndarray, biases: np.ndarray, affine: bool) -> AxisFit:
    """An axis without values yet."""
    return AxisFit(centred_axis(keys, biases), affine, np.zeros((len(keys) * (1 + affine), 1)), 0.0)


def _gates(steepness: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keys and biases of one token more than there are gates."""
    return (
        np.concatenate([[0.0], np.cumsum(steepness)]),
        np.concatenate([[0.0], -np.cumsum(steepness * places)]),
    )


def gated_axis(t: np.ndarray, F: np.ndarray, axis: int, relative: float) -> AxisFit:
    """One token with affine values for every cell of an axis, gates at its nodes."""
    return _fit(*_gates(_steepness(t, F, axis, relative), t[1:-1]), affine=True)


def paired_axis(t: np.ndarray, F: np.ndarray, axis: int, relative: float) -> AxisFit:
    """Two tokens with constant values for every cell of an axis, gates at its nodes."""
    width, middle = np.diff(t), 0.5 * (t[1:] + t[:-1])
    apart = _APART / np.minimum(width[1:], width[:-1])
    keys, biases = _gates(np.maximum(apart, _steepness(t, F, axis, relative)), t[1:-1])
    # At the ends of every cell its two scores differ by D/2 to either side, so that the gates stay at the nodes.
    tilt = 0.5 * _RISE / width * np.array([[-1.0], [1.0]])
    return _fit((keys + tilt).T.ravel(), (biases - tilt * middle).T.ravel(), affine=False)


def stepped_axis(t: np.ndarray, relative: float) -> AxisFit:
    """One token with a constant value for every node of an axis, gates in the middles of its cells.

    Between two nodes the head passes from one value to the other and never beyond them; in the middle it is their mean,
    as linear interpolation is. At a node the neighbours have the weight e^(-steepness times half a cell).
    """
    steepness = 2 * np.log(8 / relative) / np.diff(t)
    return _fit(*_gates(steepness, 0.5 * (t[1:] + t[:-1])), affine=False)
