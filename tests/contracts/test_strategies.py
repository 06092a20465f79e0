"""What every strategy owes its user, whatever the target: one suite, run for each pair of both."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from typer.main import get_group

import softwright as sw
from softwright.approximation.catalogue import STRATEGIES, attempts, loaded
from softwright.cli import app
from softwright.fileformat import read_model

LINE = {"x": (-1.0, 2.0)}
PLANE = {"x": (-1.0, 1.0), "y": (0.0, 2.0)}
SPACE = {"x": (-1.0, 1.0), "y": (-1.0, 1.0), "z": (0.0, 1.0)}


def ripple(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A callable: nothing is known of it but its values."""
    return np.sin(2 * x) * np.cos(y)


@dataclass(frozen=True)
class Case:
    strategy: str
    target: str | Callable[..., Any]
    sides: tuple[tuple[str, tuple[float, float]], ...]
    tol: float
    dtype: str = "float64"

    def build(self) -> sw.Built:
        # Proofs have their own suite; here the construction alone is under test.
        return sw.approximate(
            self.target, self.box, tol=self.tol, strategy=self.strategy, dtype=self.dtype, certify=False
        )

    @property
    def box(self) -> sw.Box:
        return sw.Box(dict(self.sides))

    def __str__(self) -> str:
        target = self.target if isinstance(self.target, str) else self.target.__name__
        return f"{self.strategy}: {target} ({self.dtype})"


BOXES = {"line": LINE, "plane": PLANE, "space": SPACE}
CALLABLES: dict[str, Callable[..., Any]] = {"ripple": ripple}
TABLE = """
    auto       sin(3*x), exp(-x)           line   1e-6  float64
    auto       sin(3*x)                    line   1e-4  float32
    auto       max(x - 0.3, 0) + sin(x)    line   1e-6  float64
    auto       sin(2*x)*cos(y)             plane  1e-5  float64
    auto       abs(x - y) + 0.1*x*y        plane  1e-5  float64
    auto       x*y + sin(z)                space  1e-5  float64
    auto       ripple                      plane  1e-4  float64
    layer      sin(3*x)*exp(-y**2)         plane  1e-4  float64
    layer      exp(-x)                     line   1e-6  float64
    spectral   sin(3*x)                    line   1e-6  float64
    spectral   exp(-x)                     line   1e-4  float32
    spectral   sin(2*x)*cos(y)             plane  1e-4  float64
    affine     tanh(3*x)                   line   1e-8  float64
    affine     sin(2*x)*cos(y)             plane  1e-4  float32
    grid       exp(-x*y)                   plane  1e-5  float64
    grid       tanh(3*x)                   line   1e-6  float64
    pieces     abs(x - 0.2)                line   1e-7  float64
    pieces     max(abs(x - y), 0.2)        plane  1e-6  float64
    pieces     max(x, 0.5) - 0.3*x         line   1e-4  float32
    graded     sqrt(x + 1)                 line   1e-6  float64
    graded     abs(x)**0.5                 line   1e-4  float32
    graded     1/(1.1 + x)                 line   1e-5  float64
    ridge      cos(6*x + 4*y)              plane  1e-6  float64
    ridge      exp(-(x - y + 0.5*z)**2)    space  1e-6  float64
    sum        sin(x) + y**2*x + exp(z)    space  1e-5  float64
    scattered  exp(-x**2 - y**2)           plane  1e-3  float64
    scattered  sin(2*x)                    line   1e-4  float32
    train      ripple                      plane  1e-5  float64
    train      exp(x*y)/(2 + z), x*z       space  1e-4  float32
    compose    abs(x**2 + y**2 - 0.5)      plane  1e-6  float64
    compose    sin(2*x)*exp(y)/(2 + z)     space  1e-7  float64
    compose    max(sin(x), x*y), cos(y)    plane  1e-3  float32
    cells      sin(2*x)                    line   2e-2  float64
    cells      x + y                       plane  1e-1  float32
"""


def case(strategy: str, target: str, box: str, tol: str, dtype: str) -> Case:
    return Case(strategy, CALLABLES.get(target, target), tuple(BOXES[box].items()), float(tol), dtype)


CASES = [case(*re.split(r" {2,}", line.strip())) for line in TABLE.strip().splitlines()]


@cache
def built_once(which: Case) -> sw.Built:
    return which.build()


@pytest.fixture(params=CASES, ids=str)
def built_case(request: pytest.FixtureRequest) -> tuple[Case, sw.Built]:
    return request.param, built_once(request.param)


BuiltCase = tuple[Case, sw.Built]


def one_layer(built: sw.Built) -> bool:
    """Whether the network is one layer of heads; a stack has no heads of that kind."""
    return built.kind == "approximation"


DOCS = Path(__file__).resolve().parents[2] / "docs"
_ROWS = pytest.mark.parametrize("name", STRATEGIES)


@_ROWS
def test_a_row_has_all_it_needs(name: str) -> None:
    row = STRATEGIES[name]
    assert row.name == name
    assert row.summary and "\n" not in row.summary and len(row.summary) <= 90, f"{name}: give a summary of one line"
    for code in (row.code, *row.automatic.values()):
        taken = list(inspect.signature(loaded(code)).parameters.values())
        assert [p.name for p in taken[:2]] == ["problem", "formula"], f"{name}: {code} must take these two"
        assert all(p.kind is p.KEYWORD_ONLY for p in taken[2:]), f"{name}: {code} takes more than problem and formula"
    assert any(which.strategy == name for which in CASES), f"{name}: add a target to CASES that it must meet"
    page = DOCS / "strategies" / f"{name}.md"
    if name != "auto":
        assert page.is_file(), f"{name}: write docs/strategies/{name}.md"
        for part in (f"# {name}: ", "**When it is chosen.**", "**Its limits.**", "```python"):
            assert part in page.read_text(encoding="utf-8"), f"{name}: its page lacks {part!r}"


