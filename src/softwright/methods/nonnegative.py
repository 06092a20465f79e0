"""Least squares with coefficients of 0 or more: projected gradient steps with momentum.

    minimise  1/(2n) sum_j (w.x_j - y_j)^2   subject to  w >= 0.

The projection max(w, 0) is one gate at +e_p, and min(w, 0) at -e_p, whose number is -w_p. Everything else is the
iteration of `lasso.proximal_gradient`. Scales are positive, so the constraint means the same before and after scaling.
"""

from __future__ import annotations

from softwright.methods.lasso import proximal_gradient
from softwright.methods.network import FitBlueprint
from softwright.methods.newton_schulz import Constants


def nonnegative(constants: Constants) -> FitBlueprint:
    return proximal_gradient(constants, nonnegative=True)
