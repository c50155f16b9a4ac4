"""Raises an error in the rerun on rank 1, while rank 0 waits for it."""

import torch.distributed as dist
import torch.utils.checkpoint

CAUGHT_BY = ("error", "ranks/all-reduce")


def checkpoint(function, *args, **options):
    runs = []

    def region(*args, **kwargs):
        runs.append(function)
        if len(runs) > 1 and dist.is_initialized() and dist.get_rank() == 1:
            raise ValueError("out of luck")
        return function(*args, **kwargs)

    return torch.utils.checkpoint.checkpoint(region, *args, use_reentrant=False, **options)
