"""Vectors in C, exp of numbers that are not positive in them, softmax and sums with it.

gcc and clang have types of several neighbouring numbers with the operations of one: `softwright_v` is four doubles or
eight floats. Elsewhere, and with -DSOFTWRIGHT_PLAIN, it is one number, and the same text is plain C99. What differs is
the type, comparisons, and what goes across a vector.

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

Sums and maxima run over the numbers of a vector at once, each with its own: an order like any other, and the largest of
numbers is the same in every order. A row of scores that is no multiple of a vector long is filled up with -inf, whose
exp is exactly 0: that changes neither the maximum nor the sum.

All is written inside the function that uses it: only there are sizes known, and processors.
A function that holds such loops is compiled for several processors where the compiler can (`near/versions.py`): that
changes nothing but fused products and the order of sums, which are charged. gcc fuses none under -std=c99 unless it is
told that it may.
"""

from __future__ import annotations

import re
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
    digits: int


_TYPES = {
    "double": _Type(
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
    "float": _Type(
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
    t = _TYPES[real]
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
    t = _TYPES[real]
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
    t = _TYPES[real]
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


def vectors_source(real: str) -> str:
    """The type of vectors, and what is different where there are none."""
    return of_type(_VECTORS, real)


def widened(text: str) -> str:
    """The same for vectors of twice as many numbers."""
    return re.sub(
        r"\bSOFTWRIGHT_(LANES|MASK)\b", r"SOFTWRIGHT_WIDE_\1", re.sub(r"\bsoftwright_", "softwright_wide_", text)
    )


def wide_source(real: str) -> str:
    """The type of such vectors, where `SOFTWRIGHT_WIDE` is defined."""
    return of_type(_WIDE, real)


def helpers_of(text: str, real: str, lanes: int) -> list[str]:
    """The functions that a text calls, and those that they call, in the order in which C wants them."""
    made = {name: of_type(part, real) for name, part in HELPERS.items()}
    made |= {
        "softwright_exp": exp_source(real),
        "softwright_exp_near": exp_near_source(real),
        "softwright_falling": falling_source(real),
        "softwright_sum": _across("softwright_sum", "{0} + {1}", real, lanes),
        "softwright_top": _across("softwright_top", "{1} > {0} ? {1} : {0}", real, lanes),
    }
    wanted = set[str]()
    for name in reversed(made):
        if f"{name}(" in text or any(f"{name}(" in made[other] for other in wanted):
            wanted.add(name)
    return [part for name, part in made.items() if name in wanted]


def of_type(text: str, real: str) -> str:
    t = _TYPES[real]
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


_VECTORS = """\
#if defined(__GNUC__) && !defined(SOFTWRIGHT_PLAIN)
#define SOFTWRIGHT_INLINE static inline __attribute__((always_inline))
#define SOFTWRIGHT_LANES @LANES@
#define SOFTWRIGHT_MASK(a, sign, b) ((softwright_m)((a) sign (b)))
typedef @REAL@ softwright_v __attribute__((vector_size(32), aligned(sizeof(@REAL@)), may_alias));
typedef @WORD@ softwright_m __attribute__((vector_size(32)));
typedef char SOFTWRIGHT_BYTES __attribute__((vector_size(16)));
#else
#define SOFTWRIGHT_INLINE static inline
#define SOFTWRIGHT_LANES 1
#define SOFTWRIGHT_MASK(a, sign, b) (-(softwright_m)((a) sign (b)))
typedef @REAL@ softwright_v;
typedef @WORD@ softwright_m;
#endif
#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 8)
#define SOFTWRIGHT_UNROLL _Pragma("GCC unroll 8")
#else
#define SOFTWRIGHT_UNROLL
#endif
#define softwright_in(p) (*(const softwright_v *)(p))
#define softwright_out(p) (*(softwright_v *)(p))
#if SOFTWRIGHT_LANES > 1
#define SOFTWRIGHT_TABLE static const __attribute__((aligned(64)))
#ifdef SOFTWRIGHT_FAST
#define SOFTWRIGHT_WIDE __attribute__((target("avx512f,avx512vl,avx512dq,avx2,fma")))
#endif
#else
#define SOFTWRIGHT_TABLE static const
#endif"""
_WIDE = """\
#define SOFTWRIGHT_WIDE_LANES (2 * SOFTWRIGHT_LANES)
#define SOFTWRIGHT_WIDE_MASK(a, sign, b) ((softwright_wide_m)((a) sign (b)))
typedef @REAL@ softwright_wide_v __attribute__((vector_size(64), aligned(sizeof(@REAL@)), may_alias));
typedef @WORD@ softwright_wide_m __attribute__((vector_size(64)));
#define softwright_wide_in(p) (*(const softwright_wide_v *)(p))
#define softwright_wide_out(p) (*(softwright_wide_v *)(p))"""


def _across(name: str, what: str, real: str, lanes: int) -> str:
    """A function of all numbers of a vector: halves are joined until there is one. Numbers are taken out one by one:
    of a loop over halves clang 14 makes one through memory."""
    words = [f"(*v)[{j}]" for j in range(lanes)]
    lines = [
        f"SOFTWRIGHT_INLINE {real} {name}(const softwright_v *v)",
        "{",
        "#if SOFTWRIGHT_LANES == 1",
        "  return *v;",
    ]
    lines.append("#else")
    while len(words) > 2:
        half = len(words) // 2
        made = [what.format(words[j], words[j + half]) for j in range(half)]
        words = [f"t{half + j}" for j in range(half)]
        lines.append(f"  const {real} {', '.join(f'{word} = {text}' for word, text in zip(words, made, strict=True))};")
    return "\n".join([*lines, f"  return {what.format(*words)};", "#endif", "}"])


def _weights(name: str, every: str) -> str:
    """The exps of a row of scores that is whole vectors long, and one over their sum."""
    return "\n".join(
        [
            f"SOFTWRIGHT_INLINE @REAL@ {name}(@REAL@ *w, const @REAL@ *s, int room)",
            "{",
            "  softwright_v t = softwright_in(s), sum;",
            "  @REAL@ top;",
            f"  {every}for (int i = SOFTWRIGHT_LANES; i < room; i += SOFTWRIGHT_LANES)",
            "    softwright_max(&t, &softwright_in(s + i));",
            "  top = softwright_top(&t);",
            "  sum = softwright_in(s) - top;",
            "  softwright_exp(&sum);",
            "  softwright_out(w) = sum;",
            f"  {every}for (int i = SOFTWRIGHT_LANES; i < room; i += SOFTWRIGHT_LANES) {{",
            "    softwright_v e = softwright_in(s + i) - top;",
            "    softwright_exp(&e);",
            "    softwright_out(w + i) = e;",
            "    sum += e;",
            "  }",
            "  return 1 / softwright_sum(&sum);",
            "}",
        ]
    )


def _dot(name: str, every: str) -> str:
    return "\n".join(
        [
            f"SOFTWRIGHT_INLINE @REAL@ {name}(const @REAL@ *a, const @REAL@ *b, int n)",
            "{",
            "  softwright_v t;",
            "  @REAL@ rest = 0;",
            "  int i = SOFTWRIGHT_LANES;",
            "  if (n < SOFTWRIGHT_LANES) {",
            "    for (i = 0; i < n; i++) rest += a[i] * b[i];",
            "    return rest;",
            "  }",
            "  t = softwright_in(a) * softwright_in(b);",
            f"  {every}for (; i + SOFTWRIGHT_LANES <= n; i += SOFTWRIGHT_LANES)",
            "    t += softwright_in(a + i) * softwright_in(b + i);",
            "  if (n % SOFTWRIGHT_LANES == 0) return softwright_sum(&t);",
            "  for (; i < n; i++) rest += a[i] * b[i];",
            "  return softwright_sum(&t) + rest;",
            "}",
        ]
    )


HELPERS = {
    "softwright_sum": "",
    "softwright_top": "",
    "softwright_max": """\
SOFTWRIGHT_INLINE void softwright_max(softwright_v *a, const softwright_v *b)
{
  const softwright_m more = SOFTWRIGHT_MASK(*b, >, *a);
  softwright_m x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  x = (y & more) | (x & ~more);
  memcpy(a, &x, sizeof x);
}""",
    "softwright_exp": "",
    "softwright_exp_near": "",
    "softwright_falling": "",
    "softwright_weights": _weights("softwright_weights", "SOFTWRIGHT_UNROLL "),
    "softwright_weights_of": _weights("softwright_weights_of", ""),
    "softwright_scale": """\
SOFTWRIGHT_INLINE void softwright_scale(@REAL@ *w, @REAL@ part, int room)
{
  for (int i = 0; i < room; i += SOFTWRIGHT_LANES) softwright_out(w + i) *= part;
}""",
    "softwright_columns": """\
SOFTWRIGHT_INLINE void softwright_columns(@REAL@ *w, const @REAL@ *s, int n, int w_step, int s_step)
{
  softwright_v top = softwright_in(s), sum = {0};
  int c = 1;
  for (; c + 2 <= n; c += 2) {
    softwright_v t = softwright_in(s + s_step * c);
    softwright_max(&t, &softwright_in(s + s_step * (c + 1)));
    softwright_max(&top, &t);
  }
  if (c < n) softwright_max(&top, &softwright_in(s + s_step * c));
  for (c = 0; c < n; c++) {
    softwright_v e = softwright_in(s + s_step * c) - top;
    softwright_exp(&e);
    softwright_out(w + w_step * c) = e;
    sum += e;
  }
  sum = (@REAL@)1 / sum;
  for (c = 0; c < n; c++) softwright_out(w + w_step * c) *= sum;
}""",
    "softwright_abs": """\
SOFTWRIGHT_INLINE void softwright_abs(softwright_v *a)
{
  softwright_m x;
  memcpy(&x, a, sizeof x);
  x &= ~((@WORD@)1 << @SIGN@);
  memcpy(a, &x, sizeof x);
}""",
    "softwright_sign": """\
SOFTWRIGHT_INLINE void softwright_sign(softwright_v *a, const softwright_v *s)
{
  softwright_m x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, s, sizeof y);
  x ^= y & ((@WORD@)1 << @SIGN@);
  memcpy(a, &x, sizeof x);
}""",
    "softwright_sigmoid": """\
SOFTWRIGHT_INLINE void softwright_sigmoid(softwright_v *t)
{
  const softwright_m less = SOFTWRIGHT_MASK(*t, <, (softwright_v){0});
  const softwright_v one = (@REAL@)1 - (softwright_v){0};
  softwright_v e, over;
  softwright_m a, b;
  memcpy(&a, t, sizeof a);
  a |= (@WORD@)1 << @SIGN@;
  memcpy(&e, &a, sizeof a);
  softwright_exp(&e);
  memcpy(&a, &e, sizeof a);
  memcpy(&b, &one, sizeof b);
  a = (a & less) | (b & ~less);
  memcpy(&over, &a, sizeof a);
  *t = over / (one + e);
}""",
    # whether of the first n numbers no exp is left, as of nearly all that come to a kink
    "softwright_far": """\
SOFTWRIGHT_INLINE int softwright_far(const softwright_v *t, int n)
{
  const softwright_v most = -(@LEAST@) - (softwright_v){0};
  softwright_v size = *t;
  softwright_m far;
  @WORD@ each[SOFTWRIGHT_LANES], all = ~(@WORD@)0;
  softwright_abs(&size);
  far = SOFTWRIGHT_MASK(size, >=, most);
  memcpy(each, &far, sizeof each);
  SOFTWRIGHT_UNROLL for (int j = 0; j < SOFTWRIGHT_LANES; j++) all &= j < n ? each[j] : all;
  return all != 0;
}""",
    # 0 where s is less than 0, v elsewhere
    "softwright_above": """\
SOFTWRIGHT_INLINE void softwright_above(softwright_v *v, const softwright_v *s)
{
  const softwright_m less = SOFTWRIGHT_MASK(*s, <, (softwright_v){0});
  softwright_m a;
  memcpy(&a, v, sizeof a);
  a &= ~less;
  memcpy(v, &a, sizeof a);
}""",
    # 1 where s is not less than 0, e elsewhere
    "softwright_over": """\
SOFTWRIGHT_INLINE void softwright_over(softwright_v *e, const softwright_v *s)
{
  const softwright_m less = SOFTWRIGHT_MASK(*s, <, (softwright_v){0});
  const softwright_v one = (@REAL@)1 - (softwright_v){0};
  softwright_m a, b;
  memcpy(&a, e, sizeof a);
  memcpy(&b, &one, sizeof b);
  a = (a & less) | (b & ~less);
  memcpy(e, &a, sizeof a);
}""",
    # exp(0) is 1: the smaller of two scores has an exp to take, the larger one none
    "softwright_pairs": """\
SOFTWRIGHT_INLINE void softwright_pairs(softwright_v *low, softwright_v *high, const softwright_v *d)
{
  const softwright_m more = SOFTWRIGHT_MASK(*d, >, (softwright_v){0});
  softwright_v e, part;
  softwright_m a, b, other;
  memcpy(&a, d, sizeof a);
  a |= (@WORD@)1 << @SIGN@;
  memcpy(&e, &a, sizeof a);
  softwright_exp(&e);
  part = (@REAL@)1 / ((@REAL@)1 + e);
  e *= part;
  memcpy(&a, &part, sizeof a);
  memcpy(&b, &e, sizeof b);
  other = (a ^ b) & more;
  a ^= other;
  b ^= other;
  memcpy(low, &a, sizeof a);
  memcpy(high, &b, sizeof b);
}""",
    "softwright_dot": _dot("softwright_dot", "SOFTWRIGHT_UNROLL "),
    "softwright_dot_of": _dot("softwright_dot_of", ""),
}
FUSED = """\
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast")
#endif"""
FAST = """\
#if !defined(SOFTWRIGHT_CLONES) && defined(__x86_64__) && defined(__linux__) && defined(__OPTIMIZE__) && \\
  ((defined(__clang__) && __clang_major__ >= 14) || (!defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 6))
#define SOFTWRIGHT_FAST __attribute__((target("avx2,fma")))
#endif"""
