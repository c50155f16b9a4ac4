"""Recomputes with new random numbers, even with `preserve_rng`."""

import torch.utils.checkpoint

CAUGHT_BY = ("randomness", "randomness/dropout-preserved")


def checkpoint(function, *args, preserve_rng_state=True, **kwargs):
    return torch.utils.checkpoint.checkpoint(
        function, *args, use_reentrant=False, preserve_rng_state=False, **kwargs
    )
