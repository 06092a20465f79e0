"""Nodes of ONNX graphs whose operands are constants: they are worked out, where the result is no larger than these.

Sums, products and roots are made in float64, as of real numbers, and rounded once. A Cast to fewer digits is no such
node: it rounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

DIGITS = {1: 24, 10: 11, 11: 53, 16: 8}  # binary digits of float32, float16, float64, bfloat16, as ONNX counts types
_CONSTANT = {"Mul": np.multiply, "Div": np.divide, "Add": np.add, "Sub": np.subtract}
_WHOLE = {"Mul": np.multiply, "Div": np.floor_divide, "Add": np.add, "Sub": np.subtract}
_FOLDED = 1 << 22  # numbers that a node of constants may make


def folded(kind: str, operands: list[np.ndarray], options: dict[str, Any]) -> np.ndarray | None:
    """A node of constants alone; None where it is not one of these, or would make something larger than it is given."""
    first = operands[0]
    try:
        match kind, operands:
            case ("Identity", [_]):
                return first
            case ("Cast", [_]):
                own = 0 if first.dtype.kind in "iu" else np.finfo(first.dtype).nmant + 1
                return first if DIGITS.get(int(options.get("to", 1)), 0) >= own else None
            case ("Transpose", [_]):
                return np.transpose(first, options.get("perm"))
            case ("Reshape", [_, shape]):
                return first.reshape([int(n) for n in shape.reshape(-1)])
            case ("Squeeze" | "Unsqueeze" | "Flatten", _):
                return first.reshape(-1)
            case ("Gather", [_, places]):
                axis = int(options.get("axis", 0))
                return np.take(first, places, axis) if places.size <= first.shape[axis] else None
            case ("Concat", _):
                return np.concatenate(operands, axis=int(options.get("axis", 0)))
            case ("Neg", [_]):
                return -first
            case ("Expand", [_, shape]) if np.prod(shape, dtype=float) <= _FOLDED:
                return np.broadcast_to(
                    first, np.broadcast_shapes(first.shape, tuple(int(n) for n in shape.reshape(-1)))
                )
            case ("MatMul", [a, b]) if a.ndim == b.ndim == 2 and len(a) * b.shape[1] <= _FOLDED:
                return a.astype(np.float64) @ b.astype(np.float64)
            case ("Mul" | "Div" | "Add" | "Sub", [a, b]) if (
                a.dtype.kind == b.dtype.kind == "i" and a.size == b.size == 1
            ):
                return _WHOLE[kind](a, b) if kind != "Div" or np.all(b) else None
            case ("Mul" | "Div" | "Add" | "Sub", [a, b]) if a.dtype.kind == b.dtype.kind == "f":
                found = _CONSTANT[kind](a.astype(np.float64), b.astype(np.float64))
                return found if found.size <= max(a.size, b.size) else None
            case ("Sqrt", [_]):
                return np.sqrt(first.astype(np.float64))  # as real numbers: rounded once, not to the file's dtype
    except (ValueError, IndexError, TypeError):
        return None
    return None
