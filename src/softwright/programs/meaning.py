"""`meaning`: what a program's text says, as terms; names resolved, sugar written out, everything typed.

Outside aggregates a name is the value at token i. Inside sum, mean, max, min, count, any and all there are two tokens:
x[i] is that of the token that asks, x[j] that of the token that is looked at, and a bare x is x[j]. What depends on one
of the two alone is one term at that token; so count(s[j] == 'a' and j <= i) counts where j(s == 'a') and j <= i.

    prev(a, k, default=d)   at(a, i - k, d)                   first(a), last(a)    a[0], a[n - 1]
    sorted(a, by=key)[e]    at(sort(a, key), e)               median(a)            sorted(a)[(n - 1) // 2]
    conv(a, [w0, .., w2c])  sum_k w_k a[i + c - k], 0 outside count(c)             sum(1 for c)
    any(c), all(c)          0 < count(c), count(not c) == 0   a > b, a >= b        b < a, b <= a
    table(e, [v, ..], default=d)    value number e, d outside; table(e, [k, ..], [v, ..], default=d): v where e == k
    a[j] + b[i] < c         a[j] < c - b[i]: what token j has on the left, what token i has on the right
    softmax(a) and the like: `definitions.py`                 sin(a), exp(a), ..   map:sin(a), map:exp(a), ..
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from softwright.programs.fields import RESERVED, Sequence
from softwright.programs.linear import affine, constant, set_apart
from softwright.programs.reals.definitions import DEFINITIONS
from softwright.programs.reals.functions import MAPS
from softwright.programs.syntax import Program, Syntax, read_program
from softwright.programs.tables import table_of
from softwright.programs.terms import Pool, Term
from softwright.programs.types import Refused, Type, Types
from softwright.targets.formula.suggestions import variable_meant
from softwright.targets.formula.tokens import FormulaFaults

AGGREGATE_NAMES = {"sum": "sum", "mean": "mean", "max": "max_of", "min": "min_of", "count": "sum"}
FUNCTIONS = ["sum", "mean", "max", "min", "count", "any", "all", "prev", "at", "first", "last", "sorted", "median"]
FUNCTIONS += ["conv", "smooth", "value", "attend", "abs", "where", "table", "largest", "smallest"]
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
        return self._operation(node.op, [self.token(arg) for arg in node.args], node.position)

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
        if name in ("true", "false"):
            return pool.make("eq", pool.number(0), pool.number(0 if name == "true" else 1))
        if name == "j":
            raise self.refused("j is the token that sum, mean, max, min and count look at; write i here")
        meant = variable_meant(name, self.tokens.names)
        raise self.refused(f"{name!r} is unknown{meant}; fields are {', '.join(self.tokens.names)}, places i and n")

    def _operation(self, op: str, args: list[Term], position: int) -> Term:
        pool = self.pool
        pool.place = position
        if op in ("gt", "ge"):
            return pool.make("lt" if op == "gt" else "le", args[1], args[0])
        if op == "ne":
            return pool.make("not", pool.make("eq", *args))
        if op == "pow" and args[1].op == "number" and args[1].value == 2:
            return pool.make("mul", args[0], args[0])
        return pool.make(op, *args)

    def _item(self, node: Syntax, index: Term, default: Term | None) -> Term:
        """a[e], and sorted(a)[e]."""
        return self._at(self.token(node), index, default)

    def _at(self, value: Term, index: Term, default: Term | None) -> Term:
        if index.op == "position":
            return value
        kind = self.types.of(index)
        if not kind.whole or kind.kind == "symbol":
            raise Refused(index, "a place is a whole number, such as x[n-1-i]")
        if default is None:
            if not self._inside(index):
                raise Refused(index, "there may be no such token; write at(x, place, default=0)")
            return self.pool.make("at", value, index)
        return self.pool.make("at", value, index, default)

    def _inside(self, index: Term) -> bool:
        """Whether a place is one of the sequence, for certain: it is linear in i and n, so the corners decide."""
        found = affine(index)
        if found is None:
            return False
        by_length, by_place, constant = found
        for n in (self.tokens.shortest, self.tokens.longest):
            for i in (0, n - 1):
                if not 0 <= by_length * n + by_place * i + constant <= n - 1:
                    return False
        return True

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
        rules: dict[str, Callable[[Syntax], Term]] = {
            "prev": self._prev,
            "at": self._call_at,
            "first": lambda call: self._at(self._one(call), pool.number(0), None),
            "last": lambda call: self._at(self._one(call), self._before_length(), None),
            "sorted": self._sorted,
            "median": self._median,
            "conv": self._conv,
            "smooth": self._smooth,
            "value": self._value,
            "attend": self._attend,
            "abs": lambda call: pool.make("abs", self._one(call)),
            "where": lambda call: self._operation("where", self._some(call, 3), call.position),
            "table": lambda call: table_of(self, call, self.token(call.args[0]) if call.args else None),
        }
        if name in MAPS:
            return pool.make(f"map:{name}", self._one(node))
        if name in DEFINITIONS:
            return DEFINITIONS[name](pool, self._one(node))
        if name not in rules:
            known = ", ".join([*FUNCTIONS, *DEFINITIONS, *MAPS])
            raise self.refused(f"{name!r} is no function here; known are {known}")
        return rules[name](node)

    def allow(self, node: Syntax, *options: str, condition: bool = False) -> None:
        for name in node.options:
            if name not in options:
                known = ", ".join(options) or "none"
                raise self.refused(f"{node.value} has no option {name!r}; it has {known}")
        if node.condition is not None and not condition:
            raise self.refused(f"{node.value} takes no 'for'; sum, mean, max, min and count do")

    def _some(self, node: Syntax, count: int, *options: str) -> list[Term]:
        self.allow(node, *options)
        if len(node.args) != count:
            raise self.refused(f"{node.value} takes {count} value(s), got {len(node.args)}")
        return [self.token(arg) for arg in node.args]

    def _one(self, node: Syntax, *options: str) -> Term:
        return self._some(node, 1, *options)[0]

    def _before_length(self) -> Term:
        return self.pool.make("sub", self.pool.make("length"), self.pool.number(1))

    def default(self, node: Syntax) -> Term:
        given = node.options.get("default")
        return self.pool.number(0) if given is None else self.fixed(given)

    def _prev(self, node: Syntax) -> Term:
        self.allow(node, "default")
        if len(node.args) not in (1, 2):
            raise self.refused("prev takes a value and how far back: prev(x, 1, default=0)")
        value = self.token(node.args[0])
        back = self.pool.number(1) if len(node.args) == 1 else self.token(node.args[1])
        return self._at(value, self.pool.make("sub", self.pool.make("position"), back), self.default(node))

    def _call_at(self, node: Syntax) -> Term:
        value, index = self._some(node, 2, "default")
        return self._at(value, index, self.default(node))

    def _sorted(self, node: Syntax) -> Term:
        value = self._one(node, "by")
        key = self.token(node.options["by"]) if "by" in node.options else value
        return self.pool.make("sort", value, key)

    def _median(self, node: Syntax) -> Term:
        value = self._one(node)
        middle = self.pool.make("floordiv", self._before_length(), self.pool.number(2))
        return self.pool.make("at", self.pool.make("sort", value, value), middle)

    def _conv(self, node: Syntax) -> Term:
        self.allow(node)
        good = len(node.args) == 2 and node.args[1].op == "list" and len(node.args[1].args) % 2 == 1
        if not good:
            raise self.refused("conv takes a value and an odd number of weights: conv(x, [1, -2, 1])")
        value, middle, found = self.token(node.args[0]), len(node.args[1].args) // 2, None
        for k, weight in enumerate(node.args[1].args):
            factor = constant(self.token(weight))
            if factor is None:
                raise self.refused("the weights of conv are numbers")
            if factor == 0:
                continue
            where = self.pool.make("position")
            if k != middle:
                where = self.pool.make("add", where, self.pool.number(middle - k))
            part = self._at(value, where, self.pool.number(0))
            part = self.pool.make("mul", self.pool.number(factor), part)
            found = part if found is None else self.pool.make("add", found, part)
        return self.pool.number(0) if found is None else found

    def fixed(self, node: Syntax) -> Term:
        """A constant: a number, or a symbol."""
        found = self.token(node)
        number = constant(found)
        if number is None and found.op != "symbol":
            raise self.refused("defaults and values of tables are numbers, or symbols in quotes")
        return found if number is None else self.pool.number(number)

    def _smooth(self, node: Syntax) -> Term:
        value, alpha = self._some(node, 2)
        if alpha.op != "number" or not 0 < alpha.value < 1:
            raise self.refused("smooth takes a value and a number between 0 and 1: smooth(x, 0.3)")
        return self.pool.make("smooth", value, alpha)

    def _value(self, node: Syntax) -> Term:
        """value(y[j], where=largest(score[j]), margin=g)"""
        self.allow(node, "where", "margin")
        how = "write value(y[j], where=largest(score[j]), margin=0.001)"
        chosen = node.options.get("where")
        named = chosen is not None and chosen.op == "call" and chosen.value in ("largest", "smallest")
        if chosen is None or not named or len(chosen.args) != 1 or len(node.args) != 1:
            raise self.refused(f"value needs what to take and where; {how}")
        sides = [self._pair(part) for part in (node.args[0], chosen.args[0])]
        if sides[1][0] == "both" and sides[0][0] in ("j", "") and "margin" in node.options:
            margin, score = self.token(node.options["margin"]), sides[1][1]
            score = score if chosen.value == "largest" else self.pool.make("neg", score)
            if margin.op == "number" and margin.value > 0:
                return self.pool.make("select", sides[0][1], score, margin)
        if any(side not in ("j", "") for side, _ in sides):
            raise self.refused(f"value and score must be those of token j alone; {how}")
        margin = self.token(node.options["margin"]) if "margin" in node.options else self.pool.number(1)
        score = sides[1][1] if chosen.value == "largest" else self.pool.make("neg", sides[1][1])
        whole = self.types.of(score).whole
        if margin.op != "number" or margin.value <= 0 or ("margin" not in node.options and not whole):
            raise self.refused(f"reals need a margin, a positive number by which the largest leads; {how}")
        return self.pool.make("choose", sides[0][1], score, margin)

    def _attend(self, node: Syntax) -> Term:
        """attend(y[j], score)"""
        self.allow(node)
        how = "write attend(y[j], -4*(x[j] - x[i])**2)"
        if len(node.args) != 2:
            raise self.refused(f"attend takes a value of token j and a score; {how}")
        (side, value), (other, score) = (self._pair(part) for part in node.args)
        if side not in ("j", ""):
            raise self.refused(f"what is averaged is that of token j; {how}")
        return self.pool.make("attend", value, self._whole(other, score))

    # -------------------------------------------------------------------------------------------------- at two tokens

    def _aggregate(self, node: Syntax) -> Term:
        name, pool = node.value, self.pool
        self.allow(node, condition=True)
        if len(node.args) != 1:
            raise self.refused(f"{name} takes one value and a condition: {name}(x[j] for j <= i)")
        side, value = self._pair(node.args[0])
        everywhere = node.condition is None or (node.condition.op == "name" and node.condition.value == "j")
        truth = None if node.condition is None or everywhere else self._whole(*self._pair(node.condition))
        if name in ("count", "any", "all"):
            if truth is not None:
                raise self.refused(f"{name} takes the condition itself: {name}(s[j] == 'a' and j <= i)")
            truth = self._whole(side, value)
            if name == "all":
                truth = pool.make("not", truth)
            found = pool.make("sum", pool.number(1), truth)
            if name == "any":
                return pool.make("lt", pool.number(0), found)
            return pool.make("eq", found, pool.number(0)) if name == "all" else found
        if side in ("i", "both") and name in ("max", "min"):
            raise self.refused(f"{name} is over what token j has; take what token i has out of it")
        inner = self._whole(side, value)
        return pool.make(AGGREGATE_NAMES[name], inner, pool.number(1) if truth is None else truth)

    def _whole(self, side: str, term: Term) -> Term:
        """A term of two tokens, its sides written out."""
        if side == "both" or term.op == "number":
            return term
        return self.pool.make(side or "j", term)

    def _pair(self, node: Syntax) -> Sided:
        """The value of a node inside an aggregate: of which token, and what."""
        pool = self.pool
        pool.place = node.position
        if node.op in ("number", "text"):
            return "", self.token(node)
        if node.op == "name":
            if node.value in ("i", "j"):
                return node.value, pool.make("position")
            term = self.token(node)
            return ("" if node.value == "n" else "j"), term
        if node.op == "subscript":
            index = node.args[1]
            if index.op == "name" and index.value in ("i", "j"):
                return index.value, self.token(node.args[0])
            side, place = self._pair(index)
            if side == "both":
                raise self.refused("a place belongs to one token, i or j: x[j - 1]")
            return side or "j", self._item(node.args[0], place, None)
        if node.op == "call" and node.value == "table" and node.args:
            side, index = self._pair(node.args[0])
            if side == "both":
                raise self.refused("a table is looked up with what one token has, i or j")
            return side, table_of(self, node, index)
        if node.op == "call" and not _elementwise(node):
            if node.value not in _SCOPES and _names_a_token(node):
                how = f"write {node.value}(...)[i] or [j] with bare names inside, or give it a name before"
                raise self.refused(f"{node.value} inside an aggregate is at one token; {how}")
            return "j", self.token(node)
        parts = [self._pair(arg) for arg in node.args]
        op = node.value if node.op == "call" else node.op
        op = f"map:{op}" if node.op == "call" and op in MAPS else op
        sides = {side for side, _ in parts if side}
        if len(sides) <= 1 and "both" not in sides:
            terms = [term for _, term in parts]
            if op in ("max", "min"):
                found = terms[0]
                for term in terms[1:]:
                    found = self._operation(op, [found, term], node.position)
                return (sides.pop() if sides else ""), found
            return (sides.pop() if sides else ""), self._operation(op, terms, node.position)
        terms = [self._whole(side, term) for side, term in parts]
        if op in _COMPARED and "both" in sides:
            terms = list(set_apart(pool, terms[0], terms[1]) or terms)
        return "both", self._operation(op, terms, node.position)


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
