"""One worker process that handles one request at a time. Every wait has a time limit.

A library's process pool does not survive what frameworks and implementations do to their process. A
worker that is stopped, holds the GIL, or has patched a built-in function may never take its next
task, or may hold a queue's lock while it sends. So this module uses pipes that are read without
blocking, and kills a process that is late.

The worker has its own process group, which is killed as a whole. A shell (the warden) waits for the
end of its own input, and kills the group if this process ends without having done so, even by
SIGKILL.
"""

import atexit
import contextlib
import multiprocessing
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from conformance.observe.worker.serve import PREFIX, RECEIVED, framed, serve

#: Seconds after which it is checked whether the process still runs, where no pipe becomes ready.
_POLL = 0.5
#: Seconds that a process has to end: by itself when its requests are over, and after it was killed.
_ENDING = 3.0
_CHUNK = 1 << 16
#: Bytes that are kept of the beginning of what one program prints, and as many of its end.
KEPT = 64 * 1024
#: Kills a process group, a process and a folder when its input ends, unless a line comes before that: a
#: shell runs it in case this process dies without having done so.
_WARDEN = 'read _ && exit; kill -s KILL -- "-$1"; kill -s KILL "$1"; rm -rf -- "$2"'


class Output:
    """Takes what is printed and appends it to a log, up to a limit for each program.

    The beginning is written as it comes, the end by `finish`. A log that cannot be written is not an
    error, since no result depends on it.
    """

    def __init__(self, log: Path, kept: int = KEPT) -> None:
        self.log, self.kept = log, kept
        self._start()
        self._append(b"")  # an empty log says that nothing was printed

    def _start(self) -> None:
        self._head, self._tail, self._received = b"", b"", 0

    def take(self, data: bytes) -> None:
        """Add more of what one program prints."""
        self._received += len(data)
        first = data[: self.kept - len(self._head)]
        if first:
            self._head += first
            self._append(first)
        if len(first) < len(data):
            self._tail = (self._tail + data[len(first) :])[-self.kept :]

    def finish(self) -> bytes:
        """Write the end of one program's output. Returns the part of the output that was kept."""
        left_out = self._received - len(self._head) - len(self._tail)
        note = f"\n[{left_out:,} bytes of output left out here]\n".encode() if left_out else b""
        self._append(note + self._tail)
        kept = self._head + note + self._tail
        self._start()
        return kept

    def _append(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("ab") as file:
                file.write(data)


class Answered(NamedTuple):
    """The process has answered."""

    answer: bytes


class Died(NamedTuple):
    """The process ended: its exit code, what it had printed, and whether it had read the request."""

    code: int
    printed: bytes
    received: bool


class Late(NamedTuple):
    """The process did not answer in time or, if not `received`, did not read the request."""

    received: bool


class Process:
    """A worker process in a temporary folder of its own.

    `prepare(*arguments, folder)` is called in it first. Raises `OSError` where it cannot be started.
    """

    def __init__(
        self, name: str, prepare: Callable[..., None], arguments: tuple[Any, ...], output: Output
    ) -> None:
        self.output = output
        self._busy = False
        self._unread = bytearray()
        self.folder = tempfile.mkdtemp(prefix=f"conformance-{name}-")
        try:
            self._start(prepare, arguments)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        _open.add(self)

    def _start(self, prepare: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        context = multiprocessing.get_context("spawn")
        request_end, self._requests = context.Pipe(duplex=False)
        self._answers, answer_end = context.Pipe(duplex=False)
        self._printed, print_end = context.Pipe(duplex=False)
        self._process = context.Process(
            target=serve,
            args=(request_end, answer_end, print_end, prepare, (*arguments, self.folder)),
        )
        with _without_main():
            self._process.start()
        try:
            self._warden = subprocess.Popen(
                ["/bin/sh", "-c", _WARDEN, "sh", str(self.pid), self.folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a signal to this process's group spares the warden
                cwd="/",
            )
        except OSError:
            self._kill()
            raise
        for end in (request_end, answer_end, print_end):
            end.close()
        for end in (self._requests, self._answers, self._printed):
            os.set_blocking(end.fileno(), False)

    @property
    def pid(self) -> int:
        pid = self._process.pid
        assert pid is not None
        return pid

    @property
    def data(self) -> int:
        """Bytes of what it has allocated, as its limit of memory counts them."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self.pid}/status").read_text("utf-8").splitlines():
                if line.startswith("VmData:"):
                    return int(line.split()[1]) * 1024
        return 0

    def ask(self, request: bytes, receive_limit: float, limit: float) -> Answered | Died | Late:
        """Send a request and wait for its answer: at most `receive_limit` seconds until the process has
        read the request, and from then on at most `limit` seconds."""
        self._busy = True
        rest = memoryview(framed(request))
        received = False
        end = time.monotonic() + receive_limit
        while True:
            left = end - time.monotonic()
            if left <= 0:
                self._kill()
                self._finish_output()
                return Late(received)
            exited = self._process.exitcode is not None
            rest = self._exchange(rest, 0.0 if exited else min(left, _POLL))
            message = self._next_message()
            if message == RECEIVED and not received:
                received = True
                end = time.monotonic() + limit
                message = self._next_message()
            if message is not None:
                self._finish_output()  # it was printed before the answer
                self._busy = False
                return Answered(message)
            if exited:
                self._kill()
                return Died(self._process.exitcode or 0, self._finish_output(), received)

    def close(self) -> None:
        """End the process and what it has started, and remove its folder."""
        if self not in _open:
            return
        _open.discard(self)
        self._requests.close()  # the process ends when there are no more requests
        if not self._busy:
            self._await_end(_ENDING)
        self._kill()
        self._finish_output()
        for end in (self._answers, self._printed):
            end.close()
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._warden.communicate(b"\n", timeout=_ENDING)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _exchange(self, rest: memoryview, seconds: float) -> memoryview:
        """Wait at most `seconds` for a pipe to become ready, then send and read what is possible without
        blocking. `rest` is what is to be sent; returns what of it remains."""
        waiting = select.poll()
        for end in (self._answers, self._printed):
            waiting.register(end.fileno(), select.POLLIN)
        if rest:
            waiting.register(self._requests.fileno(), select.POLLOUT)
        ready = waiting.poll(seconds * 1000)
        self._collect_output(_CHUNK)
        while data := self._read(self._answers.fileno()):
            self._unread += data
        if rest:
            with contextlib.suppress(BlockingIOError, BrokenPipeError):
                rest = rest[os.write(self._requests.fileno(), rest) :]
        closed = select.POLLHUP | select.POLLERR
        if ready and all(e & closed and not e & select.POLLIN for _, e in ready):
            self._await_end(seconds)  # or poll would come back at once, again and again
        return rest

    def _next_message(self) -> bytes | None:
        """The next message of the process that has arrived whole; `None` where none has."""
        end = PREFIX + int.from_bytes(self._unread[:PREFIX], "big")
        if len(self._unread) < end:
            return None
        message = bytes(self._unread[PREFIX:end])
        del self._unread[:end]
        return message

    def _collect_output(self, most: int = 1 << 26) -> None:
        """Collect the output so far: about `most` bytes, since a process may print without end."""
        while most > 0 and (data := self._read(self._printed.fileno())):
            most -= len(data)
            self.output.take(data)

    def _finish_output(self) -> bytes:
        """Collect and log what was printed up to now. Returns the part of it that the log kept."""
        self._collect_output()
        return self.output.finish()

    @staticmethod
    def _read(descriptor: int) -> bytes:
        try:
            return os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return b""

    def _await_end(self, seconds: float) -> None:
        """Wait for the process to end, for so many seconds at most."""
        end = time.monotonic() + seconds
        while self._process.exitcode is None and time.monotonic() <= end:
            time.sleep(0.005)

    def _kill(self) -> None:
        """Kill the process and what it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.kill()
        self._await_end(_ENDING)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Hide the main module from `multiprocessing`. A spawned process would run the file of that module
    again, which may be a user's script that calls `conformance.check`, and needs nothing of it."""
    with _hiding:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


_hiding = threading.Lock()
#: Processes that have been started and not closed.
_open: set[Process] = set()


@atexit.register
def _close_all() -> None:
    """Close all processes at exit, before `multiprocessing` waits for its children."""
    for process in list(_open):
        process._busy = True  # whatever it does, it is not waited for
        process.close()
