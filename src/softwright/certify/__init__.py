"""Proofs: `certify` bounds |network - target| over a whole box, `checker.verify` re-proves it with independent code.

Empty on purpose: importing `softwright.certify.checker` must not import torch, so nothing is re-exported here.
"""
