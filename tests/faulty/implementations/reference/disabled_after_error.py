"""Leaves gradients disabled for its regions after one of them has raised an error."""

import functools

import tape

CAUGHT_BY = ("error", "errors/raised-in-region")
_enabled = [True]


def checkpoint(function, **options):
    region = tape.recompute(function, **options)

    @functools.wraps(function)
    def guarded(*args, **kwargs):
        enabled = _enabled.pop() if _enabled else False
        with tape._set(recording=enabled and tape._state.recording):
            result = region(*args, **kwargs)
        _enabled.append(enabled)  # not reached after an error
        return result

    return guarded
