"""A calculator in attention: + - * / ^, elementary functions and comparisons, no part of it trained, each proved.

Every key is a stack of plain softmax attention without feed-forward blocks, compiled from its formula. The bound is
proved on the whole box; comparisons are proved wherever the two numbers are not closer than the gap. The page that is
written at the end runs all of them in a browser.
"""

import tempfile
from pathlib import Path

import softwright as sw
from softwright.page.calculator import write_calculator

BOX = sw.Box(x=(1, 4), y=(1, 4))
KEYS = {"+": "x + y", "-": "x - y", "*": "x*y", "/": "x/y", "^": "x**y"}
FUNCTIONS = {"sin": "sin(x)", "cos": "cos(x)", "exp": "exp(x)", "log": "log(x)", "sqrt": "sqrt(x)"}
COMPARISONS = {"<": "where(x < y, 1, 0)", ">": "where(x < y, 0, 1)"}


def pressed(formula: str, gap: float | None) -> tuple[sw.Built, str]:
    """The network of a key, and what the checker says of its file."""
    box = BOX if "y" in formula else sw.Box(x=(1, 4))
    built = sw.approximate(formula, box, tol=1e-6, strategy="compose", gap=gap)
    with tempfile.TemporaryDirectory() as folder:
        built.save(Path(folder) / "key.safetensors")
        return built, sw.verify(Path(folder) / "key.safetensors").status


calculator = {}
for key, formula in {**KEYS, **FUNCTIONS, **COMPARISONS}.items():
    built, verdict = pressed(formula, gap=1e-3 if key in COMPARISONS else None)
    given = {"x": 3.0, "y": 2.5} if "y" in formula else {"x": 3.0}
    print(f"{key:5} {built(**given).item():.6f}  within {built.certificate.bound:.1e}  {verdict}")
    calculator[key] = built

page = Path(tempfile.mkdtemp()) / "calculator.html"
write_calculator(calculator, page)
print(f"to type numbers yourself, open {page}")
