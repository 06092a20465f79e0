"""A page that calculates: a key per formula of two numbers, and what its stack of attention answers.

    write_calculator({"+": sum_of_two, "sqrt": root}, "calculator.html")

Every key is a formula compiled into a stack (`strategy="compose"`), or into one layer of heads. The page evaluates the
networks and the formulas they were compiled from, and says what is proved where the numbers stand: nothing outside of
the box, and nothing where a comparison is closer than its gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softwright.errors import Faults
from softwright.fileformat import write_atomically
from softwright.page import approximation, composition
from softwright.page.content import Content
from softwright.page.explored import explored
from softwright.page.formula import tape_of_text
from softwright.page.write import document
from softwright.precision import name_of

if TYPE_CHECKING:
    from softwright.result.built import Built

_TITLE = "a calculator in attention"
_WEIGHTS = {"composition": composition.weights, "approximation": approximation.weights}  # kinds that a key may have
_TYPED = (("x",), ("x", "y"))  # the numbers that a key takes


def calculator(keys: Mapping[str, Built[Any]]) -> str:
    """The page; its keys stand in the order given."""
    faults = Faults("calculator")
    faults.check(bool(keys), "there is no key; give at least one")
    entries = [entry for key, built in keys.items() if (entry := _entry(key, built, faults)) is not None]
    faults.raise_if_any()
    largest = max(float(entry["bound"]) for entry in entries)
    content = Content(
        title=_TITLE,
        headline=f"{len(entries)} keys, each compiled from its formula into softmax attention, without training",
        fragments=("calculator.html",),
        scripts=("formula.js", "layer.js", "stack.js", "calculator.js"),
        data={"float32": False, "keys": entries},
    )
    return document(content, f"proved ≤ {largest:.4g}", True, [_bounds(keys)])


def write_calculator(keys: Mapping[str, Built[Any]], path: str | Path) -> None:
    """Write the page; it appears under its name when it is complete."""
    write_atomically(path, calculator(keys).encode())


def _entry(key: str, built: Built[Any], faults: Faults) -> dict[str, Any] | None:
    """What the script reads of a key; None with a fault for what the page cannot run or nothing is proved of."""
    network, proved = built.network, built.certificate
    if built.kind not in _WEIGHTS or name_of(network.dtype) != "float64":
        return faults.add(f"key {key!r} is no formula in float64; build it with approximate")
    if network.outputs != 1 or network.box.names not in _TYPED:
        return faults.add(f"key {key!r} must be one formula of x, or of x and y")
    if proved is None or proved.norm != "sup":
        return faults.add(f"nothing is proved of key {key!r} at single points; build it with proof and norm='sup'")
    shown = explored(built, network.box, 1)
    exact = (shown["target"] or {}).get("tape")
    outside = _outside(proved)
    bands = [tape_of_text(text, network.box.names) for text in outside["of"]]
    if exact is None or None in bands:
        return faults.add(f"pages have no rule for the formula of key {key!r}; write it with the functions of formulas")
    return {
        "key": key,
        "formula": str(built.target.get("text", key)),
        **{name: shown[name] for name in ("names", "sides", "outputs", "bound")},
        "gap": outside["gap"],
        "bands": bands,
        "exact": exact,
        **_WEIGHTS[built.kind](network),
    }


def _outside(proved: Any) -> dict[str, Any]:
    """The differences that must not be within the gap of 0; none where the claim holds on the whole box."""
    return {"gap": 0.0, "of": [], **getattr(proved, "outside", {})}


def _bounds(keys: Mapping[str, Built[Any]]) -> str:
    """The table of what is proved, readable without the script."""
    heads = ("key", "formula", "set", "proved", "layers", "heads", "tokens")
    rows = []
    for key, built in keys.items():
        network, proved = built.network, built.certificate
        sides = ", ".join(f"{name} in [{low:g}, {high:g}]" for name, low, high in network.box)
        outside = _outside(proved)
        if outside["of"]:
            sides += f", {', '.join(outside['of'])} not within {outside['gap']:g} of 0"
        layers, count = (network.depth, network.heads) if built.kind == "composition" else (1, len(network.heads()))
        size = (str(layers), str(count), str(network.tokens))
        rows.append((key, str(built.target.get("text", key)), sides, f"{proved.bound:.3g}", *size))
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    told = "The bounds cover this page's runs if the browser's exp is off by at most 4 ulp."
    return f'<section class="wide"><h2>what is proved</h2>{table}<p class="soft">{escape(told)}</p></section>'
