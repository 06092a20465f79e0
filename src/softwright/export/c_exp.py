"""exp of numbers that are not positive, as C that compilers turn into vector instructions; softmax and sums with it.

With n the nearest whole number to x/ln 2 and r = x - n ln 2, |r| <= 0.3466,

    e^x = 2^n (1 + (r + r^2 q(r))),        q(r) ~ (e^r - 1 - r)/r^2,

q a polynomial of degree 9 (degree 4 in float), whose relative error in e^r is below 2^-55 (2^-26). ln 2 has two parts,
the first with so few digits that n times it is exact, so r is off by at most one rounding of its size. In units u of
rounding: 0.35 u from r, 1.3 u from the sum, u from its last step, and less from q: below 3 u, that is 1.5 ulp,
where 4 ulp are charged. What is below `least` becomes `least`, whose n is -1023: that is the exponent of
0, and so is the result. Between it and ln of `exp_floor` lie subnormal results, any of which is charged. That choice is
a loop of its own, before the one that takes exps: in one loop compilers make it a branch, and no vectors. Adding 1.5
2^52 leaves n in the last bits of the sum, so that no conversion is needed; nan stays nan. q is summed in pairs, which
do not wait for each other.

Sums and maxima run over eight neighbours at once, each with its own: an order like any other, and the largest of
numbers is the same in every order. A row of scores that is not a multiple of eight long is filled up with -inf, whose
exp is exactly 0: that changes neither the maximum nor the sum.

All is written inside the function that uses it: only there are sizes known, and processors.
Functions that hold such loops are compiled for several processors at once where the compiler can (`SOFTWRIGHT_CLONES`):
which of them runs changes nothing but fused products, which are charged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LANES = 8  # numbers that are worked on at once


@dataclass(frozen=True)
class _Type:
    """The numbers that the exp of a type is made of, as texts of C without their suffix."""

    real: str
    suffix: str
    word: str  # a whole number of its size
    shift: str
    least: str
    per_log: str
    log_high: str
    log_low: str
    powers: tuple[str, ...]  # the coefficients of q, the highest first
    bias: int
    digits: int


_TYPES = {
    "double": _Type(
        real="double",
        suffix="",
        word="uint64_t",
        shift="0x1.8p52",
        least="-0x1.629d357fa6e4ap+9",
        per_log="0x1.71547652b82fep+0",
        log_high="0x1.62e42fefa2000p-1",
        log_low="0x1.9ef35793c7673p-41",
        powers=(
            *("0x1.af38a0d2d9620p-26", "0x1.28917e2c43a66p-22", "0x1.71de0db21e27fp-19", "0x1.a019b9133a48ap-16"),
            *("0x1.a01a01a7c327ap-13", "0x1.6c16c1788a49bp-10", "0x1.11111111109b4p-7", "0x1.5555555553d67p-5"),
            *("0x1.5555555555556p-3", "0x1.0000000000001p-1"),
        ),
        bias=1023,
        digits=52,
    ),
    "float": _Type(
        real="float",
        suffix="f",
        word="uint32_t",
        shift="0x1.8p23",
        least="-0x1.60ac5cp+6",
        per_log="0x1.715476p+0",
        log_high="0x1.62e000p-1",
        log_low="0x1.0bfbe8p-15",
        powers=("0x1.6d10fep-10", "0x1.120b64p-7", "0x1.55551ap-5", "0x1.5554dep-3", "0x1.000000p-1"),
        bias=127,
        digits=23,
    ),
}


def exp_source(real: str) -> str:
    """`softwright_exp` of a type, of what `softwright_least` gives."""
    t = _TYPES[real]
    f = t.suffix
    return "\n".join(
        [
            f"SOFTWRIGHT_INLINE {real} softwright_least({real} x)",
            "{",
            f"  return x < {t.least}{f} ? {t.least}{f} : x;",
            "}",
            f"SOFTWRIGHT_INLINE {real} softwright_exp({real} y)",
            "{",
            f"  const {real} shift = {t.shift}{f};",
            f"  const {real} k = y * {t.per_log}{f} + shift, n = k - shift;",
            f"  const {real} r = (y - n * {t.log_high}{f}) - n * {t.log_low}{f}, r2 = r * r, r4 = r2 * r2;",
            f"  const {real} q = {_in_pairs([f'{power}{f}' for power in reversed(t.powers)])};",
            f"  {real} scale;",
            f"  {t.word} bits;",
            "  memcpy(&bits, &k, sizeof bits);",
            f"  bits = (bits + {t.bias}) << {t.digits};",
            "  memcpy(&scale, &bits, sizeof bits);",
            "  return (1 + (r + r2 * q)) * scale;",
            "}",
        ]
    )


def _in_pairs(powers: Sequence[str]) -> str:
    """A polynomial in r from its lowest power: fours of pairs, by Horner's rule in r^4."""
    pairs = [" + r * ".join(powers[i : i + 2]) for i in range(0, len(powers), 2)]
    fours = [
        f"(({pairs[i]}) + r2 * ({pairs[i + 1]}))" if i + 1 < len(pairs) else pairs[i] for i in range(0, len(pairs), 2)
    ]
    text = fours[-1]
    for four in reversed(fours[:-1]):
        text = f"{four} + r4 * ({text})"
    return text


