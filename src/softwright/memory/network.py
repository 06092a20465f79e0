"""`MemoryNetwork`: labelled sequences stored in one attention layer and a readout, and asked for again.

    sequences  ->  ContextHead (layer 1, ids)  ->  SoftmaxLookup or ReluReadout (layer 2)  ->  labels

Two engines give the same answers. "dense" runs both layers literally, in the network's dtype, over all N memory tokens.
"pruned" evaluates ids in float64 and looks only at the keys near an id, with a bound of the softmax mass it leaves out.
Ids farther than a proved radius from every key belong to no stored sequence: `recall` says so, and can abstain.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from softwright.attention.view import AttentionView, HeadView, numbers
from softwright.errors import Faults, InvalidInput
from softwright.memory.context_head import TENSORS, ContextHead
from softwright.memory.labels import classes_as_bytes, is_plain
from softwright.memory.nearest_keys import NearestKeys
from softwright.memory.readouts import READOUTS, Readout, SoftmaxLookup
from softwright.memory.sequences import Packed, Reading, pack
from softwright.memory.tokenizer import Tokenizer, tokenizer_from
from softwright.precision import name_of
from softwright.settings import as_proved, runs_as_proved

ENGINES = ("pruned", "dense")
UNKNOWN = ("nearest", "abstain")
_ROWS = 4096  # sequences, and tokens, that the dense engine embeds at a time
_TOKENS = 1 << 20
_SCALARS = frozenset({"gap", "head.sentinel", "readout.beta"})


def paper_parameters(rank: int, width: int, longest: int, count: int) -> int:
    """4(s + d) + d(2nN + d), what corollary 1 of paper C spends on N sequences of length n."""
    return 4 * (rank + width) + width * (2 * longest * count + width)


@dataclass(frozen=True)
class Recall:
    """What came back, one entry per item: a sequence, or in token mode a token (`nested` gives them row by row).

    known     whether the id lies within the proved radius of a key, as that of every stored item does
    distance  from the id to the key
    weight    softmax weight of that key
    mass      bound of the softmax mass that the engine did not look at (0 for the dense engine)
    index     the key
    """

    labels: list[Any] | np.ndarray
    known: np.ndarray
    distance: np.ndarray
    weight: np.ndarray
    mass: np.ndarray
    index: np.ndarray
    lengths: np.ndarray | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.known)

    def nested(self) -> list[Any]:
        """Labels of the tokens of each sequence (token mode); of sequences simply their labels."""
        if self.lengths is None:
            return list(self.labels)
        ends = np.cumsum(self.lengths)
        return [self.labels[end - n : end] for end, n in zip(ends, self.lengths, strict=True)]


class MemoryNetwork(nn.Module):
    """One softmax head that makes ids of contexts, and a readout that knows their labels."""

    kind: ClassVar[str] = "memory"
    radii: Tensor  # (2,) how far a stored item's id can lie from its key: pruned, dense engine
    gap: Tensor  # () no two keys are closer
    class_text: Tensor  # (bytes,) the classes as JSON
    tokenizer_text: Tensor  # (bytes,) what the tokenizer needs

    def __init__(
        self,
        head: ContextHead,
        readout: Readout,
        *,
        classes: list[Any] | None = None,
        tokenizer: Tokenizer | None = None,
        radii: tuple[float, float] = (0.0, 0.0),
        gap: float = 0.0,
    ) -> None:
        super().__init__()
        self.head = head
        self.readout = readout
        self.reading, self.rank = head.reading, head.rank  # how sequences are read; of W_V (W_K and W_Q have rank 1)
        self.outputs = readout.values.shape[1]
        self.classes = classes
        self.tokenizer = tokenizer
        self.register_buffer("radii", torch.tensor(radii, dtype=torch.float64))
        self.register_buffer("gap", torch.tensor(gap, dtype=torch.float64))
        self.register_buffer("class_text", _bytes_tensor(b"" if classes is None else classes_as_bytes(classes)))
        self.register_buffer("tokenizer_text", _bytes_tensor(b"" if tokenizer is None else tokenizer.to_bytes()))

    @property
    def dtype(self) -> torch.dtype:
        """What it runs in."""
        return self.head.dtype

    @property
    def stored(self) -> int:
        """Items stored: sequences, or tokens in context."""
        return len(self.readout.keys)

    @property
    def parameter_count(self) -> int:
        """All numbers of both layers and of the embedding."""
        names = [name for name in TENSORS if name != "vocabulary"]
        return sum(getattr(self.head, name).numel() for name in names) + self.readout.parameter_count

    @property
    def paper_parameters(self) -> int:
        """What paper C would spend on as many sequences of this length."""
        return paper_parameters(self.rank, self.head.W_Q.shape[1], self.head.longest, self.stored)

    @cached_property
    def index(self) -> NearestKeys:
        return NearestKeys(self.readout.keys.double().numpy())

    @runs_as_proved
    def forward(self, content: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Tokens (B, n) or vectors (B, n, d) -> (B, m), or (B, n, m) in token mode. Classes come as their index."""
        self._check(content)
        ids = self.head(content, lengths)
        return self.readout(ids.reshape(-1, ids.shape[-1])).reshape(*ids.shape[:-1], self.outputs)

    def _check(self, content: Tensor) -> None:
        """Refuse what is no batch of such sequences; only shape and type are looked at."""
        wide, vectors = self.head.code_size, self.head.takes_vectors
        if vectors:
            good = content.ndim == 3 and content.shape[2] == wide and content.is_floating_point()
        else:
            good = content.ndim == 2 and not (content.is_floating_point() or content.is_complex())
        wanted = f"vectors (batch, length, {wide})" if vectors else "tokens (batch, length), whole numbers"
        if not good:
            fault = f"give {wanted}; got {content.dtype} of shape {tuple(content.shape)}"
            raise InvalidInput("MemoryNetwork", [f"{fault}; network.recall takes lists, texts and arrays"])

    def packed(self, sequences: Any) -> Packed:
        """Sequences checked and padded; texts go through the tokenizer."""
        faults = Faults("recall")
        if isinstance(sequences, str):
            sequences = [sequences]
        if isinstance(sequences, Sequence) and sequences and all(isinstance(x, str) for x in sequences):
            if self.tokenizer is None:
                raise InvalidInput("recall", ["this memory was built without a tokenizer; give rows of integers"])
            sequences = self.tokenizer.encode(list(sequences))
        packed = pack(sequences, faults)
        faults.raise_if_any()
        if packed is None:
            raise RuntimeError("unreachable: sequences that cannot be packed are a fault")
        wanted = self.head.code_size if self.head.takes_vectors else 0
        if len(packed) and packed.longest and packed.width != wanted:
            kind = f"vectors of {wanted} numbers" if wanted else "integer tokens"
            raise InvalidInput("recall", [f"this memory holds {kind}; got an array of shape {packed.content.shape}"])
        if wanted and not packed.is_vectors:
            packed = Packed(np.zeros((len(packed), 0, wanted)), packed.lengths)
        return packed

    def recall(self, sequences: Any, *, unknown: str = "nearest", engine: str = "pruned") -> Recall:
        """The labels of sequences. Those never stored get that of the nearest key, or None/nan with "abstain"."""
        faults = Faults("recall")
        faults.check(unknown in UNKNOWN, f"unknown = {unknown!r}; choose from {', '.join(UNKNOWN)}")
        faults.check(engine in ENGINES, f"engine = {engine!r}; choose from {', '.join(ENGINES)}")
        faults.check(self.stored > 0, "nothing is stored; add sequences first")
        faults.raise_if_any()
        packed = self.packed(sequences)
        foreign = self.head.foreign(packed)
        by_token = self.reading.mode == "token"
        if by_token:
            foreign = np.repeat(foreign, np.minimum(packed.lengths, self.head.longest))
        with as_proved(self.radii):
            found = self._pruned(packed, foreign) if engine == "pruned" else self._dense(packed, foreign)
        lengths = np.minimum(packed.lengths, self.head.longest) if by_token else None
        return Recall(
            labels=self._labels(found, unknown == "abstain"),
            known=found["known"],
            distance=found["distance"],
            weight=found["weight"],
            mass=found["mass"],
            index=found["index"],
            lengths=lengths,
        )

    def recalled_values(self, packed: Packed, engine: str = "pruned") -> np.ndarray:
        """The numbers (M, m) that stand for the labels of all items; nan where none can have been stored."""
        with as_proved(self.radii):
            if engine == "dense":
                return self._literal(packed)[1].double().numpy()
            foreign = self.head.foreign(packed)
            if self.reading.mode == "token":
                foreign = np.repeat(foreign, np.minimum(packed.lengths, self.head.longest))
            found = self._pruned(packed, foreign)
        return np.where(foreign[:, None], np.nan, found["values"])

    def _pruned(self, packed: Packed, foreign: np.ndarray) -> dict[str, np.ndarray]:
        ids = self.head.ids(packed)
        radius, gap, count = float(self.radii[0]), float(self.gap), self.stored
        index, distance = self.index.within(ids, radius)
        known = (index >= 0) & ~foreign
        values = self.readout.values.double().numpy()[np.maximum(index, 0)]
        beta = float(self.readout.beta) if isinstance(self.readout, SoftmaxLookup) else np.inf
        near = np.where(known, distance, 0.0)
        # All other keys lie at least gap - d away, d being the distance to the own key.
        exponent = 0.5 * ((gap - near) ** 2 - near**2) if count > 1 else np.ones(len(ids))
        with np.errstate(invalid="ignore"):
            mass = np.where(known, (count - 1) * np.exp(-np.minimum(beta * exponent, 745.0)), 1.0)
        mass = mass if np.isfinite(beta) else np.where(known, 0.0, 1.0)
        found = {"index": index, "distance": distance, "known": known, "values": values, "mass": mass}
        found["weight"] = 1.0 - np.minimum(mass, 1.0)
        others = np.flatnonzero(~known)
        if len(others):
            for name, part in self.readout.pruned(ids[others], self.index).items():
                found[name][others] = part
        return found

    def _dense(self, packed: Packed, foreign: np.ndarray) -> dict[str, np.ndarray]:
        ids, values = self._literal(packed)
        index, weight = self.readout.winners(ids)
        distance = np.sqrt(((ids.double() - self.readout.keys.double()[index]) ** 2).sum(dim=1).numpy())
        known = (distance <= float(self.radii[1])) & ~foreign
        return {
            "index": index,
            "distance": distance,
            "known": known,
            "values": values.double().numpy(),
            "weight": weight,
            "mass": np.zeros(len(index)),
        }

    @torch.no_grad()
    def _literal(self, packed: Packed) -> tuple[Tensor, Tensor]:
        """Ids and values of all items, as torch runs both layers."""
        items = np.minimum(packed.lengths, self.head.longest).sum() if self.reading.mode == "token" else len(packed)
        ids = torch.empty(int(items), len(self.head.W_I), dtype=self.dtype)
        step, done = max(1, min(_ROWS, _TOKENS // max(1, packed.content.shape[1]))), 0
        for at in range(0, len(packed), step):
            part = packed.rows(slice(at, at + step))
            content = torch.from_numpy(np.ascontiguousarray(part.content[:, : self.head.longest]))
            found = self.head(content, torch.from_numpy(part.lengths))
            found = found if found.dim() == 2 else found[torch.from_numpy(part.real()[:, : found.shape[1]])]
            ids[done : done + len(found)] = found
            done += len(found)
        return ids, self.readout(ids)

    def _labels(self, found: dict[str, np.ndarray], abstain: bool) -> list[Any] | np.ndarray:
        known = found["known"]
        if self.classes is None:
            values = np.where(known[:, None] | (not abstain), found["values"], np.nan)
            return values[:, 0] if values.shape[1] == 1 else values
        # Between two keys the mean of their class indices means nothing: the class is that of the heavier one.
        stored = np.rint(self.readout.values.double().numpy()[found["index"], 0]).astype(np.int64)
        sure = known & (np.abs(found["values"][:, 0] - stored) < 0.5)
        places = np.where(sure, np.rint(found["values"][:, 0]), stored).astype(np.int64)
        classes = self.classes
        return [None if abstain and not k else classes[p] for p, k in zip(places.tolist(), known.tolist(), strict=True)]

    def evaluate(self, inputs: Any, **options: Any) -> Any:
        """Labels of sequences: an array of real labels, a list of classes; row by row in token mode."""
        found = self.recall(inputs, **options)
        return found.labels if found.lengths is None else found.nested()

    def attention(self, sequences: Any, /) -> AttentionView:
        """Which stored items each sequence attends to (token mode: each token in its context); x is its id."""
        if not isinstance(self.readout, SoftmaxLookup):
            fault = "the readout is feed-forward and attends to no item"
            raise InvalidInput("attention", [f"{fault}; built.network.recall(...) names the item that is found"])
        ids = self._literal(self.packed(sequences))[0].double().numpy()  # (q, r)
        beta = float(self.readout.beta)
        keys, halves, values = (getattr(self.readout, name).double().numpy() for name in ("keys", "halves", "values"))
        labels = [numbers(value) if self.classes is None else repr(self.classes[round(value[0])]) for value in values]
        names = [f"item {j}: {label}" for j, label in enumerate(labels)]
        what = "sequence" if self.reading.mode == "sequence" else "token"
        asked = [f"{what} {i}" for i in range(len(ids))]
        return AttentionView(asked, [HeadView.of("lookup", names, ids, beta * keys, -beta * halves, values)])

    def facts(self) -> list[tuple[str, str]]:
        reading = self.reading
        order = "in order" if reading.positional else "as multisets"
        context = ", looking back only" if reading.causal else ""
        kind = "sequences" if reading.mode == "sequence" else "tokens in context"
        tokens = f"vectors of {self.head.code_size}" if self.head.takes_vectors else f"{len(self.head.codes)} tokens"
        labels = f"{self.outputs} real number(s)" if self.classes is None else f"{len(self.classes)} classes"
        return [
            ("stored", f"{self.stored} {kind}, read {order}{context}"),
            ("alphabet", f"{tokens}, at most {self.head.longest} in a sequence"),
            ("labels", labels),
            ("attention", f"one softmax head, rank {self.rank}"),
            ("readout", "softmax over the stored ids" if self.readout.name == "attention" else "relu feed-forward"),
        ]

    def describe(self) -> dict[str, Any]:
        if self.classes is not None and not len(self.class_text):
            odd = next(x for x in self.classes if not is_plain(x))
            fault = f"the class {odd!r} has no form in JSON; use texts, numbers or None as labels to save the memory"
            raise InvalidInput("save", [fault])
        reading = self.reading
        return {
            "dtype": name_of(self.dtype),
            "reading": {"positional": reading.positional, "mode": reading.mode, "causal": reading.causal},
            "readout": self.readout.name,
            "labels": "values" if self.classes is None else "classes",
            "tokenizer": None if self.tokenizer is None else self.tokenizer.name,
        }

    @classmethod
    def rebuilt(cls, model: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Self:
        arrays = {name: torch.from_numpy(np.array(array)) for name, array in tensors.items()}
        for name in _SCALARS & set(arrays):  # a file holds them with one axis
            arrays[name] = arrays[name].reshape(())
        kind = READOUTS[model["readout"]]
        expected = {f"head.{name}" for name in TENSORS} | {f"readout.{name}" for name in kind.TENSORS}
        expected |= {"radii", "gap", "class_text", "tokenizer_text"}
        if set(arrays) != expected:
            raise KeyError(f"tensors {sorted(set(arrays) ^ expected)}")
        for name, array in arrays.items():
            if array.is_floating_point() and not bool(torch.isfinite(array).all()):
                raise ValueError(f"{name} is not finite")
            if name.split(".")[-1] not in ("vocabulary", "radii", "gap", "class_text", "tokenizer_text") and str(
                array.dtype
            ) != "torch." + str(model["dtype"]):
                raise ValueError(f"{name} is {array.dtype}, the file says {model['dtype']}")
        head = ContextHead(Reading(**model["reading"]), **{name: arrays[f"head.{name}"] for name in TENSORS})
        readout = kind(**{name: arrays[f"readout.{name}"] for name in kind.TENSORS})
        if readout.keys.shape[1] != len(head.W_I):
            raise ValueError("ids and keys differ in size")
        text = arrays["class_text"].numpy().tobytes()
        classes = json.loads(text) if model["labels"] == "classes" else None
        if classes is not None:
            places = readout.values[:, 0]
            if readout.values.shape[1] != 1 or bool(((places < 0) | (places >= len(classes))).any()):
                raise ValueError("labels name classes that are not there")
        tokenizer = tokenizer_from(model.get("tokenizer"), arrays["tokenizer_text"].numpy().tobytes())
        radii = (float(arrays["radii"][0]), float(arrays["radii"][1]))
        network = cls(head, readout, classes=classes, tokenizer=tokenizer, radii=radii, gap=float(arrays["gap"]))
        network.class_text, network.tokenizer_text = arrays["class_text"], arrays["tokenizer_text"]  # byte for byte
        return network


def _bytes_tensor(data: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy())
