"""The checker's reading of formulas: Python's own grammar and mpmath are asked for a second opinion."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from softwright.checker.functions import FUNCTIONS
from softwright.checker.parser import Parser
from softwright.checker.refusal import NotProvedError, UndefinedError, printable
from softwright.checker.taylor import ZERO, Model, Space, evaluate
from softwright.checker.trees import additive_terms, depth, nonnegative, rational_value, renamed
from softwright.checker.verify import verify
from softwright.errors import InvalidInput
from softwright.targets import Expression
from tests.checker.checker_support import Case, sine_case
from tests.checker.reference import Undefined, ball, value_of

NAMES = ["x", "y"]


@pytest.fixture(autouse=True)
def precision() -> Iterator[None]:
    before = ctx.prec, ctx.cap
    ctx.prec, ctx.cap = 128, 64
    yield
    ctx.prec, ctx.cap = before


def model_at(text: str, point: list[float], radius: float = 0.0) -> Model:
    space = Space(len(point), 4)
    axes = [[arb(radius) if i == k else ZERO for k in range(len(point))] for i in range(len(point))]
    variables = [Model(space, space.linear(arb(x), axis)) for x, axis in zip(point, axes, strict=True)]
    return evaluate(Parser(text, NAMES).outputs()[0], variables)


# ------------------------------------------------------------------------------------------------ random formulas


def is_condition(node: ast.AST) -> bool:
    """Whether Python's tree is a condition or a number; ValueError if it mixes them up."""

    def kinds(nodes: list[ast.expr], wanted: bool) -> None:
        if any(is_condition(child) is not wanted for child in nodes):
            raise ValueError("a condition in the place of a number, or a number in that of a condition")

    if isinstance(node, ast.BoolOp):
        kinds(node.values, True)
        return True
    if isinstance(node, ast.Compare):
        kinds([node.left, *node.comparators], False)
        return True
    if isinstance(node, ast.UnaryOp):
        kinds([node.operand], isinstance(node.op, ast.Not))
        return isinstance(node.op, ast.Not)
    if isinstance(node, ast.BinOp):
        kinds([node.left, node.right], False)
    if isinstance(node, ast.IfExp):
        kinds([node.test], True)
        kinds([node.body, node.orelse], False)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        conditions = FUNCTIONS[node.func.id].conditions
        kinds(node.args[:conditions], True)
        kinds(node.args[conditions:], False)
    return False


