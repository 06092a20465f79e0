"""Layer 1 of a memory: one softmax self-attention head with a residual that turns a sequence into its context id.

Token l of a sequence is embedded as  x_l = (c | sigma | 1 | 0)  in R^d, d = e + 2 + s: the code c in R^e of the token
(a row of a table, or the vector itself), times the code of its place if there are any; the logarithm sigma of the
weight of its place; a constant; and s empty coordinates. Before all tokens stands a sentinel, x_0 = (0 | log S | 1 |
0), without which "ab" and "abab" would be the same to a softmax; S as large as the longest sequence keeps long ones
apart as well as short ones. With columns for tokens, as in the papers,

    F(X)_k = x_k + W_O W_V X softmax((W_K X)^T W_Q x_k)             (paper C, theorem 2: rank s, and s = 1 if it can)

W_Q reads the constant and W_K the score (both of rank 1), W_V the code (rank s), W_O writes into empty coordinates:

    z_k = sum_l a_l W_V x_l / (S + sum_l a_l),   a_l = exp(W_K x_l),       l over the sequence, or l <= k if causal

and the id is W_I F(X)_k, with W_I = (own | own | -centre | I): the context z, centred, and, for labels of single
tokens, the token and its place, which the residual has kept. A label of the whole sequence is read at the sentinel.

`forward` runs this literally, with `torch.nn.functional.scaled_dot_product_attention`; padding has score -inf, hence
weight exactly 0. `ids` evaluates the same formula in float64 for long lists, the sums column by column.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad, scaled_dot_product_attention

from softwright.chunks import rows_within
from softwright.memory.sequences import Packed, Reading
from softwright.settings import looked_through

_ROWS = 1 << 16
_CELLS = 1 << 23  # scores, or numbers of an embedding, held at a time
TENSORS = ("codes", "vocabulary", "log_weights", "place_codes", "sentinel", "reach", "W_Q", "W_K", "W_V", "W_O", "W_I")


class ContextHead(nn.Module):
    """The head with its embedding. `codes` is empty for vectors, `vocabulary` if token t simply has row t."""

    codes: Tensor  # (V, e)
    vocabulary: Tensor  # (V,) sorted token ids, or (0,)
    log_weights: Tensor  # (n,)
    place_codes: Tensor  # (n, e), or (0, e)
    sentinel: Tensor  # () log of the weight S of the sentinel
    reach: Tensor  # (e,) no embedded code of a stored sequence is larger in absolute value
    W_Q: Tensor  # (1, d)
    W_K: Tensor  # (1, d)
    W_V: Tensor  # (s, d)
    W_O: Tensor  # (d, s)
    W_I: Tensor  # (r, d)

    def __init__(self, reading: Reading, **tensors: Tensor) -> None:
        super().__init__()
        self.reading = reading
        for name in TENSORS:
            self.register_buffer(name, tensors[name])
        d, e, s, n = self.W_Q.shape[1], self.codes.shape[1], self.W_V.shape[0], len(self.log_weights)
        self.rank, self.code_size, self.longest = s, e, n  # of W_V; of a token's code; tokens of a sequence at most
        self.takes_vectors = len(self.codes) == 0  # vectors are their own codes
        shapes = {
            "W_Q": (1, e + 2 + s),
            "W_K": (1, d),
            "W_V": (s, d),
            "W_O": (d, s),
            "W_I": (len(self.W_I), d),
            "place_codes": (n if len(self.place_codes) else 0, e),
            "vocabulary": (len(self.codes) if len(self.vocabulary) else 0,),
            "log_weights": (n,),
            "reach": (e,),
            "sentinel": (),
        }
        wrong = [name for name, shape in shapes.items() if tuple(getattr(self, name).shape) != shape]
        if wrong:
            raise ValueError(f"the shapes of {', '.join(wrong)} do not fit the others")

    @property
    def dtype(self) -> torch.dtype:
        """What it runs in."""
        return self.codes.dtype

    def find_tokens(self, tokens: np.ndarray) -> np.ndarray:
        """Rows of the table of codes; V, one past the last, for tokens that have none."""
        count = len(self.codes)
        if len(self.vocabulary):
            ids = self.vocabulary.numpy()
            rows = np.minimum(np.searchsorted(ids, tokens), count - 1)
            return np.where(ids[rows] == tokens, rows, count)
        return np.where((tokens >= 0) & (tokens < count), tokens, count)

    def foreign(self, packed: Packed) -> np.ndarray:
        """Rows (N,) that no stored sequence can equal: longer than all, or with tokens or sizes that none has."""
        found, step = np.empty(len(packed), dtype=bool), rows_within(4 * 8 * packed.content[:1].size)
        for at in range(0, len(packed), step):
            found[at : at + step] = self._foreign(packed.rows(slice(at, at + step)))
        return found

    def _foreign(self, packed: Packed) -> np.ndarray:
        long = packed.lengths > self.longest
        if self.takes_vectors:
            width = min(packed.content.shape[1], self.longest)
            codes = np.abs(packed.content[:, :width].astype(self.codes.numpy().dtype))
            codes = codes * np.abs(self.place_codes[:width].numpy()) if len(self.place_codes) else codes
            return long | ((codes > self.reach.numpy()).any(axis=2) & packed.real()[:, :width]).any(axis=1)
        return long | ((self.find_tokens(packed.content) == len(self.codes)) & packed.real()).any(axis=1)

    # ------------------------------------------------------------------------------------------- as torch runs it

    def embed(self, content: Tensor, lengths: Tensor) -> Tensor:
        """Tokens (B, n) or vectors (B, n, e) -> X (B, n + 1, d), the sentinel first."""
        n, e = content.shape[1], self.code_size
        if self.takes_vectors:
            codes = content.to(self.dtype)
        else:
            codes = torch.cat([self.codes, self.codes.new_zeros(1, e)])[self._rows(content)]  # (B, n, e)
        if len(self.place_codes):
            codes = codes * self.place_codes[:n]
        real = torch.arange(n) < lengths[:, None]
        codes = pad(torch.where(real[..., None], codes, 0), (0, 0, 1, 0))  # (B, n + 1, e), none for the sentinel
        weights = torch.cat([self.sentinel[None], self.log_weights[:n]])  # (n + 1,)
        rest = pad(torch.stack([weights, torch.ones_like(weights)], dim=1), (0, self.rank))  # (n + 1, 2 + s)
        return torch.cat([codes, rest.expand(codes.shape[0], -1, -1)], dim=2)

    def _rows(self, tokens: Tensor) -> Tensor:
        """`find_tokens` of a tensor."""
        count = self.codes.shape[0]
        if not self.vocabulary.shape[0]:
            return torch.where((tokens >= 0) & (tokens < count), tokens, count)
        rows = torch.searchsorted(self.vocabulary, tokens.to(self.vocabulary.dtype)).clamp(max=count - 1)
        return torch.where(self.vocabulary[rows] == tokens, rows, count)

    def forward(self, content: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Ids (B, r) of sequences, or (B, n, r) of their tokens, padding included."""
        content = content[:, : self.longest]
        if lengths is None:
            lengths = torch.full((content.shape[0],), content.shape[1])
        lengths = lengths.clamp(max=self.longest)
        x = self.embed(content, lengths)
        first = 0 if self.reading.mode == "sequence" else 1
        last = 1 if self.reading.mode == "sequence" else x.shape[1]
        step = last if looked_through() else max(1, _CELLS // max(1, x.shape[0] * x.shape[1]))
        blocks = [self._attend(x, lengths, at, min(at + step, last)) for at in range(first, last, step)]
        ids = torch.cat(blocks, dim=1) if blocks else x.new_zeros(x.shape[0], 0, self.W_I.shape[0])
        return ids[:, 0] if self.reading.mode == "sequence" else ids

    def _attend(self, x: Tensor, lengths: Tensor, start: int, stop: int) -> Tensor:
        """Ids (B, stop - start, r) of the tokens start..stop-1 of X."""
        queries, keys, values = x[:, start:stop] @ self.W_Q.T, x @ self.W_K.T, x @ self.W_V.T  # (B, q | n+1, 1 | s)
        places = torch.arange(x.shape[1])
        seen = (places <= lengths[:, None])[:, None, :]  # (B, 1, n + 1)
        if self.reading.causal and self.reading.mode == "token":
            seen = seen & (places <= torch.arange(start, stop)[:, None])  # (B, q, n + 1)
        with sdpa_kernel(SDPBackend.MATH):
            heard = scaled_dot_product_attention(queries, keys, values, attn_mask=seen, scale=1.0)  # (B, q, s)
        return (x[:, start:stop] + heard @ self.W_O.T) @ self.W_I.T

    # -------------------------------------------------------------------------- the same formula for long lists

    def ids(self, packed: Packed) -> np.ndarray:
        """Ids of all items in float64, (N, r), or (sum of lengths, r) in token mode."""
        by_token = self.reading.mode == "token"
        ends = np.cumsum(np.minimum(packed.lengths, self.longest) if by_token else np.ones(len(packed), dtype=np.int64))
        out = np.empty((int(ends[-1]) if len(ends) else 0, len(self.W_I)))
        # Of one sequence: its tokens four times over, a few sums, and in token mode three ids for every token.
        width = 4 * packed.content[:1].size + 8 * (self.rank + self.code_size)
        width += 3 * packed.content.shape[1] * (self.rank + len(self.W_I)) if by_token else 0
        step = min(_ROWS, rows_within(8 * width))
        for at in range(0, len(packed), step):
            stop = min(at + step, len(packed))
            out[ends[at - 1] if at else 0 : ends[stop - 1]] = self._ids(packed.rows(slice(at, stop)))
        return out

    def _columns(self, packed: Packed) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Column by column: a_l (B,), a_l W_V x_l (B, s) and the embedded code (B, e), exactly 0 where padding is."""
        e, count = self.code_size, len(self.codes)
        dtype = self.codes.numpy().dtype
        sigma = self.log_weights.double().numpy()
        read_score, read_value = self.W_K[0, :e].double().numpy(), self.W_V[:, :e].double().numpy()  # (e,), (s, e)
        places, width = self.place_codes.numpy(), min(packed.content.shape[1], self.longest)
        table = np.concatenate([self.codes.numpy(), np.zeros((1, e), dtype=dtype)])  # (V + 1, e)
        rows = None
        if not self.takes_vectors:
            rows = np.where(packed.real(), self.find_tokens(packed.content), count)
        shared = rows is not None and count <= len(packed)  # few tokens: products are made once for all of them
        plain = bool(np.array_equal(read_value, np.eye(*read_value.shape)))
        scored = bool(read_score.any())
        for column in range(width):
            real = column < packed.lengths
            if rows is None:
                source = np.where(real[:, None], packed.content[:, column], 0).astype(dtype)
            else:
                source = table if shared else table[rows[:, column]]
            if len(places):
                source = source * places[column]  # in the network's dtype: the embedding is the same in every engine
            code = source.astype(np.float64)
            value = code if plain else code @ read_value.T
            weight = np.exp(sigma[column] + (code @ read_score if scored else np.zeros(1)))
            value = value * weight[:, None]
            if rows is not None and shared:
                at = rows[:, column]
                code, value = code.take(at, axis=0), value.take(at, axis=0)
                weight = weight if len(weight) == 1 else weight.take(at)
            yield weight * real, value, code

    def _ids(self, packed: Packed) -> np.ndarray:
        e, s = self.code_size, self.rank
        w_i = self.W_I.double().numpy()
        read_own, read_place, shift, read_z = w_i[:, :e], w_i[:, e], w_i[:, e + 1], w_i[:, e + 2 :]
        by_token, causal = self.reading.mode == "token", self.reading.causal
        total = np.zeros((len(packed), s))
        mass = np.full(len(packed), np.exp(float(self.sentinel)))
        contexts, owns = [], []
        for weight, value, code in self._columns(packed):
            total += value
            mass += weight
            if by_token:
                owns.append(code @ read_own.T)
                if causal:
                    contexts.append(total / mass[:, None])
        z = total / mass[:, None]  # (B, s)
        if not by_token:
            return z @ read_z.T + shift
        if not owns:
            return np.zeros((0, len(w_i)))
        heard = np.stack(contexts, axis=1) if causal else np.repeat(z[:, None], len(owns), axis=1)  # (B, n, s)
        own = np.stack(owns, axis=1) + self.log_weights.double().numpy()[: len(owns), None] * read_place
        return (heard @ read_z.T + own + shift)[packed.real()[:, : len(owns)]]
