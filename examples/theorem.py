"""A paper's construction beside softwright's own: the clip of theorem A1 with 60 tokens, and with three."""

import numpy as np

import softwright as sw

built = sw.theorem("A1").build(points=60, tokens=50, dim=10, a=-25.0, b=25.0)
print(f"theorem A1, 60 tokens: bound {built.certificate.bound:.4f}, observed {built.observed_error:.4f}")

# The network is a torch module: a sum of linear maps makes the tokens, one vanilla softmax head attends to them.
X = np.random.default_rng(0).uniform(-5, 5, (10, 50))  # columns are tokens
print("first three clipped numbers:", np.round(built(X)[0, :3], 3))

own = sw.approximate("max(-25, min(25, s))", sw.Box(s=(-75, 75)), tol=1e-6)
print(f"softwright, {own.network.tokens} tokens: proved {own.certificate.bound:.1e}, observed {own.observed_error:.1e}")
