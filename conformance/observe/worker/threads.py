"""Observing threads that a program starts: a framework's hooks often apply to one thread only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest import mock


@contextmanager
def entering(context: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
    """Have every thread that Python starts inside the `with` run in a `context`, made by its starter. A
    dispatch mode or an op callback is active only in the thread that set it."""
    start = threading.Thread.start

    def begin(thread: threading.Thread) -> None:
        around, run = context(), thread.run

        def watched() -> None:
            vars(thread).pop("run", None)  # else the thread would hold on to itself
            with around:
                run()

        thread.run = watched  # type: ignore[method-assign]
        start(thread)

    with mock.patch.object(threading.Thread, "start", begin):
        yield
