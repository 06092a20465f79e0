"""Formula (0) as data (`Head`) and as torch modules (`AttentionNetwork`); `self_attention.py` writes it out."""

from softwright.attention.head import Axis, Head, evaluate
from softwright.attention.layer import AttentionLayer, SoftmaxHead
from softwright.attention.network import ENGINES, AttentionNetwork, usual_engine
from softwright.attention.view import AttentionView, HeadView
from softwright.result.constructed import Constructed, digest_of, load_tensors, tensors_of

__all__ = [
    "ENGINES",
    "AttentionLayer",
    "AttentionNetwork",
    "AttentionView",
    "Axis",
    "Constructed",
    "Head",
    "HeadView",
    "SoftmaxHead",
    "digest_of",
    "evaluate",
    "load_tensors",
    "tensors_of",
    "usual_engine",
]
