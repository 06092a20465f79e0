"""`serve`: the studio on an address, until it is told to stop."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Callable
from pathlib import Path

from softwright.errors import InvalidInput
from softwright.studio.limits import Limits


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def hosts_of(host: str, port: int) -> frozenset[str]:
    """The values of Host that a studio on this address answers to."""
    names = {"127.0.0.1", "localhost", "[::1]"} if is_loopback(host) else {host.lower()}
    return frozenset({*(f"{name}:{port}" for name in names), *(names if port == 80 else ())})


def serve(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8377,
    limits: Limits | None = None,
    cluster: str = "",
    ready: Callable[[str], None] = print,
) -> None:
    """Run until interrupted; `ready` is given the address to open. Beyond this machine it holds a token."""
    try:
        import uvicorn

        from softwright.studio.app import Studio
    except ImportError as error:
        fault = f"the studio needs {error.name}; install it with: pip install 'softwright[studio]'"
        raise InvalidInput("studio", [fault]) from error
    if not is_loopback(host) and host in ("0.0.0.0", "::", ""):  # noqa: S104, refused here
        raise InvalidInput("studio", [f"--host {host} names no address; give the one that others will open"])
    token = "" if is_loopback(host) else secrets.token_urlsafe(24)
    studio = Studio(folder, limits, token, cluster)
    application = studio.application(hosts_of(host, port))
    ready(f"http://{host}:{port}/" + (f"?token={token}" if token else ""))
    settings = uvicorn.Config(
        application,  # type: ignore[arg-type]
        host=host,
        port=port,
        log_level="error",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=5,
        limit_concurrency=200,
        h11_max_incomplete_event_size=16 << 10,
    )
    uvicorn.Server(settings).run()
