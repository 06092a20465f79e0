"""Roots of what changes its sign: two clamped tables about the point, without a gate."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

import softwright as sw
from softwright.compiler.build import compile_formula
from softwright.compiler.layout import network_of
from softwright.compiler.nodes import Expression
from softwright.compiler.sides import at_point, breaks, one_side
from softwright.compiler.tables import clamped
from softwright.compiler.translate import translate
from softwright.precision import precision_of

LINE, PLANE = {"x": (-1.0, 2.0)}, {"x": (-1.0, 2.0), "y": (0.0, 1.0)}
FUNCTIONS = [
    ("cbrt(u)", 0), ("sqrt(abs(1 - 2*u))", Fraction(1, 2)), ("u*abs(u)**0.3 + cos(abs(u)**0.5)", 0),
    ("sign(u)*sqrt(abs(u))*exp(u)", 0), ("sin(cbrt(3*u - 1))", Fraction(1, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "point"), FUNCTIONS)
def test_the_two_sides_add_up_to_the_function(text: str, point: Fraction) -> None:
    (function,) = Expression(text, ("u",)).nodes
    assert breaks(function, -2.0, 3.0) == [point] and breaks(function, float(point) + 1e-9, 3.0) == []
    u = np.linspace(-2, 3, 1001)[:, None]

    def values(node: object) -> np.ndarray:
        return Expression.from_nodes([node], ("u",))(u)  # type: ignore[list-item]

    sides = [clamped(one_side(function, Fraction(point), side), Fraction(point), side) for side in (1, -1)]
    constant = Expression.from_nodes([at_point(function, Fraction(point))], ("u",))(u)
    assert np.allclose(values(sides[0]) + values(sides[1]) - constant, values(function), atol=1e-13)


@pytest.mark.parametrize(
    ("text", "box"),
    [("cbrt(x)", LINE), ("sign(x)*sqrt(abs(x))", LINE), ("sin(sqrt(abs(x - 0.25)))*exp(y)", PLANE)],
)
def test_no_error_is_larger_than_what_is_proved_and_the_file_is_verified(
    text: str, box: dict[str, tuple[float, float]], tmp_path: Path
) -> None:
    built = sw.approximate(text, sw.Box(box), tol=1e-3, strategy="compose", progress=False)
    assert built.certificate is not None and built.certificate.bound <= 1e-3
    at = 0.25 if "0.25" in text else 0.0
    near = np.concatenate([at + s * 10.0 ** np.linspace(-30, 0, 200) for s in (-1, 1)])
    near = near[(near >= -1) & (near <= 2)]
    points = near[:, None] if len(box) == 1 else np.stack([near, np.linspace(0, 1, len(near))], axis=1)
    found = built.network.evaluate(points)[:, 0]
    assert np.abs(found - Expression(text, tuple(box))(points)[:, 0]).max() <= built.certificate.bound
    built.save(tmp_path / "f.safetensors")
    assert sw.verify(tmp_path / "f.safetensors").verified


def test_gates_stay_where_they_take_fewer_tokens() -> None:
    box = sw.Box(x=(-1.0, 1.0))
    expression = Expression("sqrt(abs(x))", box)
    found = compile_formula(expression, box, 1e-2, precision_of("float64"))
    assert found.proved and any(f.kind == "maximum" for f in found.program.features)
    apart = translate(expression, box)
    assert not any(f.kind == "maximum" for f in apart.features)
    x = np.array([[-1e-9], [0.0], [1e-9], [-0.5]])
    exact = [float(mp.sqrt(abs(mp.mpf(float(v))))) for v in x[:, 0]]
    assert np.abs(network_of(found).evaluate(x)[:, 0] - exact).max() <= found.proof.bound


def test_a_root_whose_argument_rounds_too_much_is_given_up_at_once() -> None:
    box = sw.Box(x=(-512.0, 512.0), y=(-512.0, 512.0))
    expression = Expression("x*sin(sqrt(abs(x - y - 47)))", box)
    rounds = []
    found = compile_formula(expression, box, 1e-4, precision_of("float64"), lambda: rounds.append(1))
    assert not found.proved and len(rounds) < 12
