"""Restoring, after each program, the process state that it may have changed.

One worker runs many programs, and none may change a verdict on the next: the working folder,
environment variables, warnings, signals, and the framework's own settings (`Observer.settings`) are
restored. If something cannot be restored, such as a thread that still runs, the worker is replaced.
"""

import gc
import os
import signal
import sys
import sysconfig
import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

#: Two functions: one reads a setting, one sets it to what was read.
Setting = tuple[Callable[[], Any], Callable[[Any], object]]
#: Folders of installed packages and the standard library; programs and implementations under test lie
#: elsewhere.
_INSTALLED = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def _folder() -> str:
    """The working folder; empty where it has been removed."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def _set_environment(before: Mapping[str, str]) -> None:
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)


def _set_filters(before: list[Any]) -> None:
    warnings.filters[:] = before  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]


def _handlers() -> Mapping[int, Any]:
    return {number: signal.getsignal(number) for number in _SIGNALS}


def _set_handlers(before: Mapping[int, Any]) -> None:
    for number, handler in before.items():
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)


_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
_PROCESS_STATE: Mapping[str, Setting] = {
    "the working folder": (_folder, os.chdir),
    "the environment": (lambda: dict(os.environ), _set_environment),
    "the filters of warnings": (lambda: list(warnings.filters), _set_filters),
    # Before the handlers: a pending alarm would otherwise reach a restored one.
    "the alarm": (
        lambda: signal.getitimer(signal.ITIMER_REAL)[0] > 0,
        lambda before: before or signal.setitimer(signal.ITIMER_REAL, 0),
    ),
    "signal handlers": (_handlers, _set_handlers),
    "the recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
    "garbage collection": (gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    "NumPy's handling of errors": (np.geterr, lambda before: np.seterr(**before)),
}


class Surroundings:
    """A snapshot of the process's state, with that of the framework's own `settings`."""

    def __init__(self, settings: Mapping[str, Setting]) -> None:
        self._settings = {**_PROCESS_STATE, **settings}
        self._before = {name: read() for name, (read, _) in self._settings.items()}
        self._threads = set(threading.enumerate())

    def put_back(self) -> tuple[str, ...]:
        """Restore what has changed. Returns the names of what could not be restored."""
        unrestored = [name for name in self._settings if not self._restore(name)]
        # A thread that a library has started belongs to the library, which will use it again.
        new = [thread for thread in threading.enumerate() if thread not in self._threads]
        running = [thread for thread in new if not _is_installed(_code(thread))]
        return (*unrestored, *(f"the thread {thread.name}" for thread in running))

    def _restore(self, name: str) -> bool:
        """Set one setting back to what it was. Returns whether it is that now."""
        read, write = self._settings[name]
        before = self._before[name]
        try:
            if read() != before:
                write(before)
            return bool(read() == before)
        except Exception:
            return False


def _code(thread: threading.Thread) -> CodeType | None:
    """The code that a thread runs, as far as Python shows."""
    run = getattr(thread, "function", None) or getattr(thread, "_target", None) or type(thread).run
    return getattr(getattr(run, "__func__", run), "__code__", None)


def _is_installed(code: CodeType | None) -> bool:
    """Whether code belongs to an installed package or to Python; code that is unknown counts as such."""
    return code is None or code.co_filename.startswith((*_INSTALLED, "<frozen"))
