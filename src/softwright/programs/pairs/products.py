"""`parts_of_sum`: a sum over what two tokens have together, as products of what token i has and sums of one kernel.

    sum_j sum_m c_m a_m(i) b_m(j) F_m(Q_m(i, j))  =  sum_m c_m a_m(i) (sum_j b_m(j) F_m(Q_m(i, j)))

Sums and products are multiplied out; a quotient is a product with a reciprocal; |e| is sqrt(e e), for kernels are
functions of polynomials; max(a, b) = (a + b + |a - b|)/2, min(a, b) = (a + b - |a - b|)/2. What is left over in a
product, beside factors of one token, is a kernel: functions of one polynomial Q of both tokens, its leaf. Where Q has
no function around it the sum is one of token j alone. exp(a) exp(b) is exp(a + b).
"""

from __future__ import annotations

from fractions import Fraction

from softwright.programs.linear import constant
from softwright.programs.terms import Pool, Term, shown
from softwright.programs.types import Refused

Product = tuple[tuple[Term, ...], tuple[Term, ...], tuple[Term, ...]]  # factors of token i, of token j, of both
Products = dict[Product, Fraction]
MOST = 64
_POLYNOMIAL = ("add", "sub", "neg", "mul")
_HOW = "use sums, products and functions of one polynomial of both tokens: x[j]/((x[j] - x[i])**2 + 0.1)"


def number_in(term: Term) -> Fraction | None:
    return constant(term.args[0] if term.op in ("i", "j") else term)


def is_pair(term: Term) -> bool:
    """Whether a sum or mean is over what token i has, or both tokens have together."""
    return term.op in ("sum", "mean") and term.args[0].op not in ("j", "number")


def multiplied_out(pool: Pool, term: Term) -> Products:
    """A value of both tokens as a sum of products; `Refused` if it has no such form."""
    number = number_in(term)
    if number is not None:
        return {((), (), ()): number} if number else {}
    op, args = term.op, term.args
    if op in ("i", "j"):
        own = (args[0],)
        return {(own, (), ()) if op == "i" else ((), own, ()): Fraction(1)}
    if op in ("add", "sub"):
        parts = [multiplied_out(pool, arg) for arg in args]
        return _sum(parts[0], parts[1], Fraction(1 if op == "add" else -1))
    if op == "neg":
        return _sum({}, multiplied_out(pool, args[0]), Fraction(-1))
    if op == "mul":
        return _product(pool, term, *(multiplied_out(pool, arg) for arg in args))
    if op == "div":
        divisor = number_in(args[1])
        if divisor:
            return _sum({}, multiplied_out(pool, args[0]), 1 / divisor)
        one = number_in(args[0])
        if args[1].op in ("i", "j"):
            inverse = pool.make(args[1].op, pool.make("div", pool.number(1), args[1].args[0]))
            return _product(pool, term, multiplied_out(pool, args[0]), multiplied_out(pool, inverse))
        inverse = pool.make("div", pool.number(1), _smoothed(pool, args[1]))
        own = {((), (), (inverse,)): Fraction(1)}
        return own if one == 1 else _product(pool, term, multiplied_out(pool, args[0]), own)
    if op == "pow" and (power := number_in(args[1])) in range(1, 9):
        inner = multiplied_out(pool, args[0])
        found = inner
        for _ in range(int(power or 1) - 1):
            found = _product(pool, term, found, inner)
        return found
    if op == "abs":
        return {((), (), (_size(pool, args[0]),)): Fraction(1)}
    if op in ("max", "min"):
        both = _sum(multiplied_out(pool, args[0]), multiplied_out(pool, args[1]), Fraction(1))
        apart = {((), (), (_size(pool, pool.make("sub", *args)),)): Fraction(1)}
        return _sum({}, _sum(both, apart, Fraction(1 if op == "max" else -1)), Fraction(1, 2))
    if op.startswith("map:") or op == "pow":
        return {((), (), (_smoothed(pool, term),)): Fraction(1)}
    raise Refused(term, f"{shown(term)} has no form as a sum of products; {_HOW}")


def _size(pool: Pool, term: Term) -> Term:
    return pool.make("map:sqrt", pool.make("mul", term, term))


def _smoothed(pool: Pool, term: Term) -> Term:
    """The same without |e|: kernels are functions of polynomials."""
    if is_polynomial(term):
        return term
    if term.op == "abs":
        return _size(pool, term.args[0])
    args = [_smoothed(pool, arg) for arg in term.args]
    return term if args == list(term.args) else pool.make(term.op, *args, value=term.value)


