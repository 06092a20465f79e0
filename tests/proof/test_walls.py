"""Slanted walls: pairs of gated heads and kinked terms in closed form, the smooth rest by boxes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softwright as sw
from softwright.attention.head import Head
from softwright.attention.network import AttentionNetwork
from softwright.fileformat import weights_sha256, write_model
from softwright.proof import certify
from softwright.proof.closed.walls import take_walls
from softwright.proof.question import pose
from softwright.result.certificate import Certificate
from tests.layouts import read_flat

SQUARE = sw.Box(x=(-1, 1), y=(-1, 1))
TEXT = "abs(x - y) + sin(x)*y"


def one_layer(text: str, tol: float) -> sw.Built:
    return sw.approximate(text, SQUARE, tol=tol, strategy="layer")


@pytest.fixture(scope="module")
def slanted() -> sw.Built:
    return one_layer(TEXT, 1e-6)


def near_the_wall(beta: float) -> np.ndarray:
    """Points (n, 2) on and round x = y at the scale of the gate."""
    along = np.linspace(-0.9, 0.9, 41)
    off = np.concatenate([[0.0], np.geomspace(1e-3, 30, 25), -np.geomspace(1e-3, 30, 25)]) / beta
    x, by = (a.ravel() for a in np.meshgrid(along, off))
    return np.stack([x + by, x], axis=1)


def test_a_wall_across_the_boxes_is_proved_and_verified(slanted: sw.Built, tmp_path: Path) -> None:
    certificate = slanted.certificate
    assert certificate is not None and certificate.bound <= 1e-6 and "walls" in certificate.method
    assert [part.tree is None for part in certificate.tree].count(True) == 1 and certificate.boxes < 100
    points = np.concatenate([near_the_wall(1e6), SQUARE.sample(20_000, 1)])
    seen = np.abs(slanted(points) - slanted.source(points)).max()
    assert 1e-9 < seen <= certificate.bound
    slanted.save(tmp_path / "wall.safetensors")
    assert sw.load(tmp_path / "wall.safetensors").certificate == certificate
    assert sw.verify(tmp_path / "wall.safetensors").verified


@pytest.mark.parametrize(
    ("text", "tol"),
    [
        ("sin(x)*y - 2*max(x + 0.5*y, 0.3) + abs(x - y)", 1e-3),
        ("max(x, y, 0.5*x - y) + exp(-x**2 - y)", 1e-4),
        ("cos(x*y) - min(x + y, 0.25)/3", 1e-4),
    ],
)
def test_several_walls_and_signs(text: str, tol: float, tmp_path: Path) -> None:
    built = one_layer(text, tol)
    assert built.certificate is not None and "walls" in built.certificate.method
    points = SQUARE.sample(20_000, 2)
    assert np.abs(built(points) - built.source(points)).max() <= built.certificate.bound
    built.save(tmp_path / "walls.safetensors")
    assert sw.verify(tmp_path / "walls.safetensors").verified


def test_claims_below_the_error_on_the_wall_are_not_proved(slanted: sw.Built) -> None:
    points = near_the_wall(1e6)
    seen = float(np.abs(slanted(points) - slanted.source(points)).max())
    assert not certify(slanted.network, TEXT, bound=0.99 * seen, max_seconds=2).proved


def gates(shift: float, steepness: float = 1e4) -> AttentionNetwork:
    """|x - y + shift| behind gates, beside one head for the smooth part 0.5."""
    wall = Head(
        steepness * np.array([[-1.0, 1.0], [1.0, -1.0]]),
        steepness * np.array([-shift, shift]),
        np.array([[-shift], [shift]]),
        np.array([[[-1.0, 1.0]], [[1.0, -1.0]]]),
        "gates",
    )
    flat = Head(np.array([[1.0, 0.0], [0.0, 1.0]]), np.zeros(2), np.array([[0.5], [0.5]]))
    return AttentionNetwork([wall, flat], SQUARE)


@pytest.mark.parametrize("shift", [0.0, 1e-6, 1e-3])
def test_a_wall_in_the_wrong_place_counts(shift: float) -> None:
    """Gates of steepness 1e4 cost W0(1/e)/1e4; a shifted wall is off by its shift everywhere else."""
    cost = 0.27847 / 1e4
    found = certify(gates(shift), "abs(x - y) + 0.5*cos(0*x)", bound=1.1 * cost, max_seconds=2)
    assert found.proved == (shift < 0.1 * cost)
    assert found.status != "refuted" or found.lower > 1.1 * cost


def test_only_slanted_walls_beside_something_smooth_are_taken() -> None:
    def walls(text: str, network: AttentionNetwork) -> Any:
        problem = pose(network, text, None, "sdpa")
        return take_walls(problem.residual, sw.Expression(text, network.names).nodes, network.box)

    found = walls("abs(x - y) + 0.5*cos(0*x)", gates(0.0))
    assert found is not None and found.parts[0].heads == (0,) and found.groups[0].heads == (1,)
    assert walls("x*y", gates(0.0)) is None  # no kinked term
    assert walls("max(x, 2*y) + cos(x)", gates(0.0)) is None  # a kinked term that no head stands for
    line = sw.approximate("abs(x - 0.3) + sin(x)", sw.Box(x=(-1, 1)), tol=1e-3)
    assert walls("abs(x - 0.3) + sin(x)", line.network) is None  # flat walls are cheap to bisect


@pytest.mark.parametrize(
    "change", ["exact of the wall", "boxes", "boxes without a tree", "tree of the rest", "term", "steepness", "kind"]
)
def test_the_checker_refuses_changed_walls(slanted: sw.Built, tmp_path: Path, change: str) -> None:
    path = tmp_path / "wall.safetensors"
    slanted.save(path)
    file = read_flat(path)
    said = file.sections["certificate"]
    wall = next(part for part in said["tree"] if part["tree"] is None)
    rest = next(part for part in said["tree"] if part["tree"] is not None)
    if change == "exact of the wall":
        wall["exact_part"] *= 0.5
        wall["hex"]["exact_part"] = wall["exact_part"].hex()
    elif change == "boxes":
        said["boxes"] += 1
    elif change == "boxes without a tree":
        rest["tree"] = None
    elif change == "kind":
        file.sections["model"]["kind"] = "memory"
    elif change == "tree of the rest":
        rest["tree"], said["boxes"] = None, 0
        rest["exact_part"] *= 1e-3
        rest["hex"]["exact_part"] = rest["exact_part"].hex()
    elif change == "term":
        wall["terms"], rest["terms"] = rest["terms"], wall["terms"]
    else:
        name = f"layer.heads.{wall['heads'][0]}.keys"
        file.tensors[name] = file.tensors[name] * 0.2
        said["weights_sha256"] = weights_sha256(file.tensors)
    write_model(path, file.tensors, file.sections)
    assert sw.verify(path).status == "NOT VERIFIED"


def test_the_statement_is_read_back_and_damage_is_named(slanted: sw.Built) -> None:
    data = slanted.certificate.flat()
    assert Certificate.from_json(data) == slanted.certificate
    data["tree"][0]["tree"] = 7
    with pytest.raises(sw.InvalidInput, match="wrong type"):
        Certificate.from_json(data)


def test_the_proof_of_the_rest_is_drawn(slanted: sw.Built, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    slanted.plot_proof(tmp_path / "proof.png")
    assert (tmp_path / "proof.png").stat().st_size > 1000
