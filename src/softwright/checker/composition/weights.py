"""From tensors to heads: exactly the layout of a composed network, and what its heads read and write.

With d inputs, J features and T fixed tokens the stream has 1 + d + J + T columns: the constant 1, the inputs, one for
each feature, and codes that tell the fixed tokens apart. The data token starts as (1, x, 0, 0), fixed token j as
the unit vector of code j. In every head the query is (score row . x, 1), and

    table   the keys of fixed tokens are (k_j, b_j), their values v_j; the data token has key (0, -omega) and value 0.
            Column 1 + i of feature i gets value q of the softmax as it is
    gate    the data token has key (1, 0) and value (value row . x), fixed token 0 key (0, 0) and value 0, the others
            (0, -far): feature i's column gets g sigma(score) value
    copy    the data token has key (0, 0), all fixed tokens (0, -far), and the score row is 0

Every tensor has the shape and every entry the place that this says; rows read columns of earlier layers alone, and a
column is written by the heads of one feature in one layer. What runs may leave tokens out that have no weight, or not:
tokens that a head does not look at have value 0, and scores at least GAP below the largest one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from softwright.checker.composition.program import Program
from softwright.checker.refusal import require

GAP = 800.0  # exp(-800) is 0 in both types
MOST_TOKENS, MOST_HEADS = 4096, 2000
LARGEST = {"float64": 1e100, "float32": 1e30}  # weights


@dataclass(frozen=True)
class Table:
    """A head of fixed tokens alone, all T of them; column q of its values belongs to features[q]."""

    features: tuple[int, ...]
    score: np.ndarray  # (columns,)
    keys: np.ndarray  # (T,)
    biases: np.ndarray
    values: np.ndarray  # (T, len(features))
    tokens: int  # that are looked at
    omega: float


@dataclass(frozen=True)
class Gate:
    """A head of two tokens: factor * sigma(score . x) * (value . x)."""

    score: np.ndarray  # (columns,)
    value: np.ndarray
    factor: float
    alone: bool = False  # whether the data token is all that it looks at


@dataclass(frozen=True)
class Weights:
    """The heads of a network by feature, and the rows that are read out."""

    tables: tuple[Table, ...]
    gates: Mapping[int, tuple[Gate, ...]]  # by feature
    outputs: tuple[np.ndarray, ...]  # (columns,)
    fixed: int  # tokens
    table_counts: tuple[int, ...]  # by layer

    @property
    def heads(self) -> int:
        return len(self.tables) + sum(map(len, self.gates.values()))

    @property
    def tokens(self) -> int:
        """Looked at, summed over heads."""
        seen = sum(1 if gate.alone else 2 for gates in self.gates.values() for gate in gates)
        return sum(table.tokens for table in self.tables) + seen


def read_weights(
    tensors: Mapping[str, np.ndarray], program: Program, groups: Sequence[tuple[int, ...]], dtype: str
) -> Weights:
    """The heads. `groups` are the features that share a table, head by head."""
    depth = program.depth
    names = {"base_bank", "base_data", "embed_data", "read"}
    names |= {f"layers.{layer}.{kind}" for layer in range(depth) for kind in ("Wq", "Wk", "Wv", "Wo")}
    require(set(tensors) == names, "the tensors are not those of a composed network of so many layers")
    for name, tensor in tensors.items():
        require(str(tensor.dtype) == dtype, f"{name} is not of the dtype stated")
        small = np.isfinite(tensor).all() and (np.abs(tensor.astype(np.float64)) < LARGEST[dtype]).all()
        require(small, f"{name} holds entries that are not finite, or too large to be checked")
    reader = _Reader({name: tensor.astype(np.float64) for name, tensor in tensors.items()}, program)
    tables: list[Table] = []
    gates: dict[int, tuple[Gate, ...]] = {}
    counts: list[int] = []
    for layer in range(1, depth + 1):
        own = [group for group in groups if program.layer_of(group[0]) == layer]
        found, some = reader.layer(layer, own)
        tables += found
        gates |= some
        counts.append(len(found))
    return Weights(tuple(tables), gates, reader.outputs(), reader.fixed, tuple(counts))


class _Reader:
    def __init__(self, tensors: dict[str, np.ndarray], program: Program) -> None:
        self.tensors, self.program = tensors, program
        self.columns = 1 + program.inputs + len(program.features)
        bank = tensors["base_bank"]
        require(bank.ndim == 2 and 1 <= len(bank) <= MOST_TOKENS, f"there must be 1 to {MOST_TOKENS} fixed tokens")
        self.fixed = len(bank)
        self.width = self.columns + self.fixed
        self.of_layer = np.array([0, *(program.layer_of(i) for i in range(self.columns - 1))])
        d, codes = program.inputs, np.zeros((self.fixed, self.width))
        codes[:, self.columns :] = np.eye(self.fixed)
        self.same("base_bank", codes)
        self.same("base_data", np.eye(1, self.width))
        self.same("embed_data", np.eye(d, self.width, k=1))

    def same(self, name: str, wanted: np.ndarray) -> None:
        require(np.array_equal(self.tensors[name], wanted), f"{name} is not that of a composed network")

    def outputs(self) -> tuple[np.ndarray, ...]:
        read, m = self.tensors["read"], len(self.program.outputs)
        require(read.shape == (self.width, m), f"`read` does not fit {m} outputs")
        require(not read[self.columns :].any(), "`read` reads codes")
        return tuple(read[: self.columns].T)

    def layer(self, layer: int, groups: Sequence[tuple[int, ...]]) -> tuple[list[Table], dict[int, tuple[Gate, ...]]]:
        Wq, Wk, Wv, Wo = (self.tensors[f"layers.{layer - 1}.{name}"] for name in ("Wq", "Wk", "Wv", "Wo"))
        H = len(Wq) if Wq.ndim == 3 else 0
        v = max([1, *map(len, groups)])
        shapes = {
            "Wq": (H, self.width, 2),
            "Wk": (H, self.width, 2),
            "Wv": (H, self.width, v),
            "Wo": (H, v, self.width),
        }
        for name, tensor in (("Wq", Wq), ("Wk", Wk), ("Wv", Wv), ("Wo", Wo)):
            require(tensor.shape == shapes[name], f"{name} of layer {layer} has another shape than its heads ask for")
        require(len(groups) <= H <= MOST_HEADS, f"layer {layer} has {H} heads, {len(groups)} of them tables")
        for h in range(H):
            self._check_query(Wq[h], layer)
        tables = [self._table(group, Wq[h], Wk[h], Wv[h], Wo[h]) for h, group in enumerate(groups)]
        gates: dict[int, tuple[Gate, ...]] = {}
        last = -1
        for h in range(len(groups), H):
            feature, gate = self._gate(layer, Wq[h], Wk[h], Wv[h], Wo[h])
            require(feature >= last, f"the gates of layer {layer} are not in the order of their features")
            gates[feature], last = (*gates.get(feature, ()), gate), feature
        wanted = {f.place for f in self.program.features if f.layer == layer}
        written = {i for group in groups for i in group}
        require(
            written | gates.keys() == wanted and not written & gates.keys(),
            f"the heads of layer {layer} do not write the columns of its features",
        )
        return tables, gates

    def _check_query(self, Wq: np.ndarray, layer: int) -> None:
        require(np.array_equal(Wq[:, 1], np.eye(1, self.width)[0]), "a query's second number is not the constant 1")
        self._check_row(Wq[:, 0], layer)

    def _check_row(self, row: np.ndarray, layer: int) -> None:
        """A row reads the constant, the inputs, and features of earlier layers."""
        require(not row[self.columns :].any(), "a head reads codes of the data token")
        late = self.of_layer >= layer
        require(not row[: self.columns][late].any(), f"a head of layer {layer} reads what is not computed before it")

    def _table(self, group: tuple[int, ...], Wq: np.ndarray, Wk: np.ndarray, Wv: np.ndarray, Wo: np.ndarray) -> Table:
        first, m = self.columns, len(group)
        omega = -float(Wk[0, 1])
        wanted = np.zeros((first, 2))
        wanted[0, 1] = -omega
        require(omega > 0 and np.array_equal(Wk[:first], wanted), "a table does not look away from the data token")
        keys, biases = Wk[first:, 0], Wk[first:, 1]
        seen = np.flatnonzero((keys != 0.0) | (biases != -omega))
        require(len(seen) > 0, "a table looks at nothing")
        tokens = int(seen[-1]) + 1
        require(not Wv[:first].any() and not Wv[first + tokens :].any(), "a token out of sight of a table has a value")
        out = np.zeros(Wo.shape)
        out[np.arange(m), 1 + np.array(group)] = 1.0
        require(np.array_equal(Wo, out), "a table does not write its values into the columns of its features")
        require(not Wv[:, m:].any(), "a table has values that nobody reads")
        # |t| <= 1, and rounding moves no score by a half of it
        require(float((biases - np.abs(keys))[:tokens].max()) + omega >= 2 * GAP, "omega does not hide what it should")
        return Table(group, Wq[:first, 0], keys, biases, Wv[first:, :m], tokens, omega)

    def _gate(self, layer: int, Wq: np.ndarray, Wk: np.ndarray, Wv: np.ndarray, Wo: np.ndarray) -> tuple[int, Gate]:
        first = self.columns
        wanted = np.zeros((self.width, 2))
        wanted[0, 0] = 1.0
        wanted[first + 1 :, 1] = Wk[first + 1 :, 1]
        alone = not Wk[:first].any() and not Wq[:, 0].any() and bool(Wk[first, 1] <= -GAP)
        if alone:
            wanted[0, 0], wanted[first, 1] = 0.0, Wk[first, 1]
        require(np.array_equal(Wk, wanted), "a gate's keys are not those of the data token and the null token")
        require((Wk[first + 1 :, 1] <= -GAP).all(), "a gate does not look away from the other tokens")
        self._check_row(Wv[:, 0], layer)
        require(not Wv[:, 1:].any() and not Wo[1:].any(), "a gate has more than one value")
        places = np.flatnonzero(Wo[0])
        require(len(places) == 1, "a gate does not write one column")
        place = int(places[0])
        require(0 < place < first and self.of_layer[place] == layer, "a gate writes a column that is not its layer's")
        return place - 1, Gate(Wq[:first, 0], Wv[:first, 0], float(Wo[0, place]), alone)
