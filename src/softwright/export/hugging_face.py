"""A folder for Hugging Face: `config.json`, `model.safetensors` and a model card; no remote code.

    built.export("gelu.hf")

    from softwright.export.hugging_face import register
    from transformers import AutoModel
    register();  model = AutoModel.from_pretrained("gelu.hf");  model(points).values;  model.built.certificate

Writing needs nothing; reading needs transformers and softwright, which brings the class: nothing in the folder is code.
The configuration holds the sections of the model file, certificate included; a model whose weights are not those that
were certified has none, with a warning. `softwright.safetensors` is the model file itself, for `softwright verify`.
The card shows `figure.png`, the figure that `built.plot` draws, where matplotlib is installed.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.numpy import load_file, save

from softwright.errors import FileFormatError, InvalidInput
from softwright.export.claim import claim_lines
from softwright.export.extras import needed
from softwright.fileformat import weights_sha256, write_folder
from softwright.precision import name_of
from softwright.result.built import from_sections
from softwright.result.constructed import tensors_of
from softwright.result.kinds import KINDS

if TYPE_CHECKING:
    from softwright.result.built import Built

_PREFIX = "network."
_REFERENCE = "reference."
FIGURE = "figure.png"


class HuggingFaceFolder:
    """A row of `EXPORTERS`."""

    name = "hf"
    suffix = ".hf"
    kinds = frozenset(name for name, kind in KINDS.items() if kind.stored)
    needs = ""
    summary = "a folder for Hugging Face: config, safetensors and a model card with claim and figure; no remote code"

    def write(self, built: Built[Any], path: Path) -> None:
        sections = built.sections()
        tensors = {f"{_PREFIX}{name}": np.ascontiguousarray(a) for name, a in tensors_of(built.network).items()}
        tensors |= {f"{_REFERENCE}{name}": np.ascontiguousarray(a) for name, a in built.reference.items()}
        config = {
            "architectures": ["SoftwrightModel"],
            "model_type": "softwright",
            "dtype": name_of(built.network.dtype),
            "sections": sections,
        }

        def fill(folder: Path) -> None:
            (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
            (folder / "model.safetensors").write_bytes(save(tensors, {"format": "pt"}))
            figure = FIGURE if find_spec("matplotlib") is not None else None
            if figure:
                built.plot(folder / figure)
            (folder / "README.md").write_text(model_card(built, sections, figure), encoding="utf-8")
            built.save(folder / "softwright.safetensors")

        write_folder(path, fill)


def model_card(built: Built[Any], sections: dict[str, Any], figure: str | None = None) -> str:
    """What the folder's page says: the claim, the figure of that name beside it, what was built, how to run and how to
    verify it."""
    facts = "\n".join(f"| {name} | {str(value).replace('|', '/')} |" for name, value in built.rows())
    lines = [
        "---",
        "library_name: softwright",
        "tags: [softwright, attention, certified]",
        "---",
        "",
        "# Softmax attention whose weights were computed, not trained",
        "",
        *(f"- {line}" for line in claim_lines(sections)),
        "",
        *([f"![what was built, and its error]({figure})", ""] if figure else []),
        "| | |",
        "|---|---|",
        facts,
        "",
        "## Run",
        "",
        "```python",
        "from softwright.export.hugging_face import register",
        "from transformers import AutoModel",
        "",
        "register()  # softwright brings the class; there is no code in this folder",
        "model = AutoModel.from_pretrained(FOLDER)",
        "```",
        "",
        "## Verify",
        "",
        "`softwright verify softwright.safetensors` proves the claim again, and `model.built.certificate` is None",
        "unless the weights that were loaded are those that it speaks of.",
        "",
    ]
    return "\n".join(lines)


@cache
def classes() -> tuple[type, type]:
    """The configuration and the model, as transformers knows them. Needs softwright[hf]."""
    transformers = needed("transformers", "hf")
    output = needed("transformers.modeling_outputs", "hf").ModelOutput

    class SoftwrightConfig(transformers.PretrainedConfig):
        model_type = "softwright"

        def __init__(self, sections: dict[str, Any] | None = None, **others: Any) -> None:
            self.sections = sections or {}
            super().__init__(**others)

    class SoftwrightModel(transformers.PreTrainedModel):
        config_class = SoftwrightConfig
        main_input_name = "points"

        def __init__(self, config: Any, built: Any = None) -> None:
            super().__init__(config)
            if built is None:
                fault = "a model without weights means nothing"
                raise InvalidInput("SoftwrightModel", [f"{fault}; use SoftwrightModel.from_pretrained(FOLDER)"])
            self.built, self.network = built, built.network

        @classmethod
        def from_pretrained(cls, pretrained_model_name_or_path: Any, *_: Any, **options: Any) -> Any:
            """A folder, or a name on the hub: the weights as stored, in their own dtype."""
            find = needed("transformers.utils", "hf").cached_file
            place = str(pretrained_model_name_or_path)
            given = options.get("config")
            config = given if isinstance(given, SoftwrightConfig) else SoftwrightConfig.from_pretrained(place)
            if not isinstance(config.sections, dict) or not isinstance(config.sections.get("model"), dict):
                raise FileFormatError(f"{place}: config.json does not say what the weights mean; export it again")
            stored = load_file(find(place, "model.safetensors"))
            own = {name.removeprefix(_PREFIX): a for name, a in stored.items() if name.startswith(_PREFIX)}
            other = {name.removeprefix(_REFERENCE): a for name, a in stored.items() if name.startswith(_REFERENCE)}
            return cls(config, from_sections(config.sections, own, weights_sha256(own), place, other)).eval()

        @property
        def dtype(self) -> Any:
            return self.network.dtype

        def save_pretrained(self, save_directory: Any, **options: Any) -> None:
            """The folder as transformers writes it, with what the certificate compares the network with."""
            compared = {f"{_REFERENCE}{name}": torch.from_numpy(a.copy()) for name, a in self.built.reference.items()}
            options.setdefault("state_dict", {**self.state_dict(), **compared})
            super().save_pretrained(save_directory, **options)

        def forward(self, points: Any, *inputs: Any, **named: Any) -> Any:
            as_tuple = named.pop("return_dict", True) is False
            found = output(values=self.network(points, *inputs, **named))
            return found.to_tuple() if as_tuple else found

    return SoftwrightConfig, SoftwrightModel


def register() -> None:
    """Tell transformers of the class, so that `AutoModel.from_pretrained` reads such folders."""
    transformers = needed("transformers", "hf")
    config, model = classes()
    transformers.AutoConfig.register("softwright", config, exist_ok=True)
    transformers.AutoModel.register(config, model, exist_ok=True)


EXPORTER = HuggingFaceFolder()
