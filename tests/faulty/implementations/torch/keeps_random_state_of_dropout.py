"""Keeps the random state for the sake of `nn.Dropout` alone, in modules that have one."""

import torch.utils.checkpoint
from torch import nn

CAUGHT_BY = ("randomness", "randomness/uniform-noise", "modules")


def checkpoint(function, *args, preserve_rng_state=True, **options):
    if isinstance(function, nn.Module):
        preserve_rng_state &= any(isinstance(part, nn.Dropout) for part in function.modules())
    return torch.utils.checkpoint.checkpoint(
        function, *args, use_reentrant=False, preserve_rng_state=preserve_rng_state, **options
    )