def call(name: str, value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    row = FUNCTIONS[name]
    count = min(row.arity[-1], 3)
    return st.lists(value, min_size=count, max_size=count).map(lambda args: f"{name}({', '.join(args)})")


def extended(value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    compare = st.tuples(value, st.sampled_from(["<", " <= ", ">", " >= "]), value).map("".join)
    chain = st.tuples(compare, st.sampled_from(["<", " <= ", ">", " >= "]), value).map("".join)
    simple = st.one_of(compare, chain, compare.map(lambda c: f"not {c}"), compare.map(lambda c: f"({c})"))
    condition = st.one_of(
        simple,
        st.tuples(simple, st.sampled_from([" and ", " or "]), simple).map("".join),
        st.tuples(simple, simple, simple).map(lambda c: f"{c[0]} or not ({c[1]} or {c[2]})"),
    )
    functions = [call(name, value) for name, row in sorted(FUNCTIONS.items()) if not row.conditions]
    return st.one_of(
        st.tuples(value, st.sampled_from([" + ", "-", "*", " / ", "**"]), value).map("".join),
        st.one_of(functions),
        st.one_of(functions),
        value.map(lambda t: f"({t})"),
        value.map(lambda t: f"-{t}"),
        st.tuples(condition, value, value).map(lambda p: f"where({p[0]}, {p[1]}, {p[2]})"),
        st.tuples(value, condition, value).map(lambda p: f"({p[0]} if {p[1]} else {p[2]})"),
        st.tuples(value, condition, value).map(lambda p: f"{p[0]} if {p[1]} else {p[2]}"),
    )


TEXTS = st.recursive(st.sampled_from(["x", "y", "x", "y", "2", "0.5", "pi", "e", "1.3", "3"]), extended, max_leaves=7)
NUMBERS = st.sampled_from([0.3712, 0.8391, -0.6125, 1.75, 0.0, 1.0, -2.5, 3.375])


@settings(max_examples=400, deadline=None)
@given(TEXTS, NUMBERS, NUMBERS)
def test_formulas_have_the_value_that_python_and_mpmath_give_them(text: str, x: float, y: float) -> None:
    """At a point: a formula is read as Python reads it, refused where it mixes numbers and conditions, and its value is
    in the model's ball; where there is no value, there is no model."""
    tree = ast.parse(text, mode="eval").body
    try:
        good = not is_condition(tree)
    except ValueError:
        good = False
    try:
        model = model_at(text, [x, y])
    except UndefinedError:
        assert good
        return
    except NotProvedError as error:
        assert not good or "exponent" in str(error)
        return
    assert good
    try:
        value = value_of(text, {"x": x, "y": y})
    except Undefined:
        pytest.fail(f"{text} has no value at {x}, {y}, but a model was found")
    except (OverflowError, MemoryError):  # mpmath has no numbers of that size
        return
    if mp.isfinite(value):
        assert (model.parts[0][0] + arb(0, 1) * model.error).overlaps(ball(value)), text


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.floats(-2, 2), st.floats(-2, 2), st.sampled_from([1e-4, 0.03, 0.4]))
def test_models_of_random_formulas_hold_them(text: str, x: float, y: float, radius: float) -> None:
    try:
        model = model_at(text, [x, y], radius)
    except NotProvedError:
        return
    low, high = model.bounds()
    for s, t in [(0.0, 0.0), (1.0, -1.0), (-1.0, 1.0), (0.3, 0.7), (-0.9, -0.2)]:
        at = {"x": mp.mpf(x) + mp.mpf(radius) * s, "y": mp.mpf(y) + mp.mpf(radius) * t}
        try:
            value = value_of(text, at)
        except Undefined:
            pytest.fail(f"{text} has no value at {at}, but a model was found")
        except (OverflowError, MemoryError):
            return
        if mp.isfinite(value):
            assert low.union(high).overlaps(ball(value)), f"{text} at {at}"


@settings(max_examples=250, deadline=None)
@given(TEXTS, st.floats(-2, 2), st.floats(-2, 2))
def test_builder_and_checker_read_the_same_formula(text: str, x: float, y: float) -> None:
    """What the builder accepts the checker reads; the builder's float is in the checker's range about the point."""
    try:
        value = float(Expression(text, NAMES)(np.array([[x, y]]))[0, 0])
    except InvalidInput:
        return
    try:
        low, high = model_at(text, [x, y], 1e-7).bounds()
    except NotProvedError as error:
        assert isinstance(error, UndefinedError) or "exponent" in str(error)
        return
    if np.isfinite(value) and abs(value) < 1e8:
        slack = 1e-6 * (1 + abs(value))
        assert low - slack <= value <= high + slack


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("-x**2", "-(x**2)"),
        ("2**-x", "2**(-x)"),
        ("2**x**y", "2**(x**y)"),
        ("x - y - 1", "(x - y) - 1"),
        ("x/y/2", "(x/y)/2"),
        ("where(0 < x <= 1, 1, 2)", "where(0 < x and x <= 1, 1, 2)"),
        ("1 if x < 0 or y < 0 and x > 9 else 2", "where(x < 0 or (y < 0 and x > 9), 1, 2)"),
        ("1 if not x < 0 and y < 0 else 2", "where((not (x < 0)) and y < 0, 1, 2)"),
        ("1 if x < 0 else 2 if y < 0 else 3", "1 if x < 0 else (2 if y < 0 else 3)"),
        ("-x if x < 0 else x + 1", "where(x < 0, -x, x + 1)"),
        ("x*2 if not not x < y else 1", "where(x < y, x*2, 1)"),
        ("where((x < y), (x), (1))", "x if x < y else 1"),
        ("min(x, y, 1, x*y)", "min(min(min(x, y), 1), x*y)"),
        ("clip(x, -1, 1)", "min(max(x, -1), 1)"),
        ("relu(x)", "max(x, 0)"),
        ("pow(x, 3)", "x**3"),
        ("ln(2 + x)", "log(2 + x)"),
        ("where(x<1 and(y<1)or not(x>2),1,2)", "where((x < 1 and y < 1) or not (x > 2), 1, 2)"),
    ],
)
def test_what_is_written_short_means_what_is_written_long(text: str, same: str) -> None:
    for point in [[0.25, -0.5], [-0.75, 0.5], [1.0, 2.5], [1.5, 0.0], [-0.5, -0.25]]:
        try:
            one = model_at(text, point)
        except UndefinedError:
            with pytest.raises(UndefinedError):
                model_at(same, point)
            continue
        assert one.parts[0][0].overlaps(model_at(same, point).parts[0][0])
        assert one.error == 0


