"""Proofs in sub-boxes: the tree, the bound and the verdict of the serial search, whoever works and however often it
was stopped; and the same for `verify`, which is cut into pieces of the tree."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import softwright as sw
from softwright.checker import parts
from softwright.checker.refusal import NotProvedError
from softwright.proof.prover import certify
from softwright.proof.question import Certification, pose
from softwright.proof.search import units
from softwright.proof.search.preorder import open_boxes
from softwright.proof.search.unit_bytes import packed, unpacked
from softwright.records import Record
from softwright.result.built import Built
from softwright.scale import crew

TEXT = "sin(3*x)*exp(-y**2)*cos(2*x*y)"
CLAIM: dict[str, Any] = {"bound": 2e-3, "order": 2}


@pytest.fixture(scope="module")
def built() -> Built[Any]:
    return sw.approximate(TEXT, {"x": (-1, 1), "y": (-1, 1)}, tol=1e-3, strategy="grid", certify=False)


@pytest.fixture(scope="module")
def serial(built: Built[Any]) -> Certification:
    return certify(built.network, TEXT, **CLAIM)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of few boxes, so that a small proof has many."""
    monkeypatch.setattr(units, "_LONGEST", 64)
    monkeypatch.setattr(units, "_SHORTEST", 64)


def tree_of(found: Certification) -> Any:
    proved = found.certificate or found.weaker
    return None if proved is None else proved.tree


@pytest.mark.usefixtures("short")
def test_units_find_the_tree_of_the_serial_search(built: Built[Any], serial: Certification, tmp_path: Path) -> None:
    told: list[str] = []
    alone = certify(built.network, TEXT, resume=tmp_path, progress=told.append, **CLAIM)
    with ThreadPoolExecutor(3) as pool:
        by_threads = certify(built.network, TEXT, executor=pool, **CLAIM)
    for found in (alone, by_threads):
        assert found.proved and tree_of(found) == tree_of(serial) and found.bound == serial.bound
        assert (found.boxes, found.evaluations, found.lower) == (serial.boxes, serial.evaluations, serial.lower)
        assert np.all(found.leaf_upper >= serial.leaf_upper)
        assert np.allclose(found.leaf_upper, serial.leaf_upper, rtol=1e-6, atol=0.0)
    assert len(told) > 5 and any("1 at work, about" in line for line in told)
    assert told[-1].startswith(f"proving: 100% of the box proved in {serial.boxes} boxes")


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("question", [{"tightness": 0.5, "order": 3}, {"bound": 1e-5, "order": 4}])
def test_smallest_bounds_and_refutations_are_the_serial_ones(built: Built[Any], question: Any, tmp_path: Path) -> None:
    one, other = certify(built.network, TEXT, **question), certify(built.network, TEXT, resume=tmp_path, **question)
    assert (one.status, one.lower, one.witness) == (other.status, other.lower, other.witness)
    assert tree_of(one) == tree_of(other) and one.bound == pytest.approx(other.bound, rel=1e-6)


@pytest.mark.usefixtures("short")
def test_sums_are_proved_group_by_group(tmp_path: Path) -> None:
    text = "sin(2*x) + exp(y)"
    network = sw.approximate(text, {"x": (-1, 1), "y": (-1, 1)}, tol=1e-4, strategy="sum", certify=False).network
    one = certify(network, text, bound=2e-4, order=2)
    other = certify(network, text, bound=2e-4, order=2, resume=tmp_path)
    again = certify(network, text, bound=2e-4, order=2, resume=tmp_path)
    assert one.proved and tree_of(one) == tree_of(other) == tree_of(again)


