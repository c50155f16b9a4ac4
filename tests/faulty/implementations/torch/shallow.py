"""Recomputes three levels of nested regions and calls deeper ones directly."""

import torch.utils.checkpoint

CAUGHT_BY = ("executions", "nested/depth-4-operation-first")
_depths = [0]


def checkpoint(function, *args, preserve_rng_state=True, context_fn=None, **kwargs):
    depth = _depths[-1] + 1
    if depth > 3:
        return function(*args, **kwargs)

    def counted(*args, **kwargs):
        _depths.append(depth)
        try:
            return function(*args, **kwargs)
        finally:
            _depths.pop()

    options = {"preserve_rng_state": preserve_rng_state}
    if context_fn is not None:
        options["context_fn"] = context_fn
    return torch.utils.checkpoint.checkpoint(
        counted, *args, use_reentrant=False, **options, **kwargs
    )
