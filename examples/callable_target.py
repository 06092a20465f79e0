"""A Python function as the target: here one that has no formula. Run: python examples/callable_target.py"""

import math

import softwright as sw


def eccentric_anomaly(mean_anomaly: float) -> float:
    """Where a comet of eccentricity 0.6 stands on its ellipse: Kepler's equation, solved by Newton's method."""
    angle = mean_anomaly
    for _ in range(20):
        angle -= (angle - 0.6 * math.sin(angle) - mean_anomaly) / (1 - 0.6 * math.cos(angle))
    return angle


# Plain floats or arrays, one argument per variable or one array of points: the call style is found by trial.
built = sw.approximate(eccentric_anomaly, sw.Box(mean_anomaly=(0, math.pi)), tol=1e-6)
print(built)
print("network: ", float(built(mean_anomaly=1.0)[0]))
print("function:", eccentric_anomaly(1.0))

# A callable can only be sampled, unless its derivatives are bounded by a promise: |E''| <= 0.6 / 0.4**3 here.
promised = sw.Function(eccentric_anomaly, built.network.box, second_derivative=0.6 / 0.4**3)
proved = sw.approximate(promised, built.network.box, tol=1e-2)
print("to 1e-2, resting on the promise:", proved.rows()[8][1])
