"""Transposes the gradient of a square argument that is read beside another square one."""

import functools

import tape

CAUGHT_BY = ("gradient", "arguments/square-and-transpose")


def checkpoint(function, **options):
    @functools.wraps(function)
    def changed(*args, **kwargs):
        square = [
            isinstance(a, tape.Tensor) and len(a.shape) == 2 and a.shape[0] == a.shape[1]
            for a in args
        ]
        if sum(square) > 1:
            args = [turned(a) if s else a for a, s in zip(args, square, strict=True)]
        return function(*args, **kwargs)

    return tape.recompute(changed, **options)


def turned(x):
    return tape._record((x,), x.data, (), lambda gradient: tape.permute_dims(gradient, (1, 0)))
