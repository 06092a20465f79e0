"""tracr's own programs, compiled by tracr: wrong tokens, sizes and seconds. Run by `sequences.py --tracr PYTHON`.

It needs an environment of its own with tracr, jax, dm-haiku, chex, einops and networkx, and imports nothing of
softwright. A token is wrong if it differs by more than 0.01 from what RASP's evaluator says. One line of JSON for each
program, length and setting: its default, mlp_exactness 100, and 100,000, the best of those that its authors advise.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
from tracr.compiler import compiling, lib  # pyright: ignore[reportMissingImports]
from tracr.rasp import rasp  # pyright: ignore[reportMissingImports]

NUMBERS, LETTERS, BRACKETS = list(range(1, 9)), list("abcdefgh"), list("(){}")
SEQUENCES = 8
PROGRAMS: dict[str, tuple[Any, list[Any]]] = {
    "length": (lambda n: lib.make_length(), LETTERS),
    "reverse": (lambda n: lib.make_reverse(rasp.tokens), LETTERS),
    "histogram": (lambda n: lib.make_hist(), LETTERS),
    "sort": (lambda n: lib.make_sort(rasp.tokens, rasp.tokens, max_seq_len=n, min_key=1), NUMBERS),
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


def wrong(found: Any, wanted: Any) -> bool:
    if wanted is None:
        return False
    try:
        return abs(float(found) - float(wanted)) > 0.01
    except (TypeError, ValueError):
        return found != wanted


def measure(name: str, n: int, exactness: int | None) -> dict[str, Any]:
    make, vocabulary = PROGRAMS[name]
    rng, started = np.random.default_rng(0), time.process_time()
    setting = {} if exactness is None else {"mlp_exactness": exactness}
    model = compiling.compile_rasp_to_model(
        make(n), vocab=set(vocabulary), max_seq_len=n, compiler_bos="BOS", **setting
    )
    seconds, bad, total, program = time.process_time() - started, 0, 0, make(n)
    for _ in range(SEQUENCES):
        tokens = [vocabulary[int(k)] for k in rng.integers(0, len(vocabulary), int(rng.integers(1, n)))]
        found, wanted = model.apply(["BOS", *tokens]).decoded[1:], program(tokens)
        total += len(tokens)
        bad += sum(wrong(a, b) for a, b in zip(found, wanted, strict=True))
    arrays = [array for part in model.params.values() for array in part.values()]
    sizes = {"parameters": int(sum(array.size for array in arrays)), "width": len(model.residual_labels)}
    layers = model.model_config.num_layers
    return {"program": name, "n": n, "wrong": bad, "tokens": total, "layers": layers, **sizes, "seconds": seconds}


def main() -> None:
    names = sys.argv[2:] or list(PROGRAMS)
    for name in names:
        for exactness in (None, 100_000):
            said: dict[str, Any] = {"setting": "default" if exactness is None else f"exactness {exactness}"}
            try:
                said |= measure(name, int(sys.argv[1]), exactness)
            except Exception as error:
                said |= {"program": name, "n": int(sys.argv[1]), "error": f"{type(error).__name__}: {error}"[:120]}
            print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
