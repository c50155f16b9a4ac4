"""Returns a tuple where the region returned a list."""

import torch.utils.checkpoint

CAUGHT_BY = ("structure", "containers/list-output")


def checkpoint(function, *args, **options):
    result = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    return tuple(result) if type(result) is list else result
