"""The page of a theorem's construction: bound and error along its sweep of sizes, and its network to put numbers in.

Constructions at other sizes are made when the page is written, as the figure makes them; the page turns through them.
The network of the file runs in the page, stage by stage, as the papers write it: columns are tokens.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.errors import InvalidInput
from softwright.page.content import Content, numbers
from softwright.precision import name_of
from softwright.theorems import find_theorem
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.network import TheoremNetwork

if TYPE_CHECKING:
    from softwright.result.built import Built

MOST_NUMBERS = 300_000  # of a network that runs in the page
_SECONDS = 8.0  # for constructions at other sizes
_INPUTS = 120


def content(built: Built[Any]) -> Content:
    network: TheoremNetwork = built.network
    stated = find_theorem(built.target["label"])
    sizes = {name: value for name, value in built.target["sizes"].items() if name in {o.name for o in stated.options}}
    made = built.source if isinstance(built.source, Construction) else stated.build(**sizes)
    small = network.parameter_count <= MOST_NUMBERS
    data = {
        "float32": name_of(network.dtype) == "float32",
        "label": stated.label,
        "statement": stated.statement,
        "conditions": [str(condition) for condition in stated.conditions],
        "sizes": [[str(name), str(value)] for name, value in sizes.items() if not isinstance(value, list | dict)],
        "sweep": _sweep(stated, sizes),
        "norm": made.norm,
        "inputs": list(network.inputs),
        "stages": [_stage(stage) for stage in network.stages] if small else [],
        "examples": _examples(made, network) if small else [],
    }
    headline = f"{network.layers} attention layer(s), {network.heads} head(s), {network.parameter_count} numbers"
    return Content(str(built.target.get("text", network.label)), headline, ("theorem.html",), ("theorem.js",), data)


def _sweep(stated: Any, sizes: dict[str, Any]) -> dict[str, Any]:
    if stated.sweep is None:
        return {"name": "", "rows": []}
    name, values = stated.sweep
    rows, started = [], time.monotonic()
    for value in values:
        if time.monotonic() - started > _SECONDS:
            break
        with suppress(InvalidInput):  # a size of the sweep that does not go with the others
            made: Construction = stated.build(**{**sizes, name: value})
            seen, count = made.observe(n=_INPUTS)
            bound = made.bound + (made.rounding or 0.0)
            facts = {"tokens": made.tokens, "heads": made.heads, "layers": made.layers, "parameters": made.parameters}
            if np.isfinite(seen) and np.isfinite(bound):
                rows.append({"size": str(value), "bound": bound, "seen": float(seen), "inputs": count, **facts})
    return {"name": str(name), "rows": rows}


def _examples(made: Construction, network: TheoremNetwork) -> list[list[list[float]]]:
    """A few inputs of the theorem's domain; none where inputs are no token matrices."""
    drawn = np.asarray(made.sample(np.random.default_rng(0), 6))
    if drawn.dtype.kind not in "fiu" or drawn.ndim != 3 or drawn.shape[1:] != network.inputs:
        return []
    return drawn[:6].astype(float).tolist()


def _stage(stage: Any) -> dict[str, Any]:
    tensors = {
        name: {"shape": list(tensor.shape), "numbers": numbers(tensor.contiguous())}
        for name, tensor in stage.named_buffers(recurse=False)
    }
    return {"type": stage.stage_type, **stage.flags, **tensors}
