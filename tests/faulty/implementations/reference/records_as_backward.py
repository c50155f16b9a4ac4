"""Records in the recomputation only if recording is enabled where backward is called."""

import functools

import tape

CAUGHT_BY = ("error", "procedures/backward-no-gradients")
_set = tape._set
_asking = [True]


def gradient(*args, **kwargs):
    _asking.append(tape._state.recording)
    try:
        return _gradient(*args, **kwargs)
    finally:
        _asking.pop()


_gradient = tape.gradient


def checkpoint(function, **options):
    tape.gradient = gradient

    @functools.wraps(function)
    def region(*args, **kwargs):
        if tape._state.phase != "rerun":
            return function(*args, **kwargs)
        with tape._set(recording=_asking[-1]):
            return function(*args, **kwargs)

    return tape.recompute(region, **options)
