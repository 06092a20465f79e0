"""The gap that is found is the smallest there is; the proved error of an id covers what both engines do."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest
import torch

from softwright.errors import InvalidInput, ToleranceNotReached
from softwright.memory import build
from softwright.memory.codes import Alphabet, alphabet_of, draw_head
from softwright.memory.gap import closest
from softwright.memory.rounding import id_errors
from softwright.memory.sequences import Packed, Reading
from softwright.memory.verb import memorize
from softwright.memory.witnesses import Witnesses, least_radius


@pytest.mark.parametrize("dimensions", [1, 2, 3, 6])
@pytest.mark.parametrize("floor", [1e-9, 1e-3])
def test_the_gap_is_that_of_all_pairs(dimensions: int, floor: float) -> None:
    keys = np.random.default_rng(dimensions).normal(size=(300, dimensions))
    squares = ((keys[:, None] - keys) ** 2).sum(axis=2)
    squares[np.diag_indices(300)] = np.inf
    least = float(np.sqrt(squares.min()))
    found = closest(keys, floor)
    assert found.gap <= least
    if least >= floor:
        assert found.gap == pytest.approx(least, rel=1e-9)
        assert set(found.pair) == set(np.unravel_index(squares.argmin(), squares.shape))
    else:
        assert found.gap < floor


def test_equal_keys_have_no_gap() -> None:
    keys = np.random.default_rng(0).normal(size=(50, 2))
    keys[7] = keys[31]
    assert closest(keys, 1e-6).gap == 0.0


def exact_ids(layer: Any, tokens: np.ndarray) -> list[list[flint.arb]]:
    """Ids of all tokens of one sequence in 200-bit balls, from the stored numbers."""
    flint.ctx.prec = 200

    def ball(value: float) -> flint.arb:
        ratio = Fraction(float(value))
        return flint.arb(flint.fmpq(ratio.numerator, ratio.denominator))

    e, s = layer.code_size, layer.rank
    codes = layer.codes[torch.from_numpy(tokens)]
    if len(layer.place_codes):
        codes = codes * layer.place_codes[: len(tokens)]  # one product in the dtype: part of the embedding
    w_k, w_v, w_i = layer.W_K.tolist()[0], layer.W_V.tolist(), layer.W_I.tolist()
    total, mass, partial = [flint.arb(0)] * s, ball(float(layer.sentinel)).exp(), []
    for place, row in enumerate(codes.tolist()):
        score = ball(float(layer.log_weights[place]) * w_k[e]) + sum(
            (ball(a) * ball(b) for a, b in zip(w_k[:e], row, strict=True)), flint.arb(0)
        )
        weight = score.exp()
        mass += weight
        for i in range(s):
            total[i] = total[i] + weight * sum(
                (ball(a) * ball(b) for a, b in zip(w_v[i][:e], row, strict=True)), flint.arb(0)
            )
        partial.append([t / mass for t in total])
    z = [t / mass for t in total]

    def ident(context: list[flint.arb], own: list[float], sigma: float) -> list[flint.arb]:
        stream = [ball(c) for c in own] + [ball(sigma), flint.arb(1), *context]
        return [sum((ball(a) * b for a, b in zip(row, stream, strict=True)), flint.arb(0)) for row in w_i]

    if layer.reading.mode == "sequence":
        return [ident(z, [0.0] * e, 0.0)]
    sigmas = layer.log_weights.tolist()
    contexts = partial if layer.reading.causal else [z] * len(tokens)
    return [ident(c, row, sigmas[k]) for k, (c, row) in enumerate(zip(contexts, codes.tolist(), strict=True))]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "reading",
    [Reading(), Reading(positional=False), Reading(mode="token", causal=True)],
    ids=["order", "sets", "token"],
)
def test_the_proved_error_of_an_id_holds_for_both_engines(reading: Reading, dtype: torch.dtype) -> None:
    before = flint.ctx.prec
    layer = draw_head(Alphabet(30, np.zeros(0, dtype=np.int64)), 24, reading, 3, "products", False, dtype, 0)
    layer.W_I[:, layer.code_size + 1] = torch.tensor([0.3, -0.2, 0.1], dtype=dtype)
    errors = id_errors(layer, 1.0)
    data = Packed(np.random.default_rng(0).integers(0, 30, (20, 24)), np.arange(5, 25))
    literal = layer(torch.from_numpy(data.content), torch.from_numpy(data.lengths)).double().numpy()
    literal = literal if reading.mode == "sequence" else literal[data.real()]
    wanted = [row for i in range(len(data)) for row in exact_ids(layer, data.content[i, : data.lengths[i]])]
    for found, bound in ((layer.ids(data), errors.pruned), (literal, errors.dense)):
        worst = max(
            float(sum(((flint.arb(float(a)) - b) ** 2 for a, b in zip(row, exact, strict=True)), flint.arb(0)).sqrt())
            for row, exact in zip(found, wanted, strict=True)
        )
        assert 0 < worst <= bound
        assert worst > bound / 3000  # a bound of any use
    flint.ctx.prec = before


def test_sparse_and_negative_tokens_get_a_vocabulary() -> None:
    data = Packed(np.array([[-5, 10**12], [7, 7]]), np.array([2, 2]))
    alphabet = alphabet_of(data)
    assert alphabet.ids.tolist() == [-5, 7, 10**12]
    layer = draw_head(alphabet, 2, Reading(), 1, "weights", False, torch.float64, 0)
    assert layer.find_tokens(np.array([7, 8, 10**12])).tolist() == [1, 3, 2]


def counted(**options: Any) -> tuple[str, int, int]:
    """One token, one to 400 times over, in float32: why it fails, draws begun, and draws in which all ids were made."""
    told: list[str] = []
    with pytest.raises(ToleranceNotReached) as raised:
        rows = [[7] * length for length in range(1, 401)]
        memorize(rows, range(400), dtype="float32", progress=told.append, **options)
    return str(raised.value), sum("ids of" in line for line in told), sum("smallest gap" in line for line in told)


def test_what_cannot_be_stored_is_said_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every one of hundreds of draws once computed every id: minutes passed before "use float64" was said."""
    monkeypatch.setattr(build, "MOST_RANK", 6)
    reason, draws, full = counted()
    assert "float64" in reason and draws >= 60 and full <= draws // 3


