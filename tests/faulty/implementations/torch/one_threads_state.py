"""Preserves random state only in the thread that ran forward; others draw new numbers."""

import threading

import torch.utils.checkpoint

CAUGHT_BY = ("randomness", "procedures/another-thread-dropout")


def checkpoint(function, *args, preserve_rng_state=True, **options):
    kept = threading.local()
    begun = []

    def restoring(*given, **named):
        before = torch.get_rng_state()
        if not begun:
            begun.append(True)
            kept.state = before
            return function(*given, **named)
        if preserve_rng_state and hasattr(kept, "state"):
            torch.set_rng_state(kept.state)
        try:
            return function(*given, **named)
        finally:  # an early stop leaves by an exception
            if preserve_rng_state and hasattr(kept, "state"):
                torch.set_rng_state(before)

    return torch.utils.checkpoint.checkpoint(
        restoring, *args, use_reentrant=False, preserve_rng_state=False, **options
    )
