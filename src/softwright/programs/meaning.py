"""`meaning`: what a program's text says, as terms; names resolved, sugar written out, everything typed.

Outside aggregates a name is the value at token i. Inside sum, mean, max, min, count, any and all there are two tokens:
x[i] is that of the token that asks, x[j] that of the token that is looked at, and a bare x is x[j]. What depends on one
of the two alone is one term at that token; so count(s[j] == 'a' and j <= i) counts where j(s == 'a') and j <= i.

    count(c)                sum(1 for c)                      a > b, a >= b        b < a, b <= a
    any(c), all(c)          0 < count(c), count(not c) == 0   prev(a), conv(a, [..]) and the like: `reading/calls.py`
    table(e, [v, ..], default=d)    value number e, d outside; table(e, [k, ..], [v, ..], default=d): v where e == k
    a[j] + b[i] < c         a[j] < c - b[i]: what token j has on the left, what token i has on the right
    softmax(a) and the like: `definitions.py`                 sin(a), exp(a), ..   map:sin(a), map:exp(a), ..
"""

from __future__ import annotations

from fractions import Fraction

from softwright.programs.fields import RESERVED, Sequence
from softwright.programs.linear import constant, is_inside, set_apart
from softwright.programs.reading.calls import RULES
from softwright.programs.reading.cases import Cases
from softwright.programs.reading.tables import table_of
from softwright.programs.reading.windows import summed
from softwright.programs.reals.definitions import DEFINITIONS
from softwright.programs.reals.functions import MAPS
from softwright.programs.syntax import Program, Syntax, read_program
from softwright.programs.terms import Pool, Term
from softwright.programs.types import Refused, Type, Types
from softwright.targets.formula.suggestions import variable_meant
from softwright.targets.formula.tokens import FormulaFaults

PI = Fraction("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803")  # to 1e-86
AGGREGATE_NAMES = {"sum": "sum", "mean": "mean", "max": "max_of", "min": "min_of", "count": "sum"}
FUNCTIONS = ["sum", "mean", "max", "min", "count", "any", "all", *RULES, "largest", "smallest"]
_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
_SCOPES = (
    "sum",
    "mean",
    "max",
    "min",
    "count",
    "any",
    "all",
    "value",
    "attend",
)  # i and j are the tokens of these alone
Sided = tuple[str, Term]  # "" (the same for all tokens), "i", "j" or "both"


