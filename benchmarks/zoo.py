"""The zoo in full: every recipe built, proved and VERIFIED, and compared with its stored file.

    python benchmarks/zoo.py                    builds all, compares tensors with the stored ones, verifies both
    python benchmarks/zoo.py --write FOLDER     the same, what is VERIFIED into FOLDER/NAME.safetensors; resumes there
    python benchmarks/zoo.py --pack FOLDER      packs the files of a folder into the archive of the package
    python benchmarks/zoo.py --same A B         compares the files of two folders: tensors and sections, but for times
    python benchmarks/zoo.py --onnx             exports every stored model to ONNX and verifies the graph
    python benchmarks/zoo.py --sources 110      C and NumPy sources of so many models drawn at random test themselves

One line per model: CPU seconds, bytes, tokens, bound, verdict; a summary at the end.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np

import softwright as sw
from softwright import zoo
from softwright.errors import SoftwrightError
from softwright.fileformat import read_model
from softwright.zoo.stored import PLACE

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-DSELFTEST"]


def made(name: str, path: Path) -> str:
    """Build, save and verify one; the line that is printed."""
    started = time.process_time()
    try:
        built = zoo.build(name)
        built.save(path)
    except SoftwrightError as error:
        return f"{name}: NOT BUILT in {time.process_time() - started:.1f} s: {str(error)[:150]}"
    spent = time.process_time() - started
    verdict = sw.verify(path)
    bound = "none" if built.certificate is None else f"{built.certificate.bound:.3g}"
    if not verdict.verified:
        path.unlink()
        return f"{name}: {verdict.status} ({verdict.reason[:150]}), bound {bound}, {spent:.1f} s"
    size, total = path.stat().st_size, time.process_time() - started
    about = f"bound {bound}, {built.plan.tokens} tokens, {size} bytes"
    return f"{name}: VERIFIED, {about}, {spent:.1f} + {total - spent:.1f} s"


def pack(folder: Path) -> None:
    """All files of recipes into the archive, in the order of their names; equal files make equal bytes."""
    with ZipFile(PLACE, "w", ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(zoo.names()):
            entry = ZipInfo(f"{name}.safetensors")
            entry.compress_type = ZIP_DEFLATED
            archive.writestr(entry, (folder / f"{name}.safetensors").read_bytes())
    print(f"{len(zoo.names())} models, {PLACE.stat().st_size} bytes")


def compared(name: str, path: Path, stored: Path) -> str:
    """Whether the rebuilt file holds the stored tensors, bit by bit, and whether the stored one is VERIFIED."""
    stored.write_bytes(zoo.content(name))
    same = path.is_file() and read_model(path).weights_sha256 == read_model(stored).weights_sha256
    return f"{'the same tensors' if same else 'OTHER TENSORS'}, stored {sw.verify(stored).status}"


def same(one: Path, two: Path) -> None:
    """Which files of two folders hold the same tensors and say the same, but for the seconds that they took."""
    counts: Counter[str] = Counter()
    for name in zoo.names():
        paths = [folder / f"{name}.safetensors" for folder in (one, two)]
        if not all(path.is_file() for path in paths):
            verdict = "MISSING"
        else:
            a, b = map(read_model, paths)
            tensors = a.weights_sha256 == b.weights_sha256
            verdict = "the same" if tensors and _untimed(a.sections) == _untimed(b.sections) else "OTHER SECTIONS"
            verdict = verdict if tensors else "OTHER TENSORS"
        counts[verdict] += 1
        if verdict != "the same":
            print(f"{name}: {verdict}")
    print(dict(counts))


def _untimed(value: Any) -> Any:
    """Without entries called seconds, however deep."""
    if isinstance(value, Mapping):
        return {key: _untimed(one) for key, one in value.items() if key != "seconds"}
    return [_untimed(one) for one in value] if isinstance(value, list | tuple) else value


def graphs() -> None:
    """Every stored model as an ONNX file: verified from the graph, and run by onnx's reference evaluator."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    from softwright.export.selftest import allowance, answered, given_to

    counts: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f.onnx"
        for name in zoo.names():
            built = zoo.load(name)
            try:
                built.export(path)
            except sw.InvalidInput as error:
                counts["refused"] += 1
                print(f"{name}: {error}")
                continue
            few = built.kind in ("theorem", "in_context")
            model, given = onnx.load(path), given_to(built, 2 if few else 1000)
            named = {one.name: array for one, array in zip(model.graph.input, given, strict=True)}
            found = np.asarray(next(iter(ReferenceEvaluator(model).run(None, named))))
            y = answered(built, given)
            near = np.abs(found - y).max() <= allowance(built, float(np.abs(y).max()))[0]
            status = sw.verify(path).status
            counts[f"{status}, {'within' if near else 'BEYOND'} the rounding part"] += 1
            if not near or status != "VERIFIED":
                print(f"{name}: {status}, off by {np.abs(found - y).max():.3g}")
    print(dict(counts))


