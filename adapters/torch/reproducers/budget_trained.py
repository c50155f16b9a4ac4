"""With `activation_memory_budget=0`, training updates parameters with gradients of other masks."""

import torch
import torch._functorch.config as config


def train(budget):
    torch._dynamo.reset()
    torch.manual_seed(0)
    w = torch.ones(100, requires_grad=True)
    with config.patch(activation_memory_budget=budget):
        step = torch.compile(
            lambda w: torch.nn.functional.dropout(w.sin(), 0.5).exp(), backend="aot_eager"
        )
        step(w).sum().backward()
    return w.detach() - w.grad


assert not torch.allclose(train(1.0), train(0.0))
