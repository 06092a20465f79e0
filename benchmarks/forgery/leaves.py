"""What a forger does to a file leaf by leaf: its JSON, and the bytes that hold it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable

import numpy as np

from forgery.file import Forgery, Json, Mutation, Place, dotted, leaves, parent, pick


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
    place = f.sections[name]
    while isinstance(place, dict) and rng.random() < 0.5:  # in an object further down
        inner = [value for value in place.values() if isinstance(value, dict)]
        if not inner:
            break
        place = pick(rng, inner)
    key = pick(rng, ["note", "bound ", "Bound", "p", "between", "domain2", "box", "\x1b[2K"])
    if key in place:
        return None
    place[key] = pick(rng, [0.0, "x", None, [], {"x": [-1, 1]}])
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


def change_everywhere(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """A number or a word changed wherever the file says it, in texts and in hexadecimal too."""
    path = _leaf(f, rng)
    before = parent(f.sections, path)[path[-1]]
    after = _other(before, rng)
    if isinstance(before, bool) or before is None or type(after) is not type(before) or after == before:
        return None
    text = json.dumps(f.sections)
    text = text.replace(json.dumps(before), json.dumps(after))
    if isinstance(before, float) and isinstance(after, float):
        text = text.replace(before.hex(), after.hex()).replace(f" {before:g}", f" {after:g}")
    elif isinstance(before, int):
        text = text.replace(f" {before} ", f" {after} ")
    try:
        f.sections = json.loads(text)
    except ValueError:
        return None
    return f"{dotted(path)} and all that is the same: {before!r} -> {after!r}"[:160]


def swap_branches(f: Forgery, rng: np.random.Generator, others: list[Forgery]) -> str | None:
    """A branch of the JSON from another file of the kind, at the same place."""
    other = pick(rng, [o for o in others if o.kind == f.kind and o.name != f.name] or [f])
    path = _leaf(f, rng)
    path = path[: max(1, len(path) - int(rng.integers(0, 3)))]
    try:
        value = copy.deepcopy(parent(other.sections, path)[path[-1]])
        parent(f.sections, path)[path[-1]] = value
    except (LookupError, TypeError):
        return None
    if path[0] == "target" and "certificate" in f.sections:
        f.set_target(f.sections["target"])
    return f"{dotted(path)} of {other.name}"


def move_point(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """A number, one ulp away, as another type, or as zero with a sign."""
    paths = [p for p in leaves(f.sections) if p and type(parent(f.sections, p)[p[-1]]) in (int, float)]
    path = pick(rng, paths)
    place, before = parent(f.sections, path), parent(f.sections, path)[path[-1]]
    ways = [float(before), -0.0, int(before), float(np.nextafter(before, np.inf)), float(np.nextafter(before, -np.inf))]
    place[path[-1]] = pick(rng, ways)
    return f"{dotted(path)}: {before!r} -> {place[path[-1]]!r}"


# ------------------------------------------------------------------------------------------------------- bytes of files


def unknown_section(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    name = pick(rng, ["note", "Certificate", "certificate ", "certificate\u200b", "format", "statement", ""])
    f.texts[name] = pick(rng, [json.dumps(f.sections.get("certificate")), "pt", "{}", ""])
    return f"a section {name!r}"


def _header(content: bytes, change: Callable[[str], str]) -> bytes:
    """The file with another header of JSON text; offsets count from its end, so the data stays where it is."""
    size = int.from_bytes(content[:8], "little")
    header = change(content[8 : 8 + size].decode()).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


def change_bytes(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """The container: a tensor or the metadata twice, bytes that belong to nobody, types that are other names."""
    name = json.dumps(pick(rng, sorted(f.tensors)))
    way = pick(rng, ["tensor twice", "metadata twice", "more bytes", "fewer bytes", "type", "blanks", "overlap"])

    def changed(text: str) -> str:
        data = json.loads(text)
        key = json.loads(name)
        if way == "tensor twice":
            return f"{{{name}: {json.dumps(data[key])}, {text[1:]}"
        if way == "metadata twice":
            return f'{{"__metadata__": {json.dumps(data["__metadata__"])}, {text[1:]}'
        if way == "type":
            data[key]["dtype"] = pick(rng, ["F64", "F32", "I64", "F16", "BF16", "U8"])
        if way == "overlap":
            other = pick(rng, sorted(f.tensors))
            data[key]["data_offsets"] = data[other]["data_offsets"]
        return (" " if way == "blanks" else "") + json.dumps(data)

    if way == "more bytes":
        f.raw.append(lambda content: content + b"\0" * 8)
    elif way == "fewer bytes":
        f.raw.append(lambda content: content[:-1])
    else:
        f.raw.append(lambda content: _header(content, changed))
    return f"{way} ({name})"


LEAVES: tuple[Mutation, ...] = (
    change_leaf,
    change_everywhere,
    swap_branches,
    remove_leaf,
    swap_leaves,
    add_leaf,
    duplicate_key,
    odd_number,
    move_point,
    unknown_section,
    change_bytes,
)
