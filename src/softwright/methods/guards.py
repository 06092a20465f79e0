"""Guards: cheap looks at the stream, outside the attention, that tell when a prompt leaves its range.

    scores     max |q.k| over the rows and keys of a head group: beyond `limit` the group is no longer bilinear
    inverse    the trace of M A is the number of coordinates once Newton and Schulz have inverted A; what is missing
               says that the design is worse conditioned than the stack was built for, or singular
    settled    how much the last iteration moved a slot, against its size. Where an iteration converges linearly, two of
               them say what is left: the last move m, m^- the one before, leave m q/(1 - q) with q = m/m^-
    refined    how large the last correction of a slot was, against the slot: the digits that are lost. Of weights,
               against a hundredth of |y|/|x| at least, so that labels which no feature explains are no loss
    corrected  the same where no layer refines: how much M times what the equations leave over would move the weights
    rising     mean e^s, and `falling` mean e^-s: against e^m, m the score of counting tokens (`curves`), it is the
               share by which means with these weights fall short
    above      the largest of a slot, where a link bends
    nearest    how near the second of the keys comes to the nearest one of a row, in squared distance, as the inverse
    spectrum   1 over the smallest eigenvalue of the weighted covariance of x, the penalty's tokens included: steps that
               were chosen for an interval of eigenvalues leave of those below it what there was
    shorter    how long each of the last steps of gradient descent was, over the one before it. With a step size of at
               most 2 over the curvature a step of a convex loss shortens all distances, that of a point to the next
               included: a step longer than its predecessor, or as long and back again, proves a step size beyond that

A guard costs about as much as one head of one layer; `check=False` leaves all of them out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from softwright.chunks import rows_within
from softwright.errors import InvalidInput

KINDS = (
    "scores", "inverse", "settled", "refined", "corrected", "nearest", "rising", "falling", "above", "shorter",
    "spectrum",
)  # fmt: skip
UNMOVED = ("nearest", "rising", "falling", "above", "shorter")  # no bound of a stack moves these
_GIVEN = ("scale1", "scale2", "e", "own")  # keys of guards that compare what was given, or no more than scaled
_UNRELATED = 1e-2  # of |y|/|x|: smaller weights explain nothing
_SLOWEST = 0.9999  # share of a move that the next one is, at most: beyond is rounding, or no convergence
_MOVES = 4  # steps of gradient descent that are compared
_BACK = 1.02  # a step back counts for so much longer: it may be as long as its predecessor for ever
_STILL = {torch.float64: 1e-9, torch.float32: 1e-3}  # of the coefficients: shorter steps are rounding
_WILD = 1e9  # times a limit: so far off is no prompt that is only a little out of range


class OutOfRange(InvalidInput):
    """A prompt is outside the range of a stack: the guard that says so, what it found, and its limit."""

    def __init__(self, guard: Guard, found: float, limit: float) -> None:
        diverged = "; the iteration diverged, as outliers or too small a penalty make it"
        iterated = guard.kind == "settled" or (guard.kind == "scores" and guard.row_slot.rpartition(".")[2] == "z")
        wild = diverged if iterated and not found <= _WILD * limit else ""
        super().__init__("in_context", [f"{guard.remedy}{wild} (found {found:.3g}, the limit is {limit:.3g})"])
        self.guard, self.found, self.limit = guard, found, limit
        self.behind: Callable[[], list[str]] = list  # what the prompt says of it, if no wider stack takes it


@dataclass(frozen=True)
class Guard:
    """What to look at after `position` layers, the limit, and what to do about it."""

    kind: str
    position: int
    limit: float
    remedy: str
    row_slot: str
    key_slot: str
    rows: tuple[str, ...]
    keys: tuple[str, ...]
    reach: int = 0  # how many layers back a comparison reaches
    weight_slot: str = ""  # a slot that holds log weights of the data
    penalty_slot: str = ""  # inverse: the direction of the penalty's tokens, which come in pairs
    wanted: float = 0.0  # inverse: the number of coordinates

    @property
    def of_prompt(self) -> bool:
        """Whether it looks at the prompt itself, given or scaled, before anything is iterated."""
        key, row = (name.rpartition(".")[2] for name in (self.key_slot, self.row_slot))
        return self.kind == "scores" and (key in _GIVEN or (key, row) == ("one", "y"))

    def look(self, seen: Sequence[Mapping[str, Tensor]], slots: Mapping[str, tuple[int, int]]) -> None:
        """Raise if the stream is outside the range; `seen` ends with the stream at `position`."""
        value, scale = getattr(self, f"_{self.kind}")(seen, slots)
        limit = self.limit * scale
        if not value <= limit:  # nan counts as outside
            raise OutOfRange(self, value, limit)

    def _part(
        self, stream: Mapping[str, Tensor], names: Sequence[str], slot: str, slots: Mapping[str, tuple[int, int]]
    ) -> Tensor:
        start, stop = slots[slot]
        return torch.cat([stream[name][..., start:stop] for name in names], dim=1)

    def _scores(
        self, seen: Sequence[Mapping[str, Tensor]], slots: Mapping[str, tuple[int, int]]
    ) -> tuple[float, float]:
        rows = self._part(seen[-1], self.rows, self.row_slot, slots)
        keys = self._part(seen[-1], self.keys, self.key_slot, slots)
        step = rows_within(2 * rows.element_size() * len(rows) * keys.shape[1])
        return max(_largest(part @ keys.transpose(1, 2)) for part in rows.split(step, dim=1)), 1.0

    def _inverse(
        self, seen: Sequence[Mapping[str, Tensor]], slots: Mapping[str, tuple[int, int]]
    ) -> tuple[float, float]:
        stream = seen[-1]

        def products(names: Sequence[str], slot: str) -> Tensor:
            rows = self._part(stream, names, slot, slots)
            return (rows * self._part(stream, names, self.key_slot, slots)).sum(dim=-1)  # (B, T)

        trace = stream[next(iter(stream))].new_zeros(())
        if self.rows:
            weights = self._part(stream, self.rows, self.weight_slot, slots)[..., 0].softmax(dim=1)
            trace = (weights * products(self.rows, self.row_slot)).sum(dim=1)
        if self.keys:
            trace = trace + 0.5 * products(self.keys, self.penalty_slot).sum(dim=1)
        return _largest(self.wanted - trace), 1.0

    def _refined(
        self, seen: Sequence[Mapping[str, Tensor]], slots: Mapping[str, tuple[int, int]]
    ) -> tuple[float, float]:
        step = self._part(seen[-1], self.rows, self.row_slot, slots)
        whole = self._part(seen[-1], self.rows, self.key_slot, slots)
        return self._of_size(step, whole, seen, slots), 1.0

    def _corrected(
        self, seen: Sequence[Mapping[str, Tensor]], slots: Mapping[str, tuple[int, int]]
    ) -> tuple[float, float]:
        w = self._part(seen[-1], self.keys, self.row_slot, slots)  # (B, d, 1)
        x, y, weights = (self._part(seen[-1], self.rows, slot, slots) for slot in ("x", "y", self.weight_slot))
        rest = (weights.softmax(dim=1) * x).transpose(1, 2) @ (y - x @ w)
        if "unit" in seen[-1]:
            penalty = self._part(seen[-1], ("unit",), self.penalty_slot, slots)
            rest = rest - 0.5 * penalty.transpose(1, 2) @ (penalty @ w)
        step = self._part(seen[-1], self.keys, self.key_slot, slots) @ rest
        return self._of_size(step, w, seen, slots), 1.0

    def _of_size(
        self, step: Tensor, whole: Tensor, seen: Sequence[Mapping[str, Tensor]], slots: Mapping[str, tuple[int, int]]
    ) -> float:
        """A correction over the largest of what it corrects."""
        sizes = whole.abs().amax(dim=1, keepdim=True)  # prompts of a batch are compared each with itself
        prefix = self.key_slot[: self.key_slot.rfind(".") + 1]  # of a stack within a stack
        if f"{prefix}x" in slots and f"{prefix}y" in slots:
            # Labels that do not depend on the features leave weights of rounding alone: nothing is lost with those.
            rows = [name for name in seen[-1] if name not in ("unit", "basis")]
            y, x = (
                self._part(seen[-1], rows, prefix + slot, slots).abs().amax(dim=(1, 2), keepdim=True) for slot in "yx"
            )
            sizes = torch.where(x > 0, torch.maximum(sizes, _UNRELATED * y / x), sizes)
        return _largest(torch.where(step == 0, 0.0, step / sizes))

    def _nearest(
        self, seen: Sequence[Mapping[str, Tensor]], slots: Mapping[str, tuple[int, int]]
    ) -> tuple[float, float]:
        rows = self._part(seen[-1], self.rows, self.row_slot, slots)
        keys = self._part(seen[-1], self.keys, self.key_slot, slots)
        if keys.shape[1] < 2:
            return 0.0, 1.0
        distances = sum(
            (rows[..., p, None] - keys[:, None, :, p]) ** 2 for p in range(rows.shape[2])
        )  # (B, T, K) without a term (B, T, K, d)
        two = torch.as_tensor(distances).topk(2, dim=2, largest=False).values
        return _largest((two[..., 1] - two[..., 0]).reciprocal()), 1.0

    def _settled(
        self, seen: Sequence[Mapping[str, Tensor]], slots: Mapping[str, tuple[int, int]]
    ) -> tuple[float, float]:
        now = self._part(seen[-1], self.rows, self.row_slot, slots)
        linear = int(self.wanted)  # how many moves are compared, if any
        before = self._part(seen[-1 - self.reach // max(linear, 1)], self.rows, self.row_slot, slots)
        if not now.numel():
            return 0.0, 1.0
        moved, sizes = (part.detach().abs().amax(dim=(1, 2)) for part in (now - before, now))
        if linear:
            first = self._part(seen[-1 - self.reach], self.rows, self.row_slot, slots)
            share = (moved / (before - first).detach().abs().amax(dim=(1, 2))).nan_to_num(0.0, _SLOWEST)
            share = share.clamp_max(_SLOWEST)
            moved = moved * share / (1.0 - share)
        worst = int((moved / (1.0 + sizes)).nan_to_num(torch.inf, torch.inf).argmax())  # each prompt beside itself
        return float(moved[worst]), 1.0 + float(sizes[worst])

    def _rising(
        self, seen: Sequence[Mapping[str, Tensor]], slots: Mapping[str, tuple[int, int]], sign: float = 1.0
    ) -> tuple[float, float]:
        weights, s = (
            self._part(seen[-1], self.rows, slot, slots)[..., 0] for slot in (self.weight_slot, self.row_slot)
        )
        return _largest((weights.softmax(dim=1) * (sign * s).exp()).sum(dim=1)), 1.0

    def _above(self, seen: Sequence[Mapping[str, Tensor]], slots: Mapping[str, tuple[int, int]]) -> tuple[float, float]:
        values = self._part(seen[-1], self.rows, self.row_slot, slots)
        return float(values.detach().amax()) if values.numel() else 0.0, 1.0

    def _spectrum(
        self, seen: Sequence[Mapping[str, Tensor]], slots: Mapping[str, tuple[int, int]]
    ) -> tuple[float, float]:
        rows = self._part(seen[-1], self.rows, self.row_slot, slots)
        if not rows.numel():
            return 0.0, 1.0
        weights = self._part(seen[-1], self.rows, self.weight_slot, slots).softmax(dim=1)
        penalty = self._part(seen[-1], self.keys, self.penalty_slot, slots)
        matrix = (weights * rows).transpose(1, 2) @ rows + 0.5 * penalty.transpose(1, 2) @ penalty
        return float(
            torch.linalg.eigvalsh(matrix)[:, 0].clamp_min(torch.finfo(rows.dtype).tiny).amin().reciprocal()
        ), 1.0

    def _shorter(
        self, seen: Sequence[Mapping[str, Tensor]], slots: Mapping[str, tuple[int, int]]
    ) -> tuple[float, float]:
        each = self.reach // int(self.wanted)
        states = [self._coefficients(seen[-1 - back], slots) for back in range(self.reach, -1, -each)]
        moves = [after - before for before, after in itertools.pairwise(states)]
        found = 0.0
        for before, after in itertools.pairwise(moves):
            still = _STILL[after.dtype] * states[-1].norm(dim=1)
            ratio = after.norm(dim=1) / (before.norm(dim=1) + still).clamp_min(torch.finfo(after.dtype).tiny)
            back = (before * after).sum(dim=1) < 0
            found = max(found, _largest(torch.where(back, _BACK * ratio, ratio).nan_to_num(torch.inf)))
        return found, 1.0

    def _coefficients(self, stream: Mapping[str, Tensor], slots: Mapping[str, tuple[int, int]]) -> Tensor:
        """(B, d + 1): w, which tokens of unit vectors carry, and b, the mean of what w.x leaves of predictions."""
        w = self._part(stream, self.keys, self.row_slot, slots)[..., 0]
        x = self._part(stream, self.rows, self.key_slot, slots)[..., : w.shape[1]]
        rest = self._part(stream, self.rows, self.row_slot, slots)[..., 0] - (x @ w[..., None])[..., 0]
        return torch.cat([w, rest.mean(dim=1, keepdim=True)], dim=1)

    def _falling(
        self, seen: Sequence[Mapping[str, Tensor]], slots: Mapping[str, tuple[int, int]]
    ) -> tuple[float, float]:
        return self._rising(seen, slots, -1.0)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Guard:
        if data["kind"] not in KINDS:
            raise InvalidInput("guard", [f"unknown kind {data['kind']!r}; this version knows {', '.join(KINDS)}"])
        return cls(**{**data, "rows": tuple(data["rows"]), "keys": tuple(data["keys"])})


def step_guards(steps: int, each: int, head: int, slot: str) -> list[Guard]:
    """Whether one of `steps` steps of gradient descent, `each` layers long, after `head` layers and carried by `slot`,
    is longer than its predecessor. What has diverged may look settled at the end, where the loss is flat."""
    remedy = (
        "a step of gradient descent was no shorter than the one before it: step_size is too large for these data, and "
        "the steps lead nowhere; lower step_size, scale the features, or use another solver"
    )
    guards = []
    for last in range(steps, 1, 1 - _MOVES):
        moves = min(_MOVES, last)
        guards.append(
            Guard(
                "shorter", head + last * each, 1.0 + 1e-6, remedy, slot, "x", ("data",), ("basis",),
                reach=moves * each, wanted=float(moves),
            )
        )  # fmt: skip
    return guards[::-1]


def response_guard(position: int, largest: float) -> Guard:
    """Where e^s at the queries would bend."""
    remedy = "a query's w.x + b is so large that its e^s has no digits left; ask with response=False for w.x + b itself"
    return Guard("above", position, largest, remedy, "s", "", ("query",), ())


def _largest(values: Tensor) -> float:
    return float(values.detach().abs().amax()) if values.numel() else 0.0
