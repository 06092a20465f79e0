"""Pieces of work by processes and by a Dask cluster: all of them, each with its item, errors handed over."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

import softwright as sw
from softwright.cli import app
from softwright.scale import completed


def test_processes_hand_over_results_and_errors() -> None:
    done = {one.item: one for one in completed(math.sqrt, [4.0, -1.0, 9.0], workers=2)}
    assert done[4.0].result == 2.0
    assert done[9.0].result == 3.0
    assert isinstance(done[-1.0].error, ValueError)


def test_faults_are_named_together() -> None:
    with pytest.raises(sw.InvalidInput, match="2 faults"):
        completed(math.sqrt, [1.0], cluster="tcp://127.0.0.1:1", workers=0)


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
