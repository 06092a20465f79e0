"""The program of a composed network, read strictly from the evidence: features, their forms, and the outputs.

    variables 0 .. d-1 are the inputs, d + j is feature j; a tree speaks of them by these numbers
    a *form* is c + sum_i c_i y_i: a text whose tree is shown to be linear, with constants that stay trees
    a feature has a kind, a layer, and the forms and the function that its kind needs; those it does not need are "0"

    table        F(score), F a tree in `u`          product    value * score
    exponential  value * exp(score)                 maximum    base + max(score, 0)
    step         value where score > 0, else 0

A feature reads forms of earlier layers alone, and every feature is read by somebody. What it is worth is for others to
find out: nothing here is believed but that this is the program which the tensors are compared with.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flint import arb, ctx, fmpq

from softwright.checker.entries import Test, check_entries, is_object, is_size, is_text, list_of
from softwright.checker.parser import NAME, Parser, rational_value
from softwright.checker.refusal import UndefinedError, printable, require
from softwright.checker.taylor import Model, Space, evaluate
from softwright.checker.trees import Tree, children

BITS = 256  # of the balls of constants
MOST_FEATURES, MOST_OUTPUTS, LONGEST = 400, 64, 200_000  # characters of all texts together
ZERO, ONE = ("number", fmpq(0)), ("number", fmpq(1))
PARTS: dict[str, Test] = {
    "features": list_of(is_object),
    "outputs": list_of(is_text),
    "tables": list_of(is_object),
    "bands": list_of(is_object),  # of claims about norms alone
}
FEATURE: dict[str, Test] = {
    **dict.fromkeys(("name", "kind", "score", "value", "base"), is_text),
    "layer": is_size,
    "function": lambda value: isinstance(value, str),
}


@dataclass(frozen=True)
class Form:
    """constant + sum of coefficient * variable, each variable once; coefficients are trees without variables."""

    constant: Tree = ZERO
    terms: tuple[tuple[int, Tree], ...] = ()

    @functools.cached_property
    def tree(self) -> Tree:
        """The form as one tree."""
        parts = [(1, ("product", [(1, c), (1, ("variable", i))])) for i, c in self.terms]
        return ("sum", [(1, self.constant), *parts])

    @functools.cached_property
    def balls(self) -> dict[int, arb]:
        """The coefficients by variable."""
        return {i: constant_ball(c) for i, c in self.terms}

    @functools.cached_property
    def offset(self) -> arb:
        """The constant."""
        return constant_ball(self.constant)

    @functools.cached_property
    def is_zero(self) -> bool:
        return not self.terms and rational_value(self.constant) == 0

    @functools.cached_property
    def key(self) -> Any:
        """Equal for forms that are spelt alike, up to the values of rational constants."""
        return _spelt(self.constant), tuple((i, _spelt(c)) for i, c in self.terms)


@dataclass(frozen=True)
class Feature:
    """One number of the stream: `place` is its variable."""

    place: int
    name: str
    kind: str
    layer: int
    score: Form
    value: Form
    base: Form
    function: Tree | None  # in variable 0

    @property
    def forms(self) -> tuple[Form, ...]:
        return tuple(getattr(self, name) for name in SHAPES[self.kind].needs if name != "function")

    @functools.cached_property
    def is_square(self) -> bool:
        return self.kind == "product" and self.score.key == self.value.key

    @functools.cached_property
    def meaning(self) -> Tree:
        """The feature as a tree in the inputs and earlier features."""
        return SHAPES[self.kind].meaning(self)


@dataclass(frozen=True)
class Shape:
    """A kind of feature: the entries that it needs, and what it means."""

    needs: tuple[str, ...]
    meaning: Callable[[Feature], Tree]


def _exponential(feature: Feature) -> Tree:
    return ("product", [(1, feature.value.tree), (1, ("exp", feature.score.tree))])


def _maximum(feature: Feature) -> Tree:
    """base + max(score, 0); |score|/2 where base is -score/2: a range of |u| knows that it is not negative."""
    if _is_half(feature.base, feature.score):
        return ("product", [(1, ("number", fmpq(1, 2))), (1, ("abs", feature.score.tree))])
    return ("sum", [(1, feature.base.tree), (1, ("max", feature.score.tree, ZERO))])


def _is_half(base: Form, score: Form) -> bool:
    """Whether base is -score/2, by the rational values of all coefficients."""
    pairs = [(base.constant, score.constant)]
    if [i for i, _ in base.terms] != [i for i, _ in score.terms]:
        return False
    pairs += [(b, s) for (_, b), (_, s) in zip(base.terms, score.terms, strict=True)]
    values = [(rational_value(b), rational_value(s)) for b, s in pairs]
    return all(b is not None and s is not None and 2 * b == -s for b, s in values)


def _step(feature: Feature) -> Tree:
    truth = ("where", ("compare", [feature.score.tree, ZERO], [">"]), ONE, ZERO)
    return ("product", [(1, feature.value.tree), (1, truth)])


SHAPES: dict[str, Shape] = {
    "table": Shape(("score", "function"), lambda f: substituted(f.function, {0: f.score.tree})),
    "product": Shape(("score", "value"), lambda f: ("product", [(1, f.value.tree), (1, f.score.tree)])),
    "exponential": Shape(("score", "value"), _exponential),
    "maximum": Shape(("score", "base"), _maximum),
    "copy": Shape(("score",), lambda f: f.score.tree),
    "step": Shape(("score", "value"), _step),
}


@dataclass(frozen=True)
class Program:
    """Inputs by name, features in order, and the form of each output."""

    names: tuple[str, ...]
    features: tuple[Feature, ...]
    outputs: tuple[Form, ...]

    @property
    def inputs(self) -> int:
        return len(self.names)

    @property
    def depth(self) -> int:
        return max((feature.layer for feature in self.features), default=0)

    def layer_of(self, variable: int) -> int:
        return 0 if variable < self.inputs else self.features[variable - self.inputs].layer

    def inlined(self, tree: Tree) -> Tree:
        """A tree in inputs and features as one in the inputs alone: features are replaced by what they mean."""
        known: dict[int, Tree] = {i: ("variable", i) for i in range(self.inputs)}
        for feature in self.features:
            known[feature.place] = substituted(feature.meaning, known)
        return substituted(tree, known)


def constant_ball(tree: Tree) -> arb:
    """A ball around a constant, at BITS."""
    with ctx.workprec(BITS):
        space = _space()
        found = evaluate(tree, [Model(space, space.linear(arb(0)))])
        ball = found.parts[0][0] + arb(0, 1) * found.error
    if not ball.is_finite():
        raise UndefinedError("a constant of the program has no finite value")
    return ball


@functools.cache
def _space() -> Space:
    return Space(1, 2)


def substituted(tree: Tree, known: Mapping[int, Tree]) -> Tree:
    """The tree with trees in place of variables; subtrees are shared, so that the work grows with the text."""
    if tree[0] == "variable":
        return known[tree[1]]
    if tree[0] in ("number", "pi", "e"):
        return tree

    def inner(item: Any) -> Any:
        if isinstance(item, list):
            return [inner(entry) for entry in item]
        if isinstance(item, tuple):
            return (item[0], substituted(item[1], known)) if isinstance(item[0], int) else substituted(item, known)
        return item

    return (tree[0], *map(inner, tree[1:]))


def variables_of(tree: Tree) -> set[int]:
    found, pending = set(), [tree]
    while pending:
        node = pending.pop()
        if node[0] == "variable":
            found.add(node[1])
        pending += children(node)
    return found


def _spelt(tree: Tree) -> str:
    value = rational_value(tree)
    return repr(tree) if value is None else str(value)


# ------------------------------------------------------------------------------------------------------------- reading


def read_program(parts: Any, names: Sequence[str]) -> Program:
    """The program of the evidence; refuses what is not exactly one."""
    check_entries(parts, PARTS, "the parts of the proof", ("bands",))
    entries, texts = parts["features"], [*parts["outputs"]]
    require(0 < len(entries) <= MOST_FEATURES, f"a program has 1 to {MOST_FEATURES} features, this one {len(entries)}")
    require(0 < len(texts) <= MOST_OUTPUTS, f"a program has 1 to {MOST_OUTPUTS} outputs, this one {len(texts)}")
    for entry in entries:
        check_entries(entry, FEATURE, "a feature")
        texts += [entry[name] for name in ("score", "value", "base", "function")]
    require(sum(map(len, texts)) <= LONGEST, f"the texts of a program have at most {LONGEST} characters together")
    known, features = list(names), []
    for entry in entries:
        features.append(_feature(entry, known, features, len(names)))
        known.append(entry["name"])
    outputs = tuple(read_form(text, known) for text in parts["outputs"])
    program = Program(tuple(names), tuple(features), outputs)
    read = {i for form in _all_forms(program) for i, _ in form.terms}
    idle = [feature.name for feature in features if feature.place not in read]
    require(not idle, f"nothing reads feature {printable(idle[0], 80) if idle else ''}")
    layers = [feature.layer for feature in features]
    require(layers == sorted(layers), "the features are not in the order of their layers")
    require(set(layers) == set(range(1, max(layers) + 1)), "a layer has no features")
    return program


def _all_forms(program: Program) -> Iterable[Form]:
    yield from program.outputs
    for feature in program.features:
        yield from feature.forms


def _feature(entry: dict[str, Any], known: list[str], before: list[Feature], inputs: int) -> Feature:
    name, kind, layer = entry["name"], entry["kind"], entry["layer"]
    shown = printable(name, 80)
    require(NAME.fullmatch(name) and name not in known, f"a feature cannot be called {shown!r}, or two are")
    require(kind in SHAPES, f"feature {shown} is of an unknown kind; known are {', '.join(SHAPES)}")
    for form in ("score", "value", "base"):
        require(form in SHAPES[kind].needs or entry[form] == "0", f"feature {shown} is a {kind}: it has no {form}")
    wants = "function" in SHAPES[kind].needs
    require(wants == bool(entry["function"]), f"feature {shown}: a table has a function, nothing else has")
    forms = {form: read_form(entry[form], known) for form in ("score", "value", "base")}
    require(forms["score"].terms, f"the score of feature {shown} is a constant")
    used = {i for form in forms.values() for i, _ in form.terms}
    earlier = [before[i - inputs].layer for i in used if i >= inputs]
    require(all(other < layer for other in earlier), f"feature {shown} reads what its layer or a later one computes")
    function = None
    if wants:
        found = Parser(entry["function"], ["u"]).outputs()
        require(len(found) == 1, f"the function of feature {shown} has several values")
        function = found[0]
    return Feature(inputs + len(before), name, kind, layer, forms["score"], forms["value"], forms["base"], function)


def read_form(text: str, names: Sequence[str]) -> Form:
    """A text as a form; refuses what is not linear."""
    found = Parser(text, names).outputs()
    require(len(found) == 1, "a form has several values")
    constant, terms = _linear(found[0])
    kept = {i: c for i, c in terms.items() if rational_value(c) != 0}
    return Form(constant, tuple(sorted(kept.items(), key=lambda term: term[0])))


def _linear(tree: Tree) -> tuple[Tree, dict[int, Tree]]:
    """(constant, coefficients) of a tree that is linear by its shape."""
    if not variables_of(tree):
        return tree, {}
    if tree[0] == "variable":
        return ZERO, {tree[1]: ONE}
    require(tree[0] in ("sum", "product"), "a form of the program is not linear")
    if tree[0] == "sum":
        constants: list[tuple[int, Tree]] = []
        found: dict[int, list[tuple[int, Tree]]] = {}
        for sign, child in tree[1]:
            constant, terms = _linear(child)
            constants.append((sign, constant))
            for i, c in terms.items():
                found.setdefault(i, []).append((sign, c))
        return _sum(constants), {i: _sum(parts) for i, parts in found.items()}
    inner = [(sign, child) for sign, child in tree[1] if variables_of(child)]
    require(len(inner) == 1 and inner[0][0] == 1, "a form of the program is not linear")
    factors = [(sign, child) for sign, child in tree[1] if child is not inner[0][1]]
    constant, terms = _linear(inner[0][1])
    return _product(factors, constant), {i: _product(factors, c) for i, c in terms.items()}


def _sum(parts: list[tuple[int, Tree]]) -> Tree:
    kept = [(sign, tree) for sign, tree in parts if rational_value(tree) != 0]
    tree = kept[0][1] if len(kept) == 1 and kept[0][0] == 1 else ("sum", kept)
    return _folded(tree) if kept else ZERO


def _product(factors: list[tuple[int, Tree]], last: Tree) -> Tree:
    if not factors or rational_value(last) == 0:
        return last
    return _folded(("product", [*factors, (1, last)]))


def _folded(tree: Tree) -> Tree:
    value = rational_value(tree)
    return tree if value is None else ("number", value)
