"""C3: with hardmax in place of softmax one layer is not a contextual mapping, whatever its weights.

The counterexample: tokens t e on a line, t in {1, 2, 5, 6} and t in {1, 3, 4, 6}, the query t = 1. The score of token
l for query k is (W_K e).(W_Q e) t_l t_k = kappa t_l t_k. Hardmax over the keys therefore sees, in either sequence,

    kappa t_k > 0   the largest token, 6        kappa t_k < 0   the smallest, 1        kappa = 0   the mean, 14/4

and all three are the same in both. So every head, for all weights, gives the same output for the query 1, and the sum
over heads and the residual are the same too: the ids are equal. Softmax weighs 2 against 3 and 5 against 4, and tells
the two apart by e^{-kappa}-weighted sums that differ.

The bound of the theorem is 0: the largest difference of the hardmax ids over random layers. Nothing is rounded on the
way (one-hot weights times the same products), so they agree to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softwright.errors import Faults
from softwright.report.style import BLUE, ORANGE
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.network import Attention, TheoremNetwork
from softwright.theorems.tools.theorem import PAPER_C, Theorem, options

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIRST, SECOND = (1, 2, 5, 6), (1, 3, 4, 6)
QUERY = 0  # the position of the token 1 in both


@dataclass(frozen=True, kw_only=True)
class HardmaxConstruction(Construction):
    """The ids (2, d) of the query 1 in both sequences, by hardmax and by softmax with the same weights."""

    hard_ids: np.ndarray
    soft_ids: np.ndarray


def layer(dim: int, heads: int, head_size: int, seed: int, *, hard: bool, size: float = 0.3) -> TheoremNetwork:
    """A layer with a residual and random weights; W_K, W_Q, W_V (s, d) and W_O (d, s) of each head."""
    rng = np.random.default_rng(seed)
    W_K, W_Q, W_V = (rng.normal(size=(heads, head_size, dim)) for _ in range(3))
    W_O = rng.normal(size=(heads, dim, head_size))
    line = np.ones(dim) / dim
    for h in range(heads):  # scores kappa t_l t_k of moderate size, so that softmax does not saturate either
        kappa = float((W_K[h] @ line) @ (W_Q[h] @ line))
        W_Q[h] *= size * (1.0 if kappa == 0.0 else 1.0 / abs(kappa))
    return TheoremNetwork("C3", [Attention(W_K, W_Q, W_V, W_O, residual=True, hard=hard)], (dim, len(FIRST)))


def pair(dim: int) -> np.ndarray:
    """Both sequences (2, d, 4): tokens t e with e = (1, ..., 1)/d."""
    line = np.ones(dim) / dim
    return np.array([np.outer(line, FIRST), np.outer(line, SECOND)])


def ids(network: TheoremNetwork, dim: int) -> np.ndarray:
    """The ids (2, d) of the query 1 in both sequences."""
    return network.evaluate(pair(dim))[:, :, QUERY]


def _construct(dim: int, heads: int, head_size: int, seed: int) -> HardmaxConstruction:
    """With hardmax attention, whatever the weights, head count and width, the token 1 gets the same id in the
    sequences {1,2,5,6} and {1,3,4,6} of tokens on a line: a head sees the largest token, the smallest or the mean,
    and all three agree. Softmax with the same weights tells the sequences apart.
    """
    faults = Faults("theorem C3")
    for name, value in (("dim", dim), ("heads", heads), ("head_size", head_size)):
        faults.check(value >= 1, f"{name} = {value}: the theorem speaks of layers with {name} >= 1")
    faults.raise_if_any()
    hard = layer(dim, heads, head_size, seed, hard=True)
    soft = layer(dim, heads, head_size, seed, hard=False)
    hard_ids, soft_ids = ids(hard, dim), ids(soft, dim)
    gap = float(np.abs(soft_ids[0] - soft_ids[1]).max())

    def measure(rng: np.random.Generator, n: int) -> tuple[float, int]:
        """This layer and n more with random weights: the largest difference of the two hardmax ids."""
        worst = float(np.abs(np.diff(ids(hard, dim), axis=0)).max())
        for _ in range(n):
            other = layer(dim, heads, head_size, int(rng.integers(2**31)), hard=True)
            worst = max(worst, float(np.abs(np.diff(ids(other, dim), axis=0)).max()))
        return worst, n + 1

    def target(inputs: np.ndarray) -> np.ndarray:
        """What the theorem says of every input: the id of the query is that of the first sequence."""
        out = np.asarray(hard.evaluate(inputs))
        out[:, :, QUERY] = hard_ids[0]
        return out

    shown = ", ".join(f"{x:.17g}" for x in hard_ids[0])
    other = ", ".join(f"{x:.17g}" for x in hard_ids[1])
    return HardmaxConstruction(
        hard_ids=hard_ids,
        soft_ids=soft_ids,
        network=hard,
        bound=0.0,
        sizes={"dim": dim, "heads": heads, "head_size": head_size, "seed": seed},
        tokens=len(FIRST),
        statement="largest difference between the hardmax ids of the token 1 in {1,2,5,6} and in {1,3,4,6}, all layers",
        target=target,
        sample=lambda rng, n: pair(dim),
        quantities={"softmax_gap": gap, "hardmax_gap": float(np.abs(hard_ids[0] - hard_ids[1]).max())},
        measure=measure,
        reasons=(
            f"sequences {FIRST} and {SECOND}, query {FIRST[QUERY]}",
            f"hardmax ids ({shown}) and ({other})",
            f"softmax ids ({', '.join(f'{x:.17g}' for x in soft_ids[0])}) and "
            f"({', '.join(f'{x:.17g}' for x in soft_ids[1])}), {gap:.3g} apart",
        ),
    )


def _draw(axes: Axes, made: HardmaxConstruction) -> None:
    """The id of the token 1 in both sequences, by hardmax and by softmax."""
    hard, soft = made.hard_ids[:, 0], made.soft_ids[:, 0]
    places = np.arange(2)
    for shift, colour, which, tokens in ((-0.18, BLUE, 0, FIRST), (0.18, ORANGE, 1, SECOND)):
        label = f"in {{{', '.join(map(str, tokens))}}}"
        axes.bar(places + shift, [hard[which], soft[which]], width=0.34, color=colour, label=label)
    axes.set_xticks(places, ["hardmax", "softmax"])
    low, high = min(*hard, *soft), max(*hard, *soft)
    axes.set_ylim(low - 0.3 * (high - low) - 1e-6, high + 0.3 * (high - low) + 1e-6)
    axes.set_title("id of the token 1, first coordinate", fontsize=8)
    axes.legend()


C3 = Theorem(
    label="C3",
    title="with hardmax one layer is not a contextual mapping: {1,2,5,6} and {1,3,4,6} get one id",
    paper=PAPER_C + ", Theorem 1",
    conditions=("one hardmax attention layer with a residual, any weights",),
    options=options(
        """
        dim        1  dimension d of a token
        heads      1  heads
        head_size  1  rows s of W_K, W_Q, W_V
        seed       0  seed of the weights
        """
    ),
    construct=_construct,
    sweep=("heads", (1, 2, 4, 8)),
    details=_draw,
)
