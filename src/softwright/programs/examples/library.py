"""`LIBRARY`: programs by name, one row each: what it computes, its text and its tokens.

The first rows are those that RASP and its compiler tracr show; then come those of RASP-L and C-RASP, which look at
tokens before their own alone, and what is ours: whole numbers and real numbers.
"""

from __future__ import annotations

from softwright.errors import InvalidInput
from softwright.programs.examples.continuous import CONTINUOUS
from softwright.programs.examples.row import Example
from softwright.programs.fields import Integers, Symbols

_LETTERS = {"s": Symbols("abcdefgh")}
_BRACKETS = {"s": Symbols("(){}")}
_BLANK = {"s": Symbols("#abcdefg")}
_REAL = {"x": (-1, 1)}


def _balance(name: str, one: str, other: str) -> str:
    return f"{name} = sum((s[j] == '{one}') - (s[j] == '{other}') for j <= i)"


LIBRARY: dict[str, Example] = {
    row.name: row
    for row in (
        Example("length", "how many tokens there are", "n", _LETTERS, of="tracr"),
        Example("reverse", "the sequence backwards", "s[n-1-i]", _LETTERS, of="tracr"),
        Example("histogram", "how often each token's symbol occurs", "count(s[j] == s[i])", _LETTERS, of="tracr"),
        Example("sort", "the symbols in order", "sorted(s)[i]", _LETTERS, of="tracr"),
        Example(
            "sort_unique",
            "each symbol once, in order, then the first",
            "f = not any(s[j] == s[i] and j < i); r = count(f[j] and s[j] < s[i]); max(s[j] for f[j] and r[j] == i)",
            _LETTERS,
            of="tracr",
        ),
        Example(
            "sort_by_frequency",
            "the most frequent symbols first, ties in their order",
            "sorted(s, by=-count(s[j] == s[i]))[i]",
            _LETTERS,
            of="tracr",
        ),
        Example("fraction_previous", "share of 'a' so far", "mean((s[j] == 'a') for j <= i)", _LETTERS, of="tracr"),
        Example(
            "pair_balance",
            "opened less closed brackets so far, by tokens",
            "mean((s[j] == '(') - (s[j] == ')') for j <= i)",
            _BRACKETS,
            of="tracr",
        ),
        Example(
            "shuffle_dyck_1",
            "whether the brackets are balanced",
            f"{_balance('b', '(', ')')}; all(b >= 0) and last(b) == 0",
            _BRACKETS,
            of="tracr",
        ),
        Example(
            "shuffle_dyck_2",
            "whether both kinds of brackets are balanced",
            f"{_balance('b', '(', ')')}; {_balance('c', '{', '}')}; "
            "all(b >= 0 and c >= 0) and last(b) == 0 and last(c) == 0",
            _BRACKETS,
            of="tracr",
        ),
        Example(
            "detect_pattern",
            "where 'abc' ends",
            "s == 'c' and prev(s, 1, default='#') == 'b' and prev(s, 2, default='#') == 'a'",
            _BLANK,
            of="tracr",
        ),
        Example(
            "induction",
            "what came after the latest token like this one, else '#'",
            "p = prev(s, 1, default='#'); found = any(p[j] == s[i] and j <= i); "
            "t = max(j for p[j] == s[i] and j <= i); where(found, at(s, t, default='#'), '#')",
            _BLANK,
            of="RASP-L",
        ),
        Example(
            "count_less_frequent",
            "tokens whose symbol is less frequent",
            "h = count(s[j] == s[i]); count(h[j] < h[i])",
            _LETTERS,
            of="tracr",
        ),
        Example(
            "most_frequent",
            "whether no symbol is more frequent",
            "h = count(s[j] == s[i]); h == max(h)",
            _LETTERS,
        ),
        Example(
            "palindrome", "whether it reads the same backwards", "all(s[j] == s[n-1-j])", _LETTERS, of="softwright"
        ),
        Example(
            "first_occurrence", "where each symbol occurs first", "min(j for s[j] == s[i])", _LETTERS, of="softwright"
        ),
        Example(
            "parity",
            "whether 'a' occurred an odd number of times",
            "sum(s[j] == 'a' for j <= i) % 2",
            _LETTERS,
        ),
        Example("shift", "the symbol before", "prev(s, 1, default='#')", _BLANK, of="tracr"),
        Example(
            "majority",
            "whether 'a' is the majority so far",
            "2 * count(s[j] == 'a' and j <= i) > i + 1",
            _LETTERS,
            of="C-RASP",
        ),
        Example("count", "how often 'a' occurs", "count(s[j] == 'a')", _LETTERS, of="tracr"),
        Example("sequence_map", "a function of token and place", "2*k - i", {"k": Integers(0, 9)}, of="tracr"),
        Example("mode", "the most frequent symbol", "sorted(s, by=-count(s[j] == s[i]))[0]", _LETTERS, of="RASP-L"),
        Example(
            "all_so_far", "whether all so far are 'a'", "count(s[j] != 'a' and j <= i) == 0", _LETTERS, of="RASP-L"
        ),
        Example(
            "latest_place",
            "where each symbol occurred last before",
            "max(j for s[j] == s[i] and j <= i)",
            _LETTERS,
            of="RASP-L",
        ),
        Example(
            "counting_up",
            "the next number, back to 0 after the first one of the sequence",
            "where(k == first(k) and i > 0, 0, k + 1)",
            {"k": Integers(0, 9)},
            of="RASP-L",
        ),
        Example(
            "a_then_b",
            "whether the prefix is a^n b^n",
            "a = count(s[j] == 'a' and j <= i); b = count(s[j] == 'b' and j <= i); late = s == 'a' and b > 0; "
            "count(late[j] and j <= i) == 0 and a == b and a + b == i + 1",
            _LETTERS,
            of="C-RASP",
        ),
        Example(
            "subsequence",
            "whether a, b, c occurred in this order",
            "b = s == 'b' and any(s[j] == 'a' and j < i); c = s == 'c' and any(b[j] and j < i); any(c[j] and j <= i)",
            _LETTERS,
            of="C-RASP",
        ),
        Example(
            "more_than_twice",
            "whether 'a' occurred more than twice as often as 'b'",
            "count(s[j] == 'a' and j <= i) > 2 * count(s[j] == 'b' and j <= i)",
            _LETTERS,
            of="C-RASP",
        ),
        Example(
            "count_up",
            "whether numbers never fell",
            "all(k >= prev(k, 1, default=0))",
            {"k": Integers(0, 9)},
        ),
        Example("median", "the lower median of whole numbers", "median(k)", {"k": Integers(0, 9)}),
        Example("centre", "deviation from the mean", "x - mean(x)", _REAL),
        Example("cumulative_sum", "the sum so far", "sum(x[j] for j <= i)", _REAL),
        Example(
            "convolution",
            "weights 1, -2, 3, -2, 1, zeros outside",
            "conv(x, [1, -2, 3, -2, 1])",
            _REAL,
        ),
        Example(
            "moving_average",
            "mean of the last five",
            "(x + prev(x, 1) + prev(x, 2) + prev(x, 3) + prev(x, 4)) / min(i + 1, 5)",
            _REAL,
        ),
        Example("exponential_smoothing", "weights that fall off by 0.7", "smooth(x, 0.3)", _REAL),
        Example("running_maximum", "the largest so far", "max(x[j] for j <= i)", _REAL),
        Example("running_minimum", "the smallest so far", "min(x[j] for j <= i)", _REAL),
        Example(
            "group_mean",
            "mean over tokens of the same symbol",
            "mean(x[j] for s[j] == s[i])",
            _LETTERS | _REAL,
        ),
        Example(
            "choose_largest",
            "y where x is largest, by a margin",
            "value(y[j], where=largest(x[j]), margin=0.01)",
            {"x": (-1, 1), "y": (-1, 1)},
        ),
        *CONTINUOUS,
    )
}


def example(name: str) -> Example:
    """A row by name; an `InvalidInput` that lists the rows for a name that has none."""
    if name not in LIBRARY:
        raise InvalidInput("program", [f"no program {name!r}; there are {', '.join(LIBRARY)}"])
    return LIBRARY[name]


def examples(of: str | None = None) -> list[Example]:
    """All rows, or those from one place."""
    places = tuple(dict.fromkeys(row.of for row in LIBRARY.values()))
    if of is not None and of not in places:
        raise InvalidInput("program", [f"no programs of {of!r}; there are those of {', '.join(places)}"])
    return [row for row in LIBRARY.values() if of in (None, row.of)]
