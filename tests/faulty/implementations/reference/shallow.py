"""Recomputes three levels of nested regions and calls deeper ones directly."""

import functools

import tape

CAUGHT_BY = ("executions", "nested/depth-4-operation-first")
_depths = [0]


def checkpoint(function, **options):
    @functools.wraps(function)
    def region(*args, **kwargs):
        depth = _depths[-1] + 1
        if depth > 3:
            return function(*args, **kwargs)

        @functools.wraps(function)
        def counted(*args, **kwargs):
            _depths.append(depth)
            try:
                return function(*args, **kwargs)
            finally:
                _depths.pop()

        return tape.recompute(counted, **options)(*args, **kwargs)

    return region
