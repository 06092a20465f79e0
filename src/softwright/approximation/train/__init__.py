"""Tensor trains of functions that can only be asked: axes, order, cross approximation, and the stack of gates."""
