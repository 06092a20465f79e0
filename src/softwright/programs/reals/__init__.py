"""Real numbers at one token: products, exponentials, maxima and functions of one term, as gates and curves."""
