"""Feed-forward networks as plain data: activations, dense and gated networks, and the readers of what holds them."""

from softwright.targets.mlp.activation import Activation
from softwright.targets.mlp.activations import ACTIVATIONS, BETA, ELU_POWERS, ELU_SHIFT
from softwright.targets.mlp.dense import DenseLayer, DenseNetwork, GatedNetwork, is_sklearn, read_sklearn
from softwright.targets.mlp.files import read_file
from softwright.targets.mlp.torch_reader import KNOWN, activation_of, read_module

__all__ = [
    "ACTIVATIONS",
    "BETA",
    "ELU_POWERS",
    "ELU_SHIFT",
    "KNOWN",
    "Activation",
    "DenseLayer",
    "DenseNetwork",
    "GatedNetwork",
    "activation_of",
    "is_sklearn",
    "read_file",
    "read_module",
    "read_sklearn",
]
