"""Stacks of attention layers that fit statistical models to their prompt: one algorithm a file.

slots, bilinear, links          coordinates of a token, and the three kinds of heads that everything is made of
standardise                     centring and scaling in context, so that one set of constants fits all data
gradient, chebyshev             descent, one layer a step
newton_schulz                   least squares and ridge in about log2(condition) layers
lasso, nonnegative              proximal steps and ADMM
glm                             iteratively reweighted least squares: logistic, Poisson, robust
"""
