"""Is a false file of a program ever VERIFIED? `python benchmarks/program_attacks.py [--forge N] [--sweep K] ...`

Forgeries change a true file (one weight by a thousandth, a sign, an ulp, two weights exchanged; a leaf of the claim,
the model or the evidence; the text; lengths and fields), sign its digest again and ask `verify`. False claims put the
network of one program under the statement and evidence of another, which differs from it somewhere. What is VERIFIED
is judged by running the network against plain Python's reading of the text it claims (tests/programs/plain_python.py):
off by more than the claimed bound at one token of one sequence, and the file is false. Runs of one seed are equal.
`--sweep K` changes K weights of every matrix of every kind of head, of the embedding, the bank and the readout, one at
a time by a thousandth: each must be caught, or what it does must be covered by the bound. `--kind` takes one group.
"""

from __future__ import annotations

import argparse
import collections
import copy
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

import softwright as sw
from softwright.attention.program import ProgramNetwork
from softwright.checker.verify import reprove
from softwright.fileformat import ModelFile, read_model, weights_sha256
from softwright.programs.fields import Sequence
from softwright.programs.meaning import meaning
from softwright.programs.observe import keep, met
from softwright.programs.reference import Reference

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.programs.plain_python import Plain

TOKENS = sw.Sequence(length=(1, 6), s=sw.Symbols("abc", also="z"), k=sw.Integers(-2, 3), x=(-1, 1))
PYTHON = Fraction(1, 10**12)  # what functions of floats may err by, relatively, in the plain reading
TEXTS = (
    "count(s[j] == s[i])",
    "count(s[j] == 'a' and j <= i)",
    "count(k[j] < k[i])",
    "count(k[j] <= k[i])",
    "sorted(k)[i]",
    "sorted(k, by=-k)[i]",
    "prev(k, 1, default=2)",
    "k[n-1-i]",
    "max(k[j] for s[j] == s[i])",
    "min(k[j] for s[j] == s[i])",
    "sum(k[j] for j <= i)",
    "sum(k[j] for j < i)",
    "table(k, [-2, 0, 1], [4, 2, 1], default=3)",
    "k if count(s[j] == s[i]) > 1 else i",
    "count(k[j] == 1) * count(k[j] == 2)",
    "'z' if any(s[j] == s[i] and j < i) else s",
    "mean((s[j] == 'a') for j <= i)",
    "mean(k[j] for s[j] == s[i])",
    "count(s[j] == s[i]) / n",
    "max(k[j] for j >= i)",
    "min(k[j] for j < i and s[j] == s[i])",
    "mean(k[j] for abs(i - j) <= 1)",
    "k[(i + 1) % n] + 2**(k + 2)",
    "max(x[j] for j < i)",
    "x*mean(x) - exp(x)/(x**2 + 1)",
    "attend(k[j], 2*x[j]*x[i] for j <= i)",
    "mean((x[j] - x[i])**2)",
    "mean((j - (n - 1)/2)*x[j]) - x*k",
    "sum((j + 1)*x[j] for j <= i)/sum(j + 1 for j <= i)",
    "sum(x[j]*cos(j))/n + (-1)**i*x",
    "mean(x[j] for abs(i - j) <= 1) - sum(x[j]*k[j] for j >= i and j < i + 3)",
)
REALS = sw.Sequence(length=(2, 4), x=(-1, 1), y=(-1, 1), t=(0, 1), q=(0, 1))
REAL_TEXTS = (
    "interp(q, t, y, spacing=0.125)",
    "sqrt((x - mean(x))**2 + (y - mean(y))**2)",
    "sqrt(sum(x[j]**2 for j <= i)) - sqrt(max(x) - x)",
    "sorted(x)[i]",
    "sum((x[j] - x[i]) / ((x[j] - x[i])**2 + 0.5))",
    "value(y[j], where=smallest((x[j] - q[i])**2), margin=0.01, count=2)",
    "value(y[j], where=largest(x[j]), margin=0.1)",
    "value(y[j], where=smallest((x[j] - q[i])**2), margin=0.02)",
    "y / assume(mean(q), 0.25, 1)",
    "softmax(2*x), smooth(y, 0.25)",
    "attend(y[j], -4*(x[j] - q[i])**2)",
    "min(x[j] for j <= i), conv(y, [1, -2, 1])",
)
WEIGHT_TEXTS = (
    "mean(x[j] for abs(i - j) <= 1)",
    "sum(x[j] for j > i - 3 and j <= i) + x*i",
    "sum(x[j]*k[j] for j >= i and j <= i + 1) - sum(j*x[j])/n",
    "mean((i - j)*x[j] for j <= i) - x/(i + 1)",
    "sum(x[j]*k[j])/n + x*k",
    "12/(n*n + 1)*mean((j - (n - 1)/2)*x[j])",
    "mean(x[j] for j < i and j > i - 4)",
    "sum(2*x[j] + 1 for j == i + 2)/(i + 2)",
)
GROUPS = {
    "symbols": (TOKENS, TEXTS, ("float64", "float32"), 5e-2),
    "reals": (REALS, REAL_TEXTS, ("float64",), 2e-3),
    "weights": (TOKENS, WEIGHT_TEXTS, ("float64", "float32"), 5e-2),  # known weights, windows of places
}
SWAPS = (("<=", "<"), ("<", "<="), ("==", "!="), ("+", "-"), ("max", "min"), ("min", "max"), ("'a'", "'b'"), ("1", "2"))
SWAPS += (("t, y", "y, t"), ("sqrt", "cbrt"), ("smallest", "largest"), ("0.25", "0.2"), ("mean(", "max("))
SWAPS += (("count", "sum"), ("j", "i"), ("k", "(k + 1)"), ("n-1-i", "n-2-i"), (" and ", " or "), ("/ n", "/ (n + 1)"))
SWAPS += (
    (">=", ">"),
    ("i - 3", "i - 2"),
    ("i + 1", "i"),
    ("abs(i - j)", "(i - j)"),
    ("/n", "/(n + 1)"),
    ("j*x", "i*x"),
)


