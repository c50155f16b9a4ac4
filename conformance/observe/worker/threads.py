"""Threads that a program or a framework starts: running in a context, and having work to do."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from unittest import mock

_TASKS = Path("/proc/self/task")
#: States of a thread that has work: it runs, or waits for a core or for the disk (proc(5)).
_BUSY = ("R", "D")


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


def others_busy() -> bool:
    """Whether a thread of this process, other than the calling one, runs or waits for a core: on a busy
    machine one that was woken may wait long."""
    own = str(threading.get_native_id())
    return any(_state(task) in _BUSY for task in _TASKS.iterdir() if task.name != own)


def _state(task: Path) -> str:
    """The letter of a thread's state; empty where the thread has ended."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