def sources(count: int, seed: int) -> None:
    """C by every compiler that is found at three levels, without a warning, and NumPy: each compares itself with torch.
    What has no C form says why."""
    counts: Counter[str] = Counter()
    compilers = [name for name in ("gcc", "clang") if shutil.which(name)]
    drawn = np.random.default_rng(seed).choice(zoo.names(), size=count, replace=False)
    with TemporaryDirectory() as folder:
        source, script, made = (Path(folder) / name for name in ("f.c", "f.py", "f"))
        for name in map(str, drawn):
            built = zoo.load(name)
            runs: dict[str, list[list[str]]] = {}
            try:
                built.export(source)
                for how in itertools.product(compilers, ("-O0", "-O2", "-O3")):
                    runs[" ".join(how)] = [[*how, *STRICT, str(source), "-o", str(made), "-lm"], [str(made)]]
            except sw.InvalidInput as error:
                counts["no C form"] += 1
                print(f"{name}: {error}", flush=True)
            built.export(script)
            runs["NumPy"] = [[sys.executable, "-I", str(script)]]
            for how, commands in runs.items():
                results = (subprocess.run(one, capture_output=True, text=True, check=False) for one in commands)
                fault = next((one for one in results if one.returncode), None)
                counts[f"{how}: {'passed' if fault is None else 'FAILED'}"] += 1
                if fault is not None:
                    print(f"{name}, {how}: {(fault.stdout + fault.stderr)[:300]}", flush=True)
    print(dict(counts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--part", default="0/1", help="of several processes: which one this is, i/n")
    parser.add_argument("--same", type=Path, nargs=2)
    parser.add_argument("--onnx", action="store_true")
    parser.add_argument("--sources", type=int, help="so many models")
    parser.add_argument("--seed", type=int, default=0, help="of what --sources draws")
    options = parser.parse_args()
    if options.sources:
        sources(options.sources, options.seed)
        return
    if options.onnx:
        graphs()
        return
    if options.same:
        same(*options.same)
        return
    if options.pack:
        pack(options.pack)
        return
    this, count = map(int, options.part.split("/"))
    started, lines = time.process_time(), []
    with TemporaryDirectory() as folder:
        place = options.write or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for name in zoo.names()[this::count]:
            path = place / f"{name}.safetensors"
            if options.write and path.is_file():
                continue
            line = made(name, path)
            line += f"; {compared(name, path, Path(folder) / 'stored.safetensors')}"
            lines.append(line)
            print(line, flush=True)
    good, stored = (sum(word in line for line in lines) for word in (": VERIFIED,", "stored VERIFIED"))
    alike = sum("the same tensors" in line for line in lines)
    print(f"{good} of {len(lines)} built and VERIFIED, {alike} with the stored tensors; stored: {stored} VERIFIED")
    print(f"{time.process_time() - started:.0f} CPU s")


if __name__ == "__main__":
    main()
