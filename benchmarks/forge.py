"""Does `verify` ever say VERIFIED of a false file? Files of every kind are forged, signed again and judged.

    python benchmarks/forge.py                    20,000 forgeries of the stored files of version 1
    python benchmarks/forge.py --count 500        fewer
    python benchmarks/forge.py --keep FOLDER      writes every false file that was VERIFIED there

Each trial takes a stored file, changes it by one mutation (`forgery/tensors.py`, `forgery/statements.py`), in one of
four trials by a second one too, signs it and asks `verify`. What is VERIFIED is judged by `forgery/truth.py`. Besides,
some forgeries that were once accepted are tried by name. Two runs with one seed are equal.

A false VERIFIED is a file that errs by more than it claims somewhere in its model's box, or that `load` does not take,
or takes for something else. Of a memory the checker says itself that which sequences its keys belong to is the word of
the builder; forgeries that only break this are counted apart ("word"), and so are true files that could be read in
another way or draw on a terminal ("odd"), and the leaves of the JSON that may say anything.
"""

from __future__ import annotations

import argparse
import collections
import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from forgery.file import Forgery, Mutation, dotted, leaves, parent
from forgery.statements import STATEMENTS, restate, set_target
from forgery.tensors import TENSORS
from forgery.truth import CannotJudge, Claim, Falsehood, falsehood, oddity

import softwright as sw
from softwright.fileformat import read_model

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 10  # that a verdict may take
MUTATIONS: dict[str, Mutation] = {function.__name__: function for function in (*TENSORS, *STATEMENTS)}
PROVED = ("VERIFIED", "VERIFIED ON A PART")
VERDICTS = ("NOT VERIFIED", "VERIFIED GIVEN", *PROVED, "FALSE", "odd", "word", "unjudged", "raised", "slow")


class TooSlow(Exception):
    """A verdict took more than `SECONDS`."""


@cache
def _asking() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """How stored files are asked: the same code that stored the answers."""
    sys.path.insert(0, str(ROOT))
    module = import_module("tests.data.write")
    return module.answer, module.plain


@dataclass
class Base:
    """A stored file with what it was asked and answered, and its verdict."""

    file: Forgery
    status: str
    questions: dict[str, Any]
    engines: list[str]
    answers: list[Any]
    bound: float

    def asked(self, built: sw.Built) -> list[Any]:
        """The answers of a network to the questions that the file was stored with."""
        answer, plain = _asking()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [answer(built, self.questions, engine) for engine in self.engines]
        return [out if isinstance(out, np.ndarray) else json.loads(json.dumps(plain(out))) for out in found]


@dataclass
class Tally:
    """What became of the forgeries, by kind of mutation."""

    counts: dict[str, collections.Counter[str]] = field(
        default_factory=lambda: collections.defaultdict(collections.Counter)
    )
    causes: dict[tuple[str, str], collections.Counter[str]] = field(
        default_factory=lambda: collections.defaultdict(collections.Counter)
    )
    examples: dict[tuple[str, str, str], str] = field(default_factory=dict)
    unchecked: collections.Counter[str] = field(default_factory=collections.Counter)
    slowest: float = 0.0

    def add(self, kind: str, verdict: str, why: Falsehood, example: str) -> None:
        self.counts[kind][verdict] += 1
        if why.cause:
            self.causes[verdict, why.cause][kind] += 1
            self.examples.setdefault((verdict, why.cause, kind), f"{example} ({why.detail})")

    @property
    def false(self) -> int:
        return sum(counter["FALSE"] for counter in self.counts.values())

    def report(self) -> str:
        lines = [f"| mutation | tried | {' | '.join(VERDICTS)} |", f"|---|{'---|' * (len(VERDICTS) + 1)}"]
        everything: collections.Counter[str] = collections.Counter()
        for kind, counter in [*self.counts.items(), ("**all**", everything)]:
            lines.append(f"| {kind} | {counter.total()} | {' | '.join(str(counter[v] or '') for v in VERDICTS)} |")
            everything.update(counter)
        lines += ["", f"slowest verdict {self.slowest:.1f} s; causes, most frequent first, with an example each:"]
        for (verdict, cause), kinds in sorted(self.causes.items(), key=lambda item: -item[1].total()):
            lines.append(f"- {verdict}, {cause}: {kinds.total()}")
            lines += [f"  - {kind}, {n}: {self.examples[verdict, cause, kind]}" for kind, n in kinds.most_common()]
        said = ", ".join(f"{path} ({times})" for path, times in self.unchecked.most_common())
        return "\n".join([*lines, "", f"leaves that may say anything in a VERIFIED file: {said or 'none'}"])


