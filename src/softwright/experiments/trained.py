"""The trained models of paper A's experiments, for `softwright reproduce --trained`.

The shapes are those of the authors' published code: every token is projected to `hidden` numbers and scaled by weights
of its place, p - n learned tokens are appended, one multi-head attention layer (two for sequences) with the usual
query, key, value and output maps follows, and the first n tokens are the answer; the clip is asked of the first of the
`hidden` coordinates, zero of the others. The settings are those that the code runs with: Adam, learning rate 1e-3,
batches of 32, four fifths of the sequences to train.

    clip                   50 epochs, 1,000 sequences, hidden width 32, eleven seeds, each with a clip of its own
    relu network, heads    3 epochs, 50,000 sequences of 20 tokens, hidden width 32, no tokens appended, seven seeds
    relu network, points   3 epochs, 50,000 sequences of 10 tokens, hidden width 16, 8 heads, three seeds
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss, scaled_dot_product_attention

LEARNING_RATE, BATCH = 1e-3, 32
CLIP_EPOCHS, RELU_EPOCHS = 50, 3
CLIP_SEQUENCES, RELU_SEQUENCES = 1000, 50_000
HIDDEN, HIDDEN_OF_POINTS = 32, 16
CLIP_SEEDS, HEADS_SEEDS, POINTS_SEEDS = range(1234, 1245), range(1237, 1244), range(1234, 1237)


class _MultiHead(nn.Module):
    """Vanilla multi-head attention, scores divided by the root of the head's width."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def _split(self, Z: Tensor) -> Tensor:
        """(q, N, width) -> (q, heads, N, width/heads)"""
        return Z.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, Z: Tensor) -> Tensor:
        query, key, value = (self._split(part(Z)) for part in (self.query, self.key, self.value))
        return self.out(scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(-2))

    def weights(self, Z: Tensor) -> Tensor:
        """Softmax weights (q, heads, queries, keys)."""
        q, k = self._split(self.query(Z)), self._split(self.key(Z))
        return (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(dim=-1)


class TrainedModel(nn.Module):
    """Projection, p - n learned tokens, `layers` attention layers, and a read-out of the first n tokens."""

    def __init__(
        self, dim: int, tokens: int, points: int, heads: int, layers: int = 1, outputs: int = 0, hidden: int = HIDDEN
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.project = nn.Linear(dim, hidden)
        self.scale = nn.Parameter(torch.ones(tokens, hidden))
        extra = max(points - tokens, 0)
        self.appended = nn.Parameter(torch.linspace(-1.0, 1.0, extra)[:, None].repeat(1, hidden))
        self.attention = nn.ModuleList([_MultiHead(hidden, heads) for _ in range(layers)])
        self.between = nn.ModuleList([nn.Linear(hidden, hidden) for _ in range(layers - 1)])
        self.read = nn.Linear(hidden, outputs) if outputs else nn.Identity()

    def all_tokens(self, x: Tensor) -> Tensor:
        """(q, n, d) -> (q, p, hidden)"""
        return torch.cat([self.project(x) * self.scale, self.appended.expand(len(x), -1, -1)], dim=1)

    def forward(self, x: Tensor) -> Tensor:
        Z = self.attention[0](self.all_tokens(x))
        for link, attend in zip(self.between, list(self.attention)[1:], strict=True):
            Z = attend(link(Z))
        return self.read(Z[:, : self.tokens])


@dataclass(frozen=True)
class Score:
    """What a trained model reaches on sequences it has not seen."""

    mean_square: float
    largest: float
    model: TrainedModel


def train(model: TrainedModel, x: np.ndarray, y: np.ndarray, seed: int, epochs: int = CLIP_EPOCHS) -> Score:
    """Adam on the mean square error with the published settings; x (q, n, d), y (q, n, outputs); a fifth is held out.

    With fewer outputs than the model has coordinates, the others are asked to be zero, as published; the score counts
    the asked coordinates only.
    """
    torch.manual_seed(seed)
    inputs, asked = torch.from_numpy(x).float(), torch.from_numpy(y).float()
    count, wanted = int(0.8 * len(inputs)), asked.shape[-1]
    order = torch.randperm(len(inputs))
    learn, test = order[:count], order[count:]
    optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    for _ in range(epochs):
        for part in learn[torch.randperm(count)].split(BATCH):
            optimiser.zero_grad()
            got = model(inputs[part])
            full = torch.zeros_like(got)
            full[..., :wanted] = asked[part]
            mse_loss(got, full).backward()
            optimiser.step()
    with torch.inference_mode():
        gap = torch.cat([model(inputs[part])[..., :wanted] - asked[part] for part in test.split(512)])
    return Score(float((gap**2).mean()), float(gap.abs().max()), model)


def train_clip(w: np.ndarray, t: np.ndarray, a: float, b: float, points: int, heads: int, seed: int) -> Score:
    """The clip experiment: tokens uniform in [-5, 5], targets clip(w_i.x_i + t_i, a, b)."""
    n, d = w.shape
    x = np.random.default_rng(seed).uniform(-5.0, 5.0, (CLIP_SEQUENCES, n, d))
    y = np.clip(np.einsum("nd,qnd->qn", w, x) + t, a, b)[..., None]
    torch.manual_seed(seed)
    return train(TrainedModel(d, n, points, heads), x, y, seed)


def train_sequences(x: np.ndarray, y: np.ndarray, points: int, heads: int, seed: int, hidden: int = HIDDEN) -> Score:
    """The two-layer experiment: x, y (q, n, d)."""
    torch.manual_seed(seed)
    return train(TrainedModel(x.shape[2], x.shape[1], points, heads, 2, y.shape[2], hidden), x, y, seed, RELU_EPOCHS)
