"""Tokenizer files of the package tokenizers."""

from __future__ import annotations

import json

import numpy as np

from hostility.folder import Folder
from hostility.mutations import changed, garbled

VALID = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": {"type": "Lowercase"},
    "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "[UNK]": 2}, "unk_token": "[UNK]"},
}  # fmt: skip
OTHER_MODELS = (
    {"type": "BPE", "dropout": None, "unk_token": None, "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]},
    {"type": "Unigram", "unk_id": 0, "vocab": [["a", -1.0], ["b", -2.0]], "byte_fallback": False},
    {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 10,
     "vocab": {"a": 0, "[UNK]": 1}},
)  # fmt: skip
PATTERNS = ("(a+)+$", "(?:x*)*y", "[", "\\p{L}+|(?=(", "(?<n>a)\\k<n>")


class TokenizerFiles:
    def prepare(self, folder: Folder) -> None:
        (folder.path / "t.csv").write_text("t,l\na b,1\nb a unknown words,2\n" + "a" * 40 + ",3\n")

    def content(self, rng: np.random.Generator) -> bytes:
        valid = dict(VALID)
        if rng.random() < 0.4:
            valid["model"] = OTHER_MODELS[rng.integers(len(OTHER_MODELS))]
        match rng.integers(5):
            case 0:
                return garbled(rng, json.dumps(valid).encode())
            case 1:
                depth = int(rng.choice([100, 2000, 200_000]))
                return ('{"version": "1.0", "model": ' + str(rng.choice(["[", '{"a":'])) * depth).encode()
            case 2:
                pattern = {"Regex": PATTERNS[rng.integers(len(PATTERNS))]}
                valid["pre_tokenizer"] = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
                return json.dumps(valid).encode()
            case _:
                return json.dumps(changed(rng, valid)).encode()

    def attack(self, rng: np.random.Generator, folder: Folder) -> str:
        path = folder.write("t.json", self.content(rng))
        command = ("memorize", folder.path / "t.csv", "--text", "t", "--label", "l", "--no-certify")
        return folder.run(*command, "--tokenizer", path)
