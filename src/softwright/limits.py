"""How much memory a computation takes: one number, and how many rows at a time keep within it.

Evaluating, building and proving take at most `MOST_BYTES` above what they are given and what they return, whatever the
number of points and of tokens. Work is done some rows at a time, so that what exists at once is a stated part of that
number; how many rows that are follows from the bytes that one row takes. (The checker shares no code and has a limit of
its own.)
"""

from __future__ import annotations

MOST_BYTES = 1 << 30
_SHARE = 8  # several temporaries exist at a time, and whoever calls has some of his own


def rows_within(bytes_each: int, share: int = _SHARE) -> int:
    """How many rows of so many bytes fit into the part 1/`share` of the limit; at least one."""
    return max(1, MOST_BYTES // (share * max(1, bytes_each)))