def files(folder: Path, kind: str) -> dict[tuple[str, str], ModelFile]:
    """A true file of every text in its types."""
    found = {}
    tokens, texts, dtypes, tol = GROUPS[kind]
    for text in texts:
        for dtype in dtypes:
            path = folder / "p.safetensors"
            sw.compile(text, tokens, tol=tol, dtype=dtype, progress=False).save(path)
            found[text, dtype] = read_model(path)
    return found


def signed(tensors: dict[str, np.ndarray], sections: dict[str, Any]) -> ModelFile:
    subject = sections["certificate"]["claim"]["subject"]
    subject["sha256"] = weights_sha256(tensors)
    return ModelFile(tensors, sections)


def is_false(file: ModelFile, rng: np.random.Generator) -> bool:
    """Whether the network is off by more than the claim's bound on some sequence that the claim is about."""
    claim = file.sections["certificate"]["claim"]
    target = claim["reference"]["target"]
    tokens, bound = Sequence.rebuilt(target["tokens"]), Fraction(claim["bound"])
    network = ProgramNetwork.rebuilt(file.sections["model"], file.tensors)
    supposed = any(word in target["text"] for word in ("interp", "margin", "assume"))
    meant = meaning(target["text"], tokens) if supposed else None
    for trial in range(120 if supposed else 40):
        n = tokens.longest if trial % 4 == 0 else int(rng.integers(tokens.shortest, tokens.longest + 1))
        rows = {
            name: rng.uniform(field.low, field.high, n).astype(np.float32).astype(float).tolist()
            if field.kind == "real"
            else [int(c) for c in rng.choice(tokens.codes(name), n)]
            for name, field in tokens.fields.items()
        }
        if trial % 3 == 0:
            rows = {name: [row[0]] * n for name, row in rows.items()}
        if supposed:  # sequences of which the claim speaks alone
            fields = {name: np.array([row], dtype=float) for name, row in rows.items()}
            if meant is None:
                raise AssertionError("the text was read above")
            keep(meant, fields, trial % 6, float(bound), rng)
            with np.errstate(all="ignore"):
                if not met(meant, Reference(tokens, fields)).all():
                    continue
            rows = {name: row[0].tolist() for name, row in fields.items()}
        exact = {name: [Fraction(v) for v in row] for name, row in rows.items()}
        wanted = Plain(target["text"], exact, tokens.symbols).outputs
        x = torch.tensor([[row] for row in rows.values()], dtype=network.dtype).permute(1, 2, 0)
        with torch.no_grad():
            values = network(x)[0].double().numpy()
        for row, found in zip(wanted, values, strict=True):
            for value, number in zip(row, found, strict=True):
                slack = 0 if Fraction(value).denominator == 1 else PYTHON * max(1, abs(Fraction(value)))
                if not np.isfinite(number) or abs(Fraction(float(number)) - Fraction(value)) > bound + slack:
                    return True
    return False


def is_false_claim(file: ModelFile, rng: np.random.Generator) -> bool:
    """Whether a claim is false; one that cannot be judged (its text means nothing, or is of other sequences) is not."""
    try:
        return is_false(file, rng)
    except Exception:
        return False


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    return [path] if items is None else [leaf for key, child in items for leaf in leaves(child, (*path, key))]


