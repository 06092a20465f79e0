"""Attention stacks that fit models to their prompt, against scikit-learn and exact solutions: one table, one run.

    python benchmarks/in_context.py            everything, several minutes
    python benchmarks/in_context.py --quick    fewer prompts and problems
    python benchmarks/in_context.py ols lasso  some parts only

Every stack is built before its data are looked at, from arguments alone. The last column says whether the limit of the
line was kept; the program ends with status 1 if one was not. Needs softwright[sklearn].
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import Lasso, LinearRegression, Ridge

import softwright as sw
from softwright.attention.stack import StackLayer, apply_layer
from softwright.methods.network import InContextStack
from softwright.methods.reference import random_design, reference

FAILED: list[str] = []


def line(name: str, value: float, limit: float, note: str = "") -> None:
    good = value <= limit
    if not good:
        FAILED.append(name)
    print(f"{name:<58} {value:>9.2e}  limit {limit:>6.2g}  {'ok' if good else 'MISSED'}  {note}", flush=True)


def gradient_steps(quick: bool) -> None:
    """One and twenty steps of gradient descent against the same steps in NumPy."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(200, 10)), rng.normal(size=200)
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True) / 7.9)
    built = sw.in_context(
        "least_squares", 10, solver="gradient", intercept=False, steps=20, step_size=0.3, sample=False
    )
    with torch.no_grad():
        states = built.network.trace(torch.tensor(x), torch.tensor(y), torch.eye(10, dtype=torch.float64))
    w, errors = np.zeros(10), []
    for k in range(20):
        w = w - 0.3 * (x.T @ (x @ w - y)) / len(y)
        errors.append(float(np.abs(states[k + 1].numpy() - w).max() / np.abs(w).max()))
    line("one gradient step, relative", errors[0], 1e-12, f"{built.network.depth} layers")
    line("twenty gradient steps, relative", errors[-1], 1e-11)


def same_tokens(quick: bool) -> None:
    """The theorem's interpolation heads with p = 16 points, and bilinear heads, on the same prompts."""
    rng = np.random.default_rng(2)
    n, d, eta = 12, 2, 0.5
    stated = sw.theorem("A5").build(points=16, tokens=n, dim=d, steps=1, eta=eta)  # applied again for further steps
    for steps in (1, 20):
        ours = sw.in_context(
            "least_squares", d, solver="gradient", intercept=False, steps=steps, step_size=eta, sample=False
        )
        theirs, own = 0.0, 0.0
        for _ in range(20):
            x, y = rng.uniform(-1, 1, (n, d)), rng.uniform(-1, 1, n)
            w = np.zeros(d)
            for _ in range(steps):
                w = w - eta * x.T @ (x @ w - y) / n
            tokens = np.concatenate([x.T, y[None], np.zeros((d, n)), np.ones((1, n))])[None]
            for _ in range(steps):
                tokens = np.asarray(stated.network.evaluate(tokens))
            theirs = max(theirs, float(np.abs(tokens[0, d + 1 : 2 * d + 1, 0] - w).max()))
            own = max(own, float(np.abs(ours.network.fitted(x, y, check=False)[0] - w).max()))
        print(f"{steps:>2} step(s), p = 16 interpolation points (theorem A5)       {theirs:>9.2e}")
        line(f"{steps:>2} step(s), bilinear heads, the same prompts", own, 1e-11, "no interpolation tokens")


def _diabetes() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_diabetes(return_X_y=True)
    return np.asarray(x), np.asarray(y)


def ols(quick: bool) -> None:
    x, y = _diabetes()
    wanted = LinearRegression().fit(x, y).predict(x)
    for solver, most in (("normal_equations", None), ("newton_schulz", 25)):
        built = sw.in_context("least_squares", 10, solver=solver)
        started = time.perf_counter()
        given = built(x=x, y=y, queries=x)
        note = f"{built.network.depth} layers, {time.perf_counter() - started:.1f} s"
        error = float(np.abs(given - wanted).max())
        line(f"diabetes, least squares by {solver} (y in 25..346)", error, 1e-9, note)
        if most is not None:
            line("  layers", built.network.depth, most)
        with torch.no_grad():
            other = built.network.multihead()(torch.tensor(x), torch.tensor(y), torch.tensor(x)).numpy()
        line("  nn.MultiheadAttention against SDPA", float(np.abs(other - given).max()), 1e-9)


