"""ONNX files: the graph answers as torch does, `verify` proves it again, and no forged graph passes."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import softwright as sw
from softwright.checker.graphs import reading
from softwright.checker.refusal import NotProvedError
from softwright.cli import app
from softwright.export.selftest import allowance, answered, given_to
from softwright.fileformat import weights_sha256
from softwright.result.constructed import tensors_of
from tests.export.networks import NETWORKS

onnx = pytest.importorskip("onnx")
_ALL = pytest.mark.parametrize("name", NETWORKS)


def _written(name: str, place: Path) -> tuple[sw.Built[Any], Path]:
    built, path = NETWORKS[name](), place / "network.onnx"
    built.export(path)
    return built, path


def _answers(built: sw.Built[Any], batch: int) -> tuple[tuple[np.ndarray, ...], np.ndarray, float]:
    given = given_to(built, batch, seed=9)
    y = answered(built, given)
    return given, y, allowance(built, float(np.abs(y).max()))[0]


@_ALL
def test_the_reference_evaluator_agrees_for_every_batch(name: str, tmp_path: Path) -> None:
    from onnx.reference import ReferenceEvaluator

    built, path = _written(name, tmp_path)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    run = ReferenceEvaluator(model)
    for batch in (1, 7, 50):
        given, y, allowed = _answers(built, batch)
        named = {one.name: array for one, array in zip(model.graph.input, given, strict=True)}
        found = np.asarray(next(iter(run.run(None, named))))
        assert found.dtype == y.dtype
        assert found.shape == y.shape
        assert np.abs(found - y).max() <= allowed


@_ALL
def test_onnxruntime_agrees_for_every_batch(name: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'softwright[onnx]'")
    built, path = _written(name, tmp_path)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1  # threads that wait actively cost minutes where every core runs a test
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    # prompts are matrices: 5,000 of them take a minute and are sent by benchmarks/exports.py
    for batch in (1, 7, 100 if name == "ridge" else 5000):
        given, y, allowed = _answers(built, batch)
        named = {one.name: array for one, array in zip(session.get_inputs(), given, strict=True)}
        found = session.run(None, named)[0]
        assert found.shape == y.shape
        assert np.abs(found - y).max() <= allowed


@_ALL
def test_initializers_are_the_tensors_under_their_own_names(name: str, tmp_path: Path) -> None:
    built, path = _written(name, tmp_path)
    found = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}
    own = {key: array for key, array in found.items() if not key.startswith("reference.")}
    assert weights_sha256(own) == weights_sha256(tensors_of(built.network))


@_ALL
def test_verify_says_of_the_graph_what_it_says_of_the_file(name: str, tmp_path: Path) -> None:
    built, path = _written(name, tmp_path)
    built.save(tmp_path / "network.safetensors")
    by_graph, by_file = sw.verify(path), sw.verify(tmp_path / "network.safetensors")
    assert (by_graph.status, by_graph.reason) == (by_file.status, by_file.reason)
    assert by_graph.hypotheses == by_file.hypotheses
    if by_file.runtimes:
        assert "every operation" in by_graph.runtimes[0]


@pytest.mark.parametrize("layout", ["softmax", "double", "multihead"])
def test_a_source_that_is_stored_in_float64_beside_a_float32_network(layout: str, tmp_path: Path) -> None:
    """Weights that SELU's scale is multiplied into are products of float32 numbers."""
    torch.manual_seed(0)
    source = nn.Sequential(nn.Linear(2, 3), nn.SELU(), nn.Linear(3, 1)).eval()
    built = sw.transpile(source, box=(-1, 1), layout=layout, tol=1e-2)
    built.save(tmp_path / "f.safetensors")
    built.export(tmp_path / "f.onnx")
    assert sw.verify(tmp_path / "f.safetensors").verified
    assert sw.verify(tmp_path / "f.onnx").verified


def _first(model: Any, op: str) -> Any:
    return next(node for node in model.graph.node if node.op_type == op)


def _changed_weight(model: Any) -> None:
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name.endswith("values"))
    array = onnx.numpy_helper.to_array(tensor).copy()
    array.flat[0] = np.nextafter(array.flat[0], np.inf)
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))


def _swapped_inputs(model: Any) -> None:
    node = _first(model, "Sub")
    node.input[:] = list(node.input)[::-1]


