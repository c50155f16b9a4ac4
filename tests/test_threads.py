"""Threads that are started meanwhile run inside a context; whether other threads have work."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import numpy as np
import pytest

from conformance.observe.worker.threads import entering, others_busy


def inside(name: str, told: list[str]) -> AbstractContextManager[object]:
    """A context that tells of itself, and of the thread that asks for it."""
    told.append(f"{name} asked {threading.current_thread() is threading.main_thread()}")

    @contextmanager
    def around() -> Iterator[None]:
        told.append(f"{name} begins {threading.current_thread() is threading.main_thread()}")
        yield
        told.append(f"{name} ends")

    return around()


def test_the_starting_thread_asks_and_the_started_one_enters() -> None:
    told: list[str] = []
    with (
        entering(partial(inside, "outer", told)),
        entering(partial(inside, "inner", told)),
        ThreadPoolExecutor(max_workers=1) as executor,
    ):
        executor.submit(told.append, "work").result()
    asked = {"inner asked True", "outer asked True"}
    assert set(told[:2]) == asked
    assert told[2:] == [
        *("outer begins False", "inner begins False", "work", "inner ends", "outer ends")
    ]


def test_only_threads_started_meanwhile() -> None:
    told: list[str] = []
    with ThreadPoolExecutor(max_workers=1) as executor:
        executor.submit(told.append, "before").result()
        with entering(partial(inside, "context", told)):
            executor.submit(told.append, "meanwhile").result()
    thread = threading.Thread(target=told.append, args=("after",))
    thread.start()
    thread.join()
    assert told == ["before", "meanwhile", "after"]


def test_what_the_work_raises_leaves_the_context() -> None:
    told: list[str] = []
    with (
        pytest.raises(ZeroDivisionError),
        entering(partial(inside, "context", told)),
        ThreadPoolExecutor(max_workers=1) as executor,
    ):
        executor.submit(divmod, 1, 0).result()
    assert told[-1] == "context ends"


def test_a_thread_does_not_hold_on_to_itself() -> None:
    gc.disable()
    try:
        with entering(partial(inside, "context", [])):
            thread = threading.Thread()
            thread.start()
            thread.join()
        gone = weakref.ref(thread)
        del thread
        assert gone() is None
    finally:
        gc.enable()


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
