"""What a forger does to the statement of a file, such that it hangs together."""

from __future__ import annotations

import base64
import copy
import json
import zlib

import numpy as np

from forgery.file import NUMBERS, Forgery, Json, Mutation, pick


def divide_claim(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """Bound, exact or rounding part smaller, in the whole statement and in its parts alike, with what follows."""
    if "certificate" not in f.sections:
        return None
    factor, what = pick(rng, [2, 10, 1000, 1e6]), pick(rng, [NUMBERS, NUMBERS, ("exact",), ("rounding",)])
    before = f.bound
    whole, *parts = f.statements()
    for places in (whole, *parts):
        for name in what:
            if name in places:
                owner, key = places[name]
                f.restate(places[name], owner[key] / factor)
    if "bound" not in what:
        sizes = [places[key] for places, key in (whole[name] for name in NUMBERS[1:])]
        f.restate(whole["bound"], float(np.nextafter(sum(sizes), np.inf)))
    _follow(f, f.bound / before if before else 1.0)
    return f"{', '.join(what)} / {factor:g}"


def _follow(f: Forgery, factor: float) -> None:
    """What a forger changes along with a bound: the error seen, and quantities that are shares of the bound."""
    seen = f.said["told"] if f.new else f.said
    if seen.get("lower"):
        seen["lower"] = 0.0
    for name in f.quantities:
        if name.startswith("relative") or name in ("prediction_bound", "link_error"):
            f.quantities[name] *= factor


def divide_with_quantities(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """The bound smaller, and a quantity that it is made of made smaller, or larger, too."""
    if "certificate" not in f.sections or not f.quantities:
        return None
    factor, name = pick(rng, [1.5, 2, 10, 1000]), pick(rng, sorted(f.quantities))
    for places in f.statements():
        for owner, key in places.values():
            f.restate((owner, key), owner[key] / factor)
    _follow(f, 1 / factor)
    if isinstance(f.quantities[name], (int, float)):
        f.quantities[name] *= pick(rng, [1 / factor, factor])
    return f"all / {factor:g}, {name} with it"


def between_points(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """The bound between the points of a table, smaller in all its forms."""
    between = f.claim.get("between") if "certificate" in f.sections else None
    if not isinstance(between, dict):
        return None
    factor = pick(rng, [2, 10, 1000])
    for owner in (between, between.get("parts", {})):
        for key in [k for k, v in owner.items() if isinstance(v, float) and k not in ("lower", "seconds")]:
            owner[key] /= factor
            if key in between["hex"]:
                between["hex"][key] = owner[key].hex()
    for seen in (between, f.said.get("told", {}).get("between", {})):
        if "lower" in seen:
            seen["lower"] = 0.0
    return f"between / {factor}"


def shrink_domain(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """The certificate on a part of the box; a formula may then be anything outside of it."""
    if not f.by_boxes or f.domain is None:
        return None
    name = pick(rng, f.domain)
    low, high = f.domain[name]
    share = 10.0 ** rng.uniform(-4, -0.3)
    middle, half = (low + high) / 2, (high - low) / 2 * share
    f.restate_domain(name, middle - half, middle + half)
    what = f"domain of {name} to {share:.1e}"
    if f.target["kind"] == "expression" and rng.random() < 0.5:
        term = f"1000*max({name} - {middle + half!r}, 0)"
        set_text(f, ", ".join(f"{text} + {term}" for text in _outputs(f.target["text"])))
        what += ", 1000 times off outside"
    if rng.random() < 0.5:
        what += _own_tree(f, rng)
    return what


def _outputs(text: str) -> list[str]:
    """A formula's outputs: split at the commas outside of brackets."""
    depth, parts = 0, [""]
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def set_text(f: Forgery, text: str) -> None:
    f.set_target({**f.target, "text": text})


def _own_tree(f: Forgery, rng: np.random.Generator) -> str:
    """No tree, or a single leaf, in the place of the stored one."""
    single = base64.b64encode(zlib.compress(b"\xff")).decode()
    tree = pick(rng, [None, single])
    pieces = f.pieces
    for piece in pieces:
        if not f.new:
            piece["tree"] = tree
        elif tree is None:
            piece.pop("tree", None)
            piece["step"] = "gates"
        else:
            piece |= {"step": "boxes", "tree": tree}
    if not f.new:
        f.said["boxes"] = 0 if tree is None else len(pieces)
    return ", no tree" if tree is None else ", one leaf"


def other_tree(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    return _own_tree(f, rng) if f.by_boxes else None


def widen_domain(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """Box and domain, the box alone, or the domain alone."""
    if not f.by_boxes or f.domain is None:
        return None
    name, way = pick(rng, f.domain), pick(rng, ["both", "box", "domain"])
    low, high = f.domain[name]
    by = (high - low) * 10.0 ** rng.uniform(-3, 9)
    if way != "box":
        f.restate_domain(name, low, high + by)
    if way != "domain":
        f.sections["model"]["box"][name] = [low, high + by]
    return f"{way} of {name} wider by {by:.1e}"


def widen_set_of_others(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """The range that a closed form speaks of, wherever it is written, its sentence included."""
    target = f.sections.get("target")
    if not isinstance(target, dict) or target.get("kind") == "expression" or "certificate" not in f.sections:
        return None
    sizes = target["sizes"] if isinstance(target.get("sizes"), dict) else target
    ranges = ("box", "x_bound", "y_bound", "w_bound", "score_bound", "rate_bound", "max_rows", "longest", "items")
    names = [
        n
        for n in (*ranges, "limit", "radius", "x_max", "y_max", "w_max", "width", "low", "high", "side")
        if sizes.get(n)
    ]
    if not names:
        return None
    name, factor = pick(rng, names), pick(rng, [2, 10, 1000, 0.5])
    if isinstance(sizes[name], dict):
        return None
    before = sizes[name]
    after = (np.array(before) * factor).tolist()
    after = type(before)(after) if isinstance(before, (int, float)) else after
    text = json.dumps(f.sections)
    text = text.replace(f'"{name}": {json.dumps(before)}', f'"{name}": {json.dumps(after)}')
    if isinstance(before, (int, float)):
        for old, new in (
            (f"<= {before:g}", f"<= {after:g}"),
            (f"to {before:g}", f"to {after:g}"),
            (f" {before} r", f" {after} r"),
        ):
            text = text.replace(old, new)
    f.sections = json.loads(text)
    if isinstance(after, list) and f.new and f.claim["set"].get("kind") == "box":
        f.claim["set"] |= {"low": after[0], "high": after[1]}
    return f"{name} * {factor}"


def move_certificate(f: Forgery, rng: np.random.Generator, others: list[Forgery]) -> str | None:
    """Another file's certificate, with its target or with this file's."""
    same = [o for o in others if o.name != f.name and "certificate" in o.sections]
    alike = [o for o in same if o.kind == f.kind]
    other = pick(rng, alike if alike and rng.random() < 0.8 else same)
    f.sections["certificate"] = copy.deepcopy(other.sections["certificate"])
    if rng.random() < 0.5:
        f.sections["target"] = copy.deepcopy(other.sections["target"])
    elif rng.random() < 0.7:
        f.set_target(f.sections["target"])
    f.claim["dtype"] = f.sections["model"].get("dtype", f.claim["dtype"])
    return f"certificate of {other.name}"


def change_formula(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """Another formula near the first, in target and certificate alike."""
    target = f.sections.get("target")
    if not isinstance(target, dict) or "certificate" not in f.sections:
        return None
    sizes = target.get("sizes")
    home = sizes if isinstance(sizes, dict) and isinstance(sizes.get("formula"), str) else target
    key = "formula" if home is sizes else "text"
    text = home.get(key)
    if not text or (key == "text" and target.get("kind") != "expression"):
        return None
    small = 10.0 ** rng.uniform(-6, 1)
    names = target.get("variables") or ["x"]
    ways = [f"({part}) + {small!r}*{pick(rng, names)}" for part in _outputs(text)]
    words = [("sin", "cos"), ("exp", "cosh"), ("max", "min"), ("abs", "sin"), ("+", "-"), ("2", "3"), ("x", "(-x)")]
    words = [pair for pair in words if pair[0] in text]
    other = text.replace(*pick(rng, words)) if words and rng.random() < 0.6 else ", ".join(ways)
    if key == "text":
        set_text(f, other)
    else:
        f.sections = json.loads(json.dumps(f.sections).replace(json.dumps(text)[1:-1], json.dumps(other)[1:-1]))
    return f"{text} -> {other}"


def change_statement(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """Norm, exponent, engine, arithmetic, order, hypotheses: what kind of statement it is."""
    if "certificate" not in f.sections:
        return None
    ways: list[tuple[dict[str, Json], str, list[Json]]] = [
        (f.claim, "norm", ["sup", "Lp", "L2", "digits"]),
        (f.claim, "p", [None, 1.0, 2.0, 1e9, 0.5]),
        (f.claim, "engine", ["sdpa", "factorised", "any", "gpu"]),
        (f.claim, "dtype", ["float32", "float64"]),
    ]
    if f.new:
        ways += [(f.claim, "arithmetic", ["real", "float64 as run", "float32 as run"])]
        ways += [(f.claim, "runtimes", [[], ["gpu"]]), (f.claim, "premises", [[], ["none"]]), (f.said, "trust", [[]])]
        ways += [(step, "order", [0, 1, 3, 30]) for step in f.said["evidence"]]
    else:
        ways += [
            (f.said, "order", [0, 1, 3, 30, -1]),
            (f.said, "boxes", [0, 1, -1]),
            (f.said, "assumptions", [[], ["x"]]),
        ]
    owner, name, values = pick(rng, [way for way in ways if way[1] in way[0]])
    before = owner[name]
    owner[name] = pick(rng, values)
    if name == "norm" and "p" in owner:
        owner["p"] = None if owner[name] == "sup" else 2.0
    return f"{name}: {before!r} -> {owner[name]!r}" if owner[name] != before else None


def rename_variable(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """A variable under another name everywhere: one that is a constant, a function, or looks like another."""
    if not f.by_boxes or f.domain is None or f.target["kind"] != "expression":
        return None
    old, new = pick(rng, f.domain), pick(rng, ["e", "pi", "sin", "х", "x y", "_", "lambda", "where", "x1"])
    if old in ("e", "x1"):
        return None
    text = json.dumps(f.sections)
    f.sections = json.loads(text.replace(f'"{old}"', json.dumps(new)))
    words = f.sections["target"]["text"].replace("exp", "\0").replace("max", "\1")
    set_text(f, words.replace(old, new).replace("\0", "exp").replace("\1", "max"))
    return f"{old} renamed {new!r}"


STATEMENTS: tuple[Mutation, ...] = (
    divide_claim,
    divide_with_quantities,
    between_points,
    shrink_domain,
    widen_domain,
    widen_set_of_others,
    other_tree,
    move_certificate,
    change_formula,
    change_statement,
    rename_variable,
)
