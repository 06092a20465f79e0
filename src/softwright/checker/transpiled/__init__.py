"""Transpiled networks, proved again from the file alone: `statement.prove_transpiled` is the way in."""
