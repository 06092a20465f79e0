"""`ProgramNetwork`: sequences of tokens in, a value at every token out, by layers of softmax attention alone.

A token is embedded as in any transformer: a row for its place, a row for every symbol or whole number it brings, looked
up, and its real numbers times a row each. Every layer adds what its heads write; a head looks at the data tokens, those
up to its own alone if it is causal, and at fixed tokens that no layer changes, the bank. There is no feed-forward block
and no normalisation. Sequences of a batch may have different lengths: what lies beyond a sequence's end is masked.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from softwright.attention.stack import AttentionStack, Blueprint, StackLayer
from softwright.chunks import rows_within
from softwright.errors import Faults, InvalidInput
from softwright.settings import looked_through, runs_as_proved

BANK, DATA = "bank", "data"


class ProgramNetwork(AttentionStack):
    """Sequences in, a value for every output at every token out.

    `tokens` says what a token brings ("length": [shortest, longest], "fields": name, kind, range or symbols each),
    `causal` which heads of each layer are; `outputs` the kinds of the outputs. `columns` are their names.
    """

    kind: ClassVar[str] = "program"
    read: Tensor
    places: Tensor

    def __init__(
        self,
        blueprint: Blueprint,
        causal: Sequence[Sequence[bool]],
        read: np.ndarray,
        places: np.ndarray,
        fields: Mapping[str, np.ndarray],
        tokens: dict[str, Any],
        outputs: Sequence[str],
        dtype: torch.dtype = torch.float64,
    ) -> None:
        """`places` (longest, D) and `fields` (values, D) are the rows of the embedding, `read` (D, m) gives outputs."""
        super().__init__(blueprint, dtype)
        self.tokens, self.outputs = tokens, tuple(outputs)
        self.causal = [list(map(bool, layer)) for layer in causal]
        self.register_buffer("read", torch.tensor(read, dtype=dtype))
        self.register_buffer("places", torch.tensor(places, dtype=dtype))
        for name, rows in fields.items():
            self.register_buffer(f"field_{name}", torch.tensor(rows, dtype=dtype))

    @property
    def fields(self) -> list[dict[str, Any]]:
        return list(self.tokens["fields"])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field["name"] for field in self.fields)

    @property
    def symbols(self) -> tuple[str, ...]:
        """All symbols; a symbol's number is its place here."""
        groups = [field.get(key, ()) for key in ("symbols", "also") for field in self.fields]
        return tuple(dict.fromkeys(symbol for group in groups for symbol in group))

    @property
    def longest(self) -> int:
        return int(self.tokens["length"][1])

    @property
    def heads(self) -> int:
        return sum(layer.heads for layer in self.distinct)

    def embedded(self, x: Tensor) -> Tensor:
        """(B, L, fields) -> (B, L, D). Every column gets one number and zeros, so that nothing is rounded."""
        stream = self.get_buffer(f"base_{DATA}") + self.places[: x.shape[1]]
        stream = stream.expand(x.shape[0], -1, -1)
        for k, field in enumerate(self.fields):
            rows = self.get_buffer(f"field_{field['name']}")
            if field["kind"] == "real":
                stream = stream + x[..., k : k + 1] * rows[0]
            else:
                low = int(field.get("low", 0))
                stream = stream + rows[(x[..., k] - low).long()]
        return stream

    @runs_as_proved
    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, L, fields) -> (B, L, outputs); `lengths` (B,) where sequences are shorter than L. What is beyond is 0."""
        *_, last = self.states_of(x, lengths)
        out = last @ self.read
        if lengths is not None:
            inside = torch.arange(x.shape[1]) < lengths[:, None]
            out = torch.where(inside[..., None], out, torch.zeros_like(out))
        return out

    def states_of(self, x: Tensor, lengths: Tensor | None = None) -> Iterator[Tensor]:
        """The data tokens (B, L, D) before the first layer and after each."""
        self._check(x, lengths)
        stream = self.embedded(x)
        bank = self.get_buffer(f"base_{BANK}").expand(x.shape[0], -1, -1)
        yield stream
        for place, causal in zip(self.program, self.causal, strict=True):
            stream = stream + _attend(self.distinct[place], stream, bank, causal, lengths)
            yield stream

    def _check(self, x: Tensor, lengths: Tensor | None) -> None:
        faults, (shortest, longest) = Faults("ProgramNetwork"), self.tokens["length"]
        faults.check(x.dtype == self.dtype, f"input is {x.dtype}, the network {self.dtype}; use x.to({self.dtype})")
        shape = x.ndim == 3 and x.shape[2] == len(self.fields)
        if faults.check(shape, f"give (batch, length, {len(self.fields)}); got {tuple(x.shape)}"):
            least = x.shape[1] if lengths is None else int(lengths.min()) if len(lengths) else shortest
            most = x.shape[1] if lengths is None else int(lengths.max()) if len(lengths) else shortest
            good = shortest <= least and most <= longest and x.shape[1] <= longest and most <= x.shape[1]
            faults.check(good, f"sequences of {least} to {most} tokens; this network takes {shortest} to {longest}")
        faults.raise_if_any()
        for k, field in enumerate(self.fields):
            if field["kind"] == "real" or looked_through():
                continue
            low, high = _range_of(field, len(self.symbols))
            column = x[..., k]
            good = bool(((column >= low) & (column <= high) & (column == column.round())).all())
            faults.check(good, f"{field['name']} must hold whole numbers from {low} to {high}")
        faults.raise_if_any()

    # ------------------------------------------------------------------------------------------------- for people

    def encoded(self, **named: Any) -> tuple[Tensor, Tensor, bool]:
        """Inputs by name as (B, L, fields), lengths, and whether a single sequence was given."""
        if set(named) != set(self.names):
            wanted = f"give every one of {', '.join(self.names)}"
            raise InvalidInput("program", [f"{wanted}, got {', '.join(named) or 'nothing'}"])
        faults, columns, single = Faults("program"), [], False
        for field in self.fields:
            rows, one = _rows(named[field["name"]], field)
            single = single or one
            columns.append([self._numbers(row, field, faults) for row in rows])
        faults.raise_if_any()
        lengths = [len(row) for row in columns[0]]
        same = all([len(row) for row in column] == lengths for column in columns)
        if not same or not lengths or min(lengths) == 0:
            raise InvalidInput("program", ["every field needs one value for each token, and sequences are not empty"])
        x = np.zeros((len(lengths), max(lengths), len(columns)))
        for k, (field, column) in enumerate(zip(self.fields, columns, strict=True)):
            x[..., k] = _range_of(field, len(self.symbols))[0] if field["kind"] != "real" else 0.0
            for b, row in enumerate(column):
                x[b, : len(row), k] = row
        return torch.tensor(x).to(self.dtype), torch.tensor(lengths), single

    def _numbers(self, row: Sequence[Any], field: Mapping[str, Any], faults: Faults) -> list[float]:
        if field["kind"] != "symbol":
            low, high = _range_of(field, 0)
            numbers = [float(value) for value in row]
            inside = all(low <= value <= high for value in numbers)
            faults.check(inside, f"{field['name']} must be from {low:g} to {high:g}, for what the proof is about")
            return numbers
        unknown = [value for value in row if value not in field["symbols"]]
        if not faults.check(not unknown, f"{field['name']}: {unknown[:1]} is no symbol of {''.join(field['symbols'])}"):
            return [0.0] * len(row)
        return [float(self.symbols.index(value)) for value in row]

    def evaluate(self, given: Any = None, /, **named: Any) -> np.ndarray:
        """One sequence or several, by field: values (length,) or (batch, length), with a last axis for several outputs.

        A sequence is an array, a list or, of symbols, a text. Symbols come out as texts if all outputs are symbols. In
        a batch, values beyond the end of a sequence are 0.
        """
        if given is not None:
            raise InvalidInput("program", [f"give the fields by name: {', '.join(self.names)}"])
        x, lengths, single = self.encoded(**named)
        with torch.no_grad():
            values = self(x, lengths).double().numpy()
        if all(kind == "symbol" for kind in self.outputs):
            places = np.clip(np.rint(values), 0, len(self.symbols) - 1).astype(int)
            values = np.array(self.symbols)[places]
        values = values[..., 0] if len(self.outputs) == 1 else values
        return values[0] if single else values

    def attention_of(self, layer: int, **named: Any) -> np.ndarray:
        """(H, L, T + L): the weights of the heads of one layer on one sequence, in float64."""
        x, _, _ = self.encoded(**named)
        with torch.no_grad():
            stream = next(itertools.islice(self.states_of(x[:1]), layer, None))
            part = self.distinct[self.program[layer]]
            keys = torch.cat([self.get_buffer(f"base_{BANK}"), stream[0]]).double()
            scores = (stream[0].double() @ part.Wq.double()) @ (keys @ part.Wk.double()).transpose(1, 2)
            mask = _mask(self.causal[layer], len(stream[0]), len(keys) - len(stream[0]), None, range(len(stream[0])))
            if mask is not None:
                scores = scores.masked_fill(~mask[0], -torch.inf)
        return torch.softmax(scores, dim=-1).numpy()

    def facts(self) -> list[tuple[str, str]]:
        shortest, longest = self.tokens["length"]
        return [
            ("sequences", f"{shortest} to {longest} tokens of {', '.join(map(_in_words, self.fields))}"),
            ("layers", f"{self.depth} of softmax attention, {self.heads} heads"),
            ("bank", f"{self.fixed_tokens} fixed tokens"),
            ("width", str(self.width)),
            ("outputs", ", ".join(self.outputs)),
        ]

    def describe(self) -> dict[str, Any]:
        own = {"tokens": self.tokens, "causal": self.causal, "outputs": list(self.outputs)}
        return {**own, **super().describe()}

    @classmethod
    def rebuilt(cls, model: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Self:
        network = super().rebuilt(model, tensors)
        network.tokens, network.outputs = dict(model["tokens"]), tuple(model["outputs"])
        network.causal = [list(map(bool, layer)) for layer in model["causal"]]
        return network

    def extra_repr(self) -> str:
        return f"{', '.join(self.names)} -> {', '.join(self.outputs)}, {self.depth} layers, {self.dtype}"


def _attend(layer: StackLayer, data: Tensor, bank: Tensor, causal: Sequence[bool], lengths: Tensor | None) -> Tensor:
    """What the heads of a layer add to the data tokens (B, L, D)."""
    keys = torch.cat([bank, data], dim=1)  # (B, T + L, D)
    if looked_through():
        seen = _mask(causal, data.shape[1], bank.shape[1], lengths, range(data.shape[1]))
        query, key, value = data[:, None] @ layer.Wq, keys[:, None] @ layer.Wk, keys[:, None] @ layer.Wv
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=seen, scale=1.0)
        return mixed.transpose(1, 2).flatten(2) @ layer.Wo.flatten(0, 1)
    (q, Wq), (k, Wk), (v, Wv), (o, _) = layer._used()
    key, value = keys[..., k][:, None] @ Wk, keys[..., v][:, None] @ Wv
    out = torch.zeros_like(data)
    step = rows_within(layer.row_bytes(len(data), keys.shape[1]))
    for start in range(0, data.shape[1], step):
        part = slice(start, start + step)
        query = data[:, part, q][:, None] @ Wq
        for flag in sorted(set(causal)):  # heads that see everything need no mask, causal ones no later tokens
            heads = [h for h, own in enumerate(causal) if own == flag]
            last = bank.shape[1] + (min(start + step, data.shape[1]) if flag else data.shape[1])
            rows = range(data.shape[1])[part]
            seen = _mask([flag], data.shape[1], bank.shape[1], lengths, rows)
            seen = None if seen is None else seen[..., :last]
            mixed = scaled_dot_product_attention(
                query[:, heads], key[:, heads, :last], value[:, heads, :last], attn_mask=seen, scale=1.0
            )
            out[:, part, o] += mixed.transpose(1, 2).flatten(2) @ layer.Wo[heads][..., o].flatten(0, 1)
    return out


def _mask(causal: Sequence[bool], length: int, bank: int, lengths: Tensor | None, rows: range) -> Tensor | None:
    """(B or 1, H or 1, rows or 1, T + L): which tokens these rows may look at; None if all."""
    mask = None
    if any(causal):
        lower = torch.arange(length) <= torch.arange(rows.start, rows.stop)[:, None]
        lower = torch.cat([torch.ones(len(rows), bank, dtype=torch.bool), lower], dim=1)
        mask = (lower | ~torch.tensor(causal)[:, None, None])[None]
    if lengths is not None and bool((lengths < length).any()):
        inside = torch.arange(length) < lengths[:, None]  # (B, L)
        inside = torch.cat([torch.ones(len(lengths), bank, dtype=torch.bool), inside], dim=1)[:, None, None]
        mask = inside if mask is None else mask & inside
    return mask


def _range_of(field: Mapping[str, Any], symbols: int) -> tuple[float, float]:
    if field["kind"] == "symbol":
        return 0, symbols - 1
    return (0, 1) if field["kind"] == "truth" else (field["low"], field["high"])


def _in_words(field: Mapping[str, Any]) -> str:
    if field["kind"] == "symbol":
        shown = " ".join(field["symbols"][:12]) + (" ..." if len(field["symbols"]) > 12 else "")
        return f"{field['name']} in {{{shown}}}"
    low, high = _range_of(field, 0)
    whole = "" if field["kind"] == "real" else "whole "
    return f"{whole}{field['name']} in [{low:g}, {high:g}]"


def _rows(given: Any, field: Mapping[str, Any]) -> tuple[list[Any], bool]:
    """The sequences of a field, and whether there is just one."""
    if isinstance(given, str):
        return [list(given)], True
    if isinstance(given, torch.Tensor):
        given = given.detach().cpu().numpy()
    items = list(given)
    if field["kind"] == "symbol" and items and all(isinstance(item, str) for item in items):
        alone = all(item in field["symbols"] for item in items)
        return ([items], True) if alone else ([list(item) for item in items], False)
    if items and np.ndim(items[0]) == 0:
        return [items], True
    return [list(row) for row in items], False
