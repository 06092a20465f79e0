"""Feed-forward networks as plain data: activations, dense and gated networks, and the readers of what holds them."""

from softwright.targets.mlp.activation import Activation
from softwright.targets.mlp.activations import ACTIVATIONS, BETA, ELU_POWERS, ELU_SHIFT
from softwright.targets.mlp.dense import DenseLayer, DenseNetwork, GatedNetwork
from softwright.targets.mlp.source import Sample, Sides, Source, look_at, network_of, read_source, run_module
from softwright.targets.mlp.torch_checks import check_parts
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
    "Sample",
    "Sides",
    "Source",
    "activation_of",
    "check_parts",
    "look_at",
    "network_of",
    "read_module",
    "read_source",
    "run_module",
]
