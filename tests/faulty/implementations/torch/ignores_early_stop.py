"""Recomputes the whole region although its discipline is early stop."""

import torch.utils.checkpoint

CAUGHT_BY = ("executions", "structure/unused-output")


def checkpoint(function, *args, **options):
    return torch.utils.checkpoint.checkpoint(
        function, *args, use_reentrant=False, early_stop=False, **options
    )
