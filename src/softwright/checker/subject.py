"""What every certificate must be before anything is proved of it: of this file's network, target and dtype, in known
entries of known types, without characters that a terminal would obey.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from softwright.checker.entries import (
    Test,
    at_least_zero,
    check_entries,
    check_others,
    is_count,
    is_float,
    is_number,
    is_object,
    is_text,
    list_of,
    same,
)
from softwright.checker.refusal import NotProvedError, printable, require
from softwright.fileformat import ModelFile

_BOTH: dict[str, Test] = {
    **dict.fromkeys(("schema", "dtype", "engine", "norm", "method", "version", "weights_sha256"), is_text),
    **dict.fromkeys(("bound", "exact_part", "rounding_part"), at_least_zero),
    "seconds": at_least_zero,
    "assumptions": list_of(is_text),
    "target": is_object,
    "reference_sha256": is_text,
}
PROVED: dict[str, Test] = {  # of a whole proof and of one of its parts
    "variables": list_of(is_text),
    **dict.fromkeys(("exact_part", "rounding_part"), at_least_zero),
    "hex": is_object,
}
ENTRIES: dict[str, dict[str, Test]] = {
    "softwright-certificate/1": {
        **_BOTH,
        **PROVED,
        "domain": is_object,
        **dict.fromkeys(("order", "boxes"), is_count),
        "tree": lambda value: value is None or is_text(value) or list_of(is_object)(value),
        "lower": at_least_zero,
        "witness": list_of(is_number),
        "p": lambda value: value is None or is_number(value),
        "between": is_object,
    },
    "softwright-closed-form/1": {
        **_BOTH,
        **dict.fromkeys(("bound", "exact_part", "rounding_part"), is_float),
        "statement": is_text,
        "quantities": is_object,
        **dict.fromkeys(("domain", "parts", "hex", "outside"), is_object),  # of compositions
        "variables": list_of(is_text),
    },
}


def check_subject(file: ModelFile) -> None:
    """The certificate speaks of the weights, the target and the dtype in the file, and says nothing else."""
    check_certificate(file)
    check_others(file)


def check_certificate(file: ModelFile) -> None:
    """The same where there are no other sections: of a network within a file."""
    said, model = file.sections["certificate"], file.sections["model"]
    tests, optional = ENTRIES[said["schema"]], ("between", "reference_sha256", "outside")
    if "statement" in tests and model["kind"] != "composition":
        foreign = {"domain", "parts", "hex", "variables", "outside"}
        foreign -= {"parts"} if model["kind"] == "program" else set()
        tests = {name: test for name, test in tests.items() if name not in foreign}
    check_entries(said, tests, "the certificate", optional)
    require(said["weights_sha256"] == file.weights_sha256, "the weights are not the ones that were certified (SHA-256)")
    reference = said.get("reference_sha256", "")
    require(reference == file.reference_sha256, "the reference tensors are not the ones that were certified (SHA-256)")
    require(same(said["target"], file.sections.get("target")), "the file's target is not the one that was certified")
    require(said["dtype"] == model.get("dtype", said["dtype"]), "the dtype stated is not the model's")
    for name, content in (*file.sections.items(), ("names of tensors", list(file.tensors))):
        for text in texts(content):
            if not text.isprintable():  # the reason is written only where there is one: a file has many texts
                raise NotProvedError(f"control characters in {name}: {printable(text, 80)}")


def texts(content: Any) -> Iterator[str]:
    """All texts of a JSON value, keys included."""
    pending = [content]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            pending += [*value, *value.values()]
        elif isinstance(value, list):
            pending += value
