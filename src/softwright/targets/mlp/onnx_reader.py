"""ONNX graphs as networks, and run by onnx's reference evaluator; what a node means is in `onnx_nodes.py`.

A graph whose input has several axes makes rows of it, or is read along its last axis, (n, l, d), and run so. Several
inputs are the columns of one, in their order; several outputs of numbers are joined, in their order. Labels
that a classifier gives beside its probabilities are left out, and a softmax at the end as well: what is read is the
network up to its logits, and the same part of the graph is what is run beside it. All faults come together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from softwright.errors import Faults, FileFormatError, InvalidInput
from softwright.targets import special
from softwright.targets.mlp import values as algebra
from softwright.targets.mlp.activation import Activation
from softwright.targets.mlp.branches import Branch
from softwright.targets.mlp.dense import DenseNetwork, GatedNetwork, Runner
from softwright.targets.mlp.onnx_constants import DIGITS
from softwright.targets.mlp.onnx_nodes import Nodes
from softwright.targets.mlp.torch_reader import network_from
from softwright.targets.mlp.values import Missing, Product, Value

_KINDS = {"float16": 10, "float32": 1, "float64": 11}
_SIDE = 3  # of an axis of unknown size, where a graph is run
_PLAIN = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
BEFORE_SOFTMAX = " (before Softmax)"  # in the name of a network whose graph goes on
_ENDS = ("Softmax", "LogSoftmax")  # what follows the logits of a classifier


def read_onnx(source: Path) -> tuple[DenseNetwork | GatedNetwork, Runner, bool]:
    """The network of a graph, the graph itself as it runs, and whether it makes rows of what it is given first. Needs
    softwright[onnx]."""
    try:
        import onnx
    except ImportError:
        raise InvalidInput(
            "transpile", ["the package onnx is missing; install it with: pip install 'softwright[onnx]'"]
        ) from None
    try:
        model = onnx.load(str(source))
        if model.functions:
            from onnx import inliner

            model = inliner.inline_local_functions(model)
    except Exception as error:  # protobuf, onnx and the operating system each raise their own
        raise FileFormatError(f"{source}: not a readable ONNX file ({_first(error)}); export it again") from error
    try:
        version = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 13)
        network, inputs, outputs = _read_graph(model.graph, source, version)
    except InvalidInput:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:  # a graph that is no graph
        raise FileFormatError(f"{source}: not a readable ONNX graph ({_first(error)}); export it again") from error
    flat = len(inputs) == 1 and any(len(sizes) > 1 and not _lead(sizes, network.inputs) for sizes in inputs.values())
    return network, lambda points, dtype: _evaluated(model, inputs, outputs, points, dtype), flat


def _inputs(graph: Any) -> dict[str, list[int]]:
    """The inputs by name, with the sizes of a row where they are known (0 where not)."""
    constants = {tensor.name for tensor in graph.initializer}
    return {
        str(entry.name): [int(size.dim_value) for size in entry.type.tensor_type.shape.dim][1:]
        for entry in graph.input
        if entry.name not in constants
    }


def _lead(sizes: list[int], width: int) -> list[int] | None:
    """The axes between rows and the last one, of a graph that is a network along the last one; else None."""
    rows = int(np.prod(sizes)) == width
    return None if rows or len(sizes) < 2 or sizes[-1] not in (0, width) else [size or _SIDE for size in sizes[:-1]]


def _read_graph(
    graph: Any, source: Path, version: int
) -> tuple[DenseNetwork | GatedNetwork, dict[str, list[int]], list[str]]:
    """The network, the graph's inputs, and the names of the results that it stands for."""
    inputs = _inputs(graph)
    axes = max((len(sizes) for sizes in inputs.values()), default=1)
    if axes < 2 or len(inputs) > 1:
        return _read_along(graph, source, version, (1, -1))
    (sizes,) = inputs.values()
    try:
        found = _read_along(graph, source, version, (1, -1))
        if found[0].inputs == int(np.prod(sizes)):
            return found
    except InvalidInput:
        if not sizes[-1]:
            raise
    return _read_along(graph, source, version, (axes, -1))


