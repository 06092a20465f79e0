"""`certify_at` of a transpiled transformer: the proved deviation of its outputs from the source's, at a prompt.

The model runs once, and its outputs are compared with the exact ones in balls: if they were further off than the bound,
what was read would not be what the model computes, and nothing is said. The result can be saved: the weights that were
read, the prompt, and the replaced blocks with their own certificates, of which `verify` proves the bound again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from softwright.errors import Faults
from softwright.precision import assumptions, name_of, precision_of
from softwright.proof.arithmetic.balls import ball_above, precision
from softwright.result.at_prompt import AtPrompt
from softwright.result.built import Built
from softwright.transpiler.network import TranspiledModule
from softwright.transpiler.whole.bound import LAYER_NORM, Whole
from softwright.transpiler.whole.content import content
from softwright.transpiler.whole.program import Program, read_program, refused

BITS = 192
ROOM = 1 + 2.0**-20  # the checker rounds in other places


@precision(BITS)
def certify_at(built: Built[TranspiledModule], prompt: Any, *, radius: float = 0.0, mask: Any = None) -> AtPrompt:
    """`prompt` (T, d) numbers, or T indices of tokens; `mask` (T, T) True where a row must not see a key, as in torch.
    `radius` bounds how far, token by token and in the Euclidean norm, other prompts are that the bound covers too."""
    network, faults = built.network, Faults("certify_at")
    reason = built.certificate_void
    faults.check(not reason, f"the certificates of the blocks are void: {reason}")
    good = isinstance(radius, int | float) and not isinstance(radius, bool) and 0 <= radius < float("inf")
    faults.check(good, f"radius = {radius!r} must be a number of 0 or more")
    faults.raise_if_any()
    program = read_program(network.module, built.parts)
    dtype = name_of(network.dtype)
    addends, hidden = _read(program, prompt, mask, dtype, faults)
    faults.raise_if_any()
    exact, bounds, budget = Whole(program, precision_of(dtype), hidden).walk(addends, radius)
    bound = max(ball_above(each.upper()) for each in bounds) * ROOM
    ran = _run(network, program, prompt, hidden)
    off = (abs(exact[t][i] - float(ran[t, i])) for t in range(len(ran)) for i in range(ran.shape[1]))
    seen = max(ball_above(each.upper()) for each in off)
    if not np.isfinite(bound):
        raise refused("errors grow beyond all bounds on the way; give fewer layers, a smaller radius or float64")
    if not seen <= bound:
        kind = type(network.module).__name__
        remedy = "call built.network.eval(), for it is in training mode" if network.training else "report its class"
        raise refused(f"this {kind} does not compute what was read of it: it is {seen:.3g} off; {remedy}")
    near = f" and all within {radius:g} of it, token by token" if radius else ""
    return AtPrompt(
        statement=f"every output of the model as it runs against its source in real arithmetic, at this prompt{near}",
        bound=bound,
        seen=seen,
        budget={name: ball_above(error.upper()) * ROOM for name, error in budget},
        quantities={"tokens": float(len(ran)), "sublayers": float(len(program.sublayers)), "radius": float(radius)},
        dtype=dtype,
        assumptions=assumptions(dtype),
        further=(LAYER_NORM,),
        content=lambda found: content(found, program, built.parts, addends, hidden),
    )


def _array(values: Any) -> np.ndarray:
    """Floats as float64, of whichever type they came."""
    if isinstance(values, torch.Tensor):
        values = values.detach().to_dense().cpu()
        return (values.double() if values.is_floating_point() else values).numpy()
    array = np.array(values)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _read(program: Program, prompt: Any, mask: Any, dtype: str, faults: Faults) -> tuple[np.ndarray, np.ndarray | None]:
    """Addends (k, T, d) of the first stream, and the mask."""
    try:
        given = _array(prompt)
    except ValueError as error:
        raise refused("the prompt is no array of numbers; give rows of equal length") from error
    given = given[0] if given.ndim == (3 if program.embed is None else 2) and len(given) == 1 else given
    width = len(program.sublayers[0].norm.gain)
    if program.embed is None:
        fits = given.ndim == 2 and given.shape[1] == width and given.dtype.kind in "fiu" and len(given) > 0
        faults.check(fits, f"the prompt has shape {given.shape}; give one of shape (tokens, {width})")
        faults.raise_if_any()
        faults.check(bool(np.isfinite(given).all()), "the prompt holds numbers that are not finite")
        addends = given.astype(dtype).astype(np.float64)[None]
    else:
        fits = given.ndim == 1 and given.dtype.kind in "iu" and len(given) > 0
        kind = f"shape {given.shape} and type {given.dtype}"
        faults.check(fits, f"the prompt has {kind}; give whole numbers, the indices of its tokens, of shape (tokens,)")
        faults.raise_if_any()
        addends = program.embed(given)
    T = addends.shape[1]
    if mask is None:
        return addends, None
    hidden = _array(mask)
    faults.check(hidden.dtype == bool and hidden.shape == (T, T), f"mask must be True or False of shape {(T, T)}")
    faults.check(program.embed is None, "this model has a mask of its own; leave it out")
    faults.raise_if_any()
    faults.check(not hidden.all(axis=1).any(), "a row of the mask hides all keys")
    return addends, hidden


def _run(network: TranspiledModule, program: Program, prompt: Any, hidden: np.ndarray | None) -> np.ndarray:
    """The outputs (T, m) of the model as it runs."""
    values = torch.as_tensor(_array(prompt))
    if program.embed is not None:
        values = values.reshape(1, -1).long()
        with torch.no_grad():
            output = network(values)
        output = output[0] if isinstance(output, tuple) else next(iter(output.values()))
        return output[0].double().cpu().numpy()
    values = values.reshape(1, *values.shape[-2:]).to(network.dtype)
    module: Any = network.module
    attention = module.self_attn if hasattr(module, "self_attn") else module.layers[0].self_attn
    values = values if attention.batch_first else values.transpose(0, 1)
    named = {} if hidden is None else {"src_mask" if hasattr(module, "self_attn") else "mask": torch.as_tensor(hidden)}
    with torch.no_grad():
        output = network(values, **named)
    return (output[0] if attention.batch_first else output[:, 0]).double().cpu().numpy()
