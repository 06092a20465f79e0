"""References here are balls of 200 bits; python-flint's precision is global, so every test sets it and puts it back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flint import ctx


@pytest.fixture(autouse=True)
def ample_precision() -> Iterator[None]:
    before = ctx.prec
    ctx.prec = 200
    yield
    ctx.prec = before
