"""AttentionRegressor on ten data sets of scikit-learn and statsmodels and five synthetic noisy ones, beside four peers.

    python benchmarks/datasets.py                    all
    python benchmarks/datasets.py --rows diabetes    some of them

Cross-validated rms (five folds, shuffled with a fixed seed, the same for everyone), divided by the standard deviation
of y: 1 is the mean, 0 is perfect. Peers have scikit-learn's default settings, with inputs and outputs standardised
inside of each fold: random forest, histogram gradient boosting, support vector regression (RBF) and kernel ridge (its
default kernel is linear). AttentionRegressor has its defaults too, the same for all rows. Data sets of more than 1,500
rows are cut to 1,500 of a fixed shuffle, which the table says. Needs `pip install scikit-learn statsmodels`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

_MOST_ROWS = 1500
Data = tuple[np.ndarray, np.ndarray]


def _diabetes() -> Data:
    from sklearn.datasets import load_diabetes

    data: Any = load_diabetes()
    return data.data, data.target


def _iris() -> Data:
    from sklearn.datasets import load_iris

    data: Any = load_iris()
    return data.data[:, :3], data.data[:, 3]


def _statsmodels(name: str, target: str, columns: str) -> Callable[[], Data]:
    def load() -> Data:
        datasets: Any = import_module("statsmodels.api").datasets
        frame = getattr(datasets, name).load_pandas().data
        chosen = frame[[target, *columns.split()]].astype(float).dropna()
        return chosen[columns.split()].to_numpy(), chosen[target].to_numpy()

    return load


def _made(formula: Callable[[np.ndarray], np.ndarray], dim: int, rows: int, noise: float) -> Callable[[], Data]:
    def make() -> Data:
        rng = np.random.default_rng(11)
        x = rng.uniform(0, 1, (rows, dim))
        return x, formula(x) + noise * rng.normal(size=rows)

    return make


def _franke(x: np.ndarray) -> np.ndarray:
    a, b = 9 * x[:, 0], 9 * x[:, 1]
    return (
        0.75 * np.exp(-((a - 2) ** 2 + (b - 2) ** 2) / 4)
        + 0.75 * np.exp(-((a + 1) ** 2) / 49 - (b + 1) / 10)
        + 0.5 * np.exp(-((a - 7) ** 2 + (b - 3) ** 2) / 4)
        - 0.2 * np.exp(-((a - 4) ** 2) - (b - 7) ** 2)
    )


def _friedman(x: np.ndarray) -> np.ndarray:
    return 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]


def _impedance(x: np.ndarray) -> np.ndarray:
    r, w, length, c = 100 * x[:, 0], 2 * np.pi * (20 + 260 * x[:, 1]), x[:, 2], 1e-6 * (1 + 10 * x[:, 3])
    return np.sqrt(r**2 + (w * length - 1 / (w * c)) ** 2)


ROWS: dict[str, Callable[[], Data]] = {
    "diabetes": _diabetes,
    "iris (petal width)": _iris,
    "engel": _statsmodels("engel", "foodexp", "income"),
    "copper": _statsmodels("copper", "WORLDCONSUMPTION", "COPPERPRICE INCOMEINDEX ALUMPRICE INVENTORYINDEX"),
    "statecrime": _statsmodels("statecrime", "murder", "urban poverty hs_grad single"),
    "grunfeld": _statsmodels("grunfeld", "invest", "value capital"),
    "macrodata": _statsmodels("macrodata", "realcons", "realinv realgovt realdpi unemp infl"),
    "ccard": _statsmodels("ccard", "AVGEXP", "AGE INCOME INCOMESQ OWNRENT"),
    "star98": _statsmodels("star98", "NABOVE", "NBELOW LOWINC PERASIAN PERBLACK PERHISP PERMINTE AVYRSEXP AVSALK"),
    "fair": _statsmodels("fair", "rate_marriage", "age yrs_married children religious educ occupation affairs"),
    "synthetic sin(6x)": _made(lambda x: np.sin(6 * x[:, 0]), 1, 200, 0.3),
    "synthetic Franke": _made(_franke, 2, 500, 0.1),
    "synthetic Friedman 1": _made(_friedman, 10, 500, 1.0),
    "synthetic impedance": _made(_impedance, 4, 500, 50.0),
    "synthetic linear": _made(lambda x: x @ np.arange(1.0, 9.0), 8, 300, 2.0),
}


def estimators() -> dict[str, Callable[[], Any]]:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVR

    from softwright.sklearn import AttentionRegressor

    def standardised(peer: Any) -> Any:
        return TransformedTargetRegressor(make_pipeline(StandardScaler(), peer), transformer=StandardScaler())

    return {
        "attention": AttentionRegressor,
        "forest": lambda: standardised(RandomForestRegressor(random_state=0)),
        "boosting": lambda: standardised(HistGradientBoostingRegressor(random_state=0)),
        "SVR": lambda: standardised(SVR()),
        "kernel ridge": lambda: standardised(KernelRidge()),
    }


def rms(make: Callable[[], Any], x: np.ndarray, y: np.ndarray) -> float:
    from sklearn.model_selection import KFold

    squares = 0.0
    for train, test in KFold(5, shuffle=True, random_state=3).split(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            guess = make().fit(x[train], y[train]).predict(x[test])
        squares += float(((guess - y[test]) ** 2).sum())
    return float(np.sqrt(squares / len(y)) / y.std())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", default=list(ROWS), help="beginnings of names")
    parser.add_argument("--only", nargs="*", default=None, help="these estimators alone")
    given = parser.parse_args()
    makers = {name: make for name, make in estimators().items() if given.only is None or name in given.only}
    print("| data | rows x columns | " + " | ".join(makers) + " | attention / best |")
    print("|" + "---|" * (len(makers) + 3))
    ratios = []
    for name, load in ROWS.items():
        if not any(name.startswith(start) for start in given.rows):
            continue
        x, y = load()
        order = np.random.default_rng(5).permutation(len(x))[:_MOST_ROWS]
        cut = f" (of {len(x)})" if len(x) > len(order) else ""
        x, y = x[order], y[order]
        started = time.process_time()
        found = {each: rms(make, x, y) for each, make in makers.items()}
        own, others = found.get("attention", np.nan), [value for each, value in found.items() if each != "attention"]
        ratios.append(own / min(others, default=np.nan))
        cells = [f"**{v:.3f}**" if v == min(found.values()) else f"{v:.3f}" for v in found.values()]
        print(f"| {name} | {len(x)}{cut} x {x.shape[1]} | {' | '.join(cells)} | {ratios[-1]:.3f} |", flush=True)
        print(f"<!-- {time.process_time() - started:.0f} CPU s -->", flush=True)
    print(f"\nat least as good as the best: {sum(r <= 1 for r in ratios)} of {len(ratios)}; ", end="")
    print(f"within 10 %: {sum(r <= 1.1 for r in ratios)} of {len(ratios)}")


if __name__ == "__main__":
    main()
