"""Long chains of +, -, *, / and of min, max regrouped in halves, so that the tree's depth grows with the logarithm.

a1 - a2 + a3 - ... is a tree as deep as it is long when read left to right. The first half of the terms is kept as it
is; if the second half starts with '-', all its signs flip and the halves are subtracted:
(a1 - a2) + (a3 - a4) or (a1 + a2) - (a3 - a4). Products and quotients likewise. The real value does not change.
"""

from __future__ import annotations

from collections.abc import Sequence

from softwright.targets.formula.nodes import Node, Operation
from softwright.targets.formula.tape import postorder

_LONGEST_CHAIN = 64  # operators; shorter chains keep the order they were written in
_BLOCK = 32  # terms; regrouped chains have at most this and a few more, so regrouping twice changes nothing

_DIRECT = {"add": "add", "sub": "add", "mul": "mul", "div": "mul"}
_INVERSE = {"add": "sub", "mul": "div"}

_Term = tuple[bool, Node]  # whether the term is subtracted (or divided by), and the term


def fold_halves(name: str, terms: Sequence[Node]) -> Node:
    """min or max of many terms as nested binary operations."""
    if len(terms) > _BLOCK:
        middle = len(terms) // 2
        return Operation(name, (fold_halves(name, terms[:middle]), fold_halves(name, terms[middle:])))
    node = terms[0]
    for term in terms[1:]:
        node = Operation(name, (node, term))
    return node


def balance_chains(roots: tuple[Node, ...]) -> tuple[Node, ...]:
    """The same expressions with chains of more than 64 sums or products regrouped."""
    order = postorder(roots)
    length: dict[int, int] = {}  # operators in the chain that ends at a node
    inner: set[int] = set()  # nodes that a longer chain goes on from
    for node in order:
        if isinstance(node, Operation) and node.name in _DIRECT:
            left = node.arguments[0]
            length[id(node)] = 1
            if _continues(left, node):
                length[id(node)] += length[id(left)]
                inner.add(id(left))
    if max(length.values(), default=0) <= _LONGEST_CHAIN:
        return roots
    rebuilt: dict[int, Node] = {}
    for node in order:
        if not isinstance(node, Operation):
            rebuilt[id(node)] = node
        elif length.get(id(node), 0) > _LONGEST_CHAIN and id(node) not in inner:
            rebuilt[id(node)] = _regroup(_DIRECT[node.name], _terms(node, rebuilt))
        else:
            rebuilt[id(node)] = Operation(node.name, tuple(rebuilt[id(a)] for a in node.arguments))
    return tuple(rebuilt[id(root)] for root in roots)


def _continues(left: Node, node: Operation) -> bool:
    return isinstance(left, Operation) and _DIRECT.get(left.name) == _DIRECT[node.name]


def _terms(head: Operation, rebuilt: dict[int, Node]) -> list[_Term]:
    """The terms of the chain that ends at `head`, in the order they were written."""
    terms: list[_Term] = []
    node: Node = head
    while isinstance(node, Operation) and _DIRECT.get(node.name) == _DIRECT[head.name]:
        terms.append((node.name != _DIRECT[node.name], rebuilt[id(node.arguments[1])]))
        node = node.arguments[0]
    terms.append((False, rebuilt[id(node)]))
    return terms[::-1]


def _regroup(direct: str, terms: list[_Term]) -> Node:
    if len(terms) <= _BLOCK:
        node = terms[0][1]
        for inverted, term in terms[1:]:
            node = Operation(_INVERSE[direct] if inverted else direct, (node, term))
        return node
    middle = len(terms) // 2
    first, second = terms[:middle], terms[middle:]
    flip = second[0][0]
    if flip:
        second = [(not inverted, term) for inverted, term in second]
    name = _INVERSE[direct] if flip else direct
    return Operation(name, (_regroup(direct, first), _regroup(direct, second)))
