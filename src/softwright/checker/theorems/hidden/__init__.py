"""Formulas that a hidden layer stands for: their terms of one direction each, and how far a sum of such is off."""
