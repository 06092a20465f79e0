"""What runs in a worker process: one job, under limits of the operating system, its news sent through a pipe.

A worker is forked from a server that has torch and softwright loaded, does one job and ends. Whatever a formula or a
file does to it, the studio loses that one process. It ends by itself when the studio is gone.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import shutil
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from softwright.errors import SoftwrightError, ToleranceNotReached
from softwright.fileformat import write_atomically
from softwright.progress import Settled
from softwright.studio.asked import ASKED, Told
from softwright.studio.limits import Limits

PRELOADED = (
    "softwright.approximation.verb",
    "softwright.checker.verify",
    "softwright.memory.verb",
    "softwright.methods.verb",
    "softwright.page.write",
    "softwright.programs.verb",
    "softwright.result.built",
    "softwright.studio.worker",
    "softwright.transpiler.verb",
)
_LONGEST = 4000  # characters of a message
_LARGEST_FILE = 1 << 28


def work(news: Connection, job: dict[str, Any], folder: str, file: str | None, limits: Limits) -> None:
    """Do one job: `job` is what was asked, `folder` where its files go."""
    _confine(limits)

    def say(message: str) -> None:
        told: dict[str, Any] = {"say": str(message)[:_LONGEST]}
        if isinstance(message, Settled):
            told |= {"boxes": message.boxes, "first": message.first}
        news.send(told)

    try:
        news.send(outcome(job, Path(folder), None if file is None else Path(file), say, limits))
    except BrokenPipeError:  # nobody listens any more
        os._exit(1)
    finally:
        news.close()


def outcome(job: dict[str, Any], folder: Path, file: Path | None, say: Any, limits: Limits) -> dict[str, Any]:
    """{"done": what there is to tell} or {"failed": why}; the files of the job are in `folder` then."""
    try:
        return _done(job, folder, file, say)
    except SoftwrightError as error:
        return {"failed": str(error)[:_LONGEST]}
    except MemoryError:
        return {"failed": f"the job needed more memory than the {limits.memory >> 20} MB it may have"}
    except BrokenPipeError:
        raise
    except Exception as error:  # of softwright, or of a library on this input: the job fails, the studio goes on
        return {"failed": f"{type(error).__name__}: {error}"[:_LONGEST]}


def _done(job: dict[str, Any], folder: Path, file: Path | None, say: Any) -> dict[str, Any]:
    if job["what"] == "make":
        _make(folder, job["entries"]["name"], say)
        return {"done": {}}
    note = ""
    try:
        built = ASKED[job["what"]].build(job["entries"], file, say)
    except ToleranceNotReached as error:
        if error.best is None:
            raise
        built, note = error.best, f"tolerance not reached: {error}"[:_LONGEST]
    built, more = (built.built, built.rows) if isinstance(built, Told) else (built, ())
    if job["what"] == "verify":
        return {"done": {"verdict": built.status, "text": str(built)[:_LONGEST], "verified": bool(built)}}
    say("writing")
    if job["what"] == "open" and file is not None:
        write_atomically(folder / "network.safetensors", file.read_bytes())
    else:
        built.save(folder / "network.safetensors")
    built.page(folder / "page.html", file="network.safetensors")
    proved = built.certificate
    rows = [[str(name), str(text)[:_LONGEST]] for name, text in (*built.rows(), *more)]
    found = {"kind": built.kind, "rows": rows, "bound": None if proved is None else proved.bound, "note": note}
    write_atomically(folder / "result.json", json.dumps(found).encode())
    return {"done": found}


def _make(folder: Path, name: str, say: Any) -> None:
    """A file in another format, from the network that the job left."""
    from softwright.result.built import load

    say(f"writing {name}")
    built = load(folder / "network.safetensors")
    if name == "figure.png":
        built.plot(folder / name)
        return
    built.export(folder / name)
    if (folder / name).is_dir():  # a format that is a folder travels as an archive
        shutil.make_archive(str(folder / name), "zip", folder / name)
        shutil.rmtree(folder / name)


def _confine(limits: Limits) -> None:
    """Limits of the system on this process; a lower priority than the studio itself; an end if the studio ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(OSError):
        os.nice(10)
    seconds = int(limits.seconds) + 5
    held = _data_held()
    for what, most in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_DATA, held + limits.memory),
        (resource.RLIMIT_FSIZE, _LARGEST_FILE),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(OSError, ValueError):
            resource.setrlimit(what, (most, most))
    import torch

    torch.set_num_threads(1)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _data_held() -> int:
    """Bytes of data that the process has mapped already; 0 where the system does not say."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmData:"):
                return int(line.split()[1]) << 10
    return 0
