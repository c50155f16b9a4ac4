"""SIGINT and SIGTERM: the first one ends a run in good order, and none interrupts storing results."""

import ctypes
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | int | None
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PR_SET_PDEATHSIG = 1


class Stopped(KeyboardInterrupt):
    """A signal has come that ends the run."""


class Interrupts:
    """Raises `Stopped` for the first signal and ignores the others.

    One interruption may send several signals: `timeout` signals both its child and the process
    group.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, Handler] = {}
        self._quiet = False

    def install(self) -> None:
        """Take over both signals, where this is the main thread: no other may."""
        if threading.current_thread() is threading.main_thread() and not self._before:
            self._before = {s: signal.signal(s, self._handle) for s in _SIGNALS}

    def restore(self) -> None:
        """Give both signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def check(self) -> None:
        """Raise `Stopped` if a signal has come: the exception may have been lost in a callback."""
        if self.received is not None:
            raise Stopped(self.received.name)

    @contextmanager
    def held_off(self) -> Iterator[None]:
        """Inside the `with`, signals are noted and end nothing."""
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received = signal.Signals(number)
            if not self._quiet:
                raise Stopped(self.received.name)


def die_with_parent() -> None:
    """Have the kernel kill this process when the one that started it has ended (Linux)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
