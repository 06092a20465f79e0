"""`Atoms`: what the algebra of polynomials does not look into, its meaning in the dag, and its sign on the box."""

from __future__ import annotations

from dataclasses import dataclass

from flint import fmpq

from softwright.checker.composition.polynomials import Key, Poly, key
from softwright.checker.composition.ranges import Ranges
from softwright.checker.limits import check_time
from softwright.checker.refusal import NotProvedError

MOST_WORK = 300_000  # products of terms in all
LONG_SEARCH, SHORT_SEARCH = 3_000, 500  # boxes to find a sign with


@dataclass(frozen=True)
class Atom:
    """`node` is its meaning in the dag; `inner` what it is made of: D, or the monomial of exp(m)."""

    kind: str
    node: int
    inner: tuple[Poly, ...]
    constant: bool  # whether it holds no variable


class Atoms:
    """The atoms of one question, their signs on the box, and how much work was done on them."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges, self.dag = ranges, ranges.dag
        self.atoms: list[Atom] = []
        self.assumed: dict[int, int] = {}  # an atom |D| or STEP(D) -> the sign of D in the case that is looked at
        self.origins: dict[Key, int] = {}  # a polynomial -> a node that is worth it
        self.positive: set[Key] = set()  # sums that are proved to be > 0
        self.spelt: set[int] = set()  # nodes that the formula and the program are made of
        self.work = 0
        self._numbers: dict[object, int] = {}
        self._signs: dict[tuple[int, bool], int] = {}

    def spend(self, amount: int) -> None:
        self.work += amount
        if self.work > MOST_WORK:
            raise NotProvedError("the program could not be compared with the formula: too many terms arise")
        if amount > 50:
            check_time()

    # Atoms ----------------------------------------------------------------------------------------------------------

    def atom(self, kind: str, label: object, inner: tuple[Poly, ...] = ()) -> int:
        """The number of an atom; `label` tells it from others of its kind, besides what it is made of."""
        spelt = (kind, label, *map(key, inner))
        if spelt not in self._numbers:
            self.spend(1)
            node = self._node(kind, label, inner)
            self._numbers[spelt] = len(self.atoms)
            self.atoms.append(Atom(kind, node, inner, not self.dag.varies[node]))
        return self._numbers[spelt]

    def _node(self, kind: str, label: object, inner: tuple[Poly, ...]) -> int:
        dag = self.dag
        if kind == "variable" and isinstance(label, int):
            return dag.variable(label)
        if kind == "prime" and isinstance(label, int):
            return dag.number(label)
        parts = [self.node(p) for p in inner]
        if kind == "poly":
            return parts[0]
        if kind == "step":
            truth = dag.add("compare", (">",), (parts[0], dag.number(0)))
            return dag.call("where", truth, dag.number(1), dag.number(0))
        return dag.call(kind, *parts)

    def node(self, p: Poly) -> int:
        """A node of the dag that is worth a polynomial."""
        found = self.origins.get(key(p))
        if found is not None:
            return found
        terms = []
        for m, c in sorted(p.items(), key=lambda term: repr(term[0])):
            factors = [(1, self.dag.power(self.atoms[a].node, fmpq(e.numerator, e.denominator))) for a, e in m]
            size = abs(c)
            if size != 1 or not factors:
                factors.insert(0, (1, self.dag.number(size)))
            terms.append((1 if c > 0 else -1, self.dag.product(factors)))
        return self.dag.sum(terms)

    def sign(self, a: int, strict: bool = False) -> int:
        """1 or -1 if the atom is proved not to be below or above 0 on the box (with `strict`: nor 0); else 0."""
        kind = self.atoms[a].kind
        if kind in ("exp", "prime", "pi"):
            return 1
        if (kind in ("abs", "step") and not strict) or (
            kind == "poly" and key(self.atoms[a].inner[0]) in self.positive
        ):
            return 1
        if (a, strict) not in self._signs:
            self._signs[a, strict] = self.node_sign(self.atoms[a].node, strict)
        return self._signs[a, strict]

    def node_sign(self, node: int, strict: bool = False) -> int:
        """The sign of a node; sub-expressions of formula and program are worth more work than what arises here."""
        if node in self.spelt:
            return self.ranges.sign(node, strict, LONG_SEARCH)
        return self.ranges.sign(node, strict, max(SHORT_SEARCH // max(len(self.dag[node].arguments), 1), 1))

    def base(self, a: int) -> Poly:
        """The atom itself as a polynomial, POLY(D) as D."""
        return self.atoms[a].inner[0] if self.atoms[a].kind == "poly" else {((a, 1),): fmpq(1)}
