"""One softmax head against its peers: tokens, parameters, error and seconds, all measured in this run.

    python benchmarks/approximate.py                  every row, Adam gets 60 s a row
    python benchmarks/approximate.py --quick          Adam gets 3 s a row
    python benchmarks/approximate.py --rows "sin;Franke" --adam-seconds 0 --out table.md
    python benchmarks/approximate.py --choice         one layer beside the default choice alone, no peers

Peers, for the same target and box:

    Chebyshev   the smallest tensor product of Chebyshev polynomials that meets the tolerance: degrees are searched for
                every axis, the better of truncated series and interpolant counts; the number is its coefficients
    AAA         rational approximation in one variable (scipy.interpolate.AAA): support points needed, three numbers
                each
    cells       the papers' nearest-cell head: its error with as many tokens, and the tokens that its first order
                predicts for the tolerance
    Adam        a head of the same shape (as many tokens, values affine or constant) trained for the seconds given
    RBF         scipy.interpolate.RBFInterpolator with as many centres as the head has parameters, best of several
                kernels

Errors are sup errors on 100,000 random points that no method saw (fewer for peers that are slow to evaluate).
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from pathlib import Path

import numpy as np
import torch
from numpy.polynomial import chebyshev
from scipy.fft import dctn
from scipy.interpolate import AAA, RBFInterpolator
from scipy.stats import qmc

import softwright as sw
from softwright.approximation.problem import Problem
from softwright.approximation.strategies.cells import cell_head
from softwright.fileformat import write_atomically

FRESH_SEED = 31_415_926
SHARE_OF_CHEBYSHEV = 0.75
MOST_COEFFICIENTS = 3_000_000
MOST_DEGREE = {1: 4096, 2: 400, 3: 60}

Values = Callable[[np.ndarray], np.ndarray]  # unit-frame points (n, d) -> (n,)


@dataclass(frozen=True)
class Row:
    """A target, and what is promised for it."""

    name: str
    text: str
    box: sw.Box
    tol: float
    most_tokens: int
    seconds: float = 5.0
    relative: bool = False
    smooth: bool = True


_FRANKE = (
    "0.75*exp(-((9*x-2)**2 + (9*y-2)**2)/4) + 0.75*exp(-(9*x+1)**2/49 - (9*y+1)/10)"
    " + 0.5*exp(-((9*x-7)**2 + (9*y-3)**2)/4) - 0.2*exp(-(9*x-4)**2 - (9*y-7)**2)"
)
_LINE, _SQUARE = sw.Box(x=(-1, 1)), sw.Box(x=(-1, 1), y=(-1, 1))
_UNIT, _TALL = sw.Box(x=(0, 1), y=(0, 1)), sw.Box(x=(-1, 1), y=(-2, 2))
_CUBE = sw.Box(x=(-1, 1), y=(-1, 1), z=(-1, 1))
_FIVE = sw.Box.from_bounds(np.zeros(5), np.ones(5))
_ANGLES = sw.Box.from_bounds(np.full(3, -np.pi), np.full(3, np.pi))

ROWS = [
    Row("sin(3x)", "sin(3*x)", _LINE, 1e-6, 6),
    Row("sin(3x)", "sin(3*x)", _LINE, 1e-10, 8),
    Row("exp(x)", "exp(x)", _LINE, 1e-6, 4),
    Row("exp(x)", "exp(x)", _LINE, 1e-10, 10),
    Row("1/(1+25x^2)", "1/(1 + 25*x**2)", _LINE, 1e-4, 8),
    Row("1/(1+25x^2)", "1/(1 + 25*x**2)", _LINE, 1e-8, 40),
    Row("sin(20x)", "sin(20*x)", _LINE, 1e-6, 18),
    Row("abs(x)", "abs(x)", _LINE, 1e-9, 4, smooth=False),
    Row("max(x,0)", "max(x, 0)", _LINE, 1e-9, 4, smooth=False),
    Row("min(max(x,-0.3),0.4)", "min(max(x, -0.3), 0.4)", _LINE, 1e-9, 4, smooth=False),
    Row("abs(sin(5x))", "abs(sin(5*x))", _LINE, 1e-6, 40, smooth=False),
    Row("Franke", _FRANKE, _UNIT, 1e-3, 70),
    Row("Franke", _FRANKE, _UNIT, 1e-6, 200, seconds=15.0),
    Row("Franke", _FRANKE, _UNIT, 1e-9, 700, seconds=15.0),
    Row("sin(3x)exp(-y^2)", "sin(3*x)*exp(-y**2)", _TALL, 1e-6, 45),
    Row("1/(1+x^2+y^2+z^2)", "1/(1 + x**2 + y**2 + z**2)", _CUBE, 1e-6, 2000),
    Row("max(abs(x-y),0.2)", "max(abs(x - y), 0.2)", _SQUARE, 1e-6, 16, smooth=False),
    Row("Friedman-1", "10*sin(pi*x1*x2) + 20*(x3 - 0.5)**2 + 10*x4 + 5*x5", _FIVE, 1e-4, 100_000, relative=True),
    Row("Ishigami", "sin(x1) + 7*sin(x2)**2 + 0.1*x3**4*sin(x1)", _ANGLES, 1e-4, 100_000, relative=True),
]


# ---- tensor Chebyshev ------------------------------------------------------------------------------------------------


def chebyshev_coefficients(f: Values, sizes: Sequence[int]) -> np.ndarray:
    """Coefficients (n_1, ..., n_d) of the interpolant at Chebyshev points of the first kind (a cosine transform)."""
    nodes = [np.cos(np.pi * (np.arange(n) + 0.5) / n) for n in sizes]
    mesh = np.meshgrid(*nodes, indexing="ij")
    values = f(np.stack([grid.ravel() for grid in mesh], axis=1)).reshape(tuple(sizes))
    coefficients = np.asarray(dctn(values, type=2)) / float(np.prod(sizes))
    for axis in range(len(sizes)):  # the constant of each axis counts half
        first = tuple(slice(0, 1) if i == axis else slice(None) for i in range(len(sizes)))
        coefficients[first] *= 0.5
    return coefficients


def resolved_sizes(f: Values, dim: int, tolerance: float) -> list[int] | None:
    """Per axis, how many coefficients resolve every sampled slice far below the tolerance; None if too many."""
    rng = np.random.default_rng(0)
    through = np.vstack([rng.uniform(-1, 1, (12, dim)), np.sign(rng.uniform(-1, 1, (6, dim))), np.zeros((1, dim))])
    sizes = []
    for axis in range(dim):
        size = 8
        while True:
            nodes = np.cos(np.pi * (np.arange(size) + 0.5) / size)
            points = np.repeat(through[None], size, axis=0)
            points[:, :, axis] = nodes[:, None]
            slices = f(points.reshape(-1, dim)).reshape(size, -1)
            coefficients = np.abs(np.asarray(dctn(slices, type=2, axes=[0]))) / size
            tail = coefficients[::-1].max(axis=1).cumsum()[::-1]
            if tail[3 * size // 4] <= 0.02 * tolerance:
                sizes.append(int(np.flatnonzero(tail > 0.02 * tolerance)[-1]) + 2 if tail[0] > 0.02 * tolerance else 1)
                break
            size *= 2
            if size > MOST_DEGREE.get(dim, 40):
                return None
    return sizes if math.prod(sizes) <= MOST_COEFFICIENTS else None


class ChebyshevSearch:
    """Sup errors of tensor Chebyshev approximations on a check grid, by sizes, and the cheapest sizes that suffice."""

    def __init__(self, f: Values, dim: int, sizes: list[int], tolerance: float) -> None:
        self.f, self.dim, self.sizes, self.tolerance = f, dim, sizes, tolerance
        count = {1: 6007, 2: 191, 3: 43}.get(dim, 0)
        self.nodes = [np.linspace(-1, 1, count or 2 * n + 3) for n in sizes]
        mesh = np.meshgrid(*self.nodes, indexing="ij")
        self.wanted = f(np.stack([g.ravel() for g in mesh], axis=1)).reshape([len(n) for n in self.nodes])
        self.series = chebyshev_coefficients(f, [2 * n for n in sizes] if dim < 4 else sizes)
        self.known: dict[tuple[int, ...], float] = {}

    def _error_of(self, coefficients: np.ndarray) -> float:
        values = coefficients
        for axis, n in enumerate(coefficients.shape):
            basis = chebyshev.chebvander(self.nodes[axis], n - 1)
            values = np.moveaxis(np.tensordot(basis, values, axes=(1, axis)), 0, axis)
        return float(np.abs(values - self.wanted).max())

    def truncated(self, sizes: tuple[int, ...]) -> np.ndarray:
        return self.series[tuple(slice(0, n) for n in sizes)]

    def good(self, sizes: tuple[int, ...]) -> bool:
        """Whether the truncated series of these sizes or, where that is close, the interpolant meets the tolerance."""
        if sizes not in self.known:
            error = self._error_of(self.truncated(sizes))
            if self.tolerance < error <= 4 * self.tolerance:
                error = min(error, self._error_of(chebyshev_coefficients(self.f, sizes)))
            self.known[sizes] = error
        return self.known[sizes] <= self.tolerance

    def _smallest_last(self, front: tuple[int, ...], most: int) -> int | None:
        """The smallest size of the last axis, up to `most`, given those before it."""
        if most < 1 or not self.good((*front, most)):
            return None
        low, high = 0, most
        while high - low > 1:
            middle = (low + high) // 2
            if self.good((*front, middle)):
                high = middle
            else:
                low = middle
        while high > 1 and self.good((*front, high - 1)):  # odd and even sizes differ: bisection may stop one short
            high -= 1
        return high

    def cheapest(self) -> tuple[int, ...] | None:
        if self.dim <= 3:
            best: tuple[int, ...] | None = None
            for front in product(*[range(1, n + 1) for n in self.sizes[:-1]]):
                room = self.sizes[-1] if best is None else (math.prod(best) - 1) // max(1, math.prod(front))
                last = self._smallest_last(front, min(self.sizes[-1], room))
                if last is not None:
                    best = (*front, last)
            return best
        found = []
        for order in list(permutations(range(self.dim)))[:24]:  # greedy, axis by axis, in several orders
            sizes = list(self.sizes)
            for axis in order:
                while sizes[axis] > 1 and self.good((*sizes[:axis], sizes[axis] - 1, *sizes[axis + 1 :])):
                    sizes[axis] -= 1
            if self.good(tuple(sizes)):
                found.append(tuple(sizes))
        return min(found, key=math.prod) if found else None


def chebyshev_peer(f: Values, dim: int, tolerance: float) -> tuple[int | None, str]:
    """Degrees of freedom and how they are laid out; None when the limit is not enough."""
    sizes = resolved_sizes(f, dim, tolerance)
    if sizes is None:
        most = MOST_DEGREE.get(dim, 40)
        return None, f"> {most}" if dim == 1 else f"> {most} an axis"
    best = ChebyshevSearch(f, dim, sizes, tolerance).cheapest()
    if best is None:
        return None, f"> {math.prod(sizes)}"
    return math.prod(best), " x ".join(map(str, best))


# ---- the other peers -------------------------------------------------------------------------------------------------


def aaa_peer(f: Values, tolerance: float, check: np.ndarray) -> str:
    """Support points that AAA needs on 2,001 samples to meet the tolerance at the check points."""
    z = np.unique(np.concatenate([np.linspace(-1, 1, 1001), np.cos(np.linspace(0, np.pi, 1000))]))
    values, wanted = f(z[:, None]), f(check)
    for terms in range(1, 81):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # "not converged" is what the loop looks for
            rational = AAA(z, values, rtol=1e-15, max_terms=terms, clean_up=False)
            error = np.abs(np.real(rational(check[:, 0])) - wanted).max()
        if error <= tolerance:
            return str(len(rational.support_points))
    return "> 80"


def cells_peer(problem: Problem, tokens: int, tolerance: float, check: np.ndarray) -> tuple[float, float]:
    """(error with as many tokens, tokens predicted for the tolerance by the first order of the error)."""
    wanted = problem.function(check)
    d = problem.dim
    same = cell_head(problem, max(1, int(tokens ** (1 / d) + 1e-9)))
    cells = {1: 400, 2: 60, 3: 24}.get(d, 6)
    error = float(np.abs(cell_head(problem, cells)(check) - wanted).max())
    return float(np.abs(same(check) - wanted).max()), (cells * error / tolerance) ** d


def adam_peer(f: Values, check: np.ndarray, *, dim: int, tokens: int, affine: bool, seconds: float) -> float:
    """Sup error of one head of that many tokens after `seconds` of Adam on the mean square (best checkpoint)."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    centres = 2 * torch.rand(tokens, dim, generator=generator, dtype=torch.float64) - 1
    width = 2.0 * tokens ** (-1 / dim)
    keys = (centres / width**2).requires_grad_()
    biases = (-(centres**2).sum(dim=1) / (2 * width**2)).requires_grad_()
    values = torch.tensor(f(centres.numpy()), dtype=torch.float64).requires_grad_()
    slopes = torch.zeros(tokens, dim, dtype=torch.float64, requires_grad=affine)
    trained = [keys, biases, values, *([slopes] if affine else [])]

    def head(t: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(t @ keys.T + biases, dim=1)  # (q, N)
        return weights @ values + ((weights @ slopes) * t).sum(dim=1)

    rng = np.random.default_rng(1)
    pool = rng.uniform(-1, 1, (50_000, dim))
    t_pool, y_pool = torch.tensor(pool), torch.tensor(f(pool))
    t_check, y_check = torch.tensor(check[:5000]), torch.tensor(f(check[:5000]))
    optimiser = torch.optim.Adam(trained, lr=2e-2)
    batch = 512 if tokens * dim < 2000 else 256
    started, best, step = time.monotonic(), math.inf, 0
    while (elapsed := time.monotonic() - started) < seconds:
        for group in optimiser.param_groups:  # the rate falls from 2e-2 to 2e-5 over the time given
            group["lr"] = 2e-2 * 1e-3 ** (elapsed / seconds)
        chosen = torch.randint(len(pool), (batch,), generator=generator)
        optimiser.zero_grad()
        loss = (head(t_pool[chosen]) - y_pool[chosen]).square().mean()
        loss.backward()
        optimiser.step()
        step += 1
        if step % 200 == 0:
            with torch.no_grad():
                best = min(best, float((head(t_check) - y_check).abs().max()))
    with torch.no_grad():
        return min(best, float((head(t_check) - y_check).abs().max()))


def rbf_peer(f: Values, dim: int, centres: int, check: np.ndarray) -> tuple[float, str]:
    """Smallest sup error over several kernels, with scattered centres that include the corners."""
    corners = np.array(list(product((-1.0, 1.0), repeat=dim)))
    if dim == 1:
        points = np.cos(np.pi * (np.arange(max(centres, 2)) + 0.5) / max(centres, 2))[:, None]
    else:
        extra = qmc.Halton(dim, scramble=False).random(max(0, centres - len(corners)))
        points = np.vstack([corners, 2 * extra - 1])[: max(centres, dim + 1)]
    values, wanted = f(points), f(check)
    best, chosen = math.inf, "none"
    kernels: list[tuple[str, float, int]] = [("thin_plate_spline", 1.0, 1), ("cubic", 1.0, 1), ("quintic", 1.0, 2)]
    kernels += [("gaussian", epsilon, 0) for epsilon in (0.7, 1.5, 3.0, 6.0)]
    for kernel, epsilon, degree in kernels:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = RBFInterpolator(points, values, kernel=kernel, epsilon=epsilon, degree=degree)
                error = float(np.abs(fitted(check) - wanted).max())
        except (np.linalg.LinAlgError, ValueError):
            continue  # singular, or fewer centres than the kernel's polynomial needs
        if error < best:
            best, chosen = error, kernel.replace("_", " ")
    return best, chosen


# ---- one row, the table, the verdict ---------------------------------------------------------------------------------


@dataclass
class Result:
    row: Row
    tolerance: float
    tokens: int
    parameters: int
    strategy: str
    error: float
    seconds: float
    reached: bool
    proof: str
    peers: dict[str, str] = field(default_factory=dict)
    chebyshev: int | None = None

    @property
    def share(self) -> float | None:
        return None if self.chebyshev is None else self.tokens / self.chebyshev

    def faults(self) -> list[str]:
        what = f"{self.row.name} to {self.row.tol:g}"
        faults = []
        if not self.reached or self.error > self.tolerance:
            faults.append(f"{what}: error {self.error:.2e} exceeds {self.tolerance:.2e}")
        if self.tokens > self.row.most_tokens:
            faults.append(f"{what}: {self.tokens} tokens, at most {self.row.most_tokens} promised")
        if self.seconds > self.row.seconds:
            faults.append(f"{what}: {self.seconds:.1f} s, at most {self.row.seconds:g} s promised")
        if self.row.smooth and self.share is not None and self.share > SHARE_OF_CHEBYSHEV:
            faults.append(f"{what}: {self.tokens} tokens are {self.share:.2f} of Chebyshev's {self.chebyshev}")
        return faults


def measure(row: Row, adam_seconds: float, proof: bool) -> Result:
    box = row.box
    target = sw.Expression(row.text, box)

    def f(t: np.ndarray) -> np.ndarray:
        return target(box.from_unit(t))[:, 0]

    started = time.monotonic()
    try:
        built = sw.approximate(target, box, tol=row.tol, relative=row.relative, strategy="layer", certify=proof)
        reached = True
    except sw.ToleranceNotReached as missed:
        if missed.best is None:
            raise
        built, reached = missed.best, False
    # The plan counts the seconds of the construction; what the proof took on top of it stands in its own column.
    seconds = built.plan.seconds
    extra = time.monotonic() - started - seconds
    proved = "none" if built.certificate is None else f"<= {built.certificate.bound:.1e}"
    fresh = box.sample(100_000, seed=FRESH_SEED)
    error = float(np.abs(built(fresh) - target(fresh)).max())
    tolerance, network = built.plan.tolerance, built.network
    result = Result(
        row,
        tolerance,
        network.tokens,
        built.plan.parameters,
        built.plan.strategy,
        error,
        seconds,
        reached,
        proof=f"{proved} ({extra:.1f} s)",
    )
    check = box.to_unit(box.sample(20_000, seed=FRESH_SEED + 1))

    result.chebyshev, layout = chebyshev_peer(f, box.dim, tolerance)
    result.peers["Chebyshev"] = layout if result.chebyshev is None or box.dim == 1 else f"{result.chebyshev} ({layout})"
    result.peers["AAA"] = aaa_peer(f, tolerance, check) if box.dim == 1 else "-"
    problem = Problem(lambda t: f(t)[:, None], box.dim, 1, tolerance)
    cell_error, cell_tokens = cells_peer(problem, network.tokens, tolerance, check[:5000])
    result.peers["cells"] = f"{cell_error:.1e} ({cell_tokens:.0e} tokens)"
    affine = any(head.affine for head in network.heads())
    if adam_seconds > 0:
        adam = adam_peer(f, check, dim=box.dim, tokens=network.tokens, affine=affine, seconds=adam_seconds)
        result.peers["Adam"] = f"{adam:.1e}"
    else:
        result.peers["Adam"] = "-"
    before = time.monotonic()
    rbf, kernel = rbf_peer(f, box.dim, built.plan.parameters, check)
    result.peers["RBF"] = f"{rbf:.1e} ({kernel}, {time.monotonic() - before:.1f} s)"
    return result


def compare(rows: list[Row]) -> bool:
    """One layer by name beside the default choice, which may be a stack: never more tokens, never without a proof."""
    good = True
    for row in rows:
        said = []
        pair = []
        for strategy in ("layer", "auto"):
            before = time.process_time()
            built = sw.approximate(row.text, row.box, tol=row.tol, relative=row.relative, strategy=strategy)
            spent = time.process_time() - before
            proved = "proved" if built.certificate is not None else "not proved"
            layers = getattr(built.network, "depth", 1)
            said.append(f"{strategy}: {built.plan.tokens} tokens, {layers} layer(s), {proved}, {spent:.1f} CPU s")
            pair.append((built.plan.tokens, built.certificate is not None))
        (single, single_proved), (chosen, chosen_proved) = pair
        worse = (single_proved and chosen > single) or (single_proved and not chosen_proved)
        good &= not worse
        print(f"{row.name} to {row.tol:g}: {'; '.join(said)}{' WORSE' if worse else ''}", flush=True)
    return good


HEADINGS = [
    "target",
    "tol",
    "strategy",
    "tokens",
    "limit",
    "parameters",
    "error",
    "seconds",
    "proved (more seconds)",
    "Chebyshev dof",
    "tokens / Chebyshev",
    "AAA support",
    "cells, same tokens (for tol)",
    "Adam, same shape",
    "RBF, centres = parameters",
]


def cells_of(result: Result) -> list[str]:
    row = result.row
    limit = "any" if row.most_tokens >= 100_000 else str(row.most_tokens)
    share = "-" if result.share is None else f"{result.share:.2f}"
    return [
        row.name,
        f"{row.tol:.0e}{' rel' if row.relative else ''}",
        result.strategy,
        str(result.tokens),
        limit,
        str(result.parameters),
        f"{result.error:.1e}",
        f"{result.seconds:.2f}",
        result.proof,
        result.peers["Chebyshev"],
        share,
        result.peers["AAA"],
        result.peers["cells"],
        result.peers["Adam"],
        result.peers["RBF"],
    ]


def markdown(results: list[Result], adam_seconds: float) -> str:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")  # seconds mean little on a busy machine
    lines = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    lines += ["| " + " | ".join(cells_of(result)) + " |" for result in results]
    lines += [
        "",
        f"Errors: sup over 100,000 fresh points. Adam: {adam_seconds:g} s a row. One run, load {load:.1f}.",
    ]
    return "\n".join(lines)


def verdict(results: list[Result]) -> tuple[bool, str]:
    faults = [fault for result in results for fault in result.faults()]
    compared = [result for result in results if result.row.smooth and result.share is not None]
    worst = max((result.share or 0.0 for result in compared), default=0.0)
    text = (
        f"tokens <= {SHARE_OF_CHEBYSHEV} Chebyshev on every smooth row: "
        f"{'yes' if worst <= SHARE_OF_CHEBYSHEV else 'NO'} (largest share {worst:.2f}, {len(compared)} rows); "
        f"tolerance, tokens and time met on every row: {'yes' if not faults else 'NO'}"
    )
    return not faults, "\n".join([*[f"missed: {fault}" for fault in faults], text])


def main() -> None:
    parser = argparse.ArgumentParser(description="softwright.approximate against its peers")
    parser.add_argument("--rows", default="", help="only rows whose name contains one of these, separated by ';'")
    parser.add_argument("--adam-seconds", type=float, default=60.0, help="time that Adam gets for each row; 0 skips it")
    parser.add_argument("--quick", action="store_true", help="Adam gets 3 s a row")
    parser.add_argument("--no-proof", action="store_true", help="build without certificates")
    parser.add_argument("--choice", action="store_true", help="compare one layer with the default choice, no peers")
    parser.add_argument("--out", type=Path, help="also write the Markdown table to this file")
    options = parser.parse_args()
    adam_seconds = 3.0 if options.quick else options.adam_seconds
    wanted = [part.strip() for part in options.rows.split(";") if part.strip()]
    rows = [row for row in ROWS if not wanted or any(part in row.name for part in wanted)]
    if not rows:
        sys.exit(f"no row matches {options.rows!r}; the names are {', '.join(dict.fromkeys(row.name for row in ROWS))}")
    sw.approximate(
        "sin(x)", _LINE, tol=1e-3, certify=not options.no_proof
    )  # imports and first calls are not part of any row's time
    if options.choice:
        sys.exit(0 if compare(rows) else 1)
    results = []
    for row in rows:
        print(f"{row.name} to {row.tol:g} ...", file=sys.stderr, flush=True)
        results.append(measure(row, adam_seconds, proof=not options.no_proof))
    passed, text = verdict(results)
    table = markdown(results, adam_seconds) + "\n\n" + text
    print(table)
    if options.out is not None:
        write_atomically(options.out, f"{table}\n".encode())
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
