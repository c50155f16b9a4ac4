"""Recomputes the whole region and ignores its policy."""

import torch.utils.checkpoint

CAUGHT_BY = ("executions", "policies/save-matmul")


def checkpoint(function, *args, context_fn=None, **options):
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
