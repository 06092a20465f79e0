"""tracr's own programs, compiled by tracr: wrong tokens, sizes and seconds. Run by `sequences.py --tracr PYTHON`.

It needs an environment of its own with tracr, jax, dm-haiku, chex, einops and networkx, and imports nothing of
softwright. A token is wrong if it differs by more than 0.01 from what RASP's evaluator says; where that says None,
nothing is asked. One line of JSON for each program with the sequences that were drawn and what the evaluator says of
them, then one for each setting: the default, mlp_exactness 100, and 100,000, the best of those that its authors advise.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Any

import numpy as np
from tracr.compiler import compiling, lib  # pyright: ignore[reportMissingImports]
from tracr.rasp import rasp  # pyright: ignore[reportMissingImports]

NUMBERS, LETTERS, BRACKETS = list(range(1, 9)), list("abcdefgh"), list("(){}")
SEQUENCES = 8
EXACTNESS = (None, 100_000)
PROGRAMS: dict[str, tuple[Any, list[Any]]] = {
    "length": (lambda n: lib.make_length(), LETTERS),
    "reverse": (lambda n: lib.make_reverse(rasp.tokens), LETTERS),
    "histogram": (lambda n: lib.make_hist(), LETTERS),
    "sort": (lambda n: lib.make_sort(rasp.tokens, rasp.tokens, max_seq_len=n, min_key=1), NUMBERS),
    "sort_unique": (lambda n: lib.make_sort_unique(rasp.tokens, rasp.tokens), NUMBERS),
    "sort_by_frequency": (lambda n: lib.make_sort_freq(max_seq_len=n), LETTERS),
    "fraction_previous": (lambda n: lib.make_frac_prevs(rasp.tokens == "a"), LETTERS),
    "pair_balance": (lambda n: lib.make_pair_balance(rasp.tokens, "(", ")"), BRACKETS),
    "shuffle_dyck_1": (lambda n: lib.make_shuffle_dyck(pairs=["()"]), BRACKETS),
    "shuffle_dyck_2": (lambda n: lib.make_shuffle_dyck2(), BRACKETS),
    "count_less_frequent": (lambda n: lib.make_count_less_freq(2), LETTERS),
    "shift": (lambda n: lib.shift_by(1, rasp.tokens), LETTERS),
    "detect_pattern": (lambda n: lib.detect_pattern(rasp.tokens, "abc"), LETTERS),
    "count": (lambda n: lib.make_count(rasp.tokens, "a"), LETTERS),
}


class TooLong(Exception):
    """Raised by the timer of CPU seconds."""


def _stop(*_: Any) -> None:
    raise TooLong


def wrong(found: Any, wanted: Any) -> bool:
    if wanted is None:
        return False
    try:
        return abs(float(found) - float(wanted)) > 0.01
    except (TypeError, ValueError):
        return found != wanted


def drawn(name: str, n: int) -> list[list[Any]]:
    """Sequences of 1 to n - 1 tokens; one has abc in it where that is looked for, keys are unique if they must be."""
    vocabulary, rng = PROGRAMS[name][1], np.random.default_rng(0)
    if name == "sort_unique":
        sizes = rng.integers(1, min(n, len(vocabulary) + 1), SEQUENCES)
        return [[vocabulary[int(k)] for k in rng.permutation(len(vocabulary))[:size]] for size in sizes]
    found = [
        [vocabulary[int(k)] for k in rng.integers(0, len(vocabulary), int(rng.integers(1, n)))]
        for _ in range(SEQUENCES)
    ]
    if name == "detect_pattern":
        found[-1] = list("cabcaabc"[: n - 1])
    return found


def measure(name: str, n: int, exactness: int | None, sequences: list[list[Any]]) -> dict[str, Any]:
    make, vocabulary = PROGRAMS[name]
    started = time.process_time()
    setting = {} if exactness is None else {"mlp_exactness": exactness}
    model = compiling.compile_rasp_to_model(
        make(n), vocab=set(vocabulary), max_seq_len=n, compiler_bos="BOS", **setting
    )
    seconds, bad, total, program = time.process_time() - started, 0, 0, make(n)
    for tokens in sequences:
        found, wanted = model.apply(["BOS", *tokens]).decoded[1:], program(tokens)
        total += len(tokens)
        bad += sum(wrong(a, b) for a, b in zip(found, wanted, strict=True))
    arrays = [array for part in model.params.values() for array in part.values()]
    sizes = {"parameters": int(sum(array.size for array in arrays)), "width": len(model.residual_labels)}
    layers = model.model_config.num_layers
    return {"wrong": bad, "tokens": total, "layers": layers, **sizes, "seconds": seconds}


def plain(value: Any) -> Any:
    """As JSON has it."""
    return value if value is None or isinstance(value, str) else float(value)


def main() -> None:
    n, most = int(sys.argv[1]), float(sys.argv[2])
    signal.signal(signal.SIGPROF, _stop)
    for name in sys.argv[3:] or list(PROGRAMS):
        sequences, program = drawn(name, n), PROGRAMS[name][0](n)
        wanted = [[plain(value) for value in program(tokens)] for tokens in sequences]
        print(json.dumps({"program": name, "sequences": sequences, "wanted": wanted}), flush=True)
        for exactness in EXACTNESS:
            said: dict[str, Any] = {"program": name, "setting": "default" if exactness is None else "best"}
            signal.setitimer(signal.ITIMER_PROF, most)
            try:
                said |= measure(name, n, exactness, sequences)
            except TooLong:
                said["error"] = f"not finished in {most:g} CPU seconds"
            except Exception as error:
                said["error"] = f"{type(error).__name__}: {error}"[:120]
            signal.setitimer(signal.ITIMER_PROF, 0)
            print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
