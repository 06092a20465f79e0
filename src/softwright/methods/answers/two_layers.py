"""Gradient descent on a network with one hidden layer, in context: both layers are trained by the stack, step by step.

    f(x) = sum_h a_h tanh(w_h.x + b_h),    loss 1/2 mean_i (f(x_i) - y_i)^2,    `steps` steps of size `rate`

from weights drawn with `seed`, which are constant tokens. Unit token p (the last one for the constant) holds W_p., what
feature p gives to every hidden unit; hidden tokens +-h hold a_h. A step is six layers:

    hidden     u_i = sum_p x_ip W_p                              bilinear, over the unit tokens
    link       t_ih = tanh u_ih, and s_ih = 1/cosh^2 u_ih        exact links: s is twice the middle weight of a softmax
                                                                 over the scores 2u, log 2, -2u
    fit        f_i = sum_h t_ih a_h, and every row is told a     bilinear, over the hidden tokens
    slope      q_ih = a_h s_ih                                   own products, ((p + q)^2 - (p - q)^2)/4 by `squares`
    error      d_ih = (f_i - y_i) q_ih                           the same
    update     W_p -= rate mean_i x_ip d_i,  a_h -= rate mean_i t_ih (f_i - y_i)      means by counting tokens

Features and targets are those given: bring them to size 1 first, as for any network that is trained.
"""

from __future__ import annotations

import math

import numpy as np

from softwright.methods.answers.kernel import NO_COEFFICIENT
from softwright.methods.answers.squares import square_heads
from softwright.methods.bilinear import bilinear_heads
from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint, Frame, HeadWeights, LayerWeights, Pair, head, layer
from softwright.methods.guards import Guard
from softwright.methods.links import link_head, link_tokens
from softwright.methods.solvers.matrices import SINK

STEPS = 25


def drawn(c: Constants) -> tuple[np.ndarray, np.ndarray]:
    """The weights at the start: W (features + 1, hidden), the last row for the constant, and a (hidden,)."""
    rng, hidden = np.random.default_rng(int(c.option("seed"))), int(c.option("hidden"))
    W = rng.normal(size=(c.features + 1, hidden)) / math.sqrt(c.features + 1)
    return W, rng.normal(size=hidden) / math.sqrt(hidden)


def two_layers(constants: Constants) -> FitBlueprint:
    c, H = constants, int(constants.option("hidden"))
    wide = dict.fromkeys(("W", "u", "t", "s", "a", "q", "d", "h"), H)
    extra = {**wide, "f": 1, "r": 1, "own_a": 1, "hid": 1, "pair": 1, "sign": 1}
    groups = {"tanh": 1, "sech": 1, "slope": 1, "bias": 1, "value": 1}
    frame = Frame(c.features, False, constant=True, extra=extra | groups, counting=True)
    frame.segments = [segment for segment in frame.segments if segment.name != "mirror"]
    s, (W, a) = frame.slots, drawn(c)
    units = frame.fixed("unit")
    signs = np.array([1.0, -1.0] * frame.coordinates)[:, None]
    frame.change_fixed("unit", units + (signs * np.repeat(W, 2, axis=0)) @ s.select("W").T)
    frame.add_fixed("hidden", _hidden(frame, a))
    pair = [s.vector(one=1.0, pair=1.0, sign=sign) for sign in (1.0, -1.0)]
    frame.add_fixed("pair", np.stack(pair))
    frame.add_fixed("tanh", link_tokens(s, "tanh", [(1.0, 0.0, 1.0), (-1.0, 0.0, -1.0)]))
    middle = [(2.0, 0.0, 0.0), (0.0, math.log(2.0), 2.0), (-2.0, 0.0, 0.0)]
    frame.add_fixed("sech", link_tokens(s, "sech", middle))
    step = _step(frame, c)
    ask = _forward(frame, c, ("query",))
    count = c.steps or STEPS
    program = [*step * count, *ask]
    return FitBlueprint(
        s.places, frame.segments, program, read=s.vector(f=1.0), coefficient=(NO_COEFFICIENT, s.vector()),
        guards=_guards(c, count, len(step)), head=0, tail=len(ask),
    )  # fmt: skip


def _guards(c: Constants, count: int, each: int) -> list[Guard]:
    """Bounds of the products, in every step: what has diverged may come back into them by chance."""
    far = "a row or query is larger in some coordinate than x_bound; raise x_bound, or scale the features"
    steep = "output weights have grown beyond w_bound; raise w_bound, or take a smaller rate"
    wild = "the network misses y by more than y_bound; raise y_bound, scale y, or take a smaller rate"
    guards = [Guard("scores", 0, c.x_bound, far, "x", "e", ("data", "query"), ("unit",))]
    for k in range(count):
        guards.append(Guard("scores", k * each + 3, c.y_bound, wild, "r", "pair", ("data",), ("pair",)))
        guards.append(Guard("scores", (k + 1) * each, c.w_bound, steep, "own_a", "hid", ("hidden",), ("hidden",)))
    return guards


