"""Returns `None` for gradients that are zero."""

import functools

import tape

CAUGHT_BY = ("gradient", "captures/parameter-of-zero-gradient")


def passed(tensor):
    result = tape._record((tensor,), tensor.data, (), lambda gradient: gradient)
    gradients = result.node.gradients

    def without_zeros(*given):
        return [g if g is not None and g.data.any() else None for g in gradients(*given)]

    result.node.gradients = without_zeros
    return result


def checkpoint(function, **options):
    region = tape.recompute(function, **options)

    @functools.wraps(function)
    def passing(*args, **kwargs):
        args = (passed(a) if isinstance(a, tape.Tensor) and a.node else a for a in args)
        return region(*args, **kwargs)

    return passing
