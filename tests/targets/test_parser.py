"""Parsing: the grammar, the round trip, the messages, and strings that mean harm."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings

from softwright.domain import Box
from softwright.errors import InvalidInput
from softwright.targets import parse
from softwright.targets.formula.nodes import Node, Number, Operation, Variable
from softwright.targets.formula.parser import FUNCTIONS, format_node
from softwright.targets.formula.tape import Tape
from tests.targets.trees import trees

X, Y = Variable("x"), Variable("y")
ONE, TWO = Number(1.0, "1"), Number(2.0, "2")


def op(name: str, *arguments: Node) -> Operation:
    return Operation(name, arguments)


LESS = op("less", X, Y)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("x", X),
        ("-x**2", op("neg", op("pow", X, TWO))),
        ("(-x)**2", op("pow", op("neg", X), TWO)),
        ("2**-1", op("pow", TWO, op("neg", ONE))),
        ("x**y**2", op("pow", X, op("pow", Y, TWO))),
        ("2**-x**2", op("pow", TWO, op("neg", op("pow", X, TWO)))),
        ("-x*y", op("mul", op("neg", X), Y)),
        ("x*-y", op("mul", X, op("neg", Y))),
        ("x-y-1", op("sub", op("sub", X, Y), ONE)),
        ("x/y*2", op("mul", op("div", X, Y), TWO)),
        ("x+y*2", op("add", X, op("mul", Y, TWO))),
        ("+x", X),
        ("--x", op("neg", op("neg", X))),
        ("min(x, y, 1)", op("min", op("min", X, Y), ONE)),
        ("where(x > y, 1, 2)", op("where", op("less", Y, X), ONE, TWO)),
        ("where(x >= y, 1, 2)", op("where", op("less_equal", Y, X), ONE, TWO)),
        ("where((x < y), 1, 2)", op("where", op("less", X, Y), ONE, TWO)),
        (" x\n*\ty ", op("mul", X, Y)),
        ("x if x < y else y", op("where", op("less", X, Y), X, Y)),
        ("x + 1 if x < y else y", op("where", op("less", X, Y), op("add", X, ONE), Y)),
        (
            "1 if x < y else 2 if y < x else x",
            op("where", op("less", X, Y), ONE, op("where", op("less", Y, X), TWO, X)),
        ),
        ("(1 if x < y else 2)*x", op("mul", op("where", op("less", X, Y), ONE, TWO), X)),
        ("where(1 < x <= 2, x, y)", op("where", op("and", op("less", ONE, X), op("less_equal", X, TWO)), X, Y)),
        ("where(2 > x > 1, x, y)", op("where", op("and", op("less", X, TWO), op("less", ONE, X)), X, Y)),
        (
            "where(x < 1 or y < 1 and x < y, 1, 2)",
            op("where", op("or", op("less", X, ONE), op("and", op("less", Y, ONE), op("less", X, Y))), ONE, TWO),
        ),
        ("where(not x < y, 1, 2)", op("where", op("less_equal", Y, X), ONE, TWO)),
        (
            "where(not (x < 1 and y <= 1), 1, 2)",
            op("where", op("or", op("less_equal", ONE, X), op("less", ONE, Y)), ONE, TWO),
        ),
        ("where(not not x < y, 1, 2)", op("where", op("less", X, Y), ONE, TWO)),
        (
            "where(not x < 1 or y < 1, 1, 2)",
            op("where", op("or", op("less_equal", ONE, X), op("less", Y, ONE)), ONE, TWO),
        ),
        ("log2(x)", op("div", op("log", X), op("log", TWO))),
        ("pow(x, 2)", op("pow", X, TWO)),
        ("relu(x - y)", op("max", op("sub", X, Y), Number(0.0, "0"))),
        ("clip(x, 1, y)", op("min", op("max", X, ONE), Y)),
    ],
)
def test_grammar(text: str, tree: Node) -> None:
    assert parse(text) == (tree,)


@pytest.mark.parametrize("written", ["1", "1.5", ".5", "1e-3", "2.E+4", "0.1000"])
def test_numbers_keep_their_text(written: str) -> None:
    assert parse(written) == (Number(float(written), written),)


@pytest.mark.parametrize(
    ("text", "point", "value"),
    [
        ("x if not 0 < x < 1 else 0", 0.5, 0.0),
        ("x if not 0 < x < 1 else 0", 1.0, 1.0),
        ("1 if x < 0 or x > 1 and x < 2 else 0", 1.5, 1.0),
        ("1 if x < 0 or x > 1 and x < 2 else 0", 2.0, 0.0),
        ("-1 if x < 0 else 1 if x > 0 else 0", 0.0, 0.0),
        ("2*x if x >= 1 else x, 3", 1.0, 2.0),
        ("round(x)", 2.5, 2.0),
        ("round(x)", 3.5, 4.0),
        ("mod(x, -3)", 7.0, -2.0),
        ("step(x)", 0.0, 1.0),
        ("step(-x)", 1e-300, 0.0),
        ("atan2(x - x, -1)", 1.0, 3.141592653589793),
        ("min(3, x, 2) + max(x, 1, 0)", 1.5, 3.0),
    ],
)
def test_meaning_of_choices_and_steps(text: str, point: float, value: float) -> None:
    from softwright.targets import Expression

    assert Expression(text)([[point]])[0, 0] == value  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["log10(x)", "x if 0 < x else -x", "where(0 < x < 1, 1, 2)", "where(not x < 1, 1, 2)", "normcdf(x) + relu(x)"],
)
def test_a_text_whose_words_the_trees_lack_is_kept(text: str) -> None:
    from softwright.targets import Expression

    expression = Expression(f" {text}\n")
    assert expression.text == text
    assert Expression(expression.text).nodes == expression.nodes


def test_shared_parts_do_not_blow_up_the_text() -> None:
    from softwright.targets import Expression

    nested = "x"
    for _ in range(60):
        nested = f"where(0 < {nested} < 1, 1, 2)"
    expression = Expression(nested)
    assert len(expression.text) < 10_000
    assert len(expression.kinks()) == 60 * 2
    assert expression.undefined(Box(x=(-1, 1))) == []
    assert expression([[0.5]]).shape == (1, 1)  # type: ignore[arg-type]


def test_commas_separate_outputs() -> None:
    assert parse("x, min(x, y), 2") == (X, op("min", X, Y), TWO)


@given(trees)
@settings(max_examples=300, deadline=None)
def test_text_of_a_tree_parses_back_to_it(tree: Node) -> None:
    text = format_node(tree)
    try:
        assert parse(text) == (tree,)
    except InvalidInput as error:  # random trees hold constants such as log(0)
        assert "every constant part" in str(error)


@pytest.mark.parametrize("sign", ["+", "-", "*", "/"])
@pytest.mark.parametrize("terms", [64, 65, 66, 500, 2400])
def test_long_chains_become_shallow_trees_that_round_trip(sign: str, terms: int) -> None:
    text = sign.join(["x", "y"] * (terms // 2))
    (tree,) = parse(text)
    depth: list[int] = []
    for _, arguments in Tape((tree,)).steps:
        depth.append(1 + max((depth[a] for a in arguments), default=0))
    assert max(depth) < 80
    assert parse(format_node(tree).replace(" ", "")) == (tree,)


def test_regrouping_keeps_the_value() -> None:
    from softwright.targets import Expression

    signs = "+-" * 150
    text = "x" + "".join(f"{sign}{i}*x" for i, sign in enumerate(signs))
    total = 1 + sum(i if sign == "+" else -i for i, sign in enumerate(signs))
    assert Expression(text)([[1.0]])[0, 0] == total  # type: ignore[arg-type]
    quotient = Expression("x" + "*2/2/2*2" * 60)
    assert quotient([[3.0]])[0, 0] == 3.0  # type: ignore[arg-type]


def faults_of(text: str, names: list[str] | None = None) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        parse(text, names)
    return caught.value.faults


def test_all_faults_are_listed_with_a_caret() -> None:
    faults = faults_of("z + foo(q) + x", ["x", "y"])
    assert [fault.splitlines()[0].split(";")[0] for fault in faults] == [
        "unknown variable 'z'",
        "unknown function 'foo'",
        "unknown variable 'q'",
    ]
    shown, caret = faults[1].splitlines()[1:]
    assert shown[caret.index("^")] == "f"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x^2", "write '**'"),
        ("siin(x)", "did you mean 'sin'"),
        ("foo(x)", ", ".join(FUNCTIONS)),
        ("arctan(x)", "did you mean 'atan'"),
        ("Log(x)", "did you mean 'log'"),
        ("power(x, 2)", "did you mean 'pow'"),
        ("sni(x)", "did you mean 'sin'"),
        ("\u03c0*x", "write pi"),
        ("\u03b1*x", "write alpha"),
        ("x \u2212 1", "write -"),
        ("5 % x", "mod(a, b)"),
        ("x and y", "take conditions"),
        ("not x", "take conditions"),
        ("x if y else 1", "take conditions"),
        ("x if x < 1", "has no 'else'"),
        ("x else 1", "write a if condition else b"),
        ("x if x < 1 if y < 1 else 2 else 3", "put the inner choice in parentheses"),
        ("(x < 1 if y < 1 else 2 < x)", "first argument of where"),
        ("if x < 1", "must stand here; found 'if'"),
        ("hypot(x)", "takes 2 arguments, not 1"),
        ("clip(x, 1)", "clip(x, low, high)"),
        ("log10(-1)", "is undefined"),
        ("gamma(0)", "is undefined"),
        ("atan2(0, 0)", "is undefined"),
        ("x < 1", "first argument of where"),
        ("where(x, 1, 2)", "must be a comparison"),
        ("where((0 < x) < 1, 1, 2)", "first argument of where"),
        ("where(x < 1, x < 2, 1)", "first argument of where"),
        ("x == 1", "'=='"),
        ("min(x)", "2 or more arguments"),
        ("sin(x, y)", "takes 1 arguments, not 2"),
        ("sin()", "must stand here"),
        ("sin + 1", "give its argument in parentheses"),
        ("(x, y)", "remove the parentheses"),
        ("x,", "the formula ends here"),
        ("x)", "closes nothing"),
        ("(x", "never closed"),
        ("2x", "write '*'"),
        ("1_000", "without _"),
        ("x..real", "attributes"),
        ("", "empty"),
        ("1/0 + log(-1)", "2 faults"),
        ("9**9**9**9", "exceeds float64"),
        ("0**-1", "is undefined"),
        ("asin(2)", "is undefined"),
        ("tan(pi/2)", "is undefined"),
        ("1/sin(pi)", "is undefined"),
        ("1e999*x", "outside float64"),
    ],
)
def test_messages_name_the_remedy(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "name", ["log3", "sech", "csch", "erfi", "erfinv", "sind", "exp10", "j2", "logit", "digamma", "cosd"]
)
def test_a_suggestion_never_offers_another_function(name: str) -> None:
    (fault,) = faults_of(f"{name}(x)")
    assert "did you mean" not in fault


def test_a_variable_cannot_be_called_like_a_function() -> None:
    assert "rename the variable" in faults_of("x", ["x", "sin"])[0]
    assert "rename the variable" in faults_of("x", ["x", "or"])[0]


def test_a_newer_function_is_one_only_before_a_parenthesis() -> None:
    gamma = Variable("gamma")
    assert parse("gamma*gamma(gamma)") == (op("mul", gamma, op("gamma", gamma)),)
    assert parse("round + step", ["step", "round"]) == (op("add", Variable("round"), Variable("step")),)
    assert "give its argument in parentheses" in faults_of("gamma + x", ["x"])[0]


def test_python_words_are_variables_only_if_declared() -> None:
    assert parse("lambda + 1", ["lambda"]) == (op("add", Variable("lambda"), ONE),)
    assert "word of Python" in faults_of("lambda + 1")[0]


def test_boundary_constants_are_fine() -> None:
    for text in ("sqrt(0)*x", "asin(1)*x", "0**0*x", "acos(-1)*x", "sqrt(1 - 1)*x"):
        assert parse(text)


HOSTILE = [
    "__import__('os').system('true')",
    "x.__class__",
    "().__class__.__bases__",
    "__builtins__",
    "lambda: 0",
    "lambda x: x",
    "open('file')",
    "eval('1')",
    "exec(x)",
    "x if y else z",
    "[x for x in y]",
    "x; y",
    "import os",
    "f'{x}'",
    "(" * 100_000,
    "(" * 4_000 + "x" + ")" * 4_000,
    "-" * 100_000 + "x",
    "-" * 9_000 + "x",
    "+" * 9_000,
    "sin(" * 2_000 + "x" + ")" * 1_900,
    "2**" * 3_000 + "x",
    "x" * 100_000,
    "x+" * 50_000 + "x",
    "abs(-" * 150 + "x" + ")" * 150,
    "where(x<" * 1_000,
    "not " * 3_000 + "x<1",
    "where(" + "not " * 3_000 + "x<1,1,2)",
    "where(" + "x<" * 3_000 + "1,1,2)",
    "where(" + " and ".join(["x<1"] * 1_500) + ",1,2)",
    "x if x<1 else " * 700 + "x",
    "if " * 3_000,
    "normcdf(" * 150 + "x" + ")" * 150,
    "9**9**9**9",
    "9**9**9**9**9*x",
    "9" * 9_000,
    "0." + "0" * 9_000 + "1",
    "1e-999999999",
    "0e999999999",
    "1e" + "9" * 9_000,
    "\u0663 + x",  # an Arabic-Indic digit
    "\uff11",  # a full-width digit
    "x\x00",
    "\x00",
    "x \u2212 y",  # a typographic minus
    "\U0001f40d",
    "," * 5_000,
    "x y " * 2_000,
    "^" * 9_999,
    "q" * 4_000 + "(x)",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_strings_are_refused_quickly(text: str) -> None:
    def refusal() -> tuple[float, int]:
        start = time.process_time()
        with pytest.raises(InvalidInput) as caught:
            parse(text)
        return time.process_time() - start, len(str(caught.value))

    seconds, length = min(refusal(), refusal())  # garbage of other tests may be collected during one of them
    assert seconds < 0.5
    assert length < 20_000


def test_depth_within_the_limit_is_read() -> None:
    (tree,) = parse("sin(" * 190 + "x" + ")" * 190)
    assert parse(format_node(tree)) == (tree,)


def test_not_a_string() -> None:
    with pytest.raises(InvalidInput, match="put it in quotes"):
        parse(3)  # type: ignore[arg-type]
