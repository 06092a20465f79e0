"""Sizes that break a theorem's condition are refused before any work, and the condition is named."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from softwright.domain import Box
from softwright.errors import InvalidInput
from softwright.theorems import find_theorem


@pytest.mark.parametrize(
    ("label", "sizes", "words"),
    [
        ("A1", {"points": 50, "tokens": 50}, "p > n"),
        ("A1", {"eps0": 0.0}, "eps0 > 0"),
        ("A1", {"eps0": -1.0}, "eps0 > 0"),
        ("A1", {"a": 1.0, "b": 1.0}, "a < b"),
        ("A1", {"a": 0.0, "b": 1e-300}, "overflow"),
        ("A1", {"eps0": 1e-320}, "overflow"),
        ("A1", {"coordinate": 3}, "coordinate"),
        ("A1", {"weights": np.zeros((2, 2))}, "weights must be"),
        ("A2", {"tokens": 2}, "n >= 3"),
        ("A2", {"heads": 0}, "at least one head"),
        ("A2", {"eps0": 0.6}, "eps0 > 0"),
        ("A2", {"a": 0.0, "b": 1e-302}, "overflow"),
        ("A3", {"low": 1.0, "high": 0.0}, "compact"),
        ("A3", {"eps0": 0.0}, "eps0 > 0"),
        ("A3", {"formula": "sin(x)*y + abs(x)", "knots": 155}, "fewer knots"),
        ("A3", {"formula": "sin(0.1*x + 0.3*y)*(x + 3*y)"}, "rounding alone"),
        ("A3", {"formula": "sign(x)", "low": -1.0}, "continuous"),
        ("A3", {"formula": "sign(x)*y", "low": -1.0}, "continuous"),
        ("A3", {"formula": "1/x", "low": -1.0}, "undefined"),
        ("A3", {"network": (np.zeros((2, 3)),) * 4}, "network must be"),
        ("A3", {"network": (np.zeros((2, 3)),) * 3}, "network must be"),
        ("A1", {"weights": [[1, 2], [3]]}, "weights must be"),
        ("A6", {"layers": torch.nn.Sequential(torch.nn.LazyLinear(4))}, "called once"),
        ("A6", {"layers": [(np.zeros((2, 2)), "t")]}, "layers must be"),
        ("B2", {"box": 3}, "box must be"),
        ("C4", {"labels": [[1, 2], [3]]}, "labels must be"),
        ("A4", {"points": 10}, "p > N"),
        ("A4", {"points": 30}, "2 E < (3/8) m h^2"),
        ("A4", {"formula": "sign(x)"}, "continuous"),
        ("A4", {"formula": "x + 0.01*sign(x - y)"}, "continuous"),
        ("A4", {"radius": 0.0}, "compact"),
        ("A4", {"radius": 1e-160}, "overflow"),
        ("A4", {"cells": 2000}, "fewer cells"),
        ("A4", {"cells": 10**9}, "fewer cells"),
        ("A4", {"radius": 1e300}, "beyond floats"),
        ("A1", {"seed": -1}, "seed must be 0 or more"),
        ("A5", {"points": 12}, "p > n"),
        ("A5", {"eps0": -1.0}, "eps0 > 0"),
        ("A5", {"eta": 0.0}, "compact"),
        ("A5", {"x_max": 1e-320, "y_max": 1e-310, "w_max": 1e-320}, "overflow"),
        ("A5", {"loss": "hinge"}, "squares, logistic"),
        ("A6", {"points": 8, "width": 8}, "p > n"),
        ("A6", {"activation": "gelu"}, "relu, leaky_relu"),
        ("A6", {"eps0": 0.7}, "eps0 > 0"),
        ("A6", {"eps0": 1e-320}, "overflow"),
        ("A6", {"layers": [(np.zeros((2, 2)), np.zeros(2))]}, "hidden layer"),
        ("B1", {"eps0": 0.0}, "0 < eps0 < 1"),
        ("B1", {"width": -1.0}, "width > 0"),
        ("B1", {"pieces": 1}, "at least 2 pieces"),
        ("B1", {"beta": 1e300}, "beta overflow"),
        ("B1", {"slopes": [[1.0], [1.0]], "offsets": [0.0, 1.0]}, "same slope"),
        ("B1", {"width": 100.0}, "take a smaller width"),
        ("B2", {"eps0": 0.0}, "0 < eps0 < 1"),
        ("B2", {"eps0": -1.0}, "0 < eps0 < 1"),
        ("B2", {"beta": 1e300}, "beta overflow"),
        ("B2", {"cells": 0}, "G >= 1"),
        ("B2", {"cells": 10_000}, "one token per centre"),
        ("B2", {"formula": "sign(x)"}, "continuous"),
        ("B2", {"formula": "1/x"}, "continuous"),
        ("B2", {"formula": "x + y", "columns": 3}, "must divide"),
        ("B2", {"side": 0.0}, "D > 0"),
        ("B4", {"eps0": 1.5}, "0 < eps0 < 1"),
        ("B4", {"beta": 1e300}, "beta overflow"),
        ("B4", {"norm": "L0.5"}, "1 <= p"),
        ("B4", {"norm": "L2x"}, "any p >= 1"),
        ("B3", {"eps0": -0.1}, "eps0 > 0"),
        ("B3", {"target": "sign", "p": 11.3, "eps0": 0.05}, "give eps0 = 0.2"),
        ("B3", {"p": 2e6}, "1 <= p"),
        ("B3", {"p": 0}, "1 <= p"),
        ("B3", {"beta": 1e300}, "beta overflow"),
        ("B3", {"target": "root", "p": 4}, "not integrable"),
        ("B3", {"target": "1/x"}, "L_p|integrable"),
        ("B3", {"cells": 0}, "G >= 1"),
        ("B3", {"target": "x, y", "box": Box(x=(0, 1), y=(0, 1))}, "one output"),
        ("B3", {"target": "sign", "p": 4, "eps0": 1e-5}, "beta overflow"),
        ("C1", {"length": 1}, "n >= 2"),
        ("C1", {"values": 3, "length": 3}, "more than 3"),
        ("C1", {"entries": [0.0, 1.0, 2.0, 30.0]}, "apart"),
        ("C1", {"values": 40, "length": 10}, "exhaustively"),
        ("C2", {"length": 1}, "n >= 2"),
        ("C2", {"vocabulary": 2, "length": 3}, "pairwise distinct"),
        ("C2", {"sequences": 13}, "only 12 sequences of 2 different tokens out of 4"),
        ("C2", {"data": [[[1.0, 2.0, 1.0]]]}, "duplicate token"),
        ("C2", {"data": [[[1.0, 0.0]]]}, "r_min > 0"),
        ("C2", {"data": [[[1.0, 1.0 + 1e-9, 2.0]]]}, "beta overflow"),
        ("C2", {"head_size": 0}, "s >= 1"),
        ("C2", {"scale": "soft"}, "paper, tight"),
        ("C3", {"heads": 0}, "heads >= 1"),
        ("C4", {"length": 1}, "n >= 2"),
        ("C4", {"data": [[[1.0, 1.0]]]}, "duplicate token"),
        ("C6", {"data": [[[1.0, 2.0, 2.0]]]}, "duplicate token"),
        ("C4", {"data": [[[0.0, 1.0]]]}, "r_min > 0"),
        ("C4", {"data": [[[1.0, 2.0]], [[2.0, 1.0]]], "labels": [[[1.0, 2.0]], [[1.0, 2.0]]]}, "another label"),
        ("C4", {"data": [[[1.0, 2.0]]], "labels": [[1.0]]}, "labels have shape"),
        ("C4", {"vocabulary": 8, "length": 4, "sequences": 20}, "below what float64 resolves"),
        ("C4", {"data": [[[1.0, 1.0 + 1e-9, 2.0]]], "scale": "paper"}, "beta overflow"),
        ("C5", {"levels": 2}, "pairwise distinct"),
        ("C5", {"levels": 9}, "float64"),
        ("C5", {"ramp": 0.1}, "power of two"),
        ("C5", {"formula": "1/x"}, "continuous"),
        ("C5", {"p": 0}, "p >= 1"),
        ("C5", {"formula": "x, m"}, "d x n to d x n"),
        ("C5", {"length": 1}, "n >= 2"),
    ],
)
def test_impossible_sizes_name_the_condition(label: str, sizes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=f"theorem {label}") as caught:
        find_theorem(label).build(**sizes)
    assert any(words in fault or re.search(words, fault) for fault in caught.value.faults)


@pytest.mark.parametrize(("label", "sizes"), [("C4", {"vocabulary": 20, "sequences": 10}), ("C5", {"levels": 9})])
def test_no_advice_to_do_what_was_done(label: str, sizes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="float64") as caught:
        find_theorem(label).build(**sizes, scale="tight")
    assert "scale='tight'" not in str(caught.value)
