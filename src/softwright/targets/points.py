"""The one check of points that every target shares."""

from __future__ import annotations

import numpy as np

from softwright.errors import InvalidInput


def as_points(points: np.ndarray, names: tuple[str, ...], subject: str) -> np.ndarray:
    """`points` as a float64 array (n, d); anything else is an error that says which shape is wanted."""
    try:
        array = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(subject, [f"the points are not numbers ({error}); give an array of float64"]) from error
    if array.ndim != 2 or array.shape[1] != len(names):
        wanted = f"(n, {len(names)}) with the columns {', '.join(names)}"
        raise InvalidInput(subject, [f"points have shape {array.shape}; give an array of shape {wanted}"])
    return array


def show_point(names: tuple[str, ...], point: np.ndarray) -> str:
    """A point as the user would write it: x=0.5, y=-1."""
    return ", ".join(f"{name}={float(value):.6g}" for name, value in zip(names, point, strict=True))