def change_weight(tensors: dict[str, np.ndarray], _: dict[str, Any], rng: np.random.Generator) -> str:
    name = sorted(tensors)[int(rng.integers(len(tensors)))]
    array = tensors[name] = tensors[name].copy()
    flat = array.reshape(-1)
    filled = np.flatnonzero(flat)
    place = int(rng.choice(filled)) if len(filled) and rng.random() < 0.9 else int(rng.integers(flat.size))
    way, old = int(rng.integers(5)), flat[place]
    ulp = np.nextafter(old, array.dtype.type(np.inf))
    if way < 4:
        flat[place] = (old * array.dtype.type(1.001) if old else 0.001, -old, ulp, 0.0)[way]
    else:
        other = int(rng.integers(flat.size))
        flat[place], flat[other] = flat[other], old
    return ("weight by a thousandth", "weight's sign", "weight by an ulp", "weight to 0", "weights exchanged")[way]


def change_leaf(_: dict[str, np.ndarray], sections: dict[str, Any], rng: np.random.Generator) -> str:
    said = sections["certificate"]
    roots = {"claim": said["claim"], "evidence": said["evidence"], "model": sections["model"]}
    part = ("claim", "evidence", "model")[int(rng.integers(3))]
    paths = leaves(roots[part])
    path = paths[int(rng.integers(len(paths)))]
    owner = roots[part]
    for key in path[:-1]:
        owner = owner[key]
    old = owner[path[-1]]
    if isinstance(old, bool):
        owner[path[-1]] = not old
    elif isinstance(old, int | float):
        owner[path[-1]] = [old + 1, old - 1, -old, old * 2, 0][int(rng.integers(5))]
    else:
        same = [p for p in paths if p[:1] == path[:1]]
        other: Any = roots[part]
        for key in same[int(rng.integers(len(same)))]:
            other = other[key]
        owner[path[-1]] = other
    return f"leaf of {part}"


def change_text(_: dict[str, np.ndarray], sections: dict[str, Any], rng: np.random.Generator) -> str:
    target = sections["certificate"]["claim"]["reference"]["target"]
    usable = [(a, b) for a, b in SWAPS if a in target["text"]]
    if usable:
        old, new = usable[int(rng.integers(len(usable)))]
        target["text"] = target["text"].replace(old, new, 1)
    sections["target"] = copy.deepcopy(target)
    return "text"


def change_bound(_: dict[str, np.ndarray], sections: dict[str, Any], rng: np.random.Generator) -> str:
    claim = sections["certificate"]["claim"]
    number = float(claim["bound"]) * float(10.0 ** -rng.uniform(0, 12))
    claim["bound"] = claim["parts"]["exact"] = number
    for twin in (claim.get("hex"), claim["parts"].get("hex")):
        if isinstance(twin, dict):
            twin |= {key: number.hex() for key in ("bound", "exact") if key in twin}
    return "bound"


def change_tokens(_: dict[str, np.ndarray], sections: dict[str, Any], rng: np.random.Generator) -> str:
    target = sections["certificate"]["claim"]["reference"]["target"]
    tokens, way = copy.deepcopy(target["tokens"]), int(rng.integers(4))
    if way == 0:
        tokens["length"][1] += int(rng.integers(1, 3))
    elif way == 1:
        tokens["fields"][1]["high"] += 1
    elif way == 2 and "symbols" not in tokens["fields"][0]:
        tokens["fields"][0]["high"] += 0.25
    elif way == 2:
        tokens["fields"][0]["symbols"] = tokens["fields"][0]["symbols"][::-1]
    else:
        tokens["fields"][1]["low"] -= 1
    for place in (target, sections["model"], sections["target"]):
        place["tokens"] = copy.deepcopy(tokens)
    return "tokens"


WAYS = (change_weight, change_weight, change_weight, change_leaf, change_leaf, change_text, change_bound, change_tokens)


def verdict(file: ModelFile) -> bool:
    return reprove(file).verified


def forge(true: dict[tuple[str, str], ModelFile], count: int, seed: int) -> int:
    """Forgeries; how many false ones were verified."""
    tally: collections.Counter[tuple[str, str]] = collections.Counter()
    keys = list(true)
    for trial in range(count):
        rng = np.random.default_rng([seed, trial])
        base = true[keys[trial % len(keys)]]
        tensors, sections = dict(base.tensors), copy.deepcopy(base.sections)
        way = WAYS[int(rng.integers(len(WAYS)))](tensors, sections, rng)
        if rng.random() < 0.25:
            way = f"two: {way}, {WAYS[int(rng.integers(len(WAYS)))](tensors, sections, rng)}"[:4] + "changes"
        try:
            file = signed(tensors, sections)
            good = verdict(file)
        except (LookupError, TypeError, AttributeError):
            tally[way, "raised"] += 1
            continue
        found = "not verified"
        if good:
            found = "FALSE" if is_false(file, rng) else "verified, true"
        tally[way, found] += 1
        if found == "FALSE":
            print(f"FALSE: seed {seed}, trial {trial}, {keys[trial % len(keys)]}, {way}", flush=True)
    for (way, found), number in sorted(tally.items()):
        print(f"  {way:24s} {found:16s} {number:6d}")
    return sum(number for (_, found), number in tally.items() if found == "FALSE")


