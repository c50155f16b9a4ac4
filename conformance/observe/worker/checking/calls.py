"""How often the layers of a model, and the functions of a program's file, are called in a step.

What recomputation runs again, it calls again: the difference to a step without recomputation is what
ran again. Python sees this wherever it runs the model's code each time.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

#: Methods that run a layer.
RUNS = frozenset({"forward", "call", "construct", "__call__"})


@contextmanager
def counted(
    layers: Mapping[int, str], file: str, *, when: Callable[[], bool]
) -> Iterator[Callable[[], Mapping[str, int]]]:
    """Count calls inside the `with` that contain no other call that is counted: of layers, whose names
    in a model `layers` has by their `id`, and of functions of the program's file. Yields a function that
    returns the counts by name. Nothing is counted while `when()` is false."""
    counts: Counter[str] = Counter()
    #: By thread: the counted calls that are running, and whether each of them contains another one.
    running: dict[int, list[tuple[FrameType, str, list[bool]]]] = {}

    def follow(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            name = _name(frame, layers, file)
            if name is not None and when():
                stack = running.setdefault(threading.get_ident(), [])
                if stack:
                    stack[-1][2].append(True)
                stack.append((frame, name, []))
        elif event == "return":
            stack = running.get(threading.get_ident(), [])
            if stack and stack[-1][0] is frame:
                _, name, inner = stack.pop()
                counts[name] += not inner

    before = sys.getprofile()
    sys.setprofile(follow)
    threading.setprofile(follow)
    try:
        yield lambda: {name: number for name, number in counts.items() if number}
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


def _name(frame: FrameType, layers: Mapping[int, str], file: str) -> str | None:
    """The name of a call that is counted; `None` for any other one."""
    code = frame.f_code
    own = code.co_filename == file and not code.co_name.startswith("<")
    if not own and code.co_name not in RUNS:
        return None
    first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    layer = layers.get(id(first))
    if layer is None:
        return code.co_qualname.replace("<locals>.", "") if own else None
    if code.co_name in RUNS:
        return layer or type(first).__name__
    return f"{layer}.{code.co_name}" if layer else code.co_qualname
