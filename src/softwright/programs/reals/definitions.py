"""Functions of sequences that are written out as other terms, one row each: what stands for a call.

relu(a)        max(a, 0)
logsumexp(a)   log(mean(exp(a))) + log(n): the sum of n numbers is n times their mean, which has a smaller range
softmax(a)     exp(a - logsumexp(a)), which is at most 1
var(a)         mean((a - mean(a))**2)
"""

from __future__ import annotations

from collections.abc import Callable

from softwright.programs.terms import Pool, Term


def _mean(pool: Pool, a: Term) -> Term:
    return pool.make("mean", pool.make("j", a), pool.number(1))


def _logsumexp(pool: Pool, a: Term) -> Term:
    mean = _mean(pool, pool.make("map:exp", a))
    return pool.make("add", pool.make("map:log", mean), pool.make("map:log", pool.make("length")))


def _softmax(pool: Pool, a: Term) -> Term:
    return pool.make("map:exp", pool.make("sub", a, _logsumexp(pool, a)))


def _var(pool: Pool, a: Term) -> Term:
    away = pool.make("sub", a, _mean(pool, a))
    return _mean(pool, pool.make("mul", away, away))


DEFINITIONS: dict[str, Callable[[Pool, Term], Term]] = {
    "relu": lambda pool, a: pool.make("max", a, pool.number(0)),
    "logsumexp": _logsumexp,
    "softmax": _softmax,
    "var": _var,
}
