"""Outcomes: a sentence each, and nothing in the library that looks into a sentence."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from softwright.proof.question import MOST_VARIABLES, Certification
from softwright.result.outcome import Outcome

SOURCE = Path(__file__).resolve().parents[2] / "src" / "softwright"
# Variables and fields that hold what users read. A program that looks for words in them changes when they are reworded.
SENTENCES = {"reason", "reasons", "message", "unproved", "fault", "faults", "error", "detail", "statement"}
LOOKING = {"startswith", "endswith", "find", "index", "count", "split", "partition"}


def _name(node: ast.AST) -> str:
    """The last name of a variable or attribute, through str(...) and subscripts; empty for anything else."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("str", "repr") and node.args:
        return _name(node.args[0])
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def peeks(tree: ast.AST) -> Iterator[int]:
    """Lines on which a sentence is searched for words: "rounding" in reason, message.startswith("undecided")."""
    for node in ast.walk(tree):
        found = False
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            found = _is_text(node.left) and _name(node.comparators[0]) in SENTENCES
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOOKING:
            found = any(map(_is_text, node.args)) and _name(node.func.value) in SENTENCES
        if found and isinstance(node, ast.expr):
            yield node.lineno


def test_nothing_decides_by_the_wording_of_a_message() -> None:
    modules = sorted(SOURCE.rglob("*.py"))
    assert len(modules) > 20
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in modules
        for line in peeks(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_the_search_for_such_places_finds_them() -> None:
    bad = (
        'if "rounding" in result.reason: pass\n'
        'if "x" not in str(error): pass\n'
        'built.unproved.startswith("undecided")\n'
        '[r for reason in plan.reasons if "jumps" in reason]\n'
        "if fault in error.faults: pass\n"  # whether a sentence is in a list, not a word in a sentence
        'text.startswith(" -")\n'
    )
    assert list(peeks(ast.parse(bad))) == [1, 2, 3, 4]


def test_every_outcome_is_one_sentence_of_its_own() -> None:
    assert len({outcome.value for outcome in Outcome}) == len(Outcome)
    for outcome in Outcome:
        assert outcome.value and "\n" not in outcome.value and not outcome.value.endswith(".")
    assert str(MOST_VARIABLES) in Outcome.TOO_MANY_VARIABLES.value


def test_status_and_reason_follow_from_the_outcome() -> None:
    for outcome in Outcome:
        found = Certification(outcome, 1.0, 0.5)
        assert found.proved is (found.status == "proved") is (outcome is Outcome.PROVED)
        assert (found.status == "undecided") is (found.reason == outcome.value)
    assert Certification(Outcome.ROUNDING, 1.0, 0.5, detail="float32 alone needs 2").reason == "float32 alone needs 2"
    assert Certification(Outcome.PROVED, 1.0, 0.5, detail="no matter").reason == ""
