"""LAPACK's routines for small matrices, called directly and found without the rest of SciPy.

The searches factorise thousands of matrices of about 120 x 10, where the checks of a public function cost more than the
work. SciPy holds these routines in one compiled module, `scipy.linalg._flapack`. Its package loads ten times as much
around them and takes longer to start than a small network takes to build, so the module is loaded by its place. A SciPy
that has none there is asked by its public function for the same routines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

import numpy as np

_PATIENCE = "OPENBLAS_THREAD_TIMEOUT"  # read when the library is loaded
_ROUTINES = ("dgeqrf", "dorgqr", "dtrtrs", "dgesdd", "dgesdd_lwork")


@contextmanager
def _asleep_at_once() -> Iterator[None]:
    """Threads of an OpenBLAS that is loaded here sleep soon after their work, as long as nobody has said otherwise: by
    default they spin for 2^26 ticks, from the start on, which is a tenth of the time of the first small network."""
    if _PATIENCE in os.environ:
        yield
        return
    os.environ[_PATIENCE] = "20"  # the logarithm of ticks: less than a millisecond
    try:
        yield
    finally:
        os.environ.pop(_PATIENCE, None)


def _by_place() -> tuple[Any, ...] | None:
    package = find_spec("scipy")
    if package is None or not package.submodule_search_locations:
        return None
    found = PathFinder.find_spec("_flapack", [str(Path(package.submodule_search_locations[0]) / "linalg")])
    if found is None or found.loader is None:
        return None
    try:
        with _asleep_at_once():
            module = module_from_spec(found)
            found.loader.exec_module(module)
        return tuple(getattr(module, name) for name in _ROUTINES)
    except (ImportError, AttributeError):
        return None


def _by_name() -> tuple[Any, ...]:
    from scipy.linalg import get_lapack_funcs

    return tuple(get_lapack_funcs([name[1:] for name in _ROUTINES], dtype=np.float64))


dgeqrf, dorgqr, dtrtrs, dgesdd, dgesdd_lwork = _by_place() or _by_name()


def svd(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U (n, r), the singular values (r,) and V^T (r, p) of A (n, p), r = min(n, p)."""
    work, info = dgesdd_lwork(*A.shape, compute_uv=1, full_matrices=0)
    if info == 0:
        U, s, Vt, info = dgesdd(A, compute_uv=1, lwork=int(work.real), full_matrices=0)
        if info == 0:
            return U, s, Vt
    raise np.linalg.LinAlgError("SVD did not converge")


try:  # NumPy's own loops over stacks of matrices, without the checks around them
    from numpy.linalg import _umath_linalg as _loops

    _solve, _raw, _reduced = _loops.solve, _loops.qr_r_raw, _loops.qr_reduced
except (ImportError, AttributeError):  # names of NumPy's that are not promised
    _solve = _raw = _reduced = None


@lru_cache(maxsize=256)
def _upper(size: int) -> np.ndarray:
    return np.tri(size, dtype=bool).T


def solve_stack(matrices: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solutions (S, p, q), the bits of `np.linalg.solve`; NaN for matrices that are singular."""
    if _solve is not None:
        with np.errstate(all="ignore"):  # LAPACK's word for a singular matrix is NaN
            return _solve(matrices, right, signature="dd->d")
    try:
        return np.linalg.solve(matrices, right)
    except np.linalg.LinAlgError:
        if len(matrices) == 1:
            return np.full_like(right, np.nan)
        return np.concatenate([solve_stack(matrices[i : i + 1], right[i : i + 1]) for i in range(len(matrices))])


def qr_stack(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Q (S, n, p) and R (S, p, p) of matrices (S, n, p), n >= p: the bits of `np.linalg.qr`."""
    if _raw is None or _reduced is None:
        return np.linalg.qr(A)
    A, p = A.copy(), A.shape[2]
    with np.errstate(all="ignore"):
        Q = _reduced(A, _raw(A, signature="d->d"), signature="dd->d")
    return Q, np.where(_upper(p), A[:, :p], 0.0)
