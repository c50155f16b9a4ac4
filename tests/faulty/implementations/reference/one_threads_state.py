"""Preserves random state only in the thread that ran forward; others draw new numbers."""

import functools
import threading

import tape

CAUGHT_BY = ("randomness", "procedures/another-thread-dropout")


def checkpoint(function, preserve_rng=True, **options):
    kept = threading.local()

    @functools.wraps(function)
    def restoring(*args, **kwargs):
        before = tape.random_state()
        if tape._state.phase != "rerun":
            kept.state = before
        elif preserve_rng and hasattr(kept, "state"):
            tape.set_random_state(kept.state)
            try:
                return function(*args, **kwargs)
            finally:
                tape.set_random_state(before)
        return function(*args, **kwargs)

    return tape.recompute(restoring, preserve_rng=False, **options)
