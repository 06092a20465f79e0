"""Softmax over tokens whose scores are so simple that it has a closed form: the weights that torch.softmax makes, in
fewer operations. Everything else of a head, and what is proved of it, stays as it is.

*Pairs.* Two tokens with scores k_0 s and k_1 s, k_1 - k_0 a number of the type: w_1 = 1/(1 + e^{-(k_1 - k_0) s}), w_0 =
1 - w_1, so values are mixed as v_0 + (v_1 - v_0) w_1. Of silu, sigmoid and tanh this is one sigmoid;
of silu, s w_1 = s/(1 + e^{-s}) in one kernel: an exp, a sum and a quotient, two roundings behind the exp.

*Hard pairs*, k_1 - k_0 = beta = 2^60 (relu, leaky relu): w_1 as a number of the type is 1 for s >= 2^-53 and 0 for
s <= -2^-50, so that the head is v_1 s there, or v_0 s, and nothing is left to compute. It runs as this everywhere.
Nearer to 0 it is off from the softmax by |v_1 - v_0| |s| e^{-beta |s|}/(1 + e^{-beta |s|}) <= |v_1 - v_0| 0.2785/beta,
2.4e-19 |v_1 - v_0|, and from relu or leaky relu, of which that is charged, by one rounding of v_0 s or none.

*Even tokens* (GELU, softplus): a quotient of polynomials of half the degree.

p keys, p even, spaced by D and symmetric, with symmetric biases and offsets u and slopes v and 1 - v. Relative to the
edge token on the side of s a token m steps away has the weight c_m y^m, c_m = e^{b_m - b_0}, y = e^{-D |s|} <= 1. With
Z, U, V the sums of these weights times 1, u_m and v_m over the tokens counted from the left, g(s) = (U + V s)/Z for
s < 0, and for s >= 0, where slopes are 1 - v_m, g(s) = (U + (Z - V) s)/Z; both are

    g(s) = max(s, 0) + (U - V |s|)/Z.

Z and U read the same from both ends, V - Z/2 with the other sign. Such polynomials of odd degree are 1 + y, or 1 - y,
times one of degree p - 2 that reads the same from both ends, and this is (1 + y)^{p-2} times a polynomial R of degree
n = p/2 - 1 in x = y/(1 + y)^2 = w (1 - w), where w = y/(1 + y) is the softmax weight of two tokens, D |s| apart. So

    Z = (1 + y)^{p-1} Z'(x),    U = (1 + y)^{p-1} U'(x),    V - Z/2 = (1 - y) (1 + y)^{p-2} A(x),

(1 - y)/(1 + y) = 1 - 2 w, and with B = Z'/2 + A the common factor leaves

    g(s) = max(s, 0) + (U' - |s| (B - 2 w A))/Z'.

Coefficients are made in 120 digits and rounded once. It runs where Z' has no negative one: nothing cancels in it then,
and Z' >= Z'(0) = 1. B and U' have none of x^0, so that far to the left g(s) is 0 as it should be.

*Rounding* (`unit_bounds.py`), u the unit, E the error of exp, a = |s|:

    y   a factor e^t, |t| <= E/(1 - E) + u D a. It is as if tokens had the weights of that y: `unit_bounds.py`. For all
        that follows y is this number, so that x is widened by e^t both ways
    w   a sum and a reciprocal: 2 roundings, of x = w - w w (1 - 2w)/(1 - w) as many; and w/(1 - w) of w w, and one: in
        all (2 - 3w)/(1 - w) + 1 <= 3, charged 3.2
    x^k by doubling: 3.2 k, and the roundings of products, of which two powers share many. Powers are shared by all four
        sums: with f = N/Z' and N_k, Z_k the terms of numerator and denominator, sum_k (N_k - f Z_k) = 0, so that errors
        eta_k of powers give sum_k |N_k - f Z_k| |eta_k - eta_r|/Z', for any r
    N   coefficients, products, n additions, product with w (2), with a, sums: n + 8; Z': n + 2; a quotient: charged
        n + 12 of the sum of |terms| of N, and n + 4 of |f| Z'
        Torch makes powers up to x^8 and goes on by Horner's rule, sums of 8 terms times x^8: of x^{8b + j} the b
        products with x^8 are then rounded in each sum for itself, and a term meets 1 + 7 + 2b <= n + 2 roundings
    g   the last sum is one rounding of the result

What underflows is below the smallest number each time, beside coefficients and Z' >= 1.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu, silu

from softwright.precision import PRECISIONS, name_of
from softwright.settings import derivatives_taken, looked_through

HARD = 2.0**60
_FEWEST = 6  # tokens for which powers are worth their operations
_HIGHEST = 60.0  # of the biases' range: e^60 is a number of every type
_TOGETHER = 1 << 16  # numbers at a time: they and their powers stay in the cache
_ROOMS = 4  # of some MB, for each thread
_LARGEST = 2.0**90  # of coefficients
_BLOCK = 8  # coefficients that are multiplied with powers of x; x^8 then leads from one block to the next
_DIGITS = 120


def derived(s: Tensor) -> bool:
    """Whether derivatives are being taken: max(s, 0) and |s| have none at 0, where g has one."""
    return (torch.is_grad_enabled() and s.requires_grad) or derivatives_taken()


@dataclass(frozen=True)
class Pair:
    """Two tokens with scores 0 and rate s, up to what they share, and their slopes and offsets."""

    rate: float
    slopes: tuple[float, float]
    offsets: tuple[float, float]

    @classmethod
    def of(cls, table: list[list[float]]) -> Pair | None:
        """That of tokens as stored, where scores have no biases and keys differ by a number of the type."""
        (k, b, v, u) = table
        if len(k) != 2 or any(b) or not (k[0] == 0.0 or k[1] == 0.0 or k[0] == -k[1]):
            return None
        if not all(first == 0.0 or max(abs(first), abs(second)) <= 1.0 for first, second in (v, u)):
            return None  # second - first would be rounded by more than what it is mixed to
        return cls(k[1] - k[0], (v[0], v[1]), (u[0], u[1]))


def by_sigmoid(s: Tensor, pair: Pair) -> Tensor:
    """The head of two tokens at every entry of s."""
    if pair.slopes[1] == 1.0 and pair.offsets == (0.0, 0.0) and not derived(s):
        first = pair.slopes[0]
        if pair.rate == HARD:
            return torch.clamp_min(s, 0.0) if first == 0.0 else leaky_relu(s, first)
        if first == 0.0 and pair.rate == 1.0:
            return silu(s)
    weight = torch.sigmoid(s if pair.rate == 1.0 else s * pair.rate)
    slope, offset = _mixed(weight, *pair.slopes), _mixed(weight, *pair.offsets)
    if slope is None:
        return torch.zeros_like(s) if offset is None else offset
    return slope * s if offset is None else torch.addcmul(offset, slope, s)


def _mixed(weight: Tensor, first: float, second: float) -> Tensor | None:
    """(1 - w) first + w second"""
    if first == 0.0:
        return None if second == 0.0 else weight if second == 1.0 else weight * second
    return weight * (second - first) + first


def closed_form(s: Tensor, tokens: Tensor) -> Pair | EvenTokens | None:
    """What the tokens (4, p) are, if numbers can be looked at."""
    if looked_through():
        return None
    if tokens.shape[1] == 2:
        return Pair.of(tokens.tolist())
    if tokens.shape[1] < _FEWEST or derived(s) or name_of(s.dtype) not in PRECISIONS:
        return None
    numbers = tokens.numpy(force=True)
    return even_tokens(numbers.tobytes(), numbers.dtype.str)


def power_steps(count: int) -> list[tuple[int, int]]:
    """(m, end): the powers m + 1 .. end, of 0 .. count - 1, are those from 1 on times power m."""
    steps, m = [], 1
    while m < count - 1:
        steps.append((m, min(2 * m, count - 1)))
        m = steps[-1][1]
    return steps


@dataclass(frozen=True, eq=False)
class EvenTokens:
    """D, and the coefficients (4, p/2) of x^k in Z', U', B and A."""

    spacing: float
    coefficients: np.ndarray

    @classmethod
    def of(cls, table: np.ndarray) -> EvenTokens | None:
        """That of tokens (4, p) as stored; None if they are not even, to the last digit."""
        k, b, v, u = table
        if len(k) < _FEWEST or len(k) % 2 or not np.isfinite(table).all() or not k[-1] > 0:
            return None
        spacing = float(k[-1] - k[-2])
        mirrored = all(np.array_equal(x, y[::-1]) for x, y in ((k, -k), (b, b), (u, u), (v, 1.0 - v)))
        asymptotes = v[0] == 0.0 and u[0] == 0.0
        if not (mirrored and asymptotes and np.all(np.diff(k) == spacing) and np.all(np.abs(b - b[0]) <= _HIGHEST)):
            return None
        coefficients = _coefficients(b, v, u)
        good = bool((coefficients[0] >= 0.0).all() and (np.abs(coefficients) <= _LARGEST).all())
        return cls(spacing, coefficients) if good else None


@lru_cache(maxsize=64)
def even_tokens(content: bytes, kind: str) -> EvenTokens | None:
    """That of the bytes of a table whose numbers are of this kind."""
    return EvenTokens.of(np.frombuffer(content, dtype=kind).reshape(4, -1).astype(np.float64))


def _coefficients(b: np.ndarray, v: np.ndarray, u: np.ndarray) -> np.ndarray:
    with localcontext(Context(prec=_DIGITS)):
        biases, slopes, offsets = ([Decimal(float(x)) for x in row] for row in (b, v, u))
        weights = [(bias - biases[0]).exp() for bias in biases]
        half = Decimal("0.5")
        Z = _halved(weights, 1)
        U = _halved([c * x for c, x in zip(weights, offsets, strict=True)], 1)
        A = _halved([c * (x - half) for c, x in zip(weights, slopes, strict=True)], -1)
        B = [half * z + a for z, a in zip(Z, A, strict=True)]
        return np.array([[float(x) for x in row] for row in (Z, U, B, A)])


def _halved(polynomial: list[Decimal], sign: int) -> list[Decimal]:
    """R with polynomial = (1 + sign y) (1 + y)^{2n} R(y/(1 + y)^2).

    With z = 1/x = y + 1/y + 2 and q the quotient by 1 + sign y: y^{-n} q = q_n + sum_j q_{n-j} L_j(z), L_j = y^j +
    y^{-j}, L_{j+1} = (z - 2) L_j - L_{j-1}, and R(x) = x^n times that: L_j's coefficient of z^i is one of x^{n-i}.
    """
    quotient, carry = [], Decimal(0)
    for coefficient in polynomial[:-1]:
        carry = coefficient - sign * carry
        quotient.append(carry)
    n = (len(quotient) - 1) // 2
    found = [Decimal(0)] * n + [quotient[n]]
    before, now = [2], [-2, 1]
    for j in range(1, n + 1):
        for i, whole in enumerate(now):
            found[n - i] += quotient[n - j] * whole
        following = [0, *now]
        for i, whole in enumerate(now):
            following[i] -= 2 * whole
        for i, whole in enumerate(before):
            following[i] -= whole
        before, now = now, following
    return found


class _Room:
    """Memory for so many numbers at a time, and views of it: allocating both costs as much as the arithmetic."""

    def __init__(self, even: EvenTokens, s: Tensor, count: int) -> None:
        self.even = even
        self.offsets = bool(even.coefficients[1].any())
        rows = even.coefficients if self.offsets else even.coefficients[[0, 2, 3]]
        sums, terms = rows.shape
        blocks = -(-terms // _BLOCK)
        width = terms if blocks == 1 else _BLOCK
        powers = width + (blocks > 1)
        rows = np.pad(rows, ((0, 0), (0, blocks * width - terms))).reshape(sums, blocks, width).swapaxes(0, 1)
        with torch.inference_mode(False):
            self.coefficients = torch.tensor(rows.reshape(-1, width), dtype=s.dtype, device=s.device)
            memory = torch.ones(2 + blocks * sums + powers, count, dtype=s.dtype, device=s.device)
            self.size, self.weight, self.sums, self.powers = memory[0], memory[1], memory[2:-powers], memory[-powers:]
            self.blocks = self.sums.view(blocks, sums, count)
            self.x, self.last, self.given = self.powers[1], self.powers[-1], self.powers[:width]
            self.products = [
                (self.powers[1 : end - m + 1], self.powers[m], self.powers[m + 1 : end + 1])
                for m, end in power_steps(powers)
            ]

    def run(self, s: Tensor, out: Tensor) -> None:
        weight = torch.mul(torch.abs(s, out=self.size), -self.even.spacing, out=self.weight).sigmoid_()
        torch.addcmul(weight, weight, weight, value=-1, out=self.x)
        for one, other, product in self.products:
            torch.mul(one, other, out=product)
        torch.mm(self.coefficients, self.given, out=self.sums)
        for block in range(len(self.blocks) - 2, -1, -1):
            self.blocks[block].addcmul_(self.blocks[block + 1], self.last)
        total, *offset, slope, fall = self.blocks[0]
        slope.addcmul_(fall, weight, value=-2)
        torch.clamp_min(s, 0.0, out=out)
        if offset:
            out.add_(offset[0].addcmul_(slope, self.size, value=-1).div_(total))
        else:
            out.sub_(slope.mul_(self.size).div_(total))


class _Rooms(threading.local):
    """Rooms of this thread that were used last."""

    def __init__(self) -> None:
        self.kept: OrderedDict[tuple[int, torch.dtype, torch.device, int], _Room] = OrderedDict()

    def take(self, even: EvenTokens, s: Tensor, count: int) -> _Room:
        key = (id(even), s.dtype, s.device, count)  # of an object that the room keeps
        room = self.kept.pop(key, None) or _Room(even, s, count)
        self.kept[key] = room
        if len(self.kept) > _ROOMS:
            self.kept.popitem(last=False)
        return room


_OWN = _Rooms()


def by_powers(s: Tensor, even: EvenTokens) -> Tensor:
    """The head of even tokens at every entry of s."""
    flat = s.reshape(-1)  # (N,)
    out, count = torch.empty_like(flat), min(len(flat), _TOGETHER)
    if count == 0:
        return out.reshape(s.shape)
    room = _OWN.take(even, s, count)
    for start in range(0, len(flat), count):
        first = min(start, len(flat) - count)  # the last part may begin in the one before it
        room.run(flat[first : first + count], out[first : first + count])
    return out.reshape(s.shape)


def power_slips(count: int) -> np.ndarray:
    """(count, count): how many roundings of products one of two powers holds and the other does not."""
    powers = [np.zeros(count), np.zeros(count)]  # which roundings of products a power holds, and how often
    for m, end in power_steps(count):
        for i in range(1, end - m + 1):
            own = np.zeros(count)
            own[m + i] = 1.0
            powers.append(powers[i] + powers[m] + own)
    held = np.array(powers[:count])
    return np.abs(held[:, None] - held[None]).sum(axis=2)
