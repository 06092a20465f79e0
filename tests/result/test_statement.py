"""A statement of schema 2 and the certificate it makes: one form follows from the other, and any damage is named."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import softwright as sw
from softwright.checker.claims import set_of as set_of_the_checker
from softwright.checker.trust import text_of as text_of_the_checker
from softwright.result.certified import read_certificate
from softwright.result.kinds import KINDS
from softwright.result.statement import set_of, text_of, to_flat
from tests.contracts.kinds_made import MADE

STORED = [name for name, kind in KINDS.items() if kind.stored]
VALUES = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=3) | st.just([]) | st.just({})
) | st.lists(st.integers(0, 2), max_size=2)


def statement(kind: str) -> dict[str, Any]:
    return json.loads(json.dumps(MADE[kind]().sections()["certificate"]))


def branches(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a JSON value, objects and lists among them."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, child in items for place in ((*path, key), *branches(child, (*path, key)))]


@pytest.mark.parametrize("kind", STORED)
def test_both_forms_hold_the_same(kind: str) -> None:
    said = statement(kind)
    flat, apart = to_flat(said)
    certificate = read_certificate(said)
    assert json.loads(json.dumps(certificate.flat())) == {"schema": type(certificate).schema, **flat}
    assert certificate.to_json(apart.tensors, apart.reference) == said


@pytest.mark.parametrize("kind", STORED)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_damage_is_an_invalid_input(kind: str, data: st.DataObject) -> None:
    """What is read in spite of a change is read as it stands there."""
    said = statement(kind)
    path = data.draw(st.sampled_from(branches(said)))
    place = said
    for key in path[:-1]:
        place = place[key]
    if data.draw(st.booleans()):
        place[path[-1]] = data.draw(VALUES)
    else:
        del place[path[-1]]
    before = copy.deepcopy(said)
    try:
        certificate = read_certificate(said)
    except sw.InvalidInput:
        return
    apart = to_flat(said)[1]
    assert json.dumps(certificate.to_json(apart.tensors, apart.reference), sort_keys=True) == json.dumps(
        before, sort_keys=True
    )


@pytest.mark.parametrize("kind", STORED)
def test_builder_and_checker_name_sets_and_hypotheses_alike(kind: str) -> None:
    certificate = MADE[kind]().certificate
    assert all(text_of(name) == text_of_the_checker(name) != name for name in certificate.hypotheses)
    if "domain" not in certificate.flat():
        flat = certificate.flat()
        assert set_of(flat) == set_of_the_checker(certificate.target, flat.get("quantities", {}))


@pytest.mark.parametrize(
    "name",
    [
        *("ieee754", "exp-ulp<=4", "exp-ulp<=32", "callable-values", "user-lipschitz", "user-second-derivative"),
        *("stated-exact-part", "stated-bound", f"table:{'0' * 64}", f"source-weights:{'f' * 64}"),
    ],
)
def test_every_hypothesis_says_the_same_on_both_sides(name: str) -> None:
    assert text_of(name) == text_of_the_checker(name) != name