def _one_more_node(model: Any) -> None:
    _first(model, "Mul").output[0] = "t_before"
    model.graph.node.insert(2, onnx.helper.make_node("Add", ["t_before", "scale"], ["t"], name="t"))


def _hidden_field(model: Any) -> None:
    model.graph.MergeFromString(b"\xc2\x3e\x01a")  # field 1000 of the graph, unknown to every reader


FORGED: dict[str, Callable[[Any], Any]] = {
    "a weight": _changed_weight,
    "an operation": lambda model: setattr(_first(model, "Sub"), "op_type", "Add"),
    "an edge": _swapped_inputs,
    "an attribute": lambda model: setattr(_first(model, "Softmax").attribute[0], "i", 0),
    "a constant": lambda model: _first(model, "Constant").attribute[0].ints.__setitem__(0, 1),
    "one more node": _one_more_node,
    "one node less": lambda model: model.graph.node.pop(),
    "a domain": lambda model: setattr(_first(model, "Sub"), "domain", "evil"),
    "a name": lambda model: setattr(_first(model, "Sub"), "name", "other"),
    "a text at a node": lambda model: setattr(_first(model, "Sub"), "doc_string", "other"),
    "one more tensor": lambda model: model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.zeros(2), "scores")
    ),
    "a tensor twice": lambda model: model.graph.initializer.append(model.graph.initializer[0]),
    "the type of the input": lambda model: setattr(model.graph.input[0].type.tensor_type, "elem_type", 1),
    "a fixed batch": lambda model: setattr(model.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", 5000),
    "the output": lambda model: setattr(model.graph.output[0], "name", "t"),
    "one more output": lambda model: model.graph.output.append(model.graph.output[0]),
    "the operator set": lambda model: setattr(model.opset_import[0], "version", 12),
    "one more operator set": lambda model: model.opset_import.append(onnx.helper.make_opsetid("evil", 1)),
    "a function": lambda model: model.functions.append(
        onnx.helper.make_function("", "Softmax", ["a"], ["b"], [], [onnx.helper.make_opsetid("", 17)])
    ),
    "the sentences": lambda model: setattr(model, "doc_string", model.doc_string.replace("Bound: ", "Bound: 1e-30 ")),
    "a section": lambda model: model.metadata_props.append(model.metadata_props[0]),
    "external data": lambda model: setattr(model.graph.initializer[0], "data_location", 1),
    "a hidden field": _hidden_field,
}


@pytest.mark.parametrize("forgery", FORGED)
def test_forged_graphs_are_not_verified(forgery: str, tmp_path: Path) -> None:
    _, path = _written("plane", tmp_path)
    model = onnx.load(path)
    before = path.read_bytes()
    FORGED[forgery](model)
    path.write_bytes(model.SerializeToString(deterministic=True))
    assert path.read_bytes() != before
    assert sw.verify(path).status == "NOT VERIFIED"


