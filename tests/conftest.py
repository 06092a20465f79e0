"""What all tests share.

Hypothesis draws the same examples in every run, and is never failed for being slow. Linear algebra runs in one thread:
the suite runs in as many processes as there are cores, and sums in one thread have one order, so that every run of a
test sees the same numbers. The variables are set before anything loads NumPy or torch; worker processes inherit them.
Bytecode is kept even where the environment says not to: without it every process that a test starts compiles the
library again, and every worker all the tests. The tree of commands is made once: the runner of typer makes it anew for
every call, which takes a hundred times as long as most calls. Files need not outlast a power cut: no save waits for the
disk (tests of a full disk or a killed process put their own fsync there). What is there when all tests are collected,
modules and thousands of tests, stays to the end: the garbage collector looks at none of it again.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Generator

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
for _pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_pool] = "1"

import pytest  # noqa: E402
import typer.testing  # noqa: E402
from hypothesis import settings  # noqa: E402
from typer.main import get_command  # noqa: E402

settings.register_profile("softwright", derandomize=True, deadline=None, database=None)
settings.load_profile("softwright")

typer.testing.__dict__["_get_command"] = functools.cache(get_command)
os.fsync = lambda _handle: None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(10_000, 10, 10)
