"""Peers of compiled stacks: a Chebyshev tensor, a tensor train and an Adam-trained transformer, for the same formula.

    Chebyshev     interpolation on a tensor grid of Chebyshev points, sizes axis by axis as slices through the box need
                  them, up to MOST_COEFFICIENTS values and MOST_AXES variables; reported: values, error
    tensor train  TT-cross: cores on n Chebyshev points an axis and ranks r, found by maximal volumes from queries of
                  the formula; a ladder of (n, r) until the tolerance is met or MOST_QUERIES are asked; reported: stored
                  values, queries, error
    transformer   the shape of the stack that was compiled (layers, heads, fixed tokens, widths), all weights free and
                  random at first, Adam on the mean square for the seconds given, the best of its checkpoints; reported:
                  error

Errors are sup errors at points that no method saw, relative to half the range. Points live in the unit frame [-1, 1]^d.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy.linalg import qr
from torch import Tensor

from softwright.attention.composition import ComposedNetwork

MOST_AXES, MOST_COEFFICIENTS, MOST_SIZE = 5, 2_000_000, 2049
MOST_QUERIES = 300_000
LADDER = ((5, 3), (8, 5), (12, 8), (16, 12), (24, 16), (32, 24))
SWEEPS = 2

Values = Callable[[np.ndarray], np.ndarray]  # unit-frame points (n, d) -> (n,)


# ---- Chebyshev tensors -----------------------------------------------------------------------------------------------


def chebyshev_points(count: int) -> np.ndarray:
    return -np.cos(np.pi * (np.arange(count) + 0.5) / count)


def interpolation(nodes: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(points, nodes): the values at x of the polynomials that are 1 at one node and 0 at the others (barycentric)."""
    count = len(nodes)
    weights = (-1.0) ** np.arange(count) * np.sin(np.pi * (np.arange(count) + 0.5) / count)
    away = x[:, None] - nodes
    at_node = away == 0
    shares = weights / np.where(at_node, 1.0, away)
    shares /= shares.sum(axis=1, keepdims=True)
    hit = at_node.any(axis=1)
    shares[hit] = at_node[hit]
    return shares


def axis_size(f: Values, dim: int, axis: int, tolerance: float) -> int:
    """How many points interpolate slices along one axis within the tolerance; MOST_SIZE if more are needed."""
    rng = np.random.default_rng(axis)
    through = np.vstack([rng.uniform(-1, 1, (8, dim)), np.sign(rng.uniform(-1, 1, (4, dim)))])
    check = np.sort(rng.uniform(-1, 1, 400))

    def slices(x: np.ndarray) -> np.ndarray:
        points = np.repeat(through[None], len(x), axis=0)
        points[:, :, axis] = x[:, None]
        return f(points.reshape(-1, dim)).reshape(len(x), -1)

    wanted, size = slices(check), 1
    while size < MOST_SIZE:
        nodes = chebyshev_points(size)
        if np.abs(interpolation(nodes, check) @ slices(nodes) - wanted).max() <= tolerance:
            break
        size = max(size + 1, int(size * 1.15))
    return size