def _optimised(model: Any, place: Path) -> None:
    """As onnxruntime writes what it runs: casts of constants computed, numbers of nodes as initializers."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'softwright[onnx]'")
    options = runtime.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = str(place), 4
    runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _stored_outside(model: Any, place: Path) -> None:
    onnx.save(model, place, save_as_external_data=True, location="data.bin", size_threshold=0)


def _encoded_otherwise(model: Any, place: Path) -> None:
    """Later entries of a message are added to earlier ones: two files of halves, one after the other, are one file."""
    head, rest = onnx.ModelProto(), onnx.ModelProto()
    head.CopyFrom(model)
    for name in ("doc_string", "metadata_props"):
        head.ClearField(name)
    rest.metadata_props.extend(model.metadata_props)
    rest.doc_string = model.doc_string
    place.write_bytes(rest.SerializeToString() + head.SerializeToString())


SAVED_AGAIN: dict[str, tuple[Callable[[Any, Path], Any], str]] = {
    "shapes inferred": (lambda model, place: onnx.save(onnx.shape_inference.infer_shapes(model), place), "value_info"),
    "another operator set": (
        lambda model, place: onnx.save(onnx.version_converter.convert_version(model, 20), place),
        "opset_import 0, version is 20 where 17 belongs",
    ),
    "external data": (_stored_outside, "stands in another file, as external data: another program saved the file"),
    "optimised": (_optimised, "another program saved the file"),
    "another encoding": (_encoded_otherwise, "the same in another encoding"),
}


@pytest.mark.parametrize("how", SAVED_AGAIN)
@pytest.mark.parametrize("name", ["plane", "plane-float32"])
def test_what_other_programs_save_is_refused_with_the_reason(name: str, how: str, tmp_path: Path) -> None:
    _, path = _written(name, tmp_path)
    save, reason = SAVED_AGAIN[how]
    save(onnx.load(path), tmp_path / "again.onnx")
    verdict = sw.verify(tmp_path / "again.onnx")
    assert verdict.status == "NOT VERIFIED" and reason in verdict.reason
    onnx.save(onnx.load(path), tmp_path / "SAME.ONNX")
    assert sw.verify(tmp_path / "SAME.ONNX").verified


def _leaves(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    if not isinstance(value, dict | list):
        return [(way, value)]
    below = value.items() if isinstance(value, dict) else enumerate(value)
    return [leaf for key, one in below for leaf in _leaves(one, (*way, key))]


@pytest.mark.parametrize("name", ["stack", "gated", "memory-tokens", "program", "ridge", "hard"])
def test_a_section_that_is_changed_with_its_graph_claims_nothing_of_another(name: str, tmp_path: Path) -> None:
    """What the checker itself writes down for a changed section is a file that agrees with itself: whatever shapes the
    graph must be something that the proof looks at."""
    _, path = _written(name, tmp_path)
    honest = onnx.load(path)
    (said,) = (json.loads(entry.value) for entry in honest.metadata_props if entry.key == "model")
    written = 0
    for way, value in _leaves(said):
        other = not value if isinstance(value, bool) else value + 1 if isinstance(value, int | float) else "sequence"
        changed = copy.deepcopy(said)
        place = changed
        for key in way[:-1]:
            place = place[key]
        place[way[-1]] = other
        model = onnx.ModelProto()
        model.CopyFrom(honest)
        for entry in model.metadata_props:
            entry.value = json.dumps(changed) if entry.key == "model" else entry.value
        entries = [(entry.key, entry.value) for entry in model.metadata_props]
        try:
            content = reading._written(reading._model_file(path, model, dict(entries)), entries, onnx)
        except (sw.FileFormatError, NotProvedError, LookupError, TypeError, ValueError):
            continue  # no graph is known of that
        written += 1
        path.write_bytes(content)
        if sw.verify(path).verified:
            assert onnx.load(path).graph == honest.graph, way
    assert written


def test_a_weight_that_is_signed_again_is_proved_or_refused_by_the_proof(tmp_path: Path) -> None:
    built, path = _written("line", tmp_path)
    model = onnx.load(path)
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name.endswith("values"))
    array = onnx.numpy_helper.to_array(tensor) + 1.0
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    stored = {one.name: onnx.numpy_helper.to_array(one) for one in model.graph.initializer}
    old, new = built.certificate.weights_sha256, weights_sha256(stored)
    for entry in model.metadata_props:
        entry.value = entry.value.replace(old, new)
    model.doc_string = model.doc_string.replace(old, new)
    path.write_bytes(model.SerializeToString(deterministic=True))
    verdict = sw.verify(path)
    assert verdict.status == "NOT VERIFIED"
    assert "graph" not in verdict.reason  # it is what the tensors mean; what is claimed of them is false


def test_files_of_others_and_damaged_ones_are_file_errors(tmp_path: Path) -> None:
    foreign = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], []))
    (tmp_path / "foreign.onnx").write_bytes(foreign.SerializeToString())
    (tmp_path / "damaged.onnx").write_bytes(b"\x08\xff")
    for name in ("foreign", "damaged", "missing"):
        assert CliRunner().invoke(app, ["verify", str(tmp_path / f"{name}.onnx")]).exit_code == 4
        assert not sw.verify(tmp_path / f"{name}.onnx")


def test_the_command_verifies_a_graph(tmp_path: Path) -> None:
    _, path = _written("line", tmp_path)
    found = CliRunner().invoke(app, ["verify", str(path), "--json"])
    assert found.exit_code == 0, found.output
    model = onnx.load(path)
    _swapped_inputs(model)
    path.write_bytes(model.SerializeToString(deterministic=True))
    assert CliRunner().invoke(app, ["verify", str(path)]).exit_code == 1
