"""The independent checker: true statements are verified, false or damaged ones never are."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, ctx
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from softwright.attention import AttentionNetwork, Head
from softwright.checker.head import Head as CheckedHead
from softwright.checker.head import View
from softwright.checker.parser import NotProvedError, Parser, UndefinedError, additive_terms
from softwright.checker.precision import PRECISIONS
from softwright.checker.taylor import ZERO, Model, Space, evaluate
from softwright.checker.verify import Verdict, verify
from softwright.domain import Box
from softwright.result.certificate import Part, decode_tree, encode_tree
from softwright.targets import Expression
from tests.checker.checker_support import (
    Case,
    fitted_head,
    make_case,
    plane_case,
    sine_case,
    uniform_tree,
)

LINE = Box(x=(-1.0, 1.0))


def gate(beta: float, kink: float = 0.0) -> Head:
    """max(x - kink, 0) by two hard-gated affine tokens."""
    return Head(
        keys=np.array([[0.0], [beta]]),
        biases=np.array([0.0, -kink * beta]),
        values=np.array([[0.0], [-kink]]),
        slopes=np.array([[[0.0]], [[1.0]]]),
        structure="gates",
    )


def check(case: Case, tmp_path: Path) -> Verdict:
    return verify(case.write(tmp_path / "case.safetensors"))


# ------------------------------------------------------------------------------------------------- what is verified


@pytest.mark.parametrize(
    "options", [{}, {"factor": 1.02}, {"rounding": 1e-11}, {"engine": "any"}, {"engine": "factorised"}]
)
def test_sine_is_verified(options: dict[str, Any], tmp_path: Path) -> None:
    verdict = check(sine_case(**options), tmp_path)
    assert verdict.verified, str(verdict)
    assert str(verdict).startswith("VERIFIED")
    assert verdict.boxes >= 16


@pytest.mark.parametrize("engine", ["sdpa", "factorised", "any"])
def test_two_variables_and_both_engines(engine: str, tmp_path: Path) -> None:
    verdict = check(plane_case(engine=engine, factor=1.1), tmp_path)
    assert verdict.verified, str(verdict)


@pytest.mark.parametrize("engine", ["sdpa", "factorised"])
def test_float32(engine: str, tmp_path: Path) -> None:
    case = plane_case(engine=engine, dtype=torch.float32, rounding=2e-3, factor=1.2)
    assert check(case, tmp_path).verified
    case.state("rounding_part", 1e-9)
    assert "not re-proved" in check(case, tmp_path).reason


def test_three_variables(tmp_path: Path) -> None:
    box = Box(x=(-1.0, 1.0), y=(-1.0, 1.0), z=(-1.0, 1.0))

    def values(x: np.ndarray) -> np.ndarray:
        return 1.0 / (2.0 + x.sum(axis=1, keepdims=True) / 3.0)

    head = fitted_head(box, values, 6, margin=1, width=1.3)
    case = make_case([head], box, "1/(2 + (x + y + z)/3)", values, uniform_tree(3, 6), factor=1.5, rounding=1e-6)
    verdict = check(case, tmp_path)
    assert verdict.verified, str(verdict)


@pytest.mark.parametrize(("beta", "depth"), [(1e2, 6), (1e8, 0)])
def test_hard_gates(beta: float, depth: int, tmp_path: Path) -> None:
    def values(x: np.ndarray) -> np.ndarray:
        return np.maximum(x - 0.25, 0.0)

    sup = 0.27846454276107374 / beta
    tree = uniform_tree(1, depth) if depth else None  # without a tree the checker bisects by itself
    case = make_case([gate(beta, 0.25)], LINE, "max(x - 0.25, 0)", values, tree, exact=1.05 * sup, rounding=1e-13)
    verdict = check(case, tmp_path)
    assert verdict.verified, str(verdict)
    case.state("exact_part", 0.999 * sup)
    assert not check(case, tmp_path).verified


def test_two_heads_and_two_outputs(tmp_path: Path) -> None:
    def values(x: np.ndarray) -> np.ndarray:
        return np.concatenate([np.sin(3 * x), np.cos(2 * x)], axis=1)

    first = fitted_head(LINE, values, 12)
    second = fitted_head(LINE, lambda x: 0.1 * values(x), 10)
    case = make_case([first, second], LINE, "1.1*sin(3*x), 1.1*cos(2*x)", lambda x: 1.1 * values(x), uniform_tree(1, 5))
    verdict = check(case, tmp_path)
    assert verdict.verified, str(verdict)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.5])
def test_lp_norms(p: float, tmp_path: Path) -> None:
    case = sine_case()
    assert case.network is not None
    x = np.linspace(-1.0, 1.0, 20_001)[:, None]
    error = np.abs(case.network.evaluate(x)[:, 0] - np.sin(3 * x[:, 0]))
    norm = float((np.trapezoid(error**p, x[:, 0])) ** (1 / p))
    case = sine_case(p=p, exact=1.05 * norm)
    assert check(case, tmp_path).verified
    case = sine_case(p=p, exact=0.98 * norm)
    assert not check(case, tmp_path).verified


def additive_case(constant: float = 0.25, slack: float = 1.3) -> Case:
    """sin(2x) + cos(y) - 0.5*x as two heads on one variable each; the formula's terms are 0, 1 and 2."""
    box = Box(x=(-1.0, 1.0), y=(-1.0, 1.0))
    along_x = fitted_head(LINE, lambda x: np.sin(2 * x) - 0.5 * x, 10).along(np.array([[1.0, 0.0]]))
    along_y = fitted_head(LINE, np.cos, 10).along(np.array([[0.0, 1.0]]))
    along_x, along_y = along_x.plus_affine(np.array([constant])), along_y.plus_affine(np.array([-constant]))

    def values(x: np.ndarray) -> np.ndarray:
        return np.sin(2 * x[:, :1]) + np.cos(x[:, 1:]) - 0.5 * x[:, :1]

    plain = make_case([along_x, along_y], box, "sin(2*x) + cos(y) - 0.5*x", values, None)
    share = slack * plain.observed
    parts = (
        Part(("x",), (0,), (0, 2), share, 1e-10, uniform_tree(1, 4), (constant,)),
        Part(("y",), (1,), (1,), share, 1e-10, uniform_tree(1, 4), (-constant,)),
    )
    exact = 2.001 * share
    return make_case([along_x, along_y], box, "sin(2*x) + cos(y) - 0.5*x", values, parts, exact=exact, rounding=2.5e-10)


