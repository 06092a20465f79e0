"""`table_of`: what a call of table(...) means, as one term: an index, what stands outside, and the values in order.

table(e, [v0, v1, ..])                    v_e, for a whole number e from 0 on, or a symbol by its place
table(e, [k0, k1, ..], [v0, v1, ..])      v_m where e is k_m
default=d                                 the value for everything else; needed where there may be such
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from softwright.programs.syntax import Syntax
from softwright.programs.terms import Term

if TYPE_CHECKING:
    from softwright.programs.meaning import Meaning

MOST_VALUES = 256
HOW = "write table(k, [1, 2, 3], default=0), or table(s, ['a', 'b'], [1, 2], default=0)"


def table_of(meaning: Meaning, node: Syntax, index: Term | None) -> Term:
    """The term of a call whose first value is `index`; `Refused` with what is wrong."""
    meaning.allow(node, "default")
    pool, lists = meaning.pool, [arg.args for arg in node.args[1:] if arg.op == "list"]
    if index is None or len(lists) not in (1, 2) or len(lists) != len(node.args) - 1:
        raise meaning.refused(f"table takes a whole number or symbol, and one or two lists; {HOW}")
    values = [meaning.fixed(arg) for arg in lists[-1]]
    symbol = meaning.types.of(index).kind == "symbol"
    given = meaning.default(node) if "default" in node.options else None
    if len(lists) == 2:
        keys = [_key(meaning, arg, symbol) for arg in lists[0]]
        if len(set(keys)) != len(keys) or len(keys) != len(values):
            raise meaning.refused(f"every key of a table stands there once, with one value; {HOW}")
        least, most = 0 if symbol else min(keys), max(keys)
        if most - least >= MOST_VALUES or (given is None and len(keys) != most - least + 1):
            raise meaning.refused(f"keys at most {MOST_VALUES} apart, and a default for those between; {HOW}")
        at = dict(zip(keys, values, strict=True))
        values = [at[k] if k in at else given or values[0] for k in range(least, most + 1)]
        index = index if least == 0 else pool.make("sub", index, pool.number(least))
    if len(values) > MOST_VALUES:
        raise meaning.refused(f"a table has at most {MOST_VALUES} values")
    kind = meaning.types.of(index)
    if given is None and not (kind.low >= 0 and kind.high < len(values)):
        raise meaning.refused(f"{len(values)} values for {kind.low} to {kind.high}; say default=..., for all others")
    return pool.make("table", index, values[0] if given is None else given, *values)


def _key(meaning: Meaning, node: Syntax, symbol: bool) -> int:
    found = meaning.fixed(node)
    if (found.op == "symbol") != symbol or (not symbol and found.value.denominator != 1):
        raise meaning.refused("the keys of a table are symbols in quotes, or whole numbers, as what is looked up is")
    return meaning.tokens.symbols.index(found.value) if symbol else int(found.value)
