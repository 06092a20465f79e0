"""Where the values of a program lie in memory: a `View` is an array with a step for every axis, and a first place.

Moving axes, cutting, repeating and most changes of shape cost nothing then: they are other steps over the same array.
Which axis lies innermost in an array is chosen when it is filled, so that loops over it run through neighbours and
compilers use vector instructions without being told; sizes and steps may be texts of C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from softwright.export.c_exp import LANES
from softwright.export.c_shapes import Shape, Size, times
from softwright.export.program import Node

LETTERS = "abcdegh"  # of axes; f would end a number


@dataclass(frozen=True)
class View:
    """`array[first + sum over axes of step * index]`."""

    array: str
    shape: Shape
    steps: tuple[Size, ...]
    first: Size = 0

    def at(self, index: Sequence[str]) -> str:
        """The place of an entry; `index` has a letter for each axis, or nothing where there is one entry alone."""
        words, first = [], self.first
        for letter, step, size in zip(index, self.steps, self.shape, strict=True):
            if not letter or step == 0 or size == 1:
                continue
            if letter.isdigit() and isinstance(step, int) and isinstance(first, int):
                first += step * int(letter)
            else:
                words.append(letter if step == 1 else f"{step} * {letter}")
        return " + ".join([*words, *([str(first)] if first != 0 or not words else [])])

    def entry(self, index: Sequence[str]) -> str:
        return f"{self.array}[{self.at(index)}]"

    def step(self, axis: int) -> Size:
        """0 where the axis has one entry."""
        return self.steps[axis] if self.shape[axis] != 1 else 0

    @property
    def order(self) -> list[int]:
        """Its axes from the outermost in memory to the innermost, as far as steps tell: texts lie outside numbers."""
        sized = [axis for axis in range(len(self.shape)) if self.step(axis) != 0]
        return sorted(sized, key=lambda axis: (isinstance(self.steps[axis], int), -weight(self.steps[axis])))


def weight(step: Size) -> int:
    """Larger for larger steps; of texts those with more factors are larger."""
    return step if isinstance(step, int) else 1 + step.count("*")


def in_rows(array: str, shape: Shape, order: Sequence[int] | None = None, inner: Size | None = None) -> View:
    """An array filled in this order of axes, the last innermost; `inner` is the room for the innermost, if not its
    size."""
    order = range(len(shape)) if order is None else [*(a for a in range(len(shape)) if a not in order), *order]
    steps: list[Size] = [0] * len(shape)
    step: Size = 1
    for axis in reversed(list(order)):
        steps[axis] = step
        if shape[axis] != 1:
            step = times(step, inner if inner is not None and step == 1 else shape[axis])
    return View(array, shape, tuple(steps))


def plain(view: View) -> bool:
    """Whether it lies in the order of its axes, without gaps."""
    wanted = in_rows(view.array, view.shape)
    return all(view.step(a) == wanted.step(a) for a in range(len(view.shape)))


def seen(node: Node, view: View, shape: Shape) -> View | None:
    """The output of a node that only looks at its first input otherwise, or nothing if it computes or must copy."""
    numbers = node.numbers
    match node.op:
        case "Transpose":
            return replace(view, shape=shape, steps=tuple(view.steps[axis] for axis in numbers["perm"]))
        case "Slice":
            start = times(numbers["start"][0], view.steps[numbers["axis"][0]])
            if isinstance(start, int) and isinstance(view.first, int):
                return replace(view, shape=shape, first=view.first + start)
            words = [str(one) for one in (view.first, start) if one != 0]
            return replace(view, shape=shape, first=f"({' + '.join(words)})")
        case "Expand":
            return replace(view, shape=shape, steps=tuple(view.step(axis) for axis in range(len(shape))))
        case "First":
            return replace(view, shape=shape)
        case "Reshape":
            return _reshaped(view, shape)
    return None


def _reshaped(view: View, shape: Shape) -> View | None:
    old, new = ([a for a, size in enumerate(one) if size != 1] for one in (view.shape, shape))
    if [view.shape[a] for a in old] == [shape[a] for a in new]:  # axes of one entry come or go
        steps: list[Size] = [0] * len(shape)
        for before, after in zip(old, new, strict=True):
            steps[after] = view.steps[before]
        return replace(view, shape=shape, steps=tuple(steps))
    return replace(in_rows(view.array, shape), first=view.first) if plain(view) else None


def letters_of(shape: Shape) -> list[str]:
    """A letter for each axis, and nothing for one of a single entry."""
    return ["" if size == 1 else letter for size, letter in zip(shape, LETTERS, strict=False)]


def loops(sizes: Sequence[Size], letters: Sequence[str]) -> str:
    """Nested loops over letters; nothing where there is one entry alone."""
    return "".join(
        f"for (int {letter} = 0; {letter} < {size}; {letter}++) "
        for size, letter in zip(sizes, letters, strict=True)
        if size != 1
    )


def run_over(letter: str, size: Size, statement: Callable[[str], str], blocks: bool = True) -> str:
    """The innermost loop: whole vectors, then what is left over. Without `blocks` a free size is run through one by
    one: a table may be shorter than a vector, which compilers notice."""
    if size == 1:
        return statement("")
    if isinstance(size, str) and not blocks:
        return f"for (int {letter} = 0; {letter} < {size}; {letter}++) {statement(letter)}"
    if isinstance(size, str):
        one = f"for (int {letter}0 = 0; {letter}0 < {LANES}; {letter}0++) {statement(f'({letter} + {letter}0)')}"
        rest = f"for (; {letter} < {size}; {letter}++) {statement(letter)}"
        return f"{{ int {letter} = 0; for (; {letter} + {LANES} <= {size}; {letter} += {LANES}) {one} {rest} }}"
    whole = size if size < 4 else size - size % 4
    parts = [(0, whole)] if whole == size else [(0, whole), (whole, size)]
    runs = [f"for (int {letter} = {a}; {letter} < {b}; {letter}++) {statement(letter)}" for a, b in parts]
    return runs[0] if len(runs) == 1 else f"{{ {' '.join(runs)} }}"
