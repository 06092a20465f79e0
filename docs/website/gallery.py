"""The gallery: the page of one network of every kind, and a page for every model of the zoo.

Pages of the zoo are made from the stored files, so nothing is built here but the few networks of other kinds. The small
curve beside a function is the network itself along its first variable, through the centre of its box.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch

import softwright as sw
from softwright.page.write import html_of

_WIDTH, _HEIGHT, _POINTS = 120, 44, 61
BOX = sw.Box(x=(-1, 1), y=(-2, 2))


def _mlp() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.GELU(), torch.nn.Linear(8, 1)).double().eval()


TEXTS = ["the cat sees a bird", "a bird sees the cat", "the small dog", "the large red bird", "a dog and a cat"]
TOKENS = sw.Sequence(length=(1, 24), s=sw.Symbols("abcd"))
KINDS: dict[str, tuple[str, Callable[[], sw.Built[Any]]]] = {
    "one head for a formula": (
        "wave",
        lambda: sw.approximate("sin(3*x) * exp(-y**2)", BOX, tol=1e-6, strategy="layer"),
    ),
    "a stack for a formula": (
        "stack",
        lambda: sw.approximate("sin(3*x)*exp(-y**2) + max(x*y, 0.1)", BOX, tol=1e-5, strategy="compose"),
    ),
    "a memory of texts": ("memory", lambda: sw.memorize(TEXTS, ["animal", "animal", "size", "colour", "pair"])),
    "an MLP as attention": ("transpiled", lambda: sw.transpile(_mlp(), box=(-1, 1))),
    "ridge regression in context": ("in-context", lambda: sw.in_context("ridge", features=1, penalty=0.1)),
    "a program over sequences": ("program", lambda: sw.compile("count(s[j] == s[i])", TOKENS)),
    "a theorem's own network": ("theorem", lambda: sw.theorem("A1").build(points=12, tokens=3, dim=2)),
}


def write_gallery(folder: Path, groups: list[str] | None = None) -> tuple[str, list[tuple[str, str, str]]]:
    """Write the pages of networks into `folder`/gallery; the page that shows them, and its sections for the search.
    `groups` of the zoo: all unless named."""
    place = folder / "gallery"
    place.mkdir(parents=True, exist_ok=True)
    cards = []
    for title, (name, make) in KINDS.items():
        (place / f"{name}.html").write_text(html_of(make()), encoding="utf-8")
        cards.append(_card(f"gallery/{name}.html", title, ""))
    parts = [
        "<h1>Gallery</h1><p>Every card opens the page of a network: one file that evaluates the network in the "
        "browser: move the pointer, drag a slider, type a sequence.</p>",
        '<iframe src="gallery/wave.html" title="page of sin(3*x) * exp(-y**2)" loading="lazy"></iframe>',
        f'<h2 id="kinds">One of every kind</h2><ul class="cards">{"".join(cards)}</ul>',
    ]
    sections = [("kinds", "Gallery", " ".join(KINDS))]
    for group in sw.zoo.groups() if groups is None else groups:
        anchor, cards, said = f"zoo-{group.replace(' ', '-')}", [], []
        for name in sw.zoo.names(group):
            built, recipe = sw.zoo.load(name), sw.zoo.recipe(name)
            file = f"{name}.safetensors"
            (place / f"zoo-{name}.html").write_text(html_of(built, file=file), encoding="utf-8")
            cards.append(_card(f"gallery/zoo-{name}.html", name, recipe.says or recipe.what, _curve(built)))
            said.append(f"{name} {recipe.says}")
        parts.append(f'<h2 id="{anchor}">The zoo: {escape(group)}</h2><ul class="cards">{"".join(cards)}</ul>')
        sections.append((anchor, f"The zoo: {group}", " ".join(said)))
    return "\n".join(parts), sections


def _card(address: str, title: str, said: str, picture: str = "") -> str:
    return f'<li><a href="{escape(address)}">{picture}<b>{escape(title)}</b> <span>{escape(said)}</span></a></li>'


def _curve(built: sw.Built[Any]) -> str:
    """The network along its first variable, as a small picture; nothing for networks of other inputs."""
    box = getattr(built.network, "box", None)
    if not isinstance(box, sw.Box):
        return ""
    points = np.repeat(np.array([box.center], dtype=float), _POINTS, axis=0)
    points[:, 0] = np.linspace(box.lower[0], box.upper[0], _POINTS)
    values = np.asarray(built(points), dtype=float)[:, 0]
    low, high = float(values.min()), float(values.max())
    heights = (_HEIGHT - 4) * (1 - (values - low) / (high - low or 1.0)) + 2
    path = " ".join(f"{x:.0f},{y:.1f}" for x, y in _pairs(heights))
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" aria-hidden="true"><polyline points="{path}"/></svg>'


def _pairs(heights: np.ndarray) -> Iterator[tuple[float, float]]:
    return zip(np.linspace(2, _WIDTH - 2, len(heights)), heights, strict=True)