def _hidden(frame: Frame, a: np.ndarray) -> np.ndarray:
    """Tokens +-h with a_h and their direction, both turned at -h."""
    s, tokens = frame.slots, []
    for h, weight in enumerate(a):
        for sign in (1.0, -1.0):
            token = s.vector(one=1.0, hid=1.0, own_a=sign * weight)
            token[s.places["h"][0] + h] = sign
            tokens.append(token)
    return np.stack(tokens)


def _forward(frame: Frame, c: Constants, rows: tuple[str, ...]) -> list[LayerWeights]:
    """hidden, link, fit of the docstring; rows of the data also get f - y and a."""
    s, H = frame.slots, int(c.option("hidden"))
    product = bilinear_heads(
        s.select("x"), s.select("e"), s.select("W"), s.select("u").T, reach=c.x_bound, order=c.order, angle=c.angle,
        also=[frame.only("unit")], factor=float(frame.coordinates),
    )  # fmt: skip
    links = []
    for h in range(H):
        argument = s.select("u")[:, h]
        for group, target in (("tanh", "t"), ("sech", "s")):
            made = link_head(s, group, argument, "f")
            links.append(HeadWeights(made.Wq, made.Wk, made.Wv, s.select(target).T[h : h + 1]))
    writes = s.vector(f=1.0, r=1.0)
    fit = bilinear_heads(
        s.select("t"), s.select("h"), s.vector(own_a=1.0), writes, reach=1.0, order=c.order, angle=c.angle,
        also=[frame.only("hid")], factor=float(H),
    )  # fmt: skip
    R = s.residual(("f", "f", 0.0), ("r", "r", 0.0), ("a", "a", 0.0), ("y", "r", -1.0))
    return [
        layer("hidden", rows, ("unit",), product, s.residual(("u", "u", 0.0))),
        layer("link", rows, ("tanh", "sech"), links, s.residual(("t", "t", 0.0), ("s", "s", 0.0))),
        layer("fit", rows, ("hidden",), [*fit, *_told(frame, H)], R),
    ]


def _told(frame: Frame, H: int) -> list[HeadWeights]:
    """One head per hidden unit that reads its a, from the token +h alone."""
    s, one = frame.slots, frame.slots.vector(one=1.0)
    heads = []
    for h in range(H):
        mine = s.select("h")[:, h]
        heads.append(head([(one, 2.0**40 * mine)], s.vector(own_a=1.0), s.select("a").T[h]))
    return heads


def _products(
    frame: Frame, c: Constants, left: np.ndarray, right: np.ndarray, target: str, reach: float, label: str
) -> LayerWeights:
    """target_h <- left_h right_h at the data, from left and right (D, H): a quarter of (p + q)^2 - (p - q)^2."""
    s, heads = frame.slots, []
    for h in range(left.shape[1]):
        for sign in (1.0, -1.0):
            asked = (left[:, h] + sign * right[:, h])[:, None]
            found, _ = square_heads(s, c.dtype, asked, s.vector(sign=1.0)[:, None], "f", reach=reach, also=[])
            writes = 0.25 * sign * s.select(target).T[h : h + 1]
            heads += [HeadWeights(x.Wq, x.Wk, x.Wv, float(x.Wo[0, s.places["f"][0]]) * writes) for x in found]
    return layer(label, ("data",), ("pair", "null"), heads, s.residual((target, target, 0.0)))


def _step(frame: Frame, c: Constants) -> list[LayerWeights]:
    s, H, rate = frame.slots, int(c.option("hidden")), c.option("rate")
    residual = np.repeat(s.vector(r=1.0)[:, None], H, axis=1)
    sink = SINK[c.dtype]
    also: list[Pair] = [frame.only("data", "count"), frame.weighted, (s.vector(one=1.0), s.vector(count=sink))]
    factor = -rate * math.exp(sink)
    first = bilinear_heads(
        s.select("e"), s.select("x"), s.select("d"), s.select("W").T, reach=c.x_bound, order=c.order, angle=c.angle,
        also=also, factor=factor,
    )  # fmt: skip
    second = bilinear_heads(
        s.select("h"), s.select("t"), s.vector(r=1.0), s.vector(own_a=1.0), reach=1.0, order=c.order, angle=c.angle,
        also=also, factor=factor,
    )  # fmt: skip
    return [
        *_forward(frame, c, ("data",)),
        _products(frame, c, s.select("a"), s.select("s"), "q", c.w_bound + 1.0, "slope"),
        _products(frame, c, residual, s.select("q"), "d", c.y_bound + c.w_bound, "error"),
        layer("update", ("unit", "hidden"), ("data", "count"), [*first, *second]),
    ]


def exact_two_layers(x: np.ndarray, y: np.ndarray, queries: np.ndarray, c: Constants) -> np.ndarray:
    W, a = drawn(c)
    rate = c.option("rate")

    def rows(points: np.ndarray) -> np.ndarray:
        return np.concatenate([points, np.ones((len(points), 1))], axis=1)

    X = rows(x)
    for _ in range(c.steps or STEPS):
        t = np.tanh(X @ W)
        r = t @ a - y
        d = r[:, None] * a * (1.0 - t**2)
        W, a = W - rate * X.T @ d / len(y), a - rate * t.T @ r / len(y)
    return np.tanh(rows(queries) @ W) @ a
