"""Drops the gradients of the tensors that the region reads by closure."""

from types import CellType, FunctionType

import torch.utils.checkpoint

CAUGHT_BY = ("gradient", "captures/captured-parameter")


def detached(cell):
    found = cell.cell_contents
    return CellType(found.detach() if isinstance(found, torch.Tensor) else found)


def checkpoint(function, *args, **options):
    cells = tuple(detached(cell) for cell in function.__closure__ or ())
    changed = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, cells
    )
    return torch.utils.checkpoint.checkpoint(changed, *args, use_reentrant=False, **options)
