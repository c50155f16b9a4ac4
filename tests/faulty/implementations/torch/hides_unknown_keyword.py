"""Drops keyword arguments that the function does not have."""

import inspect

import torch.utils.checkpoint

CAUGHT_BY = ("error", "errors/unknown-keyword")


def checkpoint(function, *args, preserve_rng_state=True, **kwargs):
    known = inspect.signature(function).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in known.values()):
        kwargs = {name: value for name, value in kwargs.items() if name in known}
    return torch.utils.checkpoint.checkpoint(
        function, *args, use_reentrant=False, preserve_rng_state=preserve_rng_state, **kwargs
    )