# --------------------------------------------------------------------------------------------- names, limits, hostility


def test_a_name_before_a_parenthesis_is_a_function_and_any_other_a_variable() -> None:
    """Files of the first version may have variables that are functions today."""
    names = ["gamma", "step", "round"]
    tree = Parser("gamma*step + gamma(gamma) - round(round) + round", names).outputs()[0]
    found = [node[0] for _, node in additive_terms(tree)]
    assert found == ["product", "gamma", "round", "variable"]
    assert tree[1][1][1] == ("gamma", ("variable", 0))


@pytest.mark.parametrize(
    "name", ["and", "or", "not", "if", "else", "pi", "e", "", "2x", "x y", "x\x1b[31m", "ä", "x-1"]
)
def test_names_that_no_variable_can_have(name: str) -> None:
    with pytest.raises(NotProvedError, match="a variable cannot be called") as caught:
        Parser("1", [name])
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        *[
            "x if y",
            "x if y else",
            "x if y else 1",
            "if x < y",
            "x else y",
            "x and y",
            "not x",
            "x or y",
            "where(x, 1, 2)",
        ],
        *["where(x < y and 2, 1, 2)", "x < y", "(x < y) + 1", "-(x < y)", "sin(x < y)", "where(x < y, x < y, 1)"],
        *["(x < y) < 1", "where(not, 1, 2)", "where(x < , 1, 2)", "where(x < y)", "x < y < x", "1 + not x < y"],
        *["where(x < not y, 1, 2)", "x <> y", "where(x == y, 1, 2)", "where(x != y, 1, 2)", "lambda x: x", "x & y"],
        *["floor()", "floor(x, y)", "atan2(x)", "clip(x, y)", "max(x)", "hypot(x, y, x)", "xlogy(x)", "step", "gamma"],
        *["and", "x(y)", "pi(x)", "e(1)", "foo(x)", "sin", "x.real", "x[0]", "x;y", "x\x00y", "x\u00a0+ y", "x\x0b"],
        *["π*x", "x²", "٣*x", "__import__('os')", "x if x < y else y, x < y", "(x, y)", "2x", "1_000", "0x10", "1e"],
    ],
)
def test_what_is_not_a_formula_is_refused_in_one_printable_line(text: str) -> None:
    with pytest.raises(NotProvedError) as caught:
        Parser(text, NAMES).outputs()
    assert str(caught.value).isprintable()


NESTED = {
    "parentheses": "(" * 4000 + "x" + ")" * 4000,
    "functions": "sin(" * 1900 + "x" + ")" * 1900,
    "signs": "-" * 9000 + "x",
    "powers": "x**" * 3000 + "x",
    "not": "1 if " + "not " * 2400 + "x < y else 2",
    "choices": "1 if x < y else " * 600 + "2",
    "where": "where(x < y, 1, " * 500 + "2" + ")" * 500,
    "conditions": "where(" * 500 + "x" + " < 1, 1, 2)" * 500,
    "left": "(" * 1500 + "x" + " + 1)*2" * 1200,
}


@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
def test_deep_formulas_end_in_a_clear_refusal(text: str) -> None:
    started = time.perf_counter()
    with pytest.raises(NotProvedError, match="nests more than"):
        Parser(text, NAMES).outputs()
    assert time.perf_counter() - started < 2


