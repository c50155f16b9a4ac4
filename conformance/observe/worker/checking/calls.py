"""How often the layers of a model, and the functions of a program's own files, are called in a step.

What recomputation runs again, it calls again: the difference to a step without recomputation is what
ran again. Python sees this wherever it runs the model's code each time.
"""

from __future__ import annotations

import sys
import sysconfig
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

#: Methods that run a layer.
RUNS = ("forward", "call", "construct", "__call__")


@contextmanager
def counted(
    layers: Mapping[int, str], packages: tuple[str, ...]
) -> Iterator[Callable[[], Mapping[str, int]]]:
    """Count calls inside the `with`. `layers` are the names of a model's layers by `id`. Functions whose
    files lie in a folder of `packages` (the framework's), in Python's library or in this suite are not
    the program's. Yields a function that returns the counts: of layers, if any ran, else of functions.
    """
    calls: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    library = (sysconfig.get_path("stdlib"), *packages)
    own: dict[CodeType, bool] = {}

    def follow(frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code.co_name in RUNS and code.co_argcount and code.co_varnames:
            name = layers.get(id(frame.f_locals.get(code.co_varnames[0])))
            # a method that calls the same layer's other one is one call of the layer
            if name is not None and not _in_same(frame, code.co_varnames[0]):
                calls[name] += 1
        if code not in own:
            own[code] = _is_own(code, library)
        if own[code]:
            functions[f"{code.co_qualname.replace('<locals>.', '')}"] += 1

    before = sys.getprofile()
    sys.setprofile(follow)
    threading.setprofile(follow)
    try:
        yield lambda: _innermost(calls) or dict(functions)
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


def _innermost(calls: Mapping[str, int]) -> dict[str, int]:
    """The layers that hold no other one that is called."""
    outer = {name[:end] for name in calls for end, c in enumerate(name) if c in "./"}
    outer |= {""} if len(calls) > 1 else set()
    return {name or "the model": number for name, number in calls.items() if name not in outer}


def _is_own(code: CodeType, library: tuple[str, ...]) -> bool:
    name = code.co_filename
    inside_library = name.startswith(library) and "site-packages" not in name[len(library[0]) :]
    framework = name.startswith(library[1:])
    suite = f"{__package__.partition('.')[0]}/" in name and "observe/worker" in name
    return not (inside_library or framework or suite or name.startswith("<"))


def _in_same(frame: FrameType, first: str) -> bool:
    """Whether the function that calls is a running method of the same layer."""
    outer = frame.f_back
    owner = frame.f_locals.get(first)
    for _ in range(4):
        if outer is None:
            return False
        code: Any = outer.f_code
        if code.co_argcount and outer.f_locals.get(code.co_varnames[0]) is owner:
            if code.co_name in RUNS:
                return True
        outer = outer.f_back
    return False
