"""Programs of several ranks: each rank is a process, and one more brings them together, as `msrun` does.

A fork of a process in which an operation has run lacks its threads, and waits for ever at the first
collective. So ranks are forked from a process that was forked before that.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe

from mindspore.communication import init

from conformance.model.observation import Observation
from conformance.model.program import Program
from conformance.observe.worker import ranks

#: Functions that a rank may be found in while it waits for others.
COLLECTIVES = ("all_gather", "reduce_scatter")
#: Seconds for all ranks: they look for each other every half second, and load what they need once more.
LIMIT = 90.0


class Unused:
    """A process forked from this one before any operation has run, which observes programs of several
    ranks. `seen` observes a program on a rank, in the rank's process."""

    def __init__(self, seen: Callable[[Program], Observation]) -> None:
        self._connection, there = Pipe()
        if os.fork():
            there.close()
            return
        try:
            self._connection.close()
            _serve(there, seen)
        finally:
            os._exit(0)

    def observe(self, program: Program) -> Observation:
        """What each rank sees of a program. Raises `WaitingError`, and what a rank has raised."""
        self._connection.send(program)
        answer = self._connection.recv()
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Observation)
        return answer


def _serve(requests: Connection, seen: Callable[[Program], Observation]) -> None:
    while True:
        try:
            program = requests.recv()
        except EOFError:
            return
        try:
            answer: Observation | Exception = _observed(program, seen)
        except Exception as error:
            answer = error
        requests.send_bytes(pickle.dumps(answer))


def _observed(program: Program, seen: Callable[[Program], Observation]) -> Observation:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ |= {
        "MS_WORKER_NUM": str(program.ranks),
        "MS_SCHED_HOST": "127.0.0.1",
        "MS_SCHED_PORT": str(port),
    }

    def on_rank(rank: int, folder: str) -> Observation:
        os.environ |= {"MS_ROLE": "MS_WORKER", "MS_NODE_ID": str(rank)}
        init("mccl")
        return seen(program)

    scheduler = os.fork()
    if not scheduler:
        os.environ["MS_ROLE"] = "MS_SCHED"
        try:
            init("mccl")
        finally:
            os._exit(0)
    try:
        return ranks.observe(program, COLLECTIVES, on_rank, LIMIT)
    finally:
        os.kill(scheduler, signal.SIGKILL)
        os.waitpid(scheduler, 0)
