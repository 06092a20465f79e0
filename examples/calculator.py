"""A calculator in attention: + - * / ^, elementary functions and comparisons, no part of it trained, each proved.

Every key is a stack of plain softmax attention without feed-forward blocks, compiled from its formula. The bound is
proved on the whole box; comparisons are proved wherever the two numbers are not closer than the gap.
"""

import tempfile
from pathlib import Path

import softwright as sw

BOX = sw.Box(x=(1, 4), y=(1, 4))
KEYS = {"+": "x + y", "-": "x - y", "*": "x*y", "/": "x/y", "^": "x**y"}
FUNCTIONS = {"sin": "sin(x)", "exp": "exp(x)", "log": "log(x)", "sqrt": "sqrt(x)"}


def pressed(formula: str, gap: float = 0.0) -> tuple[sw.Built, str]:
    """The network of a key, and what the checker says of its file."""
    box = BOX if "y" in formula else sw.Box(x=(1, 4))
    built = sw.approximate(formula, box, tol=1e-6, strategy="compose", gap=gap or None)
    with tempfile.TemporaryDirectory() as folder:
        built.save(Path(folder) / "key.safetensors")
        return built, sw.verify(Path(folder) / "key.safetensors").status


for key, formula in {**KEYS, **FUNCTIONS}.items():
    built, verdict = pressed(formula)
    given = {"x": 3.0, "y": 2.5} if "y" in formula else {"x": 3.0}
    print(f"{key:5} {built(**given).item():.6f}  within {built.certificate.bound:.1e}  {verdict}")

larger, verdict = pressed("where(x < y, 0, 1)", gap=1e-3)
print(f">     {larger(x=3.0, y=2.5).item():.6f} at (3, 2.5), {larger(x=2.5, y=3.0).item():.6f} at (2.5, 3)  {verdict}")
