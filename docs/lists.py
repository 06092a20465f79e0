"""Lists in the documentation that are made from the library's own tables, so that a new row appears by itself.

Between "<!-- list NAME -->" and "<!-- end -->" stands what the function of that name returns. `refresh_outputs.py`
writes the lists of all pages; a test demands that they are as the tables say.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from softwright.approximation.catalogue import STRATEGIES, names_in_words
from softwright.methods.methods import METHODS
from softwright.targets.formula.definitions import DEFINED
from softwright.targets.formula.functions import ROWS
from softwright.targets.formula.parser import FUNCTIONS
from softwright.targets.mlp import ACTIVATIONS
from softwright.targets.mlp.activation_row import Spelling

CHECKER = Path(__file__).resolve().parent.parent / "src" / "softwright" / "checker"
LIST = re.compile(r"<!-- list (.+?) -->.*?<!-- end -->", re.DOTALL)


def strategies() -> str:
    """One line per strategy, with its page."""
    rows = [row for row in STRATEGIES.values() if row.name != "auto"]
    return "\n".join(f"- [{row.name}](strategies/{row.name}.md): {row.summary}" for row in rows)


def functions() -> str:
    """One line per function of formulas: how it is written and what it means."""
    written = {f"{row.name}({', '.join(row.example)})": row.meaning for row in ROWS}
    written |= {f"{row.name}({', '.join(row.parameters)})": f"`{row.text}`" for row in DEFINED.values()}
    written |= {"min(x, y, ...)": "smallest of two or more", "max(x, y, ...)": "largest of two or more"}
    written |= {"where(condition, x, y)": "`x if condition else y`"}
    lines = [f"| `{form}` | {written[form]} |" for form in sorted(written)]
    return "\n".join(["| function | meaning |", "|---|---|", *lines])


def function_names() -> str:
    return " ".join(FUNCTIONS)


def activations() -> str:
    """One line per activation: how torch and ONNX write it, and how many tokens its head has."""
    lines = ["| activation | torch | ONNX | tokens |", "|---|---|---|---|"]
    for row in ACTIVATIONS.values():
        torch, onnx = (", ".join(dict.fromkeys(map(_spelt, spellings))) for spellings in (row.torch, row.onnx))
        exact = () if row.tokens is None else row.tokens("float64", *row.parameters.values())
        tokens = str(len(exact)) if exact else ", ".join(map(str, sorted(row.shapes)))
        name = f"{row.name}({', '.join(row.parameters)})" if row.parameters else row.name
        lines.append(f"| {name} | {torch or 'not there'} | {onnx or 'spelt out'} | {tokens} |")
    return "\n".join(lines)


def _spelt(spelling: Spelling) -> str:
    option = "" if spelling.only is None or spelling.only[1] == spelling.only[2] else f"({spelling.only[1]!r})"
    return f"`{getattr(spelling.call, '__name__', spelling.call)}{option}`"


def methods() -> str:
    """One line per method in context: what it minimises, its solvers, and the estimator with the same answer."""
    lines = ["| method | objective | solvers (default first) | scikit-learn |", "|---|---|---|---|"]
    for row in METHODS.values():
        objective = row.objective.split(", s =")[0].replace("|", "\\|")
        solvers = ", ".join(f"`{solver}`" for solver in row.solvers)
        peer = "none" if row.peer is None else f"`{row.peer.place.partition(':')[2]}({row.peer.shown})`"
        lines.append(f"| `{row.name}` | {objective} | {solvers} | {peer} |")
    return "\n".join(lines)


# step of the evidence -> the file of the checker that proves it again
REPROOFS = {
    "boxes, gates, points, cells": "parts",
    "memory": "memory.recall",
    "layers": "transpiled.statement",
    "solver": "in_context.statement",
    "compose": "composition.statement",
    "theorem": "theorems.table",
}
COMMON = {"verify", "claims", "subject", "trust", "verdict", "closed", "proved"}
COMMON |= {"entries", "limits", "refusal", "precision"}


def checker_sizes() -> str:
    """How many lines of the checker a verdict about each step rests on, with all that they import."""
    rows = {"common to all steps": COMMON} | {step: _imported(start) - COMMON for step, start in REPROOFS.items()}
    rows["all together"] = COMMON.union(*rows.values())
    lines = ["| step | files | lines |", "|---|---|---|"]
    for step, names in rows.items():
        size = sum(len(_source(name).splitlines()) for name in names)
        lines.append(f"| {step} | {len(names)} | {round(size, -2):,} |")
    return "\n".join(lines)


def _source(name: str) -> str:
    return (CHECKER / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")


def _imported(start: str) -> set[str]:
    """The files of the checker that one of them needs, itself included."""
    found, pending = set(), [start]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            for module, names in re.findall(
                r"^from softwright\.checker(\.[\w.]+)? import (\([^)]*\)|.*)$", _source(name), re.M
            ):
                inside = [f"{module}.{each}".strip(".") for each in re.findall(r"\w+", names)]
                files = [
                    each
                    for each in (module.strip("."), *inside)
                    if (CHECKER / f"{each.replace('.', '/')}.py").is_file()
                ]
                pending += files
    return found


LISTS: dict[str, Callable[[], str]] = {
    "activations": activations,
    "checker sizes": checker_sizes,
    "methods": methods,
    "strategies": strategies,
    "strategy names": names_in_words,
    "functions": functions,
    "function names": function_names,
}


def refresh_lists(text: str) -> str:
    """The page with all its lists made anew."""

    def made(match: re.Match[str]) -> str:
        name, content = match.group(1), LISTS[match.group(1)]()
        border = "\n" if "\n" in content else ""
        return f"<!-- list {name} -->{border}{content}{border}<!-- end -->"

    return LIST.sub(made, text)
