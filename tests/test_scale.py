"""Pieces of work by processes and by a Dask cluster: all of them, each with its item, errors handed over."""

from __future__ import annotations

import json
import math
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import softwright as sw
from softwright.cli import app
from softwright.records import Record
from softwright.scale import completed, crew


def test_processes_hand_over_results_and_errors() -> None:
    done = {one.item: one for one in completed(math.sqrt, [4.0, -1.0, 9.0], workers=2)}
    assert done[4.0].result == 2.0
    assert done[9.0].result == 3.0
    assert isinstance(done[-1.0].error, ValueError)


def killed_once(folder: str, item: int) -> int:
    """The double of a number, by a process that is killed at 3 when it sees it for the first time."""
    mark = Path(folder) / "killed"
    if item == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * item


def deadly(_: None, item: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return item


def test_a_process_that_is_killed_costs_its_piece_alone(tmp_path: Path) -> None:
    with crew(workers=2, record=Record(tmp_path / "record", {})) as hands:
        assert list(hands.each(killed_once, str(tmp_path), range(8))) == [0, 2, 4, 6, 8, 10, 12, 14]
    assert (tmp_path / "killed").exists()
    with crew(record=Record(tmp_path / "record", {})) as hands:  # in this process, which would die of it
        assert list(hands.each(deadly, None, [])) == []
        assert list(hands.each(killed_once, str(tmp_path), range(8)))[3] == 6
        assert hands.record is not None and hands.record.kept == 8


def test_a_piece_that_kills_every_worker_is_given_up() -> None:
    with crew(workers=1) as hands, pytest.raises(RuntimeError, match="lost 4 times at one piece"):
        list(hands.each(deadly, None, [1]))


_CHURN = """
import resource
import sys
from contextlib import nullcontext
from softwright.scale import _memory_kept
with _memory_kept() if sys.argv[1] == "kept" else nullcontext():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(300):
        bytearray(2**20)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="what Dask sets is for glibc")
def test_workers_of_a_nanny_do_not_clear_pages_all_the_time() -> None:
    faults = {}
    for name in ("kept", "given back"):
        place = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
        run = subprocess.run(
            [sys.executable, "-c", _CHURN, name], env=place, capture_output=True, text=True, check=True
        )
        faults[name] = int(run.stdout)
    assert faults["given back"] > 50_000 and faults["kept"] < 5_000


_ANY_DISK = pytest.mark.filterwarnings("ignore:Creating scratch directories")  # Dask's word on a busy disk, no fault


def test_faults_are_named_together() -> None:
    with pytest.raises(sw.InvalidInput, match="2 faults"):
        completed(math.sqrt, [1.0], cluster="tcp://127.0.0.1:1", workers=0)


@_ANY_DISK
def test_a_local_dask_cluster_builds_models_of_the_zoo(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="distributed is not installed: make test-extras does it")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
    ):
        address = cluster.scheduler_address
        asked = ["zoo", "build", "sigmoid", "--cluster", address, "-o", str(tmp_path), "--json"]
        found = CliRunner().invoke(app, asked)
        assert found.exit_code == 0, found.output
        assert json.loads(found.stdout) == {"ok": True, "built": 1, "failed": []}
    assert (tmp_path / "sigmoid.safetensors").is_file()


@_ANY_DISK
def test_a_local_dask_cluster_proves_and_verifies(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="distributed is not installed: make test-extras does it")
    text, claim = "sin(3*x)*exp(-y**2)*cos(2*x*y)", ["--bound", "2e-3", "--order", "2"]
    built = sw.approximate(text, {"x": (-1, 1), "y": (-1, 1)}, tol=1e-3, strategy="grid", certify=False)
    file, proved = tmp_path / "network.safetensors", tmp_path / "proved.safetensors"
    built.save(file)
    serial = sw.certify(built.network, text, bound=2e-3, order=2)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        there = ["--cluster", cluster.scheduler_address]
        asked = [
            "certify",
            str(file),
            *claim,
            *there,
            "--resume",
            str(tmp_path / "record"),
            "-o",
            str(proved),
            "--json",
        ]
        found = CliRunner().invoke(app, asked)
        assert found.exit_code == 0, found.output
        assert json.loads(found.stdout)["boxes"] == serial.boxes
        checked = CliRunner().invoke(app, ["verify", str(proved), *there, "--json"])
        assert json.loads(checked.stdout)["status"] == "VERIFIED", checked.output
    certificate = sw.load(proved).certificate
    assert serial.certificate is not None and certificate.tree == serial.certificate.tree
