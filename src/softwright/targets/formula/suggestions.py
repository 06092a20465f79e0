"""What somebody may have meant who wrote a name that is none: other spellings of the same thing, never another thing.

`log3` is not log, `erfinv` is not erf and `sech` is not sec: likeness of letters says nothing about functions. So a
suggestion is the same name in other letters (Sin), with a letter doubled or two letters swapped (siin, sni), or one of
the names that other languages have for exactly the same function.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Collection, Sequence

_SAME: dict[str, str] = {
    other: name
    for name, others in {
        "abs": "fabs absolute magnitude",
        "acos": "arccos arccosine acosine",
        "acosh": "arccosh arcosh",
        "asin": "arcsin arcsine asine",
        "asinh": "arcsinh arsinh",
        "atan": "arctan arctg arctangent atg",
        "atan2": "arctan2",
        "atanh": "arctanh artanh",
        "cbrt": "cuberoot cube_root",
        "ceil": "ceiling",
        "clip": "clamp",
        "cos": "cosine",
        "cot": "ctg cotan cotangent cotg",
        "csc": "cosec cosecant",
        "exp": "exponential",
        "expm1": "exp_m1",
        "gamma": "tgamma",
        "j0": "besselj0 bessel_j0",
        "j1": "besselj1 bessel_j1",
        "lgamma": "gammaln loggamma lngamma log_gamma",
        "log": "logn loge",
        "log1p": "log_1p lnp1",
        "max": "maximum fmax",
        "min": "minimum fmin",
        "normcdf": "ndtr ncdf norm_cdf",
        "normpdf": "npdf norm_pdf",
        "pow": "power",
        "relu": "ramp",
        "sec": "secant",
        "sigmoid": "expit logistic",
        "sign": "sgn signum",
        "silu": "swish",
        "sin": "sine",
        "sqrt": "squareroot sqroot square_root",
        "tan": "tg tangent",
        "tanh": "tgh",
        "where": "if_else ifelse iif ite",
    }.items()
    for other in others.split()
}
_LONGEST = 30  # letters; nobody means `sin` by a name of a thousand


def function_meant(name: str, functions: Collection[str]) -> str:
    """ " (did you mean 'sqrt'?)", or nothing."""
    if len(name) > _LONGEST:
        return ""
    lower = name.lower()
    meant = _SAME.get(lower) or (lower if lower in functions else None) or _slip(lower, functions)
    return f" (did you mean {meant!r}?)" if meant is not None else ""


def _slip(name: str, functions: Collection[str]) -> str | None:
    """The function whose name this is with one letter doubled or two neighbours swapped, if there is just one."""
    single = {name[:i] + name[i + 1 :] for i in range(1, len(name)) if name[i] == name[i - 1]}
    swapped = {name[:i] + name[i + 1] + name[i] + name[i + 2 :] for i in range(len(name) - 1)}
    found = sorted((single | swapped) & set(functions))
    return found[0] if len(found) == 1 else None


def variable_meant(name: str, variables: Sequence[str]) -> str:
    close = difflib.get_close_matches(name.lower(), variables, n=1) if len(name) <= _LONGEST else []
    return f" (did you mean {close[0]!r}?)" if close else ""


_SIGNS: dict[str, str] = {
    "\u00d7": "*",
    "\u00b7": "*",
    "\u22c5": "*",
    "\u00f7": "/",
    "\u2212": "-",
    "\u2013": "-",
    "\u2264": "<=",
    "\u2265": ">=",
    "\u00b2": "**2",
    "\u00b3": "**3",
    "\u221a": "sqrt(...)",
    "\u221e": "a finite number",
    "\u03c0": "pi",
}


def letter_meant(character: str) -> str | None:
    """What to write instead of a sign or letter beyond ASCII: pi for the Greek letter, alpha for alpha, * for a dot."""
    if character in _SIGNS:
        return _SIGNS[character]
    words = unicodedata.name(character, "").split()
    if words[:1] == ["GREEK"] and "LETTER" in words:
        spelt = words[words.index("LETTER") + 1 : words.index("LETTER") + 2]
        return "".join(spelt).lower() if "SMALL" in words else "".join(spelt).capitalize()
    return None
