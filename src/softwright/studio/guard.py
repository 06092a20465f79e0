"""`Guard`: what every request has to pass before anything else sees it.

    Host       one of the studio's own names: a foreign name that points here (DNS rebinding) is refused
    Origin     of anything that changes something: the studio's own, or none (a program, not a page of another site)
    token      where the studio listens beyond this machine, in a cookie or as Authorization: Bearer
    size       of the body, counted as it comes

Answers forbid to be framed by others, guessed at, or asked from other sites: there is no CORS header at all.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
TOKEN_COOKIE = "softwright_token"  # noqa: S105, the name of a cookie
_SAFE = ("GET", "HEAD")
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """An ASGI application around the studio's own."""

    def __init__(self, app: Application, hosts: frozenset[str], token: str, request: int, upload: int) -> None:
        """`hosts` are the values of Host that are answered, ports included; no token: none is asked for."""
        self.app, self.hosts, self.token, self.request, self.upload = app, hosts, token, request, upload

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        fault = self._fault(scope, headers)
        if fault is not None:
            await _refuse(send, *fault)
            return
        most = self.upload if scope["path"] == "/uploads" else self.request
        declared = headers.get("content-length", ["0"])[0]
        if not declared.isdecimal() or int(declared[:20]) > most:
            await _refuse(send, 413, f"more than {most} bytes")
            return
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            if len(body) > most:
                await _refuse(send, 413, f"more than {most} bytes")
                return
            if not message.get("more_body"):
                break
        given: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return given.pop() if given else await receive()

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                more = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in present]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        await self.app(scope, again, guarded)

    def _fault(self, scope: Message, headers: dict[str, list[str]]) -> tuple[int, str] | None:
        hosts = headers.get("host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return 400, "this studio does not answer to that name"
        if scope["method"] not in (*_SAFE, "POST"):
            return 405, "only GET and POST"
        if scope["method"] not in _SAFE:
            origins, site = headers.get("origin", []), headers.get("sec-fetch-site", ["none"])[0]
            own = {f"{scheme}://{hosts[0].lower()}" for scheme in ("http", "https")}
            if any(origin.lower() not in own for origin in origins) or site not in ("same-origin", "none"):
                return 403, "a request from another site"
        if self.token and not self._has_token(scope, headers):
            return 401, "open the address with its token, as the studio printed it"
        return None

    def _has_token(self, scope: Message, headers: dict[str, list[str]]) -> bool:
        bearer = [value.removeprefix("Bearer ") for value in headers.get("authorization", [])]
        asked = (
            parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", []) if scope["path"] == "/" else []
        )
        kept = cookies_of(headers.get("cookie", [])).get(TOKEN_COOKIE, "")
        return any(hmac.compare_digest(each.encode(), self.token.encode()) for each in (*bearer, *asked, kept))


def cookies_of(lines: list[str]) -> dict[str, str]:
    """The cookies of a request; none from a line that is no cookies."""
    found: dict[str, str] = {}
    for line in lines:
        try:
            found |= {name: morsel.value for name, morsel in SimpleCookie(line).items()}
        except CookieError:
            continue
    return found


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = ('{"error": "' + reason + '"}').encode()
    start = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    start += [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
