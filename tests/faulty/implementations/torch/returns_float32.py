"""Returns all outputs in float32."""

import torch.utils.checkpoint
from torch.utils._pytree import tree_map

CAUGHT_BY = ("structure", "basics/precision[dtype=bfloat16]")


def widened(value):
    return value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def checkpoint(function, *args, **options):
    results = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    return tree_map(widened, results)
