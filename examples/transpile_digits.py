"""A trained digit classifier becomes attention only, neuron by neuron. Run: python examples/transpile_digits.py"""

import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import softwright as sw

images, labels = load_digits(return_X_y=True)
images = images / 16.0  # (1797, 64), pixels in [0, 1]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # 60 rounds are enough here
    mlp = MLPClassifier((64, 32), max_iter=60, random_state=0).fit(images, labels)

built = sw.transpile(mlp, box=(0, 1), tol=1e-9)  # 96 hidden neurons, 96 softmax heads
print(built)

logits = built(images)
print("same classes", bool(np.all(mlp.classes_[logits.argmax(axis=1)] == mlp.predict(images))))
print("largest deviation on the digits", float(np.abs(logits - built.source(images)).max()))
print(built.network)  # linear maps and softmax heads, nothing else