def ridge(quick: bool) -> None:
    x, y = _diabetes()
    for alpha in (1.0, 0.1):
        # Columns of unit length and alpha: the smallest eigenvalue is at least alpha/(1 + alpha) of the average.
        wanted = Ridge(alpha=alpha, tol=1e-14).fit(x, y).predict(x)
        for solver, most in (("normal_equations", None), ("newton_schulz", 20)):
            built = sw.in_context("ridge", 10, penalty=alpha / 442, condition=10 if alpha < 1 else 3, solver=solver)
            error = float(np.abs(built(x=x, y=y, queries=x) - wanted).max())
            line(f"diabetes, ridge alpha {alpha:g}, by {solver}", error, 1e-10, f"{built.network.depth} layers")
            if most is not None:
                line("  layers", built.network.depth, most)


def lasso(quick: bool) -> None:
    x, y = _diabetes()
    peer = Lasso(alpha=0.05, tol=1e-14, max_iter=1_000_000).fit(x, y)
    for solver in ("fista", "admm"):
        built = sw.in_context("lasso", 10, penalty=0.05, solver=solver)
        w, b = built.network.fitted(x, y)
        error = float(np.abs(x @ w + b - peer.predict(x)).max())
        same = bool(np.array_equal(w != 0, peer.coef_ != 0))
        line(f"diabetes, lasso alpha 0.05, {solver}, predictions", error, 1e-8, f"{built.network.depth} layers")
        line(f"  coefficients, relative, {solver}", float(np.abs(w - peer.coef_).max() / np.abs(w).max()), 1e-8)
        line("  supports differ", float(not same), 0.0, f"{int((w != 0).sum())} of 10 coefficients are not 0")


def nonnegative(quick: bool) -> None:
    built = sw.in_context("nonnegative_least_squares", 10)
    x, y = _diabetes()
    w, b = built.network.fitted(x, y)
    exact, constant = reference(x, y, built.network.constants)
    line("diabetes, coefficients >= 0, predictions", float(np.abs(x @ (w - exact) + b - constant).max()), 1e-8)


def logistic(quick: bool) -> None:
    x, y = map(np.asarray, load_breast_cancer(return_X_y=True))
    x, y = (x - x.mean(axis=0)) / x.std(axis=0), np.asarray(y, dtype=float)
    for solver, most in (("newton", None), ("irls", 60)):
        built = sw.in_context("logistic", 30, solver=solver, penalty=1 / len(y), sample=False)  # C = 1
        started = time.process_time()
        given = built(x=x, y=y, queries=x)
        seconds = time.process_time() - started
        w, b = reference(x, y, built.network.constants)
        error = float(np.abs(given - (x @ w + b)).max())
        note = f"{built.network.depth} layers, {seconds:.0f} s of CPU time, logits up to {np.abs(given).max():.0f}"
        line(f"breast_cancer, L2 logistic by {solver}, logits", error, 1e-6, note)
        if most is not None:
            line("  layers", built.network.depth, most)


def poisson(quick: bool) -> None:
    built = sw.in_context("poisson", 8)
    worst = 0.0
    for seed in range(24):
        x, y = random_design("poisson", 8, 260, 1000 + seed)
        w, b = reference(x[:200], y[:200], built.network.constants)
        given = built(x=x[:200], y=y[:200], queries=x[200:])
        worst = max(worst, float(np.abs(given - (x[200:] @ w + b)).max()))
    line("poisson, 24 fresh designs, n=200, d=8, all", worst, 1e-8, f"{built.network.depth} layers")


def robust(quick: bool) -> None:
    built = sw.in_context("robust", 8)
    rng = np.random.default_rng(3)
    worst = 0.0
    for seed in range(12):
        x, y = random_design("robust", 8, 260, 2000 + seed)
        y[:20] += 30 * rng.normal(size=20)
        w, b = reference(x[:200], y[:200], built.network.constants)
        given = built(x=x[:200], y=y[:200], queries=x[200:])
        worst = max(worst, float(np.abs(given - (x[200:] @ w + b)).max()))
    line("robust, 12 fresh designs with 20 gross outliers", worst, 1e-8, f"{built.network.depth} layers")


def one_stack(quick: bool) -> None:
    """One stack, fifty problems: n 40..600, condition number of the covariance 3..1e4, units 1e-3..1e3, not centred."""
    built = sw.in_context("least_squares", 10, condition=1e5)
    rng = np.random.default_rng(4)
    worst: dict[float, float] = {}
    for i in range(12 if quick else 50):
        n, kappa = int(rng.integers(40, 601)), (3.0, 1e2, 1e3, 1e4)[i % 4]
        turn = np.linalg.qr(rng.normal(size=(10, 10)))[0]
        x = rng.normal(size=(n + 20, 10)) @ (turn * np.geomspace(1, kappa**-0.5, 10)) @ turn.T
        x = (x / x[:n].std(axis=0) + rng.normal(0, 0.3, 10)) * 10.0 ** rng.uniform(-3, 3, 10)
        y = (x / x.std(axis=0)) @ rng.normal(size=10) + 2.0 + 0.5 * rng.normal(size=n + 20)
        y /= y.std()
        w, b = reference(x[:n], y[:n], built.network.constants)
        error = float(np.abs(built(x=x[:n], y=y[:n], queries=x[n:]) - (x[n:] @ w + b)).max())
        worst[kappa] = max(worst.get(kappa, 0.0), error)
    for kappa, error in sorted(worst.items()):
        line(f"one stack, n 40..600, kappa {kappa:g}, largest error", error, 1e-8, f"{built.network.depth} layers")


