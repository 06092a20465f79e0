"""A network as an ONNX graph: a free batch, tensors as initializers under their own names, the claim in the metadata.

The graph is the `Program` of the network, node by node (`onnx_nodes.py`); numbers that a node takes stand in `Constant`
nodes, so that the initializers are the network's tensors and nothing else. The metadata are the sections of the model
file. `softwright verify f.onnx` reads both, writes the graph that such tensors mean once more, by itself, compares the
two byte by byte, and proves the claim again. No node is of an operator set later than 17.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.export.claim import claim_lines
from softwright.export.extras import needed
from softwright.export.onnx_nodes import nodes_of
from softwright.export.program import Node, Program
from softwright.export.programs import PROGRAMS, stored_program
from softwright.fileformat import SCHEMA, with_reference, write_atomically

if TYPE_CHECKING:
    import onnx

    from softwright.result.built import Built

IR_VERSION, OPSET = 8, 17


class OnnxFile:
    """A row of `EXPORTERS`."""

    name = "onnx"
    suffix = ".onnx"
    kinds = frozenset(PROGRAMS)
    needs = "onnx"
    summary = "a graph with a free batch, claim and proof inside; `verify` proves it again from the graph"

    def write(self, built: Built[Any], path: Path) -> None:
        write_atomically(path, model_of(built).SerializeToString(deterministic=True))


def model_of(built: Built[Any]) -> onnx.ModelProto:
    """The model that the file holds."""
    onnx = needed("onnx", "onnx")
    program, sections = stored_program(built), built.sections()
    kind = {"float64": onnx.TensorProto.DOUBLE, "float32": onnx.TensorProto.FLOAT}[program.outside]
    stored = with_reference(program.constants, built.reference)
    graph = onnx.helper.make_graph(
        nodes=[node for step in _named(program) for node in nodes_of(step, program.dtype, onnx)],
        name=built.kind,
        inputs=[
            onnx.helper.make_tensor_value_info(
                name, onnx.TensorProto.INT64 if name in program.whole else kind, list(shape)
            )
            for name, shape in program.inputs.items()
        ],
        outputs=[onnx.helper.make_tensor_value_info("y", kind, list(program.shape))],
        initializer=[onnx.numpy_helper.from_array(np.ascontiguousarray(stored[key]), key) for key in sorted(stored)],
    )
    model = onnx.helper.make_model(
        graph,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="softwright",
        doc_string="\n".join(claim_lines(sections)),
    )
    entries = {"softwright": SCHEMA, **{key: json.dumps(said) for key, said in sections.items() if said is not None}}
    for key, text in entries.items():
        model.metadata_props.add(key=key, value=text)
    return model


def _named(program: Program) -> list[Node]:
    """The nodes, with the output of the program under the name y."""

    def named(name: str) -> str:
        return "y" if name == program.output else name

    return [Node(one.op, tuple(map(named, one.inputs)), named(one.output), one.numbers) for one in program.nodes]


EXPORTER = OnnxFile()
