"""`Tape`: a syntax tree laid out as a list of steps, each distinct sub-expression once, arguments before their use.

Every meaning of a formula is a replay of the same list with another table of rules. Two reasons for a list instead of
recursion: equal sub-expressions get one step (the derivatives of a formula repeat its parts many times), and a tree of
any depth is walked without a deep Python stack. Equality is found by value numbering: a step's key is its operation and
the numbers of its arguments, so finding all repetitions takes time linear in the number of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, TypeVar

from softwright.targets.formula.nodes import Constant, Node, Number, Operation, Variable

Value = TypeVar("Value")


class Step(NamedTuple):
    """One distinct sub-expression; `arguments` are the positions of its arguments on the tape."""

    node: Node
    arguments: tuple[int, ...]


def postorder(roots: Sequence[Node]) -> list[Node]:
    """All node objects below the roots, arguments before their users, each object once."""
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, arguments_done = stack.pop()
        if arguments_done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            if isinstance(node, Operation):
                stack.extend((argument, False) for argument in reversed(node.arguments))
    return order


def variables_of(roots: Sequence[Node]) -> tuple[str, ...]:
    """Names of the variables below the roots, in order of first appearance."""
    return tuple(dict.fromkeys(node.name for node in postorder(roots) if isinstance(node, Variable)))


class Tape:
    """The steps of one or more expressions; `outputs` are the positions of the expressions themselves.

    `constant[i]` says that step i holds no variable. `spent[i]` are the steps whose last use is step i, so that a
    replay on a million points can drop their arrays at once.
    """

    def __init__(self, roots: Sequence[Node]) -> None:
        steps: list[Step] = []
        constant: list[bool] = []
        position: dict[int, int] = {}  # id of a node object -> its step
        known: dict[Hashable, int] = {}
        for node in postorder(roots):
            arguments = tuple(position[id(a)] for a in node.arguments) if isinstance(node, Operation) else ()
            key = _key(node, arguments)
            if key not in known:
                known[key] = len(steps)
                steps.append(Step(node, arguments))
                constant.append(not isinstance(node, Variable) and all(constant[a] for a in arguments))
            position[id(node)] = known[key]
        self.steps: tuple[Step, ...] = tuple(steps)
        self.constant: tuple[bool, ...] = tuple(constant)
        self.outputs: tuple[int, ...] = tuple(position[id(root)] for root in roots)
        self.spent: tuple[tuple[int, ...], ...] = self._last_uses()

    def _last_uses(self) -> tuple[tuple[int, ...], ...]:
        last = {argument: index for index, step in enumerate(self.steps) for argument in step.arguments}
        spent: list[list[int]] = [[] for _ in self.steps]
        for argument, index in last.items():
            if argument not in self.outputs:
                spent[index].append(argument)
        return tuple(tuple(entry) for entry in spent)

    def __len__(self) -> int:
        return len(self.steps)

    def replay(self, leaf: Callable[[int, Node], Value], rule: Callable[[int, str, list[Value]], Value]) -> list[Value]:
        """Values of the outputs: `leaf(index, node)` starts, `rule(index, operation name, argument values)` goes on."""
        values: list[Value | None] = [None] * len(self.steps)
        for index, (node, arguments) in enumerate(self.steps):
            if isinstance(node, Operation):
                values[index] = rule(index, node.name, [values[a] for a in arguments])  # type: ignore[misc]
            else:
                values[index] = leaf(index, node)
            for done in self.spent[index]:
                values[done] = None
        return [values[index] for index in self.outputs]  # type: ignore[misc]


def _key(node: Node, arguments: tuple[int, ...]) -> Hashable:
    if isinstance(node, Operation):
        return (node.name, arguments)
    if isinstance(node, Number):
        return ("number", node.text)
    return ("constant" if isinstance(node, Constant) else "variable", node.name)
