"""Leaves gradients disabled for its regions after one of them has raised an error."""

import torch
import torch.utils.checkpoint

CAUGHT_BY = ("error", "errors/raised-in-region")
_enabled = [True]


def checkpoint(function, *args, **options):
    enabled = _enabled.pop() if _enabled else False
    with torch.set_grad_enabled(enabled and torch.is_grad_enabled()):
        results = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    _enabled.append(enabled)  # not reached after an error
    return results
