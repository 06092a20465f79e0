"""`softwright in-context`: an attention stack fits a model to the rows of a file, beside scikit-learn's answer."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from softwright.cli.delivery import AsJson, Certify, Dtype, Output, Page, Plot, argument, delivery, option
from softwright.errors import Faults, FileFormatError, InvalidInput
from softwright.result.kinds import loaded

if TYPE_CHECKING:
    import numpy as np

    from softwright.result.built import Built

Peer: TypeAlias = "tuple[str, np.ndarray, float]"  # scikit-learn's model, its coefficients and its intercept
_OPTIONS = (
    "method",
    "features",
    "solver",
    "penalty",
    "condition",
    "steps",
    "intercept",
    "dtype",
    "certify",
    "progress",
)
_SHOWN = 40  # coefficients printed before the rest is left to --json


def in_context_command(
    method: Annotated[str, argument("What to fit: least_squares, ridge, logistic, ...; an unknown word lists all.")],
    *,
    data: Annotated[Path, option("The observations: .csv, .npz or .parquet.")],
    target: Annotated[str, option("The column to predict.")],
    inputs: Annotated[
        str | None, option("The columns to predict from: x,z; all others of a .csv unless given.")
    ] = None,
    queries: Annotated[Path | None, option("Rows to predict; those of --data unless given.")] = None,
    solver: Annotated[str | None, option("The solver; see the documentation.")] = None,
    penalty: Annotated[float | None, option("Penalty of the mean loss.")] = None,
    condition: Annotated[float | None, option("How badly conditioned the features may be.")] = None,
    steps: Annotated[int | None, option("Steps of the solver.")] = None,
    settings: Annotated[
        list[str] | None, option("An argument of the method, NAME=VALUE: lags=3; may be repeated.", "--set")
    ] = None,
    intercept: Annotated[bool, typer.Option("--intercept/--no-intercept", help="Fit an intercept.")] = True,
    dtype: Dtype = "float64",
    certify: Certify = True,
    output: Output = None,
    predictions: Annotated[Path | None, option("Write the predictions to this .csv file.")] = None,
    plot: Plot = None,
    page: Page = None,
    as_json: AsJson = False,
) -> None:
    """Fit a model to the rows of a file with an attention stack, and print it beside scikit-learn's."""
    with delivery(output, plot, as_json, page=page, others=[predictions]) as deliver:
        own = _settings(settings or [])
        names, x, y = _read(data, target, inputs)
        points = x if queries is None else _read_rows(queries, names)
        from softwright.methods.verb import in_context
        from softwright.threads import one_thread

        deliver.say("building the stack")
        built = in_context(
            method, len(names), solver=solver, penalty=penalty, condition=condition, steps=steps,
            intercept=intercept, dtype=dtype, certify=certify, **own,
        )  # fmt: skip
        deliver.say(f"{built.network.depth} layers of attention")
        with one_thread():
            answers = built(x=x, y=y, queries=points)
            fits = bool(built.network.coefficient_segment)
            coefficients, constant = built.network.fitted(x, y) if fits else (points[:0, 0], 0.0)
        fitted = names if fits else [], coefficients, float(constant)
        peer = _scikit_learn(built, x, y) if fits else None
        difference = None if peer is None else float(abs(points @ peer[1] + peer[2] - answers).max())
        if predictions is not None:
            _write(predictions, names, points, answers, _columns(built))
        deliver(
            built,
            more=_entries(*fitted, peer, difference),
            lines=_comparison(*fitted, peer, difference),
            written={"predictions": predictions},
        )


def _settings(given: list[str]) -> dict[str, Any]:
    """Arguments of the method: whole numbers, numbers, or texts."""
    found: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name.strip().isidentifier() or not value.strip():
            raise InvalidInput("in-context", [f"--set {text}: give NAME=VALUE, such as --set lags=3"])
        if name.strip() in _OPTIONS:
            raise InvalidInput("in-context", [f"--set {text}: {name.strip()} has an option of its own; see --help"])
        found[name.strip()] = _plain(value.strip())
    return found


