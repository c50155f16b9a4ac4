"""Whether other threads have work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np

from conformance.observe.worker.busy import others_busy


def _becomes(
    wanted: bool, within: float = 20.0, clock: Callable[[], float] = time.monotonic
) -> bool:
    end = clock() + within
    while clock() < end:
        if others_busy() is wanted:
            return True
        time.sleep(0.001)
    return False


def test_a_thread_that_computes_is_busy_and_one_that_waits_is_not() -> None:
    go, stop = threading.Event(), threading.Event()

    def compute() -> None:
        go.wait()
        x = np.ones((400, 400))
        while not stop.is_set():
            x @ x  # outside of the interpreter's lock

    thread = threading.Thread(target=compute, daemon=True)
    thread.start()
    try:
        assert _becomes(False)
        go.set()
        assert _becomes(True)
    finally:
        stop.set()
        go.set()
        thread.join()
    assert _becomes(False)
