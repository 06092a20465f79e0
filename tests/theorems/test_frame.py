"""The frame of the theorems: labels, options, results, files, figures and the two commands."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import softwright as sw
from softwright.attention import Constructed
from softwright.cli import app
from softwright.errors import InvalidInput
from softwright.experiments.library_sequences import library_sequences
from softwright.experiments.verb import reproduce
from softwright.result.closed_form import EXACT_ARITHMETIC
from softwright.theorems import LABELS, find_theorem
from softwright.theorems.tools.construction import float_above
from softwright.theorems.tools.network import Attention, FeedForward, Linear, Softmax, TheoremNetwork, Tokens
from softwright.theorems.tools.theorem import Option, Theorem
from softwright.theorems.verb import row, sweep_rows

SMALL: dict[str, dict[str, Any]] = {
    "A1": {"points": 9, "tokens": 4, "dim": 2},
    "A2": {"tokens": 5, "heads": 2, "dim": 2},
}


@pytest.mark.parametrize("label", LABELS)
def test_every_label_says_what_it_is(label: str) -> None:
    stated = find_theorem(label.lower())
    assert isinstance(stated, Theorem)
    assert stated.label == label
    assert stated.title
    assert "\n" not in stated.title
    assert stated.statement.endswith(".")
    assert "arXiv" in stated.paper
    assert stated.conditions
    names = [option.name for option in stated.options]
    assert len(set(names)) == len(names)
    assert all(option.help for option in stated.options)
    if stated.sweep is not None:
        assert stated.sweep[0] in names


def test_an_unknown_label_lists_those_there_are() -> None:
    with pytest.raises(InvalidInput, match="A1, A2"):
        sw.theorem("A9")


def test_all_faulty_sizes_are_named_together() -> None:
    with pytest.raises(InvalidInput) as caught:
        sw.theorem("A1").build(points="many", tokens=2.5, a=float("inf"), colour=3)
    assert len(caught.value.faults) == 4


def test_option_types() -> None:
    from softwright.errors import Faults

    faults = Faults("t")
    assert Option("n", int, 1, "").checked("7", faults) == 7
    assert Option("x", float, 1.0, "").checked("1e-3", faults) == 1e-3
    assert Option("c", str, "a", "", ("a", "b")).checked("b", faults) == "b"
    assert not faults.found
    Option("c", str, "a", "", ("a", "b")).checked("z", faults)
    Option("n", int, 1, "").checked(True, faults)
    assert len(faults.found) == 2


@pytest.mark.parametrize("label", ["A1", "A2", "A3", "A4", "A5", "A6"])
def test_built_keeps_everything_in_a_file(label: str, tmp_path: Path) -> None:
    built = sw.theorem(label).build(**SMALL.get(label, {}))
    assert isinstance(built.network, Constructed)
    certificate = built.certificate
    assert certificate.method == f"theorem {label}"
    proved = label in ("A1", "A2")  # whose rounding in float64 is bounded as well
    assert (certificate.rounding_part > 0) == proved
    assert (EXACT_ARITHMETIC in certificate.assumptions) == (not proved)
    assert certificate.bound >= certificate.exact_part == built.source.bound
    assert built.observed_error <= certificate.bound
    assert built.target["kind"] == "theorem"
    built.save(tmp_path / "t.safetensors")
    again = sw.load(tmp_path / "t.safetensors")
    assert again.certificate == certificate
    assert again.target == built.target
    inputs = built.source.sample(np.random.default_rng(1), 5)
    np.testing.assert_array_equal(again(inputs), built(inputs))
    assert f"theorem {label}" in repr(again)


def test_a_changed_weight_voids_the_certificate(tmp_path: Path) -> None:
    built = sw.theorem("A1").build(**SMALL["A1"])
    with torch.no_grad():
        built.network.state_dict()["stages.0.R"][0, 0] += 1e-6
    with pytest.warns(UserWarning, match="weights were changed after the proof"):
        built.save(tmp_path / "t.safetensors")
    assert sw.load(tmp_path / "t.safetensors").certificate is None


def test_stages_are_the_formulas_they_claim_to_be() -> None:
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((3, 4))
    K, Q, V, W_O = (rng.standard_normal(shape) for shape in ((2, 2, 3), (2, 2, 3), (2, 5, 3), (2, 3, 5)))
    T = rng.standard_normal((2, 4, 4)) * (rng.random((2, 4, 1)) < 0.5)
    expected = Z.copy()
    for h in range(2):
        scores = (K[h] @ Z).T @ (Q[h] @ Z)
        weights = np.exp(scores) / np.exp(scores).sum(axis=0)
        expected = expected + W_O[h] @ V[h] @ Z @ weights @ T[h]
    got = Attention(K, Q, V, W_O, T, residual=True)(torch.from_numpy(Z)).numpy()
    np.testing.assert_allclose(got, expected, atol=1e-12)
    causal = Attention(K, Q, V, causal=True).weights(torch.from_numpy(Z), 0).numpy()
    assert np.all(causal[np.tril_indices(4, -1)] == 0)
    hard = Attention(K, Q, V, hard=True).weights(torch.from_numpy(Z), 0).numpy()
    assert np.array_equal(np.sort(hard, axis=0)[:-1], np.zeros((3, 4)))
    feed = FeedForward(np.eye(3), [1, 1, 1], 2 * np.eye(3), [0, 0, 1], residual=True)(torch.from_numpy(Z)).numpy()
    np.testing.assert_allclose(feed, Z + 2 * np.maximum(Z + 1, 0) + np.array([[0], [0], [1]]))
    chain = TheoremNetwork("X", [Tokens(np.eye(3)[None], np.eye(4)[None], Z), Softmax(), Linear(np.eye(3))], (3, 4))
    same = TheoremNetwork.rebuilt(chain.describe(), {k: v.numpy() for k, v in chain.state_dict().items()})
    np.testing.assert_array_equal(chain.evaluate(Z), same.evaluate(Z))
    assert chain.evaluate(np.stack([Z, Z])).shape == (2, 3, 4)


def test_up_never_rounds_down() -> None:
    for value in (Fraction(1, 3), Fraction(2, 3), Fraction(1, 10), Fraction(5)):
        assert Fraction(float_above(value)) >= value
        assert float(Fraction(float_above(value)) - value) <= 1e-16 * float(value) * 3


def test_a_row_has_our_proof_and_our_construction_beside_it() -> None:
    made = find_theorem("A1").build()
    line = row(made)
    assert line.proved is not None
    assert line.observed <= line.proved <= 1.1 * made.bound
    assert line.softwright["same tokens, best temperature, all numbers"][0] == 60
    tokens, error, proved = line.softwright["softwright (float32)"]
    assert tokens == 3 and not proved
    assert error <= 1e-5
    assert sweep_rows(find_theorem("A2"), SMALL["A2"])[0].size == "heads 1"


def test_the_command_lists_builds_and_draws(tmp_path: Path) -> None:
    runner = CliRunner()
    listed = runner.invoke(app, ["theorem"])
    assert listed.exit_code == 0
    assert all(label in listed.stdout for label in LABELS)
    picture, model = tmp_path / "a.png", tmp_path / "a.safetensors"
    arguments = ["theorem", "A2", "--heads", "4", "--tokens=6", "--dim", "2", "--a", "-1", "--b", "1"]
    done = runner.invoke(app, [*arguments, "--plot", str(picture), "-o", str(model), "--sweep"])
    assert done.exit_code == 0, done.output
    assert "theorem's bound" in done.stdout
    assert "heads 16" in done.stdout
    assert picture.stat().st_size > 1000
    assert sw.load(model).certificate.method == "theorem A2"
    sw.load(model).plot(tmp_path / "b.png")
    answer = json.loads(runner.invoke(app, [*arguments, "--no-proofs", "--json"]).stdout)
    assert answer["ok"]
    assert answer["table"][0]["bound"] == answer["certificate"]["exact_part"]
    sizes = runner.invoke(app, ["theorem", "a1", "--sizes"])
    assert "points" in sizes.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["A7"], "A1, A2"),
        (["A1", "--colour", "3"], "--points"),
        (["A1", "--points"], "needs a value"),
        (["A1", "points=3"], "--name value"),
        (["A1", "--points", "10", "--tokens", "20"], "p > n"),
        (["A1", "--plot", "/no/such/folder/x.png"], "create it first"),
    ],
)
def test_the_command_explains_what_is_wrong(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["theorem", *arguments])
    assert done.exit_code in (2, 4)
    assert said in done.output


def test_reproduce_writes_numbers_and_figures(tmp_path: Path) -> None:
    done = reproduce(["heatmap", "sequence"], tmp_path / "out")
    assert [each.name for each in done] == ["heatmap", "sequence"]
    for each in done:
        assert Path(each.figure).stat().st_size > 1000
        assert each.trained_seconds == 0
    lines = (tmp_path / "out" / "sequence.csv").read_text().splitlines()
    assert lines[0] == "heads,mean_square,largest,bound"
    for line in lines[1:]:
        _, _, largest, bound = map(float, line.split(","))
        assert largest <= bound
    with pytest.raises(InvalidInput, match="points, heads"):
        reproduce(["nothing"], tmp_path)
    with pytest.raises(InvalidInput, match="--trained"):
        reproduce(["points"], tmp_path, seeds=1)


def test_reproduce_trains_with_every_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from softwright.experiments import trained, verb

    monkeypatch.setattr(verb, "RELU_SEQUENCES", 40)
    monkeypatch.setattr(verb, "_SEQUENCE_POINTS", (10, 12))
    monkeypatch.setattr(trained, "RELU_EPOCHS", 1)
    reproduce(["sequence-points"], tmp_path, trained=True, seeds=2)
    lines = (tmp_path / "sequence-points.csv").read_text().splitlines()
    rows = [dict(zip(lines[0].split(","), line.split(","), strict=True)) for line in lines[1:]]
    assert [row["points"] for row in rows] == ["10", "12"]
    assert all(row["seeds"] == "2" and float(row["trained_largest_sd"]) > 0 for row in rows)


def test_reproduce_trains_with_the_published_settings() -> None:
    from softwright.experiments import trained

    assert (trained.CLIP_EPOCHS, trained.RELU_EPOCHS, trained.LEARNING_RATE, trained.BATCH) == (50, 3, 1e-3, 32)
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (20, 4, 2))
    score = trained.train(trained.TrainedModel(2, 4, 6, 2), x, x[..., :1], 0)
    assert score.mean_square < float((x[..., :1] ** 2).mean())


def test_library_sequences_differ_and_are_long_enough() -> None:
    sequences, labels = library_sequences(100, 8)
    assert len(sequences) == len(labels) == 100
    assert len({tuple(sequence) for sequence in sequences}) == 100
    assert {len(sequence) for sequence in sequences} == {8}
