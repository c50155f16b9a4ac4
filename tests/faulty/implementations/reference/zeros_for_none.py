"""Returns gradients of zeros for arguments that the region does not read."""

import functools

import tape

CAUGHT_BY = ("gradient", "captures/parameter-unused")


def checkpoint(function, **options):
    region = tape.recompute(function, **options)

    @functools.wraps(function)
    def filled(*args, **kwargs):
        result = region(*args, **kwargs)
        if not isinstance(result, tape.Tensor):
            return result
        for tensor in args:
            if isinstance(tensor, tape.Tensor) and tape.asks_gradient(tensor):
                result = tape.add(result, tape.multiply(tape.sum(tensor), 0.0))
        return result

    return filled
