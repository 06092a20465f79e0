"""A5 again: tokens (x_i, y_i, w, 1), all with one w, after every six stages with w a step of gradient descent further.

Data: |x| <= X and |w| <= w_max entrywise, |y| <= Y for squares, 0 <= y <= 1 for the logistic loss. The loss has the
gradient mean_i g_i x_i, g = phi(w.x - y) with phi(s) = s (squares), g = phi(w.x) - y with phi = sigmoid (logistic). A
step's stages are compared entry by entry, but for the keys, biases and values of its two kinds of heads.

    s = w.x - y or w.x    |s| <= S = sqrt(d) W X [+ Y], W a bound of the Euclidean norm of the network's own w
    first layer           values phi(L_k) up to nu; mean |L_k - clip(s)| <= D (`interpolation`), Lip = 1 or 1/4:
                          g is off by e = Lip (D + excess) + nu, excess what S is beyond the points
    second layer          g x_c = v^2 - v'^2, v, v' = (g +- x_c)/2, of modulus at most V; values L_k^2 up to nu_2:
                          each square is off by 2 V_2 D_2 + nu_2 + 2 V excess_2, V_2 the largest |L_k|, |high|
    third layer           the mean over the n tokens, times -eta, is added to w

So every entry of the gradient is off by eps = e X + 2 (that of a square), and w after one step by eta eps. Two points
move apart by at most kappa = max(1, eta c d X^2 - 1) in a step of exact descent, c = 1 or 1/4, as the Hessian's
eigenvalues lie in [0, c d X^2]. So E <- kappa E + eta eps sqrt(d) bounds the error after several steps, and
W <- kappa W + eta sqrt(d) (Z X + eps) the norm, where Z bounds |g| at w = 0: Y, or 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb, fmpq

from softwright.checker.entries import check_entries, is_float, is_size
from softwright.checker.limits import check_time
from softwright.checker.proved import Proved
from softwright.checker.refusal import require
from softwright.checker.theorems.interpolation import blank, largest, ones_at, rational, rationals, same
from softwright.checker.theorems.points import Points, read_points
from softwright.checker.theorems.reading import REAL_ARITHMETIC, Stage, TheoremFile

ZERO = arb(0)
STEP = ("sum_of_linear", "attention", "attention", "sum_of_linear", "attention", "sum_of_linear")
LIPSCHITZ = {"squares": fmpq(1), "logistic": fmpq(1, 4)}  # of phi
POSITIVE = ("eta", "x_max", "y_max", "w_max", "eps0")
SIZES = {
    "loss": lambda value: value in ("squares", "logistic"),
    **dict.fromkeys(("points", "tokens", "dim", "steps"), is_size),
    **dict.fromkeys(POSITIVE, lambda value: is_float(value) and value > 0),
}


@dataclass(frozen=True)
class Task:
    """What is asked, and where the rows of a token stand: x, y, w, 1, then those of the layers."""

    loss: str
    p: int
    n: int
    d: int
    eta: float
    X: fmpq
    Y: fmpq

    @property
    def squares(self) -> bool:
        return self.loss == "squares"

    @property
    def base(self) -> int:
        return 2 * self.d + 2

    @property
    def rows(self) -> int:
        return self.base + 2 * self.d + 7

    @property
    def key_w(self) -> range:
        return range(self.base, self.base + self.d)

    @property
    def singles(self) -> range:
        """ramp, bias, value, g, ramp2, bias2, value2"""
        return range(self.base + self.d, self.base + self.d + 7)

    @property
    def products(self) -> range:
        return range(self.rows - self.d, self.rows)

    @property
    def w(self) -> range:
        return range(self.d + 1, self.base - 1)


def prove(file: TheoremFile) -> Proved:
    """How far w after all steps is from that of exact gradient descent, entrywise."""
    check_entries(file.sizes, SIZES, "the sizes")
    require(not file.drawn, "the theorem draws nothing")
    s = file.sizes
    Y = rational(s["y_max"]) if s["loss"] == "squares" else fmpq(1)
    task = Task(s["loss"], s["points"], s["tokens"], s["dim"], s["eta"], rational(s["x_max"]), Y)
    require(task.p > task.n, "the theorem needs more points than tokens")
    require(file.inputs == (task.base, task.n), "the input has another shape than the sizes say")
    require(len(file.stages) == 6 * s["steps"], "a step is six stages")
    stages = file.chain(*STEP * s["steps"])
    eta, root = arb(rational(task.eta)), arb(task.d).sqrt()
    bent = rational(task.eta) * LIPSCHITZ[task.loss] * task.d * task.X * task.X - 1
    kappa = arb(max(fmpq(1), bent))
    W, error, first, last = root * arb(rational(s["w_max"])), ZERO, ZERO, ZERO
    for step in range(s["steps"]):
        check_time()
        own = stages[6 * step : 6 * step + 6]
        check_places(task, own)
        eps, last = gradient_error(task, own[0]["R"], root * W * arb(task.X) + (arb(task.Y) if task.squares else ZERO))
        first = eps if step == 0 else first
        error = (kappa * error + eta * eps * (root if s["steps"] > 1 else 1)).upper()
        W = (kappa * W + eta * root * (arb(task.Y * task.X) + eps)).upper()
    return Proved(
        statement=f"w after {s['steps']} step(s) is within the bound of gradient descent's, entrywise; x, y and 1 are "
        "kept",
        exact=largest([error]),
        rounding=None,
        method="theorem A5",
        quantities={"eps0": arb(s["eps0"]), "eta": eta, "kappa": kappa, "largest |w.x - y|": last},
        at_most={"eps of the first gradient": largest([first])},
        assumptions=REAL_ARITHMETIC,
    )


def gradient_error(task: Task, R: np.ndarray, S: arb) -> tuple[arb, arb]:
    """eps for |s| <= S, and the end of the first layer's points."""
    ramp, bias, value, _, ramp2, bias2, value2 = task.singles
    points, squares = read_points(R[ramp], R[bias]), read_points(R[ramp2], R[bias2])
    values, slope = rationals(R[value]), arb(LIPSCHITZ[task.loss])
    off = points.off(values) if task.squares else largest(map(sigmoid_error, values, points.levels))
    e = slope * (points.distance() + beyond(S, points)) + off
    reached = [abs(end - y) for end in (min(values), max(values)) for y in ((0,) if task.squares else (0, 1))]
    V = arb((max(reached) + task.X) / 2)
    off = max(abs(x - level * level) for x, level in zip(rationals(R[value2]), squares.levels, strict=True))
    square = 2 * arb(squares.size) * squares.distance() + arb(off) + 2 * V * beyond(V, squares)
    return (e * arb(task.X) + 2 * square).upper(), arb(points.high)


