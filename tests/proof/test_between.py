"""Tables between their points: the proof over the cells against sampling, exact interpolation, and what is stated."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import softwright as sw
from softwright.attention.head import Head
from softwright.attention.network import AttentionNetwork
from softwright.errors import InvalidInput
from softwright.proof import certify
from softwright.proof.arithmetic.series import basis
from softwright.proof.models.cells import CellModels
from softwright.proof.models.exact_heads import exact_heads, float_values
from softwright.proof.search.cell_tree import CellTree
from softwright.proof.search.residual import BoxBounds
from softwright.proof.search.search import BoxTree, Goal, Limits, Run, search
from softwright.result.certificate import Certificate
from softwright.targets.table import Table
from tests.layouts import read_flat

NAMES = ["x", "y", "z"]


def random_case(seed: int, dim: int, outputs: int = 1) -> tuple[AttentionNetwork, Table]:
    """A random network and a random table on a grid with uneven steps."""
    rng = np.random.default_rng(seed)
    axes = [np.sort(rng.uniform(-2, 3, int(rng.integers(2, [9, 6, 4][dim - 1])))) for _ in range(dim)]
    table = Table.grid(axes, rng.normal(size=(*map(len, axes), outputs)), names=NAMES[:dim])
    tokens = int(rng.integers(2, 40))
    slopes = rng.normal(size=(tokens, outputs, dim)) if rng.integers(2) else None
    head = Head(rng.normal(size=(tokens, dim)) * 4, rng.normal(size=tokens), rng.normal(size=(tokens, outputs)), slopes)
    return AttentionNetwork([head], table.box), table


def exact_interpolant(table: Table, point: np.ndarray, output: int = 0) -> float:
    """The multilinear interpolant at a point of the box from its definition, in rational numbers."""
    axes = table.axes or ()
    grid = table.values.reshape(*map(len, axes), table.outputs)
    cells = [
        min(max(int(np.searchsorted(a, x, side="right")) - 1, 0), len(a) - 2) for a, x in zip(axes, point, strict=True)
    ]
    total = Fraction(0)
    for corner in itertools.product((0, 1), repeat=len(axes)):
        weight = Fraction(1)
        for axis, cell, end, x in zip(axes, cells, corner, point.tolist(), strict=True):
            left, right = Fraction(float(axis[cell])), Fraction(float(axis[cell + 1]))
            t = (Fraction(x) - left) / (right - left)
            weight *= t if end else 1 - t
        at = tuple(cell + end for cell, end in zip(cells, corner, strict=True))
        total += weight * Fraction(float(grid[(*at, output)]))
    return float(total)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), dim=st.integers(1, 3), outputs=st.integers(1, 2))
def test_the_bound_holds_between_the_points_and_is_tight(seed: int, dim: int, outputs: int) -> None:
    network, table = random_case(seed, dim, outputs)
    found = certify(network, table.interpolant(), tightness=0.1, max_seconds=10)
    assert found.proved and found.certificate is not None
    points = np.concatenate([table.box.sample(4000, seed), table.points])
    seen = np.abs(network.evaluate(points) - table(points)).max()
    assert seen <= found.bound
    assert found.lower <= found.bound <= 1.11 * found.lower + 1e-12
    witness = np.array(found.witness)
    values = float_values(exact_heads(network, "sdpa"), witness[None])[0]
    there = max(abs(values[o] - exact_interpolant(table, witness, o)) for o in range(outputs))
    assert found.lower * (1 - 1e-9) <= there <= found.bound


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_claim_below_the_error_is_refuted(dim: int) -> None:
    network, table = random_case(7 + dim, dim)
    lower = certify(network, table.interpolant(), tightness=0.1).lower
    refuted = certify(network, table.interpolant(), bound=0.995 * lower)
    assert refuted.status == "refuted" and table.box.contains(np.array([refuted.witness])).all()
    assert certify(network, table.interpolant(), bound=1.1 * lower).proved


@pytest.mark.parametrize("dim", [1, 2])
def test_domains_narrower_and_wider_than_the_table(dim: int) -> None:
    rng = np.random.default_rng(3)
    network, table = random_case(5, dim)
    wide = sw.Box.from_bounds(table.box.lower - 0.7, table.box.upper + 0.4, NAMES[:dim])
    outer = AttentionNetwork([Head(rng.normal(size=(5, dim)), np.zeros(5), rng.normal(size=(5, 1)))], wide)
    mid = table.box.center
    narrow = sw.Box.from_bounds(mid - 0.21 * table.box.halfwidth, mid + 0.63 * table.box.halfwidth, NAMES[:dim])
    for net, domain in ((network, narrow), (outer, wide)):
        found = certify(net, table.interpolant(), tightness=0.1, domain=domain)
        points = np.concatenate([domain.sample(5000, 2), domain.corners()])
        seen = np.abs(net.evaluate(points) - table(points)).max()
        assert found.proved and 0.9 * seen <= found.bound and seen <= found.bound <= 1.2 * seen


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), dim=st.integers(1, 3), depth=st.integers(0, 5))
def test_models_enclose_the_interpolant_on_every_box_of_the_tree(seed: int, dim: int, depth: int) -> None:
    _, table = random_case(seed, dim)
    rng = np.random.default_rng(seed)
    tree = CellTree(table.interpolant(), table.box)
    boxes = tree.grid([])
    for _ in range(depth):
        boxes = tree.halve(boxes.take(rng.permutation(len(boxes))[:6]), rng.integers(0, dim, min(6, len(boxes))))
    centers, radii = tree.boxes(boxes.index, boxes.level)
    shape = basis(dim, 3)
    (model,) = CellModels(table.interpolant(), table.box)(shape, centers, radii)
    assert np.all(model.remainder < 1e-12)
    s = rng.uniform(-1, 1, (1, dim))
    polynomial = (model.coefficients * np.prod(s[0] ** shape.exponents, axis=1)[:, None]).sum(axis=0)
    for i, value in enumerate(polynomial):
        point = np.clip(centers[i] + radii[i] * s[0], table.box.lower, table.box.upper)
        assert abs(exact_interpolant(table, point) - value) <= model.remainder[i] + 1e-12


def test_boxes_that_cross_a_wall_between_cells_are_not_bounded() -> None:
    table = Table.grid([[0.0, 0.3, 1.0], [0.0, 1.0]], [[1.0, 2.0], [0.0, 0.0], [3.0, 1.0]], names=["x", "y"])
    tree = BoxTree(table.box.lower, table.box.upper)
    boxes = tree.grid([0, 0])
    (model,) = CellModels(table.interpolant(), table.box)(basis(2, 4), *tree.boxes(boxes.index, boxes.level))
    assert np.isinf(model.remainder).all()


def test_cells_cover_the_box_exactly() -> None:
    _, table = random_case(13, 2)
    tree = CellTree(table.interpolant(), table.box)
    boxes = tree.grid([])
    boxes = tree.halve(boxes, np.zeros(len(boxes), dtype=int))
    centers, radii = tree.boxes(boxes.index, boxes.level)
    low, high = centers - radii, centers + radii
    for point in [*table.box.sample(300, 1), *table.points, *table.box.corners()]:
        assert np.any(np.all((low <= point) & (point <= high), axis=1))
    volume = np.prod(2 * radii, axis=1).sum()
    assert math.isclose(volume, np.prod(table.box.upper - table.box.lower), rel_tol=1e-9)


@pytest.fixture(scope="module")
def plane() -> sw.Built:
    x, y = np.linspace(-1, 1, 15), np.linspace(0, 2, 11)
    table = sw.Table.grid([x, y], np.sin(2 * x)[:, None] * np.exp(-y), names=["x", "y"])
    return sw.approximate(table, tol=1e-4)


def test_approximate_states_both_bounds(plane: sw.Built, tmp_path: Path) -> None:
    certificate, table = plane.certificate, plane.source
    between = certificate.between
    points = table.box.sample(20_000, 4)
    seen = np.abs(plane(points) - table(points)).max()
    assert certificate.bound == 1e-4 < between.bound  # chords leave the curve by more than the tolerance
    assert seen <= between.bound <= 1.15 * seen
    rows = dict(plane.rows())
    assert f"{between.bound:.3g}" in rows["proved between points"] and "table's points" in rows["proved error"]
    plane.save(tmp_path / "table.safetensors")
    assert sw.load(tmp_path / "table.safetensors").certificate == certificate
    assert sw.verify(tmp_path / "table.safetensors").status == "VERIFIED GIVEN"


def test_without_between_nothing_is_stated_there(plane: sw.Built) -> None:
    found = certify(plane.network, plane.source, bound=1e-4, between=False)
    assert found.certificate is not None and found.certificate.between is None
    assert "nothing between them" in found.certificate.assumptions[0]


def test_files_of_before_still_load_and_damage_is_named(plane: sw.Built) -> None:
    data = plane.certificate.flat()
    old = {name: value for name, value in data.items() if name != "between"}
    assert Certificate.from_json(old).between is None
    for change in ({"bound": 1e-9}, {"hex": {}}, {"boxes": -1}, {"witness": [0.0]}, {"lower": math.nan}):
        with pytest.raises(InvalidInput, match="between"):
            Certificate.from_json({**data, "between": {**data["between"], **change}})
    with pytest.raises(InvalidInput, match="between"):
        Certificate.from_json({**data, "between": [1, 2]})
    with pytest.raises(InvalidInput, match="no table"):
        Certificate.from_json({**data, "target": {"kind": "expression", "text": "x*y", "variables": ["x", "y"]}})


@pytest.mark.parametrize("change", [{"bound": 1e-9}, {"exact_part": 5.0}, {"hex": {}}])
def test_the_checker_sees_a_damaged_statement_between(plane: sw.Built, tmp_path: Path, change: dict) -> None:
    from softwright.fileformat import write_model

    plane.save(tmp_path / "table.safetensors")
    file = read_flat(tmp_path / "table.safetensors")
    between = file.sections["certificate"]["between"]
    between.update(change)
    between["hex"].update({name: float(value).hex() for name, value in change.items() if name != "hex"})
    write_model(tmp_path / "table.safetensors", file.tensors, file.sections)
    assert sw.verify(tmp_path / "table.safetensors").status == "NOT VERIFIED"


def test_float32_tables_count_their_rounding() -> None:
    x = np.linspace(0, 1, 21)
    table = sw.Table(x, np.cos(2 * x), names=["x"])
    built = sw.approximate(table, tol=1e-3, dtype="float32")
    between = built.certificate.between
    assert between.rounding_part > 1e-8
    points = table.box.sample(20_000, 1).astype(np.float32).astype(float)
    assert np.abs(built(points) - table(points)).max() <= between.bound


def test_cells_too_narrow_for_floats_are_refused() -> None:
    with pytest.raises(InvalidInput, match="same to float64"):  # not even the rows could be met
        Table.grid([[-2.0, 0.0, 1e-200, 3.0]], [1.0, 2.0, 3.0, 0.0], names=["x"])
    table = Table.grid([[0.0, 1.0, 1.0 + 2.0**-52, 2.0]], [1.0, 2.0, 3.0, 0.0], names=["x"])
    wide = AttentionNetwork([Head(np.ones((1, 1)), np.zeros(1), np.ones((1, 1)))], table.box)
    with pytest.raises(InvalidInput, match="narrow"):
        certify(wide, table.interpolant(), bound=1.0)
    found = certify(wide, table, bound=10.0)
    assert found.certificate is not None and found.certificate.between is None


def test_models_enclose_the_interpolant_where_centres_are_rounded_to_a_wall() -> None:
    """A cell between neighbouring floats has its centre at one of its ends, where the next cell begins."""
    axis = 1.0 + np.array([-1.0, 0.0, 2.0**-52, 2.0**-51, 3 * 2.0**-52, 1.0])
    values = np.array([0.0, 0.0, 0.0, 5.0, 0.0, 0.0])
    table = Table.grid([axis], values, names=["x"])
    tree = CellTree(table.interpolant(), table.box)
    boxes = tree.grid([0])
    centers, radii = tree.boxes(boxes.index, boxes.level)
    (model,) = CellModels(table.interpolant(), table.box)(basis(1, 3), centers, radii)
    for i in range(len(centers)):
        middle = (Fraction(float(axis[i])) + Fraction(float(axis[i + 1]))) / 2
        s = float((middle - Fraction(float(centers[i, 0]))) / Fraction(float(radii[i, 0])))
        value = sum(c * s**k for k, c in enumerate(model.coefficients[:, i].tolist()))
        assert abs(value - (values[i] + values[i + 1]) / 2) <= model.remainder[i]
    wide = AttentionNetwork([Head(np.ones((1, 1)), np.zeros(1), np.ones((1, 1)))], table.box)
    with pytest.raises(InvalidInput, match="narrow"):
        certify(wide, table.interpolant(), bound=10.0)


@dataclass
class Spike:
    """A residual that no box round one point can be bounded for."""

    point: np.ndarray
    heads: tuple[()] = ()
    dim: int = 1
    at_once: int = 1024

    def cost(self, boxes: int, groups: int) -> float:
        return 1000.0 * boxes

    def bounds(self, centers: np.ndarray, radii: np.ndarray, groups: object, accuracy: float) -> BoxBounds:
        there = np.all(np.abs(centers - self.point) <= radii, axis=1)
        upper, none = np.where(there, np.inf, 0.0), np.zeros(len(centers))
        return BoxBounds(upper, none, none, none, np.ones_like(centers), none[None], none[None], none[None])


@pytest.mark.parametrize("cells", [1, 40, 3000])
def test_boxes_of_deep_searches_stay_in_their_cell(cells: int) -> None:
    """Cell and place in it share one integer of 64 bits: the search must end before they run into each other."""
    table = Table.grid([np.arange(-cells, 1.0)], np.zeros(cells + 1), names=["x"])
    spike: Any = Spike(np.array([-(2.0**-300)]))
    box = (table.box.lower, table.box.upper)
    tree = CellTree(table.interpolant(), table.box)
    assert not search(spike, box, Goal(1.0, 1.0), Run(Limits(10, 100_000)), tree=tree).finished


def test_scattered_points_and_integrals_are_refused() -> None:
    points = np.random.default_rng(0).uniform(-1, 1, (30, 2))
    table = sw.Table(points, points.sum(axis=1), names=["x", "y"])
    built = sw.approximate(table, tol=1e-3)
    assert built.certificate.between is None and "nothing between" in built.certificate.assumptions[0]
    with pytest.raises(InvalidInput, match="grid"):
        table.interpolant()
    network, grid = random_case(1, 1)
    with pytest.raises(InvalidInput, match="sup"):
        certify(network, grid.interpolant(), bound=1.0, norm="L2")
