"""Files that claim something false and are signed anew: each was once VERIFIED."""

from __future__ import annotations

import base64
import copy
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.attention import Head
from softwright.checker import boxes, claims, statement
from softwright.checker.verdict import Verdict
from softwright.checker.verify import reprove, verify
from softwright.domain import Box
from softwright.errors import FileFormatError
from softwright.fileformat import ModelFile, read_model, weights_sha256, write_model
from tests.checker.checker_support import Case, make_case, plane_case, sine_case, soft_axis
from tests.layouts import read_flat

LINE = Box(x=(-1.0, 1.0))


def check(case: Case, tmp_path: Path) -> Verdict:
    case.sign()
    return verify(case.write(tmp_path / "forged.safetensors"))


def exponential_case() -> Case:
    """exp(-x), whose mirror image is far off."""
    t = np.cos(np.linspace(0.0, np.pi, 200))
    axis = soft_axis(12)
    values = np.linalg.lstsq(axis.weights(t), np.exp(-t), rcond=1e-12)[0]
    head = Head.on_grid([axis], values[:, None])
    return make_case([head], LINE, "exp(-x)", lambda x: np.exp(-x), b"\xff", factor=2.0)


@pytest.mark.parametrize("scale", [-1.0, 0.0])
def test_a_mirrored_frame(scale: float, tmp_path: Path) -> None:
    case = exponential_case()
    assert check(case, tmp_path)
    case.tensors["scale"] = scale * case.tensors["scale"]
    assert not check(case, tmp_path)


@pytest.mark.parametrize("shadow", ["layer.heads.00.values", "layer.heads.\u0660.values", "layer.heads.1.values"])
def test_a_second_spelling_of_a_tensor(shadow: str, tmp_path: Path) -> None:
    case = sine_case()
    case.tensors[shadow] = case.tensors["layer.heads.0.values"]
    verdict = check(case, tmp_path)
    assert not verdict
    assert "unknown tensor" in verdict.reason


def test_a_proof_on_a_part_of_the_box_says_so(tmp_path: Path) -> None:
    case = sine_case()
    case.model["box"] = {"x": [-1e9, 1e9]}
    verdict = check(case, tmp_path)
    assert not verdict
    assert verdict.status == "VERIFIED ON A PART"
    assert verdict.domain == "x in [-1, 1]"
    assert verdict.to_json()["domain"] == "x in [-1, 1]"


def test_a_verdict_names_what_it_is_about(tmp_path: Path) -> None:
    verdict = check(sine_case(), tmp_path)
    assert (verdict.target, verdict.domain, verdict.dtype) == ("sin(3*x)", "x in [-1, 1]", "float64")
    assert verdict.hypotheses == ("ieee754", "exp-ulp<=4")
    assert all(part in str(verdict) for part in ("sin(3*x)", "x in [-1, 1]", "float64", "ieee754"))


@pytest.mark.parametrize("text", ["sup\x1b[2K\rVERIFIED", "a\nb", "\u202everified"])
def test_texts_that_a_terminal_would_obey(text: str, tmp_path: Path) -> None:
    case = sine_case()
    case.certificate["assumptions"] = [text]
    verdict = check(case, tmp_path)
    assert not verdict
    assert str(verdict).isprintable()


def test_entries_that_nobody_knows(tmp_path: Path) -> None:
    case = sine_case()
    case.certificate["remark"] = "proved to 1e-30"
    assert "unknown entry" in check(case, tmp_path).reason
    case = sine_case()
    case.model["engine"] = "bfloat16"
    assert not check(case, tmp_path)


def gate_case(size: float, value: float = 1.0, dtype: torch.dtype = torch.float32) -> Case:
    """max(value x, 0) by two gated tokens with keys of the given size."""
    head = Head(
        keys=np.array([[0.0], [size]]),
        biases=np.array([0.0, 0.0]),
        values=np.array([[0.0], [0.0]]),
        slopes=np.array([[[0.0]], [[value]]]),
        structure="gates",
    )
    text = f"max({value!r}*x, 0)"
    return make_case([head], LINE, text, lambda x: np.maximum(value * x, 0), None, dtype=dtype, exact=1e-3 * value)


def test_gates_whose_scores_overflow(tmp_path: Path) -> None:
    moderate = gate_case(2.0**20)
    moderate.state("rounding_part", 1e-3)
    moderate.state("bound", 2.1e-3)
    assert check(moderate, tmp_path), str(check(moderate, tmp_path))
    extreme = gate_case(3e38)
    extreme.state("rounding_part", 1e-3)
    extreme.state("bound", 2.1e-3)
    assert not check(extreme, tmp_path)


