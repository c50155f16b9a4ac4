"""Returns a tuple where the region returned a named tuple."""

import torch.utils.checkpoint

CAUGHT_BY = ("error", "containers/named-tuple-output")


def checkpoint(function, *args, **options):
    result = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    return tuple(result) if hasattr(result, "_fields") else result
