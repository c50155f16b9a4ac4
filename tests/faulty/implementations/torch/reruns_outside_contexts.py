"""Recomputes outside of the context for the recomputation."""

from contextlib import nullcontext

import torch.utils.checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

CAUGHT_BY = ("error", "contexts/set")  # PyTorch notices that the rerun saves less


def checkpoint(function, *args, context_fn=None, **options):
    if context_fn is not None:
        first, second = context_fn()
        policy = isinstance(second, TorchDispatchMode)
        options["context_fn"] = lambda: (first, second if policy else nullcontext())
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
