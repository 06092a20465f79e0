"""Composed networks from file to verdict: proved in both types, and not when the statement says something else."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import softwright as sw
from softwright.checker.verify import reprove
from softwright.fileformat import ModelFile, read_model

CASES = {
    "two products": ("x*y*z", sw.Box(x=(-1, 1), y=(1, 2), z=(0.5, 1.5)), 1e-6),
    "a monomial": ("sqrt(x*y)/(z + x)**2", sw.Box(x=(1, 3), y=(1, 2), z=(0.5, 1.5)), 1e-5),
    "a kink": ("exp(abs(x - y))*cos(z)", sw.Box(x=(-1, 1), y=(-1, 1), z=(-1, 1)), 1e-4),
    "shared tables": ("sin(x) + cos(x)*y", sw.Box(x=(-1, 1), y=(-1, 1)), 1e-6),
    "two outputs": ("x*y, max(x, y**2)", sw.Box(x=(-1, 1), y=(-1, 1)), 1e-4),
    "one variable": ("max(x, x**2)", sw.Box(x=(-1, 1)), 1e-9),
}


@functools.cache
def stored(case: str, dtype: str = "float64") -> ModelFile:
    text, box, tol = CASES[case]
    with TemporaryDirectory() as folder:
        built = sw.approximate(
            text, box, tol=max(tol, 1e-2 if dtype == "float32" else 0), strategy="compose", dtype=dtype
        )
        built.save(path := Path(folder) / "m.safetensors")
        return read_model(path)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES)
def test_what_is_built_is_verified(case: str, dtype: str) -> None:
    verdict = reprove(stored(case, dtype))
    assert verdict.verified, verdict
    assert verdict.boxes > 0
    assert verdict.hypotheses == ("ieee754", "exp-ulp<=4")


def with_change(case: str, change: Any) -> str:
    file = stored(case)
    sections = copy.deepcopy(file.sections)
    change(sections)
    verdict = reprove(ModelFile(file.tensors, sections))
    assert verdict.status == "NOT VERIFIED"
    assert "damaged" not in verdict.reason or "Error" not in verdict.reason, verdict.reason
    return verdict.reason


def claim_bound(factor: float) -> Any:
    def change(sections: dict[str, Any]) -> None:
        claim = sections["certificate"]["claim"]
        numbers = {"exact": claim["parts"]["exact"] * factor, "rounding": claim["parts"]["rounding"]}
        claim["parts"] = numbers
        claim["bound"] = (numbers["exact"] + numbers["rounding"]) * (1 + 1e-12)
        claim["hex"] = {name: float(x).hex() for name, x in {**numbers, "bound": claim["bound"]}.items()}

    return change


def of_formula(text: str) -> Any:
    def change(sections: dict[str, Any]) -> None:
        sections["target"]["text"] = text
        sections["certificate"]["claim"]["reference"]["target"]["text"] = text

    return change


def of_box(high: float) -> Any:
    def change(sections: dict[str, Any]) -> None:
        where = sections["certificate"]["claim"]["set"]
        for box in (where["domain"], sections["model"]["box"]):
            box["x"][1] = high
        where["hex"]["x"][1] = high.hex()

    return change


@pytest.mark.parametrize("case", ["two products", "a monomial", "a kink"])
def test_a_smaller_bound_is_not_proved(case: str) -> None:
    assert "not re-proved" in with_change(case, claim_bound(0.3))


def test_another_formula_is_not_what_the_program_means() -> None:
    assert "not the formula" in with_change("two products", of_formula("x*y*z + 1e-9*x"))
    assert "not the formula" in with_change("a kink", of_formula("exp(x - y)*cos(z)"))
    assert with_change("two products", of_formula("x*y*z, x"))
    assert with_change("two products", of_formula("x*y*z/0"))


def test_a_larger_box_is_not_covered() -> None:
    assert with_change("two products", of_box(1.7))
    assert with_change("a monomial", of_box(30.0))


def part_of(path: tuple[Any, ...], value: Any) -> Any:
    def change(sections: dict[str, Any]) -> None:
        place = sections["certificate"]["evidence"][0]["parts"]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


def test_the_evidence_is_not_believed() -> None:
    case = "shared tables"
    assert "refuted" in with_change(case, part_of(("tables", 0, "proofs", 0, "exact"), 0.0))
    assert with_change(case, part_of(("tables", 0, "proofs", 0, "exact"), 1.0))
    assert with_change(case, part_of(("tables", 0, "center"), "1/7"))
    assert with_change(case, part_of(("tables", 0, "halfwidth"), "2"))
    assert with_change(case, part_of(("tables", 0, "halfwidth"), "-1"))
    assert with_change(case, part_of(("tables", 0, "proofs", 0, "tree"), "eNpjAAAAAQAB"))
    assert with_change(case, part_of(("features", 0, "function"), "sin(u) + 1e-7*u"))
    assert with_change(case, part_of(("features", 0, "function"), "1/u"))
    assert with_change(case, part_of(("outputs",), ["0"]))


def test_a_claim_about_a_part_of_the_box_says_so() -> None:
    file = stored("two products")
    sections = copy.deepcopy(file.sections)
    where = sections["certificate"]["claim"]["set"]
    where["domain"]["x"] = [-0.5, 0.5]
    where["hex"]["x"] = [(-0.5).hex(), (0.5).hex()]
    verdict = reprove(ModelFile(file.tensors, sections))
    assert verdict.status == "VERIFIED ON A PART"


def test_texts_of_columns_say_what_they_hold() -> None:
    def change(sections: dict[str, Any]) -> None:
        texts = sections["model"]["features"]
        texts[texts.index("u1 = cos(x)")] = "u1 = cos(1.0000001*x)"

    assert "the text of feature 1" in with_change("shared tables", change)
