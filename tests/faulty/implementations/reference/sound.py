"""No fault: the control for the others."""

import tape


def checkpoint(function, **options):
    return tape.recompute(function, **options)
