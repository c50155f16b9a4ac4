"""Recomputes the region twice in backward."""

import torch
import torch.utils.checkpoint

CAUGHT_BY = ("executions", "basics/mlp-block")


def checkpoint(function, *args, **options):
    calls = []

    def twice(*args, **kwargs):
        calls.append(function)
        if len(calls) > 1:
            with torch.no_grad(), torch.random.fork_rng():
                function(*args, **kwargs)
        return function(*args, **kwargs)

    return torch.utils.checkpoint.checkpoint(twice, *args, use_reentrant=False, **options)
