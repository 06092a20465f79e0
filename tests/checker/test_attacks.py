"""The attacks of `benchmarks/` in small, of a fixed seed: false claims, certified networks climbed. Both find nothing.

Forgeries have a test of their own. What these find nothing with must be able to find something: a bound that is too
small is exceeded, and a claim that is true is proved.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def benchmarks() -> Iterator[dict[str, ModuleType]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield {name: importlib.import_module(name) for name in ("climb", "false_claims")}


def test_no_false_claim_is_proved(benchmarks: dict[str, ModuleType]) -> None:
    claims = benchmarks["false_claims"]
    counts = claims.run(0, len(claims.WAYS), 11)
    assert claims.proved(counts) == 0
    refuted = sum(n for (_, verdict), n in counts.items() if verdict == "refuted")
    assert 2 * refuted > len(claims.WAYS)  # most have a witness


def test_what_is_claimed_false_is_proved_where_it_is_true(benchmarks: dict[str, ModuleType]) -> None:
    """The same claim, twice as large as the error: else nothing but a small budget would be seen."""
    claims = benchmarks["false_claims"]
    proved = 0
    for trial in range(8):
        claim = claims.grids(np.random.default_rng([3, trial]))
        proved += claims.certify(claim.network, claim.target, bound=2 * claim.error, **claim.options).proved
    assert proved >= 6


def test_no_certified_network_exceeds_its_bound(benchmarks: dict[str, ModuleType], tmp_path: Path) -> None:
    climb = benchmarks["climb"]
    effort = climb.Effort(600, 3, 20)
    rows = climb.run(0, 2 * len(climb.DRAWS), 5, effort, tmp_path, None)
    assert {row["verb"] for row in rows} == set(climb.DRAWS)
    assert climb.violations(rows) == 0, climb.report(rows)


@pytest.mark.parametrize("verb", ["approximate", "transpile", "in context", "theorem"])
def test_a_bound_that_is_too_small_is_exceeded(benchmarks: dict[str, ModuleType], tmp_path: Path, verb: str) -> None:
    climb = benchmarks["climb"]
    for trial in range(20):
        job = climb.drawn(verb, 5, trial)
        if job is None or job.known is not None:
            continue
        said = job.built.certificate
        parts = {name: getattr(said, name) * 1e-9 for name in ("bound", "exact_part", "rounding_part")}
        small = replace(job, built=replace(job.built, certificate=replace(said, **parts)))
        try:
            seen = climb.climbed(small, tmp_path / "small.safetensors", climb.Effort(600, 3, 20))
        except climb.CannotJudge:
            continue
        if seen.share > 1:
            return
    pytest.fail("no bound was exceeded")
