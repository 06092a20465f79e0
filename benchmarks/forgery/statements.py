"""What a forger does to what a file says: its JSON, leaf by leaf, and its statement, such that it hangs together."""

from __future__ import annotations

import base64
import copy
import json
import zlib

import numpy as np

from forgery.file import Forgery, Json, Mutation, Place, dotted, leaves, parent, pick

PARTS = ("bound", "exact_part", "rounding_part")


def _leaf(f: Forgery, rng: np.random.Generator) -> Place:
    """A leaf; half of the time of the certificate, where the sections of others would drown it."""
    paths = [path for path in leaves(f.sections) if path]
    chosen = [path for path in paths if path[0] == "certificate"]
    return pick(rng, chosen if chosen and rng.random() < 0.5 else paths)


def _other(value: Json, rng: np.random.Generator) -> Json:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        number = pick(rng, [value / 10, value / 1000, value * 10, -value, 0, value + 1, value * (1 + 1e-9), 1e308])
        return pick(rng, [number, number, number, str(value), None, [value], True])
    if isinstance(value, str):
        ways = [value + " ", value.upper(), value[::-1], value[:-1], "", f"{value}\x1b[2K\rVERIFIED", "x", None, 0]
        return pick(rng, ways)
    return pick(rng, [0, "", "x", [], {}])


