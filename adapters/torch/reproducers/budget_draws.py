"""With `activation_memory_budget=0`, a recomputed dropout drops other elements in backward."""

import torch
import torch._functorch.config as config

torch._dynamo.reset()
x = torch.ones(100, requires_grad=True)


def region(x):
    return torch.nn.functional.dropout(x.sin(), 0.5).exp()


@torch.compile(backend="aot_eager")
def run(x):
    return region(x)


with config.patch(activation_memory_budget=0.0):
    y = run(x)
    y.sum().backward()
assert not torch.equal(y == 1, x.grad == 0)
