"""Under autocast, selective checkpointing of two regions that share a weight raises an error."""

from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

KEPT = (torch.ops.aten._to_copy.default, torch.ops.aten.mm.default)


def policy(context, operation, *args, **kwargs):
    kept = operation in KEPT
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


def plain(function, *args):
    return function(*args)


def recomputed(function, *args):
    contexts = partial(create_selective_checkpoint_contexts, policy)
    return checkpoint(function, *args, use_reentrant=False, context_fn=contexts)


def run(call):
    layer, x = nn.Linear(4, 4, bias=False), torch.rand(2, 4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(2):
            x = call(lambda x: torch.sin(layer(x)), x)
    x.float().square().sum().backward()
    return layer.weight.grad
