"""`Feature`: one number of the residual stream, what it means, and which heads compute it; `Program`: all of them.

Seven kinds. The meaning is exact; what runs differs from it by an error that each kind's lemma bounds.

| kind | means | heads | lemma |
|---|---|---|---|
| input | a variable | none | exact |
| table | F(u), u a form | one, shared by all functions of the same atom and layer: fixed tokens alone | `tables.py` |
| product | z u | H gates of two tokens, the data token and a null token | `gates.py` |
| exponential | z exp(T) | one gate | `gates.py` |
| maximum | max(a, b) = b + max(a - b, 0) | one gate | `gates.py` |
| step | z [c > 0] where |c| >= gap, and t z with some t of [0, 1] elsewhere | one gate | `steps.py` |
| copy | z in a column of its own | one, the data token alone | its row rounds, no more |

A gate writes a column of the stream; the feature is that column plus a linear form of other features (z times a
constant for a product, b for a maximum), which costs nothing: whoever reads the feature reads both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from softwright.compiler.forms import NOTHING, Form
from softwright.compiler.nodes import ZERO, Node, Variable, number, of, power, rational, substitute, text

INPUT, TABLE, PRODUCT, EXPONENTIAL, MAXIMUM = "input", "table", "product", "exponential", "maximum"
STEP, COPY = "step", "copy"


@dataclass(frozen=True)
class Feature:
    """`score` is u, T, c or a - b; `value` is z; `base` is b; `function` is F, a tree in `u`.

    `meaning` is the same as a tree in the inputs.
    """

    number: int
    kind: str
    layer: int
    meaning: Node
    score: Form = NOTHING
    value: Form = NOTHING
    base: Form = NOTHING
    function: Node | None = None
    gap: float = 0.0  # of a step
    end: tuple[Fraction, int] | None = None  # a table's singular point, and on which side of it its range lies

    @property
    def is_square(self) -> bool:
        return self.kind == PRODUCT and self.score.key == self.value.key

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms that it reads."""
        if self.kind == INPUT:
            return ()
        if self.kind in (TABLE, COPY):
            return (self.score,)
        return (self.score, self.base) if self.kind == MAXIMUM else (self.score, self.value)


@dataclass(frozen=True)
class Condition:
    """A fact about a sub-expression of the formula on the whole box, on which a rewriting rests."""

    node: Node
    relation: str  # "> 0", ">= 0", "<= 0", "!= 0"
    why: str

    @property
    def text(self) -> str:
        return f"{text(self.node)} {self.relation}"


def column_of(form: Form, features: Sequence[Feature]) -> int | None:
    """The feature that a form is, if its column holds it without an offset."""
    if len(form.terms) != 1 or form.constant != number(0) or form.terms[0][1] != number(1):
        return None
    k = form.terms[0][0]
    return k if features[k].kind in (INPUT, TABLE, EXPONENTIAL, COPY) else None


@dataclass(frozen=True)
class Program:
    """Features in the order of their layers, the forms that are the outputs, and what the rewriting rests on.

    `known` holds, for forms by key, ranges proved from the inputs that are tighter than what their parts show.
    """

    names: tuple[str, ...]
    features: tuple[Feature, ...]
    outputs: tuple[Form, ...]
    conditions: tuple[Condition, ...]
    known: dict[tuple[str, tuple[tuple[int, str], ...]], tuple[float, float]]
    gap: float = 0.0
    differences: tuple[str, ...] = ()  # nothing is claimed where one of them is within the gap of 0

    @property
    def depth(self) -> int:
        return max((feature.layer for feature in self.features), default=0)

    @property
    def symbols(self) -> dict[int, Node]:
        """A variable for each feature: its name."""
        inputs = len(self.names)
        letter = next(c for c in ("u", "v", "feature") if not any(re.fullmatch(rf"{c}\d+", n) for n in self.names))
        return {
            f.number: Variable(self.names[f.number] if f.number < inputs else f"{letter}{f.number - inputs + 1}")
            for f in self.features
        }

    def roots_of(self, feature: Feature) -> list[tuple[Node, int]] | None:
        """[(c_i, z_i), ..] if a table is one of p + sum c_i z_i^2 with c_i > 0, singular at p, each z_i a column."""
        if feature.kind != TABLE or feature.end is None or feature.end[1] < 0:
            return None
        if rational(feature.score.constant) != feature.end[0]:
            return None
        found: list[tuple[Node, int]] = []
        for k, c in feature.score:
            square = self.features[k]
            size = rational(c)
            root = column_of(square.score, self.features) if square.is_square else None
            if root is None or size is None or size <= 0:
                return None
            found.append((c, root))
        return found

    def described(self, feature: Feature) -> str:
        """The feature as text: u3 = exp(u1)*u2."""
        names = self.symbols
        score, value, base = (form.node(names) for form in (feature.score, feature.value, feature.base))
        if feature.kind == TABLE and feature.function is not None:
            meaning = substitute(feature.function, {"u": score})
        elif feature.kind == COPY:
            meaning = score
        elif feature.kind == PRODUCT:
            meaning = power(value, number(2)) if feature.is_square else of("mul", value, score)
        elif feature.kind == EXPONENTIAL:
            one = value == number(1)
            meaning = of("exp", score) if one else of("mul", value, of("exp", score))
        elif feature.kind == STEP:
            meaning = of("where", of("less", ZERO, score), value, ZERO)
        else:
            meaning = of("max", feature.score.plus(feature.base).node(names), base)
        name = names[feature.number]
        return f"{text(name)} = {text(meaning)}"
