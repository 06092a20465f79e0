"""What runs inside a network is what was proved, whatever torch is told outside.

Two settings would void bounds without a word. Autocast, in which training loops run, computes products of float32
numbers in bfloat16 or float16. `torch.set_float32_matmul_precision`, and the settings of `torch.backends` that it
stands for, let CPUs that can do so multiply float32 matrices in bfloat16 or TF32. So every forward of a network
switches both off for itself, and puts them back. The default dtype needs no switch: no forward makes a tensor without
saying of which type.

The precision of products is one setting for the whole process, autocast is one for each thread. Networks that run in
several threads therefore share one switch: the first to come turns it, the last to leave turns it back. A compiler
traces neither; what it makes of a network is not what certificates speak of.

`looked_through` is asked where a forward would look at numbers or sizes only to save time or memory: while a graph is
recorded, or torch.func differentiates or batches what runs, there are none to look at. The plain formula runs then, in
one piece, and attention by the kernel that has derivatives of every order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from types import TracebackType
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

Options = ParamSpec("Options")
Module = TypeVar("Module")
Forward = Callable[Concatenate[Module, Tensor, Options], Tensor]
_FULL = ("ieee", "none")  # "none": nobody has asked for less


class _OwnSetting:
    """`torch.backends.mkldnn.matmul.fp32_precision`: what the CPU kernels ask."""

    def __init__(self, place: Any) -> None:
        self.place = place

    def read(self) -> str:
        return str(self.place.fp32_precision)

    def write(self, value: str) -> None:
        self.place.fp32_precision = "none"
        if self.read() != value:  # else it was, and is again, inherited from a more general setting
            self.place.fp32_precision = value


class _CommonSetting:
    """The same before torch had settings for each backend."""

    _names: ClassVar[dict[str, str]] = {"highest": "ieee", "high": "tf32", "medium": "bf16"}

    def read(self) -> str:
        return self._names[torch.get_float32_matmul_precision()]

    def write(self, value: str) -> None:
        torch.set_float32_matmul_precision({own: name for name, own in self._names.items()}[value])


_PLACE = getattr(torch.backends.mkldnn, "matmul", None)
SETTING: _OwnSetting | _CommonSetting = _CommonSetting() if _PLACE is None else _OwnSetting(_PLACE)


class _FullProducts:
    """A context, for any number of threads, in which float32 matrices are multiplied in float32."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.before = "none"

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                self.before = SETTING.read()
                if self.before not in _FULL:
                    SETTING.write("ieee")
            self.inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0 and self.before not in _FULL:
                SETTING.write(self.before)


_PRODUCTS = _FullProducts()
_TRANSFORMS = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", lambda: None)


def looked_through() -> bool:
    """Whether what runs is recorded as a graph, or is one level of torch.func: numbers and sizes are then not known."""
    return torch.compiler.is_compiling() or _TRANSFORMS() is not None


def derivatives_taken() -> bool:
    """Whether torch.func or forward mode differentiates what runs."""
    return _TRANSFORMS() is not None or getattr(forward_ad, "_current_level", -1) >= 0


def differentiable() -> AbstractContextManager[Any]:
    """A context in which attention has the derivatives that are being taken while a network runs, if any: fused kernels
    have none in forward mode, and none of second order."""
    taken = derivatives_taken() and not torch.compiler.is_compiling()
    return sdpa_kernel(SDPBackend.MATH) if taken else nullcontext()


class _Inside(threading.local):
    """How many of these contexts this thread is in."""

    depth = 0


_INSIDE = _Inside()
_NOTHING = nullcontext()


class _AsProved:
    """Autocast off where it is on, products in full, attention with the derivatives that are taken."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.inner: list[AbstractContextManager[Any]] = []

    def __enter__(self) -> None:
        _PRODUCTS.__enter__()
        try:
            if torch.is_autocast_enabled(self.device):
                self.inner.append(torch.autocast(self.device, enabled=False))
            if derivatives_taken():
                self.inner.append(sdpa_kernel(SDPBackend.MATH))
            for context in self.inner:
                context.__enter__()
        except BaseException:
            _PRODUCTS.__exit__(None, None, None)
            raise
        _INSIDE.depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _INSIDE.depth -= 1
        try:
            for context in reversed(self.inner):
                context.__exit__(kind, error, trace)
        finally:
            _PRODUCTS.__exit__(kind, error, trace)


def as_proved(tensor: Tensor) -> AbstractContextManager[Any]:
    """A context without autocast on the tensor's device, and with float32 products in full."""
    device = tensor.device.type
    if torch.compiler.is_compiling():
        return torch.autocast(device, enabled=False)
    if _INSIDE.depth and not torch.is_autocast_enabled(device) and not derivatives_taken():
        return _NOTHING  # a part of a network that runs so already
    return _AsProved(device)


def runs_as_proved(forward: Forward[Module, Options]) -> Forward[Module, Options]:
    """A forward that computes in its own dtype and in full, always."""

    @wraps(forward)
    def run(module: Module, inputs: Tensor, /, *args: Options.args, **kwargs: Options.kwargs) -> Tensor:
        with as_proved(inputs):
            return forward(module, inputs, *args, **kwargs)

    return run