def beyond(size: arb, points: Points) -> arb:
    """What numbers of modulus up to `size` are beyond the points, which lie as far on either side."""
    return (size - arb(points.high)).max(ZERO)


def sigmoid_error(value: fmpq, level: fmpq) -> arb:
    return abs(arb(value) - 1 / (1 + (-arb(level)).exp()))


def check_places(task: Task, stages: list[Stage]) -> None:
    """All entries of a step's tensors but the keys, biases and values."""
    p, n, d, rows, base = task.p, task.n, task.d, task.rows, task.base
    tokens, first, second, cut, third, keep = stages
    ramp, bias, value, g, ramp2, bias2, value2 = task.singles
    P = blank(tokens["P"], (2, rows, base), "P")
    y, one, c = d, base - 1, np.arange(d)
    P[0, range(base), range(base)] = 1.0
    P[1, task.key_w, task.w] = 1.0
    same(tokens["P"], P, "P")
    R, Q = blank(tokens["R"], (rows, p), "R"), blank(tokens["Q"], (2, n, p), "Q")
    free = [ramp, bias, value, ramp2, bias2, value2]
    R[free] = tokens["R"][free]
    same(tokens["R"], R, "R")
    Q[0, range(n), range(n)] = 1.0
    Q[1, 0] = R[ramp]  # key k holds ramp_k w, from the first token
    same(tokens["Q"], Q, "Q")

    adds(first, "first")
    ones_at(first["W_K"], (1, d + 2, rows), (0, range(d + 2), [*task.key_w, ramp, bias]), "W_K of the first layer")
    W_Q = blank(first["W_Q"], (1, d + 2, rows), "W_Q of the first layer")
    W_Q[0, c, c], W_Q[0, d + 1, one] = 1.0, 1.0
    W_Q[0, d, y] = -1.0 if task.squares else 0.0
    same(first["W_Q"], W_Q, "W_Q of the first layer")
    ones_at(first["W_V"], (1, 1, rows), (0, 0, value), "W_V of the first layer")
    ones_at(first["W_O"], (1, rows, 1), (0, g, 0), "W_O of the first layer")

    adds(second, "second")
    ones_at(second["W_K"], (2 * d, 2, rows), (slice(None), range(2), [ramp2, bias2]), "W_K of the second layer")
    W_Q = blank(second["W_Q"], (2 * d, 2, rows), "W_Q of the second layer")
    W_V = blank(second["W_V"], (2 * d, 1, rows), "W_V of the second layer")
    W_Q[:, 0, g], W_Q[:, 1, one] = 0.5, 1.0
    W_Q[:, 0, y] = 0.0 if task.squares else -0.5
    W_Q[2 * c, 0, c], W_Q[2 * c + 1, 0, c] = 0.5, -0.5
    W_V[0::2, 0, value2], W_V[1::2, 0, value2] = 1.0, -1.0
    same(second["W_Q"], W_Q, "W_Q of the second layer")
    same(second["W_V"], W_V, "W_V of the second layer")
    heads = np.arange(2 * d)
    ones_at(second["W_O"], (2 * d, rows, 1), (heads, task.products.start + heads // 2, 0), "W_O of the second layer")

    picks(cut, (rows, rows), (p, n), "the cut")
    adds(third, "third", "W_K", "W_Q", "W_V")
    for name in ("W_K", "W_Q"):
        same(third[name], blank(third[name], (1, 1, rows), name), f"{name} of the third layer")
    W_V = blank(third["W_V"], (1, rows, rows), "W_V of the third layer")
    W_V[0, task.w, task.products] = -task.eta
    same(third["W_V"], W_V, "W_V of the third layer")
    picks(keep, (base, rows), (n, n), "the last linear map")


def adds(stage: Stage, which: str, *tensors: str) -> None:
    """A layer with residual, of these tensors (all but T, if none are named)."""
    require(stage.flags == {"residual": True, "causal": False, "hard": False}, f"the {which} layer is of another kind")
    wanted = tensors or ("W_K", "W_Q", "W_V", "W_O")
    require(set(stage.tensors) == set(wanted), f"the {which} layer has other tensors")


def picks(stage: Stage, left: tuple[int, int], right: tuple[int, int], what: str) -> None:
    """Z becomes its first rows and columns."""
    kept, columns = range(left[0]), range(right[1])
    ones_at(stage["P"], (1, *left), (0, kept, kept), f"P of {what}")
    ones_at(stage["Q"], (1, *right), (0, columns, columns), f"Q of {what}")
    same(stage["R"], blank(stage["R"], (left[0], right[1]), f"R of {what}"), f"R of {what}")
