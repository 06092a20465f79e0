"""`certify` end to end: never wrong, and it decides what it should decide."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from softwright.attention.head import Axis, Head
from softwright.attention.network import AttentionNetwork
from softwright.domain import Box
from softwright.errors import InvalidInput
from softwright.progress import Settled
from softwright.proof.models.exact_heads import exact_heads
from softwright.proof.prover import certify
from softwright.proof.search.search import SearchState
from softwright.result.certificate import Certificate, Part, count_leaves
from softwright.result.constructed import digest_of
from softwright.targets import Expression, Function, Table
from softwright.targets.mlp.torch_reader import read_module
from tests.proof.prover_support import exact_error, random_network

TARGETS = {1: "sin(2*x) + 0.1*x**3", 2: "cos(x - y)*exp(-0.3*x)", 3: "x*y - z/(4 + y**2)"}


def soft_cells(values: np.ndarray, width: float, box: Box, dtype: torch.dtype = torch.float64) -> AttentionNetwork:
    """A grid of Gaussian cells over the unit frame, one axis per variable."""
    axes = []
    for n in values.shape:
        center = np.linspace(-1.2, 1.2, n)
        step = center[1] - center[0]
        axes.append(Axis(center / (width * step) ** 2, -(center**2) / (2 * (width * step) ** 2)))
    return AttentionNetwork([Head.on_grid(axes, values.reshape(-1, 1))], box, dtype)


def fitted(
    text: str, box: Box, tokens: int, width: float = 1.6, *, dtype: torch.dtype = torch.float64, rcond: float = 1e-11
) -> AttentionNetwork:
    """Least squares in one dimension: a good network for the formula."""
    network = soft_cells(np.zeros(tokens), width, box)
    head = network.heads()[0]
    t = np.cos(np.linspace(0, np.pi, 40 * tokens))[:, None]
    values = np.linalg.lstsq(head.weights(t), Expression(text, box)(box.from_unit(t)), rcond=rcond)[0]
    return soft_cells(values[:, 0], width, box, dtype)


def test_smooth_network_is_proved_tightly_with_few_boxes() -> None:
    network = fitted("sin(3*x)", Box(x=(-1, 1)), 16)
    found = certify(network, "sin(3*x)", tightness=0.05)
    assert found.proved and found.certificate is not None
    assert found.bound <= 1.06 * found.lower
    again = certify(network, "sin(3*x)", bound=1.1 * found.lower)
    assert again.proved and again.boxes <= 40
    certificate = again.certificate
    assert isinstance(certificate, Certificate) and isinstance(certificate.tree, bytes)
    assert count_leaves(certificate.tree, 1) == again.boxes == len(again.leaf_upper)
    assert np.all(again.leaf_upper <= certificate.exact_part)
    assert certificate.weights_sha256 == digest_of(network)
    assert certificate.exact_part + certificate.rounding_part <= certificate.bound
    false = certify(network, "sin(3*x)", bound=0.995 * found.lower)
    assert false.status == "refuted" and false.certificate is None and false.lower > 0.995 * found.lower


@pytest.mark.parametrize("seed", range(18))
def test_random_networks_never_exceed_their_certificate(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    dim = int(rng.integers(1, 4))
    network = random_network(
        rng, dim, int(rng.integers(2, 60)), heads=int(rng.integers(1, 3)), affine=bool(rng.integers(2)),
        hardness=10.0 ** rng.uniform(-0.5, 2.5 if dim == 1 else 0.8), size=10.0 ** rng.uniform(-1, 5),
    )  # fmt: skip
    found = certify(network, TARGETS[dim], tightness=0.1, max_seconds=10)
    expression = Expression(TARGETS[dim], network.names)
    heads = exact_heads(network, "sdpa")
    points = np.concatenate(
        [network.box.sample(25, seed), network.box.corners(), np.array([found.witness]).reshape(-1, dim)]
    )
    seen = max(exact_error(heads, expression, point) for point in points)
    assert seen <= found.proved_bound
    assert found.lower <= exact_error(heads, expression, np.array(found.witness)) * (1 + 1e-12)
    if found.proved:
        assert found.bound <= 1.2 * max(found.lower, 1e-9 * np.abs(heads[0].values).max())
    assert certify(network, TARGETS[dim], bound=0.995 * found.lower, max_seconds=5).status != "proved"


@pytest.mark.parametrize("beta", [1e3, 1e9])
@pytest.mark.parametrize("kink", [0.0, 0.3])
def test_hard_gates_are_proved_down_to_the_sharp_constant(beta: float, kink: float) -> None:
    gates = Head(
        np.array([[-beta], [beta]]), np.array([beta * kink, -beta * kink]), np.array([[kink], [-kink]]),
        np.array([[[-1.0]], [[1.0]]]), "gates",
    )  # fmt: skip
    network = AttentionNetwork([gates], Box(x=(-1, 1)))
    text = f"abs(x - {kink!r})" if kink else "abs(x)"
    # a softmax of two gates 2 beta apart in slope errs by W0(1/e)/beta = 0.27846/beta
    found = certify(network, text, tightness=0.05)
    assert found.proved and 0.278 / beta < found.bound < 0.295 / beta + 1e-14
    assert found.boxes < 150
    assert certify(network, text, bound=0.2784 / beta - 1e-15).status == "refuted"


def test_additive_problem_is_proved_in_parts() -> None:
    rng = np.random.default_rng(3)
    box = Box(x=(0, 1), y=(-1, 1), z=(0, 2), w=(0, 1))
    heads = []
    for columns in ((0, 1), (2,)):
        keys = np.zeros((20, 4))
        keys[:, list(columns)] = rng.normal(size=(20, len(columns)))
        heads.append(Head(keys, rng.normal(size=20), rng.normal(size=(20, 1))))
    linear = np.zeros((1, 1, 4))
    linear[0, 0, 3] = 2.5
    heads.append(Head(np.zeros((1, 4)), np.zeros(1), np.zeros((1, 1)), linear))
    network = AttentionNetwork(heads, box)
    text = "x*y - (z**2 - 5*w)"
    found = certify(network, text, tightness=0.05)
    assert found.proved and found.certificate is not None
    parts = found.certificate.tree
    assert isinstance(parts, tuple) and all(isinstance(part, Part) for part in parts)
    assert [part.variables for part in parts] == [("x", "y"), ("z",), ("w",)]
    assert [part.heads for part in parts] == [(0,), (1,), (2,)]
    assert [part.terms for part in parts] == [(0,), (1,), (2,)]
    assert found.bound <= 1.06 * found.lower
    expression, exact = Expression(text, network.names), exact_heads(network, "sdpa")
    assert max(exact_error(exact, expression, point) for point in box.sample(60)) <= found.bound
    assert certify(network, text, bound=1.08 * found.lower).proved
    assert certify(network, text, bound=0.99 * found.lower).status == "refuted"


def test_both_engines_and_several_outputs() -> None:
    rng = np.random.default_rng(0)
    box = Box(x=(-1, 1), y=(0, 3))
    axis = np.linspace(-1, 1, 6)
    axes = [Axis(9 * axis, -4.5 * axis**2), Axis(7 * axis, -3.5 * axis**2)]
    network = AttentionNetwork([Head.on_grid(axes, rng.normal(size=(36, 2)))], box)
    for engine in ("sdpa", "factorised"):
        found = certify(network, "sin(x)*y, x - y", tightness=0.1, engine=engine)
        assert found.proved and found.certificate is not None and found.certificate.engine == engine
        points = box.sample(4000, 1)
        target = Expression("sin(x)*y, x - y", box)(points)
        assert np.abs(network.evaluate(points, engine) - target).max() <= found.bound


def test_escalates_to_balls_where_float64_cannot_decide() -> None:
    """Wide cells need values of 4e4 that cancel to 2e-9; float64 sums of them are noise at the size of the error."""
    network = fitted("sin(3*x)", Box(x=(-1, 1)), 14, 3.0, rcond=1e-17)
    assert np.abs(network.heads()[0].values).max() > 1e4
    found = certify(network, "sin(3*x)", tightness=0.1, max_seconds=20)
    assert found.proved and found.bound <= 1.2 * found.lower + 1e-8
    heads, expression = exact_heads(network, "sdpa"), Expression("sin(3*x)")
    seen = max(exact_error(heads, expression, np.array([x])) for x in np.linspace(-1, 1, 81))
    assert found.certificate is not None and seen <= found.certificate.exact_part <= 1.12 * found.lower


def test_large_heads_may_cancel() -> None:
    keys = np.array([[-0.5], [0.5]])
    values = np.array([[3e6 - 0.2], [3e6 + 0.2]])
    network = AttentionNetwork(
        [Head(keys, np.zeros(2), values), Head(keys, np.zeros(2), -3e6 * np.ones((2, 1)))], Box(x=(-1, 1))
    )
    found = certify(network, "0.1*x", tightness=0.1)
    assert found.certificate is not None and found.certificate.exact_part <= 1.12 * found.lower


def test_lp_norms_enclose_the_integral() -> None:
    network = fitted("sin(3*x)", Box(x=(-1, 1)), 8)
    x = np.linspace(-1, 1, 40001)[:, None]
    error = np.abs(network.evaluate(x) - np.sin(3 * x))
    for norm, p in (("L1", 1.0), ("L2", 2.0), (3, 3.0), (1.5, 1.5)):
        true = float((np.mean(error**p) * 2.0) ** (1 / p))
        found = certify(network, "sin(3*x)", norm=norm, tightness=0.1)
        assert found.proved and 0.999 * true <= found.bound <= 1.11 * true
        assert found.lower <= 1.001 * true
        assert certify(network, "sin(3*x)", norm=norm, bound=1.2 * true).proved
        assert certify(network, "sin(3*x)", norm=norm, bound=0.9 * true).status != "proved"


def test_an_integral_over_a_spike_that_no_box_resolves_is_not_proved() -> None:
    """The L2 norm of 1e-30/(1e-60 - x) on [-1, 0] is 1, all of it where boxes are 2^-64 of the side and smaller."""
    nothing = AttentionNetwork([Head(np.array([[1.0], [-1.0]]), np.zeros(2), np.zeros((2, 1)))], Box(x=(-1, 0)))
    found = certify(nothing, "1e-30/(1e-60 - x)", norm="L2", bound=0.1, max_seconds=20)
    assert found.status == "undecided" and found.boxes < 5000
    assert certify(nothing, "1e-30/(1e-60 - x)", norm="L2", bound=1e20, max_seconds=20).status == "undecided"


@pytest.mark.parametrize("bound", [1e3, 1e12])
def test_generous_bounds_are_proved(bound: float) -> None:
    """Tokens are dropped by their weight too: an error that may be large leaves no reason to drop all of them."""
    rng = np.random.default_rng(5)
    head = Head(rng.normal(size=(40, 1)) * 5, rng.normal(size=40), rng.normal(size=(40, 1)))
    network, x = AttentionNetwork([head], Box(x=(-1, 1))), np.linspace(-1, 1, 9)
    assert certify(network, Table(x, np.sin(x)), bound=bound).proved
    assert certify(network, "sin(x)", bound=bound, max_seconds=5).proved
    assert certify(network, "sin(x)", bound=bound, norm="L2", max_seconds=5).proved


def test_callables_rest_on_their_promises() -> None:
    box = Box(x=(-1, 1))
    network = fitted("sin(3*x)", box, 5)
    error = certify(network, "sin(3*x)", tightness=0.05).lower
    curved = certify(network, Function(lambda x: np.sin(3 * x), box, second_derivative=9.0), bound=1.2 * error)
    assert curved.proved and curved.certificate is not None
    assert any("second derivatives" in text for text in curved.certificate.assumptions)
    rough = certify(network, Function(lambda x: np.sin(3 * x), box, lipschitz=3.0), bound=1.2 * error)
    assert rough.proved and rough.boxes > 2 * curved.boxes
    with pytest.raises(InvalidInput, match="second_derivative="):
        certify(network, Function(lambda x: np.sin(3 * x), box), bound=1.0)


def test_tables_are_certified_at_their_points() -> None:
    box = Box(x=(-1, 1))
    network = fitted("sin(3*x)", box, 9)
    points = box.sample(300)
    table = Table(points, np.sin(3 * points), names=["x"])
    found = certify(network, table)
    seen = np.abs(network.evaluate(table.points.copy()) - table.values).max()
    assert found.proved and seen <= found.bound <= seen * 1.001 + 1e-12
    assert found.certificate is not None and "the table's 300 points" in found.certificate.assumptions[0]
    assert certify(network, table, bound=0.9 * float(seen)).status == "refuted"


@pytest.mark.parametrize(
    "activation",
    [
        torch.nn.ReLU(),
        torch.nn.Tanh(),
        torch.nn.GELU(),
        torch.nn.SiLU(),
        torch.nn.Hardsigmoid(),
        torch.nn.ELU(),
        torch.nn.Mish(),
        torch.nn.GELU("tanh"),
        torch.nn.Softplus(2.0, 1.0),
    ],
)
def test_networks_as_targets(activation: torch.nn.Module) -> None:
    torch.manual_seed(1)
    mlp = torch.nn.Sequential(torch.nn.Linear(1, 8), activation, torch.nn.Linear(8, 1)).double()
    network = AttentionNetwork([Head(np.zeros((1, 1)), np.zeros(1), np.zeros((1, 1)))], Box(x=(-2, 2)))
    found = certify(network, mlp, tightness=0.05)
    with torch.no_grad():
        seen = float(mlp(torch.linspace(-2, 2, 2001, dtype=torch.float64)[:, None]).abs().max())
    assert found.proved and seen <= found.bound <= 1.07 * seen
    assert found.certificate is not None
    assert found.certificate.target == {**read_module(mlp).network.describe(), "variables": ["x"]}


def test_progress_budget_executor_and_interrupt() -> None:
    network = fitted("1/(1 + 25*x**2)", Box(x=(-1, 1)), 40)
    seen: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        found = certify(network, "1/(1 + 25*x**2)", tightness=0.05, executor=pool, progress=seen.append)
    assert found.proved and seen[-1].startswith("proving: 100% of the box proved in ")
    assert f"in {found.boxes} boxes" in seen[-1] and f"error between {found.lower:.2g} and" in seen[-1]
    assert SearchState(1.0, 0.1, 0.2, boxes=30, open_boxes=0, seconds=2.0).boxes_per_second == 15
    short = certify(network, "1/(1 + 25*x**2)", tightness=0.001, max_boxes=12)
    assert short.status == "undecided" and "max_boxes" in short.reason and short.proved_bound >= short.lower

    def stop(message: str) -> None:
        if int(message.split(" boxes", maxsplit=1)[0].rsplit(maxsplit=1)[-1]) > 4:
            raise KeyboardInterrupt

    cut = certify(network, "1/(1 + 25*x**2)", tightness=0.01, progress=stop)
    assert cut.status == "undecided" and cut.reason == "interrupted"
    assert found.lower <= cut.proved_bound
    if np.isfinite(cut.proved_bound):
        assert cut.weaker is not None and cut.weaker.bound == cut.proved_bound


def test_bad_input_is_refused_at_once_with_all_faults() -> None:
    network = fitted("sin(x)", Box(x=(-1, 1)), 4)
    for text in ("1/x", "log(x)", "sqrt(x)", "tan(2*x)", "1/(x - 0.3)**2"):
        with pytest.raises(InvalidInput):
            certify(network, text, bound=1.0)
    certify(network, "sqrt(1 + x)", bound=5.0)
    with pytest.raises(InvalidInput, match="y"):
        certify(network, "sin(y)", bound=1.0)
    with pytest.raises(InvalidInput, match="output"):
        certify(network, "x, 2*x", bound=1.0)
    with pytest.raises(InvalidInput, match="2 faults"):
        certify(network, "x", bound=-1.0, tightness=1e-9)
    odd = {"bound": "a", "tightness": True, "max_work": "a", "order": 0, "resume": "", "norm": None}
    with pytest.raises(InvalidInput, match="6 faults"):
        certify(network, "x", **odd)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="norm"):
        certify(network, "x", norm="L0")
    with pytest.raises(InvalidInput, match="sides"):
        certify(network, "x", domain=Box(y=(0, 1)))
    with pytest.raises(InvalidInput, match="engine"):
        certify(network, "x", engine="gpu")
    with torch.no_grad():
        next(iter(network.layer)).values[1] = float("nan")
    with pytest.raises(InvalidInput, match="NaN"):
        certify(network, "x", bound=1.0)
    with pytest.raises(InvalidInput, match="bfloat16"):
        certify(fitted("sin(x)", Box(x=(-1, 1)), 4).to(torch.bfloat16), "x", bound=1.0)


def test_a_part_of_the_domain() -> None:
    network = fitted("sin(3*x)", Box(x=(-1, 1)), 6)
    whole = certify(network, "sin(3*x)", tightness=0.05)
    part = certify(network, "sin(3*x)", tightness=0.05, domain=Box(x=(-0.1, 0.1)))
    assert part.proved and part.bound < whole.bound


@pytest.mark.parametrize("text", ["sin(3*x)", "cos(x - y)"])
def test_a_proof_tells_the_boxes_that_it_settles(text: str) -> None:
    """Together they are the whole domain, each once: what a picture of the growing proof needs."""
    box = Box(x=(-1, 3)) if "y" not in text else Box(x=(-1, 3), y=(0, 2))
    told: list[str] = []
    network = fitted(text, box, 8) if box.dim == 1 else soft_cells(np.zeros((4, 4)), 1.6, box)
    assert certify(network, text, bound=2.0, progress=told.append).proved
    settled = [message for message in told if isinstance(message, Settled)]
    begins = max(k for k, message in enumerate(settled) if message.first)
    rows = np.array([row for message in settled[begins:] for row in message.boxes])
    assert np.all((rows >= 0) & (rows <= 1)) and np.all(rows[:, [1, 3]] >= rows[:, [0, 2]])
    covered = (rows[:, 1] - rows[:, 0]) * (rows[:, 3] - rows[:, 2])
    assert covered.sum() == pytest.approx(1.0, abs=1e-2)
