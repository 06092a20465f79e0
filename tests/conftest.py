"""What all tests share: hypothesis draws the same examples in every run, and is never failed for being slow."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("softwright", derandomize=True, deadline=None, database=None)
settings.load_profile("softwright")
