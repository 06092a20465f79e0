"""The statement and its JSON form: nothing is lost, and every damage is noticed."""

from __future__ import annotations

import base64
import json
import math
import zlib
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwright.domain import Box
from softwright.errors import InvalidInput
from softwright.result.certificate import (
    Certificate,
    Part,
    count_leaves,
    decode_tree,
    encode_tree,
    leaf_boxes,
    sum_rounded_up,
)

TREE = bytes([0, 1, 255, 255, 255])


def certificate(**changes: Any) -> Certificate:
    fields: dict[str, Any] = {
        "norm": "sup",
        "bound": sum_rounded_up(0.1, 1e-17),
        "exact_part": 0.1,
        "rounding_part": 1e-17,
        "domain": {"x": (-1.0, 1.0), "y": (0.1, 0.3)},
        "dtype": "float64",
        "engine": "sdpa",
        "method": "taylor",
        "order": 10,
        "boxes": 3,
        "tree": TREE,
        "weights_sha256": "0" * 64,
        "target": {"kind": "expression", "text": "x*y", "variables": ["x", "y"]},
        "version": "0.1.0",
        "seconds": 0.25,
        "assumptions": ("IEEE arithmetic",),
        "lower": 0.09,
        "witness": (0.5, 0.2),
    }
    return Certificate(**{**fields, **changes})


def parts(**changes: Any) -> tuple[Part, ...]:
    first = Part(("x",), (0,), (0, 2), 0.05, 1e-18, bytes([0, 255, 255]), (0.1,))
    second = Part(("y",), (1,), (1,), 0.05, 1e-18, bytes([255]), (-0.1,))
    return (replace(first, **changes), second)


def test_round_trip_loses_nothing() -> None:
    for stated in (
        certificate(),
        certificate(norm="Lp", p=2.0),
        certificate(tree=None, boxes=0),
        certificate(tree=parts()),
    ):
        text = json.dumps(stated.to_json(), allow_nan=False)
        assert Certificate.from_json(text) == stated
        assert Certificate.from_json(json.loads(text)) == stated


def test_order_of_variables_survives_sorted_keys() -> None:
    stated = certificate(domain={"y": (0.1, 0.3), "x": (-1.0, 1.0)})
    again = Certificate.from_json(json.dumps(stated.to_json(), sort_keys=True))
    assert list(again.domain) == ["y", "x"]


@given(st.floats(0, 1e300), st.floats(0, 1e300))
def test_sum_is_rounded_up_and_tight(a: float, b: float) -> None:
    total = sum_rounded_up(a, b)
    assert Fraction(total) >= Fraction(a) + Fraction(b)
    assert total == 0.0 or Fraction(math.nextafter(total, 0.0)) < Fraction(a) + Fraction(b)


def test_covers() -> None:
    stated = certificate()
    assert stated.covers(Box(x=(-1, 1), y=(0.1, 0.3)), "float64")
    assert stated.covers({"x": (0, 1), "y": (0.1, 0.2)}, "torch.float64", "sdpa")
    assert not stated.covers(Box(x=(-1, 1.0000001), y=(0.1, 0.3)), "float64")
    assert not stated.covers(Box(x=(-1, 1)), "float64")
    assert not stated.covers(stated.box, "float32")
    assert not stated.covers(stated.box, "float64", "factorised")
    assert replace(stated, engine="any").covers(stated.box, "float64", "factorised")


