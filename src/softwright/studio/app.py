"""The web application: what can be asked over HTTP. `Guard` has looked at every request before it comes here.

GET  /                       the page; gives a browser the secret that its jobs belong to
GET  /studio.js /studio.css
GET  /forms  /zoo            what can be chosen from, and the models of the zoo
GET  /jobs                   the user's jobs, newest first
POST /jobs                   {"what": ..., ...} -> 201 {"id"}
GET  /jobs/ID                how it stands, what it said, what came of it
POST /jobs/ID/stop  /jobs/ID/delete
GET  /jobs/ID/page           the page of the network, sandboxed
GET  /jobs/ID/files/NAME     network.safetensors, figure.png, or a format of `export`
POST /uploads?name=FILE      the bytes of a file -> 201 {"id", "columns"}
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from softwright.errors import InvalidInput
from softwright.export import EXPORTERS, exporter_named
from softwright.studio.asked import ASKED, ENDINGS, read_request, title_of, zoo_rows
from softwright.studio.guard import TOKEN_COOKIE, Application, Guard
from softwright.studio.limits import Limits
from softwright.studio.pool import Pool
from softwright.studio.store import DONE, OPEN, Job, Store

USER_COOKIE = "softwright_user"
_OWN = "; ".join(f"{what}-src 'self'" for what in ("script", "style", "connect", "frame"))
_POLICY = f"default-src 'none'; {_OWN}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_SANDBOX = "sandbox allow-scripts"
_FILE_POLICY = "default-src 'none'; sandbox"
_WAIT = 90.0  # seconds that a download waits for a worker to write it
Answer = Callable[["Studio", Request, str], Awaitable[Response]]


@cache
def _asset(name: str) -> str:
    return (files("softwright.studio") / "assets" / name).read_text(encoding="utf-8")


def _error(status: int, text: str, faults: list[str] | None = None) -> JSONResponse:
    return JSONResponse({"error": text, "faults": faults or []}, status)


class Studio:
    """A store, a pool and the routes to them."""

    def __init__(self, folder: Path, limits: Limits | None = None, token: str = "", cluster: str = "") -> None:
        self.limits, self.token = limits or Limits(), token
        self.store = Store(folder)
        self.pool = Pool(self.store, self.limits, cluster)

    def application(self, hosts: frozenset[str]) -> Application:
        """The guarded ASGI application for these values of Host."""

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            yield
            self.pool.close()

        own = self._own
        routes = [
            Route("/", self.home),
            Route("/studio.js", self.script),
            Route("/studio.css", self.style),
            Route("/forms", self.forms),
            Route("/zoo", self.zoo),
            Route("/jobs", own(Studio.listed)),
            Route("/jobs", own(Studio.create), methods=["POST"]),
            Route("/uploads", own(Studio.upload), methods=["POST"]),
            Route("/jobs/{id}", own(Studio.detail)),
            Route("/jobs/{id}/stop", own(Studio.stop), methods=["POST"]),
            Route("/jobs/{id}/delete", own(Studio.delete), methods=["POST"]),
            Route("/jobs/{id}/page", own(Studio.page)),
            Route("/jobs/{id}/files/{name}", own(Studio.download)),
        ]
        inner = Starlette(routes=routes, lifespan=lifespan)
        return Guard(inner, hosts, self.token, self.limits.request, self.limits.upload)

    def _own(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        """A route that needs a user."""

        async def route(request: Request) -> Response:
            secret = request.cookies.get(USER_COOKIE, "")
            if not 20 <= len(secret) <= 100:
                return _error(401, "open the studio's page first; it gives the browser what its jobs belong to")
            return await answer(self, request, Store.user_of(secret))

        return route

    async def home(self, request: Request) -> Response:
        response = Response(_asset("studio.html"), media_type="text/html")
        response.headers["content-security-policy"] = _POLICY
        keep: dict[str, Any] = {"httponly": True, "samesite": "strict", "max_age": 400 * 86400, "path": "/"}
        if not 20 <= len(request.cookies.get(USER_COOKIE, "")) <= 100:
            response.set_cookie(USER_COOKIE, secrets.token_urlsafe(32), **keep)
        if self.token and request.query_params.get("token"):
            response.set_cookie(TOKEN_COOKIE, self.token, **keep)
        return response

    async def script(self, request: Request) -> Response:
        return Response(_asset("studio.js"), media_type="text/javascript")

    async def style(self, request: Request) -> Response:
        return Response(_asset("studio.css"), media_type="text/css")

    async def forms(self, request: Request) -> Response:
        """What can be chosen in the forms, from the rows of what can be asked."""
        rows = {
            row.name: {name: list(entry.kind) for name, entry in row.entries.items() if isinstance(entry.kind, tuple)}
            for row in ASKED.values()
        }
        return JSONResponse(rows)

    async def zoo(self, request: Request) -> Response:
        """The models of the zoo by group: name and what it is."""
        return JSONResponse(zoo_rows())

    async def listed(self, request: Request, user: str) -> Response:
        jobs = [job.summary() for job in self.store.of_user(user)]
        return JSONResponse({"jobs": jobs, "waiting": self.store.waiting()})

    async def create(self, request: Request, user: str) -> Response:
        if not request.headers.get("content-type", "").startswith("application/json"):
            return _error(415, "send JSON")
        try:
            row, entries, file = read_request(json.loads(await request.body()))
        except InvalidInput as error:
            return _error(400, "; ".join(error.faults), list(error.faults))
        except (ValueError, RecursionError):
            return _error(400, "not JSON")
        path = self.store.upload(user, file) if file else None
        if row.files and (path is None or path.suffix not in row.files):
            return _error(400, f"{row.name} needs a file of kind {', '.join(row.files)}; send it first")
        busy = sum(job.state in OPEN for job in self.store.of_user(user))
        if busy >= self.limits.each or self.store.waiting() >= self.limits.queue:
            return _error(503, "too many jobs wait; ask again when some are done")
        shown = "" if path is None else path.suffix
        job = await run_in_threadpool(self.store.add, user, row.name, title_of(row, entries, shown), entries, file)
        self.pool.add(job)
        return JSONResponse({"id": job.id}, 201)

    async def upload(self, request: Request, user: str) -> Response:
        name = request.query_params.get("name", "")
        ending = Path(name).suffix.lower()
        if ending not in ENDINGS:
            return _error(400, f"files of that kind are not taken; send {', '.join(ENDINGS)}")
        if request.headers.get("content-type", "") != "application/octet-stream":
            return _error(415, "send the bytes as application/octet-stream")
        content = await request.body()
        if not content:
            return _error(400, "the file is empty")
        id = await run_in_threadpool(self.store.keep_upload, user, ending, content, self.limits.uploads)
        return JSONResponse({"id": id, "columns": _columns(ending, content)}, 201)

    def _job(self, request: Request, user: str) -> Job | None:
        return self.store.get(user, request.path_params["id"])

    async def detail(self, request: Request, user: str) -> Response:
        job = self._job(request, user)
        if job is None:
            return _error(404, "no such job")
        return JSONResponse({**job.detail(), "files": self._files(job)})

    async def stop(self, request: Request, user: str) -> Response:
        job = self._job(request, user)
        if job is None:
            return _error(404, "no such job")
        return JSONResponse({"stopped": await run_in_threadpool(self.pool.stop, job)})

    async def delete(self, request: Request, user: str) -> Response:
        job = self._job(request, user)
        if job is None:
            return _error(404, "no such job")
        if job.state in OPEN:
            await run_in_threadpool(self.pool.stop, job)
        await run_in_threadpool(self.store.remove, job)
        return JSONResponse({"deleted": True})

    async def page(self, request: Request, user: str) -> Response:
        job = self._job(request, user)
        path = None if job is None else self.store.folder_of(job) / "page.html"
        if path is None or not path.is_file():
            return _error(404, "no page")
        return FileResponse(path, media_type="text/html", headers={"content-security-policy": _SANDBOX})

    def _files(self, job: Job) -> list[str]:
        """What can be downloaded of a finished job."""
        if job.state != DONE or "kind" not in job.result:
            return []
        rows = [exporter_named(name) for name in EXPORTERS]
        fitting = [f"network{row.suffix}" for row in rows if job.result["kind"] in row.kinds]
        return list(dict.fromkeys(["network.safetensors", *fitting, "page.html", "figure.png"]))

    async def download(self, request: Request, user: str) -> Response:
        job, name = self._job(request, user), request.path_params["name"]
        if job is None or name not in self._files(job):
            return _error(404, "no such file")
        path = self._written(job, name)
        if path is None:
            if self.store.waiting() >= self.limits.queue:
                return _error(503, "too many jobs wait; ask again when some are done")
            over = self.pool.make(job, name)
            await run_in_threadpool(over.wait, _WAIT)
            path = self._written(job, name)
        if path is None:
            return _error(503, f"{name} could not be written: it may need an extra of softwright, or more time")
        headers = {"content-security-policy": _FILE_POLICY}
        return FileResponse(path, media_type="application/octet-stream", filename=path.name, headers=headers)

    def _written(self, job: Job, name: str) -> Path | None:
        """The file of that name, or the archive of a format that is a folder; None if there is neither yet."""
        folder = self.store.folder_of(job)
        return next((path for path in (folder / name, folder / f"{name}.zip") if path.is_file()), None)


def _columns(ending: str, content: bytes) -> list[str]:
    """The names in the first line of a .csv or .jsonl file, for the form; none if it cannot be told."""
    line = content[:4000].decode("utf-8", errors="replace").splitlines()[:1]
    if not line:
        return []
    if ending == ".csv":
        return [name.strip().strip('"')[:100] for name in line[0].split(",")][:50]
    if ending == ".jsonl":
        try:
            first = json.loads(line[0])
        except (ValueError, RecursionError):
            return []
        return [str(name)[:100] for name in first][:50] if isinstance(first, dict) else []
    return []
