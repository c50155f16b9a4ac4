"""Whether other threads of this process have work to do, as Linux says."""

from __future__ import annotations

import threading
from pathlib import Path

_TASKS = Path("/proc/self/task")
#: States of a thread that has work: it runs, or waits for a core or for the disk (proc(5)).
_BUSY = ("R", "D")


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
