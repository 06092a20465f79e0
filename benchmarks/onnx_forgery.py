"""Forged ONNX graphs: how many of so many are called VERIFIED although they compute something else, or claim more.

    python benchmarks/onnx_forgery.py [--graphs 2000] [--seed 0]

A forger takes an honest file and changes nodes (operation, edges, attributes, constants, order, one more, one less),
tensors (values, shapes, types, names; half of the time he signs them again wherever their digest stands), inputs and
outputs, operator sets, functions, sentences, the claim in the metadata (bounds made smaller, in decimal and
hexadecimal), or single bytes of the file. False is a VERIFIED file with another graph, with a smaller bound (unless the
file says what to try it on), or with weights that miss its bound at a sampled input: of its formula, of the labels that
the file of a memory holds, or else of what the honest network answers. Weights changed by less than that may be
VERIFIED, and rightly so, and so may a memory of other labels, signed again: it recalls them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import torch
from onnx.reference import ReferenceEvaluator
from torch import nn

import softwright as sw
from softwright.export.selftest import answered, given_to
from softwright.fileformat import weights_sha256

OPERATIONS = ("Sub", "Add", "Mul", "MatMul", "Softmax", "Relu", "Div", "Identity", "Max", "Exp", "LogSoftmax", "Neg")
LAYOUTS = ("softmax", "sdpa", "multihead", "sequence")
STORED = [[1, 2], [2, 1], [3, 3]]
Forger = Callable[[Any, np.random.Generator], None]


def bases() -> dict[str, sw.Built[Any]]:
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(2, 4), nn.GELU(), nn.Linear(4, 1)).double().eval()
    tokens = sw.Sequence(length=(1, 5), s=sw.Symbols("ab"), x=(-1, 1))
    return {
        "line": sw.approximate("tanh(3*x)", sw.Box(x=(-1, 2)), tol=1e-4),
        "plane": sw.approximate("sin(2*x)*cos(y)", sw.Box(x=(-1, 1), y=(0, 2)), tol=1e-3),
        "sum": sw.approximate("sin(2*x) + exp(-y)", sw.Box(x=(-1, 1), y=(0, 2)), tol=1e-4),
        "kink": sw.approximate("abs(x - 0.2)", sw.Box(x=(-1, 2)), tol=1e-4),
        "readable": sw.approximate("sin(x)", sw.Box(x=(-1, 1)), tol=1e-3, style="readable"),
        "float32": sw.approximate("sin(x)", sw.Box(x=(-1, 1)), tol=1e-3, dtype="float32"),
        "stack": sw.approximate("abs(x*y)", sw.Box(x=(-1, 1), y=(-1, 1)), tol=1e-3, strategy="compose"),
        **{f"transpiled, {layout}": sw.transpile(mlp, box=(-1, 1), layout=layout) for layout in LAYOUTS},
        "memory": sw.memorize(STORED, [0.5, -1.0, 2.0]),
        "in context": sw.in_context("ridge", features=2, penalty=0.1),
        "program": sw.compile("count(s[j] == s[i]), sum(x[j] for j <= i)", tokens, tol=1e-6),
        "theorem A1": sw.theorem("A1").build(points=8, tokens=3, dim=1),
        "theorem C3": sw.zoo.load("theorem-C3"),
        "theorem C6": sw.zoo.load("theorem-C6"),
    }


def _pick(rng: np.random.Generator, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def operation(model: Any, rng: np.random.Generator) -> None:
    node = _pick(rng, model.graph.node)
    node.op_type = str(rng.choice([name for name in OPERATIONS if name != node.op_type]))


def edge(model: Any, rng: np.random.Generator) -> None:
    node = _pick(rng, [node for node in model.graph.node if node.input])
    names = [name for other in model.graph.node for name in other.output] + [t.name for t in model.graph.initializer]
    node.input[int(rng.integers(len(node.input)))] = str(rng.choice(names))


def swapped(model: Any, rng: np.random.Generator) -> None:
    node = _pick(rng, [node for node in model.graph.node if len(node.input) == 2])
    node.input[:] = list(node.input)[::-1]


def attribute(model: Any, rng: np.random.Generator) -> None:
    node = _pick(rng, [node for node in model.graph.node if node.attribute])
    entry = node.attribute[0]
    if entry.ints:
        entry.ints[int(rng.integers(len(entry.ints)))] += int(rng.choice([-1, 1]))
    else:
        entry.i += int(rng.choice([-1, 1, 2]))


def added(model: Any, rng: np.random.Generator) -> None:
    place = int(rng.integers(len(model.graph.node)))
    node = model.graph.node[place]
    after = onnx.helper.make_node(str(rng.choice(["Neg", "Relu", "Identity", "Abs"])), ["hidden"], [node.output[0]])
    node.output[0] = "hidden"
    model.graph.node.insert(place + 1, after)


def removed(model: Any, rng: np.random.Generator) -> None:
    del model.graph.node[int(rng.integers(len(model.graph.node)))]


def reordered(model: Any, rng: np.random.Generator) -> None:
    one, two = rng.choice(len(model.graph.node), size=2, replace=False)
    first, second = onnx.NodeProto(), onnx.NodeProto()
    first.CopyFrom(model.graph.node[int(one)])
    second.CopyFrom(model.graph.node[int(two)])
    model.graph.node[int(one)].CopyFrom(second)
    model.graph.node[int(two)].CopyFrom(first)


def tensor(model: Any, rng: np.random.Generator) -> None:
    """A value of a tensor, by a little or by much; half of the time whatever names its digest is signed again."""
    before = weights_sha256(_tensors(model))
    stored = _pick(rng, [t for t in model.graph.initializer if t.data_type in (1, 11) and t.raw_data])
    array = onnx.numpy_helper.to_array(stored).copy()
    place, by = int(rng.integers(array.size)), rng.choice([2.0**-40, 1e-3, 0.1, 10.0]) * rng.choice([-1.0, 1.0])
    array.flat[place] = array.flat[place] * (1 + by) + by
    stored.CopyFrom(onnx.numpy_helper.from_array(array, stored.name))
    if rng.random() < 0.5:
        _signed(model, before)


def _tensors(model: Any) -> dict[str, np.ndarray]:
    found = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    return {name: array for name, array in found.items() if not name.startswith("reference.")}


def _signed(model: Any, before: str) -> None:
    after = weights_sha256(_tensors(model))
    for entry in model.metadata_props:
        entry.value = entry.value.replace(before, after)
    model.doc_string = model.doc_string.replace(before, after)


def reshaped(model: Any, rng: np.random.Generator) -> None:
    stored = _pick(rng, model.graph.initializer)
    if rng.random() < 0.5:
        stored.dims[:] = list(stored.dims)[::-1] if len(set(stored.dims)) > 1 else [*stored.dims, 1]
    else:
        stored.data_type = int(rng.choice([number for number in (1, 2, 6, 7, 11) if number != stored.data_type]))


def renamed(model: Any, rng: np.random.Generator) -> None:
    one, two = (model.graph.initializer[int(i)] for i in rng.choice(len(model.graph.initializer), 2, replace=False))
    one.name, two.name = two.name, one.name


def interface(model: Any, rng: np.random.Generator) -> None:
    place = _pick(rng, [*model.graph.input, *model.graph.output])
    which = int(rng.integers(3))
    if which == 0:
        place.name = str(rng.choice([node.output[0] for node in model.graph.node]))
    elif which == 1:
        place.type.tensor_type.elem_type = int(rng.choice([1, 7, 10, 11]))
        place.type.tensor_type.shape.dim[0].dim_param = "n"
    else:
        place.type.tensor_type.shape.dim[0].dim_value = int(rng.integers(1, 100))


def versions(model: Any, rng: np.random.Generator) -> None:
    which = int(rng.integers(4))
    if which == 0:
        model.opset_import[0].version = int(rng.choice([7, 11, 12, 18, 21]))
    elif which == 1:
        model.opset_import.append(onnx.helper.make_opsetid("other", 1))
    elif which == 2:
        opset = [onnx.helper.make_opsetid("", 17)]
        body = [onnx.helper.make_node("Neg", ["a"], ["b"])]
        model.functions.append(onnx.helper.make_function("", "Softmax", ["a"], ["b"], body, opset))
    else:
        _pick(rng, model.graph.node).domain = "other"


def claimed(model: Any, rng: np.random.Generator) -> None:
    """A smaller bound, said consistently."""
    factor = float(rng.choice([0.5, 0.1, 1e-3]))
    for entry in model.metadata_props:
        if entry.key == "certificate":
            said = json.loads(entry.value)
            claim = said["claim"]
            old = dict(claim)
            for name in claim["parts"]:
                claim["parts"][name] *= factor
                claim["hex"][name] = float(claim["parts"][name]).hex()
            claim["bound"] *= factor
            claim["hex"]["bound"] = float(claim["bound"]).hex()
            model.doc_string = model.doc_string.replace(repr(old["bound"]), repr(claim["bound"]))
            entry.value = json.dumps(said)


def worded(model: Any, rng: np.random.Generator) -> None:
    words = model.doc_string.split(" ")
    words[int(rng.integers(len(words)))] += "0"
    model.doc_string = " ".join(words)


FORGERS: tuple[Forger, ...] = (
    *(operation, edge, swapped, attribute, added, removed, reordered, tensor, tensor, reshaped, renamed, interface),
    *(versions, claimed, worded),
)


def bytes_changed(content: bytes, rng: np.random.Generator) -> bytes:
    """One byte, or a stretch repeated or left out."""
    place, length = int(rng.integers(len(content))), int(rng.integers(1, 40))
    which = int(rng.integers(3))
    if which == 0:
        return content[:place] + bytes([content[place] ^ (1 << int(rng.integers(8)))]) + content[place + 1 :]
    return content[: place + length] + content[place:] if which == 1 else content[:place] + content[place + length :]


def is_false(forged: bytes, honest: Any, built: sw.Built[Any]) -> bool:
    """Whether a VERIFIED file is false: another graph, a smaller bound, or weights that miss the bound somewhere.

    Weights that were changed by so little that the claim is still true, and signed again, are rightly VERIFIED.
    """
    model = onnx.ModelProto.FromString(forged)
    said = json.loads({entry.key: entry.value for entry in model.metadata_props}["certificate"])
    bound = built.certificate.bound
    if model.opset_import != honest.opset_import:
        return True
    if any(getattr(model.graph, part) != getattr(honest.graph, part) for part in ("node", "input", "output")):
        return True
    drawn = built.target.get("drawn", {})
    if {"sequences", "labels"} <= drawn.keys():  # what is claimed can be tried, however small the bound
        asked = np.array(drawn["sequences"], dtype=float)
        (name,) = (one.name for one in model.graph.input)
        got = np.asarray(next(iter(ReferenceEvaluator(model).run(None, {name: asked}))), dtype=float)
        labels = np.array(drawn["labels"], dtype=float)
        return bool(np.abs(got.reshape(labels.shape) - labels).max() > said["claim"]["bound"])
    if said["claim"]["bound"] < bound:
        return True
    if built.kind == "memory":
        x: tuple[np.ndarray, ...] = (np.array(STORED, dtype=np.int64),)
    else:
        x = given_to(built, 200 if built.kind in ("in_context", "theorem") else 5000, seed=1)
    names = [one.name for one in model.graph.input]
    found = np.asarray(next(iter(ReferenceEvaluator(model).run(None, dict(zip(names, x, strict=True))))), dtype=float)
    if built.source is not None and built.kind in ("approximation", "composition"):
        wanted = np.asarray(built.source(x[0].astype(float))).reshape(found.shape)
        return bool(np.abs(found - wanted).max() > bound)
    honestly = answered(built, x).astype(float)
    if built.kind == "memory":  # a file holds the labels that it speaks of, so those of a forged one are its own
        was, now = (_tensors(one)["readout.values"] for one in (honest, model))
        held = np.abs(honestly.reshape(-1, 1) - was.reshape(1, -1)).argmin(axis=1)  # which label each sequence has
        honestly = now.reshape(-1)[held].reshape(found.shape)
    # Two networks that each keep a bound on one step differ by no more than the steps let grow.
    grown = 2 * bound * (1e3 if built.kind == "in_context" else 1)
    return bool(np.abs(found - honestly).max() > max(grown, 1e-12))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, started, counts, false = np.random.default_rng(options.seed), time.process_time(), Counter(), []
    kinds: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        path, files = Path(folder) / "f.onnx", []
        for name, built in bases().items():
            built.export(path)
            assert sw.verify(path).verified, f"{name}: the honest file is {sw.verify(path)}"
            files.append((name, path.read_bytes(), built))
        for number in range(options.graphs):
            name, content, built = files[number % len(files)]
            honest = onnx.ModelProto.FromString(content)
            forger = FORGERS[int(rng.integers(len(FORGERS)))] if rng.random() < 0.85 else None
            if forger is None:
                forged, what = bytes_changed(content, rng), "bytes"
            else:
                model = onnx.ModelProto.FromString(content)
                forger(model, rng)
                forged, what = model.SerializeToString(deterministic=True), forger.__name__
            if forged == content:
                counts["unchanged"] += 1
                continue
            path.write_bytes(forged)
            verdict = sw.verify(path, max_seconds=60.0)
            counts[f"{what}: {verdict.status}"] += 1
            kinds[name] += 1
            if verdict.verified and is_false(forged, honest, built):
                false.append(f"{number} {name} {what}")
    for line in sorted(counts):
        print(f"{line:<32} {counts[line]}")
    print(", ".join(f"{name} {count}" for name, count in kinds.items()))
    print(f"{options.graphs} forged graphs, {len(false)} false VERIFIED, {time.process_time() - started:.0f} CPU s")
    print("\n".join(false))
    raise SystemExit(1 if false else 0)


if __name__ == "__main__":
    main()
