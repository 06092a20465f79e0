"""Files of released versions: they load with the same tensors, answer as they did, and get the same verdict.

`tests/data/<version>/` holds what a version wrote and what it answered then; `tests/data/write.py` says how.

How near an answer must be. Where a certificate bounds rounding on all inputs, that is the allowance: both runs lie
within it of the network in real arithmetic. Elsewhere it is a number of units of roundoff of the largest answer: enough
for another order of summation, and no more. Stacks of many layers magnify such differences, so they have more.
"""

from __future__ import annotations

import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

import softwright as sw
from softwright.checker.verify import STEPS
from softwright.fileformat import READERS, read_model, write_model
from softwright.result.certified import read_certificate
from tests.data.write import answer, plain, tensors_hash

DATA = Path(__file__).parent.parent / "data"
VERSIONS = sorted(folder.name for folder in DATA.iterdir() if (folder / "files.zip").is_file())
EXPECTED = {version: json.loads((DATA / version / "expected.json").read_text("utf-8")) for version in VERSIONS}
CASES = [(version, name) for version in VERSIONS for name in EXPECTED[version]]
ULPS, ULPS_OF_STACKS = 2**12, 2**19
ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stored")
    for version in VERSIONS:
        with zipfile.ZipFile(DATA / version / "files.zip") as archive:
            archive.extractall(place / version)
    return place


@pytest.fixture(scope="module")
def arrays() -> dict[str, dict[str, np.ndarray]]:
    """Of every version the stored inputs and outputs."""
    stored = {}
    for version in VERSIONS:
        with np.load(DATA / version / "answers.npz", allow_pickle=False) as content:
            stored[version] = dict(content)
    return stored


def loaded(place: Path) -> sw.Built:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no certificate may be dropped on the way
        return sw.load_shards(place) if place.is_dir() else sw.load(place.with_name(f"{place.name}.safetensors"))


def bounds_rounding(built: sw.Built) -> bool:
    """Whether the certificate bounds the rounding at every point of the model's box."""
    certificate = built.certificate
    if certificate is None or certificate.rounding_part == 0 or built.kind == "in_context":  # which bounds one step
        return False
    if built.kind != "approximation":
        return True
    return certificate.norm == "sup" and certificate.box == built.network.box and built.target["kind"] != "table"


def allowance(built: sw.Built, out: np.ndarray) -> float:
    if bounds_rounding(built):
        return built.certificate.rounding_part
    ulps = ULPS_OF_STACKS if built.kind == "in_context" else ULPS
    return ulps * ROUNDOFF[built.plan.dtype] * float(np.abs(out).max(initial=0.0))


# Version 0.1.0 said VERIFIED of a proof on a part of the model's box, as if it covered the whole.
DESERVED = {f"approximation-certified-part-of-the-box-{dtype}": "VERIFIED ON A PART" for dtype in ROUNDOFF}
# It said CONSISTENT of what it could not prove again. The longest beginning of a name that stands here counts.
ONCE_CONSISTENT = {
    "in_context": "VERIFIED",
    "approximation": "VERIFIED GIVEN",  # callables and tables, which these files do not hold
    "transpiled": "VERIFIED",
    "theorem": "NOT VERIFIED",  # most files do not hold what was drawn
    "theorem-A5": "VERIFIED",  # these draw nothing
    "theorem-C3": "VERIFIED",
}
DESERVED |= {
    name: ONCE_CONSISTENT[max((start for start in ONCE_CONSISTENT if name.startswith(start)), key=len)]
    for name, said in EXPECTED["v1"].items()
    if said.get("status") == "CONSISTENT"
}


