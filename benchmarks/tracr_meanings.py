"""What the programs of TracrBench compute, as plain Python functions of a list of tokens; by number.

Their texts in softwright's language are the rows of data/tracrbench.csv. Numbers are those under which the programs
are stored with InterpBench, which took them over. Where a program there has no value (None), a symbol '-', a number or
false is said here; vocabularies of floats are whole numbers of their steps (66: quarters, 121, 123: tenths); words are
ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

Row = Callable[[list[Any]], list[Any]]
PRIMES = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31]
FIBONACCI = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597, 2584, 4181]
SPAM = ("free", "offer", "click", "now")


def each(function: Callable[[Any], Any]) -> Row:
    return lambda t: [function(x) for x in t]


def next_of(t: list[Any]) -> list[Any]:
    return [t[min(i + 1, len(t) - 1)] for i in range(len(t))]


def reflect(x: int) -> int:
    if 2 < x < 7:
        return x
    below = x < 2
    turns, rest = divmod(2 - x if below else x - 7, 5)
    return 2 + rest if (turns % 2 == 0) == below else 7 - rest


def divided(t: list[int]) -> list[float]:
    first, second = t[0], t[min(1, len(t) - 1)]
    return [x * first / second if first and second else x for x in t]


def polynomial(t: list[int]) -> list[int]:
    a = [t[k] if k < len(t) else 0 for k in range(4)]
    return [a[1] * a[0] ** 2 + a[2] * a[0] + a[3]] * len(t)


def balanced(t: list[str]) -> bool:
    depths = {"(": 0, "{": 0}
    for x in t:
        if x in depths:
            depths[x] += 1
        elif x in ")}":
            depths["(" if x == ")" else "{"] -= 1
            if min(depths.values()) < 0:
                return False
    return not any(depths.values())


def share_x(t: list[str]) -> list[float]:
    return [t[: i + 1].count("x") / (i + 1) for i in range(len(t))]


def repeated(function: Callable[[list[Any]], Any]) -> Row:
    return lambda t: [function(t)] * len(t)


def rises(t: list[int]) -> bool:
    return all(a <= b for a, b in pairwise(t))


def trend(t: list[str]) -> list[str]:
    ways = ["decreasing", "constant", "increasing"]
    return [ways[(b > a) - (b < a) + 1] for a, b in pairwise(t)] + ["-"]


def grade(t: list[str]) -> list[str]:
    shares = [t.count(x) / len(t) for x in t]
    return ["frequent" if x > 1 / 2 else "common" if x > 1 / 4 else "rare" for x in shares]


def flipped(t: list[int]) -> list[int]:
    half, odd = len(t) // 2, len(t) % 2
    return t[half + odd :] + t[half : half + odd] + t[:half]


def paired(t: list[int], first: int) -> list[int]:
    out = list(t)
    for k in range(first, len(t) - 1, 2):
        out[k], out[k + 1] = out[k + 1], out[k]
    return out


def vowels(word: str) -> float:
    count = sum(c in "aeiou" for c in word.lower())
    return count / (len(word) - count) if len(word) > count else -1.0


def counted(t: list[Any]) -> list[int]:
    return [t.count(x) for x in t]


MEANINGS: dict[int, Row] = {
    1: lambda t: [i >= 2 and t[i] == t[i - 2] for i in range(len(t))],
    2: lambda t: t[::-1],
    3: share_x,
    4: lambda t: [(t[: i + 1].count("(") - t[: i + 1].count(")")) / (i + 1) for i in range(len(t))],
    5: repeated(balanced),
    6: lambda t: [0 < i < len(t) - 1 and (t[i] > t[i - 1]) != (t[i + 1] > t[i]) for i in range(len(t))],
    7: counted,
    8: each(lambda x: x),
    9: sorted,
    10: each(lambda w: w if w == w[::-1] else "-"),
    11: each(len),
    12: lambda t: [t[max(i - 2, 0) : i + 1] == ["a", "b", "c"] for i in range(len(t))],
    13: trend,
    14: lambda t: [t.count("a")] * len(t),
    15: lambda t: [2 * x - i for i, x in enumerate(t)],
    17: lambda t: [a == b for a, b in zip(t, t[::-1], strict=True)],
    18: grade,
    19: lambda t: [x if i == 0 or x != t[i - 1] else "-" for i, x in enumerate(t)],
    20: each(lambda w: "spam" if w in SPAM else "not spam"),
    21: lambda t: [x if x not in t[:i] else "-" for i, x in enumerate(t)],
    22: lambda t: sorted(t, key=len),
    23: each(lambda w: w if w == w[::-1] else "-"),
    24: list,
    25: lambda t: [t.count(x) / len(t) for x in t],
    26: lambda t: [(x, i + 1) for i, x in enumerate(t)],
    28: each(lambda w: w[::-1]),
    29: each(lambda w: w[:3]),
    30: each(lambda w: 10 <= int(w) <= 20),
    31: each(lambda w: sorted(w) == sorted("listen")),
    32: lambda t: [i > 0 and x != t[i - 1] for i, x in enumerate(t)],
    33: each(lambda w: len(w) % 2 == 0),
    34: each(vowels),
    35: each(lambda w: "".join(c.upper() if k % 2 == 0 else c.lower() for k, c in enumerate(w))),
    36: each(lambda w: {"+)": "positive", "+(": "negative"}.get(w, "neutral")),
    37: each(lambda w: w if w == "nochange" else w[::-1]),
    38: lambda t: [0 < i < len(t) - 1 and t[i - 1] != x != t[i + 1] for i, x in enumerate(t)],
    39: share_x,
    40: each(lambda x: x // 10 + x % 10),
    41: each(abs),
    42: lambda t: [t[0]] * len(t),
    43: each(lambda x: FIBONACCI[x]),
    44: lambda t: [sum(y > x for y in t) for x in t],
    45: lambda t: [x * (1 + (2 * i < len(t))) for i, x in enumerate(t)],
    46: each(lambda x: x - 1),
    47: counted,
    48: lambda t: [x + i for i, x in enumerate(t)],
    49: each(lambda x: x - x % 3),
    50: each(math.cosh),
    51: each(lambda x: x in FIBONACCI),
    52: each(math.sqrt),
    53: lambda t: [x + i % 2 for i, x in enumerate(t)],
    54: each(math.tanh),
    55: each(math.sinh),
    56: lambda t: [0 if (i + 1) % 3 == 0 else x for i, x in enumerate(t)],
    57: lambda t: [t[1] if len(t) > 1 else "-"] * len(t),
    58: lambda t: [t[len(t) - 1 - i] if i >= len(t) // 2 else x for i, x in enumerate(t)],
    59: sorted,
    60: each(lambda x: x + 1),
    61: lambda t: [sum(y < x for y in t) + 1 for x in t],
    62: each(math.factorial),
    63: lambda t: [sum(y < x for y in t) for x in t],
    64: each(lambda x: x**3),
    65: each(lambda x: x ** (1 / 3)),
    66: each(lambda x: int(x / 4 + 0.5)),
    67: lambda t: [x * len(t) for x in t],
    68: each(lambda x: x + (3 - x % 3) % 3),
    69: each(lambda x: (x > 0) - (x < 0)),
    70: each(math.cos),
    71: lambda t: [x / len(t) for x in t],
    72: each(lambda x: -x),
    73: each(math.sin),
    74: lambda t: [x if i % 2 == 0 else t[len(t) - i - len(t) % 2] for i, x in enumerate(t)],
    75: each(lambda x: 2 * x),
    76: lambda t: [0 if i % 2 == 0 else x for i, x in enumerate(t)],
    77: each(math.tan),
    78: counted,
    79: each(lambda x: x in PRIMES),
    80: each(lambda x: x - 2),
    81: repeated(median),
    82: lambda t: [x / 2 if i >= len(t) // 2 else x for i, x in enumerate(t)],
    83: each(lambda x: 3 * x),
    84: each(math.atan),
    85: each(lambda x: x * x),
    86: each(lambda x: x in (2, 4, 8)),
    87: each(lambda x: x >= 3),
    88: lambda t: [(t[0] + t[-1]) / 2] * len(t),
    89: repeated(rises),
    90: each(lambda w: "-" if w == "findme" else w),
    91: each(lambda x: 0 if x < 3 else x),
    92: lambda t: [0 if i and x < t[i - 1] else x for i, x in enumerate(t)],
    93: lambda t: paired(t, 1),
    94: lambda t: [rises(t[::-1])] * len(t),
    95: each(lambda x: sum(x > 0 and x % p == 0 for p in PRIMES)),
    96: lambda t: [x if t.count(x) == 1 else 0 for x in t],
    97: lambda t: [x / max(*t, 1) for x in t],
    98: lambda t: [max(t)] * len(t),
    99: lambda t: [a + b for a, b in zip(t, next_of(t), strict=True)],
    100: lambda t: [t[1] if len(t) > 1 else 0, *t[:1], *t[2:]][: len(t)],
    101: each(lambda x: math.isqrt(x) ** 2 == x),
    102: each(reflect),
    103: lambda t: paired(t, 0),
    104: each(math.exp),
    105: each(lambda x: min(p for p in PRIMES if p >= x)),
    106: lambda t: [x if i == 1 else 0 for i, x in enumerate(t)],
    107: each(lambda x: (x - 2) % 5 + 2),
    108: lambda t: [len(set(t)) < len(t)] * len(t),
    109: lambda t: [len(t) > 1 and t[-1] == t[-2]] * len(t),
    110: lambda t: [t[i // 2] if i % 2 == 0 else 0 for i in range(len(t))],
    111: lambda t: [t[-1], *[0] * (len(t) - 1)],
    112: lambda t: [b - a for a, b in zip(t, next_of(t), strict=True)],
    113: lambda t: t[::-1] if rises(t) else t,
    114: each(math.log10),
    115: lambda t: [a * b for a, b in zip(t, next_of(t), strict=True)],
    116: lambda t: [t[0] != 0 and x % t[0] == 0 for x in t],
    117: lambda t: [sum(t[-2:])] * len(t),
    118: lambda t: [x + (t[i - 1] if i else 0) for i, x in enumerate(t)],
    119: polynomial,
    120: flipped,
    121: each(lambda x: math.asin(x / 10)),
    122: each(lambda x: x % 3 == 0),
    123: each(lambda x: math.acos(x / 10)),
    124: lambda t: [len(set(t)) == 1] * len(t),
    125: lambda t: [all(a % 2 != b % 2 for a, b in pairwise(t))] * len(t),
    126: repeated(median),
    127: divided,
    128: lambda t: [t[-1], *t[1:-1], t[0]] if len(t) > 1 else t,
    129: lambda t: [all(x % 2 == 0 for x in t)] * len(t),
    130: each(lambda x: min(max(x, 2), 7)),
    131: lambda t: [max(x, t[i - 1] if i else 0) for i, x in enumerate(t)],
}
