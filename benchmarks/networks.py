"""100 networks that people have: how many does `transpile` build, and does every bound hold under climbing?

    python benchmarks/networks.py [--only TEXT] [--steps 200] [--piece 0:50]

It needs transformers, skl2onnx and onnxscript.

Nine families of transformers in two sizes, torch's layers and stacks, MLP-Mixers, 30 MLPs over all activations and what
stands beside them, 20 ONNX graphs over three exporters, skl2onnx, scikit-learn's models and pipelines (`sources/`).
A network is *built* if it has a certificate whose bound was not exceeded:

climb    from 48 points of the range, corners among them, `--steps` steps uphill: directions are drawn, and kept where
         the deviation of what runs grows, since rounding has no gradient; what is found is held against the source in
         long double
run      at the same points the user's own thing is run: a module called, an ONNX file by onnxruntime, `predict`; it may
         differ by the bound and by the rounding of its own dtype
whole    a model with blocks inside is run before and after, and the difference told

What is not built is *refused*, with the reason, or *wrong*. The exit code is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sources.case import Case
from sources.climbing import climbed
from sources.estimators import estimators
from sources.families import families, mixers, stacks
from sources.graphs import converted, graphs
from sources.mlps import mlps
from torch import nn

import softwright as sw
from softwright.errors import SoftwrightError
from softwright.targets.mlp import Source, read_source
from softwright.targets.mlp.source import own_rounding

_REACH = 3.0  # where no range is known


def cases() -> list[Case]:
    return [*families(), *mixers(), *stacks(), *mlps(), *graphs(), *converted(), *estimators()]


@dataclass(frozen=True)
class Outcome:
    """What became of a case."""

    verdict: str  # built, refused, wrong
    said: str
    bound: float = 0.0
    found: float = 0.0
    whole: float | None = None


def judged(built: Any, source: Source, sides: Any, steps: int) -> tuple[str, float]:
    """Whether the bound of one network held, and the largest deviation found."""
    network = source.network
    low, high = sides if sides is not None else (-_REACH * np.ones(network.inputs), _REACH * np.ones(network.inputs))
    points = climbed(built.network, network, low, high, steps, 11)
    values = built(points)
    found = float(np.abs(values - network(points, exact=True)).max())
    bound = built.certificate.bound
    rounded = sides is None  # then the bound speaks of real arithmetic: rounding is allowed for
    room = own_rounding(network, points, str(built.network.dtype)[6:]) if rounded else 0.0
    if np.any(np.abs(values - network(points, exact=True)) > bound + room):
        return f"deviates by {found:.3g} from its reading, bound {bound:.3g}", found
    if source.run is not None:
        own = source.run(points, source.dtype)
        if own is not None:
            allowed = bound + own_rounding(network, points, source.dtype) + room
            apart = np.abs(values - own)
            if np.any(apart > allowed):
                return f"deviates by {float(apart.max()):.3g} from the source as it runs, bound {bound:.3g}", found
    return "", found


def outcome(case: Case, steps: int) -> Outcome:
    try:
        thing = case.make()
    except Exception as error:  # the exporter's, not ours
        return Outcome("not made", f"{type(error).__name__}: {str(error).splitlines()[0][:150]}")
    try:
        built = sw.transpile(thing, case.box, progress=False, **case.options)
    except SoftwrightError as error:
        return Outcome("refused", str(error).replace("\n", " ")[:300])
    if built.certificate is None:
        return Outcome("refused", f"no certificate: {built.unproved}"[:300])
    parts = built.parts or {"": built}
    worst = 0.0
    for path, part in parts.items():
        source = read_source(thing) if not built.parts else Source(part.source)
        box = part.target.get("box")
        sides = None if box is None else (np.array(box[0]), np.array(box[1]))
        fault, found = judged(part, source, sides, steps)
        worst = max(worst, found / part.certificate.bound if part.certificate.bound else 0.0)
        if fault:
            return Outcome("wrong", f"{path}: {fault}", part.certificate.bound, found)
    whole = None
    if built.parts:
        whole = apart(thing, built.network, case.inputs() if case.inputs is not None else rows(thing))
        if not whole < 1e-2:
            return Outcome("wrong", f"the whole model moves by {whole:.3g}", built.certificate.bound, worst, whole)
    blocks = f"{len(built.parts)} block(s)" if built.parts else "one network"
    return Outcome("built", blocks, built.certificate.bound, worst, whole)


def apart(one: nn.Module, other: nn.Module, given: Any) -> float:
    """How far two models are apart, over all tensors that they return."""
    kind = next(t.dtype for t in other.state_dict().values() if t.is_floating_point())
    named = {name: x.to(kind) if x.is_floating_point() else x for name, x in given.items()}
    own = {name: x.to(next(one.parameters()).dtype) if x.is_floating_point() else x for name, x in given.items()}
    with torch.no_grad():
        left, right = tensors(one(**own)), tensors(other(**named))
    pairs = zip(left, right, strict=True)
    return max(float((a.double() - b.double()).abs().max()) for a, b in pairs)


def rows(module: nn.Module) -> dict[str, torch.Tensor]:
    """Rows for a network that begins with a Linear layer."""
    width = next(layer.in_features for layer in module.modules() if isinstance(layer, nn.Linear))
    return {"input": torch.randn(50, width)}


def tensors(output: Any) -> list[torch.Tensor]:
    if isinstance(output, torch.Tensor):
        return [output]
    entries = output.values() if hasattr(output, "values") else output
    return [x for entry in entries if isinstance(entry, torch.Tensor | tuple | list) for x in tensors(entry)]


def main() -> int:
    parser = argparse.ArgumentParser(description="Transpile a hundred networks and try to break their bounds.")
    parser.add_argument("--only", default="", help="cases whose names hold this text")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--piece", default=":", help="FIRST:END of the cases, for a run in pieces")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    counted: dict[str, int] = {}
    first, end = (int(text) if text else None for text in options.piece.split(":"))
    chosen = [case for case in cases() if options.only in case.name][first:end]
    started = time.process_time()
    for number, case in enumerate(chosen, 1 + (first or 0)):
        own = time.process_time()
        found = outcome(case, options.steps)
        counted[found.verdict] = counted.get(found.verdict, 0) + 1
        line = f"{number:>3}  {case.name:<58}{found.verdict:<9}{time.process_time() - own:>6.1f} s  "
        if found.verdict == "built":
            line += f"bound {found.bound:.1e}, climbed to {found.found:.2g} of it"
            line += "" if found.whole is None else f", whole {found.whole:.1e}"
            line += f", {found.said}"
        else:
            line += found.said
        print(line, flush=True)
    told = ", ".join(f"{count} {verdict}" for verdict, count in counted.items())
    print(f"{len(chosen)} networks: {told}; {time.process_time() - started:.0f} CPU s")
    return 1 if counted.get("wrong") else 0


if __name__ == "__main__":
    sys.exit(main())
