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


def ulp(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """One entry, or all, by their last digit."""
    name = _tensor(f, rng)
    if name is None:
        return None
    array = f.tensors[name] = f.tensors[name].copy()
    towards = array.dtype.type(pick(rng, [np.inf, -np.inf, 0.0]))
    at: Any = ... if rng.random() < 0.3 else tuple(int(rng.integers(n)) for n in array.shape)
    array[at] = np.nextafter(array[at], towards)
    return f"{name}{'' if at is ... else list(at)} by one ulp"


def transpose(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """Two axes change places; the shape may fit all the same."""
    found = {n: np.swapaxes(a, -1, -2) for n, a in sorted(f.tensors.items()) if a.ndim > 1}
    square = {n: a for n, a in found.items() if a.shape == f.tensors[n].shape and not np.array_equal(a, f.tensors[n])}
    found = square or {n: a for n, a in found.items() if a.shape != f.tensors[n].shape}
    if not found:
        return None
    name = pick(rng, found)
    f.tensors[name] = found[name].copy()
    return f"{name} transposed"


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


# --------------------------------------------------------------------------------- changes that compensate each other


def permute_together(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """One order for every axis of one length, in all tensors, in those of a group, or in all but one."""
    lengths = sorted({n for a in f.tensors.values() for n in a.shape if n > 1})
    if not lengths:
        return None
    n, groups = pick(rng, lengths), sorted({name.rpartition(".")[0] for name in f.tensors})
    group = pick(rng, ["", *groups])
    order = rng.permutation(n) if rng.random() < 0.6 else np.arange(n)[::-1]
    names = [name for name in sorted(f.tensors) if name.startswith(group) and n in f.tensors[name].shape]
    if len(names) > 1 and rng.random() < 0.4:
        names.remove(pick(rng, names))
    for name in names:
        axes = [i for i, size in enumerate(f.tensors[name].shape) if size == n]
        f.tensors[name] = np.take(f.tensors[name], order, axis=pick(rng, axes))
    return f"axes of length {n} of {group or 'all'} in another order" if names else None


def scale_two(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """One tensor, or one row of it, times a power of two and another divided by it."""
    one, two = _tensor(f, rng), _tensor(f, rng)
    if one is None or two is None or one == two:
        return None
    factor = pick(rng, [0.5, 2.0, 4.0, 1024.0, -1.0, -2.0])
    for name, by in ((one, factor), (two, 1 / factor if rng.random() < 0.7 else factor)):
        f.tensors[name] = (f.tensors[name] * by).astype(f.tensors[name].dtype)
    return f"{one} * {factor}, {two} the other way"


def shift_all(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """The same number added to all entries, or to all rows: what a softmax does not see, and values do."""
    name = _tensor(f, rng)
    if name is None:
        return None
    array, size = f.tensors[name], float(np.abs(f.tensors[name]).max()) + 1.0
    by = pick(rng, [-1, 1]) * size * 10.0 ** rng.uniform(-9, 3)
    more = by if array.ndim < 2 or rng.random() < 0.5 else by * rng.normal(size=array.shape[1:])
    with np.errstate(all="ignore"):
        f.tensors[name] = (array + more).astype(array.dtype)
    return f"{name} + {by:.1e}"


def opposite(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """Two tensors or entries changed by the same amount with opposite signs: sums stay as they are."""
    name = _tensor(f, rng)
    if name is None or f.tensors[name].size < 2:
        return None
    array = f.tensors[name] = f.tensors[name].copy()
    i, j = (int(k) for k in rng.choice(array.size, 2, replace=False))
    by = array.dtype.type((float(np.abs(array).max()) + 1e-3) * 10.0 ** rng.uniform(-6, 0.5))
    flat = array.reshape(-1)
    flat[i], flat[j] = flat[i] + by, flat[j] - by
    return f"{name}: {by:.1e} from entry {j} to entry {i}"


def borrow(f: Forgery, rng: np.random.Generator, others: list[Forgery]) -> str | None:
    """A tensor of the same name and shape from another file."""
    found = [
        (o, n)
        for o in others
        if o.name != f.name
        for n, a in o.tensors.items()
        if n in f.tensors and a.shape == f.tensors[n].shape and not np.array_equal(a, f.tensors[n])
    ]
    if not found:
        return None
    other, name = pick(rng, found)
    f.tensors[name] = other.tensors[name].astype(f.tensors[name].dtype)
    return f"{name} of {other.name}"


TENSORS: tuple[Mutation, ...] = (
    negate,
    negate_part,
    rescale,
    nudge,
    ulp,
    transpose,
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
    permute_together,
    scale_two,
    shift_all,
    opposite,
    borrow,
)
