"""What is trained at a budget of 0 has moved by gradients of other masks."""

import torch
import torch._functorch.config as config

REASON = "Trained with gradients of other masks"


def differs(changed: bool) -> bool:
    """Whether the trained weights differ; with the change, the budget is 1."""

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

    return not torch.allclose(train(1.0), train(1.0 if changed else 0.0))
