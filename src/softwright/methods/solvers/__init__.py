"""Solvers that work among the unit tokens: the normal equations, and damped Newton steps of generalised models."""
