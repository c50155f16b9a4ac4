"""Accepts any true value as `True` and drops unknown options."""

import tape

CAUGHT_BY = ("error", "errors/unknown-option")


def checkpoint(function, preserve_rng=True, merge_adjacent=False, **options):
    known = {name: value for name, value in options.items() if name == "contexts"}
    return tape.recompute(
        function, preserve_rng=bool(preserve_rng), merge_adjacent=merge_adjacent, **known
    )
