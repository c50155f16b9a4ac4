"""Drops the gradients of the tensors that the region reads by closure."""

import functools
from types import CellType, FunctionType

import tape

CAUGHT_BY = ("gradient", "captures/captured-parameter")


def detached(cell):
    found = cell.cell_contents
    if isinstance(found, tape.Tensor):
        found = tape.Tensor(found.data, found.dtype, scope=found.scope)
    return CellType(found)


def checkpoint(function, **options):
    @functools.wraps(function)
    def region(*args, **kwargs):
        cells = tuple(detached(cell) for cell in function.__closure__ or ())
        changed = FunctionType(
            function.__code__, function.__globals__, function.__name__, None, cells
        )
        return tape.recompute(changed, **options)(*args, **kwargs)

    return region
