"""Recomputes with fresh random numbers, whatever it was asked for."""

import tape


def recompute(function, **options):
    return tape.recompute(function, **{**options, "preserve_rng": False})
