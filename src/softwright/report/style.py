"""Colours and style that all figures share: those of Okabe and Ito, which colour-blind readers tell apart."""

from __future__ import annotations

from typing import Any

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6B6B6B"
_CYCLE = (BLUE, ORANGE, GREEN, "#CC79A7", "#56B4E9", RED, "#8A7A00")
STYLE: dict[Any, Any] = {  # keys are matplotlib's, whose own type for them is private
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#444444",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}
_FORMATS = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".webp")