def test_text_is_short_and_complete() -> None:
    text = str(certificate())
    assert text.count("\n") == 3
    for word in ("sup", "covers torch's CPU kernels", "float64", "sdpa", "x in [-1, 1]", "3 boxes", "IEEE arithmetic"):
        assert word in text


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"norm": "l1"}, "norm"),
        ({"norm": "Lp"}, "p ="),
        ({"norm": "Lp", "p": 0.5}, "p ="),
        ({"p": 2.0}, "p ="),
        ({"bound": 0.1}, "below"),
        ({"bound": math.inf}, "finite"),
        ({"exact_part": math.nan}, "exact_part"),
        ({"rounding_part": -1e-30}, "rounding_part"),
        ({"domain": {"x": (1.0, -1.0), "y": (0.0, 1.0)}}, "swap"),
        ({"dtype": "bfloat16"}, "dtype"),
        ({"engine": "gpu"}, "engine"),
        ({"method": ""}, "method"),
        ({"boxes": 4}, "leaves"),
        ({"boxes": True}, "count"),
        ({"order": -1}, "order"),
        ({"tree": b""}, "complete"),
        ({"tree": TREE[:-1]}, "complete"),
        ({"tree": TREE + bytes([255])}, "complete"),
        ({"tree": bytes([2, 255, 255])}, "not there"),
        ({"tree": ()}, "Parts"),
        ({"tree": parts(heads=(1,))}, "heads"),
        ({"tree": parts(terms=(0, 3))}, "terms"),
        ({"tree": parts(variables=("z",))}, "variables"),
        ({"tree": parts(constant=())}, "constant"),
        ({"tree": parts(exact_part=-1.0)}, "exact_part"),
        ({"weights_sha256": "f" * 63}, "hexadecimal"),
        ({"target": {}}, "kind"),
        ({"witness": (0.5,)}, "witness"),
        ({"assumptions": [1]}, "assumptions"),
    ],
)
def test_a_wrong_statement_is_refused(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidInput, match=word):
        certificate(**changes)


def test_all_faults_are_listed_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        certificate(norm="l1", dtype="int8", engine="gpu", boxes=7)
    assert len(caught.value.faults) == 4
    data = certificate().flat()
    del data["boxes"], data["dtype"]
    data["order"] = "ten"
    with pytest.raises(InvalidInput) as caught:
        Certificate.from_json(data)
    assert len(caught.value.faults) == 3


@pytest.mark.parametrize("name", ["bound", "exact_part", "rounding_part"])
def test_decimal_and_hexadecimal_must_agree(name: str) -> None:
    data = certificate().flat()
    data[name] = math.nextafter(data[name], 1.0)
    with pytest.raises(InvalidInput, match="same numbers"):
        Certificate.from_json(data)
    data = certificate().flat()
    data["hex"]["domain"]["y"][1] = (0.30000001).hex()
    with pytest.raises(InvalidInput, match="same numbers"):
        Certificate.from_json(data)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"schema": "softwright-certificate/2"}', "3"])
def test_foreign_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        Certificate.from_json(text)


@given(
    st.dictionaries(
        st.sampled_from(sorted(certificate().flat())), st.none() | st.integers() | st.text() | st.lists(st.none())
    )
)
def test_any_damage_is_an_invalid_input(changes: dict[str, Any]) -> None:
    data = {**certificate().flat(), **changes}
    try:
        Certificate.from_json(data)
    except InvalidInput:
        return
    assert Certificate.from_json(data).tree in (TREE, None)


@given(st.binary(max_size=2000))
def test_tree_text_round_trip(tree: bytes) -> None:
    assert decode_tree(encode_tree(tree)) == tree


def test_hostile_tree_text() -> None:
    bomb = base64.b64encode(zlib.compress(b"\xff" * (65 * 2**20))).decode()
    padded = base64.b64encode(zlib.compress(TREE) + b"more").decode()
    cut = base64.b64encode(zlib.compress(TREE)[:-3]).decode()
    for text in (bomb, padded, cut, "?", "AAAA"):
        with pytest.raises(InvalidInput):
            decode_tree(text)


def test_leaf_boxes_cover_the_domain() -> None:
    low, high, depth = leaf_boxes(TREE, (-1.0, 0.0), (1.0, 1.0))
    assert count_leaves(TREE, 2) == len(low) == 3
    np.testing.assert_array_equal(low, [[-1.0, 0.0], [-1.0, 0.5], [0.0, 0.0]])
    np.testing.assert_array_equal(high, [[0.0, 0.5], [0.0, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(depth, [2, 2, 1])
    assert np.prod(high - low, axis=1).sum() == 2.0
