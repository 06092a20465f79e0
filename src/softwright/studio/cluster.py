"""`Cluster`: jobs of the studio on a Dask cluster. The studio sends what was asked and the file, and gets files back.

Workers of the cluster need softwright of the same version. They are trusted as this machine is: a job runs there with
the limits that the cluster's own workers have, and the studio gives it up when its time is over or it is stopped.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from softwright.fileformat import write_atomically
from softwright.scale import connected, told_from_worker
from softwright.studio.limits import Limits

_TICK = 0.2  # seconds between two looks at a job that runs elsewhere
_RETURNED = ("network.safetensors", "page.html", "result.json")


class Watch(Protocol):
    """The job as the cluster sees it."""

    def said(self, message: str) -> None: ...

    def over(self) -> bool:
        """Whether nobody waits for it any more."""
        ...


class Cluster:
    """A connection to the scheduler at an address such as tcp://10.0.0.1:8786."""

    def __init__(self, address: str) -> None:
        self._client = connected(address)

    def run(self, request: dict[str, Any], folder: Path, file: Path | None, limits: Limits, job: Watch) -> Any:
        """What the job told at its end; its files are in `folder` then."""
        topic, started = f"softwright-{uuid4().hex}", time.monotonic()
        self._client.subscribe_topic(topic, lambda event: job.said(str(event[1])))
        content = None if file is None else (file.name, file.read_bytes())
        sent = self._client.submit(work_away, request, content, limits, topic, pure=False, retries=0)
        try:
            while not sent.done():
                if job.over():
                    return {"failed": "stopped"}
                if time.monotonic() - started > limits.seconds:
                    return {"failed": f"the job took longer than the {limits.seconds:g} s it may take"}
                time.sleep(_TICK)
            if sent.status != "finished":
                return {"failed": f"the cluster lost the job: {sent.exception()}"[:4000]}
            told, files = sent.result()
            for name, data in files.items():
                if name in _RETURNED:
                    write_atomically(folder / name, data)
            return told
        except OSError as error:
            return {"failed": f"the cluster did not answer: {error}"[:4000]}
        finally:
            sent.cancel(force=True)
            self._client.unsubscribe_topic(topic)

    def close(self) -> None:
        self._client.close(timeout=2)


def work_away(
    request: dict[str, Any], content: tuple[str, bytes] | None, limits: Limits, topic: str
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Runs on a worker of the cluster: one job in a folder of its own, and the files that it left."""
    from softwright.studio.worker import outcome

    tell = told_from_worker(topic)
    with tempfile.TemporaryDirectory() as made:
        folder, file = Path(made), None
        if content is not None:
            file = folder / "sent" / Path(content[0]).name
            file.parent.mkdir()
            file.write_bytes(content[1])
        told = outcome(request, folder, file, tell, limits)
        return told, {name: (folder / name).read_bytes() for name in _RETURNED if (folder / name).is_file()}