@pytest.mark.usefixtures("short")
def test_a_stopped_proof_goes_on(
    built: Built[Any], serial: Certification, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, prove_unit = [0], units.prove_unit

    def counted(task: units.Task, item: Any) -> bytes:
        done[0] += 1
        return prove_unit(task, item)

    def stop(_: str) -> None:
        if done[0] == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(units, "prove_unit", counted)
    cut = certify(built.network, TEXT, resume=tmp_path, progress=stop, **CLAIM)
    assert cut.status == "undecided" and cut.reason == "interrupted"
    first = done[0]
    found = certify(built.network, TEXT, resume=tmp_path, **CLAIM)
    pieces = len(list(tmp_path.glob("??/*.piece")))
    assert tree_of(found) == tree_of(serial) and 5 <= first < pieces and done[0] == pieces  # nothing was done twice
    again = certify(built.network, TEXT, resume=tmp_path, **CLAIM)
    assert tree_of(again) == tree_of(serial) and done[0] == pieces
    with pytest.raises(sw.InvalidInput, match="claim"):
        certify(built.network, TEXT, resume=tmp_path, bound=3e-3, order=2)
    other = sw.AttentionNetwork([sw.Head(np.zeros((1, 2)), np.zeros(1), np.zeros((1, 1)))], built.network.box)
    with pytest.raises(sw.InvalidInput, match="weights"):
        certify(other, TEXT, resume=tmp_path, **CLAIM)


@pytest.mark.usefixtures("short")
def test_a_budget_that_is_spent_leaves_what_is_known(built: Built[Any], tmp_path: Path) -> None:
    found = certify(built.network, TEXT, resume=tmp_path, max_boxes=300, **CLAIM)
    assert found.status == "undecided" and "max_boxes" in found.reason and found.weaker is not None
    assert found.lower <= found.proved_bound < 1.0
    found = certify(built.network, TEXT, resume=tmp_path, **CLAIM)
    assert found.proved


def unit(built: Built[Any]) -> tuple[bytes, np.ndarray, np.ndarray]:
    """What a worker returns of three boxes, and the boxes."""
    residual = pose(built.network, TEXT, None, "sdpa", 2).residual
    task = units.Task(residual, (np.full(2, -1.0), np.full(2, 1.0)), units.Goal(2e-3, 1e-6), 0.0, 1000, 1e9)
    index, level = np.array([[0, 0], [1, 0], [1, 1]]), np.ones((3, 2), dtype=np.int64)
    return units.prove_unit(task, (index, level)), index, level


def test_bytes_that_are_no_trees_of_their_boxes_are_not_taken(built: Built[Any]) -> None:
    content, index, level = unit(built)
    found = unpacked(content, index, level)
    assert found is not None and len(found.index) > 0 and unpacked(packed(found), index, level) is not None
    leaf, split = found.tree.index(255), found.tree.index(0)
    wrong = [
        replace(found, tree=found.tree[:-1] + b"\x00"),
        replace(found, tree=found.tree + b"\xff"),
        replace(found, tree=found.tree.replace(b"\xfe", b"\xff", 1)),  # an open box that is said to be proved
        replace(found, tree=found.tree[:leaf] + b"\x07" + found.tree[leaf + 1 :]),
        replace(found, tree=found.tree[:split] + b"\x01" + found.tree[split + 1 :]),
        replace(found, ends=found.ends[::-1].copy()),
        replace(found, index=found.index[::-1].copy()),
        replace(found, level=found.level + 1),
        replace(found, exact=float("nan")),
        replace(found, exact=2 * found.exact),
        replace(found, rounding=-1.0),
        replace(found, known=np.full_like(found.known, np.nan)),
        replace(found, upper=found.upper[:-1]),
    ]
    assert [unpacked(packed(one), index, level) for one in wrong] == [None] * len(wrong)
    for damaged in (b"", b"{}", content[:-1], content[: len(content) // 2], b"[]\n" + content, content + b"x"):
        assert unpacked(damaged, index, level) is None
    assert unpacked(content, index[:2], level[:2]) is None
    assert unpacked(content, index[:, :1], level[:, :1]) is None


@st.composite
def trees(draw: st.DrawFn) -> bytes:
    """A complete tree in three variables."""
    out, owed = bytearray(), 1
    for node in draw(st.lists(st.sampled_from([0, 1, 2, 255]), max_size=400)):
        if owed == 0:
            break
        out.append(node)
        owed += -1 if node == 255 else 1
    return bytes(out) + b"\xff" * owed


@given(trees(), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_the_pieces_of_a_tree_are_the_tree(tree: bytes, most: int) -> None:
    found = list(parts.cut(tree, 3, most))
    assert all(below.count(255) <= most for _, below in found)
    ways = [tuple(map(tuple, way)) for way, _ in found]
    assert len(set(ways)) == len(ways)

    def rebuilt(way: tuple[tuple[int, int], ...]) -> bytes:
        for one, below in zip(ways, found, strict=True):
            if one == way:
                return below[1]
        node = next(one[len(way)][0] for one in ways if one[: len(way)] == way)
        return bytes([node]) + rebuilt((*way, (node, 0))) + rebuilt((*way, (node, 1)))

    assert rebuilt(()) == tree


@given(trees(), st.data())
@settings(max_examples=40, deadline=None)
def test_trees_that_are_open_in_places_are_read_as_by_a_stack(tree: bytes, data: st.DataObject) -> None:
    leaves = [place for place, node in enumerate(tree) if node == 255]
    chosen = data.draw(st.sets(st.sampled_from(leaves), max_size=8))
    marked = bytes(254 if place in chosen else node for place, node in enumerate(tree)) * 2  # two roots
    ends, index, level = np.array([len(tree), 2 * len(tree)]), np.array([[0, 0, 0], [1, 0, 3]]), np.full((2, 3), 2)
    pending, boxes = [(index[k].tolist(), level[k].tolist()) for k in (1, 0)], []
    for node in marked:
        here, deep = pending.pop()
        if node < 3:
            sides = [[2 * x + side if i == node else x for i, x in enumerate(here)] for side in (1, 0)]
            pending += [(side, [x + (i == node) for i, x in enumerate(deep)]) for side in sides]
        elif node == 254:
            boxes.append((here, deep))
    found = open_boxes(marked, ends, index, level)
    assert found is not None and list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == boxes
    assert open_boxes(marked[:-1], ends, index, level) is None
    assert open_boxes(marked, ends + np.array([1, 0]), index, level) is None


@pytest.mark.parametrize("tree", [b"", b"\x00\xff", b"\xff\xff", b"\x00\xff\xff\xff", b"\x03\xff\xff", b"\xfe"])
def test_what_is_no_tree_is_not_cut(tree: bytes) -> None:
    with pytest.raises(NotProvedError):
        list(parts.cut(tree, 3, 10))


def test_verify_in_pieces_says_what_verify_says(
    built: Built[Any], serial: Certification, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "PIECE", 8)
    found = certify(built.network, TEXT, bound=2e-3, order=6)
    true, false = tmp_path / "true.safetensors", tmp_path / "false.safetensors"
    replace(built, certificate=found.certificate).save(true)
    proved = found.certificate
    assert proved is not None and proved.boxes > 24
    lie = replace(proved, bound=1e-5, exact_part=9e-6, rounding_part=9e-7, lower=0.0, witness=())
    replace(built, certificate=lie).save(false)
    record = Record(tmp_path / "record", {"file": "true"})
    with crew(record=record) as hands, ThreadPoolExecutor(2) as pool:
        for path, status in ((true, "VERIFIED"), (false, "NOT VERIFIED")):
            alone, in_pieces = sw.verify(path), sw.verify(path, executor=pool)
            assert alone.status == in_pieces.status == status
            assert status == "NOT VERIFIED" or alone.boxes == in_pieces.boxes
        assert sw.verify(true, executor=hands).verified and record.kept == 0
        again = sw.verify(true, executor=hands)
        assert again.verified and again.boxes == proved.boxes and record.kept > 2
    late = sw.verify(true, executor=hands, max_seconds=0.0)
    assert late.status == "NOT VERIFIED" and "undecided" in late.reason


def test_a_helper_that_leaves_pieces_out_proves_nothing(
    built: Built[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lazy:
        def each(self, function: Any, shared: Any, items: Any) -> Iterator[Any]:
            return iter([(1, "", False)] * (len(items) - 1))

    monkeypatch.setattr(parts, "PIECE", 8)
    found = certify(built.network, TEXT, bound=2e-3, order=6)
    path = tmp_path / "network.safetensors"
    replace(built, certificate=found.certificate).save(path)
    assert "pieces were answered for" in sw.verify(path, executor=Lazy()).reason
