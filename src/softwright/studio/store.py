"""The history: a folder for every user, one for every job in it, and a small JSON file that says how it stands.

    folder/users/<sha256 of the user's secret>/jobs/<id>/job.json, network.safetensors, page.html, ...
                                              /uploads/<id>.<ending>

Users are known by a secret that only their browser has; names of folders are made here and never taken from a request.
What was finished when a studio stopped is there when it starts again; what was not says so.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softwright.fileformat import write_atomically

QUEUED, RUNNING, DONE, FAILED, STOPPED = "queued", "running", "done", "failed", "stopped"
OPEN = (QUEUED, RUNNING)
_ID = re.compile(r"[0-9a-f]{24}\Z")
_MESSAGES = 200  # of a job that are kept
_BOXES = 1500  # of a proof that are kept for its picture
_LOST = "the studio stopped before this was finished; ask for it again"


@dataclass
class Job:
    """What was asked, by whom, how it stands and what came of it."""

    id: str
    user: str
    what: str
    title: str
    entries: dict[str, Any]
    file: str = ""
    state: str = QUEUED
    result: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    created: float = 0.0
    seconds: float = 0.0
    messages: list[str] = field(default_factory=list)
    boxes: list[list[float]] = field(default_factory=list)  # of the proof that runs, in shares of its domain

    def said(self, message: str) -> None:
        self.messages.append(message)
        if len(self.messages) > _MESSAGES:
            del self.messages[1 : len(self.messages) - _MESSAGES + 1]

    def settled(self, boxes: list[list[float]], first: bool) -> None:
        """Boxes that a proof has settled; the first ones of a proof take the place of those of the one before."""
        self.boxes = ([] if first else self.boxes) + boxes[:_BOXES]
        del self.boxes[_BOXES:]

    def summary(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "what": self.what,
            "title": self.title,
            "state": self.state,
            "created": self.created,
            "seconds": round(self.seconds, 1),
            "last": self.messages[-1] if self.messages else "",
            "kind": self.result.get("kind", ""),
            "bound": self.result.get("bound"),
        }

    def detail(self) -> dict[str, Any]:
        return {
            **self.summary(),
            "entries": self.entries,
            "messages": list(self.messages),
            "boxes": list(self.boxes) if self.state == RUNNING else [],
            "error": self.error,
            "result": self.result,
        }


class Store:
    """All jobs in memory, and on the disk whenever their state changes. Every method may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self._jobs: dict[str, Job] = {}
        (folder / "users").mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in sorted((folder / "users").glob("*/jobs/*/job.json")):
            self._load(path)

    def _load(self, path: Path) -> None:
        try:
            job = Job(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return  # a file that cannot be read is a job that is not there
        if job.id != path.parent.name or job.user != path.parents[2].name or not _ID.match(job.id):
            return
        if job.state in OPEN:
            job.state, job.error = FAILED, _LOST
            self._write(job)
        self._jobs[job.id] = job

    @staticmethod
    def user_of(secret: str) -> str:
        """The name of a user's folder."""
        return hashlib.sha256(secret.encode()).hexdigest()

    def folder_of(self, job: Job) -> Path:
        return self.folder / "users" / job.user / "jobs" / job.id

    def add(self, user: str, what: str, title: str, entries: dict[str, Any], file: str) -> Job:
        job = Job(secrets.token_hex(12), user, what, title, entries, file, created=time.time())
        with self._lock:
            self.folder_of(job).mkdir(parents=True, mode=0o700)
            self._jobs[job.id] = job
            self._write(job)
        return job

    def get(self, user: str, id: str) -> Job | None:
        """A job of this user; another user's is not there."""
        with self._lock:
            job = self._jobs.get(id)
        return job if job is not None and job.user == user else None

    def of_user(self, user: str) -> list[Job]:
        with self._lock:
            return sorted((job for job in self._jobs.values() if job.user == user), key=lambda job: -job.created)

    def waiting(self) -> int:
        with self._lock:
            return sum(job.state == QUEUED for job in self._jobs.values())

    def set(self, job: Job, state: str, **changes: Any) -> bool:
        """The new state, unless the job is over already; says whether it was set."""
        with self._lock:
            if job.state not in OPEN:
                return False
            job.state = state
            for name, value in changes.items():
                setattr(job, name, value)
            self._write(job)
            return True

    def remove(self, job: Job) -> None:
        with self._lock:
            self._jobs.pop(job.id, None)
            shutil.rmtree(self.folder_of(job), ignore_errors=True)

    def prune(self, user: str, kept: int) -> None:
        """The oldest finished jobs of a user go."""
        over = [job for job in self.of_user(user) if job.state not in OPEN]
        for job in over[kept:]:
            self.remove(job)

    def _write(self, job: Job) -> None:
        place = self.folder_of(job)
        if place.is_dir():
            write_atomically(place / "job.json", json.dumps(vars(job)).encode())

    # Files that were sent ---------------------------------------------------------------------------------------------

    def keep_upload(self, user: str, ending: str, content: bytes, most: int) -> str:
        """The id of a file; the oldest of the user goes when there are too many."""
        place = self.folder / "users" / user / "uploads"
        with self._lock:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            here = sorted(self._uploads(place), key=lambda path: path.stat().st_mtime)
            for path in here[: max(0, len(here) - most + 1)]:
                path.unlink(missing_ok=True)
            id = secrets.token_hex(12)
            (place / f"{id}{ending}").write_bytes(content)
        return id

    def upload(self, user: str, id: str) -> Path | None:
        if not _ID.match(id):
            return None
        return next(iter((self.folder / "users" / user / "uploads").glob(f"{id}.*")), None)

    @staticmethod
    def _uploads(place: Path) -> Iterator[Path]:
        return (path for path in place.iterdir() if path.is_file())
