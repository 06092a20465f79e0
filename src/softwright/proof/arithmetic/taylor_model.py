"""Taylor models: a polynomial and one remainder for each of many boxes at once, all rounding inside the remainder.

A box is x = c + r s with s in [-1, 1]^d. A model (a, R) of a function phi states, in real arithmetic,

    |phi(c + r s) - sum_alpha a_alpha s^alpha| <= R        for all s in [-1, 1]^d.

Arrays are (M, B): monomials by boxes. `live` marks the monomials that can be non-zero in some box, which makes products
of polynomials in few variables cheap. An infinite or undefined (NaN) remainder means "nothing is known on this box";
the users of a model treat both alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.proof.arithmetic.bernstein import polynomial_range
from softwright.proof.arithmetic.directed import TINY, U, gamma, up
from softwright.proof.arithmetic.series import Basis


@dataclass
class TaylorModel:
    shape: Basis
    coefficients: np.ndarray  # (M, B)
    remainder: np.ndarray  # (B,)
    live: np.ndarray  # (M,) booleans

    @property
    def boxes(self) -> int:
        return self.coefficients.shape[1]

    def copy(self) -> TaylorModel:
        return TaylorModel(self.shape, self.coefficients.copy(), self.remainder.copy(), self.live.copy())

    # Norms and ranges ---------------------------------------------------------------------------------------------

    def norm(self) -> np.ndarray:
        """An upper bound (B,) of the polynomial's absolute value."""
        return up(np.abs(self.coefficients[self.live]).sum(axis=0), self.shape.size)

    def moduli(self) -> np.ndarray:
        """The sum of the moduli of the coefficients of each degree, (p+1, B), not yet rounded up."""
        if self.shape.dim == 1 or 2 * np.count_nonzero(self.live) > self.shape.size:
            return self.shape.by_degree(self.coefficients)
        total = np.zeros((self.shape.order + 1, self.boxes))
        for a in np.flatnonzero(self.live):
            total[self.shape.degree[a]] += np.abs(self.coefficients[a])
        return total

    def deviation(self) -> np.ndarray:
        """An upper bound (B,) of |phi - a_0|."""
        rest = self.live.copy()
        rest[0] = False
        return up(np.abs(self.coefficients[rest]).sum(axis=0) + self.remainder, self.shape.size + 1)

    def range(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds (B,) of phi; NaN becomes infinite."""
        lower, upper = polynomial_range(self.shape, self.coefficients)
        lower = np.nextafter(lower - self.remainder, -np.inf)
        upper = np.nextafter(upper + self.remainder, np.inf)
        return np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper)

    # Arithmetic ---------------------------------------------------------------------------------------------------

    def __neg__(self) -> TaylorModel:
        return TaylorModel(self.shape, -self.coefficients, self.remainder, self.live)

    def __add__(self, other: TaylorModel) -> TaylorModel:
        total = self.coefficients + other.coefficients
        live = self.live | other.live
        rounding = U * np.abs(total[live]).sum(axis=0)
        return TaylorModel(
            self.shape, total, up(self.remainder + other.remainder + rounding, self.shape.size + 4), live
        )

    def __sub__(self, other: TaylorModel) -> TaylorModel:
        return self + (-other)

    def plus(self, constant: np.ndarray | float, error: np.ndarray | float = 0.0) -> TaylorModel:
        """Add a constant (B,) that is known up to `error`."""
        out = self.copy()
        out.coefficients[0] = out.coefficients[0] + constant
        out.remainder = up(out.remainder + error + U * np.abs(out.coefficients[0]))
        out.live[0] = True
        return out

    def times(self, factor: np.ndarray | float, error: np.ndarray | float = 0.0) -> TaylorModel:
        """Multiply by a number (B,) that is known up to `error`."""
        product = self.coefficients * factor
        rounding = U * np.abs(product[self.live]).sum(axis=0)
        remainder = self.remainder * (np.abs(factor) + error) + rounding + error * self.norm()
        return TaylorModel(self.shape, product, up(remainder, self.shape.size + 8), self.live)

    def __mul__(self, other: TaylorModel) -> TaylorModel:
        return self.product(other, self.shape.order)

    def product(self, other: TaylorModel, degree: int) -> TaylorModel:
        """The product cut at `degree`; what is cut off goes to the remainder."""
        shape, order = self.shape, self.shape.order
        sparse, dense = (self, other) if np.count_nonzero(self.live) <= np.count_nonzero(other.live) else (other, self)
        out = np.zeros_like(dense.coefficients)
        live = np.zeros(shape.size, dtype=bool)
        count = 0
        for a in np.flatnonzero(sparse.live):
            k = int(shape.degree[a])
            if k > degree:
                break
            reach = shape.prefix[degree - k]
            where = shape.shift[a][:reach]
            if a == 0:
                out[:reach] += sparse.coefficients[0] * dense.coefficients[:reach]
            else:
                out[where] += sparse.coefficients[a] * dense.coefficients[:reach]
            live[where] |= dense.live[:reach]
            count += 1
        left, right = sparse.moduli(), dense.moduli()  # (p+1, B)
        left_norm, right_norm = left.sum(axis=0), right.sum(axis=0)
        beyond = np.cumsum(right[::-1], axis=0)[::-1]  # beyond[k]: degrees k and above
        lowest = max(degree + 1 - order, 0)  # what degrees below this one make is not cut
        first = np.maximum(np.arange(degree + 1 - lowest, degree - order, -1), 0)  # of the other factor
        cut = np.einsum("kb,kb->b", left[lowest:], beyond[first])
        remainder = (
            cut
            + left_norm * dense.remainder
            + right_norm * sparse.remainder
            + sparse.remainder * dense.remainder
            + gamma(count + 2) * (left_norm * right_norm)
        )
        return TaylorModel(shape, out, up(remainder, 2 * shape.size + 2 * order + 8), live)

    def power(self, exponent: int) -> TaylorModel:
        """A positive integer power by repeated squaring."""
        result: TaylorModel | None = None
        square = self
        while True:
            if exponent & 1:
                result = square if result is None else result * square
            exponent >>= 1
            if not exponent:
                break
            square = square * square
        return self if result is None else result

    def compose(self, series: np.ndarray, series_error: np.ndarray, tail: np.ndarray) -> TaylorModel:
        """h(phi) from the Taylor series of h at a_0.

        `series` and `series_error` (p+1, B) are the coefficients of h at a_0 and the error of each; `tail` (B,) bounds
        the rest of the series for arguments as far from a_0 as `deviation()`.
        """
        order = self.shape.order
        one = self._one_variable()
        if one is not None:
            return self._compose_along(one, series, series_error, tail)
        inner = self.copy()
        inner.coefficients[0] = 0.0
        inner.live[0] = False
        result = constant(self.shape, series[order])
        for k in range(order - 1, -1, -1):
            result = result.product(inner, order - k).plus(series[k])
        distance = self.deviation()
        error = series_error[order]
        for k in range(order - 1, -1, -1):
            error = error * distance + series_error[k]
        result.remainder = up(result.remainder + up(error + tail, 2 * order + 4))
        return result

    def _one_variable(self) -> int | None:
        """i where the polynomial is a_0 + a s_i, else None."""
        live = np.flatnonzero(self.live[1:]) + 1
        if len(live) != 1 or not 0 < self.shape.degree[live[0]] == 1 <= self.shape.order:
            return None
        return int(np.flatnonzero(self.shape.linear == live[0])[0])

    def _compose_along(self, i: int, series: np.ndarray, series_error: np.ndarray, tail: np.ndarray) -> TaylorModel:
        """`compose` where phi = a_0 + a s_i + r, |r| <= R: no products of polynomials are needed.

        With T the given series as a polynomial, z = a s_i + r and D >= |a| + R, which `deviation` is,

            |h - T(z)| <= tail + sum_k error_k D^k,     |T(z) - T(a s_i)| <= R sum_k k |c_k| D^(k-1),

        and c_k a^k, computed as ((c_k a) a) ..., errs by k roundings, gamma_2k of its computed size at most. What
        underflows on the way loses less than TINY max(1, |a|)^k: TINY is added to every error_k.
        """
        order, a = self.shape.order, self.coefficients[self.shape.linear[i]]
        powers = series.copy()
        for k in range(1, order + 1):
            powers[k:] *= a
        size = np.abs(series)
        distance = self.deviation()
        error, steepness = series_error[order] + TINY, order * size[order]
        for k in range(order - 1, -1, -1):
            error = error * distance + (series_error[k] + TINY)
            if k:
                steepness = steepness * distance + k * size[k]
        slip = gamma(2 * order + 4) * np.abs(powers).sum(axis=0)
        moved = np.where(self.remainder == 0.0, 0.0, self.remainder * steepness)
        result = constant(self.shape, np.zeros(self.boxes), up(slip + moved + error + tail, 4 * order + 8))
        result.coefficients[self.shape.powers[i]] = powers
        result.live[self.shape.powers[i]] = True
        return result

    # Choices made box by box --------------------------------------------------------------------------------------

    def where(self, mask: np.ndarray, other: TaylorModel) -> TaylorModel:
        """This model on the boxes of `mask` (B,), the other elsewhere."""
        return TaylorModel(
            self.shape,
            np.where(mask, self.coefficients, other.coefficients),
            np.where(mask, self.remainder, other.remainder),
            self.live | other.live,
        )

    def narrowed(self, lower: np.ndarray, upper: np.ndarray) -> TaylorModel:
        """Given that phi also lies in [lower, upper], the flat model of that range wherever it is the better one."""
        middle = lower + 0.5 * (upper - lower)
        radius = up(np.maximum(upper - middle, middle - lower))
        flat = constant(self.shape, middle, radius)
        better = np.isfinite(radius) & np.isfinite(middle) & ~(self.remainder <= radius)
        return flat.where(better, self)


def constant(shape: Basis, value: np.ndarray, error: np.ndarray | float = 0.0) -> TaylorModel:
    """The model of a number (B,) known up to `error`."""
    coefficients = np.zeros((shape.size, len(value)))
    coefficients[0] = value
    live = np.zeros(shape.size, dtype=bool)
    live[0] = True
    return TaylorModel(shape, coefficients, np.zeros(len(value)) + error, live)


def variables(shape: Basis, centers: np.ndarray, radii: np.ndarray) -> list[TaylorModel]:
    """The models of x_1..x_d themselves on the boxes centers (B, d), radii (B, d); exact."""
    models = []
    for i in range(shape.dim):
        model = constant(shape, centers[:, i])
        model.coefficients[shape.linear[i]] = radii[:, i]
        model.live[shape.linear[i]] = True
        models.append(model)
    return models


def positive_part(model: TaylorModel) -> TaylorModel:
    """max(phi, 0): exact where the sign is known, else the chord's slope with half the gap as remainder.

    For phi in [l, h], l < 0 < h and slope m = h / (h - l): 0 <= max(phi, 0) - m phi <= max(-m l, (1 - m) h).
    """
    lower, upper = model.range()
    open_sign = (lower < 0.0) & (upper > 0.0)
    slope = np.where(open_sign, upper / (upper - lower), np.where(lower >= 0.0, 1.0, 0.0))
    gap = np.where(open_sign, up(np.maximum(-slope * lower, (1.0 - slope) * upper)), 0.0)
    scaled = model.times(slope).plus(0.5 * gap, up(0.5 * gap))
    # slope 0 or 1 is exact; this also keeps an infinite remainder off the boxes where the result is plainly 0
    exact = TaylorModel(model.shape, model.coefficients * slope, model.remainder * slope, model.live)
    decided = exact.where(~open_sign, scaled)
    zero = upper <= 0.0
    decided.coefficients[:, zero] = 0.0
    decided.remainder = np.where(zero, 0.0, decided.remainder)
    return decided
