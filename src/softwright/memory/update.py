"""A memory with more, fewer or other labels: only the keys that change are computed, the rest stays as it is.

New tokens and places get fresh random codes; old ones keep theirs, so stored ids stay where they are. What must hold
of all keys together, the gap, is measured again; if the new ids come too close, only a new draw of codes can help.
"""

from __future__ import annotations

import numpy as np
import torch

from softwright.errors import ToleranceNotReached
from softwright.memory.build import assemble, gap_floor, largest_norm
from softwright.memory.codes import place_products, place_weights, token_codes
from softwright.memory.context_head import TENSORS, ContextHead
from softwright.memory.gap import closest
from softwright.memory.labels import Labels
from softwright.memory.network import MemoryNetwork
from softwright.memory.rounding import id_errors
from softwright.memory.sequences import Packed
from softwright.memory.tokenizer import Tokenizer

_ROOM = 4096


def with_items(
    network: MemoryNetwork, packed: Packed, keep: np.ndarray, labels: Labels, tokenizer: Tokenizer | None
) -> MemoryNetwork:
    """The memory with the items `keep` of `packed` added; `labels` are theirs, with all classes."""
    head = _extended(network.head, packed)
    new = head.ids(packed)[keep].astype(head.codes.numpy().dtype)
    keys = np.concatenate([network.readout.keys.numpy(), new])
    values = np.concatenate([network.readout.values.double().numpy(), labels.values])
    return _again(network, head, keys, Labels(values, labels.classes), tokenizer)


def without_items(network: MemoryNetwork, which: np.ndarray) -> MemoryNetwork:
    """The memory without the keys `which`."""
    left = np.ones(network.stored, dtype=bool)
    left[which] = False
    values = network.readout.values.double().numpy()[left]
    labels = Labels(values, network.classes)
    return _again(network, network.head, network.readout.keys.numpy()[left], labels, network.tokenizer)


def with_labels(network: MemoryNetwork, which: np.ndarray, labels: Labels) -> MemoryNetwork:
    """The memory with other labels for the keys `which`."""
    values = network.readout.values.double().numpy().copy()  # the old memory keeps its labels
    values[which] = labels.values
    readout = type(network.readout)(
        **{name: getattr(network.readout, name) for name in network.readout.TENSORS if name != "values"},
        values=torch.tensor(values, dtype=network.dtype),
    )
    return MemoryNetwork(
        network.head,
        readout,
        classes=labels.classes,
        tokenizer=network.tokenizer,
        radii=(float(network.radii[0]), float(network.radii[1])),
        gap=float(network.gap),
    )


def _again(
    network: MemoryNetwork, head: ContextHead, keys: np.ndarray, labels: Labels, tokenizer: Tokenizer | None
) -> MemoryNetwork:
    largest = largest_norm(keys)
    errors = id_errors(head, largest)
    floor = gap_floor(errors, largest, keys.shape[1], network.readout.name, network.dtype)
    found = closest(keys.astype(np.float64), floor)
    if found.gap < floor:
        raise ToleranceNotReached(
            f"with the new sequences the smallest gap is {found.gap:.3g}, below the {floor:.3g} that exact recall "
            "needs; build the memory again with memorize, with reserve=N for N items that will be added later"
        )
    return assemble(head, keys, labels, network.readout.name, found.gap, tokenizer, errors)


def _extended(head: ContextHead, packed: Packed) -> ContextHead:
    """The head with codes for all tokens and places of `packed`."""
    tensors = {name: getattr(head, name) for name in TENSORS}
    count, longest, e = len(head.codes), head.longest, head.code_size
    rng = np.random.default_rng([count, longest, e, 1])

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.tensor(array, dtype=head.dtype)

    if not head.takes_vectors:
        flat = packed.flat()
        fresh = np.unique(flat[head.find_tokens(flat) == count]).astype(np.int64)
        if len(fresh):
            dense = not len(head.vocabulary) and fresh[0] >= 0 and fresh[-1] < 2 * count + _ROOM
            codes = tensor(token_codes(int(fresh[-1]) + 1 - count if dense else len(fresh), e, rng))
            tensors["codes"] = torch.cat([head.codes, codes])
            if not dense:
                old = head.vocabulary.numpy() if len(head.vocabulary) else np.arange(count)
                ids = np.concatenate([old, fresh])
                order = np.argsort(ids, kind="stable")
                tensors["vocabulary"] = torch.from_numpy(ids[order])
                tensors["codes"] = tensors["codes"][torch.from_numpy(order)]
    more = packed.longest - longest
    if more > 0:
        weights = place_weights(more, rng) if head.reading.positional else np.zeros(more)
        tensors["log_weights"] = torch.cat([head.log_weights, tensor(weights)])
        if len(head.place_codes):
            tensors["place_codes"] = torch.cat([head.place_codes, tensor(place_products(more, e, rng))])
    bound = tensors["codes"].abs().amax(dim=0) if count else tensor(np.abs(packed.content).max(axis=(0, 1)))
    if len(tensors["place_codes"]):
        bound = bound * tensors["place_codes"].abs().amax(dim=0)
    tensors["reach"] = torch.maximum(head.reach, bound * (1 + 4 * torch.finfo(head.dtype).eps))
    return ContextHead(head.reading, **tensors)
