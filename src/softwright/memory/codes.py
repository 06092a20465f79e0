"""Codes, weights of places, and the matrices of layer 1, drawn at random from a fixed seed.

Generic numbers separate almost surely; random ones are generic, and how far apart the ids really are is measured
afterwards. Linear or golden-ratio weights of places would collide exactly on "ab..ba" and "ba..ab".

    order, "weights"    a_l = w_l in [1/2, 3/2]: one number per place, as a score; softmax weighs the tokens by place
    order, "products"   the code of a token is multiplied by a random code of its place as well: near-permutations are
                        then as far apart as other sequences, which float32 needs
    multisets           the score of a token is a multiple of its own code: a_t = exp(k.c_t)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from softwright.memory.context_head import ContextHead
from softwright.memory.sequences import Packed, Reading

_SET_SCORE = 0.3
_DENSE_VOCABULARY = 4  # a table may have this many rows per token before ids are searched for instead


@dataclass(frozen=True)
class Alphabet:
    """The tokens: V codes, with sorted ids if they are not 0..V-1; or vectors of `width` numbers up to `size`."""

    count: int
    ids: np.ndarray
    width: int = 0
    size: float = 1.0


def alphabet_of(packed: Packed) -> Alphabet:
    if packed.is_vectors:
        return Alphabet(
            0, np.zeros(0, dtype=np.int64), packed.width, float(np.abs(packed.flat()).max(initial=0.0)) or 1.0
        )
    flat = packed.flat()
    if not len(flat):
        return Alphabet(1, np.zeros(0, dtype=np.int64))
    low, high = int(flat.min()), int(flat.max())
    if low >= 0 and high < max(1024, _DENSE_VOCABULARY * len(flat)):
        return Alphabet(high + 1, np.zeros(0, dtype=np.int64))
    ids = np.unique(flat).astype(np.int64)
    return Alphabet(len(ids), ids)


def token_codes(count: int, rank: int, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(-1.0, 1.0, (count, rank)) * np.sqrt(3.0)


def place_weights(count: int, rng: np.random.Generator) -> np.ndarray:
    return np.log(rng.uniform(0.5, 1.5, count))


def place_products(count: int, size: int, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0.3, 1.5, (count, size)) * rng.choice([-1.0, 1.0], (count, size))


def draw_head(
    alphabet: Alphabet,
    longest: int,
    reading: Reading,
    rank: int,
    places: str,
    line: bool,
    dtype: torch.dtype,
    seed: int,
) -> ContextHead:
    """Layer 1 with random codes. `places` is "weights" or "products"; `line` asks for ids of one number."""
    rng = np.random.default_rng([seed, rank, longest])
    e = alphabet.width or rank
    d = e + 2 + rank
    codes = token_codes(alphabet.count, e, rng)
    w_k, w_q = np.zeros((1, d)), np.zeros((1, d))
    w_v, w_o, w_i = np.zeros((rank, d)), np.zeros((d, rank)), np.zeros((1 if line else rank, d))
    w_k[0, e] = w_q[0, e + 1] = 1.0
    w_o[e + 2 :] = np.eye(rank)
    if alphabet.width:
        w_v[:, :e] = rng.standard_normal((rank, e)) / (alphabet.size * np.sqrt(e))
    else:
        w_v[:, :e] = np.eye(rank)
    direction = rng.standard_normal(rank)
    w_i[:, e + 2 :] = direction / np.linalg.norm(direction) if line and rank > 1 else np.eye(len(w_i), rank)
    if reading.mode == "token":  # the residual keeps the token and its place: both become part of the id
        w_i[:, :e] = w_i[:, e + 2 :] @ w_v[:, :e]
        w_i[:, e] = rng.uniform(0.5, 1.0, len(w_i)) * rng.choice([-1.0, 1.0], len(w_i)) * reading.positional
    if not reading.positional:
        w_k[0, :e] = _SET_SCORE * w_v[0, :e]
    sigma = place_weights(longest, rng) if reading.positional else np.zeros(longest)
    product = reading.positional and places == "products"
    place_codes = place_products(longest, e, rng) if product else np.zeros((0, e))

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.tensor(array, dtype=dtype)

    codes_t, places_t = tensor(codes), tensor(place_codes)
    bound = codes_t.abs().amax(dim=0) if len(codes_t) else torch.full((e,), float(alphabet.size), dtype=dtype)
    if alphabet.width:
        bound = bound * (1 + 4 * torch.finfo(dtype).eps)  # the largest input, cast up
    if len(places_t):
        bound = bound * places_t.abs().amax(dim=0) * (1 + 4 * torch.finfo(dtype).eps)
    return ContextHead(
        reading,
        codes=codes_t,
        vocabulary=torch.from_numpy(alphabet.ids),
        log_weights=tensor(sigma),
        place_codes=places_t,
        sentinel=tensor(np.log(np.array(float(longest)))),
        reach=bound,
        W_Q=tensor(w_q),
        W_K=tensor(w_k),
        W_V=tensor(w_v),
        W_O=tensor(w_o),
        W_I=tensor(w_i),
    )
