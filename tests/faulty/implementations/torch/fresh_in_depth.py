"""Restores no random state in regions inside two others."""

import torch.utils.checkpoint

CAUGHT_BY = ("randomness", "nested/dropout-three-deep")
DEPTH = []


def checkpoint(function, *args, **options):
    def deeper(*args, **kwargs):
        DEPTH.append(function)
        try:
            return function(*args, **kwargs)
        finally:
            DEPTH.pop()

    if len(DEPTH) > 1:
        options["preserve_rng_state"] = False
    return torch.utils.checkpoint.checkpoint(deeper, *args, use_reentrant=False, **options)