def stored_files(place: Path) -> list[Base]:
    """The stored files of version 1 that a checker does not refuse."""
    folder = ROOT / "tests" / "data" / "v1"
    with zipfile.ZipFile(folder / "files.zip") as archive:
        archive.extractall(place)
    arrays = np.load(folder / "answers.npz", allow_pickle=False)
    bases = []
    for name, said in json.loads((folder / "expected.json").read_text("utf-8")).items():
        if said.get("status") not in ("VERIFIED", "VERIFIED GIVEN"):
            continue
        file = read_model(place / f"{name}.safetensors")
        questions = {} if said["questions"] is None else {"": said["questions"]}
        for key in arrays.files:
            owner, argument, *engine = key.split("|")
            if owner == name and not engine:
                questions[argument] = arrays[key]
        answers = [
            arrays[f"{name}||{engine}"] if f"{name}||{engine}" in arrays.files else said["answers"][engine]
            for engine in said["engines"]
        ]
        forgery = Forgery(name, dict(file.tensors), dict(file.sections))
        bound = file.sections["certificate"]["bound"]
        bases.append(Base(forgery, said["status"], questions, said["engines"], answers, bound))
    return bases


def verdict_of(path: Path, tally: Tally) -> tuple[str, Falsehood]:
    """What `verify` says, or that it raised or did not come to an end."""

    def stop(*_: Any) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, stop)  # seconds of this process, however busy the machine is
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    started = time.process_time()
    try:
        return sw.verify(path).status, Falsehood("")
    except TooSlow:
        return "slow", Falsehood(f"no verdict within {SECONDS} s")
    except Exception as error:  # a checker answers; whatever it raises is a fault
        return "raised", Falsehood(f"{type(error).__name__} in verify", str(error)[:150])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        tally.slowest = max(tally.slowest, time.process_time() - started)


def judged(path: Path, base: Base, tally: Tally) -> tuple[str, Falsehood]:
    """The verdict, and of a VERIFIED file whether it is false and why."""
    status, nothing = verdict_of(path, tally)
    if status not in PROVED:
        return status, nothing
    file = read_model(path)
    part = status == "VERIFIED ON A PART"
    claim = Claim(path, file.tensors, file.sections, base.asked, base.answers, base.bound, part)
    try:
        why = falsehood(claim)
        if why is None and file.sections["model"]["kind"] == "memory":
            now = base.asked(sw.load(path))
            pairs = [[x.tolist() if isinstance(x, np.ndarray) else x for x in given] for given in (now, base.answers)]
            if pairs[0] != pairs[1]:
                return "word", Falsehood("the stored sequences are not recalled")
    except CannotJudge as error:
        return "unjudged", Falsehood("beyond the judge", str(error)[:150])
    except Exception as error:
        return "FALSE", Falsehood("the loaded network raises", f"{type(error).__name__}: {error}"[:150])
    if why is not None:
        return "FALSE", why
    odd = oddity(path)
    return (status, nothing) if odd is None else ("odd", odd)