def test_a_variable_without_heads_may_not_overflow_either(tmp_path: Path) -> None:
    box = Box(x=(-1.0, 1.0), y=(-1.0, 1.0))
    head = Head(keys=np.zeros((1, 2)), biases=np.zeros(1), values=np.ones((1, 1)))
    case = make_case([head], box, "1 + 0*x", lambda x: np.ones(len(x)), b"\xff", exact=1e-6)
    assert check(case, tmp_path), str(check(case, tmp_path))
    for place in (case.model["box"], case.certificate["domain"]):
        place["y"] = [-1e300, 1e300]
    case.certificate["hex"]["domain"]["y"] = [(-1e300).hex(), (1e300).hex()]
    case.tensors["scale"][1] = 1e99
    assert "overflow" in check(case, tmp_path).reason


# ------------------------------------------------------------------------- what `load` refuses is not VERIFIED either


def sizes(case: Case) -> None:
    case.model["heads"][0]["axis_sizes"] = [True]


def other_sizes(case: Case) -> None:
    case.model["heads"][0]["axis_sizes"] = [13]


def structure(case: Case) -> None:
    case.model["heads"][0]["structure"] = "tree"


def witness(case: Case) -> None:
    case.certificate["witness"] = ["x"]


def far_witness(case: Case) -> None:
    case.certificate["witness"] = [0.0, 0.0]


def exponent(case: Case) -> None:
    del case.certificate["p"]


def nothing_between(case: Case) -> None:
    case.certificate["between"] = None


def order(case: Case) -> None:
    case.certificate["order"] = True


def lower(case: Case) -> None:
    case.certificate["lower"] = False


def version(case: Case) -> None:
    case.certificate["version"] = 1


def bound_of_another_spelling(case: Case) -> None:
    case.certificate["hex"]["bound"] += " "


def end(case: Case) -> None:
    case.certificate["domain"]["x"][1] = case.model["box"]["x"][1] = True


def variable(name: str) -> Callable[[Case], None]:
    def rename(case: Case) -> None:
        for place in (case.model["box"], case.certificate["domain"], case.certificate["hex"]["domain"]):
            place[name] = place.pop("x")
        case.target["variables"] = case.certificate["variables"] = [name]
        case.target["text"] = f"sin(3*{name})"
        case.certificate["target"] = case.target

    rename.__name__ = f"a variable called {name}"
    return rename


@pytest.mark.parametrize(
    "forge",
    [
        *(sizes, other_sizes, structure, witness, far_witness, exponent, nothing_between, order, lower, version),
        *(bound_of_another_spelling, end, *map(variable, ("where", "sin", "and", "__x"))),
    ],
    ids=lambda forge: forge.__name__,
)
def test_entries_of_the_wrong_kind(forge: Callable[[Case], None], tmp_path: Path) -> None:
    case = sine_case()
    assert check(case, tmp_path), str(check(case, tmp_path))
    forge(case)
    verdict = check(case, tmp_path)
    assert verdict.status == "NOT VERIFIED", str(verdict)


def test_a_file_without_a_plan(tmp_path: Path) -> None:
    path = sine_case().write(tmp_path / "forged.safetensors")
    content = read_model(path)
    del content.sections["plan"]
    write_model(path, content.tensors, content.sections)
    assert "plan" in verify(path).reason


@pytest.mark.parametrize("section", ["model", "target", "plan", "certificate"])
def test_a_key_that_stands_twice(section: str, tmp_path: Path) -> None:
    path = sine_case().write(tmp_path / "forged.safetensors")
    edit_header(path, lambda header: edit_section(header, section, '{"kind": "memory", "kind": "memory", '))
    with pytest.raises(FileFormatError, match="twice"):
        read_model(path)
    assert "twice" in verify(path).reason


def test_a_section_that_stands_twice(tmp_path: Path) -> None:
    path = sine_case().write(tmp_path / "forged.safetensors")
    edit_header(path, lambda text: text.replace('"__metadata__":{', '"__metadata__":{"target":"{}",', 1))
    with pytest.raises(FileFormatError, match="twice"):
        read_model(path)


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "1" + "0" * 400])
def test_numbers_that_float64_does_not_hold(number: str, tmp_path: Path) -> None:
    path = sine_case().write(tmp_path / "forged.safetensors")
    edit_header(path, lambda header: edit_section(header, "certificate", f'{{"note": {number}, '))
    with pytest.raises(FileFormatError, match="finite number"):
        read_model(path)