def _sum(one: Products, other: Products, factor: Fraction) -> Products:
    found = dict(one)
    for product, c in other.items():
        found[product] = found.get(product, Fraction(0)) + factor * c
    return {product: c for product, c in found.items() if c}


def _product(pool: Pool, term: Term, one: Products, other: Products) -> Products:
    found: Products = {}
    for (i, j, f), a in one.items():
        for (k, m, g), b in other.items():
            key = _ordered((*i, *k)), _ordered((*j, *m)), _kernels(pool, (*f, *g))
            found[key] = found.get(key, Fraction(0)) + a * b
    if len(found) > MOST:
        raise Refused(term, f"{shown(term)} has more than {MOST} products; split the sum")
    return {product: c for product, c in found.items() if c}


def _ordered(factors: tuple[Term, ...]) -> tuple[Term, ...]:
    return tuple(sorted(factors, key=shown))


def _kernels(pool: Pool, factors: tuple[Term, ...]) -> tuple[Term, ...]:
    """Exponentials are joined into one."""
    powers = [factor.args[0] for factor in _ordered(factors) if factor.op == "map:exp"]
    rest = [factor for factor in factors if factor.op != "map:exp"]
    if len(powers) < 2:
        return _ordered(factors)
    total = powers[0]
    for power in powers[1:]:
        total = pool.make("add", total, power)
    return _ordered((*rest, pool.make("map:exp", total)))


def _joined(pool: Pool, factors: tuple[Term, ...]) -> Term:
    found = factors[0]
    for factor in factors[1:]:
        found = pool.make("mul", found, factor)
    return found


def parts_of_sum(pool: Pool, term: Term) -> list[tuple[Fraction, Term]]:
    """A sum (or a mean over all tokens) as (factor, term); a sum of one kernel alone is [(1, itself)]."""
    inner, condition = term.args
    found: list[tuple[Fraction, Term]] = []
    shares = (pool.make("div", pool.number(1), pool.make("length")),) if term.op == "mean" else ()
    if shares and condition.op != "number":
        raise Refused(term, f"{shown(term)} is a mean over some pairs; write a sum over a count")
    for (mine, other, kernel), factor in multiplied_out(pool, inner).items():
        value = _joined(pool, _ordered((*other, *shares))) if other or shares else None
        if kernel:
            product = _joined(pool, kernel)
            inside = product if value is None else pool.make("mul", pool.make("j", value), product)
        else:
            inside = pool.number(1) if value is None else pool.make("j", value)
        part = pool.make("sum", inside, condition)
        found.append((factor, pool.make("mul", _joined(pool, mine), part) if mine else part))
    return found


def kernel_of(term: Term) -> tuple[Term | None, Term]:
    """(what token j has, or None, and the kernel) of a sum of one kernel alone."""
    inner = term.args[0]
    if inner.op == "mul" and inner.args[0].op == "j":
        return inner.args[0].args[0], inner.args[1]
    return None, inner


def is_kernel(pool: Pool, term: Term) -> bool:
    """Whether a sum over pairs is of one kernel alone."""
    return term.op == "sum" and parts_of_sum(pool, term) == [(Fraction(1), term)]


def is_polynomial(term: Term) -> bool:
    if term.op in ("i", "j", "number"):
        return True
    if term.op in _POLYNOMIAL:
        return all(is_polynomial(arg) for arg in term.args)
    if term.op == "div":
        return bool(number_in(term.args[1])) and is_polynomial(term.args[0])
    return term.op == "pow" and number_in(term.args[1]) in range(1, 9) and is_polynomial(term.args[0])


def leaf_of(kernel: Term) -> Term:
    """The one polynomial of both tokens that a kernel is a function of; `Refused` if there are several."""
    found: dict[int, Term] = {}
    pending = [kernel]
    while pending:
        last = pending.pop()
        if number_in(last) is not None:
            continue
        if is_polynomial(last):
            found[last.number] = last
        elif last.op in ("add", "sub", "neg", "mul", "div", "pow") or last.op.startswith("map:"):
            pending += last.args
        else:
            raise Refused(last, f"{shown(last)} is no smooth function of both tokens; {_HOW}")
    if len(found) != 1:
        names = " and ".join(shown(one) for one in found.values())
        raise Refused(kernel, f"{shown(kernel)} depends on {names}; {_HOW}")
    return next(iter(found.values()))


def distances(pool: Pool, term: Term) -> Term:
    """sum_k |x_k - x_i| as a sum of one kernel."""
    apart = pool.make("sub", pool.make("j", term), pool.make("i", term))
    return pool.make("sum", pool.make("map:sqrt", pool.make("mul", apart, apart)), pool.number(1))
