"""Proofs without boxes."""
