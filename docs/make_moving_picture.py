"""Draw the moving picture of the README: python docs/make_moving_picture.py. An SVG that moves without a script.

A point runs along sin(3x). Beside it are the softmax weights of the four tokens of a real network at that point, and
the network's error below its proved bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

import numpy as np

import softwright as sw
from softwright.fileformat import write_atomically

PLACE = Path(__file__).resolve().parent / "images" / "moving.svg"
WIDTH, HEIGHT, TOP, LOW = 880, 270, 46, 226
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7")
SECONDS, FRAMES = 9, 60


def numbers(values: Iterable[float]) -> str:
    return ";".join(f"{value:.1f}" for value in values)


def moved(name: str, values: np.ndarray) -> str:
    """An attribute that goes through the values and back, for ever."""
    run = numbers([*values, *values[-2::-1]])
    return f'<animate attributeName="{name}" dur="{SECONDS}s" repeatCount="indefinite" values="{run}"/>'


def line(x: np.ndarray, y: np.ndarray, colour: str, width: float = 2.0) -> str:
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def words(x: float, y: float, text: str, size: int = 13, colour: str = "#333", anchor: str = "start") -> str:
    look = f'font-size="{size}" fill="{colour}" text-anchor="{anchor}"'
    return f'<text x="{x:.0f}" y="{y:.0f}" {look}>{escape(text)}</text>'


def frame(left: float, right: float, title: str) -> str:
    box = f'<rect x="{left}" y="{TOP}" width="{right - left}" height="{LOW - TOP}" fill="#fff" stroke="#d4dae0"/>'
    return box + words(left, TOP - 10, title)


def picture(built: sw.Built) -> str:
    box = built.network.box
    low, high = float(box.lower[0]), float(box.upper[0])
    grid = np.linspace(low, high, 121)
    steps = (low + high) / 2 - (high - low) / 2 * np.cos(np.linspace(0, np.pi, FRAMES))
    wanted, found = built.source(grid[:, None])[:, 0], built(grid[:, None])[:, 0]
    bound, weights = built.certificate.bound, built.attention(steps[:, None]).heads[0].weights
    parts = []

    def across(x: np.ndarray, left: float, right: float) -> np.ndarray:
        return left + (x - low) / (high - low) * (right - left)

    def upward(y: np.ndarray, most: float) -> np.ndarray:
        return (TOP + LOW) / 2 - y / most * (LOW - TOP) / 2

    left, right = 24, 304
    parts.append(frame(left, right, "the formula sin(3x), and the network on it"))
    parts.append(line(across(grid, left, right), upward(wanted, 1.15), "#bbb", 7))
    parts.append(line(across(grid, left, right), upward(found, 1.15), COLOURS[0], 2))
    here = moved("cx", across(steps, left, right)) + moved("cy", upward(built(steps[:, None])[:, 0], 1.15))
    parts.append(f'<circle r="6" fill="#d55e00">{here}</circle>')
    left, right = 332, 572
    parts.append(frame(left, right, f"softmax weights of its {weights.shape[1]} tokens"))
    wide = (right - left) / weights.shape[1]
    for j in range(weights.shape[1]):
        tall = weights[:, j] * (LOW - TOP - 8)
        bar = moved("height", tall) + moved("y", LOW - tall)
        x = left + (j + 0.18) * wide
        parts.append(f'<rect x="{x:.1f}" width="{0.64 * wide:.1f}" fill="{COLOURS[j % 4]}">{bar}</rect>')
        parts.append(words(left + (j + 0.5) * wide, LOW + 18, f"token {j + 1}", 12, "#555", "middle"))
    left, right = 600, 856
    parts.append(frame(left, right, "its error, below the proved bound"))
    for sign in (-1, 1):
        y = float(upward(np.array(sign * bound), 1.3 * bound))
        ends = f'x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"'
        parts.append(f'<line {ends} stroke="#d55e00" stroke-dasharray="6 4"/>')
    parts.append(words(right - 6, float(upward(np.array(bound), 1.3 * bound)) - 5, f"{bound:g}", 12, "#b34700", "end"))
    parts.append(line(across(grid, left, right), upward(found - wanted, 1.3 * bound), "#333", 1.6))
    error = built(steps[:, None])[:, 0] - built.source(steps[:, None])[:, 0]
    here = moved("cx", across(steps, left, right)) + moved("cy", upward(error, 1.3 * bound))
    parts.append(f'<circle r="5" fill="#d55e00">{here}</circle>')
    size = built.network.parameter_count
    said = f"One attention head, {size} numbers, nothing trained: computed weights, and a bound that holds for every x."
    parts.append(words(WIDTH / 2, HEIGHT - 8, said, 13, "#333", "middle"))
    look = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif" role="img"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {look}>'
    title = "<title>sin(3x) by one attention head of four tokens: function, weights and error as x moves</title>"
    return f'{head}{title}<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#fbfcfd"/>{"".join(parts)}</svg>\n'


def main() -> None:
    built = sw.approximate("sin(3*x)", sw.Box(x=(-1, 1)), tol=1e-6)
    write_atomically(PLACE, picture(built).encode())


if __name__ == "__main__":
    main()
