"""One function for several processors, compiled by name, and the choice between them.

gcc and clang on x86-64 with Linux compile the lines of a network once for every processor, once for those with AVX2 and
fused products, and, where they are not many, once more for those with AVX-512: these read constants out of memory as
they compute, have twice as many registers, and vectors of 64 bytes where exps fill more than one of 32. A call asks
which it runs on, which is a number to load and to compare. Points of the box that have a way of their own
(`near/heads.py`) take it in every version, unless -DSOFTWRIGHT_HEADS leaves it out; all others come to a function of
their own, which nothing keeps room for.
"""

from __future__ import annotations

from dataclasses import dataclass

from softwright.export.near.lines import NEARBY


@dataclass(frozen=True)
class Way:
    """Functions that points run through first: for wide vectors and for narrow ones; where they may be called, if not
    everywhere; and whether they say themselves if they had an answer."""

    wide: str
    narrow: str
    inside: str
    says: bool


def versions(usual: int, head: str, arguments: list[str], way: Way | None, small: bool, wide: bool) -> list[str]:
    """The functions; the usual length of a sequence, if there is one, is a number in each."""
    if way is not None:
        return _first(head, way)

    def version(name: str, attribute: str, which: str) -> list[str]:
        n, *rest = arguments
        call = [f"  {which}({', '.join(arguments)});"]
        if usual:
            call = [f"  if ({n} == {usual}) {which}({', '.join([str(usual), *rest])});", f"  else{call[0][1:]}"]
        return [f"{attribute}static {head.replace('SOFTWRIGHT_NAME', name)}", "{", *call, "}"]

    lines = ["#ifdef SOFTWRIGHT_FAST", *version("softwright_fast", "SOFTWRIGHT_FAST ", "softwright_any"), "#endif"]
    if small:
        which = "softwright_wide_any" if wide else "softwright_any"
        lines += ["#ifdef SOFTWRIGHT_WIDE", *version("softwright_wide", "SOFTWRIGHT_WIDE ", which), "#endif"]
    return [*lines, *version("softwright_run", "", "softwright_any")]


def chosen(arguments: list[str], small: bool) -> list[str]:
    """The lines that choose, the last of which is written elsewhere."""
    wide = ("WIDE", "softwright_wide", ["avx512f", "avx512vl", "avx512dq"])
    lines = []
    for macro, name, parts in [*([wide] if small else []), ("FAST", "softwright_fast", ["avx2", "fma"])]:
        supported = " && ".join(f'__builtin_cpu_supports("{part}")' for part in parts)
        call = [f"  if ({supported}) {{", f"    {name}({', '.join(arguments)});", "    return;", "  }"]
        lines += [f"#ifdef SOFTWRIGHT_{macro}", *call, "#endif"]
    return lines


def _first(head: str, way: Way) -> list[str]:
    """The same where points have a way of their own; that of all others stays out of its function, which needs no room
    on the stack then."""

    def version(name: str, which: str, attributes: str, rest: str) -> list[str]:
        begin = f"{attributes}static {head.replace('SOFTWRIGHT_NAME', name)}"
        first = [f"  if ({way.inside}) {{", f"    {which}(x, y);", "    return;", "  }"]
        if way.says:
            first = [f"  if ({f'{way.inside} && ' if way.inside else ''}{which}(x, y)) return;"]
        guarded = [NEARBY if way.inside else "#ifndef SOFTWRIGHT_HEADS", *first, "#endif"]
        return [begin, "{", *guarded, f"  {rest}(x, y);", "}"]

    def apart(name: str, attributes: str) -> list[str]:
        return [f"{attributes}static {head.replace('SOFTWRIGHT_NAME', name)}", "{", "  softwright_any(x, y);", "}"]

    fast, wide = "SOFTWRIGHT_FAST ", "SOFTWRIGHT_WIDE "
    lines = [
        "#ifdef SOFTWRIGHT_FAST",
        *apart("softwright_far_fast", f"{fast}__attribute__((noinline)) "),
        *version("softwright_fast", way.narrow, fast, "softwright_far_fast"),
    ]
    lines += ["#ifdef SOFTWRIGHT_WIDE", *version("softwright_wide", way.wide, wide, "softwright_far_fast"), "#endif"]
    return [*lines, "#endif", *version("softwright_run", way.narrow, "", "softwright_any")]
