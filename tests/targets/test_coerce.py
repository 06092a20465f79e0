"""What users hand in becomes a target, or an error that says what would."""

from __future__ import annotations

import numpy as np
import pytest

from softwright.domain import Box
from softwright.errors import InvalidInput
from softwright.targets import Expression, Function, Table, Target, as_target

PLANE = Box(x=(-1, 1), y=(0, 2))


def test_each_kind() -> None:
    assert isinstance(as_target("x*y", PLANE), Expression)
    function = as_target(lambda x, y: x + y, PLANE)
    assert isinstance(function, Function)
    assert function.outputs == 1
    assert isinstance(as_target(np.hypot, ["x", "y"]), Function)
    table = as_target(([[0, 0], [0, 1], [1, 0]], [1, 2, 3]), PLANE)
    assert isinstance(table, Table)
    assert table.names == ("x", "y")
    for target in (function, table):
        assert as_target(target, PLANE) is target
        assert isinstance(target, Target)


def test_a_formula_takes_the_order_of_the_box() -> None:
    target = as_target(Expression("y - 2*x"), PLANE)
    assert target.names == ("x", "y")
    assert target(np.array([[1.0, 5.0]]))[0, 0] == 3.0
    assert as_target(Expression("x"), PLANE).dim == 2


def test_a_text_that_is_asked_for_again_is_read_for_its_own_variables() -> None:
    point = np.array([[1.0, 5.0]])
    for names, wanted in ((("x", "y"), 3.0), (("y", "x"), -9.0), (("x", "y"), 3.0)):
        assert as_target("y - 2*x", names)(point)[0, 0] == wanted
    for low, faults in ((0.5, 0), (-1.0, 1), (0.5, 0)):  # a box that was looked at speaks for no other
        assert len(as_target("log(x)", ["x"]).faults_on(Box(x=(low, 1)))) == faults


def test_what_is_no_target() -> None:
    with pytest.raises(InvalidInput, match="give a formula"):
        as_target(3.0, PLANE)
    with pytest.raises(InvalidInput, match="same names"):
        as_target(Function(np.hypot, ["y", "x"]), PLANE)
    with pytest.raises(InvalidInput, match="unknown variable"):
        as_target("z", PLANE)