@pytest.mark.parametrize(("version", "name"), CASES, ids=[f"{version}-{name}" for version, name in CASES])
def test_a_stored_file_is_what_it_was(
    version: str, name: str, unpacked: Path, arrays: dict[str, dict[str, np.ndarray]]
) -> None:
    said, place = EXPECTED[version][name], unpacked / version / name
    built = loaded(place)
    state = {key: tensor.numpy() for key, tensor in built.network.state_dict().items()}
    assert tensors_hash(state) == said["tensors"]

    inputs: dict[str, Any] = {"": said["questions"]} if said["questions"] is not None else {}
    for key, array in arrays[version].items():
        owner, argument, *engine = key.split("|")
        if owner == name and not engine:
            inputs[argument] = array
    for engine in said["engines"]:
        out, key = answer(built, inputs, engine), f"{name}||{engine}"
        if key in arrays[version]:
            before = arrays[version][key]
            assert out.dtype == before.dtype
            assert out.shape == before.shape
            assert np.abs(out - before).max() <= allowance(built, before)
        else:
            assert json.loads(json.dumps(plain(out))) == said["answers"][engine]

    if not place.is_dir():  # a checker reads single files
        deserved = DESERVED.get(name, said["status"]) if version == "v1" else said["status"]
        assert sw.verify(place.with_name(f"{name}.safetensors")).status == deserved


def test_every_version_that_can_be_read_is_stored(unpacked: Path) -> None:
    assert {f"v{version}" for version in READERS} == set(VERSIONS)
    for version in VERSIONS:
        for path in (unpacked / version).glob("*.safetensors"):
            with safe_open(path, framework="numpy") as file:
                assert f"v{file.metadata()['softwright']}" == version


@pytest.mark.parametrize("version", VERSIONS)
def test_every_kind_dtype_and_certificate_is_stored(version: str, unpacked: Path) -> None:
    kinds, certificates, dtypes, steps = set(), set(), set(), set()
    for path in sorted((unpacked / version).glob("*.safetensors")):
        sections = read_model(path).sections
        said = sections.get("certificate")
        kinds.add(sections["model"]["kind"])
        dtypes.add((sections["model"]["kind"], sections["plan"]["dtype"]))
        if said is not None:
            steps |= {step["step"] for step in said.get("evidence", ())}
            said = read_certificate(said).flat()
        certificates.add("none" if said is None else said["schema"])
        if said is not None and "tree" in said:
            certificates |= {said["norm"], f"engine {said['engine']}"}
            certificates.add({list: "parts", str: "tree", type(None): "closed"}[type(said["tree"])])
            certificates.add("between" if said.get("between") else f"target {said['target']['kind']}")
    assert kinds == {"approximation", "memory", "transpiled", "in_context", "theorem"}
    assert dtypes >= {(kind, dtype) for kind in kinds - {"theorem"} for dtype in ROUNDOFF}
    assert certificates >= {
        "none",
        "softwright-certificate/1",
        "softwright-closed-form/1",
        "sup",
        "Lp",
        "engine sdpa",
        "engine factorised",
        "tree",
        "parts",
        "closed",
        "between",
        "target expression",
        "target function",
    }
    # No verb compares with a table's interpolant; stacks and programs are stored for good with the release of layout 2.
    assert version == "v1" or steps == set(STEPS) - {"cells", "compose", "columns"}


def odd_ones(value: Any) -> list[Any]:
    """What a file might say instead; None stands for nothing at all."""
    numbers = [-value, value + 0.5, True] if isinstance(value, int | float) else []
    return [*numbers, None, "?", [], {}]


@pytest.mark.parametrize(
    ("name", "section", "path"),
    [
        ("approximation-table-line-float64", "certificate", ("between",)),
        ("approximation-table-line-float64", "plan", ("heads", 0)),
        ("approximation-polyhedral-float32", "plan", ("heads", 0)),
        ("approximation-polyhedral-float32", "observed", ()),
    ],
)
def test_what_is_verified_loads(name: str, section: str, path: tuple[Any, ...], unpacked: Path, tmp_path: Path) -> None:
    """-7 boxes between points, and a head without its largest value, were VERIFIED and could not be loaded."""
    file = read_model(unpacked / "v1" / f"{name}.safetensors")
    spot = file.sections[section]
    for key in path:
        spot = spot[key]
    taken = 0
    for leaf, value in list(spot.items()):
        for odd in odd_ones(value):
            spot[leaf] = odd
            if odd is None:
                del spot[leaf]
            write_model(tmp_path / "odd.safetensors", file.tensors, file.sections)
            spot[leaf] = value
            if sw.verify(tmp_path / "odd.safetensors").status != "NOT VERIFIED":
                assert sw.load(tmp_path / "odd.safetensors").certificate is not None
                taken += 1
    assert taken < 7 * len(spot)
