"""Tables of measurements: a fit by cross-validation (`noisy.py`), and what can be said of it.

No function is to be met at the rows, so there is no tolerance and no bound. What is reported is the cross-validated
rms, the share of rows within 1.96 of it of what the other folds predict (95 % if errors are normal), and the residuals
as a figure.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from softwright.approximation.noisy import fit_noisy
from softwright.approximation.observe import observed
from softwright.approximation.plan import make_plan
from softwright.approximation.problem import Fit
from softwright.attention import AttentionNetwork
from softwright.domain import Box
from softwright.precision import Precision
from softwright.report.style import BLUE, CYCLE, GREY, figure
from softwright.result.built import Built
from softwright.result.outcome import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from softwright.targets import Table

_MOST_TOKENS = 200
_COVERED = 1.96


def noise_faults(noise: Any, is_table: bool, strategy: Any, norm: Any) -> list[str]:
    """What is wrong with the option, each with its remedy."""
    if noise is None:
        return []
    found = []
    number = isinstance(noise, int | float) and not isinstance(noise, bool) and np.isfinite(noise) and noise > 0
    if noise != "auto" and not number:
        found.append(f'noise must be "auto", a standard deviation above 0 or None, got {noise!r}; try noise="auto"')
    if not is_table:
        found.append("noise= is for tables of measurements; formulas and callables have none: leave it out")
    if strategy != "auto" or norm != "sup":
        found.append("noise= chooses its tokens by cross-validation; leave out strategy= and norm=")
    return found


def fitted_to_noise(
    table: Table, box: Box, noise: float | str, precision: Precision, max_tokens: int, started: float
) -> Built[Any]:
    """A network that follows the rows without repeating their noise."""
    sd = None if isinstance(noise, str) else float(noise)
    with threadpool_limits(limits=1):
        found = fit_noisy(table.points, table.values, box, sd=sd, most_tokens=min(max_tokens, _MOST_TOKENS))
    network = AttentionNetwork(found.heads, box, precision.torch_dtype)
    rms = [float(each) for each in found.rms]
    shown = ", ".join(f"{each:.3g}" for each in rms)
    reasons = (
        *table.notes,
        f"a fit to noisy rows, chosen by {found.folds} folds: {found.words}",
        f"cross-validated rms {shown}; {100 * found.coverage:.1f} % of rows within {_COVERED} rms of the others' word",
    )
    heads = network.heads()
    plan = make_plan(Fit(found.heads, max(rms), "noisy", reasons), network, heads, 0.0, started)
    noisy = {"rms": rms, "coverage": float(found.coverage), "folds": found.folds, "sd": sd}
    plan = type(plan)(**{**plan.as_dict(), "seconds": time.monotonic() - started, "noise": noisy})
    seen = observed(network, table, heads)
    return Built(
        network=network,
        plan=plan,
        target=table.describe(),
        observed=seen,
        source=table,
        unproved=Outcome.NOISY.value,
    )


def plot_residuals(built: Built[Any], path: str | Path | None = None) -> Figure:
    """Residuals against what was predicted, with the band of 1.96 rms, and their histogram."""
    table, noise = built.source, built.plan.noise or {}
    predicted = built(table.points)
    residuals = table.values - predicted
    title = f"a fit to {len(residuals)} noisy rows, {built.network.tokens} tokens: no bound"
    with figure(path, (7.2, 3.8), title) as drawn:
        left, right = drawn.subplots(1, 2, sharey=True, width_ratios=[2.4, 1])
        for output, rms in enumerate(noise.get("rms", [])):
            colour = CYCLE[output % len(CYCLE)]
            left.plot(predicted[:, output], residuals[:, output], ".", color=colour, ms=3, alpha=0.6)
            for side in (-_COVERED * rms, _COVERED * rms):
                left.axhline(side, color=colour, lw=0.9, ls="--")
            right.hist(residuals[:, output], bins=40, orientation="horizontal", color=colour, alpha=0.6)
        left.axhline(0.0, color=GREY, lw=0.8)
        left.set_xlabel("predicted")
        left.set_ylabel("row minus prediction")
        share = f"{100 * noise.get('coverage', 0.0):.1f} %"
        left.set_title(f"{share} of rows within ±{_COVERED} rms of what the other folds say", color=BLUE)
        right.set_xlabel("rows")
    return drawn
