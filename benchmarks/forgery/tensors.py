"""What a forger does to the tensors of a file.

A mutation changes a `Forgery` in place and returns what it did in a few words, or None if it does not apply. The file
is signed again afterwards: the hash protects nobody from who can compute it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from forgery.file import Forgery, Mutation, pick


def _tensor(forgery: Forgery, rng: np.random.Generator, floating: bool = True) -> str | None:
    names = [n for n, a in sorted(forgery.tensors.items()) if a.size and (a.dtype.kind == "f" or not floating)]
    return pick(rng, names) if names else None


def negate(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    name = _tensor(f, rng)
    if name is None:
        return None
    f.tensors[name] = -f.tensors[name]
    return f"-{name}"


def negate_part(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """One row, column or entry."""
    name = _tensor(f, rng)
    if name is None:
        return None
    array = f.tensors[name] = f.tensors[name].copy()
    axis = int(rng.integers(array.ndim)) if array.ndim else 0
    index: Any = [slice(None)] * array.ndim
    if array.ndim:
        index[axis] = int(rng.integers(array.shape[axis]))
    array[tuple(index)] *= -1
    return f"-{name}[{index}]"


def rescale(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    name = _tensor(f, rng)
    if name is None:
        return None
    factor = pick(rng, [0.0, 0.5, 2.0, 4.0, 10.0, 1e3, 1e-3, 1.001, 0.999])
    f.tensors[name] = (f.tensors[name] * factor).astype(f.tensors[name].dtype)
    return f"{name} * {factor}"


def nudge(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """One entry, by anything from its last digit to as much again."""
    name = _tensor(f, rng)
    if name is None:
        return None
    array = f.tensors[name] = f.tensors[name].copy()
    at = tuple(int(rng.integers(n)) for n in array.shape)
    by = pick(rng, [-1, 1]) * 10.0 ** rng.uniform(-14, 0.5)
    array[at] = array[at] * (1 + by) + (by if rng.random() < 0.3 else 0.0)
    return f"{name}{list(at)} by {by:.1e}"


def permute(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    name = _tensor(f, rng, floating=False)
    if name is None or f.tensors[name].ndim == 0:
        return None
    array = f.tensors[name]
    axis = int(rng.integers(array.ndim))
    order = rng.permutation(array.shape[axis]) if rng.random() < 0.6 else np.arange(array.shape[axis])[::-1]
    f.tensors[name] = np.take(array, order, axis=axis)
    return f"{name} permuted along {axis}"


def exchange(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """Two tensors of the same shape change places."""
    pairs = [(a, b) for a in f.tensors for b in f.tensors if a < b and f.tensors[a].shape == f.tensors[b].shape != (0,)]
    if not pairs:
        return None
    a, b = pick(rng, sorted(pairs))
    f.tensors[a], f.tensors[b] = f.tensors[b], f.tensors[a]
    return f"{a} <-> {b}"


def _alias(name: str, rng: np.random.Generator) -> str:
    """A name that careless reading takes for the same."""
    digits = [i for i, c in enumerate(name) if c.isdigit()]
    ways = [name + " ", name.upper(), f"module.{name}", name + "\u200b", name.replace(".", "..", 1)]
    if digits:
        i = pick(rng, digits)
        ways += [name[:i] + "0" + name[i:]] * 3 + [name[:i] + chr(0x0660 + int(name[i])) + name[i + 1 :]] * 3
    return pick(rng, ways)


def rename(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    name = pick(rng, sorted(f.tensors))
    other = _alias(name, rng)
    if other == name or other in f.tensors:
        return None
    f.tensors[other] = f.tensors.pop(name)
    return f"{name} renamed {other!r}"


def shadow(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """The honest tensor under an alias, another under the true name; or the other way round."""
    name = _tensor(f, rng)
    if name is None:
        return None
    other = _alias(name, rng)
    if other == name or other in f.tensors:
        return None
    honest, false = f.tensors[name], (f.tensors[name] * 3 + 1).astype(f.tensors[name].dtype)
    aside = rng.random() < 0.5
    f.tensors[name], f.tensors[other] = (honest, false) if aside else (false, honest)
    return f"{other!r} beside {'an honest' if aside else 'a false'} {name}"


def add_tensor(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    name = pick(rng, ["extra", "layer.heads.99.values", "layer.heads.0.weights", "steps.9.bias", "bias", ""])
    if name in f.tensors:
        return None
    f.tensors[name] = np.ones((2, 1), dtype=np.float64)
    return f"{name!r} added"


def drop_tensor(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    name = pick(rng, sorted(f.tensors))
    del f.tensors[name]
    return f"{name} dropped"


def reshape(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    name = _tensor(f, rng, floating=False)
    if name is None:
        return None
    array = f.tensors[name]
    ways = [array.ravel(), array[None], array[..., None], array.T, array[:1] if array.ndim else array]
    f.tensors[name] = pick(rng, ways)
    return f"{name} {array.shape} -> {f.tensors[name].shape}" if f.tensors[name].shape != array.shape else None


def retype(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    kind = pick(rng, ["float16", "float32", "float64", "int64"])
    names = sorted(f.tensors) if rng.random() < 0.5 else [pick(rng, sorted(f.tensors))]
    if all(f.tensors[name].dtype == kind for name in names):
        return None
    with np.errstate(all="ignore"):
        f.tensors |= {name: f.tensors[name].astype(kind) for name in names}
    if len(names) > 1 and rng.random() < 0.7:
        for section in ("model", "certificate", "plan"):
            if isinstance(f.sections.get(section), dict) and "dtype" in f.sections[section]:
                f.sections[section]["dtype"] = kind
    return f"{names[0] if len(names) == 1 else 'all'} as {kind}"


def special_value(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    name = _tensor(f, rng)
    if name is None:
        return None
    array = f.tensors[name] = f.tensors[name].copy()
    value = pick(rng, [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e30, 1e-40, -0.0, 0.0])
    with np.errstate(all="ignore"):
        array[tuple(int(rng.integers(n)) for n in array.shape)] = value
        if rng.random() < 0.2:
            array[...] = value
    return f"{value} in {name}"


def drop_token(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """The last or first token of a head, or item of a memory, is cut off all its tensors."""
    groups = sorted({name.rpartition(".")[0] for name in f.tensors if "." in name})
    group = pick(rng, groups) if groups else ""
    names = [n for n in f.tensors if n.startswith(f"{group}.") and f.tensors[n].ndim]
    longest = max((len(f.tensors[n]) for n in names), default=0)
    if longest < 2:
        return None
    cut = slice(0, -1) if rng.random() < 0.5 else slice(1, None)
    f.tensors |= {n: f.tensors[n][cut] for n in names if len(f.tensors[n]) == longest}
    return f"a token of {group} cut"


TENSORS: tuple[Mutation, ...] = (
    negate,
    negate_part,
    rescale,
    nudge,
    permute,
    exchange,
    rename,
    shadow,
    add_tensor,
    drop_tensor,
    reshape,
    retype,
    special_value,
    drop_token,
)
