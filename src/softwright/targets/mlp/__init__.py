"""Feed-forward networks as plain data: activations, dense and gated networks, and the readers of what holds them."""

from softwright.targets.mlp.activation import Activation
from softwright.targets.mlp.activations import ACTIVATIONS, BETA, ELU_POWERS, ELU_SHIFT
from softwright.targets.mlp.branches import Branch
from softwright.targets.mlp.dense import DenseLayer, DenseNetwork, GatedNetwork
from softwright.targets.mlp.onnx_reader import BEFORE_SOFTMAX
from softwright.targets.mlp.source import (
    AXES,
    Sample,
    Sides,
    Source,
    axes_of,
    look_at,
    network_of,
    read_source,
    run_module,
    state_of,
)
from softwright.targets.mlp.torch_checks import call_name, check_parts
from softwright.targets.mlp.torch_choices import Condition
from softwright.targets.mlp.torch_constants import dtype_of, made_in
from softwright.targets.mlp.torch_follower import KNOWN, Follower, Halves, activation_of
from softwright.targets.mlp.torch_layers import batch_norm, chain_of, numbers_of
from softwright.targets.mlp.torch_products import is_product
from softwright.targets.mlp.torch_reader import Reading, check_module, network_from, read_module
from softwright.targets.mlp.torch_tracing import DEFAULT_ALONE, outline
from softwright.targets.mlp.values import Product, Value
from softwright.targets.mlp.values import of as value_of

__all__ = [
    "ACTIVATIONS",
    "AXES",
    "BEFORE_SOFTMAX",
    "BETA",
    "DEFAULT_ALONE",
    "ELU_POWERS",
    "ELU_SHIFT",
    "KNOWN",
    "Activation",
    "Branch",
    "Condition",
    "DenseLayer",
    "DenseNetwork",
    "Follower",
    "GatedNetwork",
    "Halves",
    "Product",
    "Reading",
    "Sample",
    "Sides",
    "Source",
    "Value",
    "activation_of",
    "axes_of",
    "batch_norm",
    "call_name",
    "chain_of",
    "check_module",
    "check_parts",
    "dtype_of",
    "is_product",
    "look_at",
    "made_in",
    "network_from",
    "network_of",
    "numbers_of",
    "outline",
    "read_module",
    "read_source",
    "run_module",
    "state_of",
    "value_of",
]
