"""Hostile requests to a studio of one's own: python benchmarks/studio_attack.py [--requests 5000] [--seed 0]

Traversal, foreign hosts, other sites, broken HTTP, oversized and malformed bodies, script in names and formulas, and
files that are no networks; some of them are taken as jobs and must fail in their worker. Counted: answers by status,
whatever is a fault of the server (5xx but 503, a traceback, a process too many, a file outside its folder), and whether
it still works at the end. It attacks 127.0.0.1 alone, the server that it has started itself.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from studio_server import Client, Server

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>"
PATHS = (
    "..",
    "%2e%2e",
    "..%2f..%2fetc%2fpasswd",
    "%00",
    "a" * 3000,
    "{id}",
    SCRIPT,
    "\u202e",
    "job.json",
    ".",
    "~root",
    "C:\\x",
)
FORMULAS = (
    "__import__('os').system('touch {canary}')",
    "(lambda: open('{canary}', 'w'))()",
    "x.__class__.__mro__[1].__subclasses__()",
    SCRIPT,
    "9**9**9**9**9",
    "(" * 5000 + "x" + ")" * 5000,
    "+".join(["sin(x)"] * 2000),
    "x" * 19_000,
    "\x00x",
    "1e999*x",
    "eval('1')",
    "{x}",
    "sin(x)\n</script>",
    "${{7*7}}",
    "exp(exp(exp(exp(x))))",
)
MOST_JOBS = 120


class Attack:
    def __init__(self, server: Server, seed: int, canary: Path) -> None:
        self.server, self.random, self.canary = server, random.Random(seed), canary  # noqa: S311, not for secrets
        self.user, self.other = Client(server.port), Client(server.port)
        self.statuses: Counter[str] = Counter()
        self.faults: list[str] = []
        self.jobs = 0
        self.victim = self.other.post(
            "/jobs", {"what": "approximate", "formula": "sin(x)", "domain": "x=-1:1", "tol": 1e-2}
        )[1]["id"]
        self.kinds: list[Callable[[], Any]] = [
            self.traversal, self.foreign_host, self.cross_site, self.broken_http, self.oversized, self.malformed,
            self.someone_elses, self.hostile_formula, self.hostile_file, self.bad_cookie,
        ]  # fmt: skip

    def run(self, requests: int) -> None:
        for number in range(requests):
            kind = self.kinds[number % len(self.kinds)]
            try:
                status = kind()
            except (OSError, ValueError) as error:  # refused connections and answers that are no HTTP
                status = type(error).__name__
            self.statuses[f"{kind.__name__} {status}"] += 1
            if str(status).startswith("5") and status != 503:
                self.faults.append(f"{kind.__name__}: {status}")
            if number % 250 == 0:
                if not self.server.alive:
                    self.faults.append("the server is gone")
                    return
                if len(self.server.workers()) > 2:
                    self.faults.append("more workers than there may be")

    def _bytes(self, most: int) -> bytes:
        return self.random.randbytes(self.random.randrange(most))

    def traversal(self) -> int:
        parts = [self.random.choice(PATHS) for _ in range(self.random.randrange(1, 6))]
        start = self.random.choice(["/", "/jobs/", f"/jobs/{self.victim}/files/", "/studio.js/", "//"])
        path = (start + "/".join(parts)).encode("ascii", "backslashreplace").decode().replace(" ", "%20")
        status, _, body = self.user.raw("GET", path.replace("\x00", "%00"))
        if b"root:" in body or b"Traceback" in body:
            self.faults.append(f"{path[:80]}: {body[:80]!r}")
        return status

    def foreign_host(self) -> int:
        host = self.random.choice(
            ["evil.example", "127.0.0.1.evil.example", "localhost:1", "", "127.0.0.1", "[::1]:99999", SCRIPT]
        )
        status, _, _ = self.user.raw("GET", self.random.choice(["/", "/jobs"]), headers={"host": host})
        return self._refused("foreign host", status)

    def cross_site(self) -> int:
        origin = self.random.choice(
            ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost", "file://"]
        )
        kind = self.random.choice(["application/json", "text/plain", "multipart/form-data; boundary=x"])
        headers = {
            "origin": origin,
            "content-type": kind,
            "sec-fetch-site": self.random.choice(["cross-site", "same-site"]),
        }
        body = json.dumps({"what": "approximate", "formula": "x", "domain": "x=0:1"}).encode()
        status, got, _ = self.user.raw(
            "POST", self.random.choice(["/jobs", f"/jobs/{self.victim}/stop", "/uploads?name=a.csv"]), body, headers
        )
        if "access-control-allow-origin" in got:
            self.faults.append("a CORS header")
        return self._refused("cross site", status)

    def _refused(self, what: str, status: int) -> int:
        if status < 400:
            self.faults.append(f"{what} was answered with {status}")
        return status

    def broken_http(self) -> str:
        lines = [
            b"GET / HTTP/9.9\r\n\r\n", b"POST /jobs HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
            b"\x16\x03\x01" + self._bytes(200), b"GET " + b"/" * 70_000 + b" HTTP/1.1\r\n\r\n",
            b"POST /jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n", self._bytes(2000) + b"\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil\r\n\r\n", b"CONNECT evil:80 HTTP/1.1\r\n\r\n",
        ]  # fmt: skip
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=5) as link:
            link.settimeout(3)
            link.sendall(self.random.choice(lines))
            answer = link.recv(200)
        return answer[:12].decode("latin-1") or "closed"

    def oversized(self) -> int:
        path, size = self.random.choice([("/jobs", 200_000), ("/uploads?name=a.csv", 0), ("/jobs", 66_000)])
        headers = {"content-type": "application/json"}
        if not size:
            headers["content-length"] = str(self.random.choice([10**9, 10**30]))
        status, _, _ = self.user.raw("POST", path, b"[" * (size or 10), headers)
        return self._refused("too large", status)

    def malformed(self) -> int:
        bodies = [
            b"{", b"[" * 60_000, b"null", b'{"what": {}}', b'{"what": "approximate", "tol": NaN}', b"\xff\xfe",
            self._bytes(3000), b'{"what": "approximate", "formula": 5}', b'{"__proto__": 1}',
            b'{"what": "make", "entries": {"name": "../../x"}}',
            json.dumps({"what": "approximate", "formula": "x", "domain": "x=0:1", "strategy": SCRIPT}).encode(),
            b'{"what": "verify", "file": "../../../etc/passwd"}', b'{"what": "in_context", "features": 1e18}',
        ]  # fmt: skip
        status, _, _ = self.user.raw("POST", "/jobs", self.random.choice(bodies), {"content-type": "application/json"})
        return self._refused("malformed", status)

    def someone_elses(self) -> int:
        path = self.random.choice(["", "/page", "/files/network.safetensors", "/files/job.json"])
        status, _, _ = self.user.raw("GET", f"/jobs/{self.victim}{path}")
        return self._refused("someone else's job", status)

    def hostile_formula(self) -> int:
        if self.jobs >= MOST_JOBS:
            return self.malformed()
        formula = self.random.choice(FORMULAS).replace("{canary}", str(self.canary))
        self.jobs += 1
        domain = self.random.choice(["x=-1:1", "x=0:9**9**9", SCRIPT, "x=1:0", "x=nan:inf"])
        return self.user.post("/jobs", {"what": "approximate", "formula": formula, "domain": domain, "tol": 1e-3})[0]

    def hostile_file(self) -> int:
        ending = self.random.choice([".csv", ".npz", ".parquet", ".jsonl", ".onnx", ".safetensors", ".exe", ".html"])
        name = self.random.choice(["a", "../../x", SCRIPT, "%2e%2e%2fx"]) + ending
        content = (
            self.random.choice(
                [
                    self._bytes(5000),
                    b"x,z\n" + b"1,2\n" * 50,
                    (2**62).to_bytes(8, "little") + b"{" * 50,
                    b"PK\x03\x04" + self._bytes(500),
                ]
            )
            or b"x"
        )
        from urllib.parse import quote

        status, answer = self.user.send(quote(name), content)
        if status == 201 and self.jobs < MOST_JOBS:
            self.jobs += 1
            what = {
                ".csv": "table",
                ".npz": "table",
                ".parquet": "table",
                ".jsonl": "memorize",
                ".onnx": "transpile",
            }.get(ending, "verify")
            more = {"inputs": "x", "outputs": "z"} if what == "table" else {}
            return self.user.post("/jobs", {"what": what, "file": answer["id"], **more})[0]
        return status

    def bad_cookie(self) -> int:
        cookie = self.random.choice(
            ["softwright_user=x", "softwright_user=" + "a" * 5000, "=;;;", SCRIPT, "softwright_user=../../x"]
        )
        link = Client.__new__(Client)
        link.port, link.cookie = self.server.port, cookie
        return self._refused("bad cookie", link.raw("GET", "/jobs")[0])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--requests", type=int, default=5000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as outside:
        folder, canary = Path(outside) / "studio", Path(outside) / "canary"
        server = Server(folder, workers=2, seconds=20, memory=512)
        try:
            attack = Attack(server, given.seed, canary)
            attack.run(given.requests)
            _judge(server, attack, Path(outside), canary)
        finally:
            server.close()


def _judge(server: Server, attack: Attack, outside: Path, canary: Path) -> None:
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline and set(attack.user.finished()) & {"queued", "running"}:
        time.sleep(0.5)
    jobs = [attack.user.get(f"/jobs/{job['id']}") for job in attack.user.get("/jobs")["jobs"]]
    attack.faults += [f"a traceback: {job['error'][:200]}" for job in jobs if "Traceback" in job["error"]]
    if canary.exists() or [path.name for path in outside.iterdir()] != ["studio"]:
        attack.faults.append("a file outside the studio's folder")
    status, made = attack.other.post(
        "/jobs", {"what": "approximate", "formula": "cos(x)", "domain": "x=-1:1", "tol": 1e-2}
    )
    while status == 201 and attack.other.get(f"/jobs/{made['id']}")["state"] in ("queued", "running"):
        time.sleep(0.2)
    works = status == 201 and attack.other.get(f"/jobs/{made['id']}")["state"] == "done"
    for line, count in sorted(attack.statuses.items()):
        print(f"{count:6}  {line}")
    print(f"{len(jobs)} hostile jobs: {dict(Counter(job['state'] for job in jobs))}")
    for job in jobs:
        if job["state"] == "done":
            print(f"  done: {job['title'][:70]!r} {job['kind'] or job['result'].get('verdict')}")
    total, held = sum(attack.statuses.values()), server.memory() / 2**20
    print(f"{total} requests, {len(attack.faults)} faults, still works: {works}, {held:.0f} MB")
    for fault in attack.faults[:20]:
        print(f"  FAULT {fault}")


if __name__ == "__main__":
    main()