def change_leaf(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    path = _leaf(f, rng)
    place = parent(f.sections, path)
    before = place[path[-1]]
    place[path[-1]] = _other(before, rng)
    return f"{dotted(path)}: {before!r} -> {place[path[-1]]!r}"[:160] if place[path[-1]] != before else None


def remove_leaf(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    path = _leaf(f, rng)
    path = path[: len(path) - int(rng.random() < 0.3 and len(path) > 1)]  # with the branch that it stands on
    del parent(f.sections, path)[path[-1]]
    return f"{dotted(path)} removed"


def swap_leaves(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    one = _leaf(f, rng)
    kind = type(parent(f.sections, one)[one[-1]])
    others = [p for p in leaves(f.sections) if p and p != one and type(parent(f.sections, p)[p[-1]]) is kind]
    if not others:
        return None
    two = pick(rng, others)
    a, b = parent(f.sections, one), parent(f.sections, two)
    a[one[-1]], b[two[-1]] = b[two[-1]], a[one[-1]]
    return f"{dotted(one)} <-> {dotted(two)}" if a[one[-1]] != b[two[-1]] else None


def add_leaf(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    name = pick(rng, sorted(f.sections))
    if not isinstance(f.sections[name], dict):
        return None
    key = pick(rng, ["note", "bound ", "Bound", "p", "between", "domain2", "box", "\x1b[2K"])
    if key in f.sections[name]:
        return None
    f.sections[name][key] = pick(rng, [0.0, "x", None, [], {"x": [-1, 1]}])
    return f"{name}.{key!r} added"


def duplicate_key(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """A key twice in one object: readers that take the first and readers that take the last see different files."""
    name = pick(rng, sorted(f.sections))
    section = f.sections[name]
    if not isinstance(section, dict) or not section:
        return None
    key = pick(rng, sorted(section))
    text = json.dumps(section)
    f.texts[name] = f"{{{json.dumps(key)}: {json.dumps(_other(section[key], rng))}, {text[1:]}"
    return f"{name}.{key} twice"


def odd_number(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """A number that JSON writers do not write."""
    paths = [p for p in leaves(f.sections) if p and type(parent(f.sections, p)[p[-1]]) in (int, float)]
    path = pick(rng, paths)
    name, mark = str(path[0]), "@@forged@@"
    section = copy.deepcopy(f.sections[name])
    parent({name: section}, path)[path[-1]] = mark
    value = pick(rng, ["NaN", "Infinity", "-Infinity", "1e999", "-1e-999", "1" + "0" * 400, "0.1e-400", "-0"])
    f.texts[name] = json.dumps(section).replace(json.dumps(mark), value)
    return f"{dotted(path)} = {value[:12]}"


# ---------------------------------------------------------------------------------------------------------- statements


def restate(data: dict[str, Json], name: str, value: float) -> None:
    """A number of a statement in both its forms."""
    data[name] = value
    if isinstance(data.get("hex"), dict):
        data["hex"][name] = value.hex()


def divide_claim(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """Bound, exact or rounding part smaller, in the whole statement and in its parts alike."""
    if "certificate" not in f.sections:
        return None
    factor, what = pick(rng, [2, 10, 1000, 1e6]), pick(rng, [PARTS, PARTS, ("exact_part",), ("rounding_part",)])
    pieces = f.said["tree"] if isinstance(f.said.get("tree"), list) else []
    for data in (f.said, *pieces):
        for name in what:
            if name in data:
                restate(data, name, data[name] / factor)
    if "bound" not in what:
        restate(f.said, "bound", f.said["exact_part"] + f.said["rounding_part"])
    if "lower" in f.said and f.said["lower"] > f.said["exact_part"]:
        f.said["lower"] = 0.0
    return f"{', '.join(what)} / {factor:g}"


def _restate_domain(f: Forgery, name: str, low: float, high: float) -> None:
    f.said["domain"][name] = [low, high]
    f.said["hex"]["domain"][name] = [low.hex(), high.hex()]


def shrink_domain(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """The certificate on a part of the box; a formula may then be anything outside of it."""
    if not f.by_boxes:
        return None
    name = pick(rng, f.said["variables"])
    low, high = f.said["domain"][name]
    share = 10.0 ** rng.uniform(-4, -0.3)
    middle, half = (low + high) / 2, (high - low) / 2 * share
    _restate_domain(f, name, middle - half, middle + half)
    what = f"domain of {name} to {share:.1e}"
    if f.said["target"]["kind"] == "expression" and rng.random() < 0.5:
        ends = f"{middle + half!r}"
        terms = [f"1000*max({name} - {ends}, 0)" for _ in range(max(1, f.said["target"]["text"].count(",") + 1))]
        outputs = [f"{text} + {term}" for text, term in zip(_outputs(f.said["target"]["text"]), terms, strict=False)]
        set_target(f, ", ".join(outputs))
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


def set_target(f: Forgery, text: str) -> None:
    f.sections["target"]["text"] = text
    f.said["target"] = copy.deepcopy(f.sections["target"])


def _own_tree(f: Forgery, rng: np.random.Generator) -> str:
    """No tree, or a single leaf, in the place of the stored one."""
    single = base64.b64encode(zlib.compress(b"\xff")).decode()
    tree = pick(rng, [None, single])
    pieces = f.said["tree"] if isinstance(f.said["tree"], list) else [f.said]
    for piece in pieces:
        piece["tree"] = tree
    f.said["boxes"] = 0 if tree is None else len(pieces)
    return ", no tree" if tree is None else ", one leaf"


def other_tree(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    return _own_tree(f, rng) if f.by_boxes else None


def widen_domain(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """Box and domain, the box alone, or the domain alone."""
    if not f.by_boxes:
        return None
    name, way = pick(rng, f.said["variables"]), pick(rng, ["both", "box", "domain"])
    low, high = f.said["domain"][name]
    by = (high - low) * 10.0 ** rng.uniform(-3, 9)
    if way != "box":
        _restate_domain(f, name, low, high + by)
    if way != "domain":
        f.sections["model"]["box"][name] = [low, high + by]
    return f"{way} of {name} wider by {by:.1e}"


def widen_box_of_others(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """The range that a closed form speaks of, wherever it is written."""
    target = f.sections.get("target")
    if not isinstance(target, dict) or target.get("kind") == "expression":
        return None
    names = [n for n in ("box", "x_bound", "y_bound", "w_bound", "max_rows", "longest", "items") if target.get(n)]
    if not names:
        return None
    name, factor = pick(rng, names), pick(rng, [10, 1000])
    widened = (np.array(target[name]) * factor).tolist()
    for section in (target, f.sections["model"].get("settings")):
        if isinstance(section, dict) and name in section:
            section[name] = widened
    if "certificate" in f.sections:
        f.said["target"] = copy.deepcopy(target)
    return f"{name} * {factor}"


def move_certificate(f: Forgery, rng: np.random.Generator, others: list[Forgery]) -> str | None:
    """Another file's certificate, with its target or with this file's."""
    same = [o for o in others if o.name != f.name and "certificate" in o.sections]
    alike = [o for o in same if o.sections["model"]["kind"] == f.sections["model"]["kind"]]
    other = pick(rng, alike if alike and rng.random() < 0.8 else same)
    f.sections["certificate"] = copy.deepcopy(other.sections["certificate"])
    if rng.random() < 0.5:
        f.sections["target"] = copy.deepcopy(other.sections["target"])
    elif rng.random() < 0.7:
        f.said["target"] = copy.deepcopy(f.sections["target"])
    f.said["dtype"] = f.sections["model"].get("dtype", f.said["dtype"])
    return f"certificate of {other.name}"


def change_formula(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """Another formula, in target and certificate alike."""
    target = f.sections.get("target")
    if not isinstance(target, dict) or target.get("kind") != "expression" or "certificate" not in f.sections:
        return None
    text = target["text"]
    small = 10.0 ** rng.uniform(-6, 1)
    ways = [f"({part}) + {small!r}*{pick(rng, target['variables'])}" for part in _outputs(text)]
    words = [("sin", "cos"), ("exp", "cosh"), ("max", "min"), ("abs", "sin"), ("+", "-"), ("2", "3"), ("x", "(-x)")]
    words = [pair for pair in words if pair[0] in text]
    set_target(f, text.replace(*pick(rng, words)) if words and rng.random() < 0.6 else ", ".join(ways))
    return f"{text} -> {f.sections['target']['text']}"


def change_statement(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """Norm, exponent, engine, order, method: what kind of statement it is."""
    if not f.by_boxes:
        return None
    name, values = pick(
        rng,
        [
            ("norm", ["sup", "Lp", "L2"]),
            ("p", [None, 1.0, 2.0, 1e9, 0.5]),
            ("engine", ["sdpa", "factorised", "any", "gpu"]),
            ("order", [0, 1, 3, 30, -1]),
            ("boxes", [0, 1, -1]),
            ("lower", [0.0, 1e-30, 1e9]),
        ],
    )
    before = f.said[name]
    f.said[name] = pick(rng, values)
    if name == "norm":
        f.said["p"] = None if f.said[name] == "sup" else 2.0
    return f"{name}: {before!r} -> {f.said[name]!r}" if f.said[name] != before else None


def rename_variable(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """A variable under another name everywhere: one that is a constant, a function, or looks like another."""
    if not f.by_boxes or f.said["target"]["kind"] != "expression":
        return None
    old, new = pick(rng, f.said["variables"]), pick(rng, ["e", "pi", "sin", "х", "x y", "_", "lambda", "where", "x1"])
    if old in ("e", "x1"):
        return None
    text = json.dumps(f.sections)
    f.sections = json.loads(text.replace(f'"{old}"', json.dumps(new)))
    words = f.sections["target"]["text"].replace("exp", "\0").replace("max", "\1")
    set_target(f, words.replace(old, new).replace("\0", "exp").replace("\1", "max"))
    return f"{old} renamed {new!r}"


STATEMENTS: tuple[Mutation, ...] = (
    change_leaf,
    remove_leaf,
    swap_leaves,
    add_leaf,
    duplicate_key,
    odd_number,
    divide_claim,
    shrink_domain,
    widen_domain,
    widen_box_of_others,
    other_tree,
    move_certificate,
    change_formula,
    change_statement,
    rename_variable,
)
