"""What the nodes of a graph are: readers (torch, ONNX, scikit-learn) follow a graph with one `Value` for every node.

    Branch     a chain of layers over the input (`branches.py`)
    Product    phi(W_g a + b_g) * (W_u a + b_u), and the Linear layer behind it once it is met
    a number   a constant: one for all values, or one for each
    Missing    something else, with the reason; no fault while nobody needs it

A value also has its *forms*: what it is as a polynomial in the values of earlier branches (`spelt.py`), so that an
activation which a graph spells out in ten nodes is found at the tenth, whatever the nine before it are. squares and
products of a branch with itself are products too: relu(s)^2 = relu(s) s, hardswish(s) = hardsigmoid(s) s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from softwright.errors import InvalidInput
from softwright.targets.mlp.activation import Activation
from softwright.targets.mlp.activations import NO_THRESHOLD
from softwright.targets.mlp.branches import LINEAR, Branch, identity, joined, total
from softwright.targets.mlp.dense import DenseLayer
from softwright.targets.mlp.spelt import FUNCTIONS, ITSELF, Sum, combined, multiple, of_number, recognised

_FORMS_KEPT = 10  # of a value, those of the latest branches
Number = float | np.ndarray


@dataclass(frozen=True)
class Missing:
    """What is no layer, and why."""

    faults: tuple[str, ...]


@dataclass(frozen=True)
class Product:
    """Gate and value, chains that differ in their last layer only; the layer behind, if it was met."""

    gate: Branch
    value: Branch
    down: DenseLayer | None = None

    @property
    def outputs(self) -> int:
        return (self.gate.layers[-1] if self.down is None else self.down).outputs

    def scaled(self, scale: Number) -> Product:
        """The product times numbers, which its value takes up."""
        return replace(self, value=self.value.scaled(scale).settled())


Thing = Branch | Product | Missing | float | np.ndarray
Form = tuple[Branch, Sum]


@dataclass(frozen=True)
class Value:
    """What a node is, and its forms."""

    thing: Thing
    forms: tuple[Form, ...] = ()
    folded: bool = False  # whether weights were made of several numbers on the way here


def of(thing: Thing, folded: bool = False) -> Value:
    """A value without a past."""
    return Value(thing, ((thing, ITSELF),) if isinstance(thing, Branch) else (), folded)


def missing(*faults: str) -> Value:
    return Value(Missing(faults))


def also(operand: Value, fault: Value) -> Value:
    """A fault beside those that its operand has already."""
    things = [value.thing for value in (operand, fault)]
    return missing(*dict.fromkeys(text for thing in things if isinstance(thing, Missing) for text in thing.faults))


def _or_missing(make: Callable[[], Thing]) -> Thing:
    """What is made, or the faults that this raises."""
    try:
        return make()
    except InvalidInput as error:
        return Missing(tuple(error.faults))


def _made(make: Callable[[], Thing], forms: Sequence[Form], folded: bool) -> Value:
    """A value with the forms given; the activation that one of them is, if it is one, comes before anything else."""
    thing: Thing | None = None
    faults: tuple[str, ...] = ()
    for base, form in forms:
        try:
            found = recognised(form)
        except InvalidInput as error:
            faults = tuple(error.faults)
            continue
        if found is not None:
            thing = _or_missing(lambda base=base, found=found: _applied(base, *found))
            folded |= found[1] != 1.0
            break
    if thing is None:
        thing = _or_missing(make)
        if isinstance(thing, Missing) and faults:
            thing = Missing(faults)
    own = [(thing, ITSELF)] if isinstance(thing, Branch) else []
    return Value(thing, (*forms, *own)[-_FORMS_KEPT:], folded)


def _applied(base: Branch, phi: Activation, rate: float) -> Branch:
    return base.activated(phi) if rate == 1.0 else base.scaled(rate).activated(phi).scaled(1 / rate)


def _shared(operands: Sequence[Value], kind: str) -> list[Form]:
    """The forms of a result, over the branches that all operands which are no numbers have."""
    found = []
    for base, _ in next((value.forms for value in operands if value.forms), ()):
        sums = [_form(value, base) for value in operands]
        if all(form is not None for form in sums):
            form = combined(kind, [form for form in sums if form is not None])
            if form is not None:
                found.append((base, form))
    return found


def _form(value: Value, base: Branch) -> Sum | None:
    if isinstance(value.thing, float | int | np.ndarray):
        number = np.asarray(value.thing, dtype=np.float64)
        return of_number(float(number.reshape(()))) if number.size == 1 and np.isfinite(number).all() else None
    return next((form for own, form in value.forms if own is base), None)


def arithmetic(kind: str, operands: Sequence[Value], shown: str) -> Value:
    """add, sub, mul, div, neg or pow; `shown` is what messages call the operation."""
    things = [value.thing for value in operands]
    faults = [fault for thing in things if isinstance(thing, Missing) for fault in thing.faults]
    forms = _shared(operands, kind)
    folded = any(value.folded for value in operands)
    if all(isinstance(thing, float | int | np.ndarray) for thing in things):
        return _constant(kind, things, shown)
    if faults:
        return _made(lambda: Missing(tuple(dict.fromkeys(faults))), forms, folded)
    return _made(lambda: _plain(kind, things, shown), forms, True)


def _constant(kind: str, things: list[Any], shown: str) -> Value:
    operations: dict[str, Callable[..., Any]] = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "pow": np.power,
    }  # fmt: skip
    sizes = [np.size(thing) for thing in things]
    if kind not in operations or len({size for size in sizes if size > 1}) > 1:
        return missing(f"{shown} of constants of different shapes is not read; fold them")
    with np.errstate(all="ignore"):
        return Value(np.asarray(operations[kind](*(np.asarray(x, dtype=np.float64) for x in things))))


def _plain(kind: str, things: list[Any], shown: str) -> Thing:
    """What a sum, difference, product, quotient, sign or square of branches and constants is."""
    if kind == "neg":
        return things[0].scaled(-1.0)
    left, right = things
    if kind == "pow":
        power = float(np.asarray(right).reshape(())) if np.size(right) == 1 and not isinstance(right, Branch) else 0.0
        if power == 2.0 and isinstance(left, Branch):
            return _square(left)
        raise InvalidInput("transpile", [f"the operation {shown} with this power has no attention form; use squares"])
    both = isinstance(left, Branch) and isinstance(right, Branch)
    sign = {"add": 1.0, "sub": -1.0}.get(kind)
    if sign is not None and both:
        return total(left, right.scaled(sign) if sign < 0 else right)
    if kind == "mul" and both:
        return product(left, right)
    branch, constant = (right, left) if isinstance(left, float | int | np.ndarray) else (left, right)
    if not isinstance(constant, float | int | np.ndarray):
        raise InvalidInput("transpile", [f"{shown} of a gated block and something else has no attention form"])
    value = _fitting(branch, constant)
    if kind == "mul":
        return branch.scaled(value)
    if kind == "div" and branch is left and np.all(value != 0):
        return branch.scaled(1.0 / value)
    if sign is not None and isinstance(branch, Branch):
        own = 1.0 if branch is left else sign
        return branch.scaled(own, value if branch is right else sign * value)
    raise InvalidInput("transpile", [f"the operation {shown} has no attention form here; use sums and products"])


def _fitting(branch: Any, constant: Any) -> Number:
    """A constant as one number for all values, or one for each."""
    array = np.asarray(constant, dtype=np.float64)
    if array.size == 1:
        return float(array.reshape(()))
    width = branch.width if isinstance(branch, Branch) else branch.gate.width
    if array.shape[-1] != array.size or width not in (None, array.size):
        raise InvalidInput(
            "transpile", [f"numbers of shape {array.shape} meet rows of {width} values; mend the shapes"]
        )
    return array.reshape(-1)


def _square(branch: Branch) -> Product:
    """s^2 and relu(s)^2."""
    last = branch.settled().layers[-1:] or (None,)
    if last[0] is not None and last[0].activation.name == "relu":
        return product(branch, before_activation(branch))
    return product(branch, branch)


def before_activation(branch: Branch) -> Branch:
    """The same branch without its last activation."""
    layers = branch.settled().layers
    return Branch((*layers[:-1], replace(layers[-1], activation=LINEAR)))


def product(left: Branch, right: Branch) -> Product:
    """phi(a) b of two branches that part at their last layer."""
    sides = [side.settled() if side.layers else side for side in (left, right)]
    shared = [side.layers[:-1] for side in sides]
    if not all(side.layers for side in sides) or len(shared[0]) != len(shared[1]):
        raise InvalidInput("transpile", ["a product of branches that are not of one depth has no attention form here"])
    if any(x is not y for x, y in zip(*shared, strict=True)):
        raise InvalidInput("transpile", ["a product of branches that part earlier has no attention form here"])
    sides = [widened(side, max(each.layers[-1].outputs for each in sides)) for side in sides]
    active = [side for side in sides if side.layers[-1].activation.name != "identity"]
    if len(active) == 2:
        raise InvalidInput(
            "transpile", ["both factors of a gate have an activation; one of them must be linear, or name blocks"]
        )
    gate = active[0] if active else sides[0]
    return Product(gate, sides[1] if gate is sides[0] else sides[0])


def widened(side: Branch, size: int) -> Branch:
    """One value as `size` equal ones, where it meets so many."""
    last = side.layers[-1]
    if last.outputs != 1 or size == 1:
        return side
    return Branch((*side.layers[:-1], replace(last, weight=last.weight.repeat(size, 0), bias=last.bias.repeat(size))))


def function(name: str, operand: Value, activation: Activation | None, shown: str) -> Value:
    """A function of every value: an activation, or one that only occurs inside spelt ones (erf)."""
    forms = _shared([operand], name) if name in FUNCTIONS else []
    thing = operand.thing
    if isinstance(thing, Missing):
        return _made(lambda: thing, forms, operand.folded)
    if activation is None and name == "abs":
        activation = Activation("leaky_relu", (-1.0,))  # max(s, 0) - min(s, 0)
    if activation is None:
        return _made(lambda: Missing((f"{shown} has no attention form on its own",)), forms, operand.folded)
    return _made(lambda: activated(thing, activation), forms, operand.folded)


def activated(thing: Thing, activation: Activation) -> Thing:
    """phi of every value of a branch."""
    if activation.name == "identity":
        return thing
    if not isinstance(thing, Branch):
        raise InvalidInput("transpile", [f"{activation} follows something that is no Linear layer; put one before it"])
    return thing.activated(activation)


def chained(operand: Value, make: Callable[[Branch], Thing], shown: str) -> Value:
    """Something that is a chain of other layers (PReLU, batch norm, hardswish)."""
    thing = operand.thing
    if isinstance(thing, Missing):
        return operand
    if not isinstance(thing, Branch):
        return missing(f"{shown} does not follow a Linear layer; put one before it")
    return _made(lambda: make(thing), [], True)


def clamped(operand: Value, low: float | None, high: float | None, shown: str) -> Value:
    """Values between two limits, a hardtanh, or beside one: max(s, l) = relu(s - l) + l, min(s, h) = -max(-s, -h)."""
    limits = [limit for limit in (low, high) if limit is not None]
    if not limits:
        return operand
    if not np.isfinite(limits).all() or (low is not None and high is not None and low >= high):
        return also(operand, missing(f"{shown} has limits {low} and {high}; give finite ones, the lower one first"))
    if low is None:
        turned = arithmetic("neg", [operand], shown)
        return arithmetic("neg", [clamped(turned, -limits[0], None, shown)], shown)
    if high is not None:
        return function("", operand, Activation("hardtanh", (low, high)), shown)
    above = arithmetic("sub", [operand, Value(low)], shown) if low else operand
    ramp = function("", above, Activation("relu"), shown)
    return arithmetic("add", [ramp, Value(low)], shown) if low else ramp


def largest(one: Value, other: Value, shown: str) -> Value:
    """max(a, b) = b + relu(a - b), of branches or of one and a number."""
    numbers = [isinstance(value.thing, float | int | np.ndarray) for value in (one, other)]
    if numbers == [True, False]:
        return largest(other, one, shown)
    if numbers[1] and np.asarray(other.thing).size == 1:
        return clamped(one, float(np.asarray(other.thing).reshape(())), None, shown)
    ramp = function("", arithmetic("sub", [one, other], shown), Activation("relu"), shown)
    return arithmetic("add", [ramp, other], shown)


def smallest(one: Value, other: Value, shown: str) -> Value:
    """min(a, b) = -max(-a, -b)."""
    turned = [arithmetic("neg", [value], shown) for value in (one, other)]
    return arithmetic("neg", [largest(turned[0], turned[1], shown)], shown)


def chosen(condition: Value, above: Value, below: Value, shown: str) -> Value:
    """`above` where the condition d is positive, `below` elsewhere.

    What is read is continuous: above - below = k d, so that it is below + k relu(d), or leaky relu of multiples of d.
    """
    for base, form in condition.forms:
        high, low = _form(above, base), _form(below, base)
        gap = None if high is None or low is None else combined("sub", [high, low])
        rate = None if gap is None else multiple(gap, form)
        if low is None or rate is None:
            continue
        slope = multiple(low, form)
        if slope is not None and slope + rate == 1:
            phi = Activation("leaky_relu", (float(slope),)) if slope else Activation("relu")
            return function("", condition, phi, shown)
        ramp = arithmetic("mul", [function("", condition, Activation("relu"), shown), Value(float(rate))], shown)
        return ramp if not low else arithmetic("add", [ramp, below], shown)
    faults = [value for value in (condition, above, below) if isinstance(value.thing, Missing)]
    jumps = missing(
        f"{shown} chooses between values that are not known to meet where its condition changes, and what jumps has no "
        "attention form; write it with relu, clamp or maximum"
    )
    return faults[0] if faults else jumps


def logarithm(operand: Value, shown: str) -> Value:
    """log sigmoid(s) = -softplus(-s); no other logarithm."""
    thing = operand.thing
    whole = thing.settled() if isinstance(thing, Branch) and thing.layers else None
    if whole is None or whole.layers[-1].activation.name != "sigmoid":
        return also(operand, missing(f"{shown} has no attention form, but of a sigmoid; leave it out"))
    smooth = Activation("softplus", (1.0, NO_THRESHOLD))
    return chained(of(before_activation(whole)), lambda s: s.scaled(-1.0).activated(smooth).scaled(-1.0), shown)


def hard_swish(branch: Branch, slope: float = 1.0 / 6.0, offset: float = 0.5) -> Product:
    """s hardsigmoid(s)."""
    linear = branch.settled()
    if not linear.layers or linear.layers[-1].activation != LINEAR:
        size = linear.width
        if size is None:
            raise InvalidInput("transpile", ["hardswish does not follow a Linear layer; put one before it"])
        linear = linear.linear(identity(size), np.zeros(size))
    return product(linear.activated(Activation("hardsigmoid", (slope, offset))), linear)


def linear(operand: Value, weight: np.ndarray, bias: np.ndarray) -> Value:
    """W a + b."""
    thing = operand.thing
    if isinstance(thing, Branch):
        if not thing.plain and thing.width not in (None, weight.shape[1]):
            return missing(f"a layer of {weight.shape[1]} inputs gets {thing.width} values; mend the shapes")
        return of(thing.linear(weight, bias), operand.folded or not thing.plain)
    if isinstance(thing, Product) and thing.down is None:
        return Value(replace(thing, down=DenseLayer(weight, bias, LINEAR)), (), operand.folded)
    if isinstance(thing, Product):
        return missing("a Linear layer follows a gated block; name the block alone in blocks=[...]")
    return operand if isinstance(thing, Missing) else missing("a constant goes through a Linear layer; fold it")


def join(operands: Sequence[Value], shown: str) -> Value:
    """The values of several branches, one after the other."""
    faults = [fault for value in operands if isinstance(value.thing, Missing) for fault in value.thing.faults]
    if faults:
        return missing(*dict.fromkeys(faults))
    things = [value.thing for value in operands]
    if not things or not all(isinstance(thing, Branch) for thing in things):
        return missing(f"{shown} joins something else than the values of branches (dim=-1); join those, or name blocks")
    return _made(lambda: joined([thing for thing in things if isinstance(thing, Branch)]), [], True)


def selected(operand: Value, places: np.ndarray, width: int | None, shown: str) -> Value:
    """Some of the values, by their places."""
    thing = operand.thing
    if isinstance(thing, Missing):
        return operand
    size = thing.width if isinstance(thing, Branch) else None
    size = width if size is None else size
    if not isinstance(thing, Branch) or size is None:
        return missing(f"{shown} chooses among values of an unknown number; put a Linear layer before it")
    if not len(places) or np.any((places < -size) | (places >= size)):
        return missing(f"{shown} chooses values that are not there; mend it")
    whole = thing.settled() if thing.layers else thing
    if whole.layers and whole.layers[-1].activation == LINEAR:  # its rows, and no layer more
        last = whole.layers[-1]
        return of(Branch((*whole.layers[:-1], DenseLayer(last.weight[places], last.bias[places], LINEAR))), True)
    return of(thing.linear(identity(size)[places], np.zeros(len(places))), True)


def added_up(operand: Value, mean: bool, shown: str) -> Value:
    """The sum or mean of all values, as one value."""
    thing = operand.thing
    size = thing.width if isinstance(thing, Branch) else thing.outputs if isinstance(thing, Product) else None
    if isinstance(thing, Missing):
        return operand
    if size is None:
        return missing(f"{shown} adds up values of an unknown number; put a Linear layer before it")
    found = linear(operand, np.full((1, size), 1.0 / size if mean else 1.0), np.zeros(1))
    return replace(found, folded=True)