def test_additive_parts(tmp_path: Path) -> None:
    verdict = check(additive_case(), tmp_path)
    assert verdict.verified, str(verdict)
    assert verdict.boxes < 100


@pytest.mark.parametrize(
    "damage",
    [
        lambda parts: parts[0].update(heads=[0, 1]),
        lambda parts: parts[0].update(terms=[0]),
        lambda parts: parts[1].update(terms=[1, 2]),
        lambda parts: parts[0].update(variables=["y"]),
        lambda parts: parts[0].update(variables=["x", "x"]),
        lambda parts: parts[0].update(constant=[0.2500001]),
        lambda parts: parts[0].update(constant=[0.0]),
        lambda parts: parts[0].update(exact_part=0.5, hex={**parts[0]["hex"], "exact_part": (0.5).hex()}),
        lambda parts: parts[0].update(rounding_part=1e-5, hex={**parts[0]["hex"], "rounding_part": (1e-5).hex()}),
        lambda parts: parts.pop(),
        lambda parts: parts.append(parts[0]),
    ],
)
def test_damaged_parts_are_refused(damage: Callable[[list[dict[str, Any]]], None], tmp_path: Path) -> None:
    case = additive_case()
    damage(case.certificate["tree"])
    assert not check(case, tmp_path).verified


def test_targets_that_are_not_in_the_file_are_verified_given_that_they_are_what_they_are_called(tmp_path: Path) -> None:
    case = sine_case()
    promised = {"lipschitz": 3.0, "second_derivative": None}
    case.target = {"kind": "function", "name": "f", "variables": ["x"], "outputs": 1, **promised}
    case.certificate["target"] = case.target
    case.certificate["assumptions"] = ["the given Lipschitz constant 3"]
    verdict = check(case, tmp_path)
    assert verdict.status == "VERIFIED GIVEN"
    assert not verdict.verified
    assert verdict.given == ("callable-values", "user-lipschitz", "stated-exact-part")
    assert verdict.hypotheses == ("ieee754", "exp-ulp<=4", *verdict.given)
    assert str(verdict).startswith("VERIFIED GIVEN callable-values, user-lipschitz, stated-exact-part: ")
    case.certificate["tree"] = encode_tree(bytes([0, 255]))
    assert check(case, tmp_path).status == "NOT VERIFIED"


