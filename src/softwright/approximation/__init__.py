"""A formula, a callable or a table becomes one layer of softmax heads."""