def _read_along(
    graph: Any, source: Path, version: int, last: tuple[int, ...]
) -> tuple[DenseNetwork | GatedNetwork, dict[str, list[int]], list[str]]:
    """The network along these axes, each of which is the last one."""
    faults = Faults(str(source))
    constants = _constants(graph, faults)
    inputs = _inputs(graph)
    faults.check(bool(inputs), "the graph has no input; a network here has one at least")
    faults.check(len(graph.output) > 0, "the graph has 0 outputs; a network here has one at least")
    rows = 1 in last
    widths: dict[str, int | None] = {
        name: (int(np.prod(sizes if rows else sizes[-1:])) if sizes else 0) or None for name, sizes in inputs.items()
    }
    if len(inputs) > 1:
        faults.check(
            all(widths.values()), f"the sizes of the inputs {', '.join(inputs)} are not known; export with them"
        )
    faults.raise_if_any()
    nodes = Nodes(constants, _columns(widths), widths, last)
    made: dict[str, Any] = {}
    for node in graph.node:
        if node.op_type != "Constant":
            nodes.add(node, _options(node))
            made.update(dict.fromkeys(map(str, node.output), node))
    value, chosen, ends = _ending(graph, nodes, made, -1 if version >= 13 else 1, faults)
    own = _KINDS.get(nodes.dtype, 1)
    rounded = [kind for kind in nodes.casts if DIGITS[kind] < DIGITS[own]]
    faults.check(
        not rounded,
        f"a Cast rounds values to fewer digits than the {nodes.dtype or 'float32'} of the weights; export without it",
    )
    faults.raise_if_any()
    label = source.stem + (BEFORE_SOFTMAX if ends else "")
    try:
        return network_from(value, nodes.dtype or "float32", label), inputs, chosen
    except InvalidInput as error:
        raise InvalidInput(str(source), error.faults) from error


def _columns(widths: dict[str, int | None]) -> dict[str, Value]:
    """The inputs as values: one is the row itself, several are columns of it."""
    if len(widths) == 1:
        return {name: algebra.of(Branch(size=width)) for name, width in widths.items()}
    total, found = sum(width or 0 for width in widths.values()), {}
    start = 0
    for name, width in widths.items():
        found[name] = algebra.selected(algebra.of(Branch()), np.arange(start, start + (width or 0)), total, name)
        start += width or 0
    return found


def _ending(graph: Any, nodes: Nodes, made: dict[str, Any], axis: int, faults: Faults) -> tuple[Value, list[str], bool]:
    """What the graph gives, the names of the results that this is, and whether a softmax was left out behind them.

    `axis` is that of a softmax that names none.
    """
    found: list[tuple[str, Value]] = []
    left_out, ends = [], False
    for entry in graph.output:
        name, value = str(entry.name), nodes.value(str(entry.name))
        node = made.get(name)
        while node is not None and node.op_type in ("Identity", "Cast", *_ENDS):
            if node.op_type in _ENDS and _options(node).get("axis", axis) not in nodes.last:
                break
            ends |= node.op_type in _ENDS
            name = str(node.input[0])
            value, node = nodes.value(name), made.get(name)
        if isinstance(value.thing, Branch | Product):
            found.append((name, value))
        elif isinstance(value.thing, Missing) and entry.type.tensor_type.elem_type in DIGITS:
            faults.found += value.thing.faults
        else:
            left_out.append(value)
    if not found and not faults.found:
        faults.found += [
            fault for value in left_out if isinstance(value.thing, Missing) for fault in value.thing.faults
        ]
        faults.check(bool(faults.found), "the graph gives nothing that its layers make")
    if not found or faults.found:
        return algebra.missing(), [], False
    found = list(dict(found).items())
    return (
        found[0][1] if len(found) == 1 else algebra.join([v for _, v in found], "output"),
        [n for n, _ in found],
        ends,
    )


def _constants(graph: Any, faults: Faults) -> dict[str, np.ndarray]:
    """The arrays of initializers and Constant nodes, by name."""
    import onnx

    tensors = {tensor.name: tensor for tensor in graph.initializer}
    found: dict[str, np.ndarray] = {}
    for node in graph.node:
        if node.op_type == "Constant" and node.output:
            options = _options(node)
            if "value" in options:
                tensors[node.output[0]] = options["value"]
            for key, kind in _PLAIN.items():
                if key in options:
                    found[node.output[0]] = np.asarray(options[key], dtype=kind)
    for name, tensor in tensors.items():
        try:
            found[name] = onnx.numpy_helper.to_array(tensor)
        except Exception as error:  # truncated data, unknown types: whatever the file holds
            faults.add(f"the constant {name} cannot be read ({_first(error)}); export the graph again")
    return found