def test_the_checker_needs_no_torch() -> None:
    code = "import sys, softwright.checker.verify; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_precision_of_others_is_left_alone(tmp_path: Path) -> None:
    before = ctx.prec, ctx.cap
    check(sine_case(), tmp_path)
    assert (ctx.prec, ctx.cap) == before


def test_progress_is_reported(tmp_path: Path) -> None:
    heard: list[str] = []
    verify(sine_case().write(tmp_path / "case.safetensors"), heard.append)
    seen = [int(message.split()[0]) for message in heard]
    assert seen
    assert seen == sorted(seen)


# -------------------------------------------------------------------------------------------------- what is refused


def test_files_that_hold_no_statement(tmp_path: Path) -> None:
    assert "no such file" in verify(tmp_path / "absent.safetensors").reason
    (tmp_path / "text.safetensors").write_text("hello")
    assert not verify(tmp_path / "text.safetensors").verified
    case = sine_case()
    path = case.write(tmp_path / "case.safetensors")
    from softwright.fileformat import write_model

    write_model(path, case.tensors, {"model": case.model, "target": case.target})
    assert "no certificate" in verify(path).reason


def ulp(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    changed = array.copy().ravel()
    i = int(rng.integers(changed.size))
    changed[i] = np.nextafter(changed[i], np.inf if rng.random() < 0.5 else -np.inf)
    return changed.reshape(array.shape)


def some_tensor(case: Case, rng: np.random.Generator) -> str:
    return str(rng.choice(sorted(case.tensors)))


def flip_weight(case: Case, rng: np.random.Generator) -> None:
    name = some_tensor(case, rng)
    case.tensors[name] = ulp(case.tensors[name], rng)


def change_weight_and_sign(case: Case, rng: np.random.Generator) -> None:
    """Weights changed by 0.01 to 1 % with a hash that fits: the statement itself has become false."""
    name = str(rng.choice([n for n in case.tensors if n.endswith(("keys", "biases", "values"))]))
    largest = int(np.argmax(np.abs(case.tensors[name])))
    changed = case.tensors[name].copy().ravel()
    changed[largest] *= 1.0 + 10 ** rng.uniform(-4, -2)
    case.tensors[name] = changed.reshape(case.tensors[name].shape)
    case.sign()


def lower_bound(case: Case, rng: np.random.Generator) -> None:
    exact = case.observed * rng.uniform(0.5, 0.995)
    case.state("exact_part", exact)
    if rng.random() < 0.5:
        case.state("bound", exact + case.certificate["rounding_part"] * 1.01)


def lower_total(case: Case, rng: np.random.Generator) -> None:
    case.state("bound", case.certificate["exact_part"] * rng.uniform(0.2, 0.9))


def lower_rounding(case: Case, rng: np.random.Generator) -> None:
    case.state("rounding_part", 10 ** rng.uniform(-30, -18))


def one_form_only(case: Case, rng: np.random.Generator) -> None:
    name = str(rng.choice(["bound", "exact_part", "rounding_part"]))
    case.certificate[name] *= 1 + 10 ** rng.uniform(-12, 0)


def edit_tree(case: Case, rng: np.random.Generator) -> None:
    tree = bytearray(decode_tree(case.certificate["tree"]))
    i, dim = int(rng.integers(len(tree))), len(case.model["box"])
    kind = int(rng.integers(5))
    if kind == 0:
        del tree[i]
    elif kind == 1:
        tree[i] = int(rng.integers(dim, 255))
    elif kind == 2:
        tree[i] = 255 if tree[i] < dim else 0
    elif kind == 3:
        tree += bytes([255])
    else:
        del tree[i:]
    case.certificate["tree"] = encode_tree(bytes(tree))


def remove_subtree(case: Case, rng: np.random.Generator) -> None:
    """A whole subtree cut out, and the count of boxes mended."""
    tree = decode_tree(case.certificate["tree"])
    start = int(rng.integers(1, len(tree)))
    end, owed = start, 1
    while owed:
        owed += -1 if tree[end] == 255 else 1
        end += 1
    case.certificate["tree"] = encode_tree(tree[:start] + tree[end:])
    case.certificate["boxes"] -= tree[start:end].count(255)


def garble_tree(case: Case, rng: np.random.Generator) -> None:
    text = case.certificate["tree"]
    i = int(rng.integers(len(text)))
    case.certificate["tree"] = text[:i] + str(rng.choice(list("?A=x"))) + text[i + 2 :]


def widen_domain(case: Case, rng: np.random.Generator) -> None:
    name = str(rng.choice(sorted(case.model["box"])))
    low, high = case.certificate["domain"][name]
    high += (high - low) * 10 ** rng.uniform(-14, 1)
    case.certificate["domain"][name] = [low, high]
    case.certificate["hex"]["domain"][name] = [low.hex(), high.hex()]


def widen_domain_and_box(case: Case, rng: np.random.Generator) -> None:
    """The model's box widened as well: outside the old box the network is far off."""
    name = str(rng.choice(sorted(case.model["box"])))
    low, high = case.certificate["domain"][name]
    high += (high - low) * rng.uniform(0.2, 2.0)
    case.certificate["domain"][name] = case.model["box"][name] = [low, high]
    case.certificate["hex"]["domain"][name] = [low.hex(), high.hex()]


def change_dtype(case: Case, rng: np.random.Generator) -> None:
    case.certificate["dtype"] = "float32"
    if rng.random() < 0.7:
        case.model["dtype"] = "float32"
    if rng.random() < 0.5:
        case.tensors = {name: tensor.astype(np.float32) for name, tensor in case.tensors.items()}
        case.sign()


def change_formula(case: Case, rng: np.random.Generator) -> None:
    text = case.target["text"]
    digits = [i for i, c in enumerate(text) if c.isdigit()]
    i = int(rng.choice(digits))
    changed = text[:i] + text[i] + f".00{rng.integers(1, 9)}" + text[i + 1 :]
    target = {**case.target, "text": changed}
    if rng.random() < 0.7:
        case.target = target
    case.certificate["target"] = target


def break_formula(case: Case, rng: np.random.Generator) -> None:
    text = case.target["text"]
    i = int(rng.integers(len(text)))
    case.target = {**case.target, "text": text[:i] + str(rng.choice(list("$;^=["))) + text[i + 1 :]}
    case.certificate["target"] = case.target


def not_a_number(case: Case, rng: np.random.Generator) -> None:
    name = some_tensor(case, rng)
    changed = case.tensors[name].copy().ravel()
    changed[int(rng.integers(changed.size))] = rng.choice([np.nan, np.inf, -np.inf, 1e300])
    case.tensors[name] = changed.reshape(case.tensors[name].shape)
    case.sign()


def shift_frame(case: Case, rng: np.random.Generator) -> None:
    name = str(rng.choice(["center", "scale"]))
    case.tensors[name] = case.tensors[name] + 10 ** rng.uniform(-3, -1)
    case.sign()


def drop_entry(case: Case, rng: np.random.Generator) -> None:
    needed = ("schema", "bound", "exact_part", "domain", "variables", "dtype", "engine", "weights_sha256", "hex")
    name = str(rng.choice(needed))
    if rng.random() < 0.5:
        del case.certificate[name]
    else:
        case.certificate[name] = (None, "", 7, [], {})[int(rng.integers(5))]


def rename_variables(case: Case, rng: np.random.Generator) -> None:
    names = list(case.model["box"])
    if len(names) > 1:
        case.certificate["variables"] = names[::-1]
    else:
        case.certificate["variables"] = [f"u{rng.integers(9)}"]


def drop_tensor(case: Case, rng: np.random.Generator) -> None:
    del case.tensors[some_tensor(case, rng)]
    case.sign()


MUTATIONS = [
    flip_weight,
    change_weight_and_sign,
    lower_bound,
    lower_total,
    lower_rounding,
    one_form_only,
    edit_tree,
    remove_subtree,
    garble_tree,
    widen_domain,
    widen_domain_and_box,
    change_dtype,
    change_formula,
    break_formula,
    not_a_number,
    shift_frame,
    drop_entry,
    rename_variables,
    drop_tensor,
]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    cases = [sine_case(), plane_case(engine="factorised")]
    for case in cases:
        assert check(case, tmp_path_factory.mktemp("original")).verified
    return cases


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_no_mutated_certificate_is_accepted(mutate: Any, originals: list[Case], tmp_path: Path) -> None:
    for seed in range(4):
        case = copy.deepcopy(originals[seed == 3])
        mutate(case, np.random.default_rng(seed))
        verdict = check(case, tmp_path)
        assert not verdict.verified, f"{mutate.__name__}, seed {seed}: {verdict}"
        assert verdict.reason


def test_truncated_and_flipped_files(originals: list[Case], tmp_path: Path) -> None:
    path = originals[0].write(tmp_path / "case.safetensors")
    content = path.read_bytes()
    rng = np.random.default_rng(5)
    for _ in range(40):
        cut = bytearray(content[: rng.integers(len(content))])
        path.write_bytes(cut)
        assert not verify(path).verified
    tensors_at = 8 + int.from_bytes(content[:8], "little")
    for _ in range(40):
        flipped = bytearray(content)
        flipped[rng.integers(tensors_at, len(content))] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        assert "SHA-256" in verify(path).reason


def test_a_bit_flip_in_the_header_never_weakens_the_statement(originals: list[Case], tmp_path: Path) -> None:
    """A flipped header may still be verified (a digit of the time taken), but then it claims the same."""
    path = originals[0].write(tmp_path / "case.safetensors")
    content = path.read_bytes()
    tensors_at = 8 + int.from_bytes(content[:8], "little")
    rng = np.random.default_rng(6)
    for _ in range(60):
        flipped = bytearray(content)
        flipped[rng.integers(8, tensors_at)] ^= 1 << int(rng.integers(7))
        path.write_bytes(flipped)
        if verify(path).verified:
            header = json.loads(bytes(flipped[8:tensors_at]))["__metadata__"]
            said, true = json.loads(header["certificate"]), originals[0].certificate
            for name in ("bound", "exact_part", "rounding_part", "domain", "dtype", "target", "weights_sha256"):
                assert said[name] == true[name]


# ---------------------------------------------------------------------------------------------------- its own parts


FORMULAS = """
sin(3*x); cos(x*y); tan(x/2); asin(x/2); acos(y/3); atan(2*x); sinh(x); cosh(y); tanh(3*x); exp(-x*y); log(2 + x);
sqrt(2 + x); abs(x - y); sign(x); erf(2*x); min(x, y); max(x, y, x*y); x**3; (2 + x)**1.5; (2 + x)**-2; (2 + x)**y;
where(x < y, x*x, y); where(x >= 0.1, 1, -1); pi*x + e; -x**2; 2**-x; 1/(3 + x); sqrt(x*x + y*y); x/(2 + y)/2 - -x;
max(abs(x - y), 0.2); (x + 1e-3)**2*.5e+1; exp(sin(cos(x)) + tanh(y))**2
""".replace("\n", " ").split(";")


def value_at(text: str, point: list[float]) -> float:
    return float(Expression(text, ["x", "y"])(np.array([point]))[0, 0])


@pytest.mark.parametrize("text", FORMULAS)
def test_models_hold_the_formula(text: str) -> None:
    """On random boxes, the model at random points holds the value that the library computes by other code."""
    rng = np.random.default_rng(3)
    node = Parser(text, ["x", "y"]).outputs()[0]
    ctx.cap = 64
    for degree in (2, 6):
        space = Space(2, degree)
        for _ in range(12):
            centre, radius = rng.uniform(-0.9, 0.9, 2), 10 ** rng.uniform(-3, -0.5)
            axes = [[arb(radius) if i == k else ZERO for k in range(2)] for i in range(2)]
            variables = [Model(space, space.linear(arb(float(centre[i])), axes[i])) for i in range(2)]
            try:
                model = evaluate(node, variables)
            except UndefinedError:
                assume_undefined = ("log", "sqrt", "asin", "acos", "**", "/", "tan")
                assert any(name in text for name in assume_undefined)
                continue
            low, high = model.bounds()
            for _ in range(8):
                s = rng.uniform(-1.0, 1.0, 2)
                value = value_at(text, (centre + radius * s).tolist())
                powers = space.powers([arb(float(x)) for x in s])
                polynomial = sum((a * b for a, b in zip(space.coefficients(model.parts), powers, strict=True)), ZERO)
                slack = arb(1e-13) * (1 + abs(arb(value)))  # the library's own float64 rounding, and that of the point
                assert abs(polynomial - arb(value)) <= (model.error + slack).upper()
                assert low - slack <= arb(value) <= high + slack


@settings(max_examples=150)
@given(st.recursive(
    st.sampled_from(["x", "y", "2", "0.5", "pi", "1e-1"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" + ", "-", "*", " / ", "**"]), inner).map("".join),
        inner.map(lambda t: f"({t})"), inner.map(lambda t: f"-{t}"), inner.map(lambda t: f"cos({t})"),
        st.tuples(inner, inner).map(lambda p: f"max({p[0]}, {p[1]})"),
        st.tuples(inner, inner, inner).map(lambda p: f"where({p[0]} <= {p[1]}, {p[2]}, x)"),
    ),
    max_leaves=8,
))  # fmt: skip
def test_both_parsers_read_the_same_formula(text: str) -> None:
    """Evaluated on a box of no width, the checker's tree has the value of the library's tree."""
    point = [0.3712, 0.8391]
    try:
        expected = value_at(text, point)
    except ValueError:
        assume(False)
        return
    assume(np.isfinite(expected) and abs(expected) < 1e8)
    ctx.cap = 64
    space = Space(2, 2)
    variables = [Model(space, space.linear(arb(x))) for x in point]
    try:
        model = evaluate(Parser(text, ["x", "y"]).outputs()[0], variables)
    except UndefinedError:
        assume(False)
        return
    except NotProvedError as error:
        assume("exponent" in str(error))
        return
    assert abs(model.parts[0][0] - arb(expected)) - model.error <= 1e-9 * (1 + abs(arb(expected)))


