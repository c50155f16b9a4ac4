"""Takes a text that is not empty for True."""

import tape

CAUGHT_BY = ("error", "errors/wrong-option")


def checkpoint(function, preserve_rng=True, **options):
    return tape.recompute(function, preserve_rng=bool(preserve_rng), **options)
