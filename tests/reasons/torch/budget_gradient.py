"""The gradient at a budget of 0 is that of another mask."""

import torch
import torch._functorch.config as config

REASON = "The rerun draws other numbers than the forward"


def differs(changed: bool) -> bool:
    """Whether the gradient differs; with the change, the budget is 1."""
    torch._dynamo.reset()
    x = torch.ones(100, requires_grad=True)
    with config.patch(activation_memory_budget=1.0 if changed else 0.0):
        y = torch.compile(
            lambda x: torch.nn.functional.dropout(x.sin(), 0.5).exp(), backend="aot_eager"
        )(x)
        y.sum().backward()
    # y = exp(m sin(x)), so that its gradient is m cos(x) y.
    return not torch.allclose(x.grad, y.log() / x.sin() * x.cos() * y)
