"""Recomputes with fresh random numbers, whatever it was asked for."""

import tape

CAUGHT_BY = ("randomness", "randomness/dropout-preserved")


def checkpoint(function, **options):
    return tape.recompute(function, **{**options, "preserve_rng": False})
