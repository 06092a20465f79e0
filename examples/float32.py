"""The same in float32, where large values and sharp scores would drown in rounding. Run: python examples/float32.py"""

import numpy as np
import torch

import softwright as sw

box = sw.Box(x=(-1, 1))
for dtype in ("float64", "float32"):
    built = sw.approximate("1/(1 + 25*x**2)", box, tol=1e-4, dtype=dtype)
    largest = max(float(np.abs(head.values).max()) for head in built.network.heads())
    error = f"observed error {built.observed_error:.1e} (sampled)"
    print(f"{dtype}: {built.network.tokens} tokens, largest value {largest:.1f}, {error}")

# The check ran the float32 network itself, at points that float32 can hold.
x = torch.linspace(-1, 1, 10_001, dtype=torch.float32)[:, None]
exact = 1 / (1 + 25 * x.double() ** 2)
print("largest error on 10 001 points:", float((built.network(x).double() - exact).abs().max()))
