"""Worker processes that are forked from a server, which has imported what each of them needs.

A process that starts anew spends most of its time on imports. What a worker does to itself stays in it
as before. A test that needs processes started anew does not ask for this.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.context import BaseContext
from unittest import mock

#: What every worker imports.
WORKER = ("conformance.observe.worker.entry", "conformance.observe.worker.observer")


def start_server(modules: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> None:
    """Start the server of this process, which imports the modules that there are in an environment."""
    forkserver.set_forkserver_preload([*WORKER, *modules])
    with mock.patch.dict(os.environ, environment or {}):
        forkserver.ensure_running()


@contextmanager
def forked() -> Iterator[None]:
    """Inside the `with`, what starts a process anew has this process's server fork one."""
    with mock.patch.object(multiprocessing, "get_context", _context):
        yield


def fork_all_in_a_child() -> None:
    """In a child of the process that has the server: from now on that server forks processes."""
    multiprocessing.get_context = _context  # type: ignore[assignment]
    # It runs, but is no child of this process, which could not tell.
    forkserver._forkserver.ensure_running = lambda: None  # type: ignore[attr-defined]


def _context(
    method: str | None = None,
    original: Callable[[str | None], BaseContext] = multiprocessing.get_context,
) -> BaseContext:
    return original("forkserver" if method == "spawn" else method)
