"""Mixtures of Gaussians in context: the EM algorithm, where every expectation is a softmax.

    density  sum_k pi_k N(x; m_k, A),   one covariance A for all components (scikit-learn's "tied")

y holds the start as in `clusters`: rows labelled 0, .., K-1 begin the components, which have equal shares and the
covariance of all rows at first. K tokens hold m_k, u_k = A^{-1} m_k and b_k = log pi_k - m_k.u_k/2. The share of a
component in an observation is then a softmax over those tokens,

    r_jk = e^{x_j.u_k + b_k - L_j},   L_j = log sum_k e^{x_j.u_k + b_k},

and the new mean of a component a softmax over observations with scores x_j.u_k - L_j: weights proportional to r_jk.
What is left are two logarithms of sums, L_j and log sum_j r_jk. A head over the summands and the null token, whose
score is a guess g of the logarithm l, gives sigmoid(l - g) exactly, and

    g <- g + 4 (sigmoid(l - g) - 1/2)        leaves (l - g) - 2 tanh((l - g)/2), about (l - g)^3/12.

L_j begins at the mean of x_j.u_k + b_k under r, which is below it by an entropy, at most log K. Covariances need no
look at the rows but one: A = cov(x) - sum_k pi_k m_k m_k^T, for the mean of the m_k is that of x. A^{-1} stands at
the unit tokens (`matrices`) and follows A by a few steps of Newton and Schulz, which correct themselves. The answer to
a query are its shares. A tied covariance goes with any linear map of the features, so they may be scaled.
"""

from __future__ import annotations

import math

import numpy as np

from softwright.methods.answers.squares import square_heads
from softwright.methods.bilinear import bilinear_heads
from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint, Frame, HeadWeights, LayerWeights, Pair, head, layer
from softwright.methods.guards import Guard
from softwright.methods.newton_schulz import inverse_depth
from softwright.methods.solvers.matrices import SINK, inverse_layers, moments, times
from softwright.methods.standardise import SCALED_MOST, prepare, scale_guards

STEPS = 150
_SHARP = 100.0  # of labels: whole numbers lie 1 apart
_FOLLOWING = 3  # steps of Newton and Schulz an iteration
_CUBIC = 3  # corrections of log sum_j r_jk an iteration, which begins at its last value
_FIRST_CUBIC = 24  # the same at the first iteration, which begins at 0: each moves by up to 2
_OTHERS = 1e25
_SETTLED = {"float64": 3e-8, "float32": 1e-3}  # what is left, by the last two moves


def _corrections(classes: int) -> int:
    """How many corrections a guess takes that is off by at most log K."""
    off, count = math.log(max(classes, 2)), 0
    while off > 1e-17:
        off, count = off - 2.0 * math.tanh(off / 2.0), count + 1
        if off < 1e-3:
            off = off**3 / 12.0
    return count


