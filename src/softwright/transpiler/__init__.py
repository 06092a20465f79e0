"""Trained networks become attention."""
