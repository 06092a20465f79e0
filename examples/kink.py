"""Kinks cost one token per piece: hard gates between affine values. Run: python examples/kink.py"""

import softwright as sw

for formula in ("abs(x)", "min(max(x, -0.3), 0.4)", "abs(sin(5*x))"):
    built = sw.approximate(formula, sw.Box(x=(-1, 1)), tol=1e-6)
    print(f"{formula}: {built.network.tokens} tokens, observed error {built.observed_error:.1e} (sampled)")
    for reason in built.plan.reasons:
        print("   because", reason)

# A jump cannot be met: every attention network is continuous. The error says so and carries the best network found.
try:
    sw.approximate("sign(x)", sw.Box(x=(-1, 1)), tol=1e-3)
except sw.ToleranceNotReached as error:
    print("sign(x):", error)
