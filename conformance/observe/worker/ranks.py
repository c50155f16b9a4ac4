"""A program of several ranks, each in a process of its own, forked from the worker's.

In each of them the adapter's observer watches the program as it always does, and since all do the same,
their collectives meet. Where a rank ends early, the framework tells those that wait for it. Where they
wait for each other, each says where it is, and they are ended.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import re
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path

from conformance.model.observation import Observation
from conformance.model.program import Program

#: Seconds after which ranks that have not ended are taken to wait for each other.
LIMIT = 20.0


class WaitingError(Exception):
    """Ranks wait for each other: where each of them is, and the seconds that they had."""


@dataclass
class _Rank:
    process: int
    answer: Connection
    stack: Path
    observation: Observation | None = None


def observe(
    program: Program,
    collectives: Sequence[str],
    seen: Callable[[int, str], Observation],
    limit: float = LIMIT,
) -> Observation:
    """What each rank sees of a program: that of rank 0, with the `others`. `seen(rank, folder)` observes
    it on a rank; the folder is empty at first, and the same for all. `collectives` are the names of the
    framework's functions that ranks may be found in. Raises `WaitingError` after `limit` seconds."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = [_forked(rank, folder, seen) for rank in range(program.ranks)]
        try:
            _collect(ranks, time.monotonic() + limit)
            if any(rank.observation is None for rank in ranks):
                raise WaitingError(_places(ranks, program, collectives), limit)
        finally:
            for rank in ranks:
                _end(rank.process)
    first, *others = (rank.observation for rank in ranks if rank.observation is not None)
    return replace(first, others=tuple(others))


def _forked(rank: int, folder: str, seen: Callable[[int, str], Observation]) -> _Rank:
    receiving, sending = Pipe(duplex=False)
    stack = Path(folder) / f"stack-{rank}"
    process = os.fork()
    if process:
        sending.close()
        return _Rank(process, receiving, stack)
    try:
        with stack.open("w") as file:
            faulthandler.register(signal.SIGUSR1, file)
            try:
                answer = pickle.dumps(seen(rank, folder))
            except BaseException:
                answer = pickle.dumps(f"rank {rank}: {traceback.format_exc()}")
            sending.send_bytes(answer)
    finally:
        os._exit(0)


def _collect(ranks: Sequence[_Rank], deadline: float) -> None:
    """The observations of ranks that end before the deadline."""
    while waiting := {rank.answer: rank for rank in ranks if rank.observation is None}:
        ready = wait(list(waiting), max(0.0, deadline - time.monotonic()))
        if not ready:
            return
        for answer in ready:
            rank = waiting[answer]  # type: ignore[index]
            try:
                seen = pickle.loads(rank.answer.recv_bytes())
            except EOFError:
                raise RuntimeError(f"rank {ranks.index(rank)} ended without an answer") from None
            if isinstance(seen, str):
                raise RuntimeError(seen)
            rank.observation = seen


def _places(ranks: Sequence[_Rank], program: Program, collectives: Sequence[str]) -> str:
    """Where each rank is, in words: `rank 0 in all_reduce (r in region block)`, `rank 1 has ended`."""
    for rank in ranks:
        if rank.observation is None:
            os.kill(rank.process, signal.SIGUSR1)
    time.sleep(0.2)
    places = (
        "has ended" if rank.observation else _place(rank.stack.read_text(), program, collectives)
        for rank in ranks
    )
    return ", ".join(f"rank {number} {place}" for number, place in enumerate(places))


def _place(stack: str, program: Program, collectives: Sequence[str]) -> str:
    """Where a rank is, by its stack, the innermost function first."""
    functions = re.findall(r'^  File ".*", line \d+ in (.*)$', stack, re.MULTILINE)
    called = next((name for name in reversed(functions) if name in collectives), "the program")
    lines = re.findall(rf'^  File "{re.escape(program.file)}", line (\d+)', stack, re.MULTILINE)
    sites = [program.lines.get(int(line)) for line in lines]
    site = next((s for s in sites if s is not None and s.kind == "statement"), None)
    again = any(s is not None and s.label == "backward" for s in sites)
    where = f" ({site.label}{f' in region {site.region}' * bool(site.region)})" if site else ""
    return f"in {called}{where}{', in backward' * again}"


def _end(process: int) -> None:
    """End a process, if it has not ended, and forget it."""
    try:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
