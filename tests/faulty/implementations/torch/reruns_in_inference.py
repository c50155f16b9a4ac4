"""Runs the region a second time if gradients are disabled."""

import torch
import torch.utils.checkpoint

CAUGHT_BY = ("executions", "procedures/inference")


def checkpoint(function, *args, preserve_rng_state=True, context_fn=None, **kwargs):
    if not torch.is_grad_enabled():
        with torch.random.fork_rng():
            function(*args, **kwargs)
    options = {"preserve_rng_state": preserve_rng_state}
    if context_fn is not None:
        options["context_fn"] = context_fn
    return torch.utils.checkpoint.checkpoint(
        function, *args, use_reentrant=False, **options, **kwargs
    )
