"""A table becomes a network that meets it at its points. Run: python examples/table_from_csv.py"""

from pathlib import Path
from tempfile import TemporaryDirectory

import softwright as sw

# The period of a pendulum for 15 angles and 6 lengths.
source = Path(__file__).with_name("pendulum.csv")
table = sw.Table.load(source, inputs=["angle_deg", "length_m"], outputs=["period_s"])
print(table)

built = sw.approximate(table, tol=1e-3)
print(built)

# Between the points of a table nothing is known, so nothing is claimed; the network is smooth there.
print("period at 45 degrees, 0.9 m:", float(built(angle_deg=45.0, length_m=0.9)[0]), "s")

with TemporaryDirectory() as folder:
    path = Path(folder) / "pendulum.safetensors"
    built.save(path)
    again = sw.load(path)
    print("the same after saving and loading:", bool((again(table.points) == built(table.points)).all()))
