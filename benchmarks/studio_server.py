"""What the benchmarks of the studio share: a studio as a process of its own on this machine, and a client."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any


class Server:
    """`softwright studio` on a free port, with its history in `folder`."""

    def __init__(self, folder: Path, **options: Any) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.folder, self.options = folder, options
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        more = [text for name, value in self.options.items() for text in (f"--{name}", str(value))]
        command = [sys.executable, "-m", "softwright", "studio", "--port", str(self.port), "--folder", str(self.folder)]
        started = subprocess.Popen([*command, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                Client(self.port)
            except OSError:
                time.sleep(0.1)
            else:
                return started
        raise RuntimeError("the studio does not answer")

    def kill_and_restart(self) -> None:
        """End it without a warning, and start another on the same folder."""
        self.process.kill()
        self.process.wait()
        self.process = self._start()

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self.process.kill()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def descendants(self) -> list[int]:
        """Processes that it has started, and those that these have."""
        parents: dict[int, int] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                except (OSError, ValueError, IndexError):
                    continue
        found, open_ = [], [self.process.pid]
        while open_:
            children = [pid for pid, parent in parents.items() if parent == open_[0]]
            found += children
            open_ = [*open_[1:], *children]
        return found

    def workers(self) -> list[int]:
        """The descendants that do a job: they alone have a lower priority."""
        return [pid for pid in self.descendants() if _nice(pid) > os.getpriority(os.PRIO_PROCESS, self.process.pid)]

    def memory(self) -> int:
        """Bytes of all its processes together, shared pages counted once."""
        return sum(_held(pid) for pid in [self.process.pid, *self.descendants()])


def _nice(pid: int) -> int:
    try:
        return os.getpriority(os.PRIO_PROCESS, pid)
    except OSError:
        return -100


def _held(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


class Client:
    """A user: one cookie, kept over restarts of the server."""

    def __init__(self, port: int) -> None:
        self.port, self.cookie = port, ""
        status, headers, _ = self.raw("GET", "/")
        if status != 200:
            raise RuntimeError(f"the studio answered {status}")
        self.cookie = headers["set-cookie"].split(";")[0]

    def raw(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer."""
        link = HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            cookie = {"cookie": self.cookie} if self.cookie else {}
            link.request(method, path, body or None, {**cookie, **(headers or {})})
            answer = link.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            link.close()

    def get(self, path: str) -> Any:
        return json.loads(self.raw("GET", path)[2])

    def post(self, path: str, data: Any) -> tuple[int, Any]:
        status, _, body = self.raw("POST", path, json.dumps(data).encode(), {"content-type": "application/json"})
        return status, json.loads(body)

    def send(self, name: str, content: bytes) -> tuple[int, Any]:
        kind = {"content-type": "application/octet-stream"}
        status, _, body = self.raw("POST", f"/uploads?name={name}", content, kind)
        return status, json.loads(body)

    def finished(self) -> dict[str, int]:
        """How many of the user's jobs are in which state."""
        states: dict[str, int] = {}
        for job in self.get("/jobs")["jobs"]:
            states[job["state"]] = states.get(job["state"], 0) + 1
        return states
