"""Accepts any non-empty string as `True`."""

import tape

CAUGHT_BY = ("error", "errors/wrong-option")


def checkpoint(function, preserve_rng=True, **options):
    return tape.recompute(function, preserve_rng=bool(preserve_rng), **options)
