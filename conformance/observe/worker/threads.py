"""Watching threads that a program starts: what watches a framework is often one thread's alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest import mock


@contextmanager
def entering(context: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
    """Have every thread that Python starts meanwhile run inside a context.

    A dispatch mode or an op callback is on in the thread that set it: what another one runs, a
    backward pass, would go unseen. `context` is called by the thread that starts the other.
    """
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
