"""The studio over HTTP: jobs are built under limits, kept, and nobody else's; foreign requests are refused."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import softwright as sw
from softwright.errors import InvalidInput
from softwright.studio.asked import ASKED, read_request
from softwright.studio.limits import Limits
from softwright.studio.serve import hosts_of, is_loopback, serve
from softwright.studio.store import Job, Store

pytest.importorskip("starlette", reason="no starlette: pip install 'softwright[studio]'")
from starlette.testclient import TestClient

from softwright.studio.app import Studio

SECRET = "secret-token"
URL = "http://127.0.0.1:8377"
QUICK = {"what": "approximate", "formula": "sin(3*x)", "domain": "x=-1:pi/2", "tol": 1e-3}
SLOW = {"what": "approximate", "formula": "sin(40*x*y)*exp(sin(17*x+3*y))", "domain": "x=-3:3 y=-3:3", "tol": 1e-9}


def _client(studio: Studio) -> TestClient:
    return TestClient(studio.application(hosts_of("127.0.0.1", 8377)), base_url=URL)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    made = Studio(tmp_path_factory.mktemp("studio"), Limits(workers=2, seconds=60.0, each=20))
    yield made
    made.pool.close()


@pytest.fixture
def user(studio: Studio) -> TestClient:
    client = _client(studio)
    assert client.get("/").status_code == 200
    return client


def _wait(client: TestClient, id: str, until: Callable[[dict[str, Any]], bool] | None = None) -> dict[str, Any]:
    deadline, job = time.monotonic() + 90.0, {}
    while time.monotonic() < deadline:
        job = client.get(f"/jobs/{id}").json()
        if until(job) if until else job["state"] not in ("queued", "running"):
            return job
        time.sleep(0.05)
    raise TimeoutError(job)


def _sent(client: TestClient, name: str, content: bytes) -> str:
    answer = client.post(f"/uploads?name={name}", content=content, headers={"content-type": "application/octet-stream"})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def test_the_boxes_of_a_running_proof_are_kept_and_begin_anew_with_the_next() -> None:
    job = Job("1", "u", "approximate", "x", {}, state="running")
    job.settled([[0.0, 0.5, 0.0, 1.0]], True)
    job.settled([[0.5, 1.0, 0.0, 1.0]], False)
    assert job.detail()["boxes"] == [[0.0, 0.5, 0.0, 1.0], [0.5, 1.0, 0.0, 1.0]]
    job.settled([[0.0, 1.0, 0.0, 1.0]] * 5000, True)
    assert 1 < len(job.detail()["boxes"]) < 5000
    job.state = "done"
    assert job.detail()["boxes"] == []


def test_a_formula_is_built_shown_downloaded_and_verified(user: TestClient, tmp_path: Path) -> None:
    id = user.post("/jobs", json=QUICK).json()["id"]
    job = _wait(user, id)
    assert job["state"] == "done", job
    assert job["bound"] <= 1e-3
    assert job["messages"]
    page = user.get(f"/jobs/{id}/page")
    assert "proved ≤" in page.text
    assert page.headers["content-security-policy"] == "sandbox allow-scripts"
    for name in job["files"]:
        got = user.get(f"/jobs/{id}/files/{name}")
        assert got.status_code == 200, (name, got.text)
        assert "attachment" in got.headers["content-disposition"]
        assert "sandbox" in got.headers["content-security-policy"]
    stored = user.get(f"/jobs/{id}/files/network.safetensors").content
    (tmp_path / "n.safetensors").write_bytes(stored)
    assert sw.verify(tmp_path / "n.safetensors").verified
    verified = _wait(
        user, user.post("/jobs", json={"what": "verify", "file": _sent(user, "n.safetensors", stored)}).json()["id"]
    )
    assert verified["result"]["verdict"] == "VERIFIED"
    broken = bytearray(stored)
    broken[-3] ^= 64
    refuted = _wait(
        user,
        user.post("/jobs", json={"what": "verify", "file": _sent(user, "n.safetensors", bytes(broken))}).json()["id"],
    )
    assert refuted["result"]["verdict"] == "NOT VERIFIED"


def test_tables_texts_networks_and_methods(user: TestClient, tmp_path: Path) -> None:
    import torch

    rows = "\n".join(["x,z", *(f"{i / 8},{(i / 8) ** 2}" for i in range(9))])
    texts = "\n".join(json.dumps({"text": text, "label": label}) for text, label in (("a b", "one"), ("b a", "two")))
    network = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1)).double().eval()
    sw.save_mlp(network, tmp_path / "mlp.safetensors")
    asked = [
        {"what": "table", "file": _sent(user, "t.csv", rows.encode()), "inputs": "x", "outputs": "z", "tol": 1e-3},
        {"what": "memorize", "file": _sent(user, "t.jsonl", texts.encode())},
        {"what": "transpile", "file": _sent(user, "m.safetensors", (tmp_path / "mlp.safetensors").read_bytes())},
        {"what": "in_context", "method": "ridge", "features": 1, "penalty": 0.1},
        {
            "what": "fit",
            "method": "least_squares",
            "file": _sent(user, "t.csv", rows.encode()),
            "inputs": "x",
            "target": "z",
        },
        {"what": "compile", "program": "count(s[j] == s[i])", "tokens": "length=1:8 s=ab"},
        {"what": "zoo", "model": "gelu"},
    ]
    ids = [user.post("/jobs", json=one).json()["id"] for one in asked]
    kinds = [(_wait(user, id)["state"], _wait(user, id)["kind"]) for id in ids]
    assert kinds == [
        ("done", kind)
        for kind in ("approximation", "memory", "transpiled", "in_context", "in_context", "program", "approximation")
    ]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ({"formula": "sin(x"}, "never closed"),
        ({"formula": "__import__('os').system('touch harm')"}, "formula"),
        ({"formula": "x", "domain": "x=1"}, "NAME=LOW:HIGH"),
        ({"formula": "x" * 15_000}, ""),
        ({"formula": "1/x", "domain": "x=-1:1"}, ""),
    ],
)
def test_faults_of_the_input_are_told(user: TestClient, data: dict[str, Any], fault: str) -> None:
    job = _wait(user, user.post("/jobs", json={**QUICK, **data}).json()["id"])
    assert job["state"] == "failed"
    assert fault in job["error"]
    assert "Traceback" not in job["error"]


def test_forms_are_checked_before_a_worker_sees_them(user: TestClient) -> None:
    wrong: list[Any] = [
        [],
        {"what": "rm"},
        {**QUICK, "tol": "tiny"},
        {**QUICK, "tol": True},
        {**QUICK, "dtype": "float8"},
        {**QUICK, "more": 1},
        {**QUICK, "formula": "x" * 30_000},
        {"what": "verify"},
        {"what": "verify", "file": "../../etc/passwd"},
        {"what": "in_context", "features": 2.5},
    ]
    for data in wrong:
        answer = user.post("/jobs", json=data)
        assert answer.status_code == 400, data
        assert answer.json()["error"]
    assert user.post("/jobs", content=b"{", headers={"content-type": "application/json"}).status_code == 400
    assert user.post("/jobs", content=json.dumps(QUICK)).status_code == 415


def test_a_job_is_stopped_and_a_killed_worker_costs_its_job_alone(studio: Studio, user: TestClient) -> None:
    first, second, third = (user.post("/jobs", json=one).json()["id"] for one in (SLOW, SLOW, QUICK))
    for id in (first, second):
        _wait(user, id, lambda job: job["state"] == "running" and bool(job["messages"]))
    assert user.post(f"/jobs/{first}/stop").json() == {"stopped": True}
    process = studio.pool._running[second]
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    assert _wait(user, first)["state"] == "stopped"
    killed = _wait(user, second)
    assert killed["state"] == "failed"
    assert "ended" in killed["error"]
    assert _wait(user, third)["state"] == "done"
    assert user.post(f"/jobs/{first}/stop").json() == {"stopped": False}


def test_limits_of_time_and_memory_end_a_job(tmp_path: Path) -> None:
    small = Studio(tmp_path / "time", Limits(workers=1, seconds=2.0))
    client = _client(small)
    client.get("/")
    slow = _wait(client, client.post("/jobs", json=SLOW).json()["id"])
    assert slow["state"] == "failed"
    assert "longer than" in slow["error"]
    small.pool.close()
    small = Studio(tmp_path / "memory", Limits(workers=1, seconds=60.0, memory=30 << 20))
    client = _client(small)
    client.get("/")
    rows = "\n".join(["text,label", *(f"w{i} v{i},{i}" for i in range(200_000))])
    large = _wait(
        client,
        client.post("/jobs", json={"what": "memorize", "file": _sent(client, "t.csv", rows.encode())}).json()["id"],
    )
    assert large["state"] == "failed"
    assert "memory" in large["error"]
    small.pool.close()


def test_jobs_belong_to_their_user_and_survive_a_restart(studio: Studio, user: TestClient) -> None:
    id = user.post("/jobs", json=QUICK).json()["id"]
    _wait(user, id)
    other = _client(studio)
    other.get("/")
    assert other.get("/jobs").json()["jobs"] == []
    for path in (f"/jobs/{id}", f"/jobs/{id}/page", f"/jobs/{id}/files/network.safetensors"):
        assert other.get(path).status_code == 404
    assert other.post(f"/jobs/{id}/delete").status_code == 404
    again = Store(studio.store.folder)
    found = next(job for job in again.of_user(Store.user_of(user.cookies["softwright_user"])) if job.id == id)
    assert found.state == "done"
    assert (again.folder_of(found) / "network.safetensors").is_file()
    assert user.post(f"/jobs/{id}/delete").status_code == 200
    assert user.get(f"/jobs/{id}").status_code == 404
    assert not again.folder_of(found).exists()


def test_what_was_not_finished_says_so_after_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path)
    job = store.add(Store.user_of("x" * 30), "approximate", "sin(x)", {}, "")
    again = Store(tmp_path).get(job.user, job.id)
    assert again is not None
    assert again.state == "failed"
    assert "stopped" in again.error


def test_foreign_requests_are_refused(studio: Studio, user: TestClient) -> None:
    assert user.get("/", headers={"host": "evil.example"}).status_code == 400
    assert user.get("/", headers={"host": "127.0.0.1:1"}).status_code == 400
    for headers in ({"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        assert user.post("/jobs", json=QUICK, headers=headers).status_code == 403
    assert user.post("/jobs", json=QUICK, headers={"origin": URL, "sec-fetch-site": "same-origin"}).status_code == 201
    assert user.request("DELETE", "/jobs").status_code == 405
    assert user.options("/jobs").status_code == 405
    assert user.post("/jobs", content=b" " * 70_000, headers={"content-type": "application/json"}).status_code == 413
    assert user.post("/uploads?name=a.exe", content=b"x").status_code == 400
    assert _client(studio).get("/jobs").status_code == 401
    for path in (
        "/../etc/passwd",
        "/jobs/../../x",
        "/studio.js/../app.py",
        "/jobs/x/files/..%2fjob.json",
        "/jobs//page",
    ):
        assert user.get(path).status_code in (404, 405)
    answer = user.get("/jobs")
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_queue_has_an_end(tmp_path: Path) -> None:
    small = Studio(tmp_path, Limits(workers=1, each=3))
    client = _client(small)
    client.get("/")
    codes = [client.post("/jobs", json=SLOW).status_code for _ in range(5)]
    assert codes == [201, 201, 201, 503, 503]
    small.pool.close()


def test_beyond_this_machine_a_token_is_asked_for(tmp_path: Path) -> None:
    studio = Studio(tmp_path, Limits(workers=1), token=SECRET)
    application = studio.application(hosts_of("studio.example", 80))
    client = TestClient(application, base_url="http://studio.example")  # type: ignore[arg-type]
    assert client.get("/").status_code == 401
    assert client.get("/?token=wrong").status_code == 401
    assert client.get("/studio.js?token=secret-token").status_code == 401
    assert client.get("/jobs", headers={"authorization": "Bearer wrong"}).status_code == 401
    assert client.get("/?token=secret-token").status_code == 200
    assert client.get("/jobs").status_code == 200  # the cookie
    studio.pool.close()


def test_addresses() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")  # noqa: S104
    assert not is_loopback("10.0.0.1")
    with pytest.raises(InvalidInput, match="names no address"):
        serve(Path("/nowhere"), host="0.0.0.0")  # noqa: S104


def test_every_row_of_what_can_be_asked_has_defaults_that_pass() -> None:
    for name, row in ASKED.items():
        found = read_request({"what": name, **({"file": "f" * 24} if row.files else {})})
        assert found[0] is row


def test_the_zoo_is_listed_and_its_files_are_the_stored_ones(user: TestClient) -> None:
    listed = user.get("/zoo").json()
    assert list(listed) == sw.zoo.groups()
    assert [name for rows in listed.values() for name, _ in rows] == sw.zoo.names()
    job = _wait(user, user.post("/jobs", json={"what": "zoo", "model": "gelu"}).json()["id"])
    stored = user.get(f"/jobs/{job['id']}/files/network.safetensors").content
    verified = {"what": "verify", "file": _sent(user, "gelu.safetensors", stored)}
    assert _wait(user, user.post("/jobs", json=verified).json()["id"])["result"]["verified"]
    graph = user.get(f"/jobs/{job['id']}/files/network.onnx")
    if graph.status_code == 200:
        verified = {"what": "verify", "file": _sent(user, "gelu.onnx", graph.content)}
        assert _wait(user, user.post("/jobs", json=verified).json()["id"])["result"]["verified"]
    absent = _wait(user, user.post("/jobs", json={"what": "zoo", "model": "../../etc/passwd"}).json()["id"])
    assert absent["state"] == "failed"


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_does_the_work(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="no Dask: pip install 'softwright[scale]'")
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options, protocol="tcp://") as cluster:
        made = Studio(tmp_path, Limits(workers=1, seconds=60.0), cluster=cluster.scheduler_address)
        try:
            client = _client(made)
            client.get("/")
            job = _wait(client, client.post("/jobs", json=QUICK).json()["id"])
            assert job["state"] == "done", job
            assert "proved ≤" in client.get(f"/jobs/{job['id']}/page").text
            wrong = _wait(client, client.post("/jobs", json={**QUICK, "formula": "frob(x)"}).json()["id"])
            assert wrong["state"] == "failed"
            assert "frob" in wrong["error"]
        finally:
            made.pool.close()
    with pytest.raises(InvalidInput, match="scheduler"):
        Studio(tmp_path, cluster="tcp://127.0.0.1:1")
