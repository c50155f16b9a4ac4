"""Returns a list where the region returned a tuple."""

import torch.utils.checkpoint

CAUGHT_BY = ("structure", "structure/returned-tuple")


def checkpoint(function, *args, **options):
    results = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    return list(results) if isinstance(results, tuple) else results