class _Mixture:
    """The frame of a mixture and the layers of one iteration."""

    def __init__(self, c: Constants) -> None:
        d, K = c.features, int(c.option("components"))
        wide = dict.fromkeys(("z", "a", "t", "C", "centre", "u", "mean_u"), d)
        several = dict.fromkeys(("label", "klass", "rest", "share"), K)
        names = dict.fromkeys(("square", "slope", "bias", "L", "M", "N"), 1)
        self.c, self.K = c, K
        self.frame = Frame(d, True, False, {**wide, **several, **names})
        s = self.s = self.frame.slots
        self.one = s.vector(one=1.0)
        labels = np.arange(-1, K)
        tokens = np.tile(self.one, (K + 1, 1))
        tokens[1:, slice(*s.places["klass"])] = np.eye(K)
        tokens[:, s.places["slope"][0]], tokens[:, s.places["bias"][0]] = 2.0 * _SHARP * labels, -_SHARP * labels**2.0
        self.frame.add_fixed("labels", tokens)
        centres = np.tile(self.one, (K, 1))
        centres[:, slice(*s.places["klass"])], centres[:, slice(*s.places["rest"])] = np.eye(K), 1.0 - np.eye(K)
        self.frame.add_fixed("centres", centres)

    def scores(self) -> list[Pair]:
        """x.u_k + b_k, of an observation or query with the components."""
        s = self.s
        return [(s.select("x"), s.select("u")), (self.one, s.vector(M=1.0, square=-0.5))]

    def start(self) -> list[LayerWeights]:
        """Labels as shares, the means they mark, and the covariance of all rows."""
        s, frame = self.s, self.frame
        named = head(
            [(s.vector(y=1.0), s.vector(slope=1.0)), (self.one, s.vector(bias=1.0))], s.select("klass"),
            s.select("label").T,
        )  # fmt: skip
        marked = head(
            [frame.weighted, (2.0**20 * s.select("klass"), s.select("label"))], s.select("x"), s.select("centre").T
        )
        covariance = moments(frame, self.c, s.select("x"), s.select("C").T + s.select("a").T)
        return [
            layer("label", ("data",), ("labels",), [named]),
            layer("begin", ("centres",), ("data",), [marked]),
            layer("covariance", ("unit",), ("data",), covariance),
        ]

    def directions(self) -> list[LayerWeights]:
        """u_k = A^{-1} m_k, and m_k.u_k: a product of a token's own numbers, by a head over itself and the null one."""
        s, c, sink = self.s, self.c, SINK[self.c.dtype]
        heads = times(self.frame, c, "centre", "z", s.select("u").T, c.feature_bound)
        itself = [(-_OTHERS * s.select("klass"), s.select("rest")), (self.one, s.vector(null=sink))]
        product = bilinear_heads(
            s.select("centre"), s.select("u"), s.vector(one=1.0, null=-1.0), s.vector(square=1.0),
            reach=c.score_bound, order=c.order, angle=c.angle, also=itself, factor=math.exp(sink),
        )  # fmt: skip
        return [
            layer("direction", ("centres",), ("unit",), heads, s.residual(("u", "u", 0.0))),
            layer("product", ("centres",), ("centres", "null"), product, s.residual(("square", "square", 0.0))),
        ]

    def logarithms(self) -> list[LayerWeights]:
        """L_j: begun at the mean score, then corrected."""
        s = self.s
        values = np.concatenate([s.select("u"), s.vector(M=1.0, square=-0.5)[:, None]], axis=1)
        writes = np.concatenate([s.select("mean_u").T, s.vector(L=1.0)[None]])
        mean = head(self.scores(), values, writes)
        begun = layer(
            "mean score", ("data",), ("centres",), [mean], s.residual(("mean_u", "mean_u", 0.0), ("L", "L", 0.0))
        )
        reach = self.c.feature_bound * (1.0 + self.c.condition)
        heads: list[HeadWeights] = []
        for sign in (1.0, -1.0):  # x.u = (|x + u|^2 - |x - u|^2)/4, whose constants cancel
            both = s.select("x") + sign * s.select("mean_u")
            squares, _ = square_heads(s, self.c.dtype, both, s.select("e"), "L", reach=reach, also=[])
            heads += [head([(h.Wq, h.Wk)], h.Wv, 0.25 * sign * h.Wo) for h in squares]
        guess = head(
            [*self.scores(), (s.vector(L=1.0), s.vector(null=1.0))], s.vector(one=1.0, null=-1.0), s.vector(L=4.0)
        )
        correct = layer("logarithm", ("data",), ("centres", "null"), [guess], s.residual(("one", "L", -2.0)))
        return [begun, layer("mean score", ("data",), ("unit", "null"), heads), *[correct] * _corrections(self.K)]

    def totals(self) -> LayerWeights:
        """One correction of N_k = log sum_j r_jk."""
        s = self.s
        scores = [
            (s.select("u"), s.select("x")),
            (s.vector(M=1.0, square=-0.5), s.vector(data=1.0)),
            (self.one, s.vector(L=-1.0, log_weight=1.0)),
            (s.vector(N=1.0), s.vector(null=1.0)),
        ]
        guess = head(scores, s.vector(data=1.0), s.vector(N=4.0))
        return layer("total", ("centres",), ("data", "null"), [guess], s.residual(("one", "N", -2.0)))

    def maximised(self) -> list[LayerWeights]:
        """New means and shares, A from them, and its inverse a few steps on."""
        s, c = self.s, self.c
        scores = [(s.select("u"), s.select("x")), (self.one, s.vector(L=-1.0, log_weight=1.0))]
        mean = head(scores, s.select("x"), s.select("centre").T)
        moved = s.residual(("centre", "centre", 0.0), ("M", "M", 0.0), ("N", "M", 1.0))
        between = bilinear_heads(
            s.select("e"), s.select("centre"), s.select("centre"), -s.select("a").T, reach=c.feature_bound,
            order=c.order, angle=c.angle, also=[(self.one, s.vector(M=1.0))],
        )  # fmt: skip
        return [
            layer("mean", ("centres",), ("data",), [mean], moved),
            layer("within", ("unit",), ("centres",), between, s.residual(("a", "a", 0.0), ("C", "a", 1.0))),
            *inverse_layers(self.frame, c, c.condition) * _FOLLOWING,
        ]


