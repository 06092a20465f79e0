"""The same head as self-attention, every matrix spelt out (papers A and B).

The input X (d x n; here one token, n = 1) becomes the token matrix

    Z = sum_i P_i X Q_i + R,                                                             (sum of linear maps)

and one softmax self-attention layer without anything else acts on Z: out = W_V Z softmax((W_K Z)^T W_Q Z). The rows
of Z are

    key rows      k_j            (constant, from R)
    bias row      b_j            (constant, from R)
    value rows    v_j + G_j t    (R holds v_j; for output o and input i: P = e_o e_i^T, Q = row of slopes G[:, o, i])
    copy rows     t              (P = copy, Q = row of ones: every token carries the input)
    one row       1

so W_Q reads (t, 1), W_K reads (k_j, b_j), W_V reads the value rows. All tokens ask the same question, so all columns
of the output are equal; the first is the answer.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from softwright.attention.layer import SoftmaxHead
from softwright.attention.network import AttentionNetwork
from softwright.settings import runs_as_proved


class SumOfLinear(nn.Module):
    """Z = sum_i P_i X Q_i + R with P (terms, rows, d), Q (terms, n, N), R (rows, N)."""

    P: Tensor
    Q: Tensor
    R: Tensor

    def __init__(self, P: Tensor, Q: Tensor, R: Tensor) -> None:
        super().__init__()
        self.register_buffer("P", P)
        self.register_buffer("Q", Q)
        self.register_buffer("R", R)

    @runs_as_proved
    def forward(self, X: Tensor) -> Tensor:
        """(..., d, n) -> (..., rows, N)"""
        left = torch.einsum("pzd,...dn->...pzn", self.P, X)  # two products, in this order whatever is installed
        return torch.einsum("...pzn,pnN->...zN", left, self.Q) + self.R


class SelfAttention(nn.Module):
    """Softmax self-attention W_V Z softmax((W_K Z)^T W_Q Z) on tokens made by a sum of linear maps."""

    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor

    def __init__(self, head: SoftmaxHead) -> None:
        super().__init__()
        N, d = head.keys.shape
        m = head.values.shape[1]
        rows = d + 1 + m + d + 1
        key, bias, value, copy, one = 0, d, d + 1, d + 1 + m, rows - 1
        terms = 1 + (0 if head.slopes is None else m * d)
        like = {"dtype": head.keys.dtype, "device": head.keys.device}
        P, Q, R = torch.zeros(terms, rows, d, **like), torch.zeros(terms, 1, N, **like), torch.zeros(rows, N, **like)
        P[0, copy : copy + d] = torch.eye(d, **like)
        Q[0, 0] = 1.0
        if head.slopes is not None:
            for o in range(m):
                for i in range(d):
                    P[1 + o * d + i, value + o, i] = 1.0
                    Q[1 + o * d + i, 0] = head.slopes.detach()[:, o, i]
        R[key : key + d] = head.keys.detach().T
        R[bias] = head.biases.detach()
        R[value : value + m] = head.values.detach().T
        R[one] = 1.0
        self.tokens = SumOfLinear(P, Q, R)
        eye = torch.eye(rows, **like)
        self.register_buffer("W_Q", eye[[*range(copy, copy + d), one]])  # (d+1, rows)
        self.register_buffer("W_K", eye[[*range(key, key + d), bias]])  # (d+1, rows)
        self.register_buffer("W_V", eye[value : value + m])  # (m, rows)

    @runs_as_proved
    def forward(self, t: Tensor) -> Tensor:
        """(q, d) -> (q, m); the full self-attention is (q, N, m), of which every row is the same."""
        Z = self.tokens(t[:, :, None])  # (q, rows, N)
        Zt = Z.transpose(1, 2)[:, None]  # (q, 1, N, rows): tokens as rows, one head
        out = scaled_dot_product_attention(Zt @ self.W_Q.T, Zt @ self.W_K.T, Zt @ self.W_V.T, scale=1.0)  # (q, 1, N, m)
        return out[:, 0, 0]


class SelfAttentionNetwork(nn.Module):
    """An `AttentionNetwork` with every head written as self-attention on explicit tokens."""

    center: Tensor
    scale: Tensor

    def __init__(self, network: AttentionNetwork) -> None:
        super().__init__()
        self.register_buffer("center", network.center.clone())
        self.register_buffer("scale", network.scale.clone())
        self.heads = nn.ModuleList([SelfAttention(head) for head in network.layer])

    @runs_as_proved
    def forward(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., m)"""
        t = (x.reshape(-1, x.shape[-1]) - self.center) * self.scale
        y = torch.stack([head(t) for head in self.heads]).sum(dim=0)
        return y.reshape(*x.shape[:-1], y.shape[-1])
