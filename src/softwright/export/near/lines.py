"""The function that C runs inside the box of a network, as text: one vector of tokens after another (`near/heads.py`).

It is written for vectors of any width and in the names of the narrow ones; `widened` gives those of the others. Tokens
of all heads lie in one row, whose end is filled up with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from softwright.export.vectors.exp import in_pairs, lanes_of, of_type
from softwright.export.vectors.loops import halved, wide_source, widened

REACH = 1.0 + 2.0**-16  # |t| in the box, where its ends are rounded too
NEARBY = "#if SOFTWRIGHT_LANES > 1 && !defined(SOFTWRIGHT_HEADS)"
_PER_LOG = {"double": "0x1.71547652b82fep+0", "float": "0x1.715476p+0"}
_SHIFTS = {"double": 1.5 * 2.0**52, "float": 1.5 * 2.0**23}
_DIGITS = {"double": 52, "float": 23}
_LEAST = {  # of an exp that is not lost: at most ln of `exp_floor`, and the power of two at n = -1022 (-125)
    "double": "-0x1.6232bdd7abcd3p+9",
    "float": "-0x1.5a92d8p+6",
}


@dataclass(frozen=True)
class Exp:
    """Coefficients of Q from the lowest, and ln 2 in two parts, or nothing where scores are exponents of two."""

    powers: tuple[str, ...]
    logs: tuple[str, str] | None = None


@dataclass(frozen=True)
class Tokens:
    """A head in float64: keys (N, d), biases (N,), values (N, m), slopes (N, m, d), and c; a pair has one exp, no c."""

    keys: np.ndarray
    biases: np.ndarray
    values: np.ndarray
    slopes: np.ndarray
    exponent: int = 0
    pair: bool = False

    @property
    def exps(self) -> int:
        return 1 if self.pair else len(self.keys)


@dataclass(frozen=True)
class Run:
    """The type that is computed in, that of inputs and outputs, and the frame t = (x - center) scale."""

    real: str
    ends: str
    center: np.ndarray
    scale: np.ndarray

    @property
    def kind(self) -> type:
        return np.float64 if self.real == "double" else np.float32

    @property
    def suffix(self) -> str:
        return "" if self.real == "double" else "f"

    @property
    def cast(self) -> str:
        return "" if self.real == self.ends else f"({self.ends})"

    def number(self, value: float) -> str:
        return f"{float(value).hex()}{self.suffix}"

    def framed(self, i: int) -> str:
        """A difference with 0 and a product with 1 are exact."""
        text = f"x[{i}]" if self.real == self.ends else f"({self.real})x[{i}]"
        if self.center[i] != 0:
            text = f"({text} - {self.number(self.center[i])})"
        return text if self.scale[i] == 1 else f"{text} * {self.number(self.scale[i])}"

    def inside(self, i: int) -> str:
        return f"fabs{self.suffix}({self.framed(i)}) <= {self.number(REACH)}"


@dataclass(frozen=True)
class Near:
    """A function for each width, the tables that they read, and where they may be called."""

    tables: dict[str, np.ndarray]
    narrow: str
    wide: str  # or nothing: it would take as many vectors
    inside: str


class Writer:
    """Writes the function of heads, pairs first, for vectors of any width."""

    def __init__(
        self,
        heads: Sequence[Tokens],
        places: Sequence[int],
        rows: Sequence[tuple[np.ndarray, np.ndarray]],
        exp: Exp,
        run: Run,
    ) -> None:
        self.heads, self.places, self.exp, self.run = heads, places, exp, run
        self.pairs = sum(head.pair for head in heads)
        self.d, self.m = heads[0].keys.shape[1], heads[0].values.shape[1]
        own, other = [], []  # the numbers of a place: score, then values, each with what is multiplied by t
        for head, (keys, biases) in zip(heads, rows, strict=True):
            numbers = np.concatenate(
                [
                    np.concatenate([biases[:, None], keys], axis=1)[:, None, :],
                    np.concatenate([head.values[:, :, None], head.slopes], axis=2),
                ],
                axis=1,
            )  # (N, 1 + m, 1 + d)
            if head.pair:
                numbers = numbers[::-1] if numbers[1, 0].any() < numbers[0, 0].any() else numbers
                other.append(numbers[:1])
            own.append(numbers[1:] if head.pair else numbers)
        self.own = np.concatenate(own)
        self.other = np.concatenate(other) if other else self.own[:0]
        self.owner = np.repeat(np.arange(len(heads)), [head.exps for head in heads])
        self.tables: dict[str, np.ndarray] = {}

    def vectors(self, lanes: int) -> int:
        return -(-len(self.own) // lanes)

    def function(self, lanes: int) -> str:
        """Its lines; where `v_` and `softwright_` have another width they are renamed (`widened`)."""
        count, lines = self.vectors(lanes), []
        lines += [f"const {self.run.real} t{i} = {self.run.framed(i)};" for i in range(self.d)]
        shifts = np.array([self.heads[h].exponent for h in self.owner.tolist()], dtype=float) + _SHIFTS[self.run.real]
        for c in range(count):
            part = slice(c * lanes, (c + 1) * lanes)
            score = self._affine("near", self.own, 0, part)
            even = len(np.unique(shifts[part])) == 1
            shift = (
                self.run.number(shifts[part][0]) + " - (softwright_v){0}"
                if even
                else self._table("near_shift", shifts, part)
            )
            lines.append(f"const softwright_v shift{c} = {shift};")
            if c == 0 and self.pairs:
                lines += self._differences(score, part)
            else:
                lines.append(f"softwright_v e{c} = {score};")
            lines.append(f"softwright_power(&e{c}, &shift{c});")
            lines += [
                f"const softwright_v z{c}_{o} = {self._affine('near', self.own, 1 + o, part)};" for o in range(self.m)
            ]
        if self.pairs:
            least = f"{_LEAST[self.run.real]}{self.run.suffix}"
            lines.append(f"softwright_kept(&e0, &size, {least});")
            lines += self._quotients_of_pairs()
        for h in range(self.pairs, len(self.heads)):
            lines += self._quotients(h, lanes, count)
        for o in range(self.m):
            total = " + ".join(f"y{h}_{o}" for h in sorted(range(len(self.heads)), key=lambda h: self.places[h]))
            lines.append(f"y[{o}] = {self.run.cast}({total});")
        head = f"SOFTWRIGHT_INLINE void softwright_near(const {self.run.ends} *x, {self.run.ends} *y)"
        return "\n".join([self._power(), head, "{", *(f"  {line}" for line in lines), "}"])

    def _table(self, name: str, row: np.ndarray, part: slice) -> str:
        self.tables[name] = row
        return f"softwright_in({name} + {part.start})"

    def _affine(self, name: str, numbers: np.ndarray, which: int, part: slice) -> str:
        """A constant and products with t, as far as they are not zeros."""
        words = []
        for i in range(1 + self.d):
            row = numbers[:, which, i]
            if row[part].any():
                words.append(f"{f't{i - 1} * ' if i else ''}{self._table(f'{name}_{which}_{i}', row, part)}")
        return " + ".join(words) or "(softwright_v){0}"

    def _differences(self, score: str, part: slice) -> list[str]:
        """Scores of the first vector: of pairs minus the size of what they differ by."""
        signs = np.zeros(len(self.own), dtype=np.uint64)
        signs[: self.pairs] = 1 << (63 if self.run.real == "double" else 31)
        self.tables["near_signs"] = signs
        other = self._affine("near_other", self.other, 0, part)
        return [
            f"const softwright_v d = {score}{f' - ({other})' if other[0] != '(' else ''};",
            "softwright_v e0 = d;",
            "softwright_or(&e0, near_signs);",
            "const softwright_v size = e0;",
        ]

    def _quotients_of_pairs(self) -> list[str]:
        one, part = self.run.number(1.0), slice(0, self.pairs)
        lines = []
        for o in range(self.m):
            other = self._affine("near_other", self.other, 1 + o, part)
            lines.append(f"softwright_v low{o} = {other}, high{o} = z0_{o}; softwright_by_sign(&low{o}, &high{o}, &d);")
            top, total = f"high{o} + e0 * low{o}", f"{one} + e0"
            lines.append(f"const softwright_v top{o} = {top}, all{o} = {total};")
            if self.pairs == 1:
                lines.append(f"const {self.run.real} y0_{o} = top{o}[0] / all{o}[0];")
                continue
            lines.append(f"const softwright_v part{o} = top{o} / all{o};")
            lines.append(f"const {self.run.real} {', '.join(f'y{h}_{o} = part{o}[{h}]' for h in range(self.pairs))};")
        return lines

    def _quotients(self, h: int, lanes: int, count: int) -> list[str]:
        """Sums over the places of a head, and their quotients."""
        lines, weights = [], {}
        mine = (self.owner == h).astype(float)
        for c in range(count):
            part = slice(c * lanes, (c + 1) * lanes)
            if not mine[part].any():
                continue
            weights[c] = f"e{c}"
            if np.pad(mine[part], (0, lanes - len(mine[part]))).sum() < lanes:
                lines.append(f"const softwright_v e{c}_{h} = e{c} * {self._table(f'near_of_{h}', mine, part)};")
                weights[c] = f"e{c}_{h}"
        sums = [_sum(list(weights.values()))]
        sums += [_sum([f"{word} * z{c}_{o}" for c, word in weights.items()]) for o in range(self.m)]
        names = [f"s{h}", *(f"n{h}_{o}" for o in range(self.m))]
        lines.append(f"const softwright_v {', '.join(f'{a} = {b}' for a, b in zip(names, sums, strict=True))};")
        across = [f"{name}a" for name in names]
        lines.append(f"{self.run.real} {', '.join(across)};")
        for i in range(0, len(names) - 1, 2):
            lines.append(f"softwright_two(&{across[i]}, &{across[i + 1]}, &{names[i]}, &{names[i + 1]});")
        if len(names) % 2:
            lines.append(f"softwright_two(&{across[-1]}, &{across[-1]}, &{names[-1]}, &{names[-1]});")
        total = across[0]
        if self.m > 1:
            lines.append(f"const {self.run.real} over{h} = 1 / {total};")
        parts = (f"y{h}_{o} = {across[1 + o]} {f'* over{h}' if self.m > 1 else f'/ {total}'}" for o in range(self.m))
        return [*lines, f"const {self.run.real} {', '.join(parts)};"]

    def _power(self) -> str:
        f = self.run.suffix
        lines = ["const softwright_v k = *e + *shift, f = *e - (k - *shift);"]
        if self.exp.logs is not None:
            high, low = (f"{one}{f}" for one in self.exp.logs)
            lines = [
                f"const softwright_v k = *e * {_PER_LOG[self.run.real]}{f} + *shift, n = k - *shift;",
                f"const softwright_v f = (*e - n * {high}) - n * {low};",
            ]
        q = in_pairs([f"{power}{f}" for power in self.exp.powers], "f")
        return "\n".join(
            [
                "SOFTWRIGHT_INLINE void softwright_power(softwright_v *e, const softwright_v *shift)",
                "{",
                *(f"  {line}" for line in lines),
                "  const softwright_v f2 = f * f, f4 = f2 * f2;",
                f"  *e = {self.run.number(1.0)} + f * ({q});",
                "  softwright_m a, b;",
                "  memcpy(&a, e, sizeof a);",
                "  memcpy(&b, &k, sizeof b);",
                f"  a += b << {_DIGITS[self.run.real]};",
                "  memcpy(e, &a, sizeof a);",
                "}",
            ]
        )


def _sum(words: Sequence[str]) -> str:
    """In pairs, which do not wait for each other."""
    while len(words) > 1:
        words = [
            f"({' + '.join(words[i : i + 2])})" if len(words) > 2 else " + ".join(words)
            for i in range(0, len(words), 2)
        ]
    return words[0]


def near_lines(near: Near, real: str) -> list[str]:
    """Tables and functions of the file; compilers without vectors have none of them."""
    narrow = [name for name in near.tables if f"({name}" in near.narrow or f" {name})" in near.narrow]
    lines = [NEARBY, *(_table(name, near.tables[name], real) for name in narrow)]
    lines += [_helpers(near.narrow, real, False), near.narrow]
    if near.wide:
        lines += [
            "#ifdef SOFTWRIGHT_WIDE",
            wide_source(real),
            *(_table(name, row, real) for name, row in near.tables.items() if name not in narrow),
            widened(_helpers(near.wide, real, True)),
            widened(near.wide),
            "#endif",
        ]
    return [*lines, "#endif"]


def _table(name: str, row: np.ndarray, real: str) -> str:
    kind, suffix = (np.float64, "") if real == "double" else (np.float32, "f")
    if row.dtype.kind == "u":
        real, words = of_type("@WORD@", real), [f"{int(one)}u" for one in row]
    else:
        words = [f"{float(kind(one)).hex()}{suffix}" for one in row]
    kept = [", ".join(words[i : i + 4]) for i in range(0, len(words), 4)]
    return "\n".join([f"SOFTWRIGHT_TABLE {real} {name}[{len(row)}] = {{", "  " + ",\n  ".join(kept) + "};"])


def _helpers(text: str, real: str, wide: bool) -> str:
    """The functions that a text calls, for vectors of its width."""
    lanes = lanes_of(real) * (2 if wide else 1)
    found = [part for name, part in _HELPERS.items() if f"softwright_{name}(" in text]
    halves = [f"  {one}" for one in _folded(lanes)]
    return of_type("\n".join(found).replace("@TWO@", "\n".join(halves)).replace("@COUNT@", str(lanes)), real)


def _folded(lanes: int) -> list[str]:
    """Sums of two vectors side by side: of neighbours first, then of halves."""
    even, odd = (", ".join(str(j + k * lanes) for j in range(i, lanes, 2) for k in range(2)) for i in range(2))
    lines = [f"const softwright_v c = SOFTWRIGHT_OF(*a, *b, {even}) + SOFTWRIGHT_OF(*a, *b, {odd});"]
    return [*lines, *halved("c", lanes, 2), "*s = v2[0];", "*t = v2[1];"]


_HELPERS = {
    "two": """\