def test_float32_gives_up_where_more_ranks_bring_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within its budget: far from the gap that is needed, and no nearer at the ranks that follow."""
    monkeypatch.setattr(build, "_NO_NEARER", 0)
    reason, draws, _ = counted()
    assert "no nearer" in reason and "float64" in reason and draws <= 24


def test_a_search_ends_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MOST_RANK", 6)
    reason, draws, _ = counted(max_seconds=1e-9)
    assert draws == 1 and "max_seconds" in reason
    with pytest.raises(InvalidInput, match="max_seconds"):
        memorize([[1], [2]], [1, 2], max_seconds=0)


def test_witnesses_change_nothing_that_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, passed_over, too_close = [[7] * length for length in range(1, 181)], [], build._too_close
    monkeypatch.setattr(build, "_too_close", lambda *given: passed_over.append(too_close(*given)) or passed_over[-1])
    quick = memorize(rows, range(180), dtype="float32").network
    assert any(passed_over)  # else nothing is tested here
    monkeypatch.setattr(Witnesses, "__bool__", lambda self: False)
    slow = memorize(rows, range(180), dtype="float32").network
    pairs = zip(quick.state_dict().values(), slow.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("mode", ["sequence", "token"])
def test_witnesses_are_items_and_those_noted_are_among_them(mode: str) -> None:
    rng = np.random.default_rng(2)
    lengths = rng.integers(0, 5, 500)
    packed = Packed(rng.integers(0, 4, (500, 4)), lengths)
    items = int(lengths.sum()) if mode == "token" else 500
    keep = np.flatnonzero(rng.random(items) < 0.5) if mode == "token" else None
    head = draw_head(alphabet_of(packed), 4, Reading(mode=mode), 3, "weights", False, torch.float64, 0)
    ids = head.ids(packed) if keep is None else head.ids(packed)[keep]
    witnesses = Witnesses(packed, mode == "token", keep)
    assert not witnesses
    witnesses.note((7, 131))
    witnesses.note((-1, -1))
    few, kept = witnesses.few()
    found = head.ids(few) if kept is None else head.ids(few)[kept]
    assert witnesses and len(found) < len(ids)
    assert set(map(tuple, ids[[7, 131]])) <= set(map(tuple, found)) <= set(map(tuple, ids))
    assert least_radius(found) <= float(np.linalg.norm(ids - ids.mean(axis=0), axis=1).max())
