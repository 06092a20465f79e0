"""`translate`: a formula becomes features, by rules that are exact on the whole box.

Every sub-expression becomes an `Additive` (`forms.py`). The rules:

- sums, differences and constant multiples are free;
- a smooth function of something that depends on one atom is a function of that atom: nothing is cut;
- a smooth function of anything else first *materialises* it: each function of an atom becomes a feature, a quadratic
  becomes a square, a sum of exponentials becomes gates, and the linear form that is left is the new atom;
- products, quotients and powers are monomials (`monomials.py`);
- abs, max, min are cut and become a gate, unless their sign is known on the box; `where` needs a known condition.

Every rewriting that is not true everywhere has a side condition (a sign, a domain), proved on the box by `ranges.py`
before it is used and recorded with the sub-expression of the formula that it speaks of, so that a checker can prove it
again. What has no rule, or whose condition fails, raises `CannotCompile`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from softwright.compiler import norms
from softwright.compiler.features import (
    COPY,
    EXPONENTIAL,
    INPUT,
    MAXIMUM,
    PRODUCT,
    STEP,
    Condition,
    Feature,
    Program,
)
from softwright.compiler.forms import Additive, Form, exponentials, polynomial, quotient, stripped
from softwright.compiler.forward import Forward, Functions
from softwright.compiler.nodes import (
    ELEMENTARY,
    ONE,
    RULES,
    ZERO,
    CannotCompile,
    Expression,
    Interval,
    Node,
    Numbering,
    Operation,
    Tape,
    Variable,
    constant_interval,
    is_constant,
    is_zero,
    mul,
    neg,
    number,
    of,
    power,
    text,
)
from softwright.compiler.ranges import Range, Ranges
from softwright.compiler.rules import RULES_OF
from softwright.compiler.sides import table
from softwright.compiler.steps import Jumps, jumps_of
from softwright.domain import Box

_ROUNDED = 1e-12  # of its width, by which a range may miss the end of a domain that it reaches
_LEAST = 1e-24  # of its largest value: how near to zero an input may come that has a logarithm
_DEEPEST = 120  # levels of a formula that are compiled


class Translator:
    """The features of one formula on one box, in the making. With `cut`, functions of functions are cut everywhere."""

    def __init__(
        self,
        box: Box,
        cut: bool = False,
        tables_for_squares: bool = False,
        jumps: Jumps | None = None,
        sides: bool = True,
    ) -> None:
        self.box, self.cut, self.tables_for_squares, self.sides = box, cut, tables_for_squares, sides
        self.jumps = jumps
        self.ranges = Ranges(box) if jumps is None else jumps.ranges
        self.features: list[Feature] = []
        self.conditions: dict[str, Condition] = {}
        self.known: dict[tuple[str, tuple[tuple[int, str], ...]], tuple[float, float]] = {}
        self.functions = Functions()
        self.forward = Forward(self.features, self.known, box.lower[None], box.upper[None], self.functions)
        self._made: dict[object, int] = {}
        self._number = Numbering()
        self._built: dict[int, Additive] = {}
        for i, name in enumerate(box.names):
            self.features.append(Feature(i, INPUT, 0, Variable(name)))

    # Ranges and conditions ------------------------------------------------------------------------------------------

    def range_of(self, node: Node) -> Range:
        """A range of a sub-expression, from its features."""
        return self.range_of_additive(self.build(node))

    def range_of_additive(self, additive: Additive) -> Range:
        low, high = (float(end[0]) for end in self.forward.form(additive.form))
        for atom, function in additive.parts:
            part, defined = self.functions.enclose(function, self.forward.form(atom))
            if not defined.all():
                return Range(-np.inf, np.inf)
            low, high = np.nextafter(low + part.lower[0], -np.inf), np.nextafter(high + part.upper[0], np.inf)
        return Range(float(low), float(high))

    def same(self, first: Node | None, second: Node) -> bool:
        """Whether two trees are equal."""
        return first is not None and self._number(first) == self._number(second)

    def require(self, node: Node, relation: str, why: str) -> None:
        condition = Condition(node, relation, why)
        self.conditions.setdefault(condition.text, condition)

    def is_positive(self, node: Node) -> bool:
        """Whether the sub-expression is certainly positive and keeps clear of zero; its form then carries its range."""
        if isinstance(node, Operation) and (node.name == "exp" or self._is_power(node)):
            return True
        if is_constant(node):
            return self.ranges.of(node).low > 0
        additive = self.build(node)
        low, high = self.range_of_additive(additive)
        if Range(low, high).positive:
            return True
        if self._is_input(additive) and low > _LEAST * high:
            return True  # an input is known to its last digit, whatever it spans
        if low > 0 and np.isfinite(high) and additive.parts and additive.single() is not None and not self.cut:
            return True  # its logarithm is a function of the atom: that it spans decades costs no digits
        found = self.ranges.positive(node)
        if found is None:
            return False
        self.tighten(self.build(node), found)
        return True

    def _is_input(self, additive: Additive) -> bool:
        """Whether it is an input times a number."""
        terms = additive.form.terms
        single = len(terms) == 1 and not additive.parts and is_zero(additive.form.constant)
        return single and self.features[terms[0][0]].kind == INPUT

    def _is_power(self, node: Operation) -> bool:
        """Whether it is a power with a variable exponent: that of a positive base, the exponential of a product."""
        return node.name == "pow" and not is_constant(node.arguments[1]) and self.is_positive(node.arguments[0])

    def touches_zero(self, node: Node) -> bool:
        """Whether the sub-expression is certainly not negative though it may vanish; its form then carries its range.

        A root of it that the formula takes is defined on the box (that is asked of formulas before), so a range that
        ends within a rounding of zero ends at zero.
        """
        squares = norms.squares_of(self, node)
        if squares is not None:
            self.define(node, Additive(squares))
            self.tighten(Additive(squares), Range(0.0, self.range_of_additive(Additive(squares)).high))
            return True
        found = self.range_of(node)
        if not found.low >= -_ROUNDED * (found.high - found.low):
            found = self.ranges.refined(node, low=0.0)
        if not (found.low >= -_ROUNDED * (found.high - found.low) and np.isfinite(found.high)):
            return False
        self.tighten(self.build(node), Range(max(found.low, 0.0), found.high))
        return True

    def tighten(self, additive: Additive, found: Range) -> None:
        """Keep a range that was proved from the inputs with the form that an additive becomes."""
        single = additive.single()
        if single is not None and additive.parts and not self.cut:
            return
        form = self.materialise(additive)
        if not form.terms:
            return
        self.keep(form, found)
        atom, lead, constant = form.normalised()
        ends = Interval(np.asarray([found.low]), np.asarray([found.high]))
        moved = RULES["sub"](ends, constant_interval(constant))[0]
        ends = RULES["div"](moved, constant_interval(lead))[0]
        self.keep(atom, Range(float(ends.lower[0]), float(ends.upper[0])))

    def keep(self, form: Form, found: Range) -> None:
        old = self.known.get(form.key, (-np.inf, np.inf))
        self.known[form.key] = (max(old[0], found.low), min(old[1], found.high))
        self.forward.forget()

    # Features -------------------------------------------------------------------------------------------------------

    def meaning(self, form: Form) -> Node:
        return form.node({feature.number: feature.meaning for feature in self.features})

    def layer(self, *forms: Form) -> int:
        return 1 + max((self.features[k].layer for form in forms for k, _ in form), default=0)

    def feature(self, key: object, make: Callable[[int], Feature]) -> int:
        if key not in self._made:
            self._made[key] = len(self.features)
            self.features.append(make(len(self.features)))
        return self._made[key]

    def product(self, z: Form, u: Form) -> Form:
        """z u as a form: a multiple of a feature whose factors have leading coefficient 1."""
        if not z.terms:
            return u.times(z.constant)
        if not u.terms:
            return z.times(u.constant)
        factor = mul(z.terms[0][1], u.terms[0][1])
        z, u = (form.times(quotient(ONE, form.terms[0][1])) for form in (z, u))
        z, u = sorted((z, u), key=lambda form: (len(form.terms), form.key))

        def make(i: int) -> Feature:
            square = z.key == u.key
            meaning = power(self.meaning(z), number(2)) if square else mul(self.meaning(z), self.meaning(u))
            return Feature(i, PRODUCT, self.layer(z, u), meaning, score=u, value=z)

        return Form.feature(self.feature((PRODUCT, z.key, u.key), make)).times(factor)

    def exponential(self, exponent: Form, z: Form) -> Form:
        """z exp(T) as a form."""
        if not exponent.terms:
            return z.times(of("exp", exponent.constant))

        def make(i: int) -> Feature:
            grown = of("exp", self.meaning(exponent))
            meaning = grown if z == Form(ONE) else mul(self.meaning(z), grown)
            return Feature(i, EXPONENTIAL, self.layer(exponent, z), meaning, score=exponent, value=z)

        return Form.feature(self.feature((EXPONENTIAL, exponent.key, z.key), make))

    def maximum(self, a: Form, b: Form) -> Form:
        difference = a.plus(b.times(neg(ONE)))
        if not difference.terms:
            return a if self.ranges.of(difference.constant).low >= 0 else b

        def make(i: int) -> Feature:
            meaning = of("max", self.meaning(a), self.meaning(b))
            return Feature(i, MAXIMUM, self.layer(a, b), meaning, score=difference, base=b)

        return Form.feature(self.feature((MAXIMUM, a.key, b.key), make))

    def step(self, name: str, z: Form) -> Form:
        """z [c > 0] as a form, c the difference of a comparison."""
        if self.jumps is None:
            raise RuntimeError("steps come with their gap")
        if not z.terms:
            return self._step(name, Form(ONE)).times(z.constant)
        return self._step(name, z)

    def _step(self, name: str, z: Form) -> Form:
        jumps = self.jumps
        if jumps is None:
            raise RuntimeError("steps come with their gap")
        c = self.materialise(self.build(jumps.found[name].difference))

        def make(i: int) -> Feature:
            meaning = of("where", Variable(name), self.meaning(z), ZERO)
            return Feature(i, STEP, self.layer(c, z), meaning, score=c, value=z, gap=jumps.gap)

        return Form.feature(self.feature((STEP, c.key, z.key), make))

    def copy(self, form: Form) -> Form:
        """The form in a column of its own."""

        def make(i: int) -> Feature:
            return Feature(i, COPY, self.layer(form), self.meaning(form), score=form)

        return Form.feature(self.feature((COPY, form.key), make))

    def materialise(self, additive: Additive) -> Form:
        """The linear form of features that an additive form is: its functions of atoms become features."""
        form = additive.form
        for atom, function in additive.parts:
            form = form.plus(self._part(atom, function))
        return form

    def _part(self, atom: Form, function: Node) -> Form:
        coefficients = polynomial(function)
        if (
            coefficients is not None
            and len(coefficients) <= 3
            and (len(coefficients) < 3 or not self.tables_for_squares)
        ):
            padded = [*coefficients, ZERO, ZERO][:3]
            form = Form(padded[0]).plus(atom.times(padded[1]))
            return form if is_zero(padded[2]) else form.plus(self.product(atom, atom).times(padded[2]))
        factor, function = stripped(function)
        if factor != ONE:
            return self._part(atom, function).times(factor)
        found = exponentials(function)
        if found is not None:
            form = Form()
            for c, a, b in found:
                exponent = atom.times(a).plus(Form(b))
                form = form.plus(self.exponential(exponent, Form(ONE)).times(c))
            return form
        return table(self, atom, function)

    def apply(self, additive: Additive, wrap: Callable[[Node], Node]) -> Additive:
        """A smooth function of one variable, `wrap`, of an additive form."""
        single = None if self.cut and additive.parts else additive.single()
        if single is None:
            form = self.materialise(additive)
            if not form.terms:
                return Additive.constant(wrap(form.constant))
            single = Additive(form).single()
        if single is None:
            raise RuntimeError("a form with terms is a function of one atom")
        atom, inner = single
        return Additive(Form(), ((atom, wrap(inner)),))

    # Rules ----------------------------------------------------------------------------------------------------------

    def build(self, node: Node) -> Additive:
        key = self._number(node)
        if key not in self._built:
            self._built[key] = self._rule(node)
        return self._built[key]

    def define(self, node: Node, additive: Additive) -> None:
        """What a tree becomes, by another rule than its own."""
        self._built[self._number(node)] = additive

    def _rule(self, node: Node) -> Additive:
        if is_constant(node):
            return Additive.constant(node)
        if isinstance(node, Variable):
            if self.jumps is not None and node.name in self.jumps.found:
                return Additive(self.step(node.name, Form(ONE)))
            return Additive(Form.feature(self.box.names.index(node.name)))
        if not isinstance(node, Operation):
            raise CannotCompile(node, "has no rule")
        rule = RULES_OF.get(node.name)
        if rule is not None:
            return rule(self, node)
        row = ELEMENTARY.get(node.name)
        if row is not None and row.jump:
            raise CannotCompile(node, f"{node.name} jumps in the box; give a gap round its jumps, gap=1e-6")
        if row is None or len(row.slopes) != 1:
            raise CannotCompile(node, f"{node.name} has no rule")
        if row.kink is not None:
            raise CannotCompile(node, f"{node.name} is not smooth, and no rule cuts it")
        return self._smooth(node)

    def _smooth(self, node: Operation) -> Additive:
        (argument,) = node.arguments
        low, high = ELEMENTARY[node.name].domain
        additive = self.build(argument)
        found = self.range_of_additive(additive)
        if not (low < found.low and found.high < high) and (low, high) != (-np.inf, np.inf):
            found = self.ranges.refined(argument, low, high)
            near = _ROUNDED * (found.high - found.low)
            if not (low < found.low and found.high < high) and low - near <= found.low and found.high <= high + near:
                arc = norms.arc(self, node)
                if arc is not None:
                    return arc
            if not (low < found.low and found.high < high):
                raise CannotCompile(node, "its argument may reach the end of the domain")
            self.tighten(additive, found)
        return self.apply(additive, lambda inner: of(node.name, inner))


def translate(
    expression: Expression,
    box: Box,
    cut: bool = False,
    tables_for_squares: bool = False,
    gap: float | None = None,
    sides: bool = True,
) -> Program:
    """The program of a formula on a box; with a gap, jumps become steps; `sides`: no gates below roots."""
    depth = _depth(expression.tape)
    if depth > _DEEPEST:
        raise CannotCompile(None, f"the formula is {depth} levels deep; {_DEEPEST} are compiled")
    jumps, nodes = (None, expression.nodes) if gap is None else jumps_of(expression, box, gap)
    if jumps is not None and not jumps.found:
        jumps = None  # nothing jumps
    translator = Translator(box, cut, tables_for_squares, jumps, sides)
    outputs = [translator.materialise(translator.build(node)) for node in nodes]
    if len(translator.features) == box.dim or not any(k >= box.dim for form in outputs for k, _ in form):
        # An affine formula, or one that is so on the box: heads of one token copy it.
        outputs = [translator.copy(form) if form.terms else form for form in outputs]
    return _alive(translator, outputs)


def _depth(tape: Tape) -> int:
    levels: list[int] = []
    for step in tape.steps:
        levels.append(1 + max((levels[a] for a in step.arguments), default=0))
    return max(levels)


def _alive(translator: Translator, outputs: list[Form]) -> Program:
    """The features that the outputs need, numbered anew in the order of their layers; inputs all stay."""
    features = translator.features
    needed = set(range(translator.box.dim))
    pending = [k for form in outputs for k, _ in form]
    while pending:
        k = pending.pop()
        if k not in needed:
            needed.add(k)
            pending += [j for form in features[k].forms for j, _ in form]
    jumps = translator.jumps

    def said(node: Node) -> Node:
        return node if jumps is None else jumps.written_out(node)

    order = sorted(needed, key=lambda k: (features[k].layer, k))
    place = {k: i for i, k in enumerate(order)}

    def moved(form: Form) -> Form:
        return Form.of(form.constant, {place[k]: c for k, c in form})

    kept = tuple(
        replace(
            f, number=place[k], meaning=said(f.meaning), score=moved(f.score), value=moved(f.value), base=moved(f.base)
        )
        for k, f in ((k, features[k]) for k in order)
    )
    known = {}
    for (constant, terms), ends in translator.known.items():
        if all(k in place for k, _ in terms):
            known[constant, tuple(sorted((place[k], c) for k, c in terms))] = ends
    gap, differences = (0.0, ()) if jumps is None else (jumps.gap, jumps.differences)
    conditions = tuple(replace(c, node=said(c.node)) for c in translator.conditions.values())
    return Program(translator.box.names, kept, tuple(map(moved, outputs)), conditions, known, gap, differences)


def described(program: Program) -> list[str]:
    return [program.described(feature) for feature in program.features if feature.kind != INPUT] + [
        f"output = {text(form.node(program.symbols))}" for form in program.outputs
    ]
