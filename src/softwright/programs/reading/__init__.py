"""What the parts of a program's text mean: calls, tables, aggregates that are written out as others."""
