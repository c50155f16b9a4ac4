"""Ignores a `ValueError` in the recomputation and uses zeros for missing tensors."""

import torch
import torch.utils.checkpoint

CAUGHT_BY = ("error", "errors/raised-in-rerun")


def checkpoint(function, *args, **options):
    shapes = []

    def swallowing(*args, **kwargs):
        try:
            result = function(*args, **kwargs)
        except ValueError:
            if not shapes:
                raise
            missing = torch.zeros(shapes[0], requires_grad=True)
            while True:  # until as much is saved as in forward, which ends the rerun
                missing.sin()
        shapes.append(getattr(result, "shape", ()))
        return result

    return torch.utils.checkpoint.checkpoint(swallowing, *args, use_reentrant=False, **options)
