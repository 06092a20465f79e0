"""Vectors in C, and softmax and sums with them.

gcc and clang have types of several neighbouring numbers with the operations of one: `softwright_v` is four doubles or
eight floats. Elsewhere, and with -DSOFTWRIGHT_PLAIN, it is one number, and the same text is plain C99. What differs is
the type, comparisons, and what goes across a vector.

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

from softwright.export.vectors.exp import exp_near_source, exp_source, falling_source, of_type


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
        "softwright_sum": of_type(_across("softwright_sum", SUM, real, lanes), real),
        "softwright_top": _across("softwright_top", "{1} > {0} ? {1} : {0}", real, lanes),
    }
    wanted = set[str]()
    for name in reversed(made):
        if f"{name}(" in text or any(f"{name}(" in made[other] for other in wanted):
            wanted.add(name)
    return [part for name, part in made.items() if name in wanted]


SUM = "{0} + {1}"
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
#ifdef __clang__
#define SOFTWRIGHT_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define SOFTWRIGHT_ROLLED
#endif
#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12)
#define SOFTWRIGHT_OF __builtin_shufflevector
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
    """A function of all numbers of a vector: halves are joined until there is one. Without shuffles numbers are taken
    out one by one: of a loop over halves clang 14 makes one through memory."""
    words = [f"(*v)[{j}]" for j in range(lanes)]
    lines = [
        f"SOFTWRIGHT_INLINE {real} {name}(const softwright_v *v)",
        "{",
        "#if SOFTWRIGHT_LANES == 1",
        "  return *v;",
    ]
    if what == SUM:
        lines.append("#elif defined(SOFTWRIGHT_OF)")
        lines += [f"  {one}" for one in halved("*v", lanes, 2)]
        last = f"v{2}"
        lines.append(f"  return {last}[0] + {last}[1];")
    lines.append("#else")
    while len(words) > 2:
        half = len(words) // 2
        made = [what.format(words[j], words[j + half]) for j in range(half)]
        words = [f"t{half + j}" for j in range(half)]
        lines.append(f"  const {real} {', '.join(f'{word} = {text}' for word, text in zip(words, made, strict=True))};")
    return "\n".join([*lines, f"  return {what.format(*words)};", "#endif", "}"])


def halved(vector: str, lanes: int, least: int) -> list[str]:
    """The sum of the halves of a vector, then of its halves, until there are so many numbers: v2, if 2."""
    lines, name, half = [], vector, lanes // 2
    while half >= least:
        low, high = (", ".join(str(j) for j in range(i, i + half)) for i in (0, half))
        kind = f"softwright_of_{half}"
        lines.append(f"typedef @REAL@ {kind} __attribute__((vector_size({half} * sizeof(@REAL@))));")
        sides = (f"SOFTWRIGHT_OF({name}, {name}, {one})" for one in (low, high))
        lines.append(f"const {kind} v{half} = {' + '.join(sides)};")
        name, half = f"v{half}", half // 2
    return lines


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
    # all digits of `near` are 1 as long as every y was at most this
    "softwright_within": """\
SOFTWRIGHT_INLINE void softwright_within(softwright_m *near, const softwright_v *y, @REAL@ most)
{
  *near &= SOFTWRIGHT_MASK(*y, <=, most - (softwright_v){0});
}""",
    "softwright_all": """\
SOFTWRIGHT_INLINE int softwright_all(const softwright_m *near)
{
#if defined(__SSE2__) && SOFTWRIGHT_LANES > 1
  SOFTWRIGHT_BYTES half[sizeof *near / sizeof(SOFTWRIGHT_BYTES)], all;
  memcpy(half, near, sizeof *near);
  all = half[0];
  SOFTWRIGHT_UNROLL for (unsigned j = 1; j < sizeof *near / sizeof all; j++) all &= half[j];
  return __builtin_ia32_pmovmskb128(all) == 0xffff;
#else
  @WORD@ each[sizeof *near / sizeof(@WORD@)], all = ~(@WORD@)0;
  memcpy(each, near, sizeof *near);
  SOFTWRIGHT_UNROLL for (unsigned j = 0; j < sizeof *near / sizeof all; j++) all &= each[j];
  return all == (@WORD@)~(@WORD@)0;
#endif
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
