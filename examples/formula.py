"""A formula becomes one softmax attention head, to the tolerance asked. Run: python examples/formula.py"""

import torch

import softwright as sw

box = sw.Box(x=(-1, 1), y=(-2, 2))
built = sw.approximate("sin(3*x) * exp(-y**2)", box, tol=1e-6, strategy="layer")
print(built)
print(built.plan.explain())

# The network is an ordinary torch module: any leading shape in, autograd through it.
points = torch.tensor([[0.3, 1.0], [-0.5, 0.2]], dtype=torch.float64, requires_grad=True)
values = built.network(points)
values.sum().backward()
exact = torch.sin(3 * points[:, 0]) * torch.exp(-(points[:, 1] ** 2))
print("values   ", values.flatten().tolist())
print("target   ", exact.tolist())
print("gradient ", points.grad)
