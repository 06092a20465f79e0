"""The network of a compiled program: columns, fixed tokens and the weights of every head.

The fixed tokens differ in one-hot codes alone; what a token is to a head is in the head's W_K and W_V, so that all
heads share the same tokens, as many as the largest table has. Queries are (score form, 1); a table gives its tokens the
keys (k_j, b_j) and all others (0, -omega); a gate gives the data token the key (1, 0), the first fixed token (0, 0) and
all others (0, -omega); a copy gives the data token (0, 0) and all fixed tokens (0, -omega). With omega beyond what exp
can tell from zero, below every score that a head can have, the others' weights are exactly 0.
"""

from __future__ import annotations

import numpy as np

from softwright.attention.composition import BANK, DATA, ComposedNetwork
from softwright.attention.stack import FIXED, Blueprint, HeadWeights, LayerWeights, Segment, check_blueprint
from softwright.compiler.build import Compiled
from softwright.compiler.features import INPUT
from softwright.compiler.heads import Row, TableHead

_FAR = 2048.0  # beyond the exponents of all types: exp(-2048) is 0 in float64 and float32


class _Layout:
    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.first_code = 1 + len(compiled.program.features)
        self.bank = max([head.table.tokens for head in compiled.heads.tables], default=1)
        self.width = self.first_code + self.bank

    def vector(self, row: Row) -> np.ndarray:
        found = np.zeros(self.width)
        for column, weight in row.weights.items():
            found[column] = weight
        return found

    def codes(self, low: float) -> np.ndarray:
        """W_K (D, 2) of a head that looks at nothing: the data token and all fixed tokens are far."""
        keys = np.zeros((self.width, 2))
        keys[0, 1] = -low
        keys[self.first_code :, 1] = -low
        return keys

    def queries(self, row: Row) -> np.ndarray:
        found = np.zeros((self.width, 2))
        found[:, 0] = self.vector(row)
        found[0, 1] = 1.0
        return found

    def table(self, head: TableHead) -> HeadWeights:
        table, count = head.table, head.table.tokens
        # Some token has a score of at least this, wherever t lies in [-1, 1].
        omega = _power_of_two(_FAR - float((table.biases - np.abs(table.keys)).max()))
        keys = self.codes(omega)
        places = slice(self.first_code, self.first_code + count)
        keys[places, 0], keys[places, 1] = table.keys, table.biases
        values = np.zeros((self.width, len(head.features)))
        values[places] = table.values
        out = np.zeros((len(head.features), self.width))
        for q, k in enumerate(head.features):
            out[q, 1 + k] = 1.0
        return HeadWeights(self.queries(self.compiled.rows.score[head.features[0]]), keys, values, out)

    def gate(self, feature: int, score: Row, value: Row, factor: float) -> HeadWeights:
        keys = self.codes(_FAR)  # the null token's score is 0, so no gate's largest score is below it
        keys[0] = (1.0, 0.0)
        keys[self.first_code] = 0.0
        values = self.vector(value)[:, None]
        out = np.zeros((1, self.width))
        out[0, 1 + feature] = factor
        return HeadWeights(self.queries(score), keys, values, out)

    def copy(self, feature: int, value: Row) -> HeadWeights:
        """A head that looks at the data token alone: its weight is exactly 1."""
        keys = self.codes(_FAR)
        keys[0] = 0.0
        out = np.zeros((1, self.width))
        out[0, 1 + feature] = 1.0
        queries = np.zeros((self.width, 2))
        queries[0, 1] = 1.0
        return HeadWeights(queries, keys, self.vector(value)[:, None], out)

    def layer(self, number: int) -> tuple[LayerWeights, int]:
        """The heads of one layer, tables first, and how many tables there are."""
        heads, rows = self.compiled.heads, self.compiled.rows
        tables = [self.table(head) for head in heads.tables if head.layer == number]
        gates: list[HeadWeights] = []
        for f in self.compiled.program.features:
            k = f.number
            if f.layer != number or f.kind == INPUT:
                continue
            if k in heads.products:
                factors = heads.products[k].factors
                gates += [self.gate(k, row, rows.value[k], g) for g, row in zip(factors, rows.scores[k], strict=True)]
            elif k in heads.exponentials:
                gates.append(self.gate(k, rows.score[k], rows.value[k], heads.exponentials[k].factor))
            elif k in heads.copies:
                gates.append(self.copy(k, rows.value[k]))
            elif k in heads.maxima or k in heads.steps:
                gates.append(self.gate(k, rows.score[k], rows.value[k], 1.0))
        return LayerWeights([*tables, *gates], (DATA,), (DATA, BANK), label=f"layer {number}"), len(tables)


def _power_of_two(value: float) -> float:
    return float(2.0 ** np.ceil(np.log2(value)))


def network_of(compiled: Compiled) -> ComposedNetwork:
    """The torch module, in the type that was asked for."""
    layout, program = _Layout(compiled), compiled.program
    embed = np.zeros((len(program.names), layout.width))
    embed[np.arange(len(program.names)), 1 + np.arange(len(program.names))] = 1.0
    base = np.zeros((1, layout.width))
    base[0, 0] = 1.0
    bank = np.zeros((layout.bank, layout.width))
    bank[:, layout.first_code :] = np.eye(layout.bank)
    layers = [layout.layer(number) for number in range(1, program.depth + 1)]
    slots = {"one": (0, 1), **{name: (1 + i, 2 + i) for i, name in enumerate(program.names)}}
    symbols = program.symbols
    for f in program.features[len(program.names) :]:
        slots[symbols[f.number].name] = (1 + f.number, 2 + f.number)  # type: ignore[union-attr]
    slots["code"] = (layout.first_code, layout.width)
    segments = [Segment(DATA, "point", base, embed), Segment(BANK, FIXED, bank)]
    blueprint = Blueprint(slots, segments, [layer for layer, _ in layers])
    check_blueprint(blueprint, compiled.precision.name)
    texts = ["1", *program.names, *(program.described(f) for f in program.features if f.kind != INPUT)]
    read = np.stack([layout.vector(row) for row in compiled.rows.outputs], axis=1)  # (D, m)
    return ComposedNetwork(
        blueprint,
        read,
        compiled.box,
        texts,
        [count for _, count in layers],
        compiled.heads.tokens,
        compiled.precision.torch_dtype,
    )
