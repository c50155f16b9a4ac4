"""Reruns a module in evaluation mode, so that running statistics are not updated twice."""

import torch
import torch.utils.checkpoint
from torch import nn

CAUGHT_BY = ("error", "training/batch-norm", "modules")


def checkpoint(function, *args, **options):
    def region(*args, **kwargs):
        evaluated = (
            torch._C._current_graph_task_id() != -1  # in backward
            and isinstance(function, nn.Module)
            and function.training
        )
        if evaluated:
            function.eval()
        try:
            return function(*args, **kwargs)
        finally:
            if evaluated:
                function.train()

    return torch.utils.checkpoint.checkpoint(region, *args, use_reentrant=False, **options)
