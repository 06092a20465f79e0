"""Peers of our proofs, for `certify.py`: interval arithmetic, the mean value form, Taylor-2 and Vertex-Softmax.

Each is a function of boxes that bounds |network - formula| on them; `peer` bisects with it until a goal is met or the
time is up. They work in plain float64 without any account of their own rounding, which favours them.

Vertex-Softmax (arXiv 2605.10974; its code could not be had, this is our own of its theorem): over a box of scores the
extremes of sum_j v_j softmax(s)_j lie at vertices, and once tokens are sorted by v_j they are among the N + 1 vertices
at which all tokens before one have their largest score and all others their least. No bound that knows the scores'
intervals alone is tighter. The formula is enclosed by intervals.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from crown_peer import LIRPA, crown_bound
from torch import Tensor

from softwright.attention.network import AttentionNetwork
from softwright.domain import Box
from softwright.proof.models.exact_heads import exact_heads
from softwright.proof.models.head_moments import ExactHead
from softwright.proof.question import pose
from softwright.targets.formula.expression import Expression

Bound = Callable[[np.ndarray, np.ndarray], np.ndarray]  # centres (B, d), radii (B, d) -> upper bounds of |g - f| (B,)


def _scores(head: ExactHead, centers: np.ndarray, radii: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    t, r = (centers - head.center) * head.scale, radii * head.scale
    middle = t @ head.keys.T + head.bias
    spread = r @ np.abs(head.keys).T
    return middle - spread, middle + spread  # (B, N)


def _values(head: ExactHead, centers: np.ndarray, radii: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest values of the tokens on boxes, (B, N) or (1, N)."""
    v = head.values[None, :, 0]
    if head.slopes is None:
        return v, v
    t, r = (centers - head.center) * head.scale, radii * head.scale
    middle, spread = v + t @ head.slopes[:, 0].T, r @ np.abs(head.slopes[:, 0]).T
    return middle - spread, middle + spread


