"""`approximate` and `Built`: the way of the data, budgets, relative tolerances, files, and what a failure says."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.attention import SoftmaxHead
from softwright.fileformat import read_model, write_model
from softwright.proof import question
from softwright.result.outcome import Outcome
from softwright.result.plan import Plan
from softwright.targets.formula import Tape
from softwright.targets.formula.definedness import UndefinedSearch

LINE = sw.Box(x=(-1, 1))


@pytest.fixture(scope="module")
def sine() -> sw.Built:
    return sw.approximate("sin(3*x)", LINE, tol=1e-5)


def test_calls_by_position_and_by_name() -> None:
    built = sw.approximate("x - 2*y", sw.Box(x=(-1, 1), y=(0, 1)), tol=1e-9)
    assert built(x=0.5, y=0.25)[0] == pytest.approx(0.0, abs=1e-12)
    assert built(y=[0.0, 1.0], x=1.0).shape == (2, 1)
    assert built([[0.5, 0.25], [1.0, 0.0]]).shape == (2, 1)
    with pytest.raises(sw.InvalidInput, match="give every one of x, y"):
        built(x=1.0)
    with pytest.raises(sw.InvalidInput, match="give every one of x, y"):
        built(x=1.0, y=0.0, z=0.0)


def test_a_dictionary_is_a_box_too() -> None:
    assert sw.approximate("x", {"x": (0, 1)}).network.box == sw.Box(x=(0, 1))


def test_a_pair_is_a_box_of_the_variables_that_the_target_names() -> None:
    assert sw.approximate("2*h", (0, 1)).network.box == sw.Box(h=(0, 1))
    assert sw.approximate("b - a", [(0, 1), (2, 3)]).network.box == sw.Box(b=(0, 1), a=(2, 3))
    assert sw.approximate("b - a", (0, 1)).network.box == sw.Box(b=(0, 1), a=(0, 1))
    assert sw.approximate(sw.Function(np.sign, "h", outputs=1), (0.5, 1)).network.names == ("h",)
    assert sw.approximate(lambda x: 2 * x, (0, 1)).network.names == ("x",)
    with pytest.raises(sw.InvalidInput) as caught:
        sw.approximate("sin(", (0, 1))
    assert len(caught.value.faults) == 1


def test_a_dtype_may_be_a_name_or_a_type() -> None:
    named, typed = (sw.approximate("sin(3*x)", LINE, tol=1e-3, dtype=dtype) for dtype in ("float32", torch.float32))
    assert named.network.dtype == typed.network.dtype == torch.float32
    assert named.certificate.weights_sha256 == typed.certificate.weights_sha256


def test_constants_and_affine_targets_take_one_token() -> None:
    assert sw.approximate("3", LINE).network.tokens == 1
    assert sw.approximate("2*x - 1", LINE).network.tokens == 1
    assert sw.approximate("0*x", LINE).network.tokens == 1


def test_variables_may_be_idle_and_in_any_order() -> None:
    box = sw.Box(y=(-1, 1), unused=(0, 1), x=(-1, 1))
    built = sw.approximate("sin(x - y)", box, tol=1e-5)
    points = box.sample(500)
    assert np.abs(built(points)[:, 0] - np.sin(points[:, 2] - points[:, 0])).max() <= 1e-5


def test_relative_tolerance_is_times_half_the_range() -> None:
    built = sw.approximate("1000*sin(3*x) + 5", LINE, tol=1e-5, relative=True)
    assert built.plan.tolerance == pytest.approx(1e-2, rel=1e-3)
    assert built.observed_error <= built.plan.tolerance
    constant = sw.approximate("1000 + 0*x", LINE, tol=1e-5, relative=True)
    assert constant.plan.tolerance == pytest.approx(1e-2)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_size_of_the_target_does_not_matter(scale: float) -> None:
    built = sw.approximate(f"{scale}*sin(3*x)", LINE, tol=1e-6, relative=True)
    assert built.network.tokens <= 6
    assert built.observed_error <= 1e-6 * scale


def test_far_and_narrow_boxes() -> None:
    for box in (sw.Box(x=(1e5, 1e5 + 2)), sw.Box(x=(-3e-6, 5e-6))):
        middle, half = float(box.center[0]), float(box.halfwidth[0])
        built = sw.approximate(f"sin(3*(x - {middle!r})/{half!r})", box, tol=1e-6)
        assert built.network.tokens <= 6


def test_progress_is_reported() -> None:
    messages: list[str] = []
    sw.approximate("sin(3*x)", LINE, tol=1e-4, progress=messages.append)
    assert any(message.startswith("proving: ") for message in messages)  # the proof tells of its rounds too


def test_a_missed_tolerance_attaches_the_best_network() -> None:
    with pytest.raises(sw.ToleranceNotReached, match="reached") as caught:
        sw.approximate("sin(3*x)*cos(4*y)*x", sw.Box(x=(-1, 1), y=(-1, 1)), tol=1e-3, strategy="cells", max_tokens=100)
    best = caught.value.best
    assert isinstance(best, sw.Built)
    assert best.observed_error > 1e-3
    assert best.network.tokens <= 100


def test_a_jump_cannot_be_met_and_the_error_says_so() -> None:
    with pytest.raises(sw.ToleranceNotReached, match="no continuous network can meet a jump") as caught:
        sw.approximate("where(x < 0, 0, 1 + x)", LINE, tol=1e-4)
    assert caught.value.best is not None


def test_time_runs_out_in_time() -> None:
    started = time.monotonic()
    with pytest.raises(sw.ToleranceNotReached):
        sw.approximate("sqrt(abs(x*y))*sin(9*x + y**2)", sw.Box(x=(-1, 1), y=(-1, 1)), tol=1e-9, max_seconds=1.0)
    assert time.monotonic() - started < 8


def test_unknown_errors_are_nan() -> None:
    built = sw.approximate("x", LINE)
    bare = sw.Built(built.network, built.plan, built.target)
    assert np.isnan(bare.observed_error)
    assert "observed error" not in repr(bare)


def test_repr_is_a_small_table(sine: sw.Built) -> None:
    lines = repr(sine).splitlines()
    assert lines[0] == "Built"
    names = [line.split("  ")[1].strip() for line in lines[1:]]
    assert {"target", "domain", "strategy", "tokens", "parameters", "tolerance"} <= set(names)
    assert "sin(3*x)" in repr(sine).replace(" * ", "*")


def test_the_result_is_an_ordinary_torch_module(sine: sw.Built) -> None:
    x = torch.linspace(-1, 1, 9, dtype=torch.float64)[:, None].requires_grad_()
    (gradient,) = torch.autograd.grad(sine.network(x).sum(), x)
    assert np.abs(gradient.numpy() - 3 * np.cos(3 * x.detach().numpy())).max() <= 1e-3


def test_plans_survive_json(sine: sw.Built) -> None:
    assert Plan.from_dict(sine.plan.as_dict()) == sine.plan
    with pytest.raises(ValueError, match="added later"):
        Plan.from_dict({**sine.plan.as_dict(), "added later": 1})


def test_callables_are_not_rebuilt_from_files(tmp_path: Path) -> None:
    built = sw.approximate(np.sin, LINE, tol=1e-3)
    built.save(tmp_path / "m")
    loaded = sw.load(tmp_path / "m")
    assert loaded.source is None
    assert loaded.target["kind"] == "function"
    assert np.array_equal(loaded(LINE.sample(50)), built(LINE.sample(50)))


Edit = Callable[[dict[str, np.ndarray], dict[str, Any]], Any]

# Each edits the tensors and the model section of a good file into a faulty one.
FAULTY: dict[str, Edit] = {
    "no keys": lambda tensors, model: tensors.pop("layer.heads.0.keys"),
    "no centre": lambda tensors, model: tensors.pop("center"),
    "one tensor more": lambda tensors, model: tensors.update(extra=np.zeros(1)),
    "wrong shape": lambda tensors, model: tensors.update(center=np.zeros(2)),
    "nan": lambda tensors, model: tensors["layer.heads.0.keys"].fill(np.nan),
    "unknown dtype": lambda tensors, model: model.update(dtype="float8"),
    "no box": lambda tensors, model: model.pop("box"),
    "inverted box": lambda tensors, model: model.update(box={"x": [1, -1]}),
    "box of two sides": lambda tensors, model: model.update(box={"x": [-1, 1], "y": [0, 1]}),
    "heads are a number": lambda tensors, model: model.update(heads=3),
    "no structure": lambda tensors, model: model.update(heads=[{}]),
    "grid of wrong size": lambda tensors, model: model.update(heads=[{"structure": "grid", "axis_sizes": [2]}]),
    "no heads": lambda tensors, model: model.update(heads=[]),
}


@pytest.mark.parametrize("name", FAULTY)
def test_files_that_describe_no_network(name: str, sine: sw.Built, tmp_path: Path) -> None:
    path = tmp_path / "m"
    sine.save(path)
    content = read_model(path)
    tensors, sections = {key: array.copy() for key, array in content.tensors.items()}, content.sections
    write_model(path, tensors, sections)
    sw.load(path)  # nothing is wrong yet
    FAULTY[name](tensors, sections["model"])
    write_model(path, tensors, sections)
    with pytest.raises(sw.FileFormatError, match="does not describe a network"):
        sw.load(path)


def test_a_file_without_a_plan(sine: sw.Built, tmp_path: Path) -> None:
    sine.save(tmp_path / "m")
    content = read_model(tmp_path / "m")
    write_model(tmp_path / "m", content.tensors, {"model": content.sections["model"]})
    with pytest.raises(sw.FileFormatError, match="plan"):
        sw.load(tmp_path / "m")


def test_the_file_holds_what_was_said(sine: sw.Built, tmp_path: Path) -> None:
    sine.save(tmp_path / "m")
    sections = read_model(tmp_path / "m").sections
    assert sections["target"]["kind"] == "expression"
    assert sections["plan"]["tokens"] == sine.network.tokens
    assert sections["observed"]["error"] == sine.observed_error
    assert sections["model"]["box"] == {"x": [-1.0, 1.0]}


def test_the_tolerance_is_proved_by_default(sine: sw.Built) -> None:
    assert sine.certificate is not None
    assert sine.observed_error <= sine.certificate.bound <= 1e-5
    assert "proved error" in repr(sine)


def test_without_a_proof_the_result_says_why() -> None:
    unasked = sw.approximate("sin(3*x)", LINE, tol=1e-4, certify=False)
    assert unasked.certificate is None
    assert unasked.unproved == "not asked for"
    callable_target = sw.approximate(np.sin, LINE, tol=1e-4)
    assert callable_target.certificate is None
    assert "second_derivative" in callable_target.unproved


def test_the_way_is_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: Counter[str] = Counter()

    def counted(owner: Any, name: str, label: Callable[..., str]) -> None:
        original = getattr(owner, name)

        def count(*given: Any, **named: Any) -> Any:
            walked[label(*given, **named)] += 1
            return original(*given, **named)

        monkeypatch.setattr(owner, name, count)

    counted(UndefinedSearch, "run", lambda search: "domain searched")
    counted(Tape, "__init__", lambda tape, nodes: "tape of both outputs" if len(nodes) == 2 else "tape of a part")
    counted(question, "digest_of", lambda network: "weights hashed")
    counted(SoftmaxHead, "to_head", lambda head: "head converted")
    built = sw.approximate("sin(3*x), exp(-x)", LINE, tol=1e-5, strategy="layer")
    assert built.certificate is not None and len(built.network.heads()) == 1
    assert walked["domain searched"] == walked["tape of both outputs"] == walked["weights hashed"] == 1
    assert walked["head converted"] == 2  # once on the way, once in the line above


@pytest.mark.parametrize(
    ("term", "count"),
    [("0.5*x{}", 9), ("0.5*x{}", 20), ("pi*x{}", 10), ("pi*x{}", 20), ("cos(x{})", 12), ("max(x{}, 0)", 9)],
)
def test_sums_in_many_variables_are_proved_and_verified(term: str, count: int, tmp_path: Path) -> None:
    box = sw.Box({f"x{i}": (-1, 1) for i in range(count)})
    built = sw.approximate("+".join(term.format(i) for i in range(count)), box, tol=1e-3)
    assert built.certificate is not None and built.certificate.bound <= 1e-3
    built.save(tmp_path / "sum.safetensors")
    assert sw.verify(tmp_path / "sum.safetensors").verified


def test_too_many_variables_are_a_reason_and_no_error() -> None:
    box = sw.Box({f"x{i}": (-1, 1) for i in range(9)})
    together = "pi*(" + "+".join(box.names) + ")"  # no closed form, and no parts in fewer variables
    formula = sw.approximate(together, box, tol=1e-6)
    assert formula.certificate is None and Outcome.TOO_MANY_VARIABLES.value in (formula.unproved or "")
    assert sw.certify(formula.network, together, norm="L2").outcome is Outcome.TOO_MANY_VARIABLES
    function = sw.approximate(lambda *x: x[0] - x[8], box, tol=1e-6)
    assert function.certificate is None and function.observed_error <= 1e-6
    table = sw.approximate(sw.Table(box.sample(40), box.sample(40)[:, 0], names=box.names), tol=1e-6)
    assert table.certificate is not None  # points of a table are no boxes


def test_the_certificate_travels_with_the_weights(sine: sw.Built, tmp_path: Path) -> None:
    sine.save(tmp_path / "m")
    assert sw.load(tmp_path / "m").certificate == sine.certificate


def test_a_changed_weight_voids_the_certificate_visibly(sine: sw.Built, tmp_path: Path) -> None:
    sine.save(tmp_path / "m")
    content = read_model(tmp_path / "m")
    tensors = {name: array.copy() for name, array in content.tensors.items()}
    values = tensors["layer.heads.0.values"]
    values[0, 0] = np.nextafter(values[0, 0], np.inf)
    write_model(tmp_path / "m", tensors, content.sections)
    with pytest.warns(UserWarning, match="the certificate is dropped"):
        changed = sw.load(tmp_path / "m")
    assert changed.certificate is None
    assert "not those that its certificate was proved for" in changed.unproved


def test_equal_models_have_equal_bytes(sine: sw.Built, tmp_path: Path) -> None:
    for name in ("one", "two"):
        sine.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_variables_keep_their_order_in_the_file(tmp_path: Path) -> None:
    built = sw.approximate("sin(y) + 2*exp(x)", sw.Box(y=(-1, 1), x=(-1, 1)), tol=1e-3)
    built.save(tmp_path / "m")
    assert sw.load(tmp_path / "m").network.names == ("y", "x")
    assert np.array_equal(sw.load(tmp_path / "m")(x=0.3, y=0.5), built(x=0.3, y=0.5))


def test_no_more_tokens_than_allowed() -> None:
    with pytest.raises(sw.ToleranceNotReached) as caught:
        sw.approximate("sin(3*x)", LINE, tol=1e-9, max_tokens=2)
    assert caught.value.best.network.tokens <= 2


@pytest.mark.parametrize("target", ["where(x < 0.2, 0, 1)", lambda x: np.floor(3 * x)])
def test_a_jump_is_named_as_the_reason(target: Any) -> None:
    with pytest.raises(sw.ToleranceNotReached, match="jumps by 1"):
        sw.approximate(target, LINE, tol=1e-3)


@pytest.mark.parametrize("formula", ["step(x - y)", "floor(x) + y", "y*cos(y) + where(x < 0.3, 0, 1 + x)"])
def test_a_jump_in_several_variables_is_named_at_once(formula: str) -> None:
    started = time.thread_time()
    with pytest.raises(sw.ToleranceNotReached, match="jumps by 1") as caught:
        sw.approximate(formula, sw.Box(x=(-1, 1), y=(-1, 1)), tol=1e-4)
    assert time.thread_time() - started < 5
    assert caught.value.best.network.tokens < 40


def test_an_empty_batch_runs_through_every_engine() -> None:
    built = sw.approximate("sin(x)*y", sw.Box(x=(-1, 1), y=(0, 1)), tol=1e-3, strategy="layer", certify=False)
    for engine in ("sdpa", "factorised"):
        assert built.network(torch.zeros(0, 2, dtype=torch.float64), engine=engine).shape == (0, 1)


@pytest.mark.parametrize(
    "damage", [{"target": [1]}, {"observed": 3}, {"observed": {}}, {"target": {"kind": "expression"}}]
)
def test_damaged_sections_are_file_errors(sine: sw.Built, damage: dict[str, Any], tmp_path: Path) -> None:
    sine.save(tmp_path / "m")
    content = read_model(tmp_path / "m")
    write_model(tmp_path / "bad", content.tensors, {**content.sections, **damage})
    with pytest.raises(sw.FileFormatError):
        sw.load(tmp_path / "bad")


def test_float32_networks_are_proved_in_float32() -> None:
    for engine, least in (("double", 2.0**-25), ("sdpa", 1e-6)):  # one rounding of the answer, or those of all steps
        built = sw.approximate("sin(3*x)", LINE, tol=1e-4, dtype="float32", engine=engine)
        assert built.certificate is not None
        assert built.certificate.dtype == "float32" and built.certificate.engine == engine
        assert built.certificate.rounding_part > least  # float32 rounding is charged, not float64's


def test_walls_along_an_axis_are_proved() -> None:
    built = sw.approximate("abs(x)*exp(y)", sw.Box(x=(-1, 1), y=(-1, 1)), tol=1e-4, strategy="layer")
    assert built.network.tokens <= 12
    assert built.certificate is not None
