"""Recomputes with new random numbers, even with `preserve_rng`."""

import tape

CAUGHT_BY = ("randomness", "randomness/dropout-preserved")


def checkpoint(function, **options):
    return tape.recompute(function, **{**options, "preserve_rng": False})
