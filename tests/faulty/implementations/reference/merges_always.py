"""Merges adjacent regions, although it is told not to."""

import tape

CAUGHT_BY = ("executions", "regions/adjacent-stopped")


def checkpoint(function, *, merge_adjacent=False, **options):
    return tape.recompute(function, merge_adjacent=True, **options)
