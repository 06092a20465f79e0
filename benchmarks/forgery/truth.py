"""Why a VERIFIED file is false: what `load` makes of it, and what the judges (`judging/`) see of its network.

For all kinds: `load` takes the file, keeps its certificate, and says the same of it. Then the judge of its kind looks
for an input at which it errs by more than it claims.
"""

from __future__ import annotations

import base64
import json
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judging.claim import CannotJudge, Claim, Seen
from judging.kinds import JUDGES
from judging.search import QUICK, Effort
from safetensors import safe_open

import softwright as sw

SECTIONS = {"softwright", "model", "target", "plan", "observed", "certificate"}


@dataclass(frozen=True)
class Falsehood:
    """The cause, and the numbers of the case."""

    cause: str
    detail: str = ""


def falsehood(claim: Claim, effort: Effort = QUICK) -> Falsehood | None:
    """Why a VERIFIED file is false; None if nothing was found against it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            built = sw.load(claim.path)
    except Exception as error:  # whatever it is, the file is not one that can be used
        return Falsehood("load refuses it", f"{type(error).__name__}: {error}"[:150])
    if built.certificate is None:
        return Falsehood("load drops the certificate")
    new = "claim" in claim.sections["certificate"]
    loaded = built.sections()["certificate"] if new else built.certificate.flat()
    read, said = unpacked(loaded), unpacked(claim.sections["certificate"])
    if read != said:
        parts = sorted(k for k in read.keys() | said.keys() if k not in read or k not in said or read[k] != said[k])
        return Falsehood("load reads another statement", ", ".join(parts))
    if claim.kind not in JUDGES:
        raise CannotJudge(f"networks of the kind {claim.kind}")
    try:
        seen: Seen = JUDGES[claim.kind](claim, built, effort)
    except CannotJudge:
        raise
    except Exception as error:
        return Falsehood("the loaded network raises", f"{type(error).__name__}: {error}"[:150])
    return Falsehood(seen.cause, seen.detail) if seen.share > 1 else None


def unpacked(certificate: Any) -> Any:
    """A certificate as JSON gives it back, its trees unpacked: one tree can be packed in several ways."""

    def opened(value: Any, key: Any = None) -> Any:
        if isinstance(value, dict):
            return {k: opened(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [opened(v) for v in value]
        if key == "tree" and isinstance(value, str):
            return zlib.decompress(base64.b64decode(value)).hex()
        return value

    return opened(json.loads(json.dumps(certificate)))


def oddity(path: Path) -> Falsehood | None:
    """What lets a file be read in two ways, or lets a text of it act on a terminal."""
    with safe_open(path, framework="numpy") as file:
        texts = file.metadata()
    for name, text in texts.items():
        twice: list[str] = []

        def pairs(found: list[tuple[str, Any]], twice: list[str] = twice) -> dict[str, Any]:
            names = [key for key, _ in found]
            twice += [key for key in set(names) if names.count(key) > 1]
            return dict(found)

        parsed = json.loads(text, object_pairs_hook=pairs) if name in SECTIONS - {"softwright"} else text
        if twice:
            return Falsehood("a key stands twice", f"{name}: {', '.join(sorted(twice))}")
        if not json.dumps(parsed, ensure_ascii=False).replace("\\u00", "\0").isprintable():
            return Falsehood("control characters", name)
    unknown = sorted(texts.keys() - SECTIONS)
    return Falsehood("an unknown section", ", ".join(unknown)) if unknown else None
