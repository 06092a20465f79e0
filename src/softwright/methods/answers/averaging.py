"""Model averaging and selection in context: several methods fit the same rows, held-out rows decide what each counts.

The first column of x is a mark: 0 for rows that the methods fit, 1 for rows that are held out. With e_k the mean of
(y - f_k(x))^2 over the rows held out, f_k what method k makes of the others,

    f(x) = sum_k p_k f_k(x),     p = softmax(-e / temperature)

is the average with exponential weights; as the temperature falls it becomes the choice of the method with the smallest
error. A softmax over the methods is one head.

The stacks of the methods run in one stack: each has columns of its own and segments of its own, but for the queries,
which all of them answer, and the held-out rows, which are asked like queries. A marked row has log weight -1e30 as an
observation, so that its weight is exactly 0. Then six layers more:

    miss       r_jk = y_j - f_k(x_j)                     the linear map of the stream; at the queries f_k itself
    square     r_jk^2                                    `squares`, at the held-out rows
    loss       e_k at the vote of k                      a mean over the rows that are marked
    weigh      +-p_k at the votes of both signs          the softmax over the methods
    average    sum_k p_k f_k(x)                          bilinear, over the votes
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from softwright.errors import Faults, InvalidInput
from softwright.methods.answers.kernel import NO_COEFFICIENT
from softwright.methods.answers.squares import square_heads
from softwright.methods.bilinear import bilinear_heads
from softwright.methods.constants import Constants
from softwright.methods.frame import (
    FIXED,
    FitBlueprint,
    Guard,
    HeadWeights,
    LayerWeights,
    Segment,
    Slots,
    head,
    layer,
)
from softwright.methods.row import Method

METHODS_LISTED = "least_squares, ridge:0.1, ridge:1"
_NOT_FITTED = -1e30  # the log weight of a row that is held out
_HUGE = 1e25  # above any score, and far below what overflows float32
_ROOM = 8.0  # predictions may be this many times as far from the mean as y


@dataclass(frozen=True)
class Part:
    """One method of the list, with its own constants."""

    name: str
    constants: Constants
    row: Method


def parts_of(c: Constants) -> list[Part]:
    """The methods of the list; every fault of it is raised together."""
    from softwright.methods.methods import METHODS

    faults, found = Faults("in_context"), []
    faults.check(c.features >= 2, "averaging takes a mark and at least one feature in x; give features >= 2")
    for text in str(c.option("methods")).split(","):
        name, _, value = text.strip().partition(":")
        row = METHODS.get(name)
        if row is None or not _averaged(row):
            usable = ", ".join(each.name for each in METHODS.values() if _averaged(each))
            faults.add(f"averaging has no method {name!r}; list some of {usable}, each with its penalty: ridge:0.1")
            continue
        settled = _settled(row, c, value, faults)
        if settled is not None:
            found.append(Part(text.strip(), settled, row))
    faults.raise_if_any()
    return found


def _averaged(row: Method) -> bool:
    """Methods that answer with one real number for any y."""
    default = Method.__dataclass_fields__
    plain = row.check is default["check"].default and row.check_rows is default["check_rows"].default
    whole = row.arranged is default["arranged"].default and row.columns is default["columns"].default
    return plain and whole and row.finish is None and row.name not in ("averaging", "nearest_neighbours")


def _settled(row: Method, c: Constants, value: str, faults: Faults) -> Constants | None:
    """The constants of one method: those of the whole, its own penalty or its own first option."""
    options = {name: option.default for name, option in row.options.items()}
    penalty = float(row.defaults.get("penalty", 0.0))
    if value:
        try:
            number = float(value)
        except ValueError:
            faults.add(f"averaging: {row.name}:{value} does not end with a number; write ridge:0.1")
            return None
        if row.penalised is not False:
            penalty = number
            faults.check(
                number > 0 or (row.penalised is None and number == 0), f"{row.name}:{value}: give a penalty > 0"
            )
        elif options:
            first = next(iter(row.options))
            fault = row.options[first].fault(first, number)
            faults.check(not fault, f"{row.name}:{value}: {fault}")
            options[first] = number
        else:
            faults.add(f"averaging: {row.name} has no penalty and no option; leave :{value} out")
    solver = next(iter(row.solvers))
    return replace(
        c, method=row.name, solver=solver, features=c.features - 1, penalty=penalty, options=tuple(options.items()),
        scaling=row.scaled, score_bound=max(c.score_bound, row.leverage * c.features),
        largest_eigenvalue=float(c.features - 1),
    )  # fmt: skip


def averaging(constants: Constants) -> FitBlueprint:
    c, parts = constants, parts_of(constants)
    K = len(parts)
    made = [part.row.solvers[part.constants.solver].build(part.constants) for part in parts]
    alone = [part.name for part, blueprint in zip(parts, made, strict=True) if blueprint.alone]
    if alone:
        raise InvalidInput("in_context", [f"averaging cannot ask {', '.join(alone)}, which takes one query at a time"])
    own = Slots(
        one=1, null=1, y=1, held=1, weight=1, r=K, square=K, e=K, mine=K, loss=1, p=1, out=1, vote=1, plus=1, sign=1
    )  # fmt: skip
    widths = [max(stop for _, stop in blueprint.slots.values()) for blueprint in made]
    starts = (own.width + np.concatenate([[0], np.cumsum(widths)])).astype(int).tolist()
    D = starts[-1]
    slots = dict(own.places)
    segments = [*_shared(own, D, made, starts, c.features), *_votes(own, D, K)]
    program: list[LayerWeights] = []
    guards: list[Guard] = []
    reads: list[np.ndarray] = []
    for k, (blueprint, start) in enumerate(zip(made, starts, strict=False)):
        slots |= {f"{k}.{name}": (start + a, start + b) for name, (a, b) in blueprint.slots.items()}
        others = [segment for segment in blueprint.segments if segment.name != "query"]
        segments += [_own_segment(segment, k, start, D, c.features, blueprint.slots) for segment in others]
        guards += [_moved_guard(guard, k, len(program)) for guard in blueprint.guards]
        known: dict[int, LayerWeights] = {}
        for each in blueprint.program:
            if id(each) not in known:
                known[id(each)] = _moved_layer(each, k, start, D)
            program.append(known[id(each)])
        reads.append(np.pad(blueprint.read, (start, D - start - len(blueprint.read))))
    wide = _Wide(own, D)
    offsets = [_offset(blueprint.slots, start, D) for blueprint, start in zip(made, starts, strict=False)]
    shared = all(float(read @ offset) == 1.0 for read, offset in zip(reads, offsets, strict=True))
    cores = [read - offset for read, offset in zip(reads, offsets, strict=True)] if shared else reads
    reach = _ROOM * c.y_bound
    last = _vote(wide, K, reads, cores, c, reach)
    read = wide.vector(out=1.0) + (offsets[0] if shared else 0.0)
    far = "a method misses y by more than y_bound allows; raise y_bound"
    guards.append(Guard("scores", len(program) + 2, reach, far, "r", "y_reach", ("held", "query"), ("votes",)))
    slots["y_reach"] = slots["e"]
    return FitBlueprint(
        slots, segments, [*program, *last], read=read, coefficient=(NO_COEFFICIENT, np.zeros(D)), guards=guards,
        head=0, tail=len(last),
    )  # fmt: skip


class _Wide:
    """The slots of the votes, in tokens that hold those of all methods behind them."""

    def __init__(self, own: Slots, width: int) -> None:
        self.own, self.width, self.places = own, width, own.places

    def vector(self, **weights: float) -> np.ndarray:
        return np.pad(self.own.vector(**weights), (0, self.width - self.own.width))

    def select(self, name: str) -> np.ndarray:
        return np.pad(self.own.select(name), ((0, self.width - self.own.width), (0, 0)))

    def residual(self) -> np.ndarray:
        return np.eye(self.width)


def _offset(slots: Mapping[str, tuple[int, int]], start: int, width: int) -> np.ndarray:
    vector = np.zeros(width)
    if "offset" in slots:
        vector[start + slots["offset"][0]] = 1.0
    return vector


def _shared(own: Slots, D: int, made: list[FitBlueprint], starts: list[int], features: int) -> list[Segment]:
    """Queries, and the held-out rows that are asked like them: tokens with the columns of every method."""
    base = np.pad(own.vector(one=1.0), (0, D - own.width))[None]
    embed = np.zeros((features + 2, D))
    for blueprint, start in zip(made, starts, strict=False):
        query = next(segment for segment in blueprint.segments if segment.name == "query")
        width = query.base.shape[1]
        base[:, start : start + width] += query.base
        if query.embed is not None:
            embed[1:features, start : start + width] += query.embed[: features - 1]
    held = embed.copy()
    held[0, own.places["held"][0]] = 1.0
    held[features, own.places["y"][0]] = 1.0
    held[features + 1, own.places["weight"][0]] = 1.0
    return [Segment("query", "query", base, embed), Segment("held", "data", base.copy(), held)]


def _own_segment(
    segment: Segment, k: int, start: int, D: int, features: int, slots: Mapping[str, tuple[int, int]]
) -> Segment:
    """A segment of method k; a mark takes an observation's weight away."""
    base = np.pad(segment.base, ((0, 0), (start, D - start - segment.base.shape[1])))
    if segment.embed is None:
        return Segment(f"part{k}_{segment.name}", segment.source, base)
    embed = np.zeros((features + 2, D))
    inner = embed[:, start : start + segment.embed.shape[1]]
    inner[1:features], inner[features:] = segment.embed[: features - 1], segment.embed[features - 1 :]
    if segment.source != FIXED:
        inner[0, slots["log_weight"][0]] = _NOT_FITTED
    return Segment(f"part{k}_{segment.name}", segment.source, base, embed)


