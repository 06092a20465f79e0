"""Four neurons in one softmax, where each has two tokens without biases (relu, leaky relu, silu, sigmoid, tanh).

A kernel for attention works through one softmax after another, and one over two tokens costs it as much as one over
sixteen. Let neuron i have the tokens {k_0 s_i, k_1 s_i}. Of the 2^4 choices c of a token for each of four neurons make
one token each, with the score sum_i k_{c_i} s_i. The exponential of a sum is a product, and so is the normaliser:

    w_c = prod_i e^{k_{c_i} s_i}/prod_i (e^{k_0 s_i} + e^{k_1 s_i}),    sum over c with c_i = 1 of w_c = w_1(s_i),

the weight that neuron i has for itself. So with queries (s_1, .., s_4), keys (k_{c_1}, .., k_{c_4}) and values
(x_{c_1}, .., x_{c_4}), x the slopes or the offsets of the two tokens, whichever are not 0, attention returns for four
neurons at once what it returned for one: sum_j w_j x_j. Neurons that are missing in the last group have s = 0.
Where derivatives are taken heads run one by one: of relu they would be beta times the rounding of a sum over the group.

*Rounding.* T = sum_i |s_i| over a group, K = max |k|, u the unit, E the error of exp. A score is a sum of four
products: gamma_4 K T, gamma_3 where k are powers of two or 0, 4 roundings more where stock attention scales queries and
keys by roots; its distance from the largest, at most 2 K T, is rounded once. So a computed weight is e^t times the true
one, up to what all share,

    |t| <= gamma K T + 2 u K T + E/(1 - E),

and two choices that differ in neuron i alone compare as e^{(k_1 - k_0) s_i + theta}, |theta| <= 2 max |t|: so do their
sums over all such pairs. With kappa = |k_1 - k_0| and x = kappa |s|, since |sigma(x + theta) - sigma(x)| is at most
sigma(x) (1 - sigma(x)) (e^|theta| - 1), and at most the larger of two weights that are on the wrong side,

    |s| |w^ - w| <= min(0.224 (e^theta - 1), 0.2785 + theta)/kappa,      |w^ - w| <= min((e^theta - 1)/4, 1),

as x sigma (1 - sigma) < 0.224 and x sigma(theta - x) <= 0.2785 + theta. Both times |x_1 - x_0|; a product, sums of 16
terms above and below, a division and the product with s are at most 2 16 + 5 roundings of the result.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from softwright.settings import looked_through
from softwright.transpiler.closed_softmax import derived
from softwright.transpiler.token_table import TokenTable

GROUP = 4
CHOICES = 2**GROUP
GROUPED_LAYOUTS = ("sdpa", "multihead")


def group_of(table: TokenTable, layout: str) -> int:
    """How many neurons with these tokens share a softmax."""
    fits = table.tokens == 2 and not table.biases.any() and table.keys[0] != table.keys[1]
    one = not table.slopes.any() or not table.offsets.any()
    return GROUP if fits and one and layout in GROUPED_LAYOUTS else 1


def choices(tokens: Tensor, sloped: bool) -> tuple[Tensor, Tensor]:
    """Keys and values (16, 4) of tokens (4, 2)."""
    which = _which(tokens.device)
    return tokens[0][which], tokens[2 if sloped else 3][which]


@lru_cache(maxsize=8)
def _which(device: torch.device) -> Tensor:
    """(16, 4): which of its tokens a choice takes for a neuron."""
    with torch.inference_mode(False):
        bits = torch.arange(CHOICES, device=device)[:, None] >> torch.arange(GROUP, device=device)
        return bits % 2


def groups(s: Tensor) -> Tensor:
    """(N, H) -> (N H/4, 4), with zeros where neurons are missing."""
    missing = -s.shape[1] % GROUP
    return (pad(s, (0, missing)) if missing else s).reshape(-1, GROUP)


def mixed(found: Tensor, s: Tensor, sloped: bool) -> Tensor:
    """The neurons of s (N, H), of what attention returned for groups."""
    rows, heads = s.shape
    found = found.reshape(rows, heads + -heads % GROUP)[:, :heads]
    return times(found, s) if sloped else found


def times(found: Tensor, s: Tensor) -> Tensor:
    """found s, in the memory of what attention returned where no derivative needs it and it is whole: new memory costs
    as much as some attention."""
    return found * s if derived(s) or looked_through() or not found.is_contiguous() else found.mul_(s)


def by_groups(s: Tensor, tokens: Tensor, sloped: bool) -> Tensor:
    """The heads of pairs at every entry of s (N, H), four in one softmax."""
    key, value = choices(tokens, sloped)
    found = scaled_dot_product_attention(groups(s)[None, None], key[None, None], value[None, None], scale=1.0)
    return mixed(found, s, sloped)
