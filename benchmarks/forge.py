"""Does `verify` ever say VERIFIED of a false file? Files of every kind are forged, signed again and judged.

    python benchmarks/forge.py                          20,000 forgeries
    python benchmarks/forge.py --count 500              fewer
    python benchmarks/forge.py --first 5000 --count 500 forgeries 5,000 to 5,500 of the same run
    python benchmarks/forge.py --kind approximation-guard --way change_guard divide_claim      choices of formulas alone
    python benchmarks/forge.py --files FOLDER           keeps the files to forge there, and takes them from there
    python benchmarks/forge.py --save FOLDER            keeps the counts of this piece there, false files beside them
    python benchmarks/forge.py --add FOLDER             one table of all pieces in a folder

Each trial takes a file of a kind in turn, changes it by one mutation (`forgery/tensors.py`, `leaves.py`,
`statements.py`, `composed.py`, `guards.py`), in one of four trials by a second too, signs it and asks `verify`. What
is VERIFIED, on the whole box or a part, or given a hypothesis that is true here, is judged by `judging/`. Besides, some
forgeries that were once accepted are tried by name. Two runs with one seed are equal.

A false VERIFIED is a file that errs by more than it claims somewhere in its set, or that `load` does not take, or takes
for something else. "FALSE GIVEN": false, though what VERIFIED was given is true. A memory's file holds ids, no
sequences, and claims nothing of them: forgeries that give the sequences other ids, or the ids other labels, leave a
true file and are counted apart ("word"), and so are true files that could be read in another way ("odd").
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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from forgery.bases import PROVED, Base, known, new_files, old_files
from forgery.composed import COMPOSED
from forgery.file import Forgery, Mutation
from forgery.guards import GUARDS
from forgery.leaves import LEAVES
from forgery.statements import STATEMENTS, set_text
from forgery.tensors import TENSORS
from forgery.truth import CannotJudge, Claim, Falsehood, falsehood, oddity

import softwright as sw
from softwright.fileformat import read_model

SECONDS = 10  # that a verdict may take
MUTATIONS: dict[str, Mutation] = {
    function.__name__: function for function in (*TENSORS, *LEAVES, *STATEMENTS, *COMPOSED, *GUARDS)
}
VERDICTS = ("NOT VERIFIED", *PROVED, "FALSE", "FALSE GIVEN", "odd", "word", "unjudged", "raised", "slow")


class TooSlow(Exception):
    """A verdict took more than `SECONDS`."""


@dataclass
class Tally:
    """What became of the forgeries, by kind of network, mutation and verdict."""

    counts: collections.Counter[tuple[str, str, str]] = field(default_factory=collections.Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)  # by verdict and cause
    slowest: float = 0.0

    def add(self, kind: str, mutation: str, verdict: str, why: Falsehood, example: str) -> None:
        self.counts[kind, mutation, verdict] += 1
        if why.cause:
            cases = self.examples.setdefault(f"{verdict}: {why.cause}", [])
            cases.append(f"{mutation}, {example} ({why.detail})")

    def count(self, verdict: str) -> int:
        return sum(n for (_, _, found), n in self.counts.items() if found == verdict)

    @property
    def false(self) -> int:
        return self.count("FALSE") + self.count("FALSE GIVEN")

    def update(self, other: Tally) -> None:
        self.counts.update(other.counts)
        for cause, cases in other.examples.items():
            self.examples.setdefault(cause, []).extend(cases)
        self.slowest = max(self.slowest, other.slowest)

    def to_json(self) -> dict[str, Any]:
        counts = [[*key, n] for key, n in sorted(self.counts.items())]
        return {"counts": counts, "examples": self.examples, "slowest": self.slowest}

    @classmethod
    def of_json(cls, data: dict[str, Any]) -> Tally:
        counts = collections.Counter({(kind, way, verdict): n for kind, way, verdict, n in data["counts"]})
        return cls(counts, data["examples"], data["slowest"])

    def report(self) -> str:
        """By kind of network and verdict, by mutation and verdict, and the causes with some examples."""
        return "\n\n".join([self._table(0, "kind"), self._table(1, "mutation"), self._causes()])

    def _table(self, column: int, title: str) -> str:
        rows: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for key, n in self.counts.items():
            rows[key[column]][key[2]] += n
            rows["**all**"][key[2]] += n
        rows["**all**"] = rows.pop("**all**", collections.Counter())
        lines = [f"| {title} | tried | {' | '.join(VERDICTS)} |", f"|---|{'---|' * (len(VERDICTS) + 1)}"]
        for name, counter in rows.items():
            lines.append(f"| {name} | {counter.total()} | {' | '.join(str(counter[v] or '') for v in VERDICTS)} |")
        return "\n".join(lines)

    def _causes(self) -> str:
        lines = [f"slowest verdict {self.slowest:.1f} s; causes, most frequent first, with examples:"]
        for cause, cases in sorted(self.examples.items(), key=lambda item: -len(item[1])):
            lines += [f"- {cause}: {len(cases)}", *(f"  - {case}" for case in cases[:5])]
        return "\n".join(lines)


def verdict_of(path: Path, tally: Tally) -> tuple[str, Falsehood, tuple[str, ...]]:
    """What `verify` says, or that it raised or did not come to an end; and what it is given."""

    def stop(*_: Any) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, stop)  # seconds of this process, however busy the machine is
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    started = time.process_time()
    try:
        verdict = sw.verify(path, max_seconds=SECONDS / 2)
        if verdict.seconds > SECONDS / 2 > time.process_time() - started:  # others had the processor: no verdict yet
            with suppress(TooSlow):
                verdict = sw.verify(path, max_seconds=60 * SECONDS)
        return verdict.status, Falsehood(""), verdict.given
    except TooSlow:
        return "slow", Falsehood(f"no verdict within {SECONDS} s"), ()
    except Exception as error:  # a checker answers; whatever it raises is a fault
        return "raised", Falsehood(f"{type(error).__name__} in verify", str(error)[:150]), ()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        tally.slowest = max(tally.slowest, time.process_time() - started)


def judged(path: Path, base: Base, tally: Tally) -> tuple[str, Falsehood]:
    """The verdict, and of a VERIFIED file whether it is false and why."""
    status, nothing, given = verdict_of(path, tally)
    if status not in PROVED:
        return status, nothing
    file = read_model(path)
    part = status != "VERIFIED"  # which alone speaks of the whole box
    claim = Claim(path, file.tensors, file.sections, part, known(base.file.name), given)
    false = "FALSE GIVEN" if status == "VERIFIED GIVEN" else "FALSE"
    try:
        why = falsehood(claim)
        if why is None and base.file.kind == "memory" and base.asked(sw.load(path)) != base.answers:
            return "word", Falsehood("the stored sequences are not recalled")
    except CannotJudge as error:
        return "unjudged", Falsehood("beyond the judge", str(error)[:150])
    except Exception as error:
        return false, Falsehood("the loaded network raises", f"{type(error).__name__}: {error}"[:150])
    if why is not None:
        return false, why
    odd = oddity(path)
    return (status, nothing) if odd is None else ("odd", odd)


def apply(
    mutation: Mutation, file: Forgery, rng: np.random.Generator, files: list[Forgery]
) -> tuple[Forgery, str] | None:
    """A forgery and what was done; None where the mutation does not apply or changes nothing."""
    forgery = copy.deepcopy(file)
    note = mutation(forgery, rng, files)
    return None if note is None or forgery.content == file.content else (forgery, note)


def forge(
    bases: list[Base],
    first: int,
    count: int,
    seed: int,
    place: Path,
    keep: Path | None,
    tally: Tally,
    ways: Sequence[str] = tuple(MUTATIONS),
) -> None:
    """Forgeries `first` to `first + count`: each kind of network and of mutation in turn, where the latter applies.

    The counts are kept every 500 forgeries: a run that was stopped is taken up where its piece ends.
    """
    files, path = [base.file for base in bases], place / "forged.safetensors"
    kinds = sorted({file.kind for file in files})
    for trial in range(first, first + count):
        rng, way = np.random.default_rng([seed, trial]), ways[(trial // len(kinds)) % len(ways)]
        kind = kinds[trial % len(kinds)]
        order = rng.permutation(len(bases)).tolist()
        for i in sorted(order, key=lambda i: files[i].kind != kind):  # of that kind, if it applies to any of them
            if (applied := apply(MUTATIONS[way], files[i], rng, files)) is not None:
                break
        else:
            continue
        (forgery, note), base, name = applied, bases[i], way
        if rng.random() < 0.25:
            second = ways[int(rng.integers(len(ways)))]
            try:
                more = MUTATIONS[second](forgery, rng, files)
            except (LookupError, TypeError, ValueError, AttributeError):  # what the first left over
                more = None
            if more is not None:
                note, name = f"{way}: {note}; {second}: {more}", "two mutations"
        with suppress(LookupError, TypeError, ValueError, AttributeError):  # where nobody knows where to sign
            forgery.sign()
        forgery.write(path)
        verdict, why = judged(path, base, tally)
        tally.add(base.file.kind, name, verdict, why, f"{trial}: {forgery.name}, {note}")
        if verdict in ("FALSE", "FALSE GIVEN", "raised", "slow", "odd") and keep is not None:
            shutil.copyfile(path, keep / f"{verdict}-{seed}-{trial}-{way}.safetensors")
        done = trial + 1 - first
        if done % 500 == 0 or done == count:
            print(f"{trial + 1}: {tally.false} false, {tally.count('NOT VERIFIED')} not verified", flush=True)
            if keep is not None:
                piece = {**tally.to_json(), "next": trial + 1}
                (keep / f"{seed}-{first}.json").write_text(json.dumps(piece, indent=1), "utf-8")


# ------------------------------------------------------------------------------------------------- forgeries by name


def mirrored(f: Forgery) -> None:
    """The sign of the scale: the box of t is the same, its orientation is not."""
    f.tensors["scale"] = -f.tensors["scale"]


def part_of_the_box(f: Forgery) -> None:
    """A certificate on a thousandth of the box, and a formula that is right there alone."""
    f.restate_domain("x", -0.001, 0.001)
    f.said["tree"], f.said["boxes"] = None, 0
    set_text(f, f"{f.target['text']} + 1000*max(x - 0.001, 0)")


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
    set_text(f, f.sections["target"]["text"].replace("x", "e"))


def a_thousandth(f: Forgery) -> None:
    """The bound of a closed form."""
    for places in f.statements():
        for owner, key in places.values():
            f.restate((owner, key), owner[key] / 1024)


NAMED: tuple[tuple[str, Callable[[Forgery], None]], ...] = (
    ("approximation-relative-float64", mirrored),
    ("approximation-affine-text-float32", mirrored),
    ("approximation-sum-float64", mirrored),
    ("approximation-spectral-float64", part_of_the_box),
    ("approximation-spectral-float64", wider_box),
    ("approximation-pieces-gates-float32", overflowing),
    ("approximation-spectral-float64", variable_e),
    ("in_context-ridge-gradient-float64", a_thousandth),
)


def named(bases: list[Base], place: Path, tally: Tally) -> None:
    """Forgeries that an older checker accepted."""
    by_name = {base.file.name: base for base in reversed(bases)}  # the stored file before that of today
    path = place / "named.safetensors"
    for name, change in NAMED:
        forgery = copy.deepcopy(by_name[name].file)
        change(forgery)
        forgery.sign()
        forgery.write(path)
        verdict, why = judged(path, by_name[name], tally)
        tally.add(forgery.kind, f"by name: {change.__name__}", verdict, why, name)
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
        false = done.stdout.strip() in PROVED
        verdict, why = ("FALSE", "a shadow tensor") if false else (done.stdout.strip(), "")
        tally.add(forgery.kind, "by name: shadow", verdict, Falsehood(why), f"seed {seed}")


def added_up(folder: Path) -> Tally:
    tally = Tally()
    for piece in sorted(folder.glob("*.json")):
        tally.update(Tally.of_json(json.loads(piece.read_text("utf-8"))))
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first forgery, for a run in pieces")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", help="files of one kind alone: approximation, memory, transpiled, ...")
    parser.add_argument("--way", nargs="*", choices=list(MUTATIONS), help="these mutations alone")
    parser.add_argument("--files", type=Path, help="a folder for the files that are forged")
    parser.add_argument("--save", type=Path, help="a folder for the counts of this piece, and for false files")
    parser.add_argument("--add", type=Path, help="a folder of pieces to be added up")
    options = parser.parse_args()
    if options.add is not None:
        tally = added_up(options.add)
        print(tally.report())
        sys.exit(1 if tally.false else 0)
    for folder in (options.save, options.files):
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    tally, started = Tally(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        kept = options.files or place
        bases = [*old_files(place), *new_files(kept, lambda name: name.startswith(options.kind or ""))]
        bases = [base for base in bases if base.file.name.startswith(options.kind or "")]
        honest = []
        for base in bases:  # a judge that finds true files false would find nothing about forgeries
            base.file.write(place / "true.safetensors")
            verdict, why = judged(place / "true.safetensors", base, tally)
            if verdict in PROVED or verdict == "unjudged":
                honest.append(base)
            if options.first == 0:
                tally.add(base.file.kind, "(unforged)", verdict, why, base.file.name)
        print(f"{len(honest)} of {len(bases)} files to forge, {time.process_time() - started:.0f} s", flush=True)
        if options.first == 0 and options.kind is None:
            named(bases, place, tally)
        forge(
            honest,
            options.first,
            options.count,
            options.seed,
            place,
            options.save,
            tally,
            options.way or list(MUTATIONS),
        )
    print(tally.report())
    print(f"\n{tally.false} false VERIFIED in {options.count} forgeries, {time.process_time() - started:.0f} s")
    sys.exit(1 if tally.false else 0)


if __name__ == "__main__":
    main()
