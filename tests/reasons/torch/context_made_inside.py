"""A context_fn that is made in what is compiled ends compilation."""

from functools import partial

import torch
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

REASON = "Dynamo takes a context_fn that is a partial"


def keep_products(ctx, op, *args, **kwargs):
    kept = op is torch.ops.aten.mm.default
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


def differs(changed: bool) -> bool:
    """Whether Dynamo fails; with the change, the context_fn is a partial."""
    torch._dynamo.reset()
    x = torch.ones(3, 3, requires_grad=True)

    @torch.compile(backend="eager")
    def run(x):
        def contexts():
            return create_selective_checkpoint_contexts(keep_products)

        if changed:
            contexts = partial(create_selective_checkpoint_contexts, keep_products)
        region = lambda x: torch.sin(x @ x)  # noqa: E731
        return checkpoint(region, x, use_reentrant=False, context_fn=contexts)

    try:
        run(x).sum().backward()
    except torch._dynamo.exc.InternalTorchDynamoError as error:
        return "checkpoint not implemented for" in str(error)
    return False
