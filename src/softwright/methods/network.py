"""`InContextStack`: a prompt of observations goes in, the predictions of a model fitted to it come out.

An `AttentionStack` whose inputs are the rows (x, y, log weight) of a prompt, under the name "data", and its queries,
under "query". Guards look at the stream while it passes, outside the attention.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from softwright.attention.stack import AttentionStack, Stream, apply_layer
from softwright.chunks import in_chunks, rows_within
from softwright.errors import InvalidInput
from softwright.methods.checks.classes import look_at_classes
from softwright.methods.checks.reasons import explain, penalised_away
from softwright.methods.checks.stationary import look_at_solution
from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint
from softwright.methods.guards import Guard, OutOfRange
from softwright.methods.methods import METHODS
from softwright.methods.prompts import LOST_PENALTY, Prompt, as_numbers, read_prompt
from softwright.settings import as_proved, looked_through
from softwright.threads import one_thread_for

if TYPE_CHECKING:
    from softwright.attention.view import AttentionView
    from softwright.methods.multihead import MultiheadStack


_Answer = TypeVar("_Answer")
_FEW_ROWS = 2**13  # of all prompts: hundreds of layers this small wait longer for a pool of threads than they compute


def _several(x: Any, y: Any) -> bool:
    """Whether y has an axis of targets behind that of the rows."""
    try:
        sizes = np.shape(x), np.shape(y)
    except ValueError:  # rows of several lengths, which is said where they are read
        return False
    return len(sizes[0]) >= 2 and len(sizes[1]) == len(sizes[0]) and sizes[1][:-1] == sizes[0][:-1]


def _count(y: Any) -> int:
    """How many numbers y holds; none where that is no array."""
    try:
        return int(np.size(y))
    except ValueError:
        return 0


def _each_target(x: Any, y: Any, queries: Any, weights: Any, dtype: torch.dtype) -> tuple[Any, Any, Any, Any]:
    """The same rows once per target, with a leading axis of targets."""
    targets = torch.as_tensor(np.array(y) if not isinstance(y, Tensor) else y, dtype=dtype).movedim(-1, 0)

    def repeated(values: Any) -> Any:
        if values is None:
            return None
        values = torch.as_tensor(np.array(values) if not isinstance(values, Tensor) else values, dtype=dtype)
        return values.expand(len(targets), *values.shape)

    return repeated(x), targets, repeated(queries), repeated(weights)


class InContextStack(AttentionStack):
    """A stack of attention layers that fits a statistical model to the observations in its prompt."""

    kind: ClassVar[str] = "in_context"

    def __init__(self, blueprint: FitBlueprint, constants: Constants, dtype: torch.dtype = torch.float64) -> None:
        """`constants` are the arguments the stack was built with; method, features and intercept steer its checks."""
        super().__init__(blueprint, dtype)
        self.constants = constants
        self.guards = list(blueprint.guards)
        self.head, self.tail = blueprint.head, blueprint.tail
        self.coefficient_segment = blueprint.coefficient[0]
        self.alone = blueprint.alone
        self.register_buffer("read", torch.tensor(blueprint.read, dtype=dtype))
        self.register_buffer("read_coefficient", torch.tensor(blueprint.coefficient[1], dtype=dtype))

    read: Tensor
    read_coefficient: Tensor

    @property
    def features(self) -> int:
        return self.constants.features

    def embed(self, prompt: Prompt) -> Stream:
        """The tokens of a prompt, by segment."""
        data = torch.cat([prompt.x, prompt.y[..., None], prompt.log_weights[..., None]], dim=-1)  # (B, n, d + 2)
        return self.sequence({"data": data, "query": pad(prompt.queries, (0, 2))})

    def run(self, prompt: Prompt, check: bool = True) -> Stream:
        """The stream after all layers; with `check` every guard looks at it when its layer is reached."""
        states = self.states(self.embed(prompt))
        if not check or looked_through():
            return reduce(lambda _, stream: stream, states)
        guards = self.guards
        seen: deque[Stream] = deque(maxlen=max((guard.reach for guard in guards), default=0) + 1)
        for position, stream in enumerate(states):
            seen.append(stream)
            for guard in guards:
                if guard.position == position:
                    try:
                        guard.look(seen, self.slots)
                    except OutOfRange as refusal:
                        explain(prompt, self.constants, refusal)
                        raise
        return seen[-1]

    def forward(
        self, x: Tensor, y: Tensor, queries: Tensor, sample_weight: Tensor | None = None, check: bool = True
    ) -> Tensor:
        """x (..., n, d), y (..., n), queries (..., m, d) -> predictions (..., m).

        y (..., n, k) are k targets of the same rows, each fitted for itself: predictions (..., m, k)."""
        if _several(x, y):
            xs, ys, given, weights = _each_target(x, y, queries, sample_weight, self.dtype)
            return self(xs, ys, given, weights, check).movedim(0, -1)
        prompt = read_prompt(x, y, queries, sample_weight, self.constants, self.dtype, check)
        with as_proved(self.read):
            return prompt.unbatched(self._answers(prompt, check))

    def _answers(self, prompt: Prompt, check: bool) -> Tensor:
        """(B, m) or (B, m, k): what the stack says of every query."""
        found = self._by_prompts(self.asked(prompt), lambda part: self._queries(part, check))
        return self.answered(prompt, found)

    def _queries(self, prompt: Prompt, check: bool) -> Tensor:
        """The tokens of the queries at the end."""
        final = self.run(prompt, check)
        if check and self._solves and final["query"].shape[1]:
            at = final["query"][..., self.slots["s"][0]] if self._transformed else final["query"] @ self.read
            self._look_at_solution(prompt, final, self._slopes(final), at)
        if check and "classes" in dict(self.constants.options) and not looked_through():
            self._look_at_solution(prompt, final, self._scales(final["unit"]), None)
        return final["query"]

    @property
    def _solves(self) -> bool:
        """Whether the end is to be the solution; steps of gradient descent lead where they lead."""
        row = METHODS[self.constants.method]
        steps_only = row.solvers[self.constants.solver].default_step is not None
        return (row.loss is not None or row.posterior) and not steps_only and not looked_through()

    def _look_at_solution(self, prompt: Prompt, final: Stream, slopes: Tensor, answers: Tensor | None) -> None:
        try:
            if self.coefficient_segment:
                look_at_solution(self, prompt, final, slopes, answers)
            else:
                look_at_classes(self, prompt, final, slopes)
        except OutOfRange as refusal:
            explain(prompt, self.constants, refusal)
            raise

    def asked(self, prompt: Prompt) -> Prompt:
        """The prompts that run: every query in one of its own if it must be."""
        return prompt.each_query() if self.alone else prompt

    def answered(self, prompt: Prompt, queries: Tensor) -> Tensor:
        """(B, m) or (B, m, k): the answers that the tokens of the queries hold at the end."""
        found = queries @ self.read
        if self.alone:
            found = found.reshape(prompt.x.shape[0], prompt.queries.shape[1], *found.shape[2:])
        finish = METHODS[self.constants.method].finish
        return found if finish is None else finish(found, self.constants)

    def _by_prompts(self, prompt: Prompt, read: Callable[[Prompt], Tensor]) -> Tensor:
        """What is read of every prompt of a batch, by as many at a time as bound the memory; each is held whole."""
        if looked_through():
            return read(prompt)
        lengths = {"data": prompt.x.shape[1], "query": prompt.queries.shape[1]}
        tokens = self.fixed_tokens + sum(lengths.get(source, 0) for source in self.sources.values())
        most = max(layer.row_bytes(1, tokens) + 6 * self.width * layer.Wq.element_size() for layer in self.distinct)
        which = torch.arange(len(prompt.x), device=prompt.x.device)
        step = rows_within(tokens * most)
        return read(prompt) if len(which) <= step else in_chunks(lambda some: read(prompt.at(some)), which, step)

    def coefficients(
        self, x: Tensor, y: Tensor, sample_weight: Tensor | None = None, check: bool = True
    ) -> tuple[Tensor, Tensor]:
        """(..., d) coefficients and (...) intercepts.

        The stack holds the coefficients of scaled features and their scales; their product is taken here, outside the
        attention, as is the intercept: the prediction at the mean of x minus what the coefficients make of that mean.
        Of k targets, y (..., n, k), they are (..., k, d) and (..., k).
        """
        if _several(x, y):
            xs, ys, _, weights = _each_target(x, y, None, sample_weight, self.dtype)
            found, constants = self.coefficients(xs, ys, weights, check)
            return found.movedim(0, -2), constants.movedim(0, -1)
        if not self.coefficient_segment:
            raise InvalidInput("in_context", [f"{self.constants.method} fits no coefficients; ask for predictions"])
        whole = read_prompt(x, y, None, sample_weight, self.constants, self.dtype, check)
        why = penalised_away(whole, self.constants, LOST_PENALTY) if check else ""
        if why:
            raise InvalidInput("in_context", [why])
        with as_proved(self.read):
            mean = (whole.log_weights.softmax(dim=-1)[..., None] * whole.x).sum(dim=1, keepdim=True)  # (B, 1, d)
            prompt = replace(whole, queries=mean)
            found = self._by_prompts(prompt, lambda part: self._coefficients(part, check))  # (B, d + 1)
            return prompt.unbatched(found[:, :-1]), prompt.unbatched(found[:, -1])

    def _coefficients(self, prompt: Prompt, check: bool) -> Tensor:
        """(B, d + 1): coefficients and intercept of prompts whose one query is the mean of x."""
        final = self.run(prompt, check)
        coefficients = self._slopes(final)  # (B, d)
        if check and self._solves:
            self._look_at_solution(prompt, final, coefficients, None)
        if self._transformed:  # w.x + b is at the query too, beside the response that is read
            predicted = final["query"][..., self.slots["s"][0]]
        else:
            predicted = final["query"] @ (self.read if self.read.ndim == 1 else self.read[:, 0])  # the first: the mean
        intercept = predicted[:, 0] - (coefficients * prompt.queries[:, 0]).sum(dim=-1)
        if not self.constants.intercept:
            intercept = torch.zeros_like(intercept)
        return torch.cat([coefficients * prompt.units, intercept[:, None]], dim=1)

    def _slopes(self, final: Stream) -> Tensor:
        """(B, d): coefficients of the features as they came into the stack."""
        at = final[self.coefficient_segment] @ self.read_coefficient
        if self.coefficient_segment == "unit":
            # Unit tokens come in pairs of both signs; half their difference is free of what is added to both alike.
            at = 0.5 * (at[:, ::2] - at[:, 1::2])
        return at[:, : self.features] * self._scales(final["unit"])

    @property
    def _transformed(self) -> bool:
        """Whether what is answered is a function of w.x + b, and not that itself."""
        loss = METHODS[self.constants.method].loss
        return self.constants.response and loss is not None and loss.response is not None

    def _scales(self, units: Tensor) -> Tensor:
        """(B, d): what the features were multiplied with. The slot `tau` holds the same, but rounded in the size of the
        largest scale, so that it is too coarse for the coefficients of features in much larger units."""
        if not self.constants.scaling:
            return units.new_ones(len(units), self.features)
        own = units[:, ::2][:, : self.features]  # (B, d, D), the tokens +e_p
        first, second = (own[..., slice(*self.slots[name])].diagonal(dim1=1, dim2=2) for name in ("scale1", "scale2"))
        return first * second

    def trace(self, x: Tensor, y: Tensor, queries: Tensor, sample_weight: Tensor | None = None) -> list[Tensor]:
        """Predictions (..., m) after every layer that follows the preparation, as the last layers would read them."""
        given = read_prompt(x, y, queries, sample_weight, self.constants, self.dtype, True)
        prompt = self.asked(given)
        found = []
        with as_proved(self.read):
            for position, stream in enumerate(self.states(self.embed(prompt))):
                if self.head <= position <= self.depth - self.tail:
                    shown = stream
                    for place in range(self.depth - self.tail, self.depth):
                        shown = apply_layer(self.layer_at(place), shown)
                    found.append(given.unbatched(self.answered(given, shown["query"])))
        return found

    def evaluate(
        self,
        inputs: Any = None,
        /,
        *,
        x: Any = None,
        y: Any = None,
        queries: Any = None,
        sample_weight: Any = None,
        check: bool = True,
        adapt: bool = True,
    ) -> np.ndarray:
        """NumPy in, NumPy out: evaluate(x=..., y=..., queries=...), or one tuple (x, y, queries).

        A prompt outside the range is answered by a wider stack of the same method (`widening`); with `adapt` False it
        is refused, as `forward` does."""
        if inputs is not None:
            x, y, queries = inputs
        if x is None or y is None or queries is None:
            raise InvalidInput("in_context", ["give x, y and queries: built(x=..., y=..., queries=...)"])
        from softwright.methods.widening import Units, apart, following, in_other_units, one_at_a_time, stack_for

        x, y, queries, sample_weight = (as_numbers(part) for part in (x, y, queries, sample_weight))
        if adapt and apart(self.constants, x, y):
            answers = one_at_a_time(
                lambda *part: self.evaluate(part[:3], sample_weight=part[3], check=check), x, y, queries, sample_weight
            )
            return np.stack(answers, axis=0 if np.ndim(x) > 2 else -1)
        units = in_other_units(self.constants, x, y, queries) if adapt else Units(self.constants)
        x, y, queries = units.of_x(x), units.of_y(y), units.of_x(queries)
        own = following(units.constants, x, queries, y) if adapt else self.constants
        stack = self if own == self.constants else stack_for(own)
        with torch.no_grad(), one_thread_for(_count(y), _FEW_ROWS):
            found = stack._adapted(lambda wide: wide(x, y, queries, sample_weight, check), adapt).double().numpy()
        return units.of_answers(found)

    def _adapted(self, ask: Callable[[InContextStack], _Answer], adapt: bool) -> _Answer:
        """The answer of this stack, or of the first wider one whose range holds the prompt."""
        from softwright.methods.widening import stack_for, widened

        stack: InContextStack = self
        singular: OutOfRange | None = None
        while True:
            try:
                return ask(stack)
            except OutOfRange as refusal:
                if refusal.guard.kind == "inverse":
                    singular = refusal
                elif singular is not None and refusal.guard.row_slot.endswith("centre"):
                    raise singular from refusal  # means move because their covariance has no inverse
                wider = widened(stack.constants, refusal) if adapt else None
                if wider is None:
                    why = refusal.behind() if adapt else []
                    if why:
                        raise InvalidInput("in_context", why) from refusal
                    raise
            stack = stack_for(wider)

    def attention(self, inputs: Any = None, /, *, x: Any = None, y: Any = None, queries: Any = None) -> AttentionView:
        """What the queries read in every layer and head: rows of the prompt ("data 3") and fixed tokens."""
        from softwright.attention.stack_view import view_of_stack

        if inputs is not None:
            x, y, queries = inputs
        if x is None or y is None or queries is None:
            raise InvalidInput("attention", ["give x, y and queries: built.attention(x=..., y=..., queries=...)"])
        prompt = read_prompt(x, y, queries, None, self.constants, self.dtype, True)
        return view_of_stack(self, self.embed(prompt), rows="query")

    def fitted(
        self, x: Any, y: Any, sample_weight: Any = None, check: bool = True, adapt: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """NumPy in, NumPy out: the coefficients and the intercept; `adapt` as in `evaluate`."""
        from softwright.methods.widening import Units, apart, in_other_units, one_at_a_time, stack_for

        x, y, sample_weight = as_numbers(x), as_numbers(y), as_numbers(sample_weight)
        if adapt and apart(self.constants, x, y):
            found = one_at_a_time(lambda *part: self.fitted(*part, check=check), x, y, sample_weight)
            return np.stack([w for w, _ in found]), np.stack([b for _, b in found])
        units = in_other_units(self.constants, x, y) if adapt else Units(self.constants)
        first = self if units.constants == self.constants else stack_for(units.constants)
        rows, values = units.of_x(x), units.of_y(y)
        with torch.no_grad(), one_thread_for(_count(y), _FEW_ROWS):
            coefficients, intercept = first._adapted(
                lambda stack: stack.coefficients(rows, values, sample_weight, check), adapt
            )
        w, b = units.of_coefficients(coefficients.double().numpy(), intercept.double().numpy())
        if check and not (np.isfinite(w).all() and np.isfinite(b).all()):
            beyond = (
                "a coefficient is larger than floats hold; give y in smaller numbers, or the features in larger ones"
            )
            raise InvalidInput("in_context", [beyond])
        return w, b

    def multihead(self) -> MultiheadStack:
        """The same stack with every layer a stock `nn.MultiheadAttention`."""
        from softwright.methods.multihead import MultiheadStack

        return MultiheadStack(self)

    def describe(self) -> dict[str, Any]:
        return {
            "settings": self.constants.stored(),
            **super().describe(),
            "guards": [guard.as_dict() for guard in self.guards],
            "coefficient_segment": self.coefficient_segment,
            "head": self.head,
            "tail": self.tail,
            **({"alone": True} if self.alone else {}),
        }

    @classmethod
    def rebuilt(cls, model: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Self:
        network = super().rebuilt(model, tensors)
        network.constants = Constants.from_stored(model["settings"])
        network.guards = [Guard.from_dict(data) for data in model["guards"]]
        network.head, network.tail = int(model["head"]), int(model["tail"])
        network.coefficient_segment = model["coefficient_segment"]
        network.alone = bool(model.get("alone", False))
        return network

    def facts(self) -> list[tuple[str, str]]:
        count, most = len(self.distinct), max(layer.heads for layer in self.distinct)
        return [
            ("method", f"{self.constants.method} by {self.constants.solver}"),
            ("takes", f"observations (x, y) with {self.features} feature(s), any number, and queries"),
            (
                "layers",
                f"{self.depth} of softmax attention ({count} different), at most {most} heads each",
            ),
            ("width", str(self.width)),
        ]
