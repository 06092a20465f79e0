"""`memorize` from end to end: exact recall of everything stored, proved; unknown input; updates; files."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.attention import tensors_of
from softwright.fileformat import read_model, write_model
from softwright.memory.margin import certify_memory
from softwright.memory.network import paper_parameters

DTYPES = ("float64", "float32")


def edited(count: int, rng: np.random.Generator) -> np.ndarray:
    """Sequences that differ from another by one token."""
    rows = np.repeat(rng.integers(0, 1000, (count // 100, 16)), 100, axis=0)
    rows[np.arange(count), rng.integers(0, 16, count)] = rng.integers(0, 1000, count)
    return np.unique(rows, axis=0)


def permuted(count: int, rng: np.random.Generator) -> np.ndarray:
    """Permutations of each other, and neighbours swapped."""
    rows = np.repeat(rng.integers(0, 1000, (count // 100, 16)), 100, axis=0)
    half = count // 2
    rows[:half] = rng.permuted(rows[:half], axis=1)
    at, every = rng.integers(0, 15, count - half), np.arange(half, count)
    rows[every, at], rows[every, at + 1] = rows[every, at + 1], rows[every, at].copy()
    return np.unique(rows, axis=0)


def random(count: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 1000, (count, 16))


def check_recall(built: Any, sequences: Any, labels: list[Any], dense: int = 200) -> None:
    assert built.certificate is not None, built.unproved
    assert built.certificate.quantities["margin"] > 1
    found = built.network.recall(sequences)
    assert found.known.all()
    assert list(found.labels) == labels
    literal = built.network.recall(sequences[:dense], engine="dense")
    assert literal.known.all()
    assert list(literal.labels) == labels[:dense]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [random, edited, permuted])
def test_many_sequences(kind: Any, dtype: str) -> None:
    """Fifty thousand where they are hardest to tell apart; `benchmarks/memorize.py` has a million of each kind."""
    rng = np.random.default_rng(7)
    rows = kind(50_000 if (kind, dtype) == (edited, "float32") else 10_000, rng)
    labels = rng.integers(0, 10, len(rows))
    check_recall(sw.memorize(rows, labels, dtype=dtype), rows, labels.tolist(), dense=100)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positional", [True, False])
def test_ragged_sequences_with_repeated_tokens(positional: bool, dtype: str) -> None:
    rng = np.random.default_rng(3)
    rows = [rng.integers(0, 5 if i % 2 else 300, rng.integers(1, 65)).tolist() for i in range(3000)]
    rows += [[1] * n for n in range(1, 65)] + [[1, 2] * n for n in range(1, 33)]
    seen: dict[Any, int] = {}
    labels = [seen.setdefault(tuple(row if positional else sorted(row)), i % 7) for i, row in enumerate(rows)]
    check_recall(sw.memorize(rows, labels, positional=positional, dtype=dtype), rows, labels)


@pytest.mark.parametrize(("dtype", "allowed"), [("float64", 1e-9), ("float32", 1e-6)])
@pytest.mark.parametrize("vectors", [False, True])
def test_real_labels(dtype: str, allowed: float, vectors: bool) -> None:
    rng = np.random.default_rng(5)
    rows: Any = rng.normal(size=(2000, 5, 4)) if vectors else rng.integers(0, 50, (5000, 16))
    labels = rng.uniform(-1, 1, (len(rows), 3))
    built = sw.memorize(rows, labels, dtype=dtype)
    assert built.certificate.bound <= allowed
    assert np.abs(built.network.recall(rows).labels - labels).max() <= built.certificate.bound
    assert (
        np.abs(built.network.recall(rows[:300], engine="dense").labels - labels[:300]).max() <= built.certificate.bound
    )


@pytest.mark.parametrize("kind", [random, edited, permuted])
def test_rank_one_is_enough_for_a_thousand(kind: Any) -> None:
    rng = np.random.default_rng(11)
    rows = kind(1000 if kind is random else 1200, rng)[:1000]
    network = sw.memorize(rows, list(range(len(rows)))).network
    assert [int(np.linalg.matrix_rank(w.numpy())) for w in (network.head.W_Q, network.head.W_K, network.head.W_V)] == [
        1,
        1,
        1,
    ]
    assert network.recall(rows, engine="dense").labels == list(range(len(rows)))


def test_the_rank_asked_for_is_the_rank_of_the_values() -> None:
    rows = random(200, np.random.default_rng(0))
    network = sw.memorize(rows, list(range(200)), rank=4).network
    assert int(np.linalg.matrix_rank(network.head.W_V.numpy())) == 4


def test_the_relu_readout_is_exact() -> None:
    rng = np.random.default_rng(2)
    rows = edited(20_000, rng)
    labels = rng.uniform(-5, 5, len(rows))
    built = sw.memorize(rows, labels, readout="feedforward")
    assert built.network.rank == 1
    assert built.certificate.bound == 0.0
    assert np.array_equal(built.network.recall(rows).labels, labels)
    with torch.no_grad():
        assert np.array_equal(built.network(torch.from_numpy(rows[:200]))[:, 0].numpy(), labels[:200])


@pytest.mark.parametrize(("positional", "causal"), list(itertools.product([True, False], repeat=2)))
def test_labels_of_tokens(positional: bool, causal: bool) -> None:
    rng = np.random.default_rng(4)
    rows = [rng.integers(0, 6, rng.integers(1, 12)).tolist() for _ in range(150)]
    seen: dict[Any, int] = {}

    def label(row: list[int], k: int) -> int:
        context = row[: k + 1] if causal else row
        key = (tuple(context), k) if positional else (tuple(sorted(context)), row[k])
        return seen.setdefault(key, len(seen) % 5)

    labels = [[label(row, k) for k in range(len(row))] for row in rows]
    built = sw.memorize(rows, labels, mode="token", positional=positional, causal=causal)
    assert built.certificate is not None
    assert built.network.evaluate(rows) == labels
    assert built.network.evaluate(rows, engine="dense") == labels


def test_a_text_is_recited_from_its_prefixes() -> None:
    text = list((Path(sw.__file__).read_bytes())[:1500])
    built = sw.memorize([text], "next", mode="token", causal=True)
    assert built.network.evaluate([text])[0] == [*text[1:], None]
    # A prefix alone gives the same answers: nothing of what comes later was used.
    assert built.network.evaluate([text[:100]])[0] == text[1:101]


def test_any_hashable_is_a_label_but_not_all_can_be_saved(tmp_path: Path) -> None:
    built = sw.memorize([[1], [2]], [("a", 1), frozenset({2})])
    assert built.network.recall([[2], [1]]).labels == [frozenset({2}), ("a", 1)]
    with pytest.raises(sw.InvalidInput, match="no form in JSON"):
        built.save(tmp_path / "m.safetensors")


def test_one_sequence_and_an_empty_one() -> None:
    assert sw.memorize([[4, 2]], ["x"]).network.recall([[4, 2]]).labels == ["x"]
    found = sw.memorize([[], [1]], ["nothing", "one"])
    assert found.network.recall([[], [1]], engine="dense").labels == ["nothing", "one"]


def test_nothing_asked_nothing_answered() -> None:
    for readout in ("attention", "feedforward"):
        network = sw.memorize([[1, 2], [3]], ["a", "b"], readout=readout).network
        for engine in ("pruned", "dense"):
            found = network.recall([], engine=engine)
            assert len(found) == 0
            assert found.labels == []


def test_tensors_and_small_integer_types_are_rows_too() -> None:
    rows = np.arange(40, dtype=np.uint8).reshape(10, 4)
    built = sw.memorize(torch.from_numpy(rows.astype(np.int16)), torch.arange(10.0))
    assert np.array_equal(built.network.recall(rows).labels, np.arange(10.0))
    with torch.no_grad():
        values = built.network(torch.from_numpy(rows.astype(np.int64)))
    assert values[:, 0].tolist() == list(range(10))


def test_repeated_rows_are_stored_once() -> None:
    built = sw.memorize([[1, 2], [1, 2], [3]], ["a", "a", "b"])
    assert built.network.stored == 2
    assert "1 repeated item(s)" in built.plan.explain()


def test_unknown_input_is_recognised() -> None:
    rng = np.random.default_rng(9)
    rows = random(5000, rng)
    labels = rng.integers(0, 10, len(rows)).tolist()
    network = sw.memorize(rows, labels).network
    other = rows[:500].copy()
    other[:, 3] = (other[:, 3] + 1) % 1000
    for engine in ("pruned", "dense"):
        found = network.recall(other, unknown="abstain", engine=engine)
        assert not found.known.any()
        assert found.labels == [None] * 500
        assert (found.distance > 0).all()
    guess = network.recall(other)
    assert guess.labels == network.recall(other, engine="dense").labels
    assert not network.recall([[5000] * 16, [1] * 17]).known.any()
    values = sw.memorize(rows, rng.uniform(size=len(rows))).network
    assert np.isnan(values.recall(other, unknown="abstain").labels).all()
    a, b = values.recall(other), values.recall(other, engine="dense")
    assert (np.abs(np.asarray(a.labels) - np.asarray(b.labels)) <= 2 * a.mass + 1e-12).all()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"sequences": [[1], [1]], "labels": ["a", "b"]}, "rows 0 and 1 are the same"),
        ({"sequences": [[1, 2], [2, 1]], "labels": [0, 1], "positional": False}, "permutations"),
        ({"sequences": [], "labels": []}, "no sequences"),
        ({"sequences": [[1]], "labels": ["a"], "mode": "word"}, "mode"),
        ({"sequences": [[1]], "labels": ["a"], "readout": "cnn"}, "readout"),
        ({"sequences": [[1]], "labels": ["a"], "rank": 0}, "rank"),
        ({"sequences": [[1]], "labels": ["a"], "dtype": "float16"}, "dtype"),
        ({"sequences": [[1]], "labels": ["a"], "causal": True}, "mode='token'"),
        ({"sequences": [[1]], "labels": ["a"], "tokenizer": "bytes"}, "for texts"),
        ({"sequences": ["a b"], "labels": ["a"], "tokenizer": "nothing.json"}, "nothing.json"),
        ({"sequences": [{2, 1}, [3]], "labels": [0, 1]}, "whose tokens have no order"),
        ({"sequences": [{1: 2}, [3]], "labels": [0, 1]}, "whose tokens have no order"),
        ({"sequences": [[1], [2]], "labels": [10**400, 1], "label_kind": "values"}, "too large to convert"),
        ({"sequences": [[1], [2]], "labels": [0, 1], "seed": -1}, "seed = -1"),
        ({"sequences": [[1], [2]], "labels": [0, 1], "seed": "x"}, "whole number of 0 or more"),
    ],
)
def test_bad_input_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(sw.InvalidInput, match=said):
        sw.memorize(**arguments)


def test_all_faults_are_listed_together() -> None:
    with pytest.raises(sw.InvalidInput) as caught:
        sw.memorize([["x"]], ["a"], mode="word", dtype="float16", rank=-1)
    assert len(caught.value.faults) == 4


def test_ids_that_cannot_be_told_apart_are_an_error_that_names_the_remedy() -> None:
    x = np.ones((2, 1, 3))
    x[1, 0, 2] += 1e-15
    with pytest.raises(sw.ToleranceNotReached, match="last digits"):
        sw.memorize(x, ["a", "b"])
    with pytest.raises(sw.ToleranceNotReached, match="float64"):
        sw.memorize(random(3000, np.random.default_rng(0)), list(range(3000)), readout="feedforward", dtype="float32")


# ------------------------------------------------------------------------------------------------------- updates


@pytest.mark.parametrize("readout", ["attention", "feedforward"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_add_remove_relabel(readout: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    count = 20 if readout == "feedforward" and dtype == "float32" else 2000
    rows = random(count, rng).tolist()
    labels = [f"c{i % 5}" for i in range(count)]
    built = sw.memorize(rows[: count // 2], labels[: count // 2], readout=readout, dtype=dtype, reserve=count)
    more = sw.add_sequences(built, [*rows[count // 2 :], [5000] * 3, [1] * 20], [*labels[count // 2 :], "new", "long"])
    assert more.network.stored == count + 2
    check_recall(more, [*rows, [5000] * 3, [1] * 20], [*labels, "new", "long"])
    assert built.network.stored == count // 2
    less = sw.remove_sequences(more, rows[:10])
    assert not less.network.recall(rows[:10]).known.any()
    check_recall(less, rows[10:], labels[10:])
    other = sw.relabel_sequences(less, rows[10:12], ["z", "c0"])
    check_recall(other, rows[10:], ["z", "c0", *labels[12:]])
    check_recall(less, rows[10:], labels[10:])  # what was there before has not changed


def test_updates_refuse_what_they_cannot_do() -> None:
    built = sw.memorize([[1, 2], [3]], ["a", "b"])
    with pytest.raises(sw.InvalidInput, match="relabel_sequences"):
        sw.add_sequences(built, [[1, 2]], ["c"])
    assert sw.add_sequences(built, [[1, 2]], ["a"]).network.stored == 2
    with pytest.raises(sw.InvalidInput, match="not stored"):
        sw.remove_sequences(built, [[9, 9]])
    with pytest.raises(sw.InvalidInput, match="not stored"):
        sw.relabel_sequences(built, [[2, 1]], ["a"])
    with pytest.raises(sw.InvalidInput, match="nothing would be left"):
        sw.remove_sequences(built, [[1, 2], [3]])


def test_texts_can_be_added_and_the_old_memory_stays() -> None:
    built = sw.memorize(["new york", "york new"], ["a", "b"])
    more = sw.add_sequences(built, ["a yellow taxi"], ["c"])
    assert more.network.recall("a yellow taxi").labels == ["c"]
    assert built.network.recall("a yellow taxi", unknown="abstain").labels == [None]


# --------------------------------------------------------------------------------------------------------- files


def test_files_give_back_every_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    rows = random(3000, rng)
    built = sw.memorize(rows, rng.integers(0, 9, 3000).tolist(), dtype="float32")
    built.save(tmp_path / "m.safetensors")
    sw.save_shards(built, tmp_path / "shards", rows=700)
    assert len(list((tmp_path / "shards").glob("keys-*"))) == 5
    for again in (sw.load(tmp_path / "m.safetensors"), sw.load_shards(tmp_path / "shards")):
        ours, theirs = tensors_of(built.network), tensors_of(again.network)
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
        assert again.certificate == built.certificate
        check_recall(again, rows, list(built.network.recall(rows).labels))


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    built = sw.memorize([[1, 2], [3]], ["a", "b"])
    path = tmp_path / "m.safetensors"
    built.save(path)
    data = path.read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(data[:-20])
    (tmp_path / "text.safetensors").write_text("hello")
    for name in ("cut", "text", "missing"):
        with pytest.raises(sw.FileFormatError):
            sw.load(tmp_path / f"{name}.safetensors")
    content = read_model(path)
    for name in ("readout.keys", "head.W_V"):
        write_model(
            tmp_path / "odd.safetensors", {k: v for k, v in content.tensors.items() if k != name}, content.sections
        )
        with pytest.raises(sw.FileFormatError):
            sw.load(tmp_path / "odd.safetensors")
    tensors = dict(content.tensors)
    tensors["readout.values"] = tensors["readout.values"] + 5  # classes that are not there
    write_model(tmp_path / "odd.safetensors", tensors, content.sections)
    with pytest.raises(sw.FileFormatError):
        sw.load(tmp_path / "odd.safetensors")
    sw.save_shards(built, tmp_path / "s", rows=1)
    shard = tmp_path / "s" / "keys-00001.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(sw.FileFormatError, match="cut short"):
        sw.load_shards(tmp_path / "s")
    shard.unlink()
    with pytest.raises(sw.FileFormatError, match="missing"):
        sw.load_shards(tmp_path / "s")
    with pytest.raises(sw.FileFormatError, match="not a folder"):
        sw.load_shards(tmp_path)
    with pytest.raises(sw.FileFormatError, match="exists already"):
        sw.save_shards(built, tmp_path / "s")


def test_a_changed_weight_voids_the_certificate(tmp_path: Path) -> None:
    built = sw.memorize([[1, 2], [3]], ["a", "b"])
    path = tmp_path / "m.safetensors"
    built.save(path)
    content = read_model(path)
    content.tensors["readout.keys"][0, 0] += 1e-3
    write_model(path, content.tensors, content.sections)
    with pytest.warns(UserWarning, match="certificate is dropped"):
        assert sw.load(path).certificate is None


def test_a_killed_build_leaves_no_file(tmp_path: Path) -> None:
    rows = "\n".join(f"w{i} w{i * 7 % 1000} w{i * 13 % 999},l{i % 9}" for i in range(60_000))
    (tmp_path / "d.csv").write_text("text,label\n" + rows)
    command = [sys.executable, "-m", "softwright", "memorize", "d.csv", "--text", "text", "--label", "label"]
    process = subprocess.Popen([*command, "-o", "m.safetensors"], cwd=tmp_path, stdout=subprocess.DEVNULL)
    time.sleep(1.0)
    process.kill()
    process.wait()
    assert not (tmp_path / "m.safetensors").exists() or sw.load(tmp_path / "m.safetensors").network.stored == 60_000


# --------------------------------------------------------------------------------------------------- certificate


def test_the_certificate_says_what_it_rests_on() -> None:
    built = sw.memorize([[1, 2], [3], [2, 1]], ["a", "b", "a"])
    said = json.loads(json.dumps(built.certificate.flat()))
    quantities = said["quantities"]
    assert quantities["items"] == 3
    assert quantities["gap"] > 2 * quantities["radius"] > 0
    assert quantities["off_mass"] < 1e-300
    head = built.network.head
    assert quantities["paper_parameters"] == paper_parameters(1, head.W_Q.shape[1], 2, 3)
    assert paper_parameters(1, 4, 2, 3) == 4 * (1 + 4) + 4 * (2 * 2 * 3 + 4)


def test_no_certificate_where_a_number_does_not_hold() -> None:
    for readout in ("attention", "feedforward"):
        built = sw.memorize([[1, 2], [3], [2, 1]], ["a", "b", "a"], readout=readout)
        network = built.network
        assert certify_memory(network, built.target, 0.0)[0] is not None
        assert certify_memory(network, built.target, 0.6)[0] is None
        network.gap.fill_(1e-20)
        assert certify_memory(network, built.target, 0.0)[0] is None
    network: Any = sw.memorize([[1, 2], [3]], ["a", "b"]).network
    for spoil in (
        lambda: network.readout.beta.mul_(2),
        lambda: network.readout.beta.mul_(2.0**-41),
        lambda: network.readout.halves.add_(0.5),
        lambda: network.radii.mul_(0.5),
        lambda: network.head.W_O.mul_(2),
        lambda: network.head.reach.mul_(0.5),
    ):
        state = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        spoil()
        assert certify_memory(network, {}, 0.0)[0] is None
        network.load_state_dict(state)
    relus: Any = sw.memorize([[1, 2], [3]], ["a", "b"], readout="feedforward").network
    relus.readout.offsets.add_(0.6 * relus.readout.slopes)
    assert certify_memory(relus, {}, 0.0)[0] is None


def test_the_figure(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = random(100, np.random.default_rng(0))
    for readout in ("attention", "feedforward"):
        sw.memorize(rows, list(range(100)), readout=readout).plot(tmp_path / f"{readout}.png")
        assert (tmp_path / f"{readout}.png").stat().st_size > 10_000
    sw.memorize(rows, np.linspace(0, 1, 100), rank=3).plot()
    with pytest.raises(sw.InvalidInput, match="change the ending"):
        sw.memorize([[1], [2]], [1, 2]).plot(tmp_path / "x.txt")


def test_what_python_takes_for_equal_stays_apart(tmp_path: Path) -> None:
    labels = [1, True, 1.0, 0, False, "1", None]
    rows = [[i, i + 1] for i in range(len(labels))]
    built = sw.memorize(rows, labels)
    built.save(tmp_path / "m.safetensors")
    for network in (built.network, sw.load(tmp_path / "m.safetensors").network):
        assert [(type(x), x) for x in network.recall(rows).labels] == [(type(x), x) for x in labels]
    more = sw.add_sequences(built, [[90], [91]], [0.0, True])
    assert [repr(x) for x in more.network.recall([[90], [91], rows[0]]).labels] == ["0.0", "True", "1"]


def test_tokens_beyond_64_bits_are_refused_and_large_labels_too() -> None:
    with pytest.raises(sw.InvalidInput, match="below 2\\^63"):
        sw.memorize(np.array([[2**64 - 1, 3]], dtype=np.uint64), ["a"])
    assert sw.memorize(np.array([[2**63 - 1, 3]], dtype=np.uint64), ["a"]).network.recall([[2**63 - 1, 3]]).known.all()
    rows = [np.array([1, 2], dtype=np.uint64), np.array([3], dtype=np.uint64)]
    assert sw.memorize(rows, ["a", "b"]).network.recall([[3], [1, 2]]).labels == ["b", "a"]
    for vectors in (np.array([[[2**53 + 2]], [[2**53 + 1]]]), [np.array([[-(2**60)]]), np.array([[1]])]):
        with pytest.raises(sw.InvalidInput, match=r"whole numbers beyond 2\^53"):
            sw.memorize(vectors, ["a", "b"])
    with pytest.raises(sw.InvalidInput, match="float64 holds sums of labels"):
        sw.memorize([[1], [2]], [1e308, -1e308])


@pytest.mark.parametrize(
    ("sequences", "labels"),
    [
        ([[2**63 - 1, 0], [-(2**63), 0], [0, 0]], ["a", "b", "c"]),  # tokens whose differences leave 64 bits
        ([[1], [2], [3]], [5e-324, 0.0, 1e-310]),  # labels whose error bounds underflow
    ],
)
def test_the_ends_of_the_number_ranges_are_verified(sequences: Any, labels: Any, tmp_path: Path) -> None:
    built = sw.memorize(sequences, labels, progress=False)
    built.save(tmp_path / "memory.safetensors")
    verdict = sw.verify(tmp_path / "memory.safetensors")
    assert verdict.verified, verdict.reason
    assert list(built.network.recall(sequences).labels) == labels
