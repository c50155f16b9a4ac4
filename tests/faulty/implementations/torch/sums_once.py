"""Leaves out sums over the ranks in the rerun, on all ranks."""

from unittest.mock import patch

import torch.distributed as dist
import torch.utils.checkpoint

CAUGHT_BY = ("gradient", "ranks/all-reduce")


def checkpoint(function, *args, **options):
    runs = []

    def region(*args, **kwargs):
        runs.append(function)
        if len(runs) == 1 or not dist.is_initialized():
            return function(*args, **kwargs)
        with patch.object(dist, "all_reduce", lambda *args, **kwargs: None):
            return function(*args, **kwargs)

    return torch.utils.checkpoint.checkpoint(region, *args, use_reentrant=False, **options)
