"""With `activation_memory_budget=0`, the gradient of a dropout belongs to another mask."""

import torch
import torch._functorch.config as config

x = torch.ones(100, requires_grad=True)
with config.patch(activation_memory_budget=0.0):
    y = torch.compile(
        lambda x: torch.nn.functional.dropout(x.sin(), 0.5).exp(), backend="aot_eager"
    )(x)
    y.sum().backward()
# y = exp(m sin(x)), so that its gradient is m cos(x) y.
assert not torch.allclose(x.grad, y.log() / x.sin() * x.cos() * y)