def gaussian_mixture(constants: Constants) -> FitBlueprint:
    c, mixture = constants, _Mixture(constants)
    frame, s = mixture.frame, mixture.s
    largest = c.features * SCALED_MOST if c.scaling else c.largest_eigenvalue
    units = frame.fixed("unit")
    frame.change_fixed("unit", units + 1.9 / largest * (units @ s.select("e")) @ s.select("z").T)
    first = prepare(
        frame, targets=(), scaling=c.scaling, angles=c.angles, centre_y=False, range_bound=c.range_bound,
        feature_bound=c.feature_bound,
    )  # fmt: skip
    start = [*mixture.start(), *inverse_layers(frame, c, c.condition) * inverse_depth(largest, 1.0 / c.condition, 1e-9)]
    expected, maximised = [*mixture.directions(), *mixture.logarithms()], mixture.maximised()
    once = [*expected, *[mixture.totals()] * _FIRST_CUBIC, *maximised]
    iteration = [*expected, *[mixture.totals()] * _CUBIC, *maximised]
    program = [*first, *start, *once, *iteration * max(1, (c.steps or STEPS) - 1)]
    shares = head(mixture.scores(), s.select("klass"), s.select("share").T)
    tail = [*mixture.directions(), layer("share", ("query",), ("centres",), [shares])]
    still = "the means still move in the last iteration; raise steps"
    singular = "a component has no spread in some direction, or less than condition allows; raise condition"
    guards = [
        *(scale_guards(c.range_bound, c.feature_bound) if c.scaling else []),
        Guard(
            "inverse", len(program), 1e-5 if c.dtype == "float64" else 1e-2, singular, "t", "e", (), ("unit",),
            penalty_slot="t", wanted=float(frame.coordinates),
        ),  # before the next one: means that move because the covariance has no inverse are not short of steps
        Guard(
            "settled", len(program), _SETTLED[c.dtype], still, "centre", "centre", ("centres",), (),
            reach=2 * len(iteration), wanted=2.0,
        ),
    ]  # fmt: skip
    return FitBlueprint(
        s.places, frame.segments, [*program, *tail], read=s.select("share"), coefficient=("", s.vector()),
        guards=guards, head=len(first), tail=len(tail),
    )  # fmt: skip


def grouped(x: np.ndarray) -> np.ndarray:
    """Random rows in three groups that touch."""
    places = np.zeros((3, x.shape[1]))
    places[0, 0], places[2, 0] = 3.0, -3.0
    if x.shape[1] > 1:
        places[1, 1] = 3.0
    return x + places[np.arange(len(x)) % 3]


def exact_mixture(x: np.ndarray, y: np.ndarray, queries: np.ndarray, c: Constants) -> np.ndarray:
    K, n = int(c.option("components")), len(y)
    mean = x.mean(axis=0)
    x, queries = x - mean, queries - mean
    centres = np.stack([x[y == k].mean(axis=0) for k in range(K)])
    total = x.T @ x / n
    within, logs = total, np.full(K, -math.log(K))

    def shares(rows: np.ndarray) -> np.ndarray:
        u = np.linalg.solve(within, centres.T)
        scores = rows @ u + logs - 0.5 * (centres.T * u).sum(axis=0)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    for _ in range(20_000):
        r = shares(x)
        found = (r.T @ x) / r.sum(axis=0)[:, None]
        moved = float(np.abs(found - centres).max())
        centres, logs = found, np.log(r.mean(axis=0))
        within = total - (centres.T * r.mean(axis=0)) @ centres
        if moved <= 1e-13 * np.abs(x).max():
            break
    return shares(queries)
