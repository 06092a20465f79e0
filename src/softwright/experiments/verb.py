"""`reproduce`: the experiments of papers A and C, with weights computed instead of trained; a CSV and a figure each.

    points            A1   error against the number p of interpolation tokens, 60, 70, .., 120; n = 50, d = 10
    heads             A2   error against the number H of heads, 1..16; n = 50, d = 10, [a, b] = [-25, 25]
    range             A1   error against |b - a|, 10..50; p = 60
    heatmap           A1   attention weights for |b - a| = 0.5, 1.5, 3; p = 30, n = 29
    sequence          A3   a random relu network of 10 units against the heads, 1..32; n = 20, d = 5, inputs in [0, 1]
    sequence-points   A3   the same against the tokens p that a trained model has, 10, 12, .., 20; 8 heads, n = 10
    memory            C    token sequences of the standard library's source in a rank-1 layer, recalled

Data is uniform in [-5, 5] in the first four. `trained` adds models of the paper's shape, trained with the published
settings (`trained.py`) and as many seeds, to the same figures: means, and bands of one standard deviation. `seeds`
takes fewer. The construction of A3 appends no tokens, so that in sequence-points it is the same for every p.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softwright.errors import Faults
from softwright.experiments import figure as reproduce_figure
from softwright.experiments.library_sequences import library_sequences
from softwright.experiments.trained import (
    CLIP_SEEDS,
    HEADS_SEEDS,
    HIDDEN,
    HIDDEN_OF_POINTS,
    POINTS_SEEDS,
    RELU_SEQUENCES,
    Score,
    train_clip,
    train_sequences,
)
from softwright.progress import Progress, Say, reporting
from softwright.targets.table_files import write_csv
from softwright.theorems import find_theorem
from softwright.theorems.tools.clipping import RADIUS
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.network import Attention
from softwright.threads import one_thread

PUBLISHED = (
    "trained runs use the published settings: Adam, learning rate 1e-3, batches of 32; 50 epochs on 1,000 sequences, "
    "11 seeds (clips); 3 epochs on 50,000 sequences, 7 and 3 seeds (relu network); fewer seeds where --seeds says so"
)
_POINTS = (60, 70, 80, 90, 100, 110, 120)
_HEADS = (1, 2, 4, 8, 16)
_RANGES = (10.0, 20.0, 30.0, 40.0, 50.0)
_MAPS = (0.5, 1.5, 3.0)
_SEQUENCE_HEADS = (1, 2, 4, 8, 16, 32)
_SEQUENCE_POINTS = (10, 12, 14, 16, 18, 20)
_STORED = (100, 300, 1000, 3000)
_SEED = 1234
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Experiment:
    """One experiment: where its numbers and its picture are, and how long each part took."""

    name: str
    csv: str
    figure: str
    seconds: float
    trained_seconds: float
    summary: dict[str, str] = field(default_factory=dict)

    def rows(self) -> list[tuple[str, str]]:
        times = f"{self.seconds:.1f} s constructed"
        if self.trained_seconds:
            times += f", {self.trained_seconds:.1f} s trained"
        return [*self.summary.items(), ("time", times), ("numbers", self.csv), ("figure", self.figure)]


def reproduce(
    names: Sequence[str] | None = None,
    folder: str | Path = "reproduced",
    *,
    trained: bool = False,
    seeds: int | None = None,
    progress: Progress = None,
) -> list[Experiment]:
    """Run the experiments of these names (all unless given) and write a CSV and a figure of each into the folder.

    trained    train the papers' models beside them; with all seeds that takes hours
    seeds      of training, at most; the published ones unless given
    """
    faults = Faults("reproduce")
    good = seeds is None or (isinstance(seeds, int) and not isinstance(seeds, bool) and seeds >= 1)
    faults.check(good, f"seeds = {seeds!r}; give a whole number of at least 1")
    faults.check(seeds is None or trained, "seeds are those of training; add trained (--trained)")
    for name in names or ():
        faults.check(name in _EXPERIMENTS, f"there is no experiment {name!r}; choose from {', '.join(_EXPERIMENTS)}")
    faults.raise_if_any()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    done = []
    with reporting(progress, "reproducing") as say, one_thread():
        for name in names or _EXPERIMENTS:
            say(name)
            done.append(_run(name, folder, trained, seeds, say))
    return done


def _run(name: str, folder: Path, trained: bool, seeds: int | None, say: Say) -> Experiment:
    clock = _Clock(trained, seeds, say)
    started = time.monotonic()
    rows, summary = _EXPERIMENTS[name](clock)
    table, picture = folder / f"{name}.csv", folder / f"{name}.png"
    columns = list(dict.fromkeys(key for row in rows for key in row))
    write_csv(table, [columns, *[[row.get(column, "") for column in columns] for row in rows]])
    reproduce_figure.draw(name, rows, picture)
    seconds = time.monotonic() - started - clock.seconds
    return Experiment(name, str(table), str(picture), seconds, clock.seconds, summary)


class _Clock:
    """Says whether to train, and keeps the time of training apart."""

    def __init__(self, trained: bool, seeds: int | None, say: Say) -> None:
        self.trained, self.say, self.seconds, self._seeds = trained, say, 0.0, seeds

    def run(self, message: str, work: Callable[[], Any]) -> Any:
        self.say(f"training: {message}")
        started = time.monotonic()
        result = work()
        self.seconds += time.monotonic() - started
        return result

    def scores(self, message: str, seeds: Sequence[int], work: Callable[[int], Score]) -> dict[str, Any]:
        """What training reaches with every seed: means and standard deviations."""
        if not self.trained:
            return {}
        some = list(seeds)[: self._seeds]
        found = [self.run(f"{message}, seed {seed}", lambda s=seed: work(s)) for seed in some]
        row: dict[str, Any] = {"seeds": len(some)}
        for name in ("mean_square", "largest"):
            values = np.array([getattr(score, name) for score in found])
            row |= {f"trained_{name}": float(values.mean()), f"trained_{name}_sd": float(values.std())}
        return row


def _measured(made: Construction, seed: int = _SEED, count: int = 200) -> dict[str, float]:
    """Mean square and largest error on random data of the experiment, and the largest seen at telling inputs too."""
    rng = np.random.default_rng(seed)
    d, n = made.network.inputs
    inputs = rng.uniform(-RADIUS, RADIUS, (count, d, n)) if made.label != "A3" else rng.uniform(0, 1, (count, d, n))
    gap = made.network.evaluate(inputs) - made.target(inputs)
    return {
        "mean_square": float((gap**2).mean()),
        "largest": max(float(np.abs(gap).max()), made.observe(seed)[0]),
        "bound": made.bound,
    }


def _clip_rows(clock: _Clock, label: str, name: str, values: Sequence[Any], sizes: Callable[[Any], dict]) -> Rows:
    rows: Rows = []
    w, t = _drawn_clip(_SEED)
    for value in values:
        asked = {"tokens": 50, "dim": 10, "weights": w, "offsets": t, **sizes(value)}
        row: dict[str, Any] = {name: value, **_measured(find_theorem(label).build(**asked))}
        a, b = asked.get("a", -25.0), asked.get("b", 25.0)
        points, heads = asked.get("points", 60), asked.get("heads", 1)

        def learn(seed: int, a: float = a, b: float = b, points: int = points, heads: int = heads) -> Score:
            return train_clip(*_drawn_clip(seed), a, b, points, heads, seed)

        row |= clock.scores(f"{name} {value}", CLIP_SEEDS, learn)
        rows.append(row)
    return rows


def _drawn_clip(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights and offsets of 50 tokens."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((50, 10)), rng.standard_normal(50)


def _slope(rows: Rows, name: str) -> str:
    x, y = np.log([row[name] for row in rows]), np.log([row["largest"] for row in rows])
    return f"{np.polyfit(x, y, 1)[0]:.3f} (largest error against {name}, log-log)"


def _trained_summary(rows: Rows) -> dict[str, str]:
    if "trained_largest" not in rows[0]:
        return {}
    best = min(row["trained_largest"] for row in rows)
    square = min(row["trained_mean_square"] for row in rows)
    return {
        "trained": f"largest error {best:.3g} at best, mean square {square:.3g}, means of {rows[0]['seeds']} seed(s)"
    }


def _points(clock: _Clock) -> tuple[Rows, dict[str, str]]:
    rows = _clip_rows(clock, "A1", "points", _POINTS, lambda p: {"points": p})
    return rows, {"slope": _slope(rows, "points"), **_trained_summary(rows)}


def _heads(clock: _Clock) -> tuple[Rows, dict[str, str]]:
    rows = _clip_rows(clock, "A2", "heads", _HEADS, lambda h: {"heads": h})
    return rows, {"slope": _slope(rows, "heads"), **_trained_summary(rows)}


def _range(clock: _Clock) -> tuple[Rows, dict[str, str]]:
    rows = _clip_rows(clock, "A1", "range", _RANGES, lambda r: {"points": 60, "a": -r / 2, "b": r / 2})
    return rows, {"slope": _slope(rows, "range"), **_trained_summary(rows)}


def _heatmap(clock: _Clock) -> tuple[Rows, dict[str, str]]:
    n, p = 29, 30
    rng = np.random.default_rng(_SEED)
    w, t = rng.standard_normal((n, 10)), rng.standard_normal(n)
    X = rng.uniform(-RADIUS, RADIUS, (10, n))
    rows: Rows = []
    nearest = []
    for width in _MAPS:
        sizes = {"points": p, "tokens": n, "dim": 10, "a": -width / 2, "b": width / 2, "weights": w, "offsets": t}
        network = find_theorem("A1").build(**sizes).network
        attention = network.stages[1]
        if not isinstance(attention, Attention):
            raise TypeError("the second stage of A1 attends")
        maps = {"constructed": attention.weights(network.stages[0](torch.from_numpy(X)), 0)[:, :n].numpy()}
        if clock.trained:
            score = clock.run(f"|b-a| = {width}", lambda r=width: train_clip(w, t, -r / 2, r / 2, p, 1, _SEED))
            with torch.inference_mode():
                Z = score.model.all_tokens(torch.from_numpy(X.T[None]).float())
                maps["trained"] = score.model.attention[0].weights(Z)[0, 0, :n].numpy().T
        nearest.append(float(maps["constructed"].max(axis=0).min()))
        for kind, weights in maps.items():
            rows += [
                {"range": width, "kind": kind, "key": key, "query": query, "weight": float(weights[key, query])}
                for key in range(p)
                for query in range(n)
            ]
    return rows, {"largest weight of a query": f"at least {min(nearest):.3f}"}


def _relu_network(heads: int, tokens: int) -> tuple[Construction, Callable[[], tuple[np.ndarray, np.ndarray]]]:
    """The construction for the random relu network, and the sequences (q, n, d) to train on."""
    made = find_theorem("A3").build(heads=heads, tokens=tokens, dim=5, hidden=10, seed=42)

    def drawn() -> tuple[np.ndarray, np.ndarray]:
        X = np.random.default_rng(42).uniform(0, 1, (RELU_SEQUENCES, 5, tokens))
        return np.swapaxes(X, 1, 2), np.swapaxes(made.target(X), 1, 2)

    return made, drawn


def _trained_network(
    clock: _Clock, message: str, drawn: Callable[[], Any], points: int, heads: int, hidden: int, seeds: Sequence[int]
) -> dict[str, Any]:
    if not clock.trained:
        return {}
    x, y = drawn()
    return clock.scores(message, seeds, lambda seed: train_sequences(x, y, points, heads, seed, hidden))


def _sequence(clock: _Clock) -> tuple[Rows, dict[str, str]]:
    rows: Rows = []
    for heads in _SEQUENCE_HEADS:
        made, drawn = _relu_network(heads, 20)
        row = {"heads": heads, **_measured(made, count=1000)}
        rows.append(row | _trained_network(clock, f"{heads} heads", drawn, 20, heads, HIDDEN, HEADS_SEEDS))
    return rows, {"slope": _slope(rows, "heads"), **_trained_summary(rows)}


def _sequence_points(clock: _Clock) -> tuple[Rows, dict[str, str]]:
    made, drawn = _relu_network(8, 10)
    measured, rows = _measured(made, count=1000), []
    for points in _SEQUENCE_POINTS:
        found = _trained_network(clock, f"p = {points}", drawn, points, 8, HIDDEN_OF_POINTS, POINTS_SEEDS)
        rows.append({"points": points, **measured, **found})
    said = f"largest error {measured['largest']:.3g}, mean square {measured['mean_square']:.3g}, no tokens appended"
    return rows, {"constructed": said, **_trained_summary(rows)}


def _memory(clock: _Clock) -> tuple[Rows, dict[str, str]]:
    from softwright.memory.network import paper_parameters
    from softwright.memory.verb import memorize

    sequences, labels = library_sequences(max(_STORED), length=8)
    rows: Rows = []
    for count in _STORED:
        started = time.monotonic()
        built = memorize(sequences[:count], labels[:count], rank=1)
        recalled = np.asarray(built(sequences[:count])) == np.asarray(labels[:count])
        rows.append(
            {
                "sequences": count,
                "length": 8,
                "rank": 1,
                "accuracy": float(recalled.mean()),
                "parameters": built.plan.parameters,
                "theorem_C4_parameters": paper_parameters(1, 1, 8, count),
                "seconds": round(time.monotonic() - started, 3),
            }
        )
    return rows, {"recalled": ", ".join(f"{row['accuracy']:.2%} of {row['sequences']}" for row in rows)}


_EXPERIMENTS: dict[str, Callable[[_Clock], tuple[Rows, dict[str, str]]]] = {
    "points": _points,
    "heads": _heads,
    "range": _range,
    "heatmap": _heatmap,
    "sequence": _sequence,
    "sequence-points": _sequence_points,
    "memory": _memory,
}
