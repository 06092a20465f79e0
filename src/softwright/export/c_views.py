"""Where the values of a program lie in memory: a `View` is an array with a step for every axis, and a first place.

Moving axes, cutting, repeating and most changes of shape cost nothing then: they are other steps over the same array.
Which axis lies innermost in an array is chosen when it is filled, so that loops over it run through neighbours and
compilers use vector instructions without being told; sizes and steps may be texts of C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from softwright.export.c_shapes import Shape, Size, times
from softwright.export.program import Node

LETTERS = "abcdegh"  # of axes; f would end a number
FEW_MORE = 128  # entries of an array that may be mostly room
MOST_WRITTEN = 8  # vectors of a loop that is written out


@dataclass(frozen=True)
class View:
    """`array[first + sum over axes of step * index]`."""

    array: str
    shape: Shape
    steps: tuple[Size, ...]
    first: Size = 0
    room: int = 0  # numbers along the axis of neighbours that hold something, where they are more than its size

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

    def vector(self, index: Sequence[str], inner: int) -> str:
        """What a vector of entries along an axis is read from: neighbours, or one number that they share."""
        return f"softwright_in({self.array} + {self.at(index)})" if self.step(inner) == 1 else self.entry(index)

    def holds(self, inner: int, size: int) -> bool:
        """Whether so many entries along an axis can be read, in whole vectors."""
        own = self.shape[inner]
        return self.step(inner) == 0 or (isinstance(own, int) and max(own, self.room) >= size)

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


def in_vectors(view: View, lanes: int) -> View:
    """The same with room for whole vectors along its innermost axis, where that does not take much more memory."""
    order = view.order
    size = view.shape[order[-1]] if order else 1
    if view.room or not isinstance(size, int) or size % lanes == 0 or size == 1 or view.steps[order[-1]] != 1:
        return view
    room = -(-size // lanes) * lanes
    wide = replace(in_rows(view.array, view.shape, order, inner=room), room=room)
    whole = times(*(view.shape[axis] for axis in order[:-1]), room)
    return wide if room <= 2 * size or (isinstance(whole, int) and whole <= FEW_MORE) else view


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
            if view.step(numbers["axis"][0]) == 1:
                size = view.shape[numbers["axis"][0]]
                held = max(view.room, size) if isinstance(size, int) else 0
                view = replace(view, room=max(0, held - numbers["start"][0]))
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


def run_over(letter: str, size: Size, one: Callable[[str], str], vector: Callable[[str], str] | None = None) -> str:
    """The innermost loop: whole vectors where there is a statement for them, then what is left over."""
    if size == 1:
        return one("")
    if vector is None:
        return f"for (int {letter} = 0; {letter} < {size}; {letter}++) {one(letter)}"
    whole = f"for (; {letter} + SOFTWRIGHT_LANES <= {size}; {letter} += SOFTWRIGHT_LANES) {vector(letter)}"
    return f"{{ int {letter} = 0; {whole} for (; {letter} < {size}; {letter}++) {one(letter)} }}"


def run_in_vectors(letter: str, room: int, lanes: int, vector: Callable[[str], str]) -> str:
    """The innermost loop where there is room for whole vectors, short ones written out by the compiler."""
    every = "SOFTWRIGHT_UNROLL " if lanes < room <= MOST_WRITTEN * lanes else ""
    return f"{every}for (int {letter} = 0; {letter} < {room}; {letter} += SOFTWRIGHT_LANES) {vector(letter)}"
