"""Many small matrices: one thread is faster than a pool, and much faster on a busy machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache

from threadpoolctl import ThreadpoolController

_BRING_POOLS = ("numpy", "scipy.linalg", "sklearn", "torch", "numba")  # packages with libraries that have a pool


@lru_cache(maxsize=8)
def _controller(loaded: tuple[bool, ...]) -> ThreadpoolController:
    """Finding the libraries takes milliseconds, so it is done once for those that are there."""
    return ThreadpoolController()


def one_pool_thread() -> AbstractContextManager[object]:
    """Run the linear algebra below NumPy and SciPy in one thread, and put the user's setting back."""
    return _controller(tuple(name in sys.modules for name in _BRING_POOLS)).limit(limits=1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch and the linear algebra below NumPy in one thread, and put the user's setting back."""
    with _one_torch_thread(), one_pool_thread():
        yield


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def one_thread_for(size: int, most: int) -> AbstractContextManager[None]:
    """Run torch in one thread where there is little to do, `size` of at most `most`, else as the user has set it."""
    return _one_torch_thread() if size <= most else nullcontext()
