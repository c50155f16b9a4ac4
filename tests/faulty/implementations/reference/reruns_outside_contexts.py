"""Recomputes outside of the context for the recomputation."""

from contextlib import nullcontext

import tape

CAUGHT_BY = ("gradient", "contexts/set")


def checkpoint(function, contexts=None, **options):
    if contexts is None:
        return tape.recompute(function, **options)
    return tape.recompute(function, contexts=lambda: (contexts()[0], nullcontext()), **options)
