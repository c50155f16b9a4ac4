"""Overwrites the gradients of captured parameters instead of adding to them."""

import torch.utils.checkpoint

CAUGHT_BY = ("gradient", "procedures/after-backward")


def checkpoint(function, *args, **options):
    for cell in function.__closure__ or ():
        if isinstance(cell.cell_contents, torch.Tensor):
            cell.cell_contents.grad = None
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