@pytest.mark.parametrize(
    "text",
    [
        *["", "x y", "x +", "sin x", "__import__('os')", "x.real", "f(x)", "sin(x, y)", "where(x, 1, 2)", "(x", "x)"],
        *["x < y", "9" * 500, "1e999", "max(x)", "x,,y", "lambda: x", "z", "x**99999", "((" * 6000],
        "sin(" * 400 + "x" + ")" * 400,
    ],
)
def test_hostile_formulas_are_never_verified(text: str, tmp_path: Path) -> None:
    case = sine_case()
    case.target = {**case.target, "text": text}
    case.certificate["target"] = case.target
    assert not check(case, tmp_path).verified


def test_additive_terms_are_numbered_as_documented() -> None:
    tree = Parser("x - (y + 2*x) - -(x - y)", ["x", "y"]).outputs()[0]
    assert [(sign, node[0]) for sign, node in additive_terms(tree)] == [
        (1, "variable"), (-1, "variable"), (-1, "product"), (1, "variable"), (-1, "variable"),
    ]  # fmt: skip


def exact_output(head: Head, t: list[Any], o: int) -> Any:
    """The head in balls, straight from its definition."""
    weights = [
        (sum((arb(float(k)) * x for k, x in zip(row, t, strict=True)), arb(float(b)))).exp()
        for row, b in zip(head.keys, head.biases, strict=True)
    ]
    values = [arb(float(v)) for v in head.values[:, o]]
    if head.slopes is not None:
        for j, slope in enumerate(head.slopes[:, o]):
            values[j] += sum((arb(float(g)) * x for g, x in zip(slope, t, strict=True)), ZERO)
    return sum((w * v for w, v in zip(weights, values, strict=True)), ZERO) / sum(weights, ZERO)


