"""What is done to bytes, texts and JSON to make them hostile; every choice is drawn from one generator."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

MARK = "h0stile_c4nary"  # stands in every payload: code that holds it and is compiled or run was ours
CODE = (
    f"__import__('os').system('echo {MARK}')",
    f"(lambda: open('{MARK}', 'w'))()",
    f'exec("{MARK} = 1")',
    f"().__class__.__bases__[0].__subclasses__() or {MARK!r}",
    f"[{MARK} for {MARK} in (1,)]",
    f'f\'{{__import__("subprocess").run(["{MARK}"])}}\'',
    f"$(touch {MARK})",
    f"`touch {MARK}`; {MARK}",
    f"%({MARK})s{{{MARK}.__class__}}",
    f"!!python/object/apply:os.system ['{MARK}']",
    f"cos\nsystem\n(S'{MARK}'\ntR.",
)
ODD = (
    "", " ", "\x00", "\x1b[2J\x1b[31m", "\r\n", "\u202e\u2066", "\ud800", "e\u0301" * 50, "\U0001f9e8" * 20,
    "\u0660\u0661",
    "\uff11\uff0b\uff11", "\u00b2", "x" * 10_000, "9" * 5_000, "1e99999", "-1e-99999", "nan", "inf", "-0", "0x10",
    "1_000",
    "None", "True", "[]", "{}", "../../../etc/passwd", "/dev/zero", "/dev/stdin", "-", "--", "-o", "C:\\con", "a\tb",
    '"', "'",
    "\\", "\ufeff", "\u2028", "%s%n", "NaN\n", "1,2", "1;2",
)  # fmt: skip
WRONG: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**400, 1e308, -1e308, 5e-324, float("nan"), float("inf"),
    0.5,
    "", [], {}, [[]], [None], {"": None}, [[[[]]]], "\x00", "float16", [1e999],
)  # fmt: skip


def text(rng: np.random.Generator) -> str:
    """A hostile text: code, odd characters, or random ones."""
    match rng.integers(4):
        case 0:
            return str(rng.choice(CODE))
        case 1:
            return ODD[rng.integers(len(ODD))]
        case 2:
            return "".join(map(chr, rng.integers(0, rng.choice([128, 0x3000, 0xD7FF]), rng.integers(1, 60))))
        case _:
            return text(rng) + text(rng)


def value(rng: np.random.Generator, depth: int = 0) -> Any:
    """A value that JSON can hold, and that nobody expects."""
    match rng.integers(6):
        case 0 | 1:
            return WRONG[rng.integers(len(WRONG))]
        case 2:
            return text(rng)
        case 3 if depth < 3:
            return [value(rng, depth + 1) for _ in range(rng.integers(4))]
        case 4 if depth < 3:
            return {text(rng): value(rng, depth + 1) for _ in range(rng.integers(4))}
        case _:
            return float(rng.normal() * 10.0 ** rng.integers(-320, 308))


def changed(rng: np.random.Generator, content: Any) -> Any:
    """A copy of a JSON value with one entry changed, removed, added, doubled or put elsewhere."""
    if not isinstance(content, dict | list) or not content or rng.random() < 0.1:
        return value(rng)
    copy: Any = dict(content) if isinstance(content, dict) else list(content)
    place = list(copy)[rng.integers(len(copy))] if isinstance(copy, dict) else int(rng.integers(len(copy)))
    match rng.integers(8):
        case 0:
            del copy[place]
        case 1 if isinstance(copy, dict):
            copy[text(rng)] = value(rng)
        case 1:
            copy.insert(place, value(rng))
        case 2 if isinstance(copy, dict):
            copy[text(rng)] = copy.pop(place)
        case 3:
            copy[place] = value(rng)
        case _:
            copy[place] = changed(rng, copy[place])
    return copy


def garbled(rng: np.random.Generator, content: bytes) -> bytes:
    """Bytes with one to four things done to them."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        size = len(data)
        a, b = sorted(int(n) for n in rng.integers(0, size + 1, 2))
        match rng.integers(9):
            case 0:  # flipped bits
                for place in rng.integers(0, max(size, 1), min(size, int(rng.integers(1, 20)))):
                    data[place] ^= 1 << int(rng.integers(8))
            case 1:  # cut short
                del data[a:]
            case 2:  # a piece left out
                del data[a:b]
            case 3:  # a piece twice
                data[b:b] = data[a : min(b, a + 1000)]
            case 4:  # two pieces exchanged
                data = data[b:] + data[a:b] + data[:a]
            case 5:  # zeros or ones
                data[a : min(b, a + 64)] = bytes([int(rng.choice([0, 255]))]) * (min(b, a + 64) - a)
            case 6:  # a size that is not true
                huge = int(rng.choice([0, 1, 2**31 - 1, 2**32 - 1, 2**40]))
                form = "<Q" if rng.random() < 0.5 else "<I"
                data[a : a + struct.calcsize(form)] = struct.pack(form, huge % 2 ** (8 * struct.calcsize(form)))
            case 7:  # something else
                data[a:a] = text(rng).encode("utf-8", "surrogatepass")
            case _:
                data[a:a] = rng.bytes(int(rng.integers(1, 200)))
    return bytes(data)