def float32(quick: bool) -> None:
    """The floor of each method in float32, on six random designs; nothing is asked of it but the warning."""
    methods = ("least_squares", "ridge", "lasso", "nonnegative_least_squares", "logistic", "poisson", "robust")
    for method in methods:
        reach = 100.0 if method in ("logistic", "poisson", "robust") else None
        built = sw.in_context(method, 5, dtype="float32", score_bound=reach, sample=False, certify=False)
        worst = 0.0
        for seed in range(6):
            x, y = random_design(method, 5, 220, 3000 + seed)
            w, b = reference(x[:200], y[:200], built.network.constants)
            given = built(x=x[:200], y=y[:200], queries=x[200:], check=False)
            worst = max(worst, float(np.abs(given - (x[200:] @ w + b)).max()))
        print(f"float32 floor, {method:<40} {worst:>9.2e}", flush=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sw.in_context("least_squares", 5, dtype="float32", condition=1e3, sample=False, certify=False)
    line("float32 Newton-Schulz beyond condition 100 does not warn", float(not caught), 0.0)


def _prompts(rng: np.random.Generator, count: int, d: int, X: float, Y: float, W: float) -> tuple[np.ndarray, ...]:
    """x, y, w within the norms; half of them at the extremes: two clusters at +-X, signs, single outliers."""
    n = int(rng.integers(2, 40))
    x = rng.normal(size=(count, n, d))
    kind = rng.integers(0, 4, count)
    x[kind == 1] = np.sign(x[kind == 1, :, :1]) * rng.normal(size=((kind == 1).sum(), 1, d))
    x[kind == 2] = 0.0
    x[kind == 2, 0] = rng.normal(size=((kind == 2).sum(), d))
    norm = np.linalg.norm(x, axis=2, keepdims=True)
    x = np.where(
        kind[:, None, None] == 0, x * np.minimum(1, X / np.maximum(norm, 1e-300)), x * X / np.maximum(norm, 1e-300)
    )
    x *= 1 - 1e-12
    y = np.where(kind[:, None] < 2, rng.uniform(-Y, Y, (count, n)), Y * np.sign(rng.normal(size=(count, n))))
    w = rng.normal(size=(count, d))
    w *= W * (1 - 1e-12) / np.linalg.norm(w, axis=1, keepdims=True)
    return x, y, w


def step_bound(quick: bool) -> None:
    """The proved bound of a gradient step against what happens, on random and adversarial prompts."""
    rng = np.random.default_rng(5)
    for dtype in ("float64", "float32"):
        built = sw.in_context(
            "least_squares", 4, solver="gradient", intercept=False, steps=1, step_size=0.3, dtype=dtype, sample=False
        )
        stack: InContextStack = built.network
        layer = next(layer for layer in stack.distinct if layer.label == "gradient")
        c = stack.constants
        closest, prompts = 0.0, 0
        for _ in range(20 if quick else 100):
            x, y, w = _prompts(rng, 100, 4, c.x_bound, c.y_bound, c.w_bound)
            deviation = _step_error(stack, layer, x, y, w, c.eta)
            closest, prompts = max(closest, deviation / built.certificate.bound), prompts + len(x)
        line(f"step bound {built.certificate.bound:.1e} ({dtype}): seen/bound", closest, 1.0, f"{prompts} prompts")
    for method in ("logistic", "poisson", "robust"):
        for dtype in ("float64", "float32"):
            built = sw.in_context(method, 4, solver="gradient", steps=1, penalty=0.1, dtype=dtype, sample=False)
            c = built.network.constants
            closest, prompts = 0.0, 0
            for _ in range(20 if quick else 100):
                x, y, w = _prompts(rng, 100, 4, c.x_bound, c.y_bound, c.w_bound)
                deviation = _link_step_error(built.network, x, y, w, rng.uniform(-1, 1, 100))
                closest, prompts = max(closest, deviation / built.certificate.bound), prompts + len(x)
            name = f"step bound {built.certificate.bound:.1e} ({method}, {dtype}): seen/bound"
            line(name, closest, 1.0, f"{prompts} prompts")


def _link_step_error(stack: InContextStack, x: np.ndarray, y: np.ndarray, w: np.ndarray, share: np.ndarray) -> float:
    """The same for a link and a step layer of a generalised linear model; `share` of |(w, b)| goes to b."""
    from softwright.methods.prompts import read_prompt

    c, d = stack.constants, stack.features
    inside = 1 - 1e-6  # rounded to float32 the norms are kept
    w = np.concatenate([w * np.sqrt(1 - share**2)[:, None], c.w_bound * share[:, None]], axis=1) * inside
    x = x * inside
    if c.method == "poisson":  # rates up to rate_bound
        highest = (np.einsum("bnd,bd->bn", x, w[:, :d]) + w[:, d:]).max(axis=1, keepdims=True)
        w = w * np.minimum(1.0, np.log(c.rate_bound) * inside / np.maximum(highest, 1e-9))
    prompt = read_prompt(x, y, None, None, c, stack.dtype, False)
    wr = torch.tensor(w, dtype=stack.dtype)
    stream = {name: tokens.clone() for name, tokens in stack.embed(prompt).items()}
    s = stack.slots["s"][0]
    for name, slot in (("data", "x"), ("unit", "g")):
        stream[name][..., s] = torch.einsum("bnd,bd->bn", stream[name][..., slice(*stack.slots[slot])], wr)
    stream["basis"][..., s] = wr[:, :d]
    S, Y, X, before = (
        np.asarray(v.double().numpy(), dtype=np.longdouble)
        for v in (stream["data"][..., s], prompt.y, prompt.x, wr[:, :d])
    )
    for position in (stack.head, stack.head + 1):
        stream = apply_layer(stack.layer_at(position), stream)
    scale = np.longdouble(c.loss_scale)
    if c.method == "robust":
        slope = scale * np.tanh((S - Y) / scale)
    else:
        slope = (np.exp(S) if c.method == "poisson" else 1 / (1 + np.exp(-S))) - Y
    gradient = np.einsum("bnd,bn->bd", X, slope) / X.shape[1] + np.longdouble(c.penalty) * before
    exact = before - np.longdouble(c.step_size) * gradient
    return float(np.abs(stream["basis"][..., s].double().numpy() - exact).max())


def _step_error(
    stack: InContextStack, layer: StackLayer, x: np.ndarray, y: np.ndarray, w: np.ndarray, eta: float
) -> float:
    """The largest error of a coefficient after the layer, from a stream that holds w; exact sums in long double."""
    from softwright.methods.prompts import read_prompt

    prompt = read_prompt(x, y, None, None, stack.constants, stack.dtype, False)
    stream = stack.embed(prompt)
    f = stack.slots["f"][0]
    rounded = {"x": prompt.x.double().numpy(), "y": prompt.y.double().numpy()}
    wr = torch.tensor(w, dtype=stack.dtype)
    state = {}
    for name, sign in (("data", 1.0), ("mirror", -1.0)):
        tokens = stream[name].clone()
        tokens[..., f] = sign * torch.einsum("bnd,bd->bn", prompt.x, wr)
        state[name] = tokens
    basis = stream["basis"].clone()
    basis[..., f] = wr
    after = apply_layer(layer, {**stream, **state, "basis": basis})["basis"][..., f].double().numpy()
    X, Y, F = (
        np.asarray(v, dtype=np.longdouble) for v in (rounded["x"], rounded["y"], state["data"][..., f].double().numpy())
    )
    gradient = np.einsum("bnd,bn->bd", X, F - Y) / X.shape[1]
    return float(np.abs(after - (wr.double().numpy() - np.longdouble(eta) * gradient)).max())


PARTS: dict[str, Callable[[bool], None]] = {
    "gradient": gradient_steps,
    "theorem": same_tokens,
    "ols": ols,
    "ridge": ridge,
    "lasso": lasso,
    "nonnegative": nonnegative,
    "logistic": logistic,
    "poisson": poisson,
    "robust": robust,
    "one_stack": one_stack,
    "float32": float32,
    "step_bound": step_bound,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="parts to run; all unless given")
    parser.add_argument("--quick", action="store_true", help="fewer prompts and problems")
    arguments = parser.parse_args()
    for name in arguments.parts or PARTS:
        PARTS[name](arguments.quick)
    if FAILED:
        print(f"{len(FAILED)} line(s) missed their limit: {', '.join(FAILED)}")
        sys.exit(1)


if __name__ == "__main__":
    main()
