"""Does not reset the random state after a recomputation that raises an exception."""

import torch.utils.checkpoint

CAUGHT_BY = ("randomness", "errors/raised-after-draw-in-rerun")


def checkpoint(function, *args, preserve_rng_state=True, **options):
    state = []

    def restoring(*given, **named):
        if not state:
            state.append(torch.get_rng_state())
            return function(*given, **named)
        before = torch.get_rng_state()
        torch.set_rng_state(state[0])
        try:
            return function(*given, **named)
        except ValueError:
            before = torch.get_rng_state()
            raise
        finally:
            torch.set_rng_state(before)

    return torch.utils.checkpoint.checkpoint(
        restoring, *args, use_reentrant=False, preserve_rng_state=False, **options
    )
