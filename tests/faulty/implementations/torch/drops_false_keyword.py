"""Does not pass keyword arguments that are `None` or false."""

import torch.utils.checkpoint

CAUGHT_BY = ("value", "arguments/false-by-name")


def checkpoint(function, *args, **options):
    own = ("preserve_rng_state",)
    options = {k: v for k, v in options.items() if k in own or (v is not None and v is not False)}
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
