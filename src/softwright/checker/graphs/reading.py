"""An ONNX file as a model file: tensors from its initializers, sections from its metadata, and its graph compared.

Nothing of the graph is believed. The whole file is written down again from the tensors and the sections: the nodes that
a network of this kind with these tensors has, its inputs and outputs, the sentences that repeat the claim. The two must
be equal byte by byte, so that a node, an attribute, an edge, a name, an entry too many or one hidden in the encoding is
refused. What the file means is then what its tensors mean, and the rest is the proof of any model file.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from softwright.checker.claims import STATEMENT
from softwright.checker.graphs.approximation import approximation
from softwright.checker.graphs.composition import composition
from softwright.checker.graphs.lines import Graph, Lines
from softwright.checker.graphs.memory import ASIDE, memory
from softwright.checker.graphs.stacks import in_context, program
from softwright.checker.graphs.theorem import theorem
from softwright.checker.graphs.transpiled import transpiled
from softwright.checker.precision import Precision, as_run, assumed_by
from softwright.checker.refusal import NotProvedError, require
from softwright.errors import FileFormatError
from softwright.fileformat import READERS, REFERENCE, ModelFile, reading

GRAPHS: dict[str, Callable[[ModelFile, Lines], Graph]] = {
    "approximation": approximation,
    "composition": composition,
    "transpiled": transpiled,
    "in_context": in_context,
    "memory": memory,
    "program": program,
    "theorem": theorem,
}
APART = {"memory": ASIDE}  # tensors whose dtype is not that of the network
NUMBERS = {"float32": 1, "uint8": 2, "int32": 6, "int64": 7, "float64": 11}  # ONNX's types of elements
IR_VERSION, OPSET = 8, 17
_AGAIN = "another program saved the file; export it again"
LARGEST_FILE = 2**31 - 1  # bytes: what ONNX's own encoding can hold


def read_graph(path: str | Path) -> ModelFile:
    """The content of an ONNX file that softwright wrote; `NotProvedError` if its graph is not what its tensors mean."""
    source = Path(path)
    if not source.is_file():
        raise FileFormatError(f"{source}: no such file")
    try:
        import onnx
    except ImportError as error:
        fault = "the package onnx is missing; install it with: pip install 'softwright[onnx]'"
        raise FileFormatError(f"{source}: {fault}") from error
    if source.stat().st_size > LARGEST_FILE:
        raise FileFormatError(f"{source}: more than {LARGEST_FILE} bytes; such a file is no ONNX file")
    content = source.read_bytes()
    with reading(source, "a readable ONNX file", "export it again"):
        model = onnx.ModelProto.FromString(content)
    entries = [(entry.key, entry.value) for entry in model.metadata_props]
    if "softwright" not in dict(entries):
        raise FileFormatError(f"{source}: an ONNX file, but not written by softwright")
    try:
        file = _model_file(source, model, dict(entries))
        wanted = _written(file, entries, onnx)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise NotProvedError(f"the file is damaged ({type(error).__name__}: {error}); export it again") from error
    require(content == wanted, f"the graph is not that of the tensors: {_difference(model, wanted, onnx)}")
    return file


def _model_file(source: Path, model: Any, entries: dict[str, str]) -> ModelFile:
    tensors: dict[str, np.ndarray] = {}
    types = {number: np.dtype(name).newbyteorder("<") for name, number in NUMBERS.items()}
    for tensor in model.graph.initializer:
        require(tensor.name not in tensors, f"the tensor {tensor.name!r} stands there twice")
        require(tensor.data_type in types, f"the tensor {tensor.name!r} is of a type that no network has")
        _check_stored(tensor, types[tensor.data_type])
        array = np.frombuffer(tensor.raw_data, dtype=types[tensor.data_type])
        tensors[tensor.name] = array.reshape(tuple(tensor.dims)).astype(array.dtype.newbyteorder("="))
    schema = entries.get("softwright")
    if schema not in READERS:
        raise FileFormatError(f"{source}: file schema {schema!r}; this version reads {', '.join(map(repr, READERS))}")
    return READERS[schema](entries, tensors)


def _check_stored(tensor: Any, kind: np.dtype) -> None:
    """Its bytes stand in the file, all of them at one place: readers differ about the others."""
    elsewhere = tensor.HasField("data_location") or len(tensor.external_data)
    require(not elsewhere, f"the tensor {tensor.name!r} stands in another file, as external data: {_AGAIN}")
    fits = len(tensor.raw_data) == kind.itemsize * math.prod(tensor.dims) and min(tensor.dims, default=0) >= 0
    require(fits, f"the tensor {tensor.name!r} is not stored as the bytes of its shape {tuple(tensor.dims)}: {_AGAIN}")


def _written(file: ModelFile, entries: list[tuple[str, str]], onnx: Any) -> bytes:
    """The file that these tensors and sections make."""
    sections = file.sections
    kind = sections["model"]["kind"]
    require(kind in GRAPHS, f"no graph is known of a network of kind {kind!r}")
    require(
        isinstance(sections.get("certificate"), dict),
        "the file holds no certificate; certify the network and save it again",
    )
    schema = sections["certificate"].get("schema")
    require(schema == STATEMENT, f"an ONNX file states its claim by the schema {STATEMENT}")
    claim = sections["certificate"]["claim"]
    lost = sorted(set(claim["subject"]["tensors"]) - file.tensors.keys())
    require(not lost, f"the tensor {(lost or [''])[0]!r} is not in the file: {_AGAIN}")
    with assumed_by(sections["certificate"]):
        precision = as_run(claim["dtype"], claim["engine"])
    lines = Lines(precision.name)
    asked = GRAPHS[kind](file, lines)
    made = lines.names() | {name for name, _ in asked.inputs} | {"y"}
    for name, tensor in file.tensors.items():
        fit = name not in made and " " not in name and name
        require(fit, f"a tensor cannot be called {name!r} here")
        stated = APART.get(kind, {}).get(name, precision.name)  # what it is compared with has a dtype of its own
        as_stated = tensor.dtype.name == stated or name.startswith(REFERENCE)
        require(as_stated, f"the tensor {name!r} is not of the dtype stated")
    graph = onnx.GraphProto(name=kind, node=lines.messages(asked.last, onnx))
    for name in sorted(file.tensors):
        tensor = np.ascontiguousarray(file.tensors[name])
        ordered = tensor if sys.byteorder == "little" else tensor.byteswap()
        code = NUMBERS[tensor.dtype.name]
        graph.initializer.add(name=name, dims=tensor.shape, data_type=code, raw_data=ordered.tobytes())
    for place, name, sizes in (
        *((graph.input, name, sizes) for name, sizes in asked.inputs),
        (graph.output, "y", asked.shape),
    ):
        tensor_type = place.add(name=name).type.tensor_type
        tensor_type.elem_type = NUMBERS["int64" if name in asked.whole else precision.name]
        tensor_type.shape.SetInParent()
        for size in sizes:
            tensor_type.shape.dim.add(**({"dim_param": size} if isinstance(size, str) else {"dim_value": size}))
    model = onnx.ModelProto(ir_version=IR_VERSION, producer_name="softwright", graph=graph)
    model.opset_import.add(version=OPSET).domain = ""
    model.doc_string = "\n".join(sentences(sections, precision))
    for key, text in entries:
        model.metadata_props.add(key=key, value=text)
    require(len({key for key, _ in entries}) == len(entries), "a section stands there twice")
    return model.SerializeToString(deterministic=True)


def sentences(sections: dict[str, Any], precision: Precision) -> list[str]:
    """How the file repeats its claim for people."""
    claim, target = sections["certificate"]["claim"], sections["target"]
    said = [
        f"softwright {sections['model']['kind']}: {target.get('text') or target.get('name') or target['kind']}",
        f"Claim: {claim['text']}.",
        f"Bound: {claim['bound']!r} in the {claim['norm']} norm, exact part {claim['parts']['exact']!r} + "
        f"rounding part {claim['parts']['rounding']!r}; {claim['arithmetic']} arithmetic.",
    ]
    if claim["set"]["kind"] == "box" and "domain" in claim["set"]:
        where = [f"{name} in [{ends[0]!r}, {ends[1]!r}]" for name, ends in claim["set"]["domain"].items()]
        said.append(f"Set: {', '.join(where)}.")
    if "outside" in claim["set"]:
        width = claim["set"]["outside"]["gap"]
        said.append(f"Except where {' or '.join(f'|{text}| < {width!r}' for text in claim['set']['outside']['of'])}.")
    said.append(f"Weights: SHA-256 {claim['subject']['sha256']}.")
    real = claim["arithmetic"] == "real"
    return [*said, "Covers: no run; the claim is about real arithmetic." if real else f"Covers: {runs(precision)}."]


def runs(precision: Precision) -> str:
    """The runs of a graph that a bound of rounding covers."""
    breaks = {
        "float64": "a runtime that computes float64 in float32, as OpenVINO does",
        "float32": "a runtime that multiplies in TF32 or bfloat16",
    }
    inside = precision.inside or precision.name
    once = f", of {precision.name} numbers, and round once to {precision.name}" if precision.inside else ""
    return (
        f"runs that compute every operation in {inside} as IEEE 754 has it, sums in any order, exp accurate to "
        f"{precision.exp_ulps} ulp (hypotheses {', '.join(precision.hypotheses)}){once}; not {breaks[inside]}"
    )


def _difference(model: Any, wanted: bytes, onnx: Any) -> str:
    """Where the two first differ, for people."""
    found = _first_difference(model, onnx.ModelProto.FromString(wanted), "")
    return found or f"it says the same in another encoding, or holds what no reader knows: {_AGAIN}"


def _first_difference(one: Any, other: Any, at: str) -> str:
    """The first field of two messages that differs, by its way from the top; empty if none does."""
    for field in one.DESCRIPTOR.fields:
        name = f"{at}{field.name}"
        mine, wanted = getattr(one, field.name), getattr(other, field.name)
        if mine == wanted:
            continue
        if field.message_type is None:
            return f"{name} is {_shortened(mine, wanted)} where {_shortened(wanted, mine)} belongs"
        if hasattr(mine, "DESCRIPTOR"):
            beside = "does not belong there" if one.HasField(field.name) else "is missing"
            return _first_difference(mine, wanted, f"{name}.") or f"{name} {beside}"
        for number, (a, b) in enumerate(zip(mine, wanted, strict=False)):
            if a != b:
                called = getattr(b, "name", "")
                place = f"{name} {called!r}" if called else f"{name} {number}"
                return _first_difference(a, b, f"{place}, ") or f"{place} has an entry of no known name"
        return f"{len(mine)} entries {name}, where {len(wanted)} belong"
    return ""


def _shortened(value: Any, other: Any) -> str:
    """A value; of a long text where it begins to differ from another."""
    if not isinstance(value, str | bytes):
        return str(value if isinstance(value, int | float) else list(value)[:8])
    differing = (i for i, (a, b) in enumerate(zip(value, other, strict=False)) if a != b)
    start = max(0, next(differing, min(len(value), len(other))) - 10) if len(value) > 60 else 0
    return repr(value[start : start + 60])
