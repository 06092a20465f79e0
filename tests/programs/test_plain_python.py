"""Programs that nobody wrote, against a reading of their own by Python's parser (`plain_python`)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import softwright as sw
from softwright.errors import InvalidInput
from softwright.precision import precision_of
from softwright.programs.build import build
from softwright.programs.examples.library import LIBRARY
from softwright.programs.meaning import meaning
from tests.programs.plain_python import Plain

TOKENS = sw.Sequence(length=(1, 6), s=sw.Symbols("abc", also="z"), k=sw.Integers(-2, 3), t=sw.Truths())


def wholes(tokens: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Whole numbers of the tokens named: "" is the token itself, "[i]" and "[j]" those of an aggregate."""
    places = {"": "i", "[i]": "i", "[j]": "j"}
    leaf = st.sampled_from([f"k{t}" for t in tokens] + [places[t] for t in tokens] + ["n", "2", "1", "3"])
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["+", "-"]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
            st.tuples(inner, st.sampled_from(["// 2", "% 3", "* 2"])).map(lambda p: f"({p[0]} {p[1]})"),
            st.tuples(st.sampled_from(["max", "min"]), inner, inner).map(lambda p: f"{p[0]}({p[1]}, {p[2]})"),
            inner.map(lambda p: f"abs({p})"),
        ),
        max_leaves=3,
    )


def truths(tokens: tuple[str, ...]) -> st.SearchStrategy[str]:
    sides = [f"s{t}" for t in tokens]
    number = st.one_of(*(wholes((t,)) for t in tokens))
    leaf = st.one_of(
        st.sampled_from(
            [f"t{t}" for t in tokens]
            + [f"{a} {op} {b}" for a in sides for op in ("==", "<=", ">") for b in [*sides, "'b'"]]
        ),
        st.tuples(number, st.sampled_from(["<", "<=", "==", "!=", ">="]), number).map(" ".join),
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
            inner.map(lambda p: f"(not {p})"),
        ),
        max_leaves=3,
    )


PAIR = truths(("[i]", "[j]"))
AGGREGATE = st.one_of(
    PAIR.map(lambda c: f"count({c})"),
    st.tuples(wholes(("[j]",)), PAIR).map(lambda p: f"sum({p[0]} for {p[1]})"),
    st.tuples(st.sampled_from(["max", "min", "mean"]), st.sampled_from(["k[j]", "j", "2*k[j] - 1"]), PAIR).map(
        lambda p: f"{p[0]}({p[1]} for {p[2]})"
    ),
    st.tuples(st.sampled_from(["sum", "mean"]), wholes(("[i]",)), wholes(("[j]",))).map(
        lambda p: f"{p[0]}({p[1]}*{p[2]} - {p[1]} for j <= i)"
    ),
    st.tuples(
        st.sampled_from(["max", "min"]), wholes(("[j]",)), st.sampled_from(["s[j] == s[i]", "j <= i", "t[j]"])
    ).map(lambda p: f"{p[0]}({p[1]} for {p[2]})"),
    st.sampled_from(["k[(i + 2) % n]", "k[i // 2]", "prev(k, 1, default=k)", "max(k[j] for abs(i - j) <= 1)"]),
    st.sampled_from(
        ["prev(k, 1, default=2)", "at(k, i + 1, default=-1)", "sorted(k)[i]", "k[n-1-i]", "first(k)", "median(k)"]
    ),
    st.sampled_from(
        ["table(k, [-2, 1], [7, 4], default=0)", "table(s, ['a', 'z'], [3, 5], default=1)", "sorted(k, by=s)[i]"]
    ),
)
VALUE = st.one_of(
    AGGREGATE,
    st.tuples(truths(("",)), AGGREGATE, AGGREGATE).map(lambda p: f"{p[1]} if {p[0]} else {p[2]}"),
    st.tuples(AGGREGATE, st.sampled_from(["+", "-", "*", "<", "==", ">="]), AGGREGATE).map(
        lambda p: f"({p[0]}) {p[1]} ({p[2]})"
    ),
    PAIR.map(lambda c: f"b = count({c}); sum(b[j] for b[j] <= b[i]), any(b >= 2)"),
    st.tuples(truths(("",)), st.sampled_from(["s", "prev(s, 1, default='z')", "sorted(s)[i]"])).map(
        lambda p: f"{p[1]} if {p[0]} else 'z'"
    ),
)


def agrees(text: str, tokens: sw.Sequence, dtype: str, seed: int, lengths: tuple[int, ...]) -> None:
    meant = meaning(text, tokens)
    made, rng = build(meant, precision_of(dtype), Fraction(1, 100)), np.random.default_rng(seed)
    bound = float(max(made.errors))
    for n in lengths:
        fields = {
            name: rng.uniform(f.low, f.high, n).astype(np.float32).astype(float).tolist()
            if f.kind == "real"
            else [int(c) for c in rng.choice(tokens.codes(name), n)]
            for name, f in tokens.fields.items()
        }
        x = torch.tensor([[row] for row in fields.values()], dtype=made.network.dtype).permute(1, 2, 0)
        exact = {name: [Fraction(v) for v in row] for name, row in fields.items()}
        wanted = Plain(text, exact, tokens.symbols).outputs
        with torch.no_grad():
            found = made.network(x)[0].double().numpy()
        for row, values in zip(wanted, found, strict=True):
            assert all(
                abs(Fraction(float(v)) - Fraction(w)) <= Fraction(bound) for w, v in zip(row, values, strict=True)
            ), (
                text,
                fields,
            )


@settings(max_examples=60, deadline=None)
@given(VALUE, st.sampled_from(["float64", "float32"]), st.integers(0, 10**6))
def test_drawn_programs_are_what_plain_python_says(text: str, dtype: str, seed: int) -> None:
    try:
        agrees(text, TOKENS, dtype, seed, (1, 3, 6, 6))
    except InvalidInput as refused:
        assert "\n" in str(refused)  # a refusal shows the place


def test_the_library_is_what_plain_python_says() -> None:
    for row in LIBRARY.values():
        tried = not any(word in row.text for word in ("smooth(", "conv(", "value(")) and set(row.fields) <= {
            "s",
            "k",
            "x",
        }
        if tried and row.of != "softwright":
            agrees(row.text, row.tokens(7), "float32", 5, (1, 2, 7, 7))
