"""exp of numbers that are not positive, in C, for the vectors of `loops.py`.

With n the nearest whole number to x/ln 2 and r = x - n ln 2, |r| <= 0.3466,

    e^x = 2^n (1 + (r + r^2 q(r))),        q(r) ~ (e^r - 1 - r)/r^2,

q a polynomial of degree 9 (degree 4 in float), whose relative error in e^r is below 2^-55 (2^-26). ln 2 has two parts,
the first with so few digits that n times it is exact, so r is off by at most one rounding of its size. In units u of
rounding: 0.35 u from r, 1.3 u from the sum, u from its last step, and less from q: below 3 u, that is 1.5 ulp,
where 4 ulp are charged. What is not above `least`, whose n is -1023 and would have the exponent of 0, becomes 0.
Between it and ln of `exp_floor` lie subnormal results, any of which is charged. Adding 1.5 2^52 + 1023 leaves n + 1023,
the exponent field of 2^n, in the last bits of the sum, so that no conversion is needed; nan stays nan. q is summed in
pairs, which do not wait for each other.
The last step is 2^n + 2^n (r + r^2 q), one operation where it is fused: a product with 2^n is exact, but for what is
lost below the smallest number where n is near -1022, at most half of that number's last place: 1.5 u more there.

*e^{-c |s|}*, `softwright_falling`, is 2^n p, n the nearest whole number to t = -c log2(e) |s|, and p = 1 + f Q(f) with
f = t - n, of degree 11 (6 in float; below 3.2 u: `near/heads.py`). n is taken from |s| itself, nothing waits for c |s|.
c log2(e) has two parts, each a number of the type. The product with the first is rounded by u |t|, which is u c |s| of
the result and charged as the rounding of c |s|, or not at all where it is fused; the difference to n is then rounded,
or exact, and so is the sum with the second product: u/4 each as |f| <= 1/2, ln(2)/2 u of the result. In all below 3.6 u
besides u c |s|. n is added to the exponent of p. nan may become any number: it is for what is multiplied by s, or has s
added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

LANES = 8  # a row of free length has room for a multiple of so many numbers, whole vectors of either type


def lanes_of(real: str) -> int:
    """Numbers in a vector."""
    return 4 if real == "double" else 8


NEAR = "-0x1.6p-2"  # above -ln(2)/2
LOG2E = Fraction(14426950408889634073599246810018921374266, 10**40)  # log2(e) is less than 10^-40 more
FALLEN = {"float64": 707.5, "float32": 86.5}  # what c |s| is below where e^{-c |s|} is a normal number
SHIFTS = {"double": "0x1.8p52", "float": "0x1.8p23"}
DIRECT = {
    "double": (
        *("0x1.62e42fefa39f3p-1", "0x1.ebfbdff82c598p-3", "0x1.c6b08d7048f31p-5", "0x1.3b2ab6fba1e1cp-7"),
        *("0x1.5d87fe7bbbe07p-10", "0x1.4309130961163p-13", "0x1.ffcbee3b0af8cp-17", "0x1.62bfd49ed0adfp-20"),
        *("0x1.b54167a0b9061p-24", "0x1.e605f979c7a5dp-28", "0x1.c0638527edf34p-32"),
    ),
    "float": (
        *("0x1.62e432p-1", "0x1.ebfbe2p-3", "0x1.c6ae72p-5", "0x1.3b270ep-7", "0x1.5f7276p-10", "0x1.470b4ap-13"),
    ),
}  # Q of 2^f = 1 + f Q(f), |f| <= 1/2, from the lowest power


@dataclass(frozen=True)
class Type:
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
    digits: int


TYPES = {
    "double": Type(
        real="double",
        suffix="",
        word="uint64_t",
        shift="0x1.80000000003ffp52",
        least="-0x1.629d357fa6e4ap+9",
        per_log="0x1.71547652b82fep+0",
        log_high="0x1.62e42fefa2000p-1",
        log_low="0x1.9ef35793c7673p-41",
        powers=(
            *("0x1.af38a0d2d9620p-26", "0x1.28917e2c43a66p-22", "0x1.71de0db21e27fp-19", "0x1.a019b9133a48ap-16"),
            *("0x1.a01a01a7c327ap-13", "0x1.6c16c1788a49bp-10", "0x1.11111111109b4p-7", "0x1.5555555553d67p-5"),
            *("0x1.5555555555556p-3", "0x1.0000000000001p-1"),
        ),
        digits=52,
    ),
    "float": Type(
        real="float",
        suffix="f",
        word="uint32_t",
        shift="0x1.8000fep23",
        least="-0x1.60ac5cp+6",
        per_log="0x1.715476p+0",
        log_high="0x1.62e000p-1",
        log_low="0x1.0bfbe8p-15",
        powers=("0x1.6d10fep-10", "0x1.120b64p-7", "0x1.55551ap-5", "0x1.5554dep-3", "0x1.000000p-1"),
        digits=23,
    ),
}


def exp_source(real: str) -> str:
    """`softwright_exp` of a type, in place."""
    t = TYPES[real]
    f = t.suffix
    return "\n".join(
        [
            "SOFTWRIGHT_INLINE void softwright_exp(softwright_v *e)",
            "{",
            f"  const softwright_v y = *e, least = {t.least}{f} - (softwright_v){{0}};",
            f"  const softwright_v k = y * {t.per_log}{f} + {t.shift}{f}, n = k - {t.shift}{f};",
            f"  const softwright_v r = (y - n * {t.log_high}{f}) - n * {t.log_low}{f}, r2 = r * r, r4 = r2 * r2;",
            f"  const softwright_v q = {in_pairs([f'{power}{f}' for power in reversed(t.powers)])};",
            "  softwright_v scale;",
            "  softwright_m bits;",
            "  memcpy(&bits, &k, sizeof bits);",
            f"  bits <<= {t.digits};",
            "  memcpy(&scale, &bits, sizeof bits);",
            "  scale += scale * (r + r2 * q);",
            "  memcpy(&bits, &scale, sizeof bits);",
            "  bits &= ~SOFTWRIGHT_MASK(y, <=, least);",
            "  memcpy(e, &bits, sizeof bits);",
            "}",
        ]
    )


def exp_near_source(real: str) -> str:
    """The same where all numbers of a vector are mostly near 0: n is 0 there, and nothing is left but the sum.
    nan is near."""
    t = TYPES[real]
    f = t.suffix
    return "\n".join(
        [
            "SOFTWRIGHT_INLINE void softwright_exp_near(softwright_v *e)",
            "{",
            f"  const softwright_v r = *e, least = {NEAR}{f} - (softwright_v){{0}};",
            "  const softwright_m far = SOFTWRIGHT_MASK(r, <, least);",
            "#if defined(__SSE2__) && SOFTWRIGHT_LANES > 1",
            "  SOFTWRIGHT_BYTES half[sizeof far / sizeof(SOFTWRIGHT_BYTES)], any;",
            "  memcpy(half, &far, sizeof far);",
            "  any = half[0];",
            "  SOFTWRIGHT_UNROLL for (unsigned j = 1; j < sizeof far / sizeof any; j++) any |= half[j];",
            "  if (__builtin_ia32_pmovmskb128(any) == 0) {",
            "#else",
            "  uint64_t each[(sizeof far + 7) / 8] = {0}, any = 0;",
            "  memcpy(each, &far, sizeof far);",
            "  SOFTWRIGHT_UNROLL for (unsigned j = 0; j < sizeof each / sizeof each[0]; j++) any |= each[j];",
            "  if (any == 0) {",
            "#endif",
            "    const softwright_v r2 = r * r, r4 = r2 * r2;",
            f"    const softwright_v q = {in_pairs([f'{power}{f}' for power in reversed(t.powers)])};",
            f"    *e = 1.0{f} + (r + r2 * q);",
            "  } else softwright_exp(e);",
            "}",
        ]
    )


def falling_source(real: str) -> str:
    """`softwright_falling` of a type: e^{-c size} of sizes below `most`, 0 of others; -c log2(e) is high + low."""
    t = TYPES[real]
    f = t.suffix
    return "\n".join(
        [
            f"SOFTWRIGHT_INLINE void softwright_falling(softwright_v *e, {real} high, {real} low, {real} most)",
            "{",
            f"  const softwright_v size = *e, k = size * high + {SHIFTS[real]}{f}, n = k - {SHIFTS[real]}{f};",
            "  const softwright_v f = (size * high - n) + size * low, f2 = f * f, f4 = f2 * f2;",
            f"  const softwright_v p = 1.0{f} + f * ({in_pairs([f'{power}{f}' for power in DIRECT[real]], 'f')});",
            "  softwright_m a, b;",
            "  memcpy(&a, &p, sizeof a);",
            "  memcpy(&b, &k, sizeof b);",
            f"  a += b << {t.digits};",
            "  a &= ~SOFTWRIGHT_MASK(size, >=, most - (softwright_v){0});",
            "  memcpy(e, &a, sizeof a);",
            "}",
        ]
    )


def falling_numbers(rate: float, dtype: str) -> tuple[float, float, float] | None:
    """high, low and most, for rates that are far from where one of them would be lost."""
    if not 2.0**-20 <= rate <= 2.0**20:
        return None
    kind, wanted = np.dtype(dtype).type, -Fraction(rate) * LOG2E
    high = float(kind(float(wanted)))
    return high, float(kind(float(wanted - Fraction(high)))), float(kind(FALLEN[dtype] / rate))


def in_pairs(powers: Sequence[str], r: str = "r") -> str:
    """A polynomial in r from its lowest power: fours of pairs, by Horner's rule in r^4; r2 and r4 are its powers."""
    pairs = [f" + {r} * ".join(powers[i : i + 2]) for i in range(0, len(powers), 2)]
    fours = [
        f"(({pairs[i]}) + {r}2 * ({pairs[i + 1]}))" if i + 1 < len(pairs) else pairs[i] for i in range(0, len(pairs), 2)
    ]
    text = fours[-1]
    for four in reversed(fours[:-1]):
        text = f"{four} + {r}4 * ({text})"
    return text


def of_type(text: str, real: str) -> str:
    t = TYPES[real]
    last = 8 * (8 if real == "double" else 4) - 1
    for word, value in {
        "REAL": real,
        "WORD": t.word,
        "LANES": str(lanes_of(real)),
        "SIGN": str(last),
        "LEAST": f"{t.least}{t.suffix}",
    }.items():
        text = text.replace(f"@{word}@", value)
    return text