def edit_header(path: Path, change: Callable[[str], str]) -> None:
    """Change the header of a safetensors file as text."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = change(content[8 : 8 + size].decode()).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(len(header).to_bytes(8, "little") + header + content[8 + size :])


def edit_section(header: str, name: str, beginning: str) -> str:
    """The header with another beginning of a section's text."""
    found = json.loads(header)
    found["__metadata__"][name] = beginning + found["__metadata__"][name][1:]
    return json.dumps(found)


def test_a_false_norm_is_refuted_on_the_boxes_of_the_file(tmp_path: Path) -> None:
    case = plane_case(p=2.0, exact=1e-12)
    verdict = check(case, tmp_path)
    assert "refuted: the norm is at least" in verdict.reason
    assert verdict.boxes == case.certificate["boxes"]


def test_a_norm_that_cannot_be_proved_ends_within_its_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boxes, "NORM_BUDGET", 100)
    case = sine_case(p=2.0, exact=1.0, rounding=1e-40)
    verdict = check(case, tmp_path)
    assert verdict.status == "NOT VERIFIED"
    assert case.certificate["boxes"] < verdict.boxes <= 100 + 3 * case.certificate["boxes"]


# ------------------------------------------------------------------------------------------------------------ memories

Sections = dict[str, Any]
Tensors = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> ModelFile:
    path = tmp_path_factory.mktemp("memory") / "m.safetensors"
    sw.memorize(["a b c", "b c", "c a"], ["one", "two", "two"], dtype="float32").save(path)
    assert verify(path), str(verify(path))
    return read_flat(path)


def added(tensors: Tensors, _: Sections) -> None:
    tensors["extra"] = np.ones(1)


def renamed(tensors: Tensors, _: Sections) -> None:
    tensors["Radii"] = tensors.pop("radii")


def dropped(tensors: Tensors, _: Sections) -> None:
    del tensors["tokenizer_text"]


def short(tensors: Tensors, _: Sections) -> None:
    tensors["head.vocabulary"] = np.arange(2)


def half_precision(tensors: Tensors, _: Sections) -> None:
    tensors["head.sentinel"] = tensors["head.sentinel"].astype("float16")


def double_codes(tensors: Tensors, _: Sections) -> None:
    tensors["head.codes"] = tensors["head.codes"].astype("float64")


def wide_radii(tensors: Tensors, _: Sections) -> None:
    tensors["radii"] = tensors["radii"] + tensors["gap"]


def without_a_class(tensors: Tensors, _: Sections) -> None:
    tensors["class_text"] = np.frombuffer(b'["one"]', dtype=np.uint8)


def other_words(tensors: Tensors, _: Sections) -> None:
    tensors["tokenizer_text"] = np.frombuffer(b'"abc"', dtype=np.uint8)


def set_in(*path: str, to: Any) -> Callable[[Tensors, Sections], None]:
    """Another entry, in the target of the certificate as well."""

    def change(_: Tensors, sections: Sections) -> None:
        place = sections
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = to
        sections["certificate"]["target"] = sections["target"]

    change.__name__ = f"{'.'.join(path)} = {to}"
    return change


@pytest.mark.parametrize(
    "forge",
    [
        *(added, renamed, dropped, short, half_precision, double_codes, wide_radii, without_a_class, other_words),
        set_in("model", "readout", to="sorted"),
        set_in("model", "labels", to="texts"),
        set_in("model", "tokenizer", to="bpe"),
        set_in("model", "reading", "mode", to="Sequence"),
        set_in("model", "reading", "positional", to=1),
        set_in("model", "reading", "causal", to=True),
        set_in("target", "items", to=3000),
        set_in("target", "items", to=3.0),
        set_in("target", "longest", to=4),
        set_in("target", "name", to="recall of all sequences"),
        set_in("target", "name", to="recall of 2 labelled sequences"),
        set_in("target", "text", to="sin(x)"),
        set_in("certificate", "statement", to="every sequence recalls its own label"),
        set_in("certificate", "method", to="induction"),
        set_in("certificate", "engine", to="any"),
        set_in("certificate", "norm", to="L1"),
        set_in("certificate", "assumptions", to=[]),
        set_in("certificate", "bound", to=0),
        *(set_in("certificate", "quantities", name, to=30.0) for name in ("items", "rank", "gap", "margin", "beta")),
        set_in("certificate", "quantities", "radius", to=1e-30),
        set_in("certificate", "quantities", "parameters", to=True),
        set_in("certificate", "quantities", "remark", to=0.0),
        set_in("certificate", "quantities", "label_rounding", to=-1.0),
    ],
    ids=lambda forge: forge.__name__,
)
def test_memories_that_hold_or_say_something_else(
    forge: Callable[[Tensors, Sections], None], memory: ModelFile, tmp_path: Path
) -> None:
    tensors, sections = dict(memory.tensors), copy.deepcopy(memory.sections)
    forge(tensors, sections)
    sections["certificate"]["weights_sha256"] = weights_sha256(tensors)
    write_model(tmp_path / "forged.safetensors", tensors, sections)
    verdict = verify(tmp_path / "forged.safetensors")
    assert verdict.status == "NOT VERIFIED", str(verdict)