def apply(
    mutation: Mutation, file: Forgery, rng: np.random.Generator, files: list[Forgery]
) -> tuple[Forgery, str] | None:
    """A forgery and what was done; None where the mutation does not apply or changes nothing."""
    forgery = copy.deepcopy(file)
    note = mutation(forgery, rng, files)
    return None if note is None or forgery.content == file.content else (forgery, note)


def forge(bases: list[Base], count: int, seed: int, place: Path, keep: Path | None, tally: Tally) -> None:
    """`count` forgeries: each kind of mutation in turn, on a file to which it applies."""
    files, kinds, path = [base.file for base in bases], list(MUTATIONS), place / "forged.safetensors"
    # Files that are VERIFIED are worth more attacks than those of which nothing more than VERIFIED GIVEN is ever said.
    chances = np.array([3.0 if base.status == "VERIFIED" else 1.0 for base in bases])
    for trial in range(count):
        rng, kind = np.random.default_rng([seed, trial]), kinds[trial % len(kinds)]
        for i in rng.choice(len(bases), size=len(bases), replace=False, p=chances / chances.sum()):
            if (applied := apply(MUTATIONS[kind], files[i], rng, files)) is not None:
                break
        else:
            continue
        (forgery, note), base, name = applied, bases[i], kind
        if rng.random() < 0.25:
            second = kinds[int(rng.integers(len(kinds)))]
            try:
                more = MUTATIONS[second](forgery, rng, files)
            except (LookupError, TypeError, ValueError, AttributeError):  # what the first left over
                more = None
            if more is not None:
                note, name = f"{kind}: {note}; {second}: {more}", "two mutations"
        forgery.sign()
        forgery.write(path)
        verdict, why = judged(path, base, tally)
        tally.add(name, verdict, why, f"{forgery.name}, {note}")
        if verdict == "FALSE" and keep is not None:
            shutil.copyfile(path, keep / f"{seed}-{trial}-{kind}.safetensors")


# ------------------------------------------------------------------------------------------------- forgeries by name


def mirrored(f: Forgery) -> None:
    """The sign of the scale: the box of t is the same, its orientation is not."""
    f.tensors["scale"] = -f.tensors["scale"]


def part_of_the_box(f: Forgery) -> None:
    """A certificate on a thousandth of the box, and a formula that is right there alone."""
    f.said["domain"]["x"] = [-0.001, 0.001]
    f.said["hex"]["domain"]["x"] = [(-0.001).hex(), (0.001).hex()]
    f.said["tree"], f.said["boxes"] = None, 0
    set_target(f, f"{f.sections['target']['text']} + 1000*max(x - 0.001, 0)")


def wider_box(f: Forgery) -> None:
    """Nothing but the box in the header."""
    f.sections["model"]["box"]["x"] = [-1e9, 1e9]


def overflowing(f: Forgery) -> None:
    """float32 gates so hard that scores overflow; what is added to all biases cancels in real arithmetic alone."""
    names = [f"layer.heads.0.{name}" for name in ("keys", "biases")]
    factor = 3.3e38 / max(float(np.abs(f.tensors[name]).max()) for name in names)
    f.tensors |= {name: (f.tensors[name] * np.float32(factor)).astype("float32") for name in names}
    f.tensors[names[1]] = f.tensors[names[1]] + np.float32(1.5e38)


def variable_e(f: Forgery) -> None:
    text = json.dumps(f.sections)
    f.sections = json.loads(text.replace('"x"', '"e"'))
    set_target(f, f.sections["target"]["text"].replace("x", "e"))


def a_thousandth(f: Forgery) -> None:
    """The bound of a closed form that no file can re-prove."""
    for name in ("bound", "exact_part", "rounding_part"):
        restate(f.said, name, f.said[name] / 1024)


