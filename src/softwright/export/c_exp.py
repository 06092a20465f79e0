"""exp of numbers that are not positive, as C that compilers turn into vector instructions; softmax and sums with it.

With n the nearest whole number to x/ln 2 and r = x - n ln 2, |r| <= 0.3466,

    e^x = 2^n (1 + (r + r^2 q(r))),        q(r) ~ (e^r - 1 - r)/r^2,

q a polynomial of degree 9 (degree 4 in float), whose relative error in e^r is below 2^-55 (2^-26). ln 2 has two parts,
the first with so few digits that n times it is exact, so r is off by at most one rounding of its size. In units u of
rounding: 0.35 u from r, 1.3 u from the sum, u from its last step, and less from q: below 3 u, that is 1.5 ulp,
where 4 ulp (32 in float) are charged. Below ln of `exp_floor` the result is 0, which is charged as well. Adding 1.5
2^52 leaves n in the last bits of the sum, so that no conversion is needed; nan stays nan.

Sums and maxima run over eight neighbours at once, each with its own: an order like any other, and the largest of
numbers is the same in every order. A row of scores that is not a multiple of eight long is filled up with -inf, whose
exp is exactly 0: that changes neither the maximum nor the sum.

All is written inside the function that uses it: only there are sizes known, and processors.
Functions that hold such loops are compiled for several processors at once where the compiler can (`SOFTWRIGHT_CLONES`):
which of them runs changes nothing but fused products, which are charged.
"""

from __future__ import annotations

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
        least="-0x1.6232bdd7abcd3p+9",
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
        least="-0x1.5a92d8p+6",
        per_log="0x1.715476p+0",
        log_high="0x1.62e000p-1",
        log_low="0x1.0bfbe8p-15",
        powers=("0x1.6d10fep-10", "0x1.120b64p-7", "0x1.55551ap-5", "0x1.5554dep-3", "0x1.000000p-1"),
        bias=127,
        digits=23,
    ),
}


def exp_source(real: str) -> str:
    """`softwright_exp` of a type."""
    t = _TYPES[real]
    f = t.suffix
    return "\n".join(
        [
            f"SOFTWRIGHT_INLINE {real} softwright_exp({real} x)",
            "{",
            f"  const {real} shift = {t.shift}{f}, least = {t.least}{f};",
            f"  const {real} y = x < least ? least : x;",
            f"  const {real} k = y * {t.per_log}{f} + shift, n = k - shift;",
            f"  const {real} r = (y - n * {t.log_high}{f}) - n * {t.log_low}{f};",
            f"  {real} q = {t.powers[0]}{f}, scale;",
            f"  {t.word} bits;",
            *(f"  q = q * r + {power}{f};" for power in t.powers[1:]),
            "  memcpy(&bits, &k, sizeof bits);",
            f"  bits = (bits + {t.bias}) << {t.digits};",
            "  memcpy(&scale, &bits, sizeof bits);",
            "  scale = x < least ? 0 : scale;",
            "  return (1 + (r + r * r * q)) * scale;",
            "}",
        ]
    )


HELPERS = {
    "softwright_softmax": """\
SOFTWRIGHT_INLINE void softwright_softmax(REAL *w, int n, int room)
{
  REAL t[8], top, part;
  for (int j = n; j < room; j++) w[j] = -HUGE_VAL;
  for (int j = 0; j < 8; j++) t[j] = w[j];
  for (int i = 8; i < room; i += 8) for (int j = 0; j < 8; j++) t[j] = w[i + j] > t[j] ? w[i + j] : t[j];
  for (int j = 0; j < 4; j++) t[j] = t[j + 4] > t[j] ? t[j + 4] : t[j];
  for (int j = 0; j < 2; j++) t[j] = t[j + 2] > t[j] ? t[j + 2] : t[j];
  top = t[1] > t[0] ? t[1] : t[0];
  for (int j = 0; j < 8; j++) t[j] = 0;
  for (int i = 0; i < room; i++) w[i] = softwright_exp(w[i] - top);
  for (int i = 0; i < room; i += 8) for (int j = 0; j < 8; j++) t[j] += w[i + j];
  for (int j = 0; j < 4; j++) t[j] += t[j + 4];
  part = 1 / ((t[0] + t[2]) + (t[1] + t[3]));
  for (int i = 0; i < room; i += 8) for (int j = 0; j < 8; j++) w[i + j] *= part;
}""",
    "softwright_dot": """\
SOFTWRIGHT_INLINE REAL softwright_dot(const REAL *a, const REAL *b, int n)
{
  REAL t[8] = {0, 0, 0, 0, 0, 0, 0, 0}, rest = 0;
  int i = 0;
  for (; i + 8 <= n; i += 8) for (int j = 0; j < 8; j++) t[j] += a[i + j] * b[i + j];
  for (; i < n; i++) rest += a[i] * b[i];
  for (int j = 0; j < 4; j++) t[j] += t[j + 4];
  return ((t[0] + t[2]) + (t[1] + t[3])) + rest;
}""",
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
