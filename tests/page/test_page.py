"""Pages as files: one request, their own script alone, small, and nothing that a file says becomes markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import softwright as sw
from softwright.page.formula import KNOWN, tape_of
from softwright.page.write import asset, html_of
from softwright.result.kinds import KINDS
from softwright.targets import Expression
from tests.contracts.kinds_made import MADE

LARGEST = 60_000
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>'\"&"


class _Reader(HTMLParser):
    """Elements by tag, their attributes, and the text inside scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self._open = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = tag
        if tag in self.inside:
            self.inside[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open in self.inside:
            self.inside[self._open][-1] += data


def _weights(built: sw.Built) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in built.network.state_dict().values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_one_small_file_that_may_run_its_own_script_alone(kind: str) -> None:
    built = MADE[kind]()
    page = html_of(built)
    read = _Reader(page)
    policy = next(a["content"] or "" for tag, a in read.elements if a.get("http-equiv") == "Content-Security-Policy")
    data, script = read.inside["script"]
    hashes = [
        "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (script, *read.inside["style"])
    ]
    assert policy.startswith("default-src 'none'; ")
    assert [f"'{name}'" in policy for name in hashes] == [True, True]
    assert "unsafe" not in policy
    assert not {tag for tag, _ in read.elements} & {"link", "img", "iframe", "object", "embed", "base"}
    assert not any(name.startswith("on") or name in ("src", "href", "style") for _, a in read.elements for name in a)
    assert not re.search(
        r"\beval\b|new Function|innerHTML|outerHTML|insertAdjacentHTML|document\.write|fetch\(|XMLHttp|import\(", script
    )
    json.loads(data)
    assert len(page.encode()) <= LARGEST + 2 * _weights(built)


@pytest.mark.parametrize("kind", KINDS)
def test_claim_hypotheses_and_the_command_stand_in_the_text(kind: str) -> None:
    built = MADE[kind]()
    page = html_of(built, file="it's mine.safetensors")
    assert built.certificate.weights_sha256 in page
    assert "softwright verify &#x27;it&#x27;&quot;&#x27;&quot;&#x27;s mine.safetensors&#x27;" in page
    assert page.count("<li>") >= len(built.certificate.hypotheses)
    bound = built.certificate.bound
    assert ("proved exact" if bound == 0 else f"proved ≤ {bound:.4g}") in page


def test_a_page_without_a_proof_says_so() -> None:
    built = sw.approximate("sin(x)", sw.Box(x=(-1, 1)), tol=1e-3, certify=False)
    assert "not proved" in html_of(built)
    changed = sw.approximate("sin(x)", sw.Box(x=(-1, 1)), tol=1e-3)
    changed.network.float()
    assert "certificate void" in html_of(changed)


def test_texts_never_become_markup() -> None:
    def target(x: np.ndarray) -> np.ndarray:
        return np.tanh(x)

    target.__name__ = HOSTILE
    built = sw.approximate(target, sw.Box(x=(-1, 1)), tol=1e-3)
    page = html_of(built, file=HOSTILE)
    assert "<img" not in page
    assert len(_Reader(page).inside["script"]) == 2
    framed = built._repr_html_()
    assert framed is not None
    assert framed.count("<") == 2  # the frame opens and closes; all else is in its attribute
    assert 'sandbox="allow-scripts"' in framed


def test_every_operation_has_a_rule_in_the_page() -> None:
    table = asset("formula.js").split("const OPS = {")[1].split("\n};")[0]
    named = set(re.findall(r"(?:^|[\s,])([a-z_0-9]+)(?=:|,|$)", table))
    assert named >= KNOWN


def test_tapes_hold_constants_as_python_folds_them() -> None:
    tape = tape_of(Expression("x*(pi/4) + 1/3 - y"))
    assert tape is not None
    constants = [step[1] for step in tape["steps"] if step[0] == "c"]
    assert np.pi / 4 in constants
    assert 1 / 3 in constants


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    built = MADE["approximation"]()
    built.page(tmp_path / "f.html")
    assert (tmp_path / "f.html").read_text(encoding="utf-8") == html_of(built)
    with pytest.raises(sw.FileFormatError):
        built.page(tmp_path / "nowhere" / "f.html")
    assert [path.name for path in tmp_path.iterdir()] == ["f.html"]


def test_a_network_in_another_type_has_no_page() -> None:
    built = sw.approximate("sin(x)", sw.Box(x=(-1, 1)), tol=1e-3)
    built.network.half()
    with pytest.raises(sw.InvalidInput, match="float32"):
        html_of(built)
    assert built._repr_html_() is None


def test_too_large_for_a_notebook_is_left_to_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softwright.page.write.LARGEST_INLINE", 1000)
    assert MADE["approximation"]()._repr_html_() is None
