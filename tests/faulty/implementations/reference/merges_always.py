"""Merges adjacent regions even with `merge_adjacent=False`."""

import tape

CAUGHT_BY = ("executions", "regions/adjacent-stopped")


def checkpoint(function, *, merge_adjacent=False, **options):
    return tape.recompute(function, merge_adjacent=True, **options)
