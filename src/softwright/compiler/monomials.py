"""Products, quotients, powers and roots: monomials  c * f_1^p_1 * f_2^p_2 * ...

A monomial is taken apart into factors, factors on the same atom are one function of it, and the rest is put together
again with few tokens:

- *positive* factors go into one exponent T = sum p_i log f_i, each logarithm a function of its own atom;
- factors that change sign, and plain features, stay as values, multiplied pair by pair;
- the result is z exp(T): one gate for any number of positive factors.

Side conditions, each recorded: a factor under a logarithm, or under a power that is negative or no integer, is proved
positive (or its negative is, and the sign is carried); a power that is no integer is taken into a product only if every
factor is proved positive, or has an even exponent, whose root is that of its absolute value.

*Sums that span decades.* K**n + c**n may be 1e-8 here and 1e4 there. A column that holds it is off by what rounding
leaves of 1e4, and then its logarithm means nothing where it is small. But each term is the exponential of something
moderate, so a + b = a (1 + exp(log b - log a)) for positive a and b, where the second factor is a function of one
variable, and the logarithm of the first one is known already. Nothing is lost, however wide the range.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from softwright.compiler.forms import Additive, Form, polynomial
from softwright.compiler.nodes import (
    ONE,
    CannotCompile,
    Node,
    Operation,
    add,
    is_constant,
    is_zero,
    mul,
    neg,
    number,
    of,
    power,
    rational,
    sub,
    text,
)
from softwright.compiler.norms import root_beside
from softwright.compiler.sides import is_absolute, is_root, zero_of

if TYPE_CHECKING:
    from softwright.compiler.translate import Translator

Factor = tuple[Node, Fraction]


def _is_whole(p: Fraction) -> bool:
    return p.denominator == 1


def raised(node: Node, p: Fraction) -> Node:
    """node**p as a tree."""
    exact = rational(node) if is_constant(node) and _is_whole(p) else None
    if exact is not None and exact != 0:
        return number(exact ** int(p))
    if p == 1:
        return node
    if p == Fraction(1, 2):
        return of("sqrt", node)
    return power(node, number(p))


def factors(self: Translator, node: Node, p: Fraction = Fraction(1)) -> tuple[list[Factor], Node]:
    """node**p for a whole p as (factors, constant)."""
    if is_constant(node):
        return [], raised(node, p) if p != 1 else node
    if isinstance(node, Operation):
        if node.name == "neg":
            inner, constant = factors(self, node.arguments[0], p)
            return inner, constant if p % 2 == 0 else neg(constant)
        if node.name in ("mul", "div"):
            first, a = factors(self, node.arguments[0], p)
            second, b = factors(self, node.arguments[1], p if node.name == "mul" else -p)
            return first + second, mul(a, b)
        if node.name == "sqrt":
            return _root(self, node.arguments[0], Fraction(1, 2), p)
        if node.name == "pow" and is_constant(node.arguments[1]):
            exponent = rational(node.arguments[1])
            if exponent is not None and _is_whole(exponent):
                return factors(self, node.arguments[0], p * exponent)
            if exponent is not None:
                return _root(self, node.arguments[0], exponent, p)
        beside = root_beside(self, node)
        if beside is not None:
            b, rest = beside
            self.require(b, "> 0", "sqrt(a**2 + b) - a is sqrt(b) times a function of a/sqrt(b)")
            inner, constant = _root(self, b, Fraction(1, 2), p)
            return [*inner, (rest, p)], constant
    return [(node, p)], ONE


def _root(self: Translator, node: Node, q: Fraction, p: Fraction) -> tuple[list[Factor], Node]:
    """(node**q)**p for a q that is no integer: taken into the product only where that is proved to be right."""
    inner, constant = merged(self, *factors(self, node))
    unsplit = [(node, q * p)], ONE
    if self.ranges.of(constant).low <= 0:
        return unsplit
    out: list[Factor] = []
    sign = 1
    for f, e in inner:
        if self.is_positive(f):
            self.require(f, "> 0", "a root of a product is the product of the roots")
            out.append((f, e * q * p))
        elif _is_whole(e) and e % 2 == 0:
            out.append((of("abs", f), e * q * p))  # (f^2k)^q = abs(f)^(2kq), whatever the sign of f
        elif _is_whole(e) and self.is_positive(neg(f)):
            self.require(neg(f), "> 0", "a root of a product of negative factors")
            out.append((neg(f), e * q * p))
            sign = -sign
        else:
            return unsplit
    return (out, raised(constant, q * p)) if sign > 0 else unsplit


def merged(self: Translator, found: list[Factor], constant: Node) -> tuple[list[Factor], Node]:
    """Equal factors once, constants folded, factors that are certainly negative turned round."""
    by_number: dict[int, Factor] = {}
    for f, p in found:
        key = self._number(f)
        by_number[key] = (f, p + (by_number[key][1] if key in by_number else 0))
    kept: list[Factor] = []
    for factor, p in by_number.values():
        f = factor
        if p == 0:
            continue
        built = self.build(f)
        if built.is_constant:
            constant = mul(constant, raised(built.form.constant, p))
            continue
        if _is_whole(p) and not self.is_positive(f) and self.is_positive(neg(f)):
            self.require(neg(f), "> 0", "a factor that is negative everywhere is turned round")
            f, constant = neg(f), constant if p % 2 == 0 else neg(constant)
        kept.append((f, p))
    return kept, constant


def _apart(self: Translator, found: list[Factor], constant: Node) -> tuple[list[Factor], Node]:
    """Divisors that span many decades with one term taken out, one that the other factors cancel if there is one."""
    others = {self._number(f) for f, p in found if p > 0}

    def cancels(term: Node) -> bool:
        return all(self._number(f) in others for f, _ in factors(self, term)[0])

    out: list[Factor] = []
    for f, p in found:
        apart = taken_out(self, f, cancels) if p < 0 else None
        if apart is None:
            out.append((f, p))
            continue
        inner, factor = factors(self, apart[0], p)
        out += [*inner, (apart[1], p)]
        constant = mul(constant, factor)
    return merged(self, out, constant) if len(out) > len(found) else (found, constant)


def logarithm(self: Translator, node: Node) -> Additive | None:
    """log of a product of positive factors as a sum; None if some factor may not be positive."""
    found, constant = merged(self, *factors(self, node))
    if len(found) < 2 and not (found and found[0][1] != 1):
        return None
    if self.ranges.of(constant).low <= 0 or not all(self.is_positive(f) for f, _ in found):
        return None
    total = Additive.constant(of("log", constant) if constant != ONE else number(0))
    for f, p in found:
        self.require(f, "> 0", "the logarithm of a product is the sum of the logarithms")
        total = total.plus(_log(self, f).times(number(p)))
    return total


def _log(self: Translator, node: Node) -> Additive:
    return self.build(of("log", node))


def _needs_sign(p: Fraction) -> bool:
    return p < 0 or not _is_whole(p)


def build(self: Translator, node: Operation) -> Additive:
    """The rule of products, quotients, roots and constant powers."""
    every, constant = factors(self, node)
    found, constant = _apart(self, *merged(self, _odd_roots(self, every), constant))
    if is_zero(constant) or not found:
        return Additive.constant(constant)
    for f, p in found:
        if not _needs_sign(p) or _is_two_sided(self, f, p):
            continue
        if self.is_positive(f):
            self.require(f, "> 0", "a quotient or a root of a positive factor")
        elif p > 0 and self.touches_zero(f):
            self.require(f, ">= 0", "a root of what is not negative")
        else:
            raise CannotCompile(node, f"its factor {_short(f)} may vanish or change its sign")
    groups: dict[object, list[Factor]] = {}
    for f, p in found:
        two_sided = _is_two_sided(self, f, p)
        built = _two_sided(self, f) if two_sided else self.build(f)
        single = None if self.cut and built.parts and not two_sided else built.single()
        groups.setdefault(single[0].key if single is not None else ("node", self._number(f)), []).append((f, p))
    if len(groups) == 1:
        return _one_group(self, found).times(constant)
    return _several(self, list(groups.values()), constant)


def _odd_roots(self: Translator, found: list[Factor]) -> list[Factor]:
    """sign(a) beside a root of abs(a) is one function of a, which is continuous, and linear in a under its root."""
    out = list(found)
    for sign in [(f, p) for f, p in found if isinstance(f, Operation) and f.name == "sign" and p % 2 == 1]:
        size = of("abs", *sign[0].arguments) if isinstance(sign[0], Operation) else sign[0]
        roots = [(f, p) for f, p in out if self.same(f, size) and _is_two_sided(self, f, p)]
        if not roots or sign not in out:
            continue
        out = [factor for factor in out if factor != sign and factor not in roots]
        p = sum((p for _, p in roots), Fraction(0))
        ((atom, inner),) = _two_sided(self, size).parts
        under = inner.arguments[0] if isinstance(inner, Operation) else inner
        joined = mul(sign[0], raised(size, p))
        self.define(joined, Additive(Form(), ((atom, mul(of("sign", under), raised(inner, p))),)))
        out.append((joined, Fraction(1)))
    return out


def _is_two_sided(self: Translator, f: Node, p: Fraction) -> bool:
    """Whether it is a root of abs(a) where a changes its sign."""
    if not self.sides or not is_absolute(f) or not isinstance(f, Operation) or not is_root(p):
        return False
    found = self.range_of(f.arguments[0])
    return found.low < 0 < found.high


def _two_sided(self: Translator, f: Node) -> Additive:
    """abs(a) as a function of the atom of a, which it is linear in: no gate is made of it (`sides.py`)."""
    inner = self.build(f.arguments[0] if isinstance(f, Operation) else f)
    single = inner.single()
    if single is None or zero_of(single[1]) is None:
        single = Additive(self.materialise(inner)).single()
    if single is None:
        raise RuntimeError("what changes its sign is no constant")
    return Additive(Form(), ((single[0], of("abs", single[1])),))


def _one_group(self: Translator, items: list[Factor]) -> Additive:
    """All factors depend on one atom, or there is one factor: a function of one variable."""
    if len(items) == 1:
        (f, p), *_ = items
        if _is_two_sided(self, f, p):
            atom, inner = _two_sided(self, f).single() or (Form(), ONE)
            return Additive(Form(), ((atom, raised(inner, p)),))
        built = self.build(f)
        return built if p == 1 else self.apply(built, lambda inner: raised(inner, p))
    total: Node | None = None
    atom = Form()
    for f, p in items:
        single = (_two_sided(self, f) if _is_two_sided(self, f, p) else self.build(f)).single()
        if single is None:
            raise RuntimeError("factors of one group share an atom")
        atom, inner = single
        term = raised(inner, p)
        total = term if total is None else mul(total, term)
    return Additive(Form(), ((atom, total if total is not None else ONE),))


def _is_cheap(additive: Additive) -> bool:
    """Whether it is a form already, or becomes one by squares alone."""
    found = [polynomial(function) for _, function in additive.parts]
    return all(coefficients is not None and len(coefficients) <= 3 for coefficients in found)


def _is_plain(self: Translator, items: list[Factor]) -> bool:
    """One factor, to the power 1 or 2, that is a form: a product gate costs fewer tokens than a logarithm."""
    (f, p), *others = items
    if others or p not in (1, 2) or _is_exp(f):
        return False
    built = self.build(f)
    return not built.parts or (p == 1 and _is_cheap(built))


def _several(self: Translator, groups: list[list[Factor]], constant: Node) -> Additive:
    under_log = [g for g in groups if all(self.is_positive(f) for f, _ in g) and not _is_plain(self, g)]
    values = [g for g in groups if not any(g is other for other in under_log)]
    if len(under_log) == len(values) == 1 and all(p == 1 and not _is_exp(f) for f, p in under_log[0]):
        values, under_log = values + under_log, []  # one product is no dearer than a logarithm and a gate
    forms = [self.materialise(_one_group(self, g)) for g in values]
    while len(forms) > 1:  # the shallowest first, so that the stack stays low
        forms.sort(key=lambda form: max((self.features[k].layer for k, _ in form), default=0))
        first, second, *rest = forms
        forms = [*rest, self.product(first, second)]
    if not under_log:
        return Additive(forms[0]).times(constant)
    exponent = Additive()
    for f, p in (factor for g in under_log for factor in g):
        self.require(f, "> 0", "a product of positive factors is the exponential of a sum of logarithms")
        exponent = exponent.plus(_log(self, f).times(number(p)))
    if forms:
        return Additive(self.exponential(self.materialise(exponent), forms[0])).times(constant)
    sign = ONE if self.ranges.of(constant).low > 0 else neg(ONE)
    size = mul(sign, constant)
    inside = exponent.plus(Additive.constant(of("log", size))) if size != ONE else exponent
    return Additive(self.exponential(self.materialise(inside), Form(ONE))).times(sign)


def _is_exp(node: Node) -> bool:
    return isinstance(node, Operation) and node.name == "exp"


def _short(node: Node) -> str:
    written = text(node)
    return written if len(written) <= 60 else f"{written[:57]}..."


def taken_out(self: Translator, node: Node, cancels: Callable[[Node], bool] = is_constant) -> tuple[Node, Node] | None:
    """(a, 1 + exp(log b - log a)) for a sum a + b of positive terms that is not certainly clear of zero; else None.

    Of the two terms one that `cancels` is taken out, if there is one.
    """
    if not isinstance(node, Operation) or node.name != "add" or is_constant(node) or self.is_positive(node):
        return None
    first, second = node.arguments
    if cancels(second) and not cancels(first):
        first, second = second, first
    a, b = _log_of(self, first), _log_of(self, second)
    if a is None or b is None:
        return None
    for term in (first, second):
        if not is_constant(term):
            self.require(term, "> 0", "a sum of positive terms is one of them times one plus an exponential")
    return first, add(ONE, of("exp", sub(b, a)))


def _log_of(self: Translator, node: Node) -> Node | None:
    """The logarithm of a term that is certainly positive, taken apart; None where that is not known."""
    if is_constant(node):
        return of("log", node) if self.ranges.of(node).low > 0 else None
    if isinstance(node, Operation):
        if node.name == "exp":
            return node.arguments[0]
        if node.name in ("mul", "div"):
            a, b = (_log_of(self, argument) for argument in node.arguments)
            if a is None or b is None:
                return None
            return add(a, b if node.name == "mul" else neg(b))
        if node.name == "pow" and self.is_positive(node.arguments[0]):
            return mul(node.arguments[1], of("log", node.arguments[0]))
    return of("log", node) if self.is_positive(node) else None
