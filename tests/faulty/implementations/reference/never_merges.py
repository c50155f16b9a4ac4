"""Keeps what lies between adjacent regions, although it is told to merge them."""

import tape

CAUGHT_BY = ("retained memory", "regions/adjacent-merged")


def checkpoint(function, *, merge_adjacent=False, **options):
    return tape.recompute(function, merge_adjacent=False, **options)