def chebyshev_peer(f: Values, dim: int, tolerance: float, check: np.ndarray) -> str:
    """The tensor whose axes are as fine as slices ask for, refined until the whole is, or why there is none."""
    if dim > MOST_AXES:
        return f"none in {dim} variables"
    sizes = [axis_size(f, dim, axis, tolerance / 2) for axis in range(dim)]
    wanted, best, count = f(check), math.inf, 0
    for _ in range(12):
        count = math.prod(sizes)
        if count > MOST_COEFFICIENTS or max(sizes) >= MOST_SIZE:
            return f"more than {MOST_COEFFICIENTS if dim > 1 else MOST_SIZE:,} values" + (
                "" if math.isinf(best) else f" ({best:.1e} before)"
            )
        nodes = [chebyshev_points(n) for n in sizes]
        grid = np.stack([axis.ravel() for axis in np.meshgrid(*nodes, indexing="ij")], axis=1)
        tensor = f(grid).reshape(sizes)
        error = 0.0
        rows = max(1, 4_000_000 // max(1, count // sizes[0]))  # points at once, so that memory stays bounded
        for start in range(0, len(check), rows):
            part = check[start : start + rows]
            found = interpolation(nodes[0], part[:, 0]) @ tensor.reshape(sizes[0], -1)
            for axis in range(1, dim):
                shares = interpolation(nodes[axis], part[:, axis])
                found = np.einsum("pn,pnr->pr", shares, found.reshape(len(part), sizes[axis], -1))
            error = max(error, float(np.abs(found[:, 0] - wanted[start : start + rows]).max()))
        best = min(best, error)
        if error <= tolerance:
            return f"{count:,} values, {error:.1e}"
        sizes = [n if n == 1 else int(n * 1.25) + 1 for n in sizes]
    return f"not met, {best:.1e} with {count:,} values"


# ---- tensor trains ---------------------------------------------------------------------------------------------------


def large_rows(tall: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows, shares) of a matrix (n, r): its rows are shares @ tall[rows], no share above about 1 (maximal volume)."""
    rank = tall.shape[1]
    *_, order = qr(tall.T, mode="economic", pivoting=True)
    rows = np.asarray(order)[:rank]
    shares = np.linalg.lstsq(tall[rows].T, tall.T, rcond=None)[0].T
    for _ in range(200):
        i, j = divmod(int(np.abs(shares).argmax()), rank)
        if abs(shares[i, j]) <= 1.05:
            break
        shares += np.outer(shares[:, j], shares[rows[j]] - shares[i]) / shares[i, j]
        rows[j] = i
    return rows, shares


class Queries:
    """Values of a function on a grid of nodes; every point of it is asked for once."""

    def __init__(self, f: Values, nodes: np.ndarray, dim: int) -> None:
        self.f, self.nodes, self.dim = f, nodes, dim
        self.known: dict[int, float] = {}

    def __call__(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """(lefts, nodes, rights) for multi-indices of the axes before and behind one axis."""
        count = len(self.nodes)
        mesh = np.indices((len(left), count, len(right))).reshape(3, -1)
        index = np.hstack([left[mesh[0]], mesh[1][:, None], right[mesh[2]]])
        keys = [int.from_bytes(row.tobytes()) for row in index.astype(np.uint8)]
        new = dict.fromkeys(key for key in keys if key not in self.known)
        if new:
            first = {key: place for place, key in enumerate(keys)}
            values = self.f(self.nodes[index[[first[key] for key in new]]])
            self.known.update(zip(new, values.tolist(), strict=True))
        return np.array([self.known[key] for key in keys]).reshape(len(left), count, len(right))


def cross(ask: Queries, rank: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The cores (r_k, n, r_k+1) of a tensor train through crosses of maximal volume, after SWEEPS sweeps."""
    count, dim = len(ask.nodes), ask.dim
    ranks = [1, *(min(rank, count**k, count ** (dim - k)) for k in range(1, dim)), 1]
    right = [rng.integers(count, size=(ranks[k + 1], dim - k - 1)) for k in range(dim)]
    left = [np.zeros((1, 0), dtype=int)] * dim
    cores: list[np.ndarray] = []
    for sweep in range(SWEEPS):
        cores = []
        for k in range(dim):
            block = ask(left[k], right[k])
            if k == dim - 1:
                cores.append(block)
                break
            rows, shares = large_rows(np.linalg.qr(block.reshape(-1, block.shape[2]))[0])
            cores.append(shares.reshape(len(left[k]), count, -1))
            left[k + 1] = np.hstack([left[k][rows // count], (rows % count)[:, None]])
        if sweep < SWEEPS - 1:
            for k in range(dim - 1, 0, -1):
                block = ask(left[k], right[k])
                tall = block.reshape(len(left[k]), -1).T
                rows, _ = large_rows(np.linalg.qr(tall)[0])
                wide = len(right[k])
                right[k - 1] = np.hstack([(rows // wide)[:, None], right[k][rows % wide]])
    return cores


def train_values(cores: Sequence[np.ndarray], nodes: np.ndarray, x: np.ndarray) -> np.ndarray:
    stream = np.ones((len(x), 1))
    for axis, core in enumerate(cores):
        shares = interpolation(nodes, x[:, axis])
        stream = np.einsum("pa,pn,anb->pb", stream, shares, core, optimize=True)
    return stream[:, 0]


def train_peer(f: Values, dim: int, tolerance: float, check: np.ndarray) -> str:
    """The first train of the ladder that meets the tolerance, or the best of them."""
    if dim == 1:
        return "is Chebyshev in one variable"
    wanted, best, asked, rng = f(check), "", 0, np.random.default_rng(0)
    least = math.inf
    for count, rank in LADDER:
        ask = Queries(f, chebyshev_points(count), dim)
        cores = cross(ask, rank, rng)
        asked += len(ask.known)
        error = float(np.abs(train_values(cores, ask.nodes, check) - wanted).max())
        if error < least:
            stored = sum(core.size for core in cores)
            least, best = error, f"{stored:,} values, {len(ask.known):,} queries, {error:.1e}"
        if least <= tolerance:
            return best
        if asked > MOST_QUERIES:
            break
    return f"not met: {best}"


# ---- transformers ----------------------------------------------------------------------------------------------------


class FreeLayer(torch.nn.Module):
    """One layer of attention of a data token to itself and to fixed tokens."""

    def __init__(self, heads: int, width: int, keys: int, values: int, generator: torch.Generator) -> None:
        super().__init__()
        self.query = drawn(generator, (heads, width, keys), width**-0.5)
        self.key = drawn(generator, (heads, width, keys), width**-0.5)
        self.value = drawn(generator, (heads, width, values), width**-0.5)
        self.out = drawn(generator, (heads, values, width), (heads * values) ** -0.5)

    def forward(self, stream: Tensor, bank: Tensor) -> Tensor:
        """(n, D), (T, D) -> (n, D)"""
        query = torch.einsum("nd,hdk->hnk", stream, self.query)
        own = (query * torch.einsum("nd,hdk->hnk", stream, self.key)).sum(dim=2, keepdim=True)
        others = query @ torch.einsum("td,hdk->hkt", bank, self.key)
        weights = torch.softmax(torch.cat([own, others], dim=2), dim=2)  # (H, n, 1 + T)
        mixed = weights[:, :, :1] * torch.einsum("nd,hdv->hnv", stream, self.value)
        mixed = mixed + weights[:, :, 1:] @ torch.einsum("td,hdv->htv", bank, self.value)
        return stream + torch.einsum("hnv,hvd->nd", mixed, self.out)


def drawn(generator: torch.Generator, shape: tuple[int, ...], size: float) -> torch.nn.Parameter:
    return torch.nn.Parameter(size * torch.randn(*shape, generator=generator))


class FreeStack(torch.nn.Module):
    """A stack of the shape of a composed network with all weights free: one data token, fixed tokens, a residual."""

    def __init__(self, like: ComposedNetwork) -> None:
        super().__init__()
        generator, width = torch.Generator().manual_seed(0), like.width
        self.embed, self.base = drawn(generator, (like.box.dim, width), 1.0), drawn(generator, (width,), 0.5)
        self.bank = drawn(generator, (like.fixed_tokens, width), 1.0)
        self.read = drawn(generator, (width, like.outputs), width**-0.5)
        self.bias = torch.nn.Parameter(torch.zeros(1))
        shapes = [like.distinct[place] for place in like.program]
        self.layers = torch.nn.ModuleList(
            FreeLayer(one.heads, width, one.Wq.shape[2], one.Wv.shape[2], generator) for one in shapes
        )

    def forward(self, x: Tensor) -> Tensor:
        stream = x @ self.embed + self.base  # (n, D)
        for layer in self.layers:
            stream = layer(stream, self.bank)
        return (stream @ self.read)[:, 0] + self.bias


def transformer_peer(f: Values, like: ComposedNetwork, seconds: float, check: np.ndarray) -> str:
    """Sup error after `seconds` of CPU time of Adam; the best checkpoint on a sample of its own counts."""
    torch.manual_seed(0)
    rng, dim = np.random.default_rng(0), like.box.dim
    model = FreeStack(like)
    sample = rng.uniform(-1, 1, (4000, dim))
    seen = f(sample)
    middle, scale = float(seen.mean()), float(np.abs(seen - seen.mean()).max()) or 1.0
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    best, kept, steps, started = math.inf, None, 0, time.process_time()
    while (share := (time.process_time() - started) / seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * max(0.01, 1 - share)
        x = rng.uniform(-1, 1, (512, dim))
        wanted = torch.tensor((f(x) - middle) / scale, dtype=torch.float32)
        loss = torch.mean((model(torch.tensor(x, dtype=torch.float32)) - wanted) ** 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
        if steps % 50 == 0 or steps == 1:
            error = _sup(model, sample, seen, middle, scale)
            if error < best:
                best, kept = error, {name: tensor.clone() for name, tensor in model.state_dict().items()}
    if kept is not None:
        model.load_state_dict(kept)
    count = sum(parameter.numel() for parameter in model.parameters())
    return f"{_sup(model, check, f(check), middle, scale):.1e} after {steps:,} steps of {count:,} weights"


def _sup(model: FreeStack, x: np.ndarray, wanted: np.ndarray, middle: float, scale: float) -> float:
    with torch.no_grad():
        found = [model(part).numpy() for part in torch.tensor(x, dtype=torch.float32).split(4000)]
    return float(np.abs(middle + scale * np.concatenate(found).astype(float) - wanted).max())
