"""What all figures share: colours, style, and the way to the file.

Colours are those of Okabe and Ito, which colour-blind readers tell apart. Matplotlib is imported when a figure is asked
for, and only its object interface is used: no global state, no window.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softwright.errors import InvalidInput
from softwright.fileformat import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6B6B6B"
CYCLE = (BLUE, ORANGE, GREEN, "#CC79A7", "#56B4E9", RED, "#8A7A00")
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


def check_figure(path: str | Path | None = None) -> None:
    """Raise unless figures can be drawn, and written under this name."""
    if find_spec("matplotlib") is None:
        raise InvalidInput("plot", ["matplotlib is missing; install it with: pip install 'softwright[plot]'"])
    if path is not None and Path(path).suffix.lower() not in _FORMATS:
        raise InvalidInput("plot", [f"{path}: figures are written as {', '.join(_FORMATS)}; change the ending"])


@contextmanager
def figure(path: str | Path | None, size: tuple[float, float], title: str = "") -> Iterator[Figure]:
    """An empty figure in our style, to be drawn into; written to `path`, if given, when the block ends."""
    check_figure(path)
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        drawn = Figure(figsize=size, layout="constrained", dpi=120)
        if title:
            drawn.suptitle(title.replace("$", r"\$"), x=0.01, ha="left", fontsize=10.5)
        yield drawn
        if path is not None:
            ending = Path(path).suffix.lower().removeprefix(".")
            write_atomically(path, lambda stream: drawn.savefig(stream, format=ending))
