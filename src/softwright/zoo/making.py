"""Models from their recipes: each verb with the arguments that its row names. Equal recipes give equal tensors."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from softwright.result.kinds import loaded
from softwright.zoo.recipes import Recipe, recipe

if TYPE_CHECKING:
    from softwright.result.built import Built

VERBS = {
    "approximate": "softwright.approximation.verb:approximate",
    "memorize": "softwright.memory.verb:memorize",
    "transpile": "softwright.transpiler.verb:transpile",
    "in_context": "softwright.methods.verb:in_context",
    "theorem": "softwright.theorems.verb:theorem",
    "compile": "softwright.programs.verb:compile",
}


def build(name: str) -> Built[Any]:
    """The model of a recipe, built now."""
    row = recipe(name)
    return MAKERS[row.verb](row)


def file_of(name: str) -> bytes:
    """The bytes of the model file of a recipe, built now: what another process or machine sends back."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        build(name).save(path)
        return path.read_bytes()


def _approximated(row: Recipe) -> Built[Any]:
    approximate = loaded(VERBS[row.verb])
    # One layer unless the row says otherwise: single heads are what most of these are shown for.
    options = {"strategy": "layer", **row.arguments}
    return approximate(row.what, row.sides, tol=float(row.tol), dtype=row.dtype, progress=False, **options)


def _memorized(row: Recipe) -> Built[Any]:
    given = row.arguments
    sequences, labels = given.pop("sequences"), given.pop("labels")
    return loaded(VERBS[row.verb])(sequences, labels, dtype=row.dtype, progress=False, **given)


def _transpiled(row: Recipe) -> Built[Any]:
    """A feed-forward network of the sizes named, weights drawn by NumPy's generator: no library's own defaults."""
    import numpy as np

    from softwright.targets.mlp import Activation, DenseLayer, DenseNetwork

    given = row.arguments
    sizes, rng = given.pop("sizes"), np.random.default_rng(given.pop("seed"))
    layers = []
    for i, (inputs, outputs) in enumerate(pairwise(sizes)):
        weight = (rng.uniform(-1.0, 1.0, size=(outputs, inputs)) / np.sqrt(inputs)).astype(row.dtype)
        bias = rng.uniform(-0.5, 0.5, size=outputs).astype(row.dtype)
        activation = Activation(row.what if i < len(sizes) - 2 else "identity")
        layers.append(DenseLayer(weight.astype(float), bias.astype(float), activation))
    (side,) = row.sides.values()
    return loaded(VERBS[row.verb])(DenseNetwork(tuple(layers), row.dtype), side, progress=False, **given)


def _in_context(row: Recipe) -> Built[Any]:
    return loaded(VERBS[row.verb])(row.what, dtype=row.dtype, progress=False, **row.arguments)


def _theorem(row: Recipe) -> Built[Any]:
    return loaded(VERBS[row.verb])(row.what).build(**row.arguments)


def _compiled(row: Recipe) -> Built[Any]:
    """A program of the library, by name, for sequences up to the length of the row."""
    given, example = row.arguments, loaded("softwright.programs.examples.library:example")
    program = example(row.what)
    tokens = program.tokens(given.pop("length"))
    return loaded(VERBS[row.verb])(program.text, tokens, tol=float(row.tol), dtype=row.dtype, progress=False, **given)


MAKERS: dict[str, Callable[[Recipe], Built[Any]]] = {
    "approximate": _approximated,
    "memorize": _memorized,
    "transpile": _transpiled,
    "in_context": _in_context,
    "theorem": _theorem,
    "compile": _compiled,
}
