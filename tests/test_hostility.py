"""A small run of `benchmarks/hostile.py`: hostile inputs of every kind end in our errors, and the guard sees deeds."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
KINDS = ("formulas", "arguments", "csv", "npz", "jsonl", "parquet", "onnx", "tokenizers", "models")


@pytest.fixture(scope="module")
def hostile() -> Iterator[ModuleType]:
    for package in ("onnx", "pyarrow", "tokenizers"):
        pytest.importorskip(package)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("hostile")


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_of_every_kind(hostile: ModuleType, kind: str) -> None:
    tally = hostile.attack(kind, 0, 30, seed=20)
    assert tally.inputs == sum(tally.words.values()) == 30
    assert not tally.findings, tally.findings


def test_the_kinds_are_all_there(hostile: ModuleType) -> None:
    kinds = importlib.import_module("hostility").KINDS
    assert set(kinds) == set(KINDS) and sum(share for _, share in kinds.values()) == pytest.approx(1.0)


class Runs:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.getenv, ("HOME",)


@pytest.mark.parametrize("deed", ["code", "pickle", "file", "shell", "hang"])
def test_what_is_watched_for_is_seen(
    hostile: ModuleType, deed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, mutations = (importlib.import_module(f"hostility.{name}") for name in ("guard", "mutations"))
    inside = tmp_path / "inside"
    inside.mkdir()
    watcher = guard.Guard(inside)
    monkeypatch.setattr(guard, "SECONDS", 0.2 if deed == "hang" else 10.0)
    deeds = {
        "code": lambda: exec(f"{mutations.MARK} = 1", {}),  # noqa: S102
        "pickle": lambda: pickle.loads(pickle.dumps(Runs())),  # noqa: S301
        "file": lambda: (tmp_path / "outside").write_text("."),
        "shell": lambda: os.system("true"),  # noqa: S605
    }
    if deed == "hang":
        with pytest.raises(guard.HangError), watcher.watching():
            while True:
                pass
        return
    with watcher.watching():
        (inside / "file").write_text("this is allowed")
        deeds[deed]()
    assert len(watcher.seen) == 1
    deeds[deed]()
    assert len(watcher.seen) == 1  # nobody watches any more


def test_what_a_lost_worker_told_is_kept(hostile: ModuleType) -> None:
    here, there = multiprocessing.Pipe(duplex=False)
    for message in (("alive", 0), ("found", hostile.Tally(inputs=1, hangs=["one"])), ("alive", 1)):
        there.send(message)
    there.close()
    total = hostile.Tally()
    assert hostile.listen(here, os.getpid(), total) == ("the process ended", 1)
    assert total.inputs == 1 and total.findings == ["one"]
    assert hostile.cpu_seconds(os.getpid()) > 0 == hostile.cpu_seconds(2**30)
