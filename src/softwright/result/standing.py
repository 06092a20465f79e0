"""`Standing`: a certificate is shown as long as it speaks of the network as it is now.

A certificate names the weights it was proved for by their SHA-256, the dtype they run in, and torch's CPU kernels. A
network is an ordinary module: it can be cast, moved, trained, or loaded with other weights, and every one of these
leaves the proof behind. So whoever asks for the certificate of a `Built` gets it only if a look at the network, at that
moment, finds what the proof speaks of; else nothing, and `void_reason` says why. Undoing the change (`network.cpu()`,
the old weights) brings it back. The look is a digest of all weights, a second for a gigabyte: whatever way they were
changed, versions and addresses of tensors would miss some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softwright.precision import PRECISIONS, name_of
from softwright.result.certified import Certified
from softwright.result.constructed import Network, digest_of

if TYPE_CHECKING:
    from softwright.result.built import Built

_DEVICE = "cpu"  # the rounding bounds are of torch's CPU kernels


def void_reason(network: Network, certificate: Certified) -> str:
    """Why the certificate does not speak of the network as it is now, with the remedy; empty if it does."""
    proved, now = certificate.dtype, _moved(network)
    if now:
        return now
    dtype = name_of(network.dtype)
    if dtype != proved:
        remedy = f"build with dtype={dtype!r}" if dtype in PRECISIONS else f"only {', '.join(PRECISIONS)} are proved"
        return f"the network was cast to {dtype}, the proof is of {proved}; {remedy}"
    runs, said = getattr(network, "engine", None), getattr(certificate, "engine", None)
    if runs is not None and said is not None and runs != said and {"double", "window", "tree"} & {runs, said}:
        return (
            f"the network runs by engine {runs!r}, the proof is of {said!r}; set network.engine = {said!r}, or certify"
        )
    if unstorable(network) or digest_of(network) != certificate.weights_sha256:
        return "the weights were changed after the proof; certify the network again, or build it again"
    return ""


def unstorable(network: Network) -> str:
    """Why no file can hold the network as it is now, with the remedy; empty if one can."""
    if now := _moved(network):
        return now
    for name, tensor in network.state_dict().items():
        dtype = name_of(getattr(tensor, "dtype", ""))
        if dtype.startswith(("float", "bfloat")) and dtype not in PRECISIONS:
            return f"{name} was cast to {dtype}; files hold {' and '.join(PRECISIONS)}, build it again"
    return ""


def _moved(network: Network) -> str:
    # A tensor of torch is on a device that has a type; arrays of a file are on none.
    devices = {getattr(getattr(x, "device", None), "type", _DEVICE) for x in network.state_dict().values()}
    away = sorted(devices - {_DEVICE})
    if not away:
        return ""
    back = "build it again" if "meta" in away else "network.cpu() brings it back"
    return f"the network was moved to {away[0]}, the proof is of torch's CPU kernels; {back}"


class Standing:
    """The field `certificate` of a `Built`: what was issued, while it stands; None once it is void."""

    def __get__(self, built: Built[Any] | None, owner: type | None = None) -> Any:
        if built is None:
            return None  # what a `Built` without a certificate has
        found = issued(built)
        return None if found is None or void_reason(built.network, found) else found

    def __set__(self, built: Built[Any], certificate: Certified | None) -> None:
        built.__dict__["certificate"] = certificate


def issued(built: Built[Any]) -> Certified | None:
    """The certificate as it was issued, whether it still stands or not."""
    return built.__dict__["certificate"]