def _names(names: tuple[str, ...], k: int) -> tuple[str, ...]:
    return tuple(name for each in names for name in (("query", "held") if each == "query" else (f"part{k}_{each}",)))


def _moved_layer(each: LayerWeights, k: int, start: int, D: int) -> LayerWeights:
    """A layer of method k on its own columns; all others stay as they are."""

    def rows(matrix: np.ndarray) -> np.ndarray:
        return np.pad(matrix, ((start, D - start - len(matrix)), (0, 0)))

    heads = [HeadWeights(rows(h.Wq), rows(h.Wk), rows(h.Wv), rows(h.Wo.T).T) for h in each.heads]
    R = None
    if each.R is not None:
        R = np.eye(D)
        R[start : start + len(each.R), start : start + len(each.R)] = each.R
    return layer(f"{k}: {each.label}", _names(each.rows, k), _names(each.keys, k), heads, R)


def _moved_guard(guard: Guard, k: int, before: int) -> Guard:
    def slot(name: str) -> str:
        return f"{k}.{name}" if name else ""

    def segments(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple("query" if name == "query" else f"part{k}_{name}" for name in names)

    return replace(
        guard, position=guard.position + before, row_slot=slot(guard.row_slot), key_slot=slot(guard.key_slot),
        weight_slot=slot(guard.weight_slot), penalty_slot=slot(guard.penalty_slot), rows=segments(guard.rows),
        keys=segments(guard.keys),
    )  # fmt: skip


def _vote(
    s: _Wide, K: int, reads: list[np.ndarray], cores: list[np.ndarray], c: Constants, reach: float
) -> list[LayerWeights]:
    """The last layers of the docstring."""
    one, null = s.vector(one=1.0), s.vector(null=1.0)
    idle = head([(one, 0.0 * one)], null, 0.0 * one)
    missed, said, taken = s.residual(), s.residual(), s.residual()
    r, square = s.places["r"][0], s.places["square"][0]
    squares: list[HeadWeights] = []
    losses: list[HeadWeights] = []
    weights: list[HeadWeights] = []
    for k, (read, core) in enumerate(zip(reads, cores, strict=True)):
        missed[:, r + k], said[:, r + k] = s.vector(y=1.0) - read, core
        asked = s.select("r")[:, k : k + 1]
        found, constant = square_heads(s, c.dtype, asked, s.vector(sign=1.0)[:, None], "out", reach=reach, also=[])
        writes = s.select("square").T[k : k + 1]
        squares += [HeadWeights(x.Wq, x.Wk, x.Wv, float(x.Wo[0, s.places["out"][0]]) * writes) for x in found]
        taken[s.places["one"][0], square + k] = -2.0 * constant
        # In blocks of their own, so that nothing small is added to what excludes; other votes read nothing.
        others = (_HUGE * (s.vector(vote=1.0) - s.select("mine")[:, k]), 1e5 * null)
        marked = [(one, s.vector(weight=1.0)), (one, -_HUGE * (one - s.vector(held=1.0)))]
        losses.append(head([*marked, others], s.select("square")[:, k], s.vector(loss=1.0)))
        for way in (1.0, -1.0):
            others = (_HUGE * (s.vector(vote=1.0) - way * s.select("e")[:, k]), 1e5 * null)
            errors = (one, s.vector(loss=-1.0 / c.option("temperature")))
            plain = (one, -_HUGE * (one - s.vector(plus=1.0)))
            weights.append(head([errors, plain, others], s.select("mine")[:, k], way * s.vector(p=1.0)))
    average = bilinear_heads(
        s.select("r"), s.select("e"), s.vector(p=1.0), s.vector(out=1.0), reach=reach, order=c.order, angle=c.angle,
        factor=float(K),
    )  # fmt: skip
    return [
        layer("miss", ("held",), ("votes",), [idle], missed),
        layer("said", ("query",), ("votes",), [idle], said),
        layer("square", ("held",), ("signs", "nothing"), squares, taken),
        layer("loss", ("votes",), ("held", "nothing"), losses),
        layer("weigh", ("votes",), ("votes", "nothing"), weights),
        layer("average", ("query",), ("votes",), average),
    ]


def _votes(own: Slots, D: int, K: int) -> list[Segment]:
    """The votes of both signs, two tokens that squares are made of, and one that says nothing."""
    votes = []
    for k in range(K):
        for way in (1.0, -1.0):
            token = own.vector(one=1.0, vote=1.0, plus=max(way, 0.0))
            token[own.places["e"][0] + k], token[own.places["mine"][0] + k] = way, 1.0
            votes.append(token)
    fixed = {
        "votes": votes,
        "signs": [own.vector(one=1.0, sign=way) for way in (1.0, -1.0)],
        "nothing": [own.vector(one=1.0, null=1.0)],
    }
    return [Segment(name, FIXED, np.pad(np.stack(t), ((0, 0), (0, D - own.width)))) for name, t in fixed.items()]


def check_marks(x: Tensor, queries: Tensor, c: Constants, faults: Faults) -> None:
    mark = x[..., 0]
    good = bool(((mark == 0) | (mark == 1)).all())
    faults.check(good, "averaging: the first column of x marks rows that are held out with 1, all others with 0")
    held, least = mark.sum(dim=-1), c.features
    faults.check(bool((held >= 1).all()), "averaging: no row is held out; mark some with 1 in the first column of x")
    enough = bool((x.shape[-2] - held >= least + 1).all())
    faults.check(enough, f"averaging: fewer than {least + 1} rows are left to fit; mark fewer of them")
    for part in parts_of(c):
        if part.row.resolved is not None:
            part.row.resolved(x[..., 1:], queries[..., 1:], part.constants, faults)


def marked(x: np.ndarray) -> np.ndarray:
    """Random rows with every fourth held out."""
    return np.concatenate([(np.arange(len(x)) % 4 == 3).astype(float)[:, None], x[:, 1:]], axis=1)


def exact_averaging(x: np.ndarray, y: np.ndarray, queries: np.ndarray, c: Constants) -> np.ndarray:
    from softwright.methods.reference import exact_predictions

    held = x[:, 0] == 1
    given, said = [], []
    for part in parts_of(c):
        asked = np.concatenate([x[held, 1:], queries[:, 1:]])
        found = exact_predictions(x[~held, 1:], y[~held], asked, part.constants)
        given.append(((found[: held.sum()] - y[held]) ** 2).mean())
        said.append(found[held.sum() :])
    losses = np.array(given)
    p = np.exp(-(losses - losses.min()) / c.option("temperature"))
    return (p / p.sum()) @ np.array(said)
