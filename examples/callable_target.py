"""A Python function as the target: vectorised or not, softwright finds out. Run: python examples/callable_target.py"""

import math

import softwright as sw


def projectile_range(speed: float, angle: float) -> float:
    """How far a ball flies that leaves a 1.5 m high hand, in metres: plain floats, no arrays."""
    g, height = 9.81, 1.5
    up, along = speed * math.sin(angle), speed * math.cos(angle)
    return along / g * (up + math.sqrt(up**2 + 2 * g * height))


box = sw.Box(speed=(5, 20), angle=(0.2, 1.2))
built = sw.approximate(projectile_range, box, tol=1e-2, max_seconds=30)
print(built)
print("network: ", float(built(speed=12.0, angle=0.7)[0]))
print("function:", projectile_range(12.0, 0.7))
