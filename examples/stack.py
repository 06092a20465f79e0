"""A formula as a stack of attention: kinks, many variables, and jumps with a gap. Run: python examples/stack.py"""

import numpy as np

import softwright as sw

wing = "0.036*S**0.758*W**0.0035*(A/cos(L)**2)**0.6*q**0.006*t**0.04*(100*c/cos(L))**-0.3*(N*G)**0.49 + S*P"
sides = {
    "S": (150, 200), "W": (220, 300), "A": (6, 10), "L": (-0.17, 0.17), "q": (16, 45),
    "t": (0.5, 1), "c": (0.08, 0.18), "N": (2.5, 6), "G": (1700, 2500), "P": (0.025, 0.08),
}  # fmt: skip
built = sw.approximate(wing, sides, tol=1e-6, relative=True)
print(f"the weight of a wing, 10 variables: {built.plan.tokens} tokens in {built.network.depth} layers,")
print(f"  proved within {built.certificate.bound:.1e}, observed {built.observed_error:.1e}")
for head in built.plan.heads[:4]:
    print("  ", head["computes"])

# A jump is met outside of a band round it; inside, the network passes from one value to the other.
stairs = sw.approximate("floor(3*x) + where(x*y > 0.1, y, 0)", {"x": (-1, 1), "y": (-1, 1)}, tol=1e-6, gap=1e-6)
print(f"stairs: {stairs.plan.tokens} tokens; {stairs.certificate.statement}")
x = np.array([[0.4, 0.9], [1 / 3 + 1e-5, 0.9], [1 / 3 - 1e-5, 0.9]])
print("  ", stairs.network.evaluate(x)[:, 0])