def test_the_verdict_on_a_memory_counts_for_itself(memory: ModelFile, tmp_path: Path) -> None:
    sections = copy.deepcopy(memory.sections)
    sections["target"]["name"] = "recall of 1000000 labelled sequences"  # repeated ones count
    sections["certificate"]["target"] = sections["target"]
    write_model(tmp_path / "forged.safetensors", memory.tensors, sections)
    verdict = verify(tmp_path / "forged.safetensors")
    assert verdict.target == "recall of the labels of 3 stored items"


# ------------------------------------------------------------------------------ sizes, and what a claim rests on


def packed(nodes: int) -> str:
    return base64.b64encode(zlib.compress(b"\xff" * nodes)).decode()


def test_a_tree_is_not_unpacked_beyond_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "LARGEST_TREE", 1000)
    case = sine_case()
    assert check(case, tmp_path), str(check(case, tmp_path))
    case.certificate["tree"] = packed(1001)
    assert "too large" in check(case, tmp_path).reason


def test_all_trees_of_a_proof_have_one_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.safetensors"
    sw.approximate("sin(x) + cos(y)", Box(x=(-1, 1), y=(-1, 1)), tol=1e-3, strategy="sum").save(path)
    assert verify(path)
    monkeypatch.setattr(statement, "LARGEST_TREE", 1)
    assert "more than 1 nodes" in verify(path).reason


def test_a_formula_is_not_read_beyond_its_limit(tmp_path: Path) -> None:
    case = sine_case()
    case.target["text"] = case.certificate["target"]["text"] = "sin(3*x)" + " + 0*x" * 2_000
    assert "characters, more than" in check(case, tmp_path).reason


@pytest.fixture(scope="module")
def real() -> ModelFile:
    """A theorem about real arithmetic."""
    built = sw.theorem("C3").build(dim=2, progress=False)
    tensors = {name: tensor.numpy() for name, tensor in built.network.state_dict().items()}
    file = ModelFile(tensors, json.loads(json.dumps(built.sections())))
    assert reprove(file), reprove(file)
    assert file.sections["certificate"]["claim"]["arithmetic"] == "real"
    return file


def as_run(said: dict[str, Any]) -> None:
    said["claim"]["arithmetic"] = "float64 as run"


def as_run_and_trusted(said: dict[str, Any]) -> None:
    as_run(said)
    said["trust"] = [{"id": "ieee754", "text": "arithmetic as IEEE 754 has it, rounded to nearest"}]


def without_a_word(said: dict[str, Any]) -> None:
    said["claim"]["premises"] = []


def needless(said: dict[str, Any]) -> None:
    said["trust"].append(
        {"id": "callable-values", "text": "the callable's values are those of the function that is meant"}
    )


def other_step(said: dict[str, Any]) -> None:
    said["evidence"][0]["step"] = "memory"


def two_steps(said: dict[str, Any]) -> None:
    said["evidence"] *= 2


def no_step(said: dict[str, Any]) -> None:
    said["evidence"] = []


@pytest.mark.parametrize(
    "forge", [as_run, as_run_and_trusted, without_a_word, needless, other_step, two_steps, no_step]
)
def test_a_claim_says_what_it_rests_on(forge: Callable[[dict[str, Any]], None], real: ModelFile) -> None:
    sections = copy.deepcopy(real.sections)
    forge(sections["certificate"])
    assert reprove(ModelFile(real.tensors, sections)).status == "NOT VERIFIED"


def test_a_hypothesis_that_a_proof_needs_cannot_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    sw.approximate(sw.Function(np.sin, LINE, second_derivative=1.0), LINE, tol=0.1).save(path)
    file = read_model(path)
    given = reprove(file).given
    assert given == ("callable-values", "user-second-derivative", "stated-exact-part")
    for names in (("ieee754",), *((name,) for name in given), given):
        sections = copy.deepcopy(file.sections)
        said = sections["certificate"]
        said["trust"] = [entry for entry in said["trust"] if entry["id"] not in names]
        verdict = reprove(ModelFile(file.tensors, sections))
        assert verdict.status == "NOT VERIFIED" and "hypotheses" in verdict.reason
