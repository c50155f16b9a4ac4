"""Restores the random state for the recomputation, and does not reset it afterwards."""

import torch.utils.checkpoint

CAUGHT_BY = ("randomness", "documents/paddle-blocks-2-and-3")


def checkpoint(function, *args, preserve_rng_state=True, **options):
    state = []

    def restoring(*given, **named):
        if state:
            torch.set_rng_state(state[0])
        else:
            state.append(torch.get_rng_state())
        return function(*given, **named)

    return torch.utils.checkpoint.checkpoint(
        restoring, *args, use_reentrant=False, preserve_rng_state=False, **options
    )
