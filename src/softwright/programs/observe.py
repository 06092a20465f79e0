"""Errors seen: the network against the program's direct meaning, on random and on adversarial sequences.

All lengths that matter (the shortest, the longest, those between), equal elements, ties, near ties at the scale of the
tolerance, extremes. A sample, never a bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from softwright.attention.program import ProgramNetwork
from softwright.programs.fields import Field, Sequence
from softwright.programs.meaning import Meaning, meaning
from softwright.programs.reference import Reference
from softwright.programs.terms import Term
from softwright.result.observed import Observed

_REFERENCE_ERROR = 2.0**-62  # of a quotient in extended precision: what is seen is no less than that
KINDS = 6  # of sequences that are drawn
_MOST_PAIRS = 40_000_000  # of tokens, in the reference, over one batch
_MOST_WEIGHTS = 24_000_000  # of all heads together, for one length: long sequences are few


def observe(network: ProgramNetwork, meaning: Meaning, tol: float, seed: int = 0, rounds: int = 1) -> Observed:
    """The largest deviation of any output over sequences of several lengths."""
    generator, tokens = np.random.default_rng(seed), meaning.tokens
    worst, count = 0.0, 0
    for place, n in enumerate(lengths_of(tokens, generator, rounds)):
        weights = max(1, network.heads) * n * (n + network.fixed_tokens)
        affordable = max(1, _MOST_WEIGHTS // weights)  # sequences
        batch = max(1, min(8, 4_000 // n, _MOST_PAIRS // (n * n), affordable // KINDS))
        kinds = [(place + k) % KINDS for k in range(min(KINDS, affordable))]
        drawn = []
        for kind, fields in zip(kinds, draws(tokens, n, batch, tol, generator, kinds), strict=True):
            keep(meaning, fields, kind, tol, generator)
            drawn.append(torch.tensor(np.stack([fields[name] for name in tokens.names], axis=-1)).to(network.dtype))
        with torch.no_grad():  # all kinds in one run: a run of few sequences takes as long as one of many
            answers = network(torch.cat(drawn)).double().split([len(x) for x in drawn])
        for x, answer in zip(drawn, answers, strict=True):
            stored = {name: x[..., k].double().numpy() for k, name in enumerate(tokens.names)}
            reference, values = Reference(tokens, stored), answer.numpy()
            with np.errstate(all="ignore"):  # where a hypothesis does not hold, there may be no value
                good = met(meaning, reference)
                wanted = [reference.of(output) for output in meaning.outputs]
            for k, meant in enumerate(wanted):
                with np.errstate(all="ignore"):
                    off = (np.abs(values[..., k] - meant) - _REFERENCE_ERROR * np.abs(meant)).clip(min=0).astype(float)
                off = np.where(np.isfinite(off), off, np.inf)
                worst = max(worst, float(np.where(good[:, None], off, 0.0).max()))
            count += int(good.sum()) * n
    return Observed(worst, (), count)


def lengths_of(tokens: Sequence, generator: np.random.Generator, rounds: int) -> list[int]:
    low, high = tokens.shortest, tokens.longest
    if high > 1024:
        return [low, high]
    more = generator.integers(low, high + 1, 2 * rounds).tolist()
    return sorted({low, min(low + 1, high), min(low + 2, high), high, max(high - 1, low), *more})


def draws(
    tokens: Sequence,
    n: int,
    batch: int,
    tol: float,
    generator: np.random.Generator,
    kinds: Iterable[int] = range(KINDS),
) -> Iterator[dict[str, np.ndarray]]:
    """Batches of fields (batch, n), one for each kind of sequence."""
    for kind in kinds:
        yield {name: _field(tokens, field, n, batch, kind, tol, generator) for name, field in tokens.fields.items()}


def _field(
    tokens: Sequence, field: Field, n: int, batch: int, kind: int, tol: float, generator: np.random.Generator
) -> np.ndarray:
    if field.kind != "real":
        codes = np.array(tokens.codes(field.name), dtype=float)
        few = generator.choice(codes, min(2, len(codes)), replace=False)
        if kind == 0:
            return generator.choice(codes, (batch, n))
        if kind == 1:
            return generator.choice(few, (batch, n))
        if kind == 2:
            return np.sort(generator.choice(codes, (batch, n)), axis=1)
        if kind == 3:
            return np.tile(generator.choice(codes, (batch, 1)), (1, n))
        if kind == 4:  # first half and its mirror: balanced, palindromic
            half = generator.choice(codes, (batch, (n + 1) // 2))
            return np.concatenate([half, half[:, : n // 2][:, ::-1]], axis=1)
        return np.resize(codes, (batch, n))
    low, high = field.low, field.high
    values = generator.uniform(low, high, (batch, n))
    if kind == 1:
        values = generator.choice([low, high, 0.5 * (low + high)], (batch, n))
    elif kind == 2:
        values = np.sort(values, axis=1)
    elif kind == 3:
        values = np.tile(values[:, :1], (1, n))
    elif kind == 4:  # near ties
        scale = tol * generator.choice([0.1, 0.5, 1.0, 3.0, 10.0, 100.0], (batch, 1))
        values = values[:, :1] - scale * generator.integers(0, 4, (batch, n))
    elif kind == 5:  # one largest, all others just below: the worst for a softmax maximum
        scale = tol * generator.choice([0.2, 0.5, 1.0, 1.5, 3.0], (batch, 1))
        values = np.where(np.arange(n) == generator.integers(0, n, (batch, 1)), high, high - scale)
    return np.clip(values, low, high)


def keep(
    meaning: Meaning, fields: dict[str, np.ndarray], kind: int, tol: float, generator: np.random.Generator
) -> None:
    """Set times that must be apart so that they are, and ask near them."""
    for term in choices_of(meaning.outputs):
        if term.op != "interp" or term.args[1].op != "field":
            continue
        (batch, n), name = fields[term.args[1].value].shape, term.args[1].value
        field, apart = meaning.tokens.fields[name], float(term.args[3].value) * (1 + 1e-9)
        slack = field.high - field.low - (n - 1) * apart
        if slack < 0:
            continue
        share = np.sort(generator.uniform(0, 1, (batch, n)), axis=1)
        if kind in (3, 5):  # all of them as near as they may be, or but for one gap
            share = np.tile(share[:, :1], (1, n)) if kind == 3 else np.round(share)
        fields[name] = np.clip(field.low + slack * share + apart * np.arange(n), field.low, field.high)
        asked = term.args[0]
        if asked.op == "field" and asked.value != name and kind in (1, 2, 4):
            near = np.take_along_axis(fields[name], generator.integers(0, n, (batch, n)), axis=1)
            by = tol * apart * 10.0 ** generator.integers(-4, 3, (batch, n)) * generator.choice([-1, 0, 1], (batch, n))
            ends = meaning.tokens.fields[asked.value]
            fields[asked.value] = np.clip(near + by, ends.low, ends.high)


def met(meaning: Meaning, reference: Reference) -> np.ndarray:
    """(B,): which sequences keep the margins that the program names."""
    good = np.ones(reference.shape[0], dtype=bool)
    for term in choices_of(meaning.outputs):
        if term.op == "interp":
            times = np.asarray(reference.of(term.args[1]))
            if times.shape[1] > 1:
                good &= np.asarray(np.diff(times, axis=1).min(axis=1), dtype=float) >= float(term.args[3].value)
            continue
        if term.op == "assume":
            values, (low, high) = np.asarray(reference.of(term.args[0])), (float(arg.value) for arg in term.args[1:])
            good &= np.asarray(((values >= low) & (values <= high)).all(axis=1))
            continue
        if term.op == "place_of":
            scores, taken = np.sort(reference.scores(term.args[0]), axis=2)[..., ::-1], len(term.args) - 2
            if scores.shape[2] > taken + 1:
                leads = np.asarray(scores[..., taken] - scores[..., taken + 1], dtype=float).min(axis=1)
                good &= leads >= float(term.args[1].value)
            continue
        if term.op == "select":
            scores = np.sort(reference.scores(term.args[1]), axis=2)
            if scores.shape[2] > 1:
                leads = np.asarray(scores[..., -1] - scores[..., -2], dtype=float).min(axis=1)
                good &= leads >= float(term.args[2].value)
            continue
        score = np.sort(np.asarray(reference.of(term.args[1])), axis=1)
        if score.shape[1] > 1:
            good &= np.asarray(score[:, -1] - score[:, -2], dtype=float) >= float(term.args[2].value)
    return good


def within(built: Any, x: np.ndarray) -> np.ndarray:
    """Of sequences (q, n, fields) those that keep the margins that the program names; its claim speaks of these. Times
    that must be apart are set apart first."""
    tokens = Sequence.rebuilt(built.target["tokens"])
    read = meaning(built.target["text"], tokens)
    if not choices_of(read.outputs):
        return x
    fields = {name: x[..., k].astype(float) for k, name in enumerate(tokens.names)}
    keep(read, fields, 0, 0.0, np.random.default_rng(len(x)))
    x = np.stack([fields[name] for name in tokens.names], axis=-1).astype(x.dtype)
    with np.errstate(all="ignore"):
        return x[met(read, Reference(tokens, {name: x[..., k].astype(float) for k, name in enumerate(tokens.names)}))]


def choices_of(outputs: list[Term]) -> list[Term]:
    """The terms that rest on a hypothesis, such as the lead of a largest score, in order."""
    found: dict[int, Term] = {}
    pending, seen = list(outputs), set()
    while pending:
        term = pending.pop()
        if term.number not in seen:
            seen.add(term.number)
            pending += term.args
            if term.op in ("choose", "select", "place_of", "interp", "assume"):
                found[term.number] = term
    return [found[number] for number in sorted(found)]
