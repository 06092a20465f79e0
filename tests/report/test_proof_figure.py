"""The figure of a proof: it is drawn for what can be drawn, and says why not for the rest."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from softwright.attention import AttentionNetwork, Head
from softwright.domain import Box
from softwright.errors import InvalidInput
from softwright.report.proof_figure import proof_figure
from softwright.result.certificate import Certificate, Part, sum_rounded_up
from softwright.targets import Expression

pytest.importorskip("matplotlib")


def certificate(box: Box, text: str, tree: Any, leaves: int, exact: float = 1.0) -> Certificate:
    return Certificate(
        norm="sup",
        bound=sum_rounded_up(exact, 1e-9),
        exact_part=exact,
        rounding_part=1e-9,
        domain={name: (low, high) for name, low, high in box},
        dtype="float64",
        engine="sdpa",
        method="taylor",
        order=10,
        boxes=leaves,
        tree=tree,
        weights_sha256="0" * 64,
        target={"kind": "expression", "text": text, "variables": list(box.names)},
        version="0.1.0",
        seconds=0.1,
    )


def built(box: Box, text: str, tree: bytes) -> Any:
    """What the figure needs of a `Built`."""
    head = Head(np.ones((2, box.dim)), np.zeros(2), np.ones((2, 1)))
    source = Expression(text, list(box.names))
    stated = certificate(box, text, tree, tree.count(255), exact=2.0)
    return SimpleNamespace(network=AttentionNetwork([head], box), source=source, certificate=stated)


@pytest.mark.parametrize(("names", "tree"), [("x", [0, 0, 255, 255, 255]), ("xy", [0, 1, 255, 255, 255])])
def test_boxes_and_error(names: str, tree: list[int], tmp_path: Path) -> None:
    box = Box(dict.fromkeys(names, (-1.0, 1.0)))
    figure = proof_figure(built(box, "sin(3*x)", bytes(tree)), tmp_path / "proof.png")
    assert (tmp_path / "proof.png").stat().st_size > 5_000
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert any("Boxes" in title for title in titles)
    assert any("error" in title for title in titles)


def test_a_certificate_alone_shows_the_boxes() -> None:
    figure = proof_figure(certificate(Box(x=(0.0, 1.0)), "x", bytes([0, 255, 255]), 2))
    assert len(figure.axes) == 2  # boxes and their colour bar


def test_parts() -> None:
    parts = (
        Part(("x",), (0,), (0,), 0.4, 1e-10, bytes([0, 255, 255]), (0.0,)),
        Part(("y", "z"), (1,), (1,), 0.4, 1e-10, bytes([1, 255, 255]), (0.0,)),
    )
    box = Box(x=(0.0, 1.0), y=(0.0, 1.0), z=(0.0, 1.0))
    figure = proof_figure(certificate(box, "x + y*z", parts, 4))
    assert len(figure.axes) == 4


def test_what_cannot_be_drawn_says_why() -> None:
    box = Box(x=(0.0, 1.0), y=(0.0, 1.0), z=(0.0, 1.0))
    with pytest.raises(InvalidInput, match="3 variables"):
        proof_figure(certificate(box, "x", bytes([0, 255, 255]), 2))
    with pytest.raises(InvalidInput, match="no boxes"):
        proof_figure(certificate(box, "x", None, 0))
    nothing: Any = SimpleNamespace(certificate=None)
    with pytest.raises(InvalidInput, match="certify"):
        proof_figure(nothing)