def lanes_of(real: str, size: int) -> int:
    """How many numbers of a row of known length are worked on at once: half as many where that fills up less of it."""
    return LANES // 2 if real == "double" and size <= 4 * LANES and 0 < size % LANES <= LANES // 2 else LANES


def _softmax(name: str, lanes: int, known: bool) -> str:
    """Of a row that is whole vectors long. One of known length is one loop, another a loop of vectors: so compilers
    know how to vectorise either."""
    block = f"for (int i = 0; i < room; i += {lanes}) for (int j = 0; j < {lanes}; j++)"
    each, at = ("for (int i = 0; i < room; i++)", "i") if known else (block, "i + j")
    halves = [lanes // 2**k for k in range(1, 4) if lanes // 2**k >= 2]
    ends = "(t[0] + t[2]) + (t[1] + t[3])"
    return "\n".join(
        [
            f"SOFTWRIGHT_INLINE void {name}(REAL *w, const REAL *s, int room)",
            "{",
            f"  REAL t[{lanes}], top, part;",
            f"  for (int j = 0; j < {lanes}; j++) t[j] = -HUGE_VAL;",
            f"  {block} t[j] = s[i + j] > t[j] ? s[i + j] : t[j];",
            *(f"  for (int j = 0; j < {n}; j++) t[j] = t[j + {n}] > t[j] ? t[j + {n}] : t[j];" for n in halves),
            "  top = t[1] > t[0] ? t[1] : t[0];",
            f"  {each} w[{at}] = softwright_least(s[{at}] - top);",
            f"  {each} w[{at}] = softwright_exp(w[{at}]);",
            f"  for (int j = 0; j < {lanes}; j++) t[j] = 0;",
            f"  {block} t[j] += w[i + j];",
            *(f"  for (int j = 0; j < {n}; j++) t[j] += t[j + {n}];" for n in halves if n >= 4),
            f"  part = 1 / ({ends});",
            f"  {each} w[{at}] *= part;",
            "}",
        ]
    )


def _dot(name: str, lanes: int) -> str:
    return "\n".join(
        [
            f"SOFTWRIGHT_INLINE REAL {name}(const REAL *a, const REAL *b, int n)",
            "{",
            f"  REAL t[{lanes}], rest = 0;",
            "  int i = 0;",
            f"  for (int j = 0; j < {lanes}; j++) t[j] = 0;",
            f"  for (; i + {lanes} <= n; i += {lanes}) for (int j = 0; j < {lanes}; j++) t[j] += a[i + j] * b[i + j];",
            "  for (; i < n; i++) rest += a[i] * b[i];",
            *(["  for (int j = 0; j < 4; j++) t[j] += t[j + 4];"] if lanes == 8 else []),
            "  return ((t[0] + t[2]) + (t[1] + t[3])) + rest;",
            "}",
        ]
    )


HELPERS = {
    "softwright_max": "SOFTWRIGHT_INLINE REAL softwright_max(REAL a, REAL b)\n{\n  return b > a ? b : a;\n}",
    "softwright_positive": "SOFTWRIGHT_INLINE REAL softwright_positive(REAL a)\n{\n  return a > 0 ? a : 0;\n}",
    "softwright_softmax_4": _softmax("softwright_softmax_4", 4, known=True),
    "softwright_softmax_8": _softmax("softwright_softmax_8", 8, known=True),
    "softwright_softmax_of": _softmax("softwright_softmax_of", 8, known=False),
    "softwright_dot_4": _dot("softwright_dot_4", 4),
    "softwright_dot_8": _dot("softwright_dot_8", 8),
}
INLINE = """\
#if defined(__GNUC__)
#define SOFTWRIGHT_INLINE static inline __attribute__((always_inline))
#else
#define SOFTWRIGHT_INLINE static inline
#endif"""
CLONES = """\
#if !defined(SOFTWRIGHT_CLONES)
#if defined(__x86_64__) && defined(__linux__) && defined(__OPTIMIZE__) && \\
  ((defined(__clang__) && __clang_major__ >= 14) || (!defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 6))
#define SOFTWRIGHT_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SOFTWRIGHT_CLONES
#endif
#endif"""