SOFTWRIGHT_INLINE void softwright_two(@REAL@ *s, @REAL@ *t, const softwright_v *a, const softwright_v *b)
{
#ifdef SOFTWRIGHT_OF
@TWO@
#else
  *s = *t = 0;
  for (int j = 0; j < @COUNT@; j++) { *s += (*a)[j]; *t += (*b)[j]; }
#endif
}""",
    "or": """\
SOFTWRIGHT_INLINE void softwright_or(softwright_v *a, const @WORD@ *bits)
{
  softwright_m x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, bits, sizeof y);
  x |= y;
  memcpy(a, &x, sizeof x);
}""",
    "kept": """\
SOFTWRIGHT_INLINE void softwright_kept(softwright_v *e, const softwright_v *s, @REAL@ least)
{
  softwright_m x;
  memcpy(&x, e, sizeof x);
  x &= (softwright_m)(*s > least - (softwright_v){0});
  memcpy(e, &x, sizeof x);
}""",
    "by_sign": """\
SOFTWRIGHT_INLINE void softwright_by_sign(softwright_v *low, softwright_v *high, const softwright_v *d)
{
  softwright_m x, y, other;
  memcpy(&x, low, sizeof x);
  memcpy(&y, high, sizeof y);
  other = (x ^ y) & ~(softwright_m)(*d > (softwright_v){0});
  x ^= other;
  y ^= other;
  memcpy(low, &x, sizeof x);
  memcpy(high, &y, sizeof y);
}""",
}
