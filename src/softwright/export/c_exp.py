"""exp of numbers that are not positive, as C that compilers turn into vector instructions.

With n the nearest whole number to x/ln 2 and r = x - n ln 2, |r| <= 0.3466,

    e^x = 2^n (1 + (r + r^2 q(r))),        q(r) ~ (e^r - 1 - r)/r^2,

q a polynomial of degree 9 (degree 4 in float), whose relative error in e^r is below 2^-55 (2^-26). ln 2 has two parts,
the first with so few digits that n times it is exact, so r is off by at most one rounding of its size. In units u of
rounding: 0.35 u from r, 1.3 u from the sum, u from its last step, and less from q: below 3 u, that is 1.5 ulp,
where 4 ulp (32 in float) are charged. Below ln of `exp_floor` the result is 0, which is charged as well. Adding 1.5
2^52 leaves n in the last bits of the sum, so that no conversion is needed; nan stays nan.

Functions that hold such loops are compiled for several processors at once where the compiler can (`SOFTWRIGHT_CLONES`):
which of them runs changes nothing but fused products, which are charged.
"""

from __future__ import annotations

DOUBLE = """\
static inline double softwright_exp(double x)
{
  const double shift = 0x1.8p52, least = -0x1.6232bdd7abcd3p+9;
  const double y = x < least ? least : x;
  const double k = y * 0x1.71547652b82fep+0 + shift, n = k - shift;
  const double r = (y - n * 0x1.62e42fefa2000p-1) - n * 0x1.9ef35793c7673p-41;
  double q = 0x1.af38a0d2d9620p-26, scale;
  uint64_t bits;
  q = q * r + 0x1.28917e2c43a66p-22;
  q = q * r + 0x1.71de0db21e27fp-19;
  q = q * r + 0x1.a019b9133a48ap-16;
  q = q * r + 0x1.a01a01a7c327ap-13;
  q = q * r + 0x1.6c16c1788a49bp-10;
  q = q * r + 0x1.11111111109b4p-7;
  q = q * r + 0x1.5555555553d67p-5;
  q = q * r + 0x1.5555555555556p-3;
  q = q * r + 0x1.0000000000001p-1;
  memcpy(&bits, &k, sizeof bits);
  bits = (bits + 1023) << 52;
  memcpy(&scale, &bits, sizeof bits);
  scale = x < least ? 0 : scale;
  return (1 + (r + r * r * q)) * scale;
}"""
FLOAT = """\
static inline float softwright_exp(float x)
{
  const float shift = 0x1.8p23f, least = -0x1.5a92d8p+6f;
  const float y = x < least ? least : x;
  const float k = y * 0x1.715476p+0f + shift, n = k - shift;
  const float r = (y - n * 0x1.62e000p-1f) - n * 0x1.0bfbe8p-15f;
  float q = 0x1.6d10fep-10f, scale;
  uint32_t bits;
  q = q * r + 0x1.120b64p-7f;
  q = q * r + 0x1.55551ap-5f;
  q = q * r + 0x1.5554dep-3f;
  q = q * r + 0x1.000000p-1f;
  memcpy(&bits, &k, sizeof bits);
  bits = (bits + 127) << 23;
  memcpy(&scale, &bits, sizeof bits);
  scale = x < least ? 0 : scale;
  return (1 + (r + r * r * q)) * scale;
}"""
CLONES = """\
#if !defined(SOFTWRIGHT_CLONES)
#if defined(__x86_64__) && defined(__linux__) && defined(__OPTIMIZE__) && \\
  ((defined(__clang__) && __clang_major__ >= 14) || (!defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 6))
#define SOFTWRIGHT_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SOFTWRIGHT_CLONES
#endif
#endif"""
