"""Random syntax trees, and their value in ball arithmetic as the independent reference."""

from __future__ import annotations

from collections.abc import Mapping

from flint import arb
from hypothesis import strategies as st

from softwright.targets.formula.functions import ROWS
from softwright.targets.formula.nodes import Constant, Node, Number, Operation, Variable

UNARY = ["neg", *(row.name for row in ROWS if len(row.slopes) == 1)]
BINARY = [
    *("add", "sub", "mul", "div", "pow", "min", "max"),
    *(row.name for row in ROWS if len(row.slopes) == 2),
]
NUMBERS = ["0", "1", "2", "3", ".5", "0.1", "1.5e-3", "2.", "7e2", "0.30000000000000004"]


def number(text: str) -> Number:
    return Number(float(text), text)


leaves = st.one_of(
    st.sampled_from([Variable("x"), Variable("y")]),
    st.sampled_from(NUMBERS).map(number),
    st.sampled_from([Constant("pi"), Constant("e")]),
)


def _grow(children: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    comparison = st.builds(
        lambda name, a, b: Operation(name, (a, b)), st.sampled_from(["less", "less_equal"]), children, children
    )
    several = st.builds(
        lambda name, a, b: Operation(name, (a, b)), st.sampled_from(["and", "or"]), comparison, comparison
    )
    condition = st.one_of(comparison, several)
    return st.one_of(
        st.builds(lambda name, a: Operation(name, (a,)), st.sampled_from(UNARY), children),
        st.builds(lambda name, a, b: Operation(name, (a, b)), st.sampled_from(BINARY), children, children),
        st.builds(lambda a, n: Operation("pow", (a, number(str(n)))), children, st.integers(0, 5)),
        st.builds(lambda c, a, b: Operation("where", (c, a, b)), condition, children, children),
    )


trees: st.SearchStrategy[Node] = st.recursive(leaves, _grow, max_leaves=10)


class UnknownValueError(Exception):
    """The reference cannot tell: undefined there, or undecided at this precision."""


def reference(node: Node, point: Mapping[str, float]) -> arb:
    """A ball that holds the real value of the node at the point; recursive and slow, unlike what it checks."""
    if isinstance(node, Number):
        return arb(node.text)
    if isinstance(node, Constant):
        return arb.pi() if node.name == "pi" else arb(1).exp()
    if isinstance(node, Variable):
        return arb(point[node.name])
    if node.name == "where":
        return reference(node.arguments[1 if _holds(node.arguments[0], point) else 2], point)
    arguments = [reference(a, point) for a in node.arguments]
    value = _BINARY[node.name](*arguments) if node.name in _BINARY else _unary(node.name, arguments[0])
    if not value.is_finite():
        raise UnknownValueError
    return value


def _holds(condition: Node, point: Mapping[str, float]) -> bool:
    assert isinstance(condition, Operation)
    if condition.name in ("and", "or"):
        return {"and": all, "or": any}[condition.name]([_holds(a, point) for a in condition.arguments])
    a, b = (reference(side, point) for side in condition.arguments)
    yes, no = (a < b, a >= b) if condition.name == "less" else (a <= b, a > b)
    if not (yes or no):
        raise UnknownValueError
    return yes


def _unary(name: str, a: arb) -> arb:
    if name == "neg":
        return -a
    if name == "sign":
        return arb(1 if a > 0 else -1 if a < 0 else 0) if a > 0 or a < 0 or a == 0 else _unknown()
    if name in ("gamma", "lgamma") and not a > 0:
        raise UnknownValueError
    if name == "abs":
        return abs(a)
    return _WRITTEN_OUT[name](a) if name in _WRITTEN_OUT else getattr(a, name)()


def _unknown() -> arb:
    raise UnknownValueError


def _whole(a: arb) -> arb:
    value = a.floor()
    return value if value.is_exact() else _unknown()


def _rounded(a: arb) -> arb:
    below = _whole(a)
    rest = a - below
    if rest < 0.5 or (rest == 0.5 and (below / 2).is_integer()):
        return below
    return below + 1 if rest >= 0.5 else _unknown()


def _cube_root(a: arb) -> arb:
    return a.root(3) if a >= 0 else -((-a).root(3)) if a < 0 else _unknown()


def _angle(y: arb, x: arb) -> arb:
    return _unknown() if not (x > 0 or y > 0 or y < 0 or (y == 0 and x < 0)) else arb.atan2(y, x)


def _product_with_log(x: arb, y: arb) -> arb:
    return arb(0) if x == 0 else x * y.log()


# What flint has under another name, or not at all.
_WRITTEN_OUT = {
    "cbrt": _cube_root,
    "floor": _whole,
    "round": _rounded,
    "j0": lambda a: a.bessel_j(0),
    "j1": lambda a: a.bessel_j(1),
    "sigmoid": lambda a: 1 / (1 + (-a).exp()),
    "softplus": lambda a: (1 + a.exp()).log(),
    "silu": lambda a: a / (1 + (-a).exp()),
    "gelu": lambda a: a * (1 + (a / arb(2).sqrt()).erf()) / 2,
}


def _power(base: arb, exponent: arb) -> arb:
    if exponent.is_exact() and exponent == exponent.floor():
        if base == 0 and exponent < 0:
            raise UnknownValueError
        whole = exponent.unique_fmpz()
        return base ** int(whole) if whole is not None and abs(whole) < 10**6 else (base.log() * exponent).exp()
    if base == 0 and exponent > 0:
        return arb(0)
    if not base > 0:
        raise UnknownValueError
    return (base.log() * exponent).exp()


_BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": _power,
    "min": lambda a, b: a.min(b),
    "max": lambda a, b: a.max(b),
    "hypot": lambda a, b: (a**2 + b**2).sqrt(),
    "atan2": _angle,
    "xlogy": _product_with_log,
    "mod": lambda a, b: a - b * _whole(a / b),
}
