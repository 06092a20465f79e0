"""Nothing is hidden: read keys, biases and values, and attend by hand. Run: python examples/mechanism.py"""

import torch
from torch.nn.functional import scaled_dot_product_attention

import softwright as sw

built = sw.approximate("sin(3*x)", sw.Box(x=(-1, 1)), tol=1e-6, strategy="spectral")
head = built.network.heads()[0]
print("keys  ", head.keys[:, 0].round(3))
print("biases", head.biases.round(3))
print("values", head.values[:, 0].round(3))

# The box is scaled to [-1, 1]; here it already is, so t = x. The query of a point is (t, 1), the key of a token is
# (k_j, b_j), so the score is k_j t + b_j; keys and values have the same width, hence the column of zeros.
t = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]  # (q, 1)
keys, biases, values = (torch.tensor(array) for array in (head.keys, head.biases, head.values))
query = torch.cat([t, torch.ones_like(t)], dim=1)  # (q, 2)
key = torch.cat([keys, biases[:, None]], dim=1)  # (N, 2)
value = torch.cat([values, torch.zeros_like(values)], dim=1)  # (N, 2)
by_hand = scaled_dot_product_attention(query[None], key[None], value[None], scale=1.0)[0, :, :1]

print("attention weights at x = 0:", head.weights(t.numpy())[2].round(3))
print("by hand ", by_hand.flatten().tolist())
print("network ", built.network(t).flatten().tolist())
print("sin(3x) ", torch.sin(3 * t).flatten().tolist())
print("largest difference to the network:", float((by_hand - built.network(t)).abs().max()))