def _plain(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def _read(path: Path, target: str, inputs: str | None) -> tuple[list[str], np.ndarray, np.ndarray]:
    import numpy as np

    from softwright.targets.table_files import KINDS, kind_of, read_numbers

    if not path.is_file():
        raise FileFormatError(f"{path}: no such file")
    if inputs is not None:
        names = [name.strip() for name in inputs.split(",") if name.strip()]
    elif kind_of(path) in KINDS:
        names = [name for name in _header(path) if name != target]
    else:
        raise InvalidInput("in-context", [f"{path.suffix} files need the columns to predict from: add --inputs x,z"])
    faults = Faults("in-context")
    faults.check(bool(names), "there is no column to predict from; name them with --inputs")
    faults.check(target not in names, f"{target!r} is the target and among --inputs; leave it out of one of them")
    faults.check(len(set(names)) == len(names), "a column is named twice in --inputs; name each once")
    faults.raise_if_any()
    columns = read_numbers(path, [*names, target])
    return names, np.stack([columns[name] for name in names], axis=1), columns[target]


def _read_rows(path: Path, names: list[str]) -> np.ndarray:
    import numpy as np

    from softwright.targets.table_files import read_numbers

    if not path.is_file():
        raise FileFormatError(f"{path}: no such file")
    columns = read_numbers(path, names)
    return np.stack([columns[name] for name in names], axis=1)


def _header(path: Path) -> list[str]:
    from softwright.targets.table_files import open_csv

    with open_csv(path) as rows:
        return [name for name in rows.header if name]


def _scikit_learn(built: Built, x: np.ndarray, y: np.ndarray) -> Peer | None:
    """Name, coefficients and intercept of scikit-learn's answer to the same problem, or None without it."""
    if find_spec("sklearn") is None:
        return None
    from softwright.methods.methods import METHODS

    constants = built.network.constants
    peer = METHODS[constants.method].peer
    options = None if peer is None else peer.options(len(y), constants)
    if peer is None or options is None:
        return None
    model = loaded(peer.place)(fit_intercept=constants.intercept, **options).fit(x, y)
    import numpy as np

    return type(model).__name__, np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])


def _columns(built: Built) -> tuple[str, ...]:
    """What the answers are called."""
    from softwright.methods.methods import METHODS

    constants = built.network.constants
    return METHODS[constants.method].columns(constants) or ("prediction",)


def _write(path: Path, names: list[str], points: np.ndarray, answers: np.ndarray, columns: tuple[str, ...]) -> None:
    from softwright.targets.table_files import write_csv

    rows = zip(points.tolist(), answers.reshape(len(points), -1).tolist(), strict=True)
    write_csv(path, [[*names, *columns], *[[*map(repr, row), *map(repr, answer)] for row, answer in rows]])


def _entries(
    names: list[str], coefficients: np.ndarray, constant: float, peer: Peer | None, difference: float | None
) -> dict[str, Any]:
    """The fitted model, and scikit-learn's, for --json."""
    content: dict[str, Any] = {
        "coefficients": dict(zip(names, coefficients.tolist(), strict=True)),
        "intercept": constant,
    }
    if peer is not None:
        content["scikit_learn"] = {
            "model": peer[0],
            "coefficients": dict(zip(names, peer[1].tolist(), strict=True)),
            "intercept": peer[2],
            "largest_difference_of_predictions": difference,
        }
    return content


def _comparison(
    names: list[str], coefficients: np.ndarray, constant: float, peer: Peer | None, difference: float | None
) -> list[str]:
    """The same as lines of a table."""
    if not names:
        return ["", "this method fits no coefficients; --predictions writes what it answers"]
    width = max(len(name) for name in [*names, "intercept", "coefficient"])
    title = "" if peer is None else f"{peer[0]:>24}"
    lines = ["", f"{'coefficient':<{width}}{'attention':>24}{title}"]
    rows = [*zip(names, coefficients.tolist(), peer[1].tolist() if peer else coefficients.tolist(), strict=True)]
    for name, own, other in [*rows[:_SHOWN], ("intercept", constant, peer[2] if peer else constant)]:
        lines.append(f"{name:<{width}}{own:>24.12g}" + ("" if peer is None else f"{other:>24.12g}"))
    if len(rows) > _SHOWN:
        lines.append(f"({len(rows) - _SHOWN} more; --json prints all)")
    if difference is not None and peer is not None:
        lines.append(f"largest difference between predictions of the stack and of {peer[0]}: {difference:.2g}")
    elif find_spec("sklearn") is None:
        lines.append(
            "scikit-learn is not installed, so there is nothing to compare with: pip install 'softwright[sklearn]'"
        )
    return lines
