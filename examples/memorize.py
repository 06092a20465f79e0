"""Every line of the Python standard library recalls the files it stands in. Run: python examples/memorize.py"""

import sysconfig
import tempfile
from collections import defaultdict
from pathlib import Path

import softwright as sw

folder = Path(sysconfig.get_paths()["stdlib"])
places: defaultdict[str, list[str]] = defaultdict(list)
for path in sorted(folder.glob("*.py")):
    for line in dict.fromkeys(path.read_text(encoding="utf-8", errors="replace").splitlines()):
        if line.strip():
            places[line].append(path.name)

lines = list(places)
files = [names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more" for names in places.values()]
built = sw.memorize(lines, files, tokenizer="bytes")
print(built)

found = built.network.recall(lines)
print(f"{sum(a == b for a, b in zip(found.labels, files, strict=True))} of {len(lines)} lines recalled")
for text in (
    "def heappush(heap, item):",
    "def bisect_left(a, x, lo=0, hi=None, *, key=None):",
    "import os",
    "no such line",
):
    answer = built.network.recall(text, unknown="abstain")
    print(f"{text!r}: {answer.labels[0]}, distance {answer.distance[0]:.2g}")

with tempfile.TemporaryDirectory() as place:
    built.save(Path(place) / "stdlib.safetensors")
    print(sw.verify(Path(place) / "stdlib.safetensors"))