def claims(true: dict[tuple[str, str], ModelFile], count: int, seed: int) -> tuple[int, int]:
    """False claims, and how many of them were verified."""
    keys, tried, proved, trial = list(true), 0, 0, 0
    while tried < count:
        rng = np.random.default_rng([seed, 7, trial])
        trial += 1
        one, other = (true[keys[int(k)]] for k in rng.choice(len(keys), 2, replace=False))
        sections = copy.deepcopy(other.sections)
        way = int(rng.integers(3))
        if way == 0:  # the network of one, all that is said of another
            sections["model"] = copy.deepcopy(one.sections["model"])
        elif way == 1:  # its own evidence, another text
            sections = copy.deepcopy(one.sections)
            change_text(one.tensors, sections, rng)
        else:  # a bound far below what is there
            sections = copy.deepcopy(one.sections)
            change_bound(one.tensors, sections, rng)
        file = signed(dict(one.tensors), sections)
        if is_false_claim(file, rng):
            tried += 1
            proved += verdict(file)
    return tried, proved


def sweep(true: dict[tuple[str, str], ModelFile], each: int, seed: int) -> int:
    """Weights of every kind, each by a thousandth; how many were neither caught nor covered."""
    tally: collections.Counter[tuple[str, str]] = collections.Counter()
    for number, (key, base) in enumerate(true.items()):
        heads = base.sections["certificate"]["evidence"][0]["parts"]["heads"]
        kinds = {(head["layer"], head["head"]): head["kind"] for head in heads}
        for name, array in base.tensors.items():
            places: dict[str, list[int]] = {}
            for place in np.flatnonzero(array).tolist():
                kind = name
                if name.startswith("layers."):
                    _, layer, part = name.split(".")
                    kind = f"{part} of {kinds[int(layer), int(np.unravel_index(place, array.shape)[0])]}"
                places.setdefault(kind.split("_")[0] if kind.startswith("field_") else kind, []).append(place)
            for kind, found in places.items():
                rng = np.random.default_rng([seed, number, sum(map(ord, name + kind))])
                for place in rng.choice(found, min(each, len(found)), replace=False).tolist():
                    tensors = {one: value.copy() for one, value in base.tensors.items()}
                    tensors[name].reshape(-1)[place] *= array.dtype.type(1.001)
                    file = signed(tensors, copy.deepcopy(base.sections))
                    outcome = "caught"
                    if verdict(file):
                        outcome = "NEITHER" if is_false(file, rng) else "covered"
                    tally[kind, outcome] += 1
                    if outcome == "NEITHER":
                        print(f"NEITHER: {key}, {name}, {place}", flush=True)
    for (kind, outcome), count in sorted(tally.items()):
        print(f"  {kind:24s} {outcome:16s} {count:6d}")
    return sum(count for (_, outcome), count in tally.items() if outcome == "NEITHER")


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--forge", type=int, default=2000)
    reader.add_argument("--claims", type=int, default=500)
    reader.add_argument("--seed", type=int, default=0)
    reader.add_argument("--sweep", type=int, default=0, help="weights of every kind and matrix, by a thousandth")
    reader.add_argument("--kind", choices=list(GROUPS), default=None, help="one group of programs alone")
    options = reader.parse_args()
    torch.set_num_threads(1)
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        kinds = [options.kind] if options.kind else list(GROUPS)
        true = {key: file for kind in kinds for key, file in files(Path(folder), kind).items()}
    wrong = [key for key, file in true.items() if not verdict(file) or is_false(file, np.random.default_rng(1))]
    print(f"{len(true)} true files, {len(wrong)} of them not verified or false: {wrong}", flush=True)
    tried, proved = claims(true, options.claims, options.seed)
    print(f"{tried} false claims, {proved} proved", flush=True)
    if options.sweep:
        wrong += ["a weight"] * sweep(true, options.sweep, options.seed)
    false = forge(true, options.forge, options.seed)
    print(f"{options.forge} forgeries, {false} VERIFIED and false, {time.process_time() - started:.0f} s")
    sys.exit(1 if false or proved or wrong else 0)


if __name__ == "__main__":
    main()
