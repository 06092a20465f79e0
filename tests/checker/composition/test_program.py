"""Programs are read strictly: forms are linear with exact constants, features read earlier layers, all are read."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from flint import arb, fmpq

from softwright.checker.composition.program import SHAPES, read_form, read_program, substituted
from softwright.checker.parser import Parser
from softwright.checker.refusal import NotProvedError

NAMES = ["x", "y"]
KEYS = ("name", "kind", "layer", "score", "value", "base", "function")


def feature(name: str, kind: str, layer: int, score: str, value: str = "0", base: str = "0", function: str = "") -> Any:
    return dict(zip(KEYS, (name, kind, layer, score, value, base, function), strict=True))


def good() -> dict[str, Any]:
    return {
        "features": [
            feature("u1", "table", 1, "x + 2*y", function="sin(u)"),
            feature("u2", "maximum", 1, "x - y", base="y"),
            feature("u3", "product", 2, "u1", value="u2"),
            feature("u4", "exponential", 3, "u3/3 - log(2)", value="x"),
            feature("u5", "step", 3, "x - u1", value="y"),
            feature("u6", "copy", 3, "x - u2"),
        ],
        "outputs": ["pi*u4 - 1 + u5 + u6"],
        "tables": [],
    }


def test_forms_have_exact_constants() -> None:
    form = read_form("(x - 3*y)/7 - (2*x + 1)*log(2) + 5 - x/7", NAMES)
    assert [i for i, _ in form.terms] == [0, 1]
    assert form.balls[1] == arb(fmpq(-3, 7)) or form.balls[1].overlaps(arb(fmpq(-3, 7)))
    assert form.balls[0].overlaps(-2 * arb.const_log2())
    assert form.offset.overlaps(5 - arb.const_log2())
    assert read_form("x - x", NAMES).terms == ()


@pytest.mark.parametrize(
    "text", ["x*y", "x**2", "sin(x)", "1/x", "x if x > 0 else y", "z", "x, y", "abs(x)", "x/0", ""]
)
def test_what_is_not_linear_is_no_form(text: str) -> None:
    with pytest.raises((NotProvedError, IndexError)):
        form = read_form(text, NAMES)
        assert all(c.is_finite() for c in form.balls.values())


def test_a_program_says_what_its_features_mean() -> None:
    program = read_program(good(), NAMES)
    assert program.depth == 3
    assert [feature.place for feature in program.features] == [2, 3, 4, 5, 6, 7]
    wanted = Parser("x*exp(a/3 - log(2))", ["x", "y", "s", "m", "a"]).outputs()[0]
    meaning = program.features[3].meaning
    assert meaning[0] == wanted[0] == "product"
    assert substituted(("variable", 1), {1: ("pi",)}) == ("pi",)


CHANGES: dict[str, Any] = {
    "a kind that is not known": lambda p: p["features"][0].update(kind="oracle"),
    "a table without a function": lambda p: p["features"][0].update(function=""),
    "a product with a function": lambda p: p["features"][2].update(function="u"),
    "a table with a value": lambda p: p["features"][0].update(value="x"),
    "a function of two variables": lambda p: p["features"][0].update(function="u + x"),
    "a function of two values": lambda p: p["features"][0].update(function="u, u"),
    "a feature of its own layer": lambda p: p["features"][2].update(layer=1),
    "layers out of order": lambda p: p["features"][4].update(layer=2),
    "a layer left out": lambda p: p["features"][4].update(layer=7),
    "a feature that reads itself": lambda p: p["features"][2].update(value="u3"),
    "a feature that reads a later one": lambda p: p["features"][2].update(value="u4"),
    "a constant score": lambda p: p["features"][2].update(score="3"),
    "a name twice": lambda p: p["features"][1].update(name="u1"),
    "the name of an input": lambda p: p["features"][1].update(name="x"),
    "a name that is none": lambda p: p["features"][1].update(name="2u"),
    "a feature that nobody reads": lambda p: p.update(outputs=["u4"]),
    "no outputs": lambda p: p.update(outputs=[]),
    "no features": lambda p: p.update(features=[]),
    "too many features": lambda p: p.update(features=p["features"] * 1000),
    "too many outputs": lambda p: p.update(outputs=["u4"] * 1000),
    "too long": lambda p: p.update(outputs=["u4 + " * 1000 + "u4"] * 60),
    "an entry too many": lambda p: p.update(remark=[]),
    "an entry too many in a feature": lambda p: p["features"][0].update(remark=""),
    "an entry missing": lambda p: p["features"][0].pop("base"),
    "a layer that is no number": lambda p: p["features"][0].update(layer=True),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_not_a_program_is_refused(change: str) -> None:
    parts = copy.deepcopy(good())
    CHANGES[change](parts)
    with pytest.raises(NotProvedError):
        read_program(parts, NAMES)


def test_every_kind_has_a_meaning() -> None:
    parts = good()
    program = read_program(parts, NAMES)
    assert {feature.kind for feature in program.features} == set(SHAPES)
    for one in program.features:
        assert isinstance(one.meaning, tuple)
