"""Transpiled networks, proved again: what is claimed, and that nothing else is stated.

*With a box*: for inputs of the box that are numbers of the dtype, every output of the network as it runs is within
`bound` of the source network in real arithmetic, the source being the weights and activations in the file; in real
arithmetic, with the source's weights, and slopes and shares before they are rounded, it is within `exact_part`. What
storing and running add is the rest: `rounding_part`, which is never more than what is left of `bound`.
*Without one*: for all inputs the network in real arithmetic is within `bound`; every weight must be stored as it was,
and nothing may overflow for inputs of [-1, 1], so that what is true in real arithmetic also runs somewhere.

The errors after the layers, which a certificate states too, are bounds of the same kind.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from flint import arb

from softwright.checker.proved import Proved, compare
from softwright.checker.refusal import require
from softwright.checker.transpiled.heads import unit_of
from softwright.checker.transpiled.layers import Affine, Layer, chain_errors
from softwright.checker.transpiled.layouts import Stored
from softwright.checker.transpiled.products import Gated, gated_errors
from softwright.checker.transpiled.reading import Network, read_network
from softwright.checker.transpiled.unit import Array, Run, Unit
from softwright.fileformat import ModelFile

METHOD = "closed form: unit bounds through |W| or its norm, layer by layer"
STATEMENT = "every output is within the bound of the source network in real arithmetic, for"
REAL = ("real arithmetic (the theorem says nothing of rounding)",)


def prove_transpiled(file: ModelFile) -> Proved:
    """What the file claims, proved again and compared."""
    proved = _proved(read_network(file))
    compare(file.sections["certificate"], proved)
    return proved


def _proved(network: Network) -> Proved:
    run = Run(network.precision, network.layout)
    layers = _layers(network, run)
    if network.box is None:
        require(network.verbatim, f"{run.precision.name} rounds the weights, which no bound on all inputs survives")
        errors = _errors(network, layers, None)
        ones = np.ones(layers[0].affine.inputs)
        _errors(replace(network, box=(-ones, ones)), layers, run)  # refuses what could overflow
        return Proved(
            f"{STATEMENT} all inputs, in real arithmetic",
            arb(_largest(errors[-1:])),
            None,
            METHOD,
            engine=network.layout,
            at_most=_named(errors),
            assumptions=REAL,
        )
    errors = _errors(network, layers, run)
    return Proved(
        f"{STATEMENT} inputs in the box",
        arb(_largest(_errors(network, layers, None)[-1:])),
        None,
        METHOD,
        engine=network.layout,
        total=arb(_largest(errors[-1:])),
        at_most=_named(errors),
        assumptions=(
            run.precision.words,
            f"inputs are {run.precision.name} numbers of the domain",
        ),
    )


def _layers(network: Network, run: Run) -> list[Layer]:
    """What the source says of each layer beside what the network stores, and the units of its heads."""
    units: dict[tuple[object, ...], Unit] = {}
    found = []
    source = network.source
    parts = zip(network.layers, source.weights, source.biases, source.activations, strict=True)
    for i, (stored, weight, bias, activation) in enumerate(parts):
        direct = network.products is not None and i == 0 and activation.name in ("sigmoid", "tanh")
        require(
            (stored.tokens is None) == (activation.linear or direct), f"layer {i + 1} has heads where it should not"
        )
        unit = None
        if stored.tokens is not None:
            table = stored.tokens.astype(np.float64)
            key = activation, table.tobytes(), stored.separate, stored.shared
            if key not in units:
                units[key] = unit_of(activation, table, replace(run, separate=stored.separate), stored.shared)
            unit = units[key]
        found.append(Layer(_affine(stored, weight, bias), activation, unit, stored.separate))
    return found


def _affine(stored: Stored, weight: Array, bias: Array) -> Affine:
    return Affine(weight, bias, stored.weight.astype(np.float64), stored.bias.astype(np.float64))


def _errors(network: Network, layers: list[Layer], run: Run | None) -> list[Array]:
    """The errors after every layer; `run` None: in real arithmetic."""
    if network.products is None:
        return chain_errors(layers, network.box, run)
    steps, shares = (x.astype(np.float64) for x in (network.products.steps, network.products.shares))
    gate, value, down = layers
    block = Gated(gate, value.affine, down.affine, network.second, steps, shares, network.products.shared)
    if block.direct:
        second = 0.0 if gate.activation.name == "sigmoid" else -1.0
        require(steps.tolist() == shares.tolist() == [1.0], "the gate is a head of its own and is not multiplied")
    else:
        second = -1.0
    require(network.second == second, f"the second tokens are {second:g} times the first")
    return gated_errors(block, network.box, run)


def _largest(errors: list[Array]) -> float:
    return max((float(error.max()) for error in errors), default=0.0)


def _named(errors: list[Array]) -> dict[str, arb]:
    return {f"error after layer {i}": arb(_largest([error])) for i, error in enumerate(errors, 1)}
