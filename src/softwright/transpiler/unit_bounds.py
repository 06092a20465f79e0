"""How far one neuron's head is from its activation: exactly, and as it runs in a dtype.

`unit_of` returns for an activation and its stored tokens
    exact      sup over all real s of |g(s) - phi(s)|
    rounding   a function of m: what rounding adds for |s| <= m, s the number the head computed for itself

u is the unit roundoff, E the error of exp. Every layout computes k_j s + b_j within 5 roundings of |k_j s| + |b_j|,
stock attention, which scales queries and keys by roots, within 8; where k_j is a power of two and b_j = 0 nothing is
rounded. A value v_j s + u_j, its product with a weight, the sums of p terms above and below, and a division are 2p + 5
roundings, of which 7 are beside the sums; in one sequence, where weights may be scaled block by block, 2p + 10 and 12.
What sums lose where weights are known is in `head_sums.py`. Of the tokens {0: 0, k s: s} in the
layouts softmax and double no value is formed and no sum of values: the sum of two exps, a division (a reciprocal and a
product) and the product with s are 4, charged 5; as max(s, 0) they have none.

*Gates* (section 7 of the theory), pieces l_j with |l_j - l_*| <= C Delta_j at the score gap beta Delta_j, scores
S_j = beta (.) and computed scores within t_j of them: Delta_j <= Delta'_j + 2 max t/beta, Delta' the computed gaps, for
which sum w' Delta' <= W0((N-1)/e)/beta holds again. So a wrong score moves the gate but does no more harm than that:
C (1 + 3E) W0/beta + 2 C max t/beta, and max t/beta = gamma_8 (|k_j||s| + |b_j|)/beta does not depend on beta. Where all
biases are 0 scores are wrong by a factor only, and the second term is absent. Forming and summing values adds
gamma_{2N+5} (|phi(s)| + 2 max|u_j|). Neighbouring pieces meet where their scores do, so the pieces between j and * add
up to |l_j - l_*| <= sum C_i Delta_i with gaps Delta_i that add up to Delta_j, C_i = |v' - v| beta/(k' - k).

*Powers* (ELU): exact <= 2 |a| e^{-q m} + 1.01 (1 + |a|) W0(1/e)/(beta - q - 2), and storing the values,
sum_j w_j |u_j| <= 2.1 |a|, adds 2.1 |a| u and for the power tokens, formed in float64, 4 |a| 2^-53 more; its exp tokens
have scores |s| + m, so rounding adds 3 |a| (E + gamma_10 (q m + 2)) since |s| e^s <= 1/e.

*Smooth tokens*: the line is cut into cells; on each, w_j <= 1/sum_l e^{min over the cell of score_l - score_j}, a
difference of linear functions, so its minimum is at an end. Relative to the cell's leading token r the computed weights
are w_j (1 + eta_j), eta_j <= e^{t_j + t_r} - 1, eta_r = 0, with t the errors of score, shift and exp, and

    |fl(g) - g| <= sum_j w_j eta_j |v_j(s) - g|/(1 - tau)
                   + what values v_j s and u_j with weights w_j (1 + eta_j)/(1 - tau) lose,

Evenly spaced tokens have weights that are powers of one number (`closed_softmax.py`), m of it beside the r of the
leading token: eta_j <= |m - r| (E + u D |s|), and the rest of their rounding is the last term. The larger of both is
taken.

tau = sum w eta, |v_j(s) - g| <= sum_l w_l |v_l(s) - v_j(s)|, all of them bounded on the whole cell.

*Underflow*: s, a token's number or a product below the smallest normal number may be lost, and a weight below the floor
of exp, which is no smaller; what that costs is charged with the sizes that multiply it. *Overflow*: `reach` is how far
s may go before any number does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from softwright.precision import FLOAT64, PRECISIONS
from softwright.proof.arithmetic.rounding import Arithmetic
from softwright.proof.arithmetic.rounding import arithmetic_of as arithmetic_by_engine
from softwright.targets.mlp import BETA, ELU_POWERS, ELU_SHIFT, Activation
from softwright.transpiler.closed_softmax import EvenTokens, even_tokens, power_slips
from softwright.transpiler.grouped_heads import CHOICES
from softwright.transpiler.head_sums import mixed
from softwright.transpiler.neuron_heads import OMEGA
from softwright.transpiler.token_proof import proved_error
from softwright.transpiler.token_table import TokenTable

_W0 = {2: 0.27847, 3: 0.46306, 4: 0.60355, 5: 0.71783}  # W0((N-1)/e), rounded up
_SLIP = 1.0 + 1e-9  # covers the float64 evaluation of the bounds themselves
_CORE, _CELLS = 64.0, 2048
_LOST = 1e-60  # of coefficients of even tokens: far more than what 120 digits lose


@dataclass(frozen=True)
class Unit:
    """The numbers above; `rounding` takes and gives arrays."""

    exact: float
    rounding: Callable[[np.ndarray], np.ndarray]
    jump: float = 0.0  # an extra of `exact` for units whose s can exceed `jump_at`
    jump_at: float = np.inf
    sink: bool = False  # relu: where s < 0 for certain, |s| times its weight is below 1/beta
    together: Callable[[np.ndarray], np.ndarray] | None = None  # what sharing a softmax adds, of sum |s| over a group
    reach: float = np.inf  # nothing overflows while the terms of s add up to this or less; negative: something does

    def exact_for(self, m: np.ndarray) -> np.ndarray:
        """`exact` for units with |s| <= m."""
        return self.exact + np.where(m >= self.jump_at, self.jump, 0.0)


@dataclass(frozen=True)
class _Running:
    """How heads are run: the counts above, and the type that tokens are stored in."""

    arithmetic: Arithmetic
    layout: str
    dtype: str

    @property
    def stored(self) -> float:
        """The unit roundoff of stored tokens."""
        return PRECISIONS[self.dtype].unit

    @property
    def scores(self) -> int:
        return 8 if self.layout == "multihead" else 5

    @property
    def beside(self) -> int:
        return 12 if self.layout == "sequence" else 7

    def values(self, tokens: int) -> int:
        return 2 * tokens - 2 + self.beside

    def gated(self, table: TokenTable) -> int:
        plain = table.sink_gate is not None and self.layout in ("softmax", "double")
        return 5 if plain else self.values(table.tokens)


def unit_of(activation: Activation, table: TokenTable, dtype: str, layout: str = "softmax", group: int = 1) -> Unit:
    """Bounds of a head with the tokens `table`, as stored, run in `dtype`; the analysis is that of its family. Heads in
    groups have all that single ones have, which other runtimes run, and what `grouped_heads.py` says."""
    how = _Running(arithmetic_of(dtype, layout), layout, dtype)
    unit = FAMILIES[activation.row.family](activation, table, how)
    reach = reach_of(table, dtype, layout)
    return replace(unit, reach=reach) if group == 1 else replace(_grouped(unit, table, how), reach=reach / CHOICES)


def shared_weights(second: float, dtype: str, layout: str) -> Callable[[np.ndarray], np.ndarray]:
    """What a head {t: 1, c t: c} of a gated unit is off by when four share a softmax, of sum |t| over the group."""
    table = TokenTable.of((1.0, 0.0, 0.0, 1.0), (second, 0.0, 0.0, second))
    how = _Running(arithmetic_of(dtype, layout), layout, dtype)
    unit = _grouped(Unit(0.0, np.zeros_like), table, how)
    if unit.together is None:
        raise TypeError("a group has no sum")
    together = unit.together
    return lambda total: together(total) + unit.rounding(total)


def _grouped(unit: Unit, table: TokenTable, how: _Running) -> Unit:
    arithmetic, sloped = how.arithmetic, bool(table.slopes.any())
    x = table.slopes if sloped else table.offsets
    largest, apart = float(np.abs(x).max()), float(abs(x[1] - x[0]))
    key, kappa = float(np.abs(table.keys).max()), float(abs(table.keys[1] - table.keys[0]))
    values = arithmetic.gamma(how.values(CHOICES))
    exact = np.all(np.abs(np.frexp(table.keys)[0]) % 0.5 == 0)  # powers of two: products with s are not rounded
    roundings = (4 if exact else 5) + (4 if how.layout == "multihead" else 0)
    score = arithmetic.gamma(roundings) + 3 * arithmetic.unit
    exp = arithmetic.exp_error / (1 - arithmetic.exp_error) + 4 * arithmetic.unit

    def rounding(m: np.ndarray) -> np.ndarray:
        lost = 64 * CHOICES * arithmetic.exp_floor * (1 + m) * (1 + largest)
        return unit.rounding(m) + (values * largest * (m if sloped else np.ones_like(m)) + lost) * _SLIP

    def together(total: np.ndarray) -> np.ndarray:
        theta = 2 * (score * key * total + exp)
        grown = np.where(theta <= 1, np.expm1(np.minimum(theta, 1.0)), np.inf)
        moved = np.minimum(0.224 * grown, 0.2785 + theta) / kappa if sloped else np.minimum(0.25 * grown, 1.0)
        return apart * moved * (1 + 2 * values) * _SLIP

    return replace(unit, rounding=rounding, together=together)


def reach_of(table: TokenTable, dtype: str, layout: str) -> float:
    """The largest sum of |terms| of s for which no score, value or sum of a head overflows, with a factor 8 of room.

    In one sequence the scores -Omega of other positions must also not be lost in the rounding of k_j s + b_j - Omega.
    """
    precision = PRECISIONS[dtype]
    largest = precision.largest / 8
    most = OMEGA[dtype] / (64 * precision.unit) if layout == "sequence" else largest
    reach = np.inf
    for slope, offset, limit in (
        (table.keys, table.biases, most),
        (table.slopes, table.offsets, largest / table.tokens),
    ):
        room = limit - np.abs(offset)
        if not np.isfinite(slope).all() or not (room > 0).all():
            return -1.0
        reach = min(reach, float((room / np.maximum(np.abs(slope), 1.0)).min()))
    return reach * (1 - 1e-9)


def arithmetic_of(dtype: str, layout: str) -> Arithmetic:
    """Of the layout double that of float64 on numbers of the dtype; in one long sequence the tokens of a head may fall
    into several blocks of the kernel, each with its own exp."""
    arithmetic = arithmetic_by_engine(dtype, layout)
    return replace(arithmetic, exp_error=4 * arithmetic.exp_error) if layout == "sequence" else arithmetic


def _exact(activation: Activation, table: TokenTable, how: _Running) -> Unit:
    smooth = _Smooth(table.stacked.tobytes(), table.tokens, how)
    return Unit(activation.row.slip * how.stored * _SLIP, smooth)


def _fitted(activation: Activation, table: TokenTable, how: _Running) -> Unit:
    smooth = _Smooth(table.stacked.tobytes(), table.tokens, how)
    unit = Unit(proved_error(activation, table) * _SLIP, smooth)
    if activation.row.jump is None:
        return unit
    place, height = activation.row.jump(*activation.parameters)  # met by phi(s) and by phi at the s that was computed
    return replace(unit, jump=2.0 * height * _SLIP, jump_at=place * (1 - 1e-12))


def _steepness(activation: Activation) -> float:
    """C of |l_j - l_*| <= C Delta_j: pieces in the order of their keys meet, so C = max |v' - v| beta/(k' - k)."""
    keys, _, slopes, _ = np.array(sorted(activation.tokens("float64") or ())).T
    return float((np.abs(np.diff(slopes)) * BETA / np.diff(keys)).max())


def _gate(activation: Activation, table: TokenTable, how: _Running) -> Unit:
    C, arithmetic = _steepness(activation), how.arithmetic
    N = table.tokens
    shift = np.abs(table.biases).max() / BETA
    key = np.abs(table.keys).max() / BETA
    offset = np.abs(table.offsets).max()
    moved = bool(np.any(table.biases != 0))
    stored = 4 * how.stored * (C * shift + offset + C * shift) if moved else 0.0
    exact = (C * (1 + 3 * arithmetic.exp_error) * _W0[N] / BETA + stored) * _SLIP
    slope, bounded = activation.slope, activation.bounded
    mixing = float(np.abs(table.slopes).max())
    asked = np.array(activation.tokens("float64") or ())[:, 2]
    tilt = float(np.abs(table.slopes - asked).max())  # slopes as stored, where a layout computes in a finer type

    def rounding(m: np.ndarray) -> np.ndarray:
        gate = 2 * C * arithmetic.gamma(8) * (key * m + shift) if moved else 0.0 * m
        size = np.minimum(slope * m, offset) if bounded else slope * m  # a clip is bounded by its ends
        lost = 64 * N * arithmetic.exp_floor * (1 + m) * (1 + mixing + offset)
        return (gate + arithmetic.gamma(how.gated(table)) * (size + 2 * offset) + tilt * m + lost) * _SLIP

    return Unit(float(exact), rounding, sink=table.sink_gate is not None)


def _powers(activation: Activation, table: TokenTable, how: _Running) -> Unit:
    arithmetic = how.arithmetic
    alpha, m0 = abs(activation.options["alpha"]), ELU_SHIFT[how.dtype]
    exact = 2 * alpha * float(np.exp(-ELU_POWERS * m0)) + 1.01 * (1 + alpha) * _W0[2] / (BETA - ELU_POWERS - 2)
    exact += 1.01 * (1 + alpha) * 6 * arithmetic.exp_error * _W0[2] / BETA
    exact += alpha * (2.1 * how.stored + 4 * FLOAT64.unit)
    score = arithmetic.exp_error + arithmetic.gamma(10) * (ELU_POWERS * m0 + 2)

    def rounding(m: np.ndarray) -> np.ndarray:
        values = arithmetic.gamma(ELU_POWERS + 16) * (m + 4 * alpha)
        lost = 1e9 * (1 + alpha) * arithmetic.smallest * (1 + m)
        return (3 * alpha * score + values + lost) * _SLIP

    return Unit(exact * _SLIP, rounding)


FAMILIES: dict[str, Callable[[Activation, TokenTable, _Running], Unit]] = {
    "exact": _exact,
    "gate": _gate,
    "powers": _powers,
    "fitted": _fitted,
    "sides": _fitted,
}


class _Smooth:
    """Rounding of smooth tokens for |s| <= m: the running maximum over cells, looked up."""

    def __init__(self, content: bytes, tokens: int, how: _Running) -> None:
        self.edges, self.most = _cells(content, tokens, how)

    def __call__(self, m: np.ndarray) -> np.ndarray:
        place = np.minimum(np.searchsorted(self.edges, m), len(self.edges) - 1)
        return np.where(m <= self.edges[-1], self.most[place], np.inf)


@lru_cache(maxsize=64)
def _cells(content: bytes, tokens: int, how: _Running) -> tuple[np.ndarray, np.ndarray]:
    """Outer ends of the cells (0, h, 2h, .., growing), and the bound for all |s| up to each."""
    k, b, v, u = np.frombuffer(content, dtype=np.float64).reshape(4, tokens)
    outer = _CORE / max(np.abs(k).max() / 16.0, 1e-3)
    near = np.linspace(0.0, outer / 16, _CELLS + 1)  # over such a cell scores differ by 1/16 at most, farther out by 1
    far = outer * 1.25 ** np.arange(1, 200)  # up to 1e19 times as far
    ends = np.concatenate([near, np.linspace(outer / 16, outer, _CELLS + 1)[1:], far])
    bounds = np.zeros(len(ends))
    for sign in (-1.0, 1.0):
        for start in range(0, len(ends) - 1, 256):
            near, away = sign * ends[start : start + 257][:-1], sign * ends[start + 1 : start + 257]
            size = len(away)
            rounding = _on_cells(near[:size], away, k, b, v, u, how)
            bounds[start + 1 : start + 1 + size] = np.maximum(bounds[start + 1 : start + 1 + size], rounding)
    bounds[0] = bounds[1]
    return ends, np.maximum.accumulate(bounds) * _SLIP


def _on_cells(
    near: np.ndarray, away: np.ndarray, k: np.ndarray, b: np.ndarray, v: np.ndarray, u: np.ndarray, how: _Running
) -> np.ndarray:
    """The formula of the docstring for cells between `near` and `away`, (c,) each."""
    scores = [x[:, None] * k + b for x in (near, away)]  # (c, p) at both ends
    gaps = [s[:, None, :] - s[:, :, None] for s in scores]  # (c, j, l): score_l - score_j
    least = np.minimum(*gaps)
    with np.errstate(over="ignore"):
        weights = 1.0 / np.exp(np.minimum(least, 700.0)).sum(axis=2)  # (c, p), upper bounds
    weights = np.minimum(weights * (1 + 1e-12), 1.0)
    size = np.maximum(np.abs(near), np.abs(away))[:, None]  # (c, 1)
    leader = (0.5 * (scores[0] + scores[1])).argmax(axis=1)
    arithmetic = how.arithmetic
    kept = (b == 0) & (np.abs(np.frexp(k)[0]) % 0.5 == 0)  # a power of two times s, or 0: not rounded
    if how.layout == "multihead":
        kept = np.zeros(len(k), dtype=bool)  # scores may be scaled by roots
    score = np.where(kept, 0.0, arithmetic.gamma(how.scores)) * (np.abs(k) * size + np.abs(b))
    error = score + arithmetic.exp_error / (1 - arithmetic.exp_error) + 4 * arithmetic.unit  # (c, p)
    shift = np.maximum(*(s.max(axis=1, keepdims=True) - s for s in scores))  # the distance to the maximum
    error = error + 2 * arithmetic.unit * shift
    rows = np.arange(len(near))
    relative = error + error[rows, leader][:, None]
    even = even_tokens(np.stack([k, b, v, u]).tobytes(), "<f8") if how.layout in ("softmax", "double") else None
    right = near + away > 0  # (c,)
    if even is not None:
        rank = np.where(right[:, None], np.arange(len(k))[::-1], np.arange(len(k)))  # (c, p): m of every token
        steps = np.abs(rank - np.take_along_axis(rank, leader[:, None], axis=1))
        relative = np.maximum(relative, steps * _wrong_exp(even, size, arithmetic))
    relative[rows, leader] = 0.0
    # Where the product of weight and change is negligible whatever the change, the exponents are added first.
    with np.errstate(over="ignore", invalid="ignore"):
        eta = np.expm1(np.minimum(relative, 600.0))
        moved = np.where(weights > 0, weights * eta, 0.0)
    tau = moved.sum(axis=1)
    values = [x[:, None] * v + u for x in (near, away)]
    spread = np.maximum(*(np.abs(f[:, None, :] - f[:, :, None]) for f in values))  # (c, j, l)
    off = (weights[:, None, :] * spread).sum(axis=2)  # |v_j - g|
    sizes = np.abs(v) * size + np.abs(u)
    weighted = ((weights + moved) * sizes).sum(axis=1)
    good = tau < 0.5
    share = 1.0 / np.where(good, 1.0 - tau, 1.0)
    ran = (weights + moved) * share[:, None]
    slopes, offsets = np.abs(v) * size, np.abs(u) + 0.0 * size
    values = mixed(ran, [slopes, offsets], how.beside, arithmetic.unit)
    if v.any() and u.any():  # values may be formed before they are summed
        values = np.maximum(values, mixed(ran, [sizes], how.beside, arithmetic.unit))
    if even is not None:
        other = _by_powers(even, np.minimum(np.abs(near), np.abs(away)), size[:, 0], arithmetic)
        values = np.maximum(values, (other + 2 * arithmetic.unit * weighted) * share)
    found = (moved * off).sum(axis=1) * share + values
    found += 64 * arithmetic.exp_floor * (1 + sizes.max(axis=1)) * (1 + np.abs(v).max()) * len(k)
    return np.where(good, found, np.inf)


def _wrong_exp(even: EvenTokens, size: np.ndarray, arithmetic: Arithmetic) -> np.ndarray:
    """t for |s| up to `size`."""
    return arithmetic.exp_error / (1 - arithmetic.exp_error) + 1.01 * arithmetic.unit * even.spacing * size


def _by_powers(even: EvenTokens, least: np.ndarray, most: np.ndarray, arithmetic: Arithmetic) -> np.ndarray:
    """(c,): rounding of f = g - max(s, 0) behind y, for |s| in [least, most]: that of `closed_softmax.py`, without
    the last sum."""
    Z, U, B, A = even.coefficients  # (n + 1,) each
    count = len(Z)
    t = _wrong_exp(even, most, arithmetic)
    ends = [np.exp(e) for e in (-even.spacing * most - t, -even.spacing * least + t)]  # of y: at most e^t
    w0, w1 = ((y / (1 + y))[:, None] for y in ends)
    x0, x1 = ((y / (1 + y) ** 2)[:, None] ** np.arange(count) for y in np.minimum(ends, 1.0))
    a0, a1 = least[:, None], most[:, None]
    slopes = B - 2 * np.maximum(w0 * A, w1 * A), B - 2 * np.minimum(w0 * A, w1 * A)  # (c, n + 1): of B - 2 w A
    low = U - np.maximum(a0 * slopes[1], a1 * slopes[1])  # the factors of x^k in N
    high = U - np.minimum(a0 * slopes[0], a1 * slopes[0])
    total = (Z * x0).sum(axis=1), (Z * x1).sum(axis=1)
    above, below = np.maximum(high * x0, high * x1).sum(axis=1), np.minimum(low * x0, low * x1).sum(axis=1)
    f1 = np.maximum(above / total[0], above / total[1])[:, None]
    f0 = np.minimum(below / total[0], below / total[1])[:, None]
    terms = x1 / total[0][:, None]
    apart = np.maximum(np.abs(high - f0 * Z), np.abs(low - f1 * Z))
    leader = (Z * (x0 + x1)).argmax(axis=1)
    steps = np.abs(np.arange(count) - leader[:, None])
    slips = np.expm1(arithmetic.gamma(1) * (3.2 * steps + power_slips(count)[leader]))
    size = np.maximum(np.abs(f0), np.abs(f1))[:, 0]
    terms_of_N = ((np.abs(U) + a1 * (np.abs(B) + 2 * w1 * np.abs(A))) * terms).sum(axis=1)
    found = (apart * terms * slips).sum(axis=1)
    found += arithmetic.gamma(count + 11) * terms_of_N + arithmetic.gamma(count + 3) * size
    lost = 16 * count**2 * (arithmetic.smallest + _LOST) * np.abs(even.coefficients).sum() * (1 + most + size)
    return (found + lost) / (1 - 4 * arithmetic.gamma(8 * count))