def random_head(rng: np.random.Generator, dim: int, affine: bool, dtype: type) -> Head:
    tokens, outputs = int(rng.integers(2, 40)), int(rng.integers(1, 3))
    steep, tall = 10 ** rng.uniform(0, 3), 10 ** rng.uniform(0, 5)
    keys, biases = steep * rng.normal(size=(tokens, dim)), steep * rng.normal(size=tokens)
    values, slopes = tall * rng.normal(size=(tokens, outputs)), tall * rng.normal(size=(tokens, outputs, dim))
    cast = [array.astype(dtype).astype(float) for array in (keys, biases, values, slopes)]
    return Head(cast[0], cast[1], cast[2], cast[3] if affine else None)


def checked(head: Head, dtype: str) -> CheckedHead:
    data = {"keys": head.keys, "biases": head.biases, "values": head.values}
    if head.slopes is not None:
        data["slopes"] = head.slopes
    made = CheckedHead(data, None, list(range(head.dim)), PRECISIONS[dtype])
    made.measure(np.ones(head.dim), np.ones(head.dim))
    return made


@pytest.mark.parametrize("seed", range(24))
def test_head_models_and_rounding_bounds_hold(seed: int) -> None:
    """Against 400-bit values and against what torch computes, in both dtypes, dense."""
    rng = np.random.default_rng(seed)
    dim, affine = 1 + seed % 3, seed % 2 == 1
    dtype, kind = ((torch.float64, np.float64), (torch.float32, np.float32))[(seed // 2) % 2]
    head = random_head(rng, dim, affine, kind)
    box = Box({f"x{i}": (-1.0, 1.0) for i in range(dim)})
    network = AttentionNetwork([head], box, dtype)
    view = View(checked(head, str(dtype).removeprefix("torch.")), np.arange(head.tokens), 0.0)
    ctx.cap, ctx.prec = 64, 128
    space = Space(dim, 6)
    radius = 10 ** rng.uniform(-3, -1.5) / max(1.0, np.abs(head.keys).max() / 10)
    centre = rng.uniform(-0.9, 0.9, dim)
    boxes = [([arb(float(x)) for x in centre], [arb(radius)] * dim)]
    view = view.narrowed(*boxes[0], 1e-40)
    with np.errstate(all="ignore"):
        models, errors, sizes = next(view.on_boxes(space, boxes, 1e-30))
    s = rng.uniform(-1.0, 1.0, (6, dim))
    points = np.clip(centre + radius * s, centre - radius, centre + radius).astype(kind).astype(float)
    inside = np.all(np.abs(points - centre) <= radius, axis=1)
    run = network.evaluate(points)
    ctx.prec = 400
    for point, output in zip(points[inside], run[inside], strict=True):
        exact_point = [arb(float(x)) for x in point]
        powers = space.powers([(x - c) / arb(radius) for x, c in zip(exact_point, boxes[0][0], strict=True)])
        for o, model in enumerate(models):
            g = exact_output(head, exact_point, o)
            polynomial = sum((a * b for a, b in zip(space.coefficients(model.parts), powers, strict=True)), ZERO)
            assert abs(polynomial - g).lower() <= model.error.upper()  # coefficients are balls, too
            assert abs(g) <= arb(sizes[o])
            assert abs(arb(float(output[o])) - g) <= arb(errors[o])
    ctx.prec = 53


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("engine", ["sdpa", "factorised"])
def test_verified_bounds_hold_for_what_runs(dtype: torch.dtype, engine: str, tmp_path: Path) -> None:
    case = plane_case(dtype=dtype, engine=engine, rounding=2e-3 if dtype == torch.float32 else 1e-11)
    assert check(case, tmp_path).verified
    box = Box(x=(-1.0, 1.0), y=(0.0, 1.0))
    network = AttentionNetwork([fitted_head(box, lambda x: x[:, :1], 8, margin=2)], box, dtype)
    network.load_state_dict({name: torch.from_numpy(tensor.copy()) for name, tensor in case.tensors.items()})
    kind = np.float32 if dtype == torch.float32 else np.float64
    points = np.concatenate([box.sample(100_000, seed=9), box.corners()]).astype(kind).astype(float)
    error = np.abs(network.evaluate(points, engine=engine)[:, 0] - np.sin(2 * points[:, 0]) * np.exp(-points[:, 1]))
    assert error.max() <= case.certificate["bound"]