class Meaning:
    """The terms of a program: `outputs`, with their names and types."""

    def __init__(self, text: str, tokens: Sequence) -> None:
        self.text, self.tokens = text, tokens
        self.pool, self.types = Pool(), Types(tokens)
        self.faults = FormulaFaults(text if isinstance(text, str) else "")
        self.locals: dict[str, Term] = {}
        self.outputs: list[Term] = self._read(read_program(text))

    def _read(self, program: Program) -> list[Term]:
        for name, value in program.locals:
            free = name not in self.tokens.fields and name not in RESERVED and name not in self.locals
            if not free:
                self.faults.at(value.position, f"{name!r} has a meaning already; choose another name")
            found = self._typed(value)
            if found is not None:
                self.locals[name] = found
        outputs = [found for node in program.outputs if (found := self._typed(node)) is not None]
        self.faults.raise_if_any()
        return outputs

    def _typed(self, node: Syntax) -> Term | None:
        try:
            term = self.token(node)
            self.types.of(term)
            return term
        except Refused as refused:
            self.faults.at(refused.term.place, refused.reason)
        return None

    def type_of(self, term: Term) -> Type:
        return self.types.of(term)

    # ------------------------------------------------------------------------------------------------- at one token

    def token(self, node: Syntax) -> Term:
        """The value of a node at token i."""
        pool = self.pool
        pool.place = node.position
        if node.op == "number":
            return pool.number(Fraction(node.value))
        if node.op == "text":
            return self._symbol(node)
        if node.op == "name":
            return self._name(node)
        if node.op == "subscript":
            return self._item(node.args[0], self.token(node.args[1]), None)
        if node.op == "list":
            raise self.refused("a list stands for the weights of conv(x, [1, -2, 1]) and the values of a table alone")
        if node.op == "call":
            return self._call(node)
        return self.operation(node.op, [self.token(arg) for arg in node.args], node.position)

    def refused(self, reason: str) -> Refused:
        return Refused(self.pool.make("here", value=self.pool.place), reason)

    def _symbol(self, node: Syntax) -> Term:
        if node.value not in self.tokens.symbols:
            known = " ".join(self.tokens.symbols) or "none"
            raise self.refused(f"{node.value!r} is no symbol of the fields; known are: {known}")
        return self.pool.make("symbol", value=node.value)

    def _name(self, node: Syntax) -> Term:
        name, pool = node.value, self.pool
        if name in self.locals:
            return self.locals[name]
        if name in self.tokens.fields:
            return pool.make("field", value=name)
        if name == "i":
            return pool.make("position")
        if name == "n":
            return pool.make("length")
        if name == "pi":
            return pool.number(PI)
        if name in ("true", "false"):
            return pool.make("eq", pool.number(0), pool.number(0 if name == "true" else 1))
        if name == "j":
            raise self.refused("j is the token that sum, mean, max, min and count look at; write i here")
        meant = variable_meant(name, self.tokens.names)
        raise self.refused(f"{name!r} is unknown{meant}; fields are {', '.join(self.tokens.names)}, places i and n")

    def operation(self, op: str, args: list[Term], position: int) -> Term:
        pool = self.pool
        pool.place = position
        if op in ("gt", "ge"):
            op, args = {"gt": "lt", "ge": "le"}[op], args[::-1]
        if op in ("lt", "le"):
            for place, join in ((0, "and"), (1, "or")):
                if args[place].op == "abs" and _of_both(args[place]):
                    return self._without_abs(op, args, place, join)
        if op == "ne":
            return pool.make("not", pool.make("eq", *args))
        if op == "pow" and args[1].op == "number" and args[1].value == 2:
            return pool.make("mul", args[0], args[0])
        return pool.make(op, *args)

    def _without_abs(self, op: str, args: list[Term], place: int, join: str) -> Term:
        """|a| < b is a < b and -a < b; b < |a| is b < a or b < -a."""
        pool, inner, other = self.pool, args[place].args[0], args[1 - place]
        parts = []
        for one in (inner, pool.make("neg", inner)):
            sides = (one, other) if place == 0 else (other, one)
            parts.append(pool.make(op, *(set_apart(pool, *sides) or sides)))
        return pool.make(join, *parts)

    def _item(self, node: Syntax, index: Term, default: Term | None) -> Term:
        """a[e], and sorted(a)[e]."""
        return self.at(self.token(node), index, default)

    def at(self, value: Term, index: Term, default: Term | None) -> Term:
        if index.op == "position":
            return value
        kind = self.types.of(index)
        if not kind.whole or kind.kind == "symbol":
            raise Refused(index, "a place is a whole number, such as x[n-1-i]")
        if default is None:
            if not is_inside(index, self.tokens.shortest, self.tokens.longest):
                raise Refused(index, "there may be no such token; write at(x, place, default=0)")
            return self.pool.make("at", value, index)
        return self.pool.make("at", value, index, default)

    # ------------------------------------------------------------------------------------------------------- calls

    def _call(self, node: Syntax) -> Term:
        name, pool = node.value, self.pool
        if name in ("max", "min") and len(node.args) > 1 and node.condition is None:
            self.allow(node)
            terms = [self.token(arg) for arg in node.args]
            found = terms[0]
            for term in terms[1:]:
                pool.place = node.position
                found = pool.make(name, found, term)
            return found
        if name in AGGREGATE_NAMES or name in ("any", "all"):
            return self._aggregate(node)
        if name in MAPS:
            return pool.make(f"map:{name}", self.one(node))
        if name in DEFINITIONS:
            return DEFINITIONS[name](pool, self.one(node))
        if name not in RULES:
            known = ", ".join([*FUNCTIONS, *DEFINITIONS, *MAPS])
            raise self.refused(f"{name!r} is no function here; known are {known}")
        return RULES[name](self, node)

    def allow(self, node: Syntax, *options: str, condition: bool = False) -> None:
        for name in node.options:
            if name not in options:
                known = ", ".join(options) or "none"
                raise self.refused(f"{node.value} has no option {name!r}; it has {known}")
        if node.condition is not None and not condition:
            raise self.refused(f"{node.value} takes no 'for'; sum, mean, max, min and count do")

    def some(self, node: Syntax, count: int, *options: str) -> list[Term]:
        self.allow(node, *options)
        if len(node.args) != count:
            raise self.refused(f"{node.value} takes {count} value(s), got {len(node.args)}")
        return [self.token(arg) for arg in node.args]

    def one(self, node: Syntax, *options: str) -> Term:
        return self.some(node, 1, *options)[0]

    def default(self, node: Syntax) -> Term:
        given = node.options.get("default")
        return self.pool.number(0) if given is None else self.fixed(given)

    def default_at(self, value: Term, index: Term, node: Syntax) -> Term:
        """A value at another place; where there is none, a constant, or what the token itself has."""
        given = node.options.get("default")
        found = self.pool.number(0) if given is None else self.token(given)
        if constant(found) is not None or found.op == "symbol":
            return self.at(value, index, self.default(node))
        pool, zero = self.pool, self.pool.number(0)
        inside = pool.make("and", pool.make("le", zero, index), pool.make("lt", index, pool.make("length")))
        first = self.tokens.symbols[0] if self.types.of(value).kind == "symbol" else None
        usual = zero if first is None else pool.make("symbol", value=first)
        return pool.make("where", inside, self.at(value, index, usual), found)

    def fixed(self, node: Syntax) -> Term:
        """A constant: a number, or a symbol."""
        found = self.token(node)
        number = constant(found)
        if number is None and found.op != "symbol":
            raise self.refused("defaults and values of tables are numbers, or symbols in quotes")
        return found if number is None else self.pool.number(number)

    # -------------------------------------------------------------------------------------------------- at two tokens

    def _aggregate(self, node: Syntax) -> Term:
        name, pool = node.value, self.pool
        self.allow(node, condition=True)
        if len(node.args) != 1:
            raise self.refused(f"{name} takes one value and a condition: {name}(x[j] for j <= i)")
        side, value = self.pair(node.args[0])
        everywhere = node.condition is None or (node.condition.op == "name" and node.condition.value == "j")
        truth = None if node.condition is None or everywhere else self.sided(*self.pair(node.condition))
        if name in ("count", "any", "all"):
            if truth is not None:
                raise self.refused(f"{name} takes the condition itself: {name}(s[j] == 'a' and j <= i)")
            truth = self.sided(side, value)
            if name == "all":
                truth = pool.make("not", truth)
            found = pool.make("sum", pool.number(1), truth)
            if name == "any":
                return pool.make("lt", pool.number(0), found)
            return pool.make("eq", found, pool.number(0)) if name == "all" else found
        if side in ("i", "both") and name in ("max", "min"):
            raise self.refused(f"{name} is over what token j has; take what token i has out of it")
        op, inner, condition = AGGREGATE_NAMES[name], self.sided(side, value), truth or pool.number(1)
        self.types.of(condition)
        pool.place = node.position
        self.types.of(inner)
        if op == "sum":
            return summed(pool, self.types.of, inner, condition)
        return Cases(pool, self.types.of, self.tokens.symbols).aggregate(op, inner, condition)

    def sided(self, side: str, term: Term) -> Term:
        """A term of two tokens, its sides written out."""
        if side == "both" or term.op == "number":
            return term
        return self.pool.make(side or "j", term)

    def pair(self, node: Syntax) -> Sided:
        """The value of a node inside an aggregate: of which token, and what."""
        pool = self.pool
        pool.place = node.position
        if node.op in ("number", "text"):
            return "", self.token(node)
        if node.op == "name":
            if node.value in ("i", "j"):
                return node.value, pool.make("position")
            term = self.token(node)
            return ("" if node.value == "n" or constant(term) is not None else "j"), term
        if node.op == "subscript":
            index = node.args[1]
            if index.op == "name" and index.value in ("i", "j"):
                return index.value, self.token(node.args[0])
            side, place = self.pair(index)
            if side == "both":
                raise self.refused("a place belongs to one token, i or j: x[j - 1]")
            return side or "j", self._item(node.args[0], place, None)
        if node.op == "call" and node.value == "table" and node.args:
            side, index = self.pair(node.args[0])
            if side == "both":
                raise self.refused("a table is looked up with what one token has, i or j")
            return side, table_of(self, node, index)
        if node.op == "call" and not _elementwise(node):
            if node.value not in _SCOPES and _names_a_token(node):
                how = f"write {node.value}(...)[i] or [j] with bare names inside, or give it a name before"
                raise self.refused(f"{node.value} inside an aggregate is at one token; {how}")
            return "j", self.token(node)
        parts = [self.pair(arg) for arg in node.args]
        op = node.value if node.op == "call" else node.op
        op = f"map:{op}" if node.op == "call" and op in MAPS else op
        sides = {side for side, _ in parts if side}
        if len(sides) <= 1 and "both" not in sides:
            terms = [term for _, term in parts]
            if op in ("max", "min"):
                found = terms[0]
                for term in terms[1:]:
                    found = self.operation(op, [found, term], node.position)
                return (sides.pop() if sides else ""), found
            return (sides.pop() if sides else ""), self.operation(op, terms, node.position)
        terms = [self.sided(side, term) for side, term in parts]
        if op in _COMPARED and "both" in sides:
            terms = list(set_apart(pool, terms[0], terms[1]) or terms)
        return "both", self.operation(op, terms, node.position)


def _of_both(term: Term) -> bool:
    """Whether a term mixes both tokens."""
    sides, pending = set(), [term]
    while pending:
        last = pending.pop()
        if last.op in ("i", "j"):
            sides.add(last.op)
        elif last.plain:
            pending += last.args
    return len(sides) == 2


def _elementwise(node: Syntax) -> bool:
    """Whether a call is computed from its values at the same token."""
    return node.condition is None and (
        node.value in ("abs", "where", *MAPS) or (node.value in ("max", "min") and len(node.args) > 1)
    )


def _names_a_token(node: Syntax) -> bool:
    """Whether i or j stands inside, other than in an aggregate of its own."""
    if node.op == "name":
        return node.value in ("i", "j")
    if node.op == "call" and node.value in _SCOPES and not _elementwise(node):
        return False
    inner = [*node.args, *node.options.values(), *([node.condition] if node.condition else [])]
    return any(_names_a_token(part) for part in inner)


def meaning(text: str, tokens: Sequence) -> Meaning:
    """The terms of a program; `InvalidInput` with everything that is wrong with it."""
    return Meaning(text, tokens)
