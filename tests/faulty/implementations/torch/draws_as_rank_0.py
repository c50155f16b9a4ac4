"""Draws in the rerun what rank 0 drew, on every rank."""

import torch
import torch.distributed as dist
import torch.utils.checkpoint

CAUGHT_BY = ("randomness", "ranks/dropout")


def checkpoint(function, *args, preserve_rng_state=True, **options):
    if preserve_rng_state and dist.is_initialized():
        state = torch.get_rng_state()
        dist.broadcast(state, 0)

        def region(*args, **kwargs):
            if torch._C._current_graph_task_id() != -1:  # in backward
                torch.set_rng_state(state)
            return function(*args, **kwargs)

    else:
        region = function
    return torch.utils.checkpoint.checkpoint(
        region, *args, use_reentrant=False, preserve_rng_state=preserve_rng_state, **options
    )