def _apart(low: np.ndarray, high: np.ndarray, target: Expression, centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
    f_low, f_high, _ = target.enclose(centers - radii, centers + radii)
    return np.maximum(np.abs(high - f_low[:, 0]), np.abs(f_high[:, 0] - low))


def interval_bound(head: ExactHead, target: Expression) -> Bound:
    """Interval softmax: each weight against the extremes of all others."""

    def bound(centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
        low, high = _scores(head, centers, radii)
        v_low, v_high = _values(head, centers, radii)
        top = high.max(axis=1, keepdims=True)
        e_low, e_high = np.exp(low - top), np.exp(high - top)
        w_low = e_low / (e_low + e_high.sum(axis=1, keepdims=True) - e_high)
        w_high = e_high / (e_high + np.maximum(e_low.sum(axis=1, keepdims=True) - e_low, 0.0))
        g_low = np.minimum(w_low * v_low, w_high * v_low).sum(axis=1)
        g_high = np.maximum(w_low * v_high, w_high * v_high).sum(axis=1)
        g_low, g_high = np.maximum(g_low, v_low.min(axis=1)), np.minimum(g_high, v_high.max(axis=1))
        return _apart(g_low, g_high, target, centers, radii)

    return bound


def vertex_bound(head: ExactHead, target: Expression) -> Bound:
    """Vertex-Softmax: the exact extremes over the box of scores."""

    def largest(low: np.ndarray, high: np.ndarray, v: np.ndarray) -> np.ndarray:
        order = np.argsort(-v, axis=1)
        v, low, high = (np.take_along_axis(np.broadcast_to(a, low.shape), order, axis=1) for a in (v, low, high))
        none = np.zeros((len(low), 1))
        up, down = (np.concatenate([none, np.cumsum(a, axis=1)], axis=1) for a in (high, low))
        up_v, down_v = (np.concatenate([none, np.cumsum(a * v, axis=1)], axis=1) for a in (high, low))
        return ((up_v + down_v[:, -1:] - down_v) / (up + down[:, -1:] - down)).max(axis=1)

    def bound(centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
        low, high = _scores(head, centers, radii)
        v_low, v_high = (np.broadcast_to(v, low.shape) for v in _values(head, centers, radii))
        top = high.max(axis=1, keepdims=True)
        low, high = np.exp(low - top), np.exp(high - top)
        return _apart(-largest(low, high, -v_low), largest(low, high, v_high), target, centers, radii)

    return bound


def mean_value_bound(head: ExactHead, target: Expression) -> Bound:
    """Value at the centre plus the radius times interval bounds of the derivatives, which are covariances of g."""
    v = head.values[:, 0]
    derivatives = [target.derivative(name) for name in target.names]

    def bound(centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
        low, high = _scores(head, centers, radii)
        middle = 0.5 * (low + high)
        w = np.exp(middle - middle.max(axis=1, keepdims=True))
        w /= w.sum(axis=1, keepdims=True)
        g = w @ v
        # each weight is at most e^(2 spread) times its value at the centre
        w_high = np.minimum(w * np.exp(np.minimum(high - low, 600.0)), 1.0)
        total = np.abs(g - target(centers)[:, 0])
        key = w @ head.keys
        for i, derivative in enumerate(derivatives):
            f_low, f_high, _ = derivative.enclose(centers - radii, centers + radii)
            slope = (w * (v - g[:, None]) * (head.keys[:, i] - key[:, i, None])).sum(axis=1) * head.scale[i]
            wobble = ((w_high - w) * np.abs(v - g[:, None]) * np.abs(head.keys[:, i] - key[:, i, None])).sum(axis=1)
            largest = np.maximum(np.abs(slope - f_low[:, 0]), np.abs(slope - f_high[:, 0])) + wobble * head.scale[i]
            total = total + largest * radii[:, i]
        return total

    return bound


def taylor_bound(network: AttentionNetwork, text: str, order: int, accuracy: float) -> Bound:
    residual = pose(network, text, None, "sdpa", order).residual

    def bound(centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
        return residual.bounds(centers, radii, [np.array([i]) for i in range(len(centers))], accuracy).upper

    return bound


def branch_and_bound(bound: Bound, box: Box, goal: float, seconds: float) -> tuple[int | None, float]:
    """Boxes that the method needs, or None if the time is up."""
    started = time.process_time()
    centers, radii = box.center[None], box.halfwidth[None]
    leaves = 0
    while len(centers):
        rest = []
        for first in range(0, len(centers), 256):
            part = slice(first, first + 256)
            with np.errstate(all="ignore"):
                rest.append(~(bound(centers[part], radii[part]) <= goal))
            if time.process_time() - started > seconds:
                return None, time.process_time() - started
        open_boxes = np.concatenate(rest)
        leaves += int(np.count_nonzero(~open_boxes))
        centers, radii = centers[open_boxes], radii[open_boxes]
        side = np.argmax(radii / box.halfwidth, axis=1)
        half = radii.copy()
        half[np.arange(len(half)), side] *= 0.5
        move = np.where(np.arange(box.dim) == side[:, None], half, 0.0)
        centers, radii = np.concatenate([centers - move, centers + move]), np.concatenate([half, half])
    return leaves, time.process_time() - started


def predicted(bound: Bound, box: Box, goal: float, points: int = 40) -> float:
    """Boxes of the largest size that the method accepts, averaged over random points where it can accept any."""
    centers = box.sample(points, 5)
    low, high = np.full(points, -50.0), np.zeros(points)  # log2 of the size relative to the domain
    for _ in range(14):
        middle = 0.5 * (low + high)
        with np.errstate(all="ignore"):
            accepted = bound(centers, box.halfwidth * np.exp2(middle)[:, None]) <= goal
        low, high = np.where(accepted, middle, low), np.where(accepted, high, middle)
    return float(np.mean(np.exp2(-low * box.dim))) if np.median(low) > -49 else np.inf


def print_peers(
    network: AttentionNetwork, text: str, goal: float, seconds: float, in_torch: Callable[[Tensor], Tensor]
) -> None:
    """What each of them needs for a claim about a network of one head; with slopes, only of those that know slopes."""
    (head,), target = exact_heads(network, "sdpa"), Expression(text, network.box)
    peers = {"interval": interval_bound(head, target), "Vertex-Softmax": vertex_bound(head, target)}
    if head.slopes is None:
        peers["mean value"] = mean_value_bound(head, target)
    peers["Taylor-2"] = taylor_bound(network, text, 2, goal)
    if LIRPA is not None and head.slopes is None:
        peers[f"CROWN (auto_LiRPA {LIRPA})"] = crown_bound(network, in_torch)
    for label, bound in peers.items():
        print(f"    {peer(label, bound, network.box, goal, seconds)}", flush=True)


def peer(name: str, bound: Bound, box: Box, goal: float, seconds: float) -> str:
    boxes, spent = branch_and_bound(bound, box, goal, seconds)
    if boxes is not None:
        return f"{name}: {boxes} boxes {spent:.2f} s"
    needed = predicted(bound, box, goal)
    if not np.isfinite(needed):
        return f"{name}: accepts no box, however small, at most random points (not in {seconds:g} s)"
    return f"{name}: ~{needed:.0e} boxes (not in {seconds:g} s)"
