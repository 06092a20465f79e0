"""What stands for a Linear layer in a forward: functional.linear, x W, b + x W by addmm, einsum over the last axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx
from torch.nn import functional

from softwright.targets.mlp.torch_layers import numbers

Layer = tuple[Any, np.ndarray, np.ndarray]  # what goes in, weight (out, in), bias (out,)
_PLAIN = (torch.matmul, torch.mm, torch.Tensor.__matmul__, "matmul", "mm", "__matmul__")
PRODUCTS = (functional.linear, torch.addmm, torch.einsum, *_PLAIN)


def is_product(called: Any) -> bool:
    return called in PRODUCTS or getattr(called, "__name__", "") == "matmul"


def layer_of(node: fx.Node, tensor: Callable[[Any], Tensor | None]) -> Layer | None:
    """A product with a weight that is known, `tensor` of an operand; None if it is none."""
    called = node.target
    if called is functional.linear:
        named = {**dict(zip(("input", "weight", "bias"), node.args, strict=False)), **node.kwargs}
        return _made(named.get("input"), tensor(named.get("weight")), named.get("bias"), tensor)
    if called is torch.addmm:
        named = {**dict(zip(("input", "mat1", "mat2"), node.args, strict=False)), **node.kwargs}
        return _added(named, tensor)
    if called is torch.einsum:
        return _summed(node, tensor)
    if node.kwargs or len(node.args) != 2:
        return None
    weight = tensor(node.args[1])
    return None if weight is None or weight.ndim != 2 else _made(node.args[0], weight.T, None, tensor)


def _made(given: Any, weight: Tensor | None, bias: Any, tensor: Callable[[Any], Tensor | None]) -> Layer | None:
    held = tensor(bias)
    if weight is None or weight.ndim != 2 or (bias is not None and (held is None or held.ndim != 1)):
        return None
    matrix = numbers(weight).copy()
    return given, matrix, np.zeros(len(matrix)) if held is None else numbers(held).copy()


def _added(named: dict[str, Any], tensor: Callable[[Any], Tensor | None]) -> Layer | None:
    """beta b + alpha x W."""
    weight, alpha, beta = tensor(named.get("mat2")), named.get("alpha", 1), named.get("beta", 1)
    if weight is None or weight.ndim != 2 or not isinstance(alpha, float | int) or not isinstance(beta, float | int):
        return None
    found = _made(named.get("mat1"), weight.T, named.get("input"), tensor)
    return None if found is None else (found[0], found[1] * alpha, found[2] * beta)


def _summed(node: fx.Node, tensor: Callable[[Any], Tensor | None]) -> Layer | None:
    """einsum of an input and a matrix over the input's last axis, which the matrix's other axis replaces."""
    equation, *operands = node.args
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = list(operands[0])
    if not isinstance(equation, str) or len(operands) != 2 or equation.count("->") != 1:
        return None
    left, result = equation.replace(" ", "").split("->")
    terms = left.split(",")
    for place in (0, 1):
        weight = tensor(operands[1 - place])
        if len(terms) != 2 or weight is None or weight.ndim != 2:
            continue
        given, axes = terms[place], terms[1 - place]
        before, last = given[:-1], given[-1:]
        if len(axes) != 2 or last not in axes or not last.isalpha() or axes[0] == axes[1]:
            continue
        other = axes.replace(last, "")
        if other.isalpha() and other not in before and last not in before and result == before + other:
            return _made(operands[place], weight if axes[1] == last else weight.T, None, tensor)
    return None
