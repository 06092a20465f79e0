"""One attention stack, two different data sets, no training and no rebuilding. Run: python examples/in_context.py"""

import numpy as np

import softwright as sw

built = sw.in_context("least_squares", features=3)  # the weights depend on these arguments alone
print(built)

rng = np.random.default_rng(0)
for rows, units in ((40, [1.0, 1e-3, 500.0]), (300, [20.0, 1.0, 1.0])):
    x = rng.normal([0, 5, -2], 1.0, size=(rows, 3)) * units
    y = x @ (np.array([1.0, -2.0, 0.5]) / units) + 3 + 0.1 * rng.normal(size=rows)
    queries = x[:5] + 0.1 * np.array(units)

    design = np.column_stack([x / units, np.ones(rows)])  # lstsq, unlike the stack, wants even units
    exact = np.column_stack([queries / units, np.ones(5)]) @ np.linalg.lstsq(design, y, rcond=None)[0]
    coefficients, intercept = built.network.fitted(x, y)
    print(f"{rows} observations: coefficients {coefficients}, intercept {intercept:.6f}")
    print("  largest difference to lstsq:", np.abs(built(x=x, y=y, queries=queries) - exact).max())
