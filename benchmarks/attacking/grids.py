"""Grid heads against sums of sines, and gates against maxima of affine pieces, in float64."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from flint import arb

from attacking.result import Result, ball_values, climb
from softwright.attention.head import Axis, Head
from softwright.attention.network import AttentionNetwork
from softwright.checker.verify import verify
from softwright.domain import Box
from softwright.fileformat import write_model
from softwright.proof.closed.max_affine import prove_max_affine
from softwright.proof.models.exact_heads import exact_heads, float_values
from softwright.proof.prover import certify
from softwright.result.certificate import sum_rounded_up
from softwright.result.constructed import tensors_of
from softwright.targets.formula.expression import Expression

MOST_SECONDS = 20.0  # for a verdict; a false claim is looked at on ever smaller boxes before it is given up
FEW_BOXES = 40
PLAN = {"strategy": "by hand", "tolerance": 0.0, "heads": [], "tokens": 0, "parameters": 0, "seconds": 0.0}


def verified(network: AttentionNetwork, certificate, dtype: str = "float64") -> bool:
    """What the checker says of the network with a certificate, true or not."""
    said = {"model": {"kind": "approximation", **network.describe()}, "target": certificate.target}
    names = sorted(network.state_dict())
    sections = {**said, "plan": {**PLAN, "dtype": dtype}, "certificate": certificate.to_json(names, [])}
    with tempfile.TemporaryDirectory() as folder:
        write_model(path := Path(folder) / "claim.safetensors", tensors_of(network), sections)
        return bool(verify(path, progress=False, max_seconds=MOST_SECONDS))


def lie(certificate, exact: float):
    """The certificate with a smaller exact part, its other parts as they are."""
    total = sum_rounded_up(exact, certificate.rounding_part)
    return replace(certificate, bound=total, exact_part=exact, lower=0.0)


def attack(rng: np.random.Generator, claim: bool) -> Result:
    dim = int(rng.choice([2, 2, 2, 3]))
    sizes = rng.integers(2, {2: 6, 3: 4}[dim], dim)
    axes = [Axis(np.sort(rng.normal(size=n)) * rng.choice([1.0, 3.0]), rng.normal(size=n)) for n in sizes]
    names = [f"x{i + 1}" for i in range(dim)]
    box = Box(**dict.fromkeys(names, (-1, 1)))
    network = AttentionNetwork([Head.on_grid(axes, rng.normal(size=(int(np.prod(sizes)), 1)))], box)
    terms = [(float(c), float(k)) for c, k in np.round(rng.normal(size=(dim, 2)), 2)]
    text = " + ".join(f"{c:.2f}*sin({k:.2f}*{x})" for x, (c, k) in zip(names, terms, strict=True))
    engine = str(rng.choice(["sdpa", "factorised"]))
    heads, target = exact_heads(network, engine), Expression(text, box)

    def error(x: np.ndarray) -> np.ndarray:
        return np.abs(float_values(heads, x) - target(x))[:, 0]

    worst = climb(error, box.sample(1500, int(rng.integers(1 << 30))), box.lower, box.upper, rng, 0.2)
    wanted = sum(
        (arb(f"{c:.2f}") * (arb(f"{k:.2f}") * arb(float(x))).sin() for (c, k), x in zip(terms, worst, strict=True)),
        arb(0),
    )
    seen = float(abs(ball_values(network, worst)[0] - wanted).lower()) * (1 - 1e-13)  # biases of axes are rounded sums
    found = certify(network, text, tightness=0.5, engine=engine, max_work=0.1, progress=False)
    share = seen / found.proved_bound
    if not claim:
        return Result(share, what=text)
    proved = certify(network, text, bound=0.999 * seen, engine=engine, max_work=0.1, progress=False).proved
    certificate = found.certificate or found.weaker
    if certificate is not None and certificate.boxes <= FEW_BOXES:
        proved = proved or verified(network, lie(certificate, 0.999 * seen))
    return Result(share, 1, int(proved), text)


def attack_gates(rng: np.random.Generator, claim: bool) -> Result:
    d, N, beta = int(rng.integers(1, 4)), int(rng.integers(2, 7)), float(2 ** rng.integers(5, 24))
    kind = int(rng.integers(3))
    if kind == 0:  # parallel walls
        slopes = np.sort(rng.uniform(-2, 2, N))[:, None] * rng.normal(size=d)
        offsets = -0.5 * np.sort(rng.uniform(-2, 2, N)) ** 2
    elif kind == 1:  # planes that touch a bowl
        points = rng.uniform(-1, 1, (N, d))
        slopes, offsets = 2 * points, -(points**2).sum(axis=1)
    else:
        slopes, offsets = rng.normal(size=(N, d)), 0.5 * rng.normal(size=N)
    slopes, offsets = np.round(slopes * 256) / 256, np.round(offsets * 256) / 256
    names = "xyz"[:d]
    box = Box(**dict.fromkeys(names, (-1, 1)))
    network = AttentionNetwork([Head(beta * slopes, beta * offsets, offsets[:, None], slopes[:, None, :])], box)
    each = [
        " + ".join(f"({g!r})*{x}" for g, x in zip(row, names, strict=True)) + f" + ({b!r})"
        for row, b in zip(slopes.tolist(), offsets.tolist(), strict=True)
    ]
    text = f"max({', '.join(each)})"

    def error(x: np.ndarray) -> np.ndarray:
        m = x @ slopes.T + offsets
        gap = m.max(axis=1, keepdims=True) - m
        w = np.exp(-beta * gap)
        return (w * gap).sum(axis=1) / w.sum(axis=1)

    start = np.concatenate([_at_walls(slopes, offsets, beta, rng.uniform(-1, 1, (1500, d)), rng) for _ in range(2)])
    worst = climb(error, start, box.lower, box.upper, rng, min(0.2, 3 / beta))
    value = ball_values(network, worst)[0]
    pieces = [
        sum((arb(g) * arb(float(x)) for g, x in zip(row, worst, strict=True)), arb(b))
        for row, b in zip(slopes.tolist(), offsets.tolist(), strict=True)
    ]
    top = pieces[0]
    for piece in pieces[1:]:
        top = arb.max(top, piece)
    seen = max(float(abs(value - top).lower()), 0.0)
    closed = prove_max_affine(exact_heads(network, "sdpa"), Expression(text, box).nodes, box, 1)
    if closed is None:
        return Result(0.0, what=f"no closed form: {text}")
    share = seen / closed.exact if closed.exact > 0 else 0.0
    if not claim or seen == 0:
        return Result(share, what=text)
    certificate = certify(network, text, bound=2 * (closed.exact + closed.rounding), progress=False).certificate
    if certificate is None or certificate.tree is not None:
        return Result(share, what=text)
    # What is true must be verified, or a refusal would say nothing.
    believed = verified(network, lie(certificate, 1.001 * closed.exact))
    proved = verified(network, lie(certificate, 0.999 * seen))
    return Result(share, int(believed), int(proved), text)


def _at_walls(slopes: np.ndarray, offsets: np.ndarray, beta: float, x: np.ndarray, rng) -> np.ndarray:
    """Points moved to where the largest piece is ahead of the second or third by what costs most."""
    if len(slopes) < 2:
        return x
    for _ in range(3):
        m = x @ slopes.T + offsets
        order, rows = np.argsort(-m, axis=1), np.arange(len(x))
        first, other = order[:, 0], order[rows, np.minimum(rng.integers(1, 3, len(x)), len(slopes) - 1)]
        turn = slopes[first] - slopes[other]
        ahead = m[rows, first] - m[rows, other] - 1.3 / beta
        x = np.clip(x - (ahead / np.maximum((turn**2).sum(axis=1), 1e-9))[:, None] * turn, -1, 1)
    return x