NAMED: tuple[tuple[str, Callable[[Forgery], None]], ...] = (
    ("approximation-relative-float64", mirrored),
    ("approximation-affine-text-float32", mirrored),
    ("approximation-sum-float64", mirrored),
    ("approximation-spectral-float64", part_of_the_box),
    ("approximation-spectral-float64", wider_box),
    ("approximation-pieces-gates-float32", overflowing),
    ("approximation-spectral-float64", variable_e),
    ("transpiled-relu-float64", a_thousandth),
    ("in_context-ridge-gradient-float64", a_thousandth),
    ("theorem-B1", a_thousandth),
)


def named(bases: list[Base], place: Path, tally: Tally) -> None:
    """Forgeries that an older checker accepted."""
    by_name = {base.file.name: base for base in bases}
    path = place / "named.safetensors"
    for name, change in NAMED:
        forgery = copy.deepcopy(by_name[name].file)
        change(forgery)
        forgery.sign()
        forgery.write(path)
        verdict, why = judged(path, by_name[name], tally)
        tally.add(f"by name: {change.__name__}", verdict, why, name)
    # The verdict on two tensors of one name must not hang on the order of a set: ask processes with different seeds.
    forgery = copy.deepcopy(by_name["approximation-spectral-float64"].file)
    values = forgery.tensors["layer.heads.0.values"]
    forgery.tensors |= {"layer.heads.00.values": values, "layer.heads.0.values": values + 1000.0}
    forgery.sign()
    forgery.write(path)
    code = f"import softwright as sw; print(sw.verify({str(path)!r}).status)"
    for seed in range(8):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        status = done.stdout.strip()
        false = status in PROVED
        why = Falsehood("a shadow tensor" if false else "")
        tally.add("by name: shadow", "FALSE" if false else status, why, f"seed {seed}")


# One file for every kind of re-proof: a tree, parts, gates, walls, a norm, both readouts of a memory.
READ_LEAF_BY_LEAF = (
    "approximation-spectral-float64",
    "approximation-sum-float64",
    "approximation-pieces-gates-float64",
    "approximation-walls-float64",
    "approximation-certified-L2-float64",
    "memory-values-attention-float64",
    "memory-classes-feedforward-float64",
)


def unchecked_leaves(bases: list[Base], place: Path, tally: Tally) -> None:
    """Every leaf of some files changed alone: where the file stays VERIFIED, the leaf may say anything."""
    path = place / "leaf.safetensors"
    for base in bases:
        if base.file.name not in READ_LEAF_BY_LEAF:
            continue
        for leaf in leaves(base.file.sections):
            forgery = copy.deepcopy(base.file)
            owner, before = parent(forgery.sections, leaf), parent(base.file.sections, leaf)[leaf[-1]]
            number = isinstance(before, (int, float)) and not isinstance(before, bool)
            owner[leaf[-1]] = 0.77 * before + 0.1 if number else f"{before}x"
            if leaf[0] == "target":  # which the certificate repeats
                forgery.said["target"] = copy.deepcopy(forgery.sections["target"])
            forgery.write(path)
            if verdict_of(path, tally)[0] in PROVED:
                kind = base.file.sections["model"]["kind"]
                tally.unchecked[f"{kind} {dotted(tuple('*' if isinstance(k, int) else k for k in leaf))}"] += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for false files that were VERIFIED")
    options = parser.parse_args()
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    tally, started = Tally(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        bases = stored_files(place)
        honest = []
        for base in bases:  # a judge that finds the stored files false would find nothing about forgeries
            verdict, why = judged(place / f"{base.file.name}.safetensors", base, tally)
            tally.add("(unforged)", verdict, why, base.file.name)
            if verdict != "FALSE":
                honest.append(base)
        named(bases, place, tally)
        unchecked_leaves(honest, place, tally)
        forge(honest, options.count, options.seed, place, options.keep, tally)
    print(tally.report())
    print(f"\n{tally.false} false VERIFIED in {options.count} forgeries, {time.perf_counter() - started:.0f} s")
    sys.exit(1 if tally.false else 0)


if __name__ == "__main__":
    main()