def _options_of(command: str) -> dict[str, Any]:
    found = get_group(app).get_command(cast(Any, None), command)
    return {str(option.name): option for option in found.params} if found is not None else {}


@_ROWS
def test_a_row_is_named_wherever_strategies_are_listed(name: str) -> None:
    assert f"{name} " in str(sw.approximate.__doc__)
    assert STRATEGIES[name].summary in str(sw.approximate.__doc__)
    assert name in str(_options_of("approximate")["strategy"].help)


def test_the_automatic_order_has_one_attempt_per_place_and_ends_with_one_that_always_gives_something() -> None:
    places = [place for row in STRATEGIES.values() for place in row.automatic]
    assert len(places) == len(set(places)) == len(attempts())
    assert max(places) in STRATEGIES["scattered"].automatic


def test_every_case_is_of_a_strategy() -> None:
    assert {which.strategy for which in CASES} == set(STRATEGIES)


def test_the_tolerance_is_met_at_unseen_points(built_case: BuiltCase) -> None:
    which, built = built_case
    assert isinstance(built, sw.Built)
    points = which.box.sample(20_000, seed=20261)
    if which.dtype == "float32":  # both sides see the same input
        points = points.astype(np.float32).astype(np.float64)
        points = points[which.box.contains(points)]
    if isinstance(which.target, str):
        wanted = sw.Expression(which.target, which.box)(points)
    else:
        wanted = np.asarray(which.target(*points.T)).reshape(len(points), -1)
    error = np.abs(built(points) - wanted).max()
    assert error <= which.tol
    assert built.observed_error <= which.tol
    assert built.plan.tolerance == which.tol


def test_the_file_gives_the_same_network_bit_for_bit(built_case: BuiltCase, tmp_path: Path) -> None:
    which, built = built_case
    path = tmp_path / "model.safetensors"
    built.save(path)
    loaded = sw.load(path)
    points = which.box.sample(2000, seed=5)
    assert np.array_equal(loaded(points), built(points))
    for name, tensor in built.network.state_dict().items():
        assert torch.equal(loaded.network.state_dict()[name], tensor), name
    assert loaded.plan == built.plan
    assert loaded.observed == built.observed
    assert loaded.target == built.target
    assert loaded.network.box == built.network.box
    if one_layer(built) and any(head.structure == "grid" for head in built.network.layer):
        assert np.array_equal(
            loaded.network.evaluate(points, "factorised"), built.network.evaluate(points, "factorised")
        )
    if isinstance(which.target, str):
        assert loaded.source is not None
        assert np.array_equal(loaded.source(points), sw.Expression(which.target, which.box)(points))
    again = tmp_path / "again.safetensors"
    loaded.save(again)
    assert read_model(again).sections == read_model(path).sections
    assert read_model(again).weights_sha256 == read_model(path).weights_sha256


def test_tokens_add_up(built_case: BuiltCase) -> None:
    _, built = built_case
    if not one_layer(built):
        assert built.network.tokens == built.plan.tokens == sum(head["tokens"] for head in built.plan.heads)
        assert built.plan.parameters == built.network.parameter_count
        return
    heads = built.network.heads()
    assert built.network.tokens == sum(head.tokens for head in heads)
    assert built.plan.tokens == built.network.tokens
    assert built.plan.parameters == built.network.parameter_count == sum(head.parameters for head in heads)
    assert [head["tokens"] for head in built.plan.heads] == [head.tokens for head in heads]


def test_two_builds_are_equal_bit_for_bit(built_case: BuiltCase) -> None:
    which, built = built_case
    again = which.build()
    state = built.network.state_dict()
    assert set(state) == set(again.network.state_dict())
    for name, tensor in again.network.state_dict().items():
        assert torch.equal(state[name], tensor), name
    assert again.observed == built.observed


def test_the_dtype_asked_for_is_what_runs(built_case: BuiltCase) -> None:
    which, built = built_case
    dtype = getattr(torch, which.dtype)
    assert built.plan.dtype == which.dtype
    assert {tensor.dtype for tensor in built.network.state_dict().values()} == {dtype}
    out = built.network(torch.tensor(which.box.sample(3), dtype=dtype))
    assert out.dtype == dtype
    assert out.shape == (3, built.network.outputs)


def test_engines_agree(built_case: BuiltCase) -> None:
    which, built = built_case
    points = which.box.sample(500, seed=3)
    if not one_layer(built):
        x = torch.tensor(points, dtype=built.network.dtype)
        ways = [way(x).double().numpy() for way in (built.network.whole_sequence, built.network.multihead)]
        assert max(np.abs(way - built(points)).max() for way in ways) <= max(0.2 * which.tol, 1e-12)
        return
    difference = np.abs(built.network.evaluate(points, "sdpa") - built.network.evaluate(points, "factorised")).max()
    assert difference <= max(0.2 * which.tol, 1e-12)


def test_the_plan_says_why(built_case: BuiltCase) -> None:
    _, built = built_case
    assert built.plan.reasons
    text = built.plan.explain()
    assert built.plan.strategy in text
    assert text.count("head ") >= len(built.plan.heads)
    assert "observed error" in repr(built)
