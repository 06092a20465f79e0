"""C4 and C6 again: the stored head and readout answer every position of the drawn sequences with its label.

The theorem's network has real weights and errs by nothing: the exact part is 0. That of the file has rounded weights
and runs in float64, and all of that is the rounding part. For every context (with a mask, C6: the tokens up to the
position)

    |computed - label| <= |network in real arithmetic - label| + |computed - network in real arithmetic|,

the first from the tensors in balls, the second by the analyses of `running` and `readout`. Ids need not be told apart
for this; where they are not, no readout could meet the labels.

The shape of the tensors is that of the theorem's count of 4 (s + d) + d (2 n N + d) parameters: four rank-1 matrices,
one direction and nN relus with a threshold and a coefficient for every output, and nothing else (b_2 = 0).
"""

from __future__ import annotations

from flint import arb, ctx

from softwright.checker.limits import check_time
from softwright.checker.proved import Proved
from softwright.checker.refusal import require
from softwright.checker.theorems.reading import TheoremFile
from softwright.checker.theorems.readout import Line, read_lines
from softwright.checker.theorems.running import Column, run_head
from softwright.checker.theorems.sequences import rank_one_head, read_sequences

BITS = 256
MOST_WORK = 1_000_000  # (contexts plus relus) times the numbers that each reads


def prove(file: TheoremFile) -> Proved:
    """The largest |network - label| over all positions of all sequences."""
    causal = file.label == "C6"
    sequences = read_sequences(file, labelled=True)
    if sequences.labels is None:
        raise ValueError("labels were asked for")
    (N, n), d = sequences.index.shape, file.inputs[0]
    contexts = sequences.contexts(causal)
    work = len(contexts) * (n + d) * d + N * n * d * d
    require(work <= MOST_WORK, f"{N} sequences of {n} tokens in {d} dimensions are more than can be evaluated here")
    attention, feed_forward = file.chain("attention", "feed_forward")
    with ctx.workprec(BITS):
        head = rank_one_head(attention, d, causal)
        require(head.size == file.sizes["head_size"], f"the head has {head.size} rows")
        lines = read_lines(feed_forward, d, n * N, residual=True)
        require(not feed_forward["b_2"].any(), "b_2 is not zero")
        tokens = [[arb(x) for x in row] for row in sequences.tokens.tolist()]
        answers: dict[tuple[frozenset[int], int], list[tuple[arb, arb]]] = {}
        for seen, token in contexts:
            check_time()
            order = [token, *sorted(seen - {token})]
            point, off = run_head(head, [tokens[i] for i in order], 0)
            answers[seen, token] = [answer(line, point, off) for line in lines]
        worst = arb(0)
        labels = sequences.labels.tolist()
        for i, row in enumerate(sequences.index.tolist()):
            for k, token in enumerate(row):
                found = answers[frozenset(row[: k + 1] if causal else row), token]
                for o, (value, error) in enumerate(found):
                    worst = worst.max((abs(value - labels[i][o][k]) + error).upper())
        steepest = arb(0)
        for line in lines:
            for slope in line.slopes:
                steepest = steepest.max(abs(slope))
    s = head.size
    return Proved(
        statement=f"largest |network - label| over the {N} sequences, all tokens and coordinates",
        exact=arb(0),
        rounding=worst,
        method=f"theorem {file.label}",
        quantities={
            **{"scale": head.scale, "steepest": steepest, "contexts": arb(len(contexts)), "head_size": arb(s)},
            "parameters": arb(4 * (s + d) + d * (2 * n * N + d)),
        },
    )


def answer(line: Line, point: Column, off: Column) -> tuple[arb, arb]:
    """What comes out in real arithmetic, and how far the computed answer may be from it."""
    return line.at(point), line.error(point, off)
