"""No fault: what the others are compared with."""

import tape


def checkpoint(function, **options):
    return tape.recompute(function, **options)
