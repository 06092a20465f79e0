"""One function per format: a network in, what runs its exported form out; None where the runtime is not installed.

Files are run as they were written. TransformerLens and stock attention have no file: the module stands for it, and
since every token asks there, a batch is answered in pieces of at most `TOGETHER` scores. Layouts of one transpiled
network have one such form, which answers once.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch

import softwright as sw
from softwright.export.lens import to_lens
from softwright.export.programs import program_of
from softwright.export.selftest import answered
from softwright.export.stock import head_size, stock_attention
from softwright.export.token_stack import TokenStack
from softwright.precision import name_of

Run = Callable[..., np.ndarray]
TOGETHER = 1 << 25  # scores, or entries of queries, of all heads of a layer
LEVELS = ("-O0", "-O2", "-O3")
_ANSWERS: dict[bytes, np.ndarray] = {}  # by what was asked and what it was asked of


def by_onnxruntime(built: sw.Built[Any], folder: Path, _: tuple[np.ndarray, ...]) -> Run | None:
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    onnxruntime = importlib.import_module("onnxruntime")
    built.export(folder / "f.onnx")
    session = onnxruntime.InferenceSession(str(folder / "f.onnx"), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    return lambda *x: session.run(None, dict(zip(names, x, strict=True)))[0]


def by_reference(built: sw.Built[Any], folder: Path, _: tuple[np.ndarray, ...]) -> Run | None:
    if importlib.util.find_spec("onnx") is None:
        return None
    import onnx
    from onnx.reference import ReferenceEvaluator

    built.export(folder / "f.onnx")
    model = onnx.load(folder / "f.onnx")
    evaluator = ReferenceEvaluator(model)
    names = [one.name for one in model.graph.input]
    return lambda *x: np.asarray(next(iter(evaluator.run(None, dict(zip(names, x, strict=True))))))


def by_numpy(built: sw.Built[Any], folder: Path, _: tuple[np.ndarray, ...]) -> Run | None:
    built.export(folder / "f.py")
    return _module(folder / "f.py").f


def by_jax(built: sw.Built[Any], folder: Path, _: tuple[np.ndarray, ...]) -> Run | None:
    if importlib.util.find_spec("jax") is None:
        return None
    jax = importlib.import_module("jax")
    built.export(folder / "f.jax.py")
    run = jax.jit(_module(folder / "f.jax.py").f)
    return lambda *x: np.asarray(run(*x))


def by_torch_export(built: sw.Built[Any], _: Path, given: tuple[np.ndarray, ...]) -> Run | None:
    batch = torch.export.Dim("batch", min=1, max=1 << 20)
    few = tuple(torch.from_numpy(array[:5]) for array in given)
    shapes = tuple({0: batch} for _ in few)
    program = torch.export.export(built.network, few, dynamic_shapes=shapes, strict=False).module()
    return lambda *x: program(*map(torch.from_numpy, x)).detach().numpy()


def by_hugging_face(built: sw.Built[Any], folder: Path, _: tuple[np.ndarray, ...]) -> Run | None:
    """The folder as written, read by AutoModel, saved by save_pretrained and read again."""
    if importlib.util.find_spec("transformers") is None:
        return None
    from softwright.export.hugging_face import register

    register()
    auto = importlib.import_module("transformers").AutoModel
    built.export(folder / "f.hf")
    auto.from_pretrained(str(folder / "f.hf")).save_pretrained(folder / "again.hf")
    model = auto.from_pretrained(str(folder / "again.hf"))
    assert model.built.certificate == built.certificate

    def run(*x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return model(*map(torch.from_numpy, x)).values.numpy()

    return run


def by_lens(built: sw.Built[Any], _: Path, given: tuple[np.ndarray, ...]) -> Run | None:
    if importlib.util.find_spec("transformer_lens") is None:
        return None
    folder = str(Path(__file__).resolve().parents[1])
    sys.path = [place for place in sys.path if place != folder]  # its datasets.py bears the name of a package needed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = to_lens(built, **_sizes(built, given))
    return InPieces(model, model.stack)


def by_stock(built: sw.Built[Any], _: Path, given: tuple[np.ndarray, ...]) -> Run | None:
    module = stock_attention(built, **_sizes(built, given))
    return InPieces(module, module.stack)


def _sizes(built: sw.Built[Any], given: tuple[np.ndarray, ...]) -> dict[str, int]:
    if built.kind == "program":
        return {"length": given[0].shape[1]}
    return {"rows": given[0].shape[1], "queries": given[2].shape[1]} if built.kind == "in_context" else {}


class InPieces:
    """A module in whose every layer every token asks, and how many inputs go together."""

    def __init__(self, call: Callable[..., torch.Tensor], stack: TokenStack) -> None:
        self.call, tokens = call, len(stack.base)
        heads = max(layer.Wq.shape[0] for layer in stack.layers)
        size = head_size(*(n for layer in stack.layers for n in (layer.Wq.shape[2], layer.Wv.shape[2])))
        self.together = max(1, TOGETHER // (heads * tokens * max(tokens, size)))
        self.embed, self.digest = stack.embed, sha256(type(call).__name__.encode())
        of_layers = [tensor for one in stack.layers for tensor in (one.Wq, one.Wk, one.Wv, one.Wo)]
        for tensor in (stack.base, stack.read, *of_layers):
            self.digest.update(tensor.detach().numpy().tobytes())

    def __call__(self, *x: np.ndarray) -> np.ndarray:
        asked = self.digest.copy()
        few = self.embed(*(torch.from_numpy(array[:64]) for array in x))  # affine in few numbers: 64 inputs tell it
        for array in (*x, few.numpy()):
            asked.update(array.tobytes())
        if asked.digest() not in _ANSWERS:
            with torch.no_grad():
                starts = range(0, len(x[0]), self.together)
                pieces = [[torch.from_numpy(a[at : at + self.together]) for a in x] for at in starts]
                _ANSWERS[asked.digest()] = np.concatenate([self.call(*piece).numpy() for piece in pieces])
        return _ANSWERS[asked.digest()]


EXPORTERS: dict[str, Callable[[sw.Built[Any], Path, tuple[np.ndarray, ...]], Run | None]] = {
    "onnxruntime": by_onnxruntime,
    "onnx reference": by_reference,
    "NumPy": by_numpy,
    "JAX": by_jax,
    "torch.export": by_torch_export,
    "Hugging Face": by_hugging_face,
    "TransformerLens": by_lens,
    "MultiheadAttention": by_stock,
}
ALL_ASK = (by_lens, by_stock)  # forms in which every token asks in every layer


def c_runs(
    built: sw.Built[Any], folder: Path, given: tuple[np.ndarray, ...], levels: tuple[str, ...] = LEVELS
) -> dict[str, Run]:
    """One function per level and compiler that is found; each must refuse -ffast-math."""
    built.export(folder / "f.c")
    compilers = [name for name in ("gcc", "clang") if shutil.which(name)]
    for name in compilers:
        fast = [name, "-ffast-math", "-fsyntax-only", str(folder / "f.c")]
        refused = subprocess.run(fast, capture_output=True, text=True, check=False)
        assert refused.returncode != 0 and "voids the claim" in refused.stderr, f"{name} takes -ffast-math"
    return {f"{name} {level}": _linked(folder, name, level, built, given) for name in compilers for level in levels}


def _linked(folder: Path, compiler: str, level: str, built: sw.Built[Any], given: tuple[np.ndarray, ...]) -> Run:
    """A shared object with one more function, which asks about one input after another."""
    one = tuple(array[:1] for array in given)
    dtype, shape = name_of(built.network.dtype), answered(built, one).shape[1:]
    real = "double" if dtype == "float64" else "float"
    takes = [f"const {'long long' if array.dtype == np.int64 else real} *x{i}" for i, array in enumerate(one)]
    program, sizes = program_of(built), dict[str, int]()
    for letters, array in zip(program.inputs.values(), one, strict=True):
        sizes |= {n: size for n, size in zip(letters, array.shape, strict=True) if isinstance(n, str)}
    free = program.free
    head = f"void network({', '.join([*(f'int {n}' for n in free), *takes, f'{real} *y'])});\n"
    many = f"void many({', '.join([*takes, f'{real} *y'])}, long count)"
    at = [f"x{i} + {array.size} * i" for i, array in enumerate(one)]
    call = ", ".join([*(str(sizes[n]) for n in free), *at, f"y + {int(np.prod(shape))} * i"])
    loop = f"{head}{many};\n{many}\n{{ for (long i = 0; i < count; i++) network({call}); }}\n"
    (folder / "loop.c").write_text(loop)
    place = folder / f"{compiler}{level}.so"
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fPIC", "-shared"]
    files = [str(folder / "f.c"), str(folder / "loop.c")]
    subprocess.run([compiler, *strict, level, *files, "-o", str(place), "-lm"], check=True)
    function = ctypes.CDLL(str(place)).many
    function.argtypes = [*[ctypes.c_void_p] * (len(one) + 1), ctypes.c_long]

    def run(*x: np.ndarray) -> np.ndarray:
        kept = [np.ascontiguousarray(array) for array in x]
        out = np.full((len(kept[0]), *shape), np.nan, dtype=dtype)
        function(*(array.ctypes.data for array in kept), out.ctypes.data, len(out))
        return out

    return run


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("exported", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
