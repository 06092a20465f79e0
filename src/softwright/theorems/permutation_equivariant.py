"""C5: quantise, attend, read out: universal for continuous permutation-equivariant maps on [0, 1]^{d x n}, in L_p.

    feed-forward 1     every coordinate to one of D levels: sum_k (relu(x - a_k) - relu(x - b_k))/w with
                       b_k - a_k = w round k/D. Off the ramps it is constant, and a token becomes one of V = D^d codes,
                       shift + (level_1, ..., level_d).
    attention          the rank-1 head of C2 along v ~ (1, D, D^2, ...), on which the codes are evenly spaced: every
                       (set of codes, code) gets its own id.
    feed-forward 2     for each output a piecewise linear function of w.id through (id, value), flat beyond the ends.

The value of a context is f at the centres of its cells, f(X)_k = phi(x_k, mean of the tokens) here: phi is the formula,
in x (or x1, x2, ...) and m (or m1, m2, ...), so that f is permutation-equivariant.

*Bound.* Let Osc = sup f - inf f, omega = sup of |f(X) - f(X')| with all coordinates at most 1/(2D) apart, both from
the formula by interval arithmetic. If no coordinate lies on a ramp and no two tokens of X in one cell, the network
gives f at the centres: error <= omega. Elsewhere the readout still lies between its smallest and its largest value, so
the error is at most Osc. So

    |network - f|_p <= ( omega^p + Osc^p mu )^{1/p},   mu = d n (D - 1) w + n(n-1)/2 D^{-d},

the share of the cube on ramps, and with two tokens in one cell (the theorem leaves these out, like the paper: they
vanish as D grows). An error is the largest over all entries of the output.

*Float64.* The ids of C2 shrink like e^{-2r}, and 2r grows with V = D^d: float64 holds a few levels only, at scale
"tight" with the codes shifted away from 0 (D up to 6 for d = 1 and n = 2 or 3, D = 2 for d = 2). More levels are
refused, with the reason. Inputs that are multiples of 2^-24 are quantised without any rounding; `sample` draws such.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.domain import Box
from softwright.errors import Faults
from softwright.precision import FLOAT64
from softwright.targets import Expression
from softwright.theorems.memorisation import id_rounding, spread_direction
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.drawing import draw_curves
from softwright.theorems.tools.modulus import Modulus
from softwright.theorems.tools.network import FeedForward, TheoremNetwork
from softwright.theorems.tools.practical import Practical, by_compile
from softwright.theorems.tools.rank_one import RankOne, Vocabulary, rank_one
from softwright.theorems.tools.rivals import Rivals
from softwright.theorems.tools.sequences import HEAD_SIZE, scale_option, tight_or
from softwright.theorems.tools.theorem import PAPER_C, Theorem, options

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GRAIN = 2.0**-24  # thresholds and sampled inputs are multiples of it
_SHIFT = 8  # the codes start at 8 V steps from 0, so that the scores of all queries are about evenly spread
_MOST_CONTEXTS = 4000
_U = FLOAT64.unit
_UP = 1.0 + 1e-12


@dataclass(frozen=True, kw_only=True)
class EquivariantConstruction(Construction):
    """phi, and the centres (M, d, n) of the cells of all contexts."""

    expression: Expression
    centres: np.ndarray


def _names(dim: int) -> tuple[str, ...]:
    if dim == 1:
        return ("x", "m")
    return tuple(f"x{i + 1}" for i in range(dim)) + tuple(f"m{i + 1}" for i in range(dim))


def equivariant(expression: Expression, X: np.ndarray) -> np.ndarray:
    """phi(x_k, mean) for every token: (q, d, n) -> (q, outputs, n)."""
    q, d, n = X.shape
    means = np.broadcast_to(X.mean(axis=2, keepdims=True), X.shape)
    points = np.concatenate([X, means], axis=1).swapaxes(1, 2).reshape(q * n, 2 * d)
    return expression(points).reshape(q, n, -1).swapaxes(1, 2)


def quantiser(levels: int, dim: int, ramp: float, shift: float) -> FeedForward:
    """(d x n) -> (d x n): every coordinate of [0, 1] to shift + its level 0..D-1."""
    walls = np.round(np.arange(1, levels) / levels / _GRAIN) * _GRAIN
    starts = np.round((walls - 0.5 * ramp) / _GRAIN) * _GRAIN
    units = 2 * (levels - 1)
    W_1, b_1, W_2 = np.zeros((dim * units, dim)), np.zeros(dim * units), np.zeros((dim, dim * units))
    for i in range(dim):
        block = slice(i * units, (i + 1) * units)
        W_1[block, i] = 1.0
        b_1[block] = -np.ravel(np.column_stack([starts, starts + ramp]))
        W_2[i, block] = np.tile([1.0 / ramp, -1.0 / ramp], levels - 1)
    return FeedForward(W_1, b_1, W_2, np.full(dim, shift))


def grid_contexts(levels: int, dim: int, length: int, shift: float) -> tuple[Vocabulary, np.ndarray, np.ndarray]:
    """The codes (V, d) as a vocabulary, all sets of n of them as sequences (M, d, n), and the centres (M, d, n)."""
    cells = np.array(list(product(range(levels), repeat=dim)), dtype=float)  # (V, d)
    index = np.array(list(combinations(range(len(cells)), length)))
    tokens = shift + cells
    sequences = np.swapaxes(tokens[index], 1, 2)
    centres = np.swapaxes((cells[index] + 0.5) / levels, 1, 2)
    return Vocabulary(tokens, index), sequences, centres


def bounded_readout(z: np.ndarray, values: np.ndarray, w: np.ndarray) -> tuple[FeedForward, float, float]:
    """Piecewise linear through (z_j, values_j), flat beyond the ends; its steepest slope and the size of its terms."""
    order = np.argsort(z)
    z, values = z[order], values[order]
    M, o = values.shape
    W_1, b_1, W_2 = np.tile(w, (o * M, 1)), np.tile(-z, o), np.zeros((o, o * M))
    steepest = terms = 0.0
    for k in range(o):
        slopes = np.concatenate([[0.0], np.diff(values[:, k]) / np.diff(z), [0.0]])
        bends = np.diff(slopes)
        W_2[k, k * M : (k + 1) * M] = bends
        steepest = max(steepest, float(np.abs(slopes).max()))
        terms = max(terms, float((np.abs(bends) * (z[-1] - z)).sum()))
    return FeedForward(W_1, b_1, W_2, values[0]), steepest, terms


def lp_bound(omega: float, whole: float, share: float, p: float) -> float:
    """(omega^p + Osc^p mu)^(1/p), rounded up; never more than Osc."""
    return min(whole, (omega**p + whole**p * share) ** (1.0 / p)) * _UP


def lattice_head(levels: int, dim: int, length: int, head_size: int, scale: str, faults: Faults) -> RankOne | None:
    """The rank-1 head for the codes, along (1, D, D^2, ...)."""
    v = float(levels) ** np.arange(dim)
    total = float(v.sum())
    shift = math.ceil(_SHIFT * levels**dim / total)
    vocabulary, _, _ = grid_contexts(levels, dim, length, float(shift))
    return rank_one(vocabulary, length, head_size, scale, 0, faults, v / (np.sqrt((v**2).sum()) * (1.0 + 1e-15)))


def _construct(
    formula: Any, levels: int, length: int, dim: int, p: int, ramp: float, head_size: int, scale: str
) -> EquivariantConstruction:
    """A continuous permutation-equivariant map on [0,1]^(d x n) is approximated in L_p by a feed-forward layer that
    rounds tokens to a grid, one rank-1 softmax head that gives every context on the grid its own id, and a
    feed-forward layer that reads the value off the id. The error is the map's change within a cell, and a share of the
    cube (ramps, two tokens in one cell) that vanishes as the grid becomes finer.
    """
    faults = Faults("theorem C5")
    faults.check(length >= 2, f"length = {length}: the theorem needs n >= 2 tokens")
    faults.check(dim >= 1, f"dim = {dim}: tokens live in [0, 1]^d with d >= 1")
    faults.check(p >= 1, f"p = {p}: the theorem is about L_p with p >= 1")
    faults.check(
        levels >= 2 and levels ** max(dim, 1) > length,
        f"levels = {levels}: {levels}^{dim} cells must exceed the {length} tokens of a sequence, which the theorem "
        "needs pairwise distinct",
    )
    faults.check(
        math.frexp(ramp)[0] == 0.5 and 2.0**-20 <= ramp <= 0.5 / max(levels, 1),
        f"ramp = {ramp:g}: the steps of the quantiser need a width that is a power of two, between 2^-20 and 1/(2D)",
    )
    try:
        expression = formula if isinstance(formula, Expression) else Expression(str(formula), _names(max(dim, 1)))
    except ValueError as error:
        faults.add(str(error))
        faults.raise_if_any()
        raise RuntimeError("a fault was expected") from error
    faults.check(
        expression.outputs == dim,
        f"the formula has {expression.outputs} output(s): the theorem maps d x n to d x n, give {dim}",
    )
    faults.raise_if_any()
    contexts = math.comb(levels**dim, length) * length
    faults.check(
        contexts <= _MOST_CONTEXTS,
        f"{contexts} contexts: the theorem stores one id each; at most {_MOST_CONTEXTS} are built, take fewer levels",
    )
    faults.raise_if_any()
    head = lattice_head(levels, dim, length, head_size, scale, faults)
    modulus = Modulus(expression, Box.from_bounds([0.0] * (2 * dim), [1.0] * (2 * dim), _names(dim)))
    size, whole = modulus.sup_norm, modulus.oscillation(4.0)
    half = (0.5 / levels + 2.0 * _GRAIN) * _UP
    omega = min(2.0 * half * float(modulus.partials.sum()) * _UP, modulus.oscillation(2.0 * half * math.sqrt(2 * dim)))
    faults.check(
        math.isfinite(size) and math.isfinite(omega),
        f"the theorem needs f continuous, hence bounded, on the cube; {expression.text} has no bound there",
    )
    faults.raise_if_any()
    if head is None:
        raise RuntimeError("a fault was expected")
    shift = float(head.vocabulary.tokens[0, 0])
    _, sequences, centres = grid_contexts(levels, dim, length, shift)
    attention = head.attention()
    mapping = TheoremNetwork("C5", [attention], (dim, length))
    ids = np.swapaxes(mapping.evaluate(sequences), 1, 2).reshape(-1, dim)  # (M n, d)
    values = np.swapaxes(equivariant(expression, centres), 1, 2).reshape(len(ids), -1)
    w, gap = spread_direction(ids, head.v, 0)
    eta = id_rounding(head, mapping, sequences)
    faults.check(
        gap > 8.0 * eta,
        f"the ids of {contexts} contexts are {gap:.3g} apart in float64, whose rounding reaches {eta:.3g}: the "
        f"theorem's ids are e^-{head.spread:.3g} apart; take {tight_or(head.scale)}fewer levels or tokens",
    )
    faults.raise_if_any()
    readout, steepest, terms = bounded_readout(ids @ w, values, w)
    network = TheoremNetwork("C5", [quantiser(levels, dim, ramp, shift), attention, readout], (dim, length))
    share = dim * length * (levels - 1) * ramp + math.comb(length, 2) * (1.0 / levels + 4.0 * _GRAIN) ** dim
    rounding = 2.0 * steepest * eta + _U * (len(ids) + dim + 8) * 4.0 * (terms + steepest * eta) + 16.0 * _U * size

    def sample(rng: np.random.Generator, n: int) -> np.ndarray:
        return np.round(rng.random((n, dim, length)) / _GRAIN) * _GRAIN

    def measure(rng: np.random.Generator, n: int) -> tuple[float, int]:
        X = sample(rng, max(n, 2000))
        gaps = np.abs(network.evaluate(X) - equivariant(expression, X)).reshape(len(X), -1).max(axis=1)
        gaps = np.where(np.isnan(gaps), np.inf, gaps)
        return float((gaps**p).mean() ** (1.0 / p)), len(X)

    return EquivariantConstruction(
        expression=expression,
        centres=centres,
        network=network,
        bound=lp_bound(omega, whole, share, p),
        sizes={
            "formula": expression.text, "levels": levels, "length": length, "dim": dim, "p": p, "ramp": ramp,
            "head_size": head_size, "scale": scale,
        },
        tokens=length,
        statement=f"L{p} norm over [0,1]^({dim} x {length}) of network - f, f(X)_k = {expression.text} with m the mean",
        target=lambda inputs: equivariant(expression, np.asarray(inputs, dtype=float)),
        sample=sample,
        quantities={
            "share": share, "contexts": float(contexts), "scale": head.c, "steepest": steepest, "p": float(p),
        },
        norm=f"L{p}",
        reasons=(
            f"{levels} levels per coordinate, {contexts} contexts, ids {gap:.3g} apart on a line, rounded by {eta:.3g}",
            f"the map changes by at most {omega:.4g} within a cell and {whole:.4g} over the cube",
            f"ramps and cells with two tokens take {share:.3g} of the cube, where the error is at most sup f - inf f",
        ),
        rounding=rounding,
        assumptions=("inputs are multiples of 2^-24 (for the rounding part)",),
        measure=measure,
    )  # fmt: skip


def _draw(axes: Axes, made: EquivariantConstruction) -> None:
    """The first output as the first token moves, the others fixed."""
    d, n = made.network.inputs
    x = np.round(np.linspace(0, 1, 1501) / _GRAIN) * _GRAIN
    inputs = np.tile(((np.arange(n) + 0.5) / n)[None, None, :], (len(x), d, 1))
    inputs[:, 0, 0] = x
    draw_curves(axes, x, made.target(inputs)[:, 0, 0], made.network.evaluate(inputs)[:, 0, 0])
    axes.set_xlabel("first token, first coordinate")


def _rival(made: EquivariantConstruction) -> Rivals:
    """The same map as a program: m is the mean."""
    d, n = made.network.inputs
    names = _names(d)
    means = "".join(f"{m} = mean({x}); " for x, m in zip(names[:d], names[d:], strict=True))
    return by_compile(means + made.expression.text, n, dict.fromkeys(names[:d], (0.0, 1.0)))


C5 = Theorem(
    label="C5",
    title="quantise + one rank-1 head + readout: universal for permutation-equivariant maps, in L_p",
    paper=PAPER_C + ", Proposition 1",
    conditions=("n >= 2", "f continuous", "p >= 1", "ids that float64 resolves"),
    options=(
        *options(
            """
            formula  sin(3*x) + m**2  phi(x, m): a token and the mean; x1, x2, .., m1, m2, .. for dim > 1
            levels   5                levels D per coordinate
            length   2                tokens n
            dim      1                dimension d of a token
            p        2                the exponent of L_p
            ramp     0.000244140625   width of a step of the quantiser, a power of two
            """
        ),
        HEAD_SIZE,
        scale_option("tight"),
    ),
    construct=_construct,
    sweep=("levels", (3, 4, 5, 6)),
    details=_draw,
    rival=_rival,
    practical=Practical("tanh(2*x + 3*mean(sin(3*x))) * mean(exp(x))", "length=1:128 x=-1:1", places=False),
)
