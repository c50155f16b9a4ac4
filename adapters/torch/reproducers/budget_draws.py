"""With `activation_memory_budget=0`, a dropout drops other elements when it is recomputed."""

import torch
import torch._functorch.config as config

x = torch.ones(100, requires_grad=True)


@torch.compile(backend="aot_eager")
def run(x):
    return torch.nn.functional.dropout(x.sin(), 0.5).exp()


with config.patch(activation_memory_budget=0.0):
    y = run(x)
    y.sum().backward()
assert not torch.equal(y == 1, x.grad == 0)