def _options(node: Any) -> dict[str, Any]:
    import onnx

    return {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _evaluated(
    model: Any, inputs: dict[str, list[int]], outputs: list[str], points: np.ndarray, dtype: str
) -> np.ndarray:
    """The graph at points (n, d) by onnx's reference evaluator, its numbers as they are, in arithmetic of the dtype."""
    ready = _in_dtype(model, dtype, outputs)
    given, start = {}, 0
    for name, sizes in inputs.items():
        width = points.shape[1] if len(inputs) == 1 else int(np.prod(sizes))
        part = points[:, start : start + width].astype(dtype)
        start += width
        lead = _lead(sizes, width) if len(inputs) == 1 else None
        if lead is not None:  # along the last axis: as many sequences as hold the points, the last one filled up
            return _by_sequences(ready, outputs, name, part, lead)
        fits = len(sizes) > 1 and int(np.prod(sizes)) == width
        given[name] = part.reshape(len(points), *sizes) if fits else part
    found = _run(ready, outputs, given)
    # The numbers of a row in their order, also where a file gives them as a line or a column of all rows.
    rows = [np.asarray(x, dtype=np.float64) for x in found]
    rows = [x.reshape(len(points), -1) if x.size % len(points) == 0 else x for x in rows]
    return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)


def _by_sequences(model: Any, outputs: list[str], name: str, points: np.ndarray, lead: list[int]) -> np.ndarray:
    """A graph along its last axis at points (n, d), put into sequences; its results as they are if these are none."""
    count = -(-len(points) // int(np.prod(lead)))
    filled = np.resize(points, (count * int(np.prod(lead)), points.shape[1])).reshape(count, *lead, points.shape[1])
    found = [np.asarray(x, dtype=np.float64) for x in _run(model, outputs, {name: filled})]
    if any(x.shape[:-1] != filled.shape[:-1] for x in found):
        return next(x for x in found if x.shape[:-1] != filled.shape[:-1])
    return np.concatenate([x.reshape(-1, x.shape[-1])[: len(points)] for x in found], axis=1)


def _run(model: Any, outputs: list[str], given: dict[str, np.ndarray]) -> list[np.ndarray]:
    """A graph by onnx's reference evaluator."""
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class Erf(OpRun):  # onnx's own rounds every result to float32
        op_domain = ""

        def _run(self, x: np.ndarray) -> tuple[np.ndarray]:
            return (special.erf(x).astype(x.dtype),)

    class Gelu(OpRun):  # onnx's own is made of its Erf
        op_domain = ""

        def _run(self, x: np.ndarray, approximate: str | None = None) -> tuple[np.ndarray]:
            form = "gelu_tanh" if (approximate or self.approximate) == "tanh" else "gelu"  # type: ignore[attr-defined]
            return (Activation(form)(x).astype(x.dtype),)

    with np.errstate(all="ignore"):
        found: Any = ReferenceEvaluator(model, new_ops=[Erf, Gelu]).run(outputs, given)
    return list(found)


def _in_dtype(model: Any, dtype: str, outputs: list[str]) -> Any:
    """A copy of the graph whose inputs and constants have the dtype, up to these results."""
    import onnx

    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    graph = copied.graph
    wanted = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    del graph.value_info[:]
    constants = {tensor.name for tensor in graph.initializer}
    for entry in graph.input:
        if entry.name not in constants:
            entry.type.tensor_type.elem_type = wanted
    del graph.output[:]
    graph.output.extend(onnx.helper.make_tensor_value_info(name, wanted, None) for name in outputs)
    _keep_needed(graph, set(outputs))
    for node in graph.node:
        for entry in node.attribute:
            if node.op_type == "Cast" and entry.name == "to" and entry.i in DIGITS:
                entry.i = wanted
    options = [entry for node in graph.node if node.op_type == "Constant" for entry in node.attribute]
    for entry in options:
        if _PLAIN.get(entry.name) is np.float32:
            array = np.asarray(onnx.helper.get_attribute_value(entry), dtype=np.float32).astype(dtype)
            entry.CopyFrom(onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(array)))
    for tensor in (*graph.initializer, *(entry.t for entry in options if entry.name == "value")):
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype.kind == "f":
            tensor.CopyFrom(onnx.numpy_helper.from_array(array.astype(dtype), tensor.name))
    return copied


def _keep_needed(graph: Any, needed: set[str]) -> None:
    """Leave out the nodes that nothing asked for needs: labels, and a softmax at the end."""
    kept = []
    for node in reversed(list(graph.node)):
        if needed & set(node.output):
            needed |= set(node.input)
            kept.append(node)
    del graph.node[:]
    graph.node.extend(reversed(kept))
