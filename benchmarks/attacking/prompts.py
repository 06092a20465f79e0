"""Transformers with replaced blocks at a prompt: sizes, weights, activations, norms, masks and prompts at random."""

from __future__ import annotations

import json

import numpy as np
import torch

import softwright as sw
from attacking.result import Result
from softwright.checker.verify import reprove
from softwright.errors import InvalidInput
from softwright.fileformat import ModelFile, weights_sha256

RADIUS = 1e-5


def attack(rng: np.random.Generator, claim: bool) -> Result:
    d, layers, T = int(rng.choice([4, 6, 8])), int(rng.choice([1, 1, 2])), int(rng.integers(2, 6))
    activation, first = str(rng.choice(["relu", "relu", "gelu"])), bool(rng.random() < 0.5)
    dtype = torch.float32 if rng.random() < 0.25 else torch.float64
    torch.manual_seed(int(rng.integers(1 << 30)))
    layer = torch.nn.TransformerEncoderLayer(d, 2, 2 * d, activation=activation, batch_first=True, norm_first=first)
    encoder = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).to(dtype).eval()
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.mul_(float(10 ** rng.uniform(-0.3, 0.3)))
            if weight.ndim == 1:
                weight.add_(0.1 * torch.randn_like(weight))
    built = sw.transpile(encoder)
    size = float(10 ** rng.choice([-9.0, -2.0, 0.0, 0.0, 2.0, 5.0]))
    x = size * rng.normal(size=(T, d))
    mask = ~np.tri(T, dtype=bool) if rng.random() < 0.3 else None
    what = f"{activation}, {d}, {layers} layers, {'before' if first else 'after'}, {dtype}, {size:g}"
    try:
        found = built.certify_at(x, mask=mask)
        wide = built.certify_at(x, radius=RADIUS, mask=mask)
    except InvalidInput as error:  # growth beyond all bounds, a variance that is lost
        return Result(0.0, what=f"{what}: {error.faults[0]}")
    share = found.seen / found.bound
    # The source in its own float arithmetic stands for the exact one: off by rounding, a tiny part of these bounds.
    named = {} if mask is None else {"mask": torch.as_tensor(mask)}
    at, best = np.zeros_like(x), 0.0
    for _ in range(10):
        step = at + 0.5 * RADIUS * rng.normal(size=x.shape) / np.sqrt(d)
        step *= np.minimum(1.0, 0.99 * RADIUS / np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-300))
        moved = torch.tensor(x + step)[None].to(dtype)
        with torch.no_grad():
            apart = float((built.network(moved, **named) - encoder(moved, **named)).abs().max())
        if apart > best:
            best, at = apart, step
    share = max(share, best / wide.bound)
    if not claim or found.seen == 0 or found.content is None:
        return Result(share, what=what)
    tensors, sections = found.content(found)
    tensors, sections = dict(tensors), json.loads(json.dumps(sections))
    said = sections["certificate"]
    if rng.random() < 0.5:
        said["bound"] = 0.9 * found.seen
        last = list(said["budget"])[-1]
        said["budget"][last] = 0.9 * found.seen
    else:  # a block that is not its source, signed again
        names = [name for name in tensors if name.startswith("blocks.") and name.endswith("weight")]
        name = str(rng.choice(names))
        tensors[name] = (tensors[name] * 1.5).astype(tensors[name].dtype)
        said["weights_sha256"] = weights_sha256(tensors)
        for j, entry in enumerate(sections["model"]["blocks"]):
            start = f"blocks.{j}."
            own = {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}
            entry["certificate"]["weights_sha256"] = ModelFile(own, entry).weights_sha256
    return Result(share, 1, int(bool(reprove(ModelFile(tensors, sections)))), what)
