"""`CONTINUOUS`: the rows of the library that are about functions of real numbers.

The three of Deep Sets are rho(mean phi(x_j)), rho of two such means, and the permutation-equivariant rho(x_i, mean
phi(x_j)) of theorem C5.
"""

from __future__ import annotations

from softwright.programs.examples.row import Example

_X = {"x": (-1, 1)}
_XY = {"x": (-1, 1), "y": (-1, 1)}
_EIGHT = {f"x{k}": (-1, 1) for k in range(8)}


def _distance(names: list[str]) -> str:
    return f"sqrt({' + '.join(f'({name} - mean({name}))**2' for name in names)})"


CONTINUOUS: tuple[Example, ...] = (
    Example(
        "standardise",
        "deviation from the mean over the deviation of all",
        "(x - mean(x)) / sqrt(mean((x - mean(x))**2) + 0.01)",
        _X,
    ),
    Example("softmax", "shares exp(2x) of their sum", "softmax(2*x)", _X),
    Example("log_sum_exp", "the soft maximum", "logsumexp(3*x)", _X),
    Example("centroid_distance", "distance to the mean of all points", _distance(["x", "y"]), _XY),
    Example("centroid_distance_8", "the same in eight dimensions", _distance(list(_EIGHT)), _EIGHT),
    Example(
        "regression_slope",
        "slope of y on x by least squares, with a ridge",
        "mean((x - mean(x))*(y - mean(y))) / (var(x) + 0.01)",
        _XY,
    ),
    Example(
        "nadaraya_watson",
        "mean of y with weights exp(-8 (x_j - x_i)^2)",
        "attend(y[j], -8*(x[j] - x[i])**2)",
        _XY,
    ),
    Example(
        "nearest_neighbour",
        "y of the token whose x is nearest to q, by a margin",
        "value(y[j], where=smallest((x[j] - q[i])**2), margin=0.01)",
        _XY | {"q": (-1, 1)},
    ),
    Example(
        "three_nearest",
        "mean of y at the three tokens whose x are nearest to q, each by a margin",
        "value(y[j], where=smallest((x[j] - q[i])**2), margin=0.001, count=3)",
        _XY | {"q": (-1, 1)},
        shortest=3,
    ),
    Example(
        "interpolate",
        "y at q, linearly between times t that are 0.01 apart",
        "interp(q, t, y, spacing=0.01)",
        {"q": (0, 1), "t": (0, 1), "y": (-1, 1)},
        longest=32,
    ),
    Example(
        "trend",
        "slope of x on the places by least squares",
        "mean((j - (n - 1)/2)*x[j]) / ((n*n - 1)/12)",
        _X,
        shortest=2,
    ),
    Example("deviation", "the standard deviation of all", "sqrt(var(x))", _X),
    Example("sort_reals", "real numbers in order, whatever ties there are", "sorted(x)[i]", _X, tol=1e-3),
    Example("median_reals", "the lower median of real numbers", "median(x)", _X, tol=1e-3),
    Example(
        "n_body",
        "softened forces of unit masses on a line",
        "sum((x[j] - x[i]) / ((x[j] - x[i])**2 + 0.1)**1.5)",
        _X,
    ),
    Example(
        "n_body_plane",
        "softened forces in the plane, masses m",
        "sum(m[j]*(x[j] - x[i]) / ((x[j] - x[i])**2 + (y[j] - y[i])**2 + 0.1)**1.5), "
        "sum(m[j]*(y[j] - y[i]) / ((x[j] - x[i])**2 + (y[j] - y[i])**2 + 0.1)**1.5)",
        _XY | {"m": (0.5, 1)},
    ),
    Example("mean_distance", "mean distance to all others", "mean(abs(x[j] - x[i]))", _X, tol=1e-3),
    Example("deep_sets", "rho of one mean: a root of a mean of exponentials", "sqrt(mean(exp(x)) + 1)", _X),
    Example("deep_sets_2", "rho of two means", "exp(mean(x**2)) * tanh(mean(sin(3*x)))", _X),
    Example("deep_sets_equivariant", "rho(x_i, mean phi)", "tanh(2*x + 3*mean(sin(3*x))) * mean(exp(x))", _X),
)