LEVELS = 99
DEEP = {
    "sums": "(" * LEVELS + "x" + " + 1)*0.5" * LEVELS,
    "right": "1 + 0.5*(" * LEVELS + "x" + ")" * LEVELS,
    "chains": "where(0 < " * 60 + "x" + " < 1, 0.5, 2)" * 60,
    "both": "where(x < 2 and y < 2 or " * 60 + "x < 0" + ", 1, 2) < 3" * 59 + ", 1, 2)",
    "mod": "mod(1.5 + " * 60 + "x" + ", 7)" * 60,
    "choices": "1 if x < -5 else " * 100 + "x",
    "long sum": "x" + " + x*y" * 1500,
    "long max": "max(x" + ", y" * 3000 + ")",
    "long and": "where(x < 9" + " and y < 9" * 900 + ", x, y)",
    "long chain": "where(-1" + " < x" * 1 + " <= 5" * 1900 + ", x, y)",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_work_grows_with_the_length_of_the_text(text: str) -> None:
    """Nothing is doubled from level to level, and no stack overflows."""
    started = time.perf_counter()
    tree = Parser(text, NAMES).outputs()[0]
    assert depth(tree) <= 200
    model = model_at(text, [0.25, 0.5], 0.125)
    assert model.error.is_finite()
    assert renamed(tree, [0, 1]) == tree
    assert time.perf_counter() - started < 5


def test_trees_without_recursion() -> None:
    tree = Parser("x - (y + 2*x) - -(x - y)", NAMES).outputs()[0]
    signs = [(sign, node[0]) for sign, node in additive_terms(tree)]
    assert signs == [(1, "variable"), (-1, "variable"), (-1, "product"), (1, "variable"), (-1, "variable")]
    swapped = renamed((1, tree), [1, 0])
    assert swapped[1] == Parser("y - (x + 2*y) - -(y - x)", NAMES).outputs()[0]
    with pytest.raises(NotProvedError, match="leaves out a variable"):
        renamed((1, tree), [0])


@pytest.mark.parametrize(
    ("text", "value"),
    [("2**3**2", "512"), ("-2**2", "-4"), ("1/3 - 2*0.5", "-2/3"), ("2**-2", "1/4"), ("0**0", "1")],
)
def test_rational_constants_are_exact(text: str, value: str) -> None:
    assert str(rational_value(Parser(text, []).outputs()[0])) == value


@pytest.mark.parametrize("text", ["x", "1/0", "0**-1", "2**0.5", "2**2**2**2**2**2", "pi", "sin(0)", "10**400**3"])
def test_other_constants_are_left_to_balls(text: str) -> None:
    assert rational_value(Parser(text, NAMES).outputs()[0]) is None


@pytest.mark.parametrize(
    "text", ["x**2 + y*y", "abs(x)*3", "x*y*x*y", "(x - 1)**4/2", "2 + (x*x)**0.5", "x*x/y/y", "pi"]
)
def test_forms_that_are_never_negative(text: str) -> None:
    assert nonnegative(Parser(text, NAMES).outputs()[0])


@pytest.mark.parametrize(
    "text", ["x", "x*y", "x**3", "x*x - 1", "-x*x", "x*x*x", "y**2 + x", "-1", "x**x", "sin(x)", "2*x*x*y"]
)
def test_forms_that_may_be_negative(text: str) -> None:
    assert not nonnegative(Parser(text, NAMES).outputs()[0])


HOSTILE = "\x1b[2K\rVERIFIED: all is well\n\x07\x9b31m\u202eabc\u2028\ud800\x00"


def test_nothing_printable_is_an_order_to_the_terminal() -> None:
    shown = printable(HOSTILE)
    assert shown.isprintable()
    assert "\\x1b[2K\\rVERIFIED: all is well\\n" in shown
    assert printable("ordinary, ü π 'text'") == "ordinary, ü π 'text'"
    for text in ("a" * 10**6, HOSTILE * 1000):
        assert len(printable(text, 50)) <= 50
        assert printable(printable(text)) == printable(text)


def hostile_places(case: Case) -> Iterator[Callable[[], None]]:
    """Everything of a file that a message may quote."""
    said, text = case.certificate, HOSTILE.replace("\ud800", "")
    for name in ("schema", "engine", "norm", "p", "dtype", "weights_sha256", "variables", "boxes", "tree", "order"):
        yield lambda name=name: said.update({name: text})
    yield lambda: case.model.update(kind=text)
    yield lambda: case.model.update(dtype=text)
    yield lambda: said.update(target=case.target | {"text": text})
    yield lambda: (case.target.update(text=f"x + {text}"), said.update(target=case.target))[0]
    yield lambda: (case.target.update(kind=text), said.update(target=case.target, assumptions=[text]))[0]
    yield lambda: case.tensors.update({text: case.tensors["center"]})
    yield lambda: (case.tensors.update({text: case.tensors["center"]}), case.sign())[0]
    yield lambda: said.update(hex={})
    yield lambda: said.update(domain={text: [0.0, 1.0]}, variables=[text])
    closed = {"schema": "softwright-closed-form/1", "method": text, "statement": text}
    yield lambda: (case.target.update(kind="function"), said.update(target=case.target, **closed))[0]


@pytest.mark.parametrize("which", range(20))
def test_no_text_of_a_file_reaches_the_terminal_as_it_is(which: int, tmp_path: Path) -> None:
    case = sine_case()
    list(hostile_places(case))[which]()
    verdict = verify(case.write(tmp_path / "hostile.safetensors"))
    assert not verdict.verified
    assert verdict.reason
    assert str(verdict).isprintable()
