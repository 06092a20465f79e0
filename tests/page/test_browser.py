"""Pages in a browser: the numbers are Python's, a pointer is followed, nothing is asked for and nothing complains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.page.formula import tape_of
from softwright.targets import Expression
from softwright.targets.formula.functions import ROWS
from tests.browser import Watched, started
from tests.contracts.kinds_made import MADE

BOX1, BOX2 = sw.Box(x=(-1, 2)), sw.Box(x=(-1, 1), y=(-2, 2))
BOX3 = sw.Box(x=(-1, 1), y=(-2, 2), z=(0, 1))
FUNCTIONS: dict[str, Callable[[], sw.Built[Any]]] = {
    "one variable": lambda: sw.approximate("sin(3*x)*exp(-x)", BOX1, tol=1e-6),
    "kinks": lambda: sw.approximate("abs(sin(3*x))", BOX1, tol=1e-4),
    "float32": lambda: sw.approximate("sin(3*x)*exp(-y**2)", BOX2, tol=1e-4, dtype="float32", strategy="layer"),
    "float64 inside float32": lambda: sw.approximate("sin(3*x)*exp(-x)", BOX1, tol=1e-4, dtype="float32"),
    "three variables, two outputs": lambda: sw.approximate("sin(x) + cos(y*z), x*z", BOX3, tol=1e-3, strategy="grid"),
    "stack": lambda: sw.approximate("sin(3*x)*exp(-y**2) + max(x*y, 0.1)", BOX2, tol=1e-5, strategy="compose"),
    "stack in float32": lambda: sw.approximate("x*y*exp(x)", BOX2, tol=1e-1, strategy="compose", dtype="float32"),
}
FUNCTIONS = {name: cache(make) for name, make in FUNCTIONS.items()}  # every network is made once


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started() as running:
        yield running


@pytest.fixture(scope="module")
def page_of_all(browser: Any) -> Iterator[Watched]:
    page = Watched(browser)
    yield page
    page.close()


@pytest.fixture
def watched(page_of_all: Watched) -> Iterator[Watched]:
    page_of_all.forget()
    yield page_of_all
    assert page_of_all.complaints == []
    assert len(page_of_all.asked) == 1


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_the_numbers_of_python(name: str, watched: Watched, tmp_path: Path) -> None:
    built = FUNCTIONS[name]()
    built.page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    points = built.network.box.sample(100, seed=5)
    if name.endswith("float32"):
        points = points.astype(np.float32).astype(float)
    found = np.array(page.evaluate("points => points.map(x => softwright.net(x))", points.tolist()))
    assert np.abs(found - built(points)).max() <= built.certificate.rounding_part
    wanted = np.array(page.evaluate("points => points.map(x => softwright.target(x))", points.tolist()))
    assert np.abs(wanted - built.source(points)).max() <= 1e-14 * (1 + np.abs(wanted).max())


def test_the_pointer_the_fields_and_the_keys_move_the_point(watched: Watched, tmp_path: Path) -> None:
    built = FUNCTIONS["three variables, two outputs"]()
    built.page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    page.locator("#seen", has_text="largest error").wait_for()
    box = page.locator("#function").bounding_box()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.4 * box["height"])
    here = page.evaluate("softwright.here()")
    assert 0.2 < here[0] < 0.8
    assert 0.0 < here[1] < 1.0
    page.get_by_label("z, exactly").fill("0.25")
    page.get_by_label("z, exactly").press("Enter")
    page.get_by_label("x", exact=True).focus()
    page.keyboard.press("ArrowRight")
    moved = page.evaluate("softwright.here()")
    assert moved[0] > here[0]
    assert moved[2] == 0.25
    page.get_by_label("output").select_option(label="2")
    page.locator("#where", has_text="output 2").wait_for()
    shown = float(page.inner_text("#where").splitlines()[1].split()[-1])
    assert shown == pytest.approx(float(built(np.array([moved]))[0, 1]), abs=built.certificate.rounding_part)
    weights = page.locator("#strongest tbody tr").all_inner_texts()
    strongest = built.attention(np.array([moved])).heads
    best = max((head.strongest()[0] for head in strongest), key=lambda pair: pair[1])
    assert best[0] in weights[0]


def test_a_value_is_followed_through_the_stack(watched: Watched, tmp_path: Path) -> None:
    built = FUNCTIONS["stack"]()
    built.page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    point = np.array([[0.3, 0.7]])
    page.evaluate("x => softwright.move(x)", point[0].tolist())
    page.get_by_role("button", name="u4 = u1*exp(-u2)").focus()
    page.keyboard.press("Enter")
    rows = page.locator("#chosen tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in rows] == ["x", "y", "u1 = sin(3*x)", "u2 = y**2", "u4 = u1*exp(-u2)"]
    columns = built.network.columns(point)
    states = np.array(page.evaluate("x => softwright.states(x)", point[0].tolist()))
    held = np.array([values[0] for values in columns.values()])
    assert np.abs(states[-1][: len(held)] - held).max() <= 1e-12 * np.abs(held).max()
    page.get_by_label("after layer", exact=True).fill("1")
    assert "not written yet" in page.get_by_role("button", name="u4 = u1*exp(-u2)").text_content()


def test_targets_without_a_formula_are_shown_at_their_points(watched: Watched, tmp_path: Path) -> None:
    table = sw.Table.grid([np.linspace(0, 1, 5), np.linspace(0, 1, 4)], np.outer(np.arange(5.0) ** 2, [1, 2, 0, 1]))
    built = sw.approximate(table, tol=1e-3)
    built.page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    page.locator("#seen", has_text="20 points of the table").wait_for()
    seen = float(page.inner_text("#seen").split("table ")[1].split(";")[0])
    assert seen == pytest.approx(np.abs(built(table.points) - table.values).max(), rel=0.01, abs=1e-12)


def test_functions_of_formulas_have_the_values_of_numpy(watched: Watched, tmp_path: Path) -> None:
    MADE["approximation"]().page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    for row in ROWS:
        names = list(row.example)
        box = sw.Box(
            {name: side if side[0] < side[1] else (side[0], side[0] + 1) for name, side in row.example.items()}
        )
        expression = Expression(f"{row.name}({', '.join(names)})", names)
        points = np.vstack([box.sample(40, seed=1), box.corners()])
        found = page.evaluate("([tape, points]) => points.map(formula(tape))", [tape_of(expression), points.tolist()])
        wanted = expression(points)
        assert np.allclose(np.array(found), wanted, rtol=4e-14, atol=4e-15), row.name


def _mlp(activation: type[torch.nn.Module]) -> torch.nn.Module:
    torch.manual_seed(1)
    layers = [torch.nn.Linear(2, 6), activation(), torch.nn.Linear(6, 5), activation(), torch.nn.Linear(5, 2)]
    return torch.nn.Sequential(*layers).double().eval()


def _gated() -> torch.nn.Module:
    class SwiGLU(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.up, self.down = (torch.nn.Linear(a, b) for a, b in ((3, 6), (3, 6), (6, 3)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))

    torch.manual_seed(2)
    return SwiGLU().double().eval()


TRANSPILED = {
    "relu": lambda: sw.transpile(_mlp(torch.nn.ReLU), box=(-2, 2)),
    "gelu in stock modules": lambda: sw.transpile(_mlp(torch.nn.GELU), box=(-2, 2), layout="multihead"),
    "relu in stock modules": lambda: sw.transpile(_mlp(torch.nn.ReLU), box=(-2, 2), layout="multihead"),
    "tanh in float32": lambda: sw.transpile(_mlp(torch.nn.Tanh), box=(-2, 2), dtype="float32"),
    "gated": lambda: sw.transpile(_gated(), box=(-1, 1)),
}


@pytest.mark.parametrize("name", TRANSPILED)
def test_transpiled_networks_have_the_numbers_of_python(name: str, watched: Watched, tmp_path: Path) -> None:
    built = TRANSPILED[name]()
    built.page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    points = (
        np.random.default_rng(4).uniform(-1, 1, (100, cast(Any, built.network).inputs)).astype(np.float32).astype(float)
    )
    found = np.array(page.evaluate("points => points.map(x => softwright.net(x))", points.tolist()))
    assert np.abs(found - built(points)).max() <= built.certificate.rounding_part
    if name != "gated":
        wanted = page.evaluate("points => points.map(x => softwright.target(x))", points.tolist())
        assert np.allclose(np.array(wanted), built.source(points), rtol=1e-12, atol=1e-14)
    page.get_by_role("button", name="layer 1, neuron 2").click(timeout=5000)
    assert "neuron 2" in page.inner_text("#neuron-title")
    through = [name for name in built.certificate.quantities if name.startswith("error ")]
    assert page.locator("#steps tbody tr").count() == len(through) >= 1


def test_a_module_shows_the_bounds_of_its_blocks(watched: Watched, tmp_path: Path) -> None:
    built = MADE["transpiled_module"]()
    built.page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    assert page.locator("#steps tbody tr").count() == len(cast(Any, built.network).blocks)


_TEXTS = ["a b", "b a", "a a b", "c", "b c a"]
MEMORIES = {
    "words": lambda: sw.memorize(_TEXTS, ["one", "two", "one", "three", "two"]),
    "bytes": lambda: sw.memorize(_TEXTS, [1.5, 2.5, -3.0, 0.25, 9.0], tokenizer="bytes", dtype="float32"),
    "multisets, feed-forward": lambda: sw.memorize(
        ["a b", "a a b", "c", "b c a"], ["one", "two", "three", "one"], positional=False, readout="feedforward"
    ),
}


@pytest.mark.parametrize("name", MEMORIES)
def test_memories_recall_in_the_page_what_they_recall_in_python(name: str, watched: Watched, tmp_path: Path) -> None:
    built = MEMORIES[name]()
    built.page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    asked = [*_TEXTS, "b", "a b a", "c c", "x a", "a b c a b c a b c"]
    wanted = built.network.recall(asked)
    for i, text in enumerate(asked):
        one = page.evaluate("text => softwright.recall(text).found[0]", text)
        assert (one["index"], one["known"]) == (int(wanted.index[i]), bool(wanted.known[i]))
        assert one["distance"] == pytest.approx(float(wanted.distance[i]), abs=2 * float(built.network.radii[0]))
        if wanted.known[i]:
            if built.network.classes is None:
                assert one["value"][0] == wanted.labels[i]
            else:
                assert one["label"] == wanted.labels[i]
    page.get_by_label("a sequence").fill(_TEXTS[1])
    assert "was stored" in page.inner_text("#verdict")
    page.get_by_label("a sequence").fill("c c c")
    assert "stored" in page.inner_text("#verdict")
    assert "was stored" not in page.inner_text("#verdict")


def test_tokens_in_context_and_vectors(watched: Watched, tmp_path: Path) -> None:
    rows = [[1, 2, 3], [2, 1, 1], [3, 1, 2]]
    built = sw.memorize(rows, [[0, 1, 2], [1, 1, 0], [2, 2, 1]], mode="token")
    built.page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    for row, labels in zip(rows, built(rows), strict=True):
        found = page.evaluate("text => softwright.recall(text).found", " ".join(map(str, row)))
        assert all(one["known"] for one in found)
        assert [one["value"][0] for one in found] == list(labels)


@pytest.mark.parametrize("method", ["ridge", "logistic"])
def test_a_stack_in_context_fits_as_in_python(method: str, watched: Watched, tmp_path: Path) -> None:
    solver = "irls" if method == "logistic" else None  # of few layers
    built = sw.in_context(method, features=1, penalty=0.1, solver=solver, sample=False)
    built.page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    page.locator("#state", has_text="after layer").wait_for()

    def agree() -> None:
        prompt, fit = page.evaluate("[softwright.prompt(), softwright.fit()]")
        x, y, queries = (np.array(part) for part in (prompt["x"], prompt["y"], fit["queries"]))
        wanted = built(x=x, y=y, queries=queries)
        assert np.abs(np.array(fit["predictions"]) - wanted).max() <= 1e-9
        traced = built.network.trace(*(torch.tensor(part) for part in (x, y, queries)))
        kept, shown = page.evaluate("[softwright.kept, softwright.trace()]")
        for position, values in zip(kept[:-1], shown[:-1], strict=True):
            state = traced[position - built.network.head].double().numpy()
            assert np.abs(state - values).max() <= 1e-7 * (1 + np.abs(state).max())

    agree()
    before = page.evaluate("softwright.prompt().y[2]")
    page.get_by_label("point", exact=True).select_option(label="3")
    page.get_by_label("y of the point").fill("1" if before < 0.5 else "0")
    page.get_by_label("y of the point").press("Enter")
    page.locator("#state", has_text="after layer").wait_for()
    assert page.evaluate("softwright.prompt().y[2]") != before
    agree()


FIELDS = sw.Sequence(length=(1, 12), s=sw.Symbols("abc"), k=sw.Integers(-2, 3), x=(-1, 1), t=sw.Truths())
PROGRAMS: dict[str, Callable[[], sw.Built[Any]]] = {
    "counts": lambda: sw.compile("count(s[j] == s[i]), sorted(s)[i]", FIELDS),
    "sums in float32": lambda: sw.compile(
        "sum(x[j] for j <= i), max(x[j] for j <= i)", FIELDS, dtype="float32", tol=1e-2
    ),
    "truths": lambda: sw.compile("any(t[j] and k[j] > k[i]), k[n-1-i]", FIELDS),
    "means": lambda: sw.compile("conv(x, [1, -2, 1]), mean(x[j] for s[j] == s[i])", FIELDS, tol=1e-4),
}


def _sequences(network: Any, count: int) -> list[dict[str, list[float]]]:
    """Sequences of all lengths, as numbers; values of reals are float32 numbers."""
    generator, drawn = np.random.default_rng(6), []
    for i in range(count):
        length, one = 1 + i % network.longest, {}
        for field in network.fields:
            if field["kind"] == "real":
                values = generator.uniform(field["low"], field["high"], length).astype(np.float32).astype(float)
            elif field["kind"] == "symbol":
                values = generator.integers(0, len(field["symbols"]), length)
            else:
                values = generator.integers(field.get("low", 0), field.get("high", 1) + 1, length)
            one[field["name"]] = [float(value) for value in values]
        drawn.append(one)
    return drawn


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_have_the_numbers_of_python(name: str, watched: Watched, tmp_path: Path) -> None:
    built = PROGRAMS[name]()
    network = cast(Any, built.network)
    built.page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    drawn = _sequences(network, 100)
    # Exact programs agree exactly. A claim about reals does not name its rounding: 64 units in the last place of 1.
    allowed = 0.0 if built.certificate.bound == 0 else 64 * torch.finfo(network.dtype).eps
    found = page.evaluate("all => all.map(one => softwright.run(one))", drawn)
    for one, values in zip(drawn, found, strict=True):
        stacked = torch.tensor([one[name] for name in network.names], dtype=network.dtype).T[None]
        assert np.abs(network(stacked)[0].double().numpy() - values).max() <= allowed
    one = drawn[11]
    named = {**one, "s": [network.symbols[int(code)] for code in one["s"]]}
    for layer in range(network.depth):
        wanted = network.attention_of(layer, **named)
        for head in range(len(wanted)):
            weights = page.evaluate("([a, l, h]) => softwright.weights(a, l, h)", [one, layer, head])
            assert np.abs(np.array(weights) - wanted[head]).max() <= 1e-5


def test_a_sequence_is_typed_dragged_and_looked_into(watched: Watched, tmp_path: Path) -> None:
    built = PROGRAMS["counts"]()
    built.page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    page.get_by_label("values of s").fill("aabc")
    assert page.inner_text("#result").splitlines() == ["output 1: 2211", "output 2: aabc"]
    page.get_by_label("values of s").fill("aax")
    assert "no symbol" in page.inner_text("#fault")
    page.get_by_label("values of s").fill("cbaa")
    first, last = (page.locator("#row button").nth(i).bounding_box() for i in (0, 3))
    page.mouse.move(first["x"] + 9, first["y"] + 9)
    page.mouse.down()
    page.mouse.move(last["x"] + 9, last["y"] + 9, steps=6)
    page.mouse.up()
    assert page.evaluate("softwright.given().s") == [1, 0, 0, 2]
    page.locator("#row button").nth(0).focus()
    page.keyboard.press("Shift+ArrowRight")
    assert page.evaluate("softwright.given().s") == [0, 1, 0, 2]
    box = page.locator("#drag").bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.1 * box["height"], steps=3)
    page.mouse.up()
    assert 3 in page.evaluate("softwright.given().k")
    assert page.locator("#patterns button").count() == built.network.distinct[0].heads
    page.get_by_label("token that asks", exact=True).fill("2")
    assert "token 2" in page.inner_text("#writes-title")
    assert page.locator("#writes tbody tr").count() >= 1


def test_a_data_point_is_dragged(watched: Watched, tmp_path: Path) -> None:
    sw.in_context("ridge", features=1, penalty=0.1).page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    page.locator("#state", has_text="after layer").wait_for()
    box = page.locator("#prompt").bounding_box()
    at = page.evaluate("[plot.X(x[0][0]), plot.Y(y[0])]")
    before = page.evaluate("softwright.fit().predictions")
    page.mouse.move(box["x"] + at[0], box["y"] + at[1])
    page.mouse.down()
    page.mouse.move(box["x"] + at[0], box["y"] + box["height"] - 40, steps=3)
    page.mouse.up()
    page.locator("#state", has_text="after layer").wait_for()
    assert page.evaluate("softwright.prompt().y[0]") < -0.3
    assert page.evaluate("softwright.fit().predictions") != before


THEOREMS = {
    "A1": {"points": 12, "tokens": 3, "dim": 2},
    "A3": {},
    "B2": {},
    "C3": {},
}


@pytest.mark.parametrize("label", THEOREMS)
def test_theorems_have_the_numbers_of_python(label: str, watched: Watched, tmp_path: Path) -> None:
    built = sw.theorem(label).build(**THEOREMS[label])
    built.page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    inputs = np.asarray(built.source.sample(np.random.default_rng(2), 100))
    found = np.array(page.evaluate("all => all.map(X => softwright.net(X))", inputs.tolist()))
    wanted = built(inputs)
    most = built.certificate.rounding_part or 1e-9 * (1 + np.abs(wanted).max())
    assert np.abs(found - wanted).max() <= most
    rows = page.locator("#rows tbody tr").count()
    if rows > 1:
        page.get_by_label("size, 1 to", exact=False).first.fill(str(rows))
        last = page.locator("#rows tbody tr").last.inner_text().split("\t")
        assert f"bound {last[1]}" in page.inner_text("#row")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 800, 1400])
def test_pages_fit_the_screen(watched: Watched, scheme: Any, width: int, tmp_path: Path) -> None:
    FUNCTIONS["stack"]().page(tmp_path / "f.html")
    watched.page.emulate_media(color_scheme=scheme)
    watched.page.set_viewport_size({"width": width, "height": 800})
    page = watched.open(tmp_path / "f.html")
    assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


HOSTILE = "</script><script>window.harmed=1</script><img/src=x/onerror='window.harmed=1'>"


def test_hostile_labels_do_not_run(watched: Watched, tmp_path: Path) -> None:
    def target(x: np.ndarray) -> np.ndarray:
        return np.tanh(x)

    target.__name__ = HOSTILE
    sw.approximate(target, sw.Box(x=(-1, 1)), tol=1e-3).page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    assert page.evaluate("window.harmed") is None
    assert HOSTILE in page.inner_text("h1")


def test_hostile_words_classes_and_files_do_not_run(watched: Watched, tmp_path: Path) -> None:
    built = sw.memorize([f"{HOSTILE} b", f"b {HOSTILE}"], [HOSTILE, "two"])
    built.page(tmp_path / "f.html", file=f"{HOSTILE}.safetensors")
    page = watched.open(tmp_path / "f.html")
    page.get_by_label("a sequence").fill(f"{HOSTILE} b")
    assert HOSTILE in page.inner_text("#verdict")
    assert HOSTILE in page.inner_text("#near")
    assert page.evaluate("window.harmed") is None


def test_a_notebook_gets_a_frame_that_runs(browser: Any, tmp_path: Path) -> None:
    framed = MADE["approximation"]()._repr_html_()
    (tmp_path / "notebook.html").write_text(f"<!doctype html><title>n</title>{framed}", encoding="utf-8")
    watched = Watched(browser)
    page = watched.open(tmp_path / "notebook.html")
    frame = page.frame_locator("iframe")
    frame.locator("#where").get_by_text("network").wait_for()
    assert frame.locator(".badge").inner_text().startswith("proved")
    assert watched.complaints == []
    watched.close()
