"""The link layer of a generalised linear model: how far the number G that it writes is from sigmoid, tanh or exp.

An observation carries s, which is w.x + b rounded once, and y. The one head sees two constant tokens with scores S_1,
S_2 and values V_1, V_2: it gives G = V_2 + (V_1 - V_2) sigmoid(d), d = S_1 - S_2. With a = k_s s + k_y y

    sigmoid   scores a, 0     values 1, 0      G = sigmoid(a),              |dG/dd| <= 1/4
    tanh      scores a, -a    values 1, -1     G = tanh(a), d = 2a,         |dG/dd| <= 1/2
    exp       scores a, m     values V, 0      G = V e^{a-m}/(1 + e^{a-m}), |dG/dd| <= G

**Exact arithmetic.** The stored k_s, k_y move a by at most mu = |k_s - k_s*| |s| + |k_y - k_y*| |y| from what is
wanted, so that G moves by mu/4 or mu. For exp, G/e^s = V e^{-m} e^{a-s}/(1 + e^{a-m}), so that with s <= top

    |G - e^s| <= e^top ( |V e^{-m} - 1| e^mu + (e^mu - 1) + V e^{-m} e^mu e^{top + mu - m} ).

**Running.** a is computed up to gamma_2 (|k_s s| + |k_y y|) + 4 tau and moved by |k_s| (u |s| + tau) because s is
rounded; scores are then +-a, 0 or m exactly. Each of the two weights is off by a factor e^{+-lambda} (`bilinear`, two
keys), so d moves by D <= (1 or 2) times the former + 2 lambda. The two sums, their quotient and the output add at most
kappa = (1 + gamma_3)(1 + gamma_2)/(1 - gamma_2) - 1 times the largest |V|, for exp times G; weights that underflow lose
8 f (1 + |V|), f the floor of exp.
"""

from __future__ import annotations

from dataclasses import dataclass

from flint import arb, fmpq

from softwright.checker.in_context.bilinear import gamma, weight_error
from softwright.checker.precision import Precision
from softwright.checker.refusal import require

STEEPNESS = {"sigmoid": fmpq(1, 4), "tanh": fmpq(1, 2)}  # by the difference d of the scores


@dataclass(frozen=True)
class LinkError:
    exact: arb
    rounding: arb
    most: arb  # bound of the computed |G|
    ideal: arb  # bound of the |G| that is wanted


def moved(stored: dict[str, fmpq], ideal: dict[str, fmpq], sizes: dict[str, arb]) -> arb:
    """How far a combination of slots that large is from the one that is wanted."""
    total = arb(0)
    for slot, weight in stored.items():
        total += abs(arb(weight - ideal[slot])) * sizes[slot]
    return total


def link_error(
    link: str,
    argument: dict[str, fmpq],
    ideal: dict[str, fmpq],
    sizes: dict[str, arb],
    top: arb,
    tokens: tuple[fmpq, fmpq],
    precision: Precision,
) -> LinkError:
    """|G - link(argument)|; `top` bounds s from above and `tokens` are V and m, both for exp alone."""
    u, tau = arb(precision.unit), arb(precision.smallest)
    mu = moved(argument, ideal, sizes)
    size = arb(0)
    for slot, weight in argument.items():
        size += abs(arb(weight)) * sizes[slot]
    off = gamma(2, precision) * size + 4 * tau + abs(arb(argument["s"])) * (u * sizes["s"] + tau)
    V, m = map(arb, tokens) if link == "exp" else (arb(1), arb(0))
    lam = weight_error(arb(0), 2 * (size + off) + abs(m), 2, precision)
    shift = (2 if link == "tanh" else 1) * off + 2 * lam
    require(shift < 0.5, f"scores of the link are too large for {precision.name}")
    require(2 * (size + off) + abs(m) + abs(V) < arb(precision.largest) / 4, "a link may overflow")
    kappa = (1 + gamma(3, precision)) * (1 + gamma(2, precision)) / (1 - gamma(2, precision)) - 1
    lost = 8 * arb(precision.exp_floor) * (1 + abs(V))
    if link == "exp":
        ideal_most, grown = top.exp(), mu.exp()
        share = abs(V) * (-m).exp()
        exact = ideal_most * (abs(V * (-m).exp() - 1) * grown + (grown - 1) + share * grown * (top + mu - m).exp())
        rounding = ideal_most * grown * share * (shift.exp() * (1 + kappa) - 1) + lost
    else:
        ideal_most = arb(1)
        exact = (2 if link == "tanh" else 1) * arb(STEEPNESS[link]) * mu
        rounding = arb(STEEPNESS[link]) * shift + kappa + lost
    return LinkError(exact, rounding, ideal_most + exact + rounding, ideal_most)
