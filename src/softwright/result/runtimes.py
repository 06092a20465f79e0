"""Which runs a certificate covers, and which not: the last lines of its small print, in words for people.

What is proved is what torch's CPU kernels compute when a network is called: the order of operations counted in the
rounding bounds is theirs, and how exact their exp is, is assumed. Settings that could change what they compute are
switched off inside every network (`settings`). A program that computes the same formula otherwise may well
keep the bound; nothing is proved of it. The checker writes these lines again by itself.
"""

from __future__ import annotations

from softwright.precision import PRECISIONS, computing_in
from softwright.result.statement import EXACT_ARITHMETIC

_ELSEWHERE = {  # what other programs do to numbers of the type, and thereby to the bound
    "float64": "not runtimes that compute float64 in float32, as OpenVINO does",
    "float32": "not runtimes that multiply float32 numbers in TF32 or bfloat16",
}


def runtimes_of(dtype: str, assumptions: tuple[str, ...], engine: str = "") -> tuple[str, ...]:
    """The lines for a certificate about runs in this type; none where it is about real arithmetic."""
    if dtype not in PRECISIONS or EXACT_ARITHMETIC in assumptions:
        return ()
    inside = computing_in(dtype, engine).name
    once = "" if inside == dtype else f" on {dtype} numbers, rounded once"
    return (
        f"torch's CPU kernels in {inside}{once}, eager, any number of threads",
        "whatever autocast, default dtype and float32 matmul precision are outside the network",
        "not compiled graphs or other devices",
        _ELSEWHERE[inside],
    )
