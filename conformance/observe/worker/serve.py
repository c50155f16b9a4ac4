"""The main loop of a worker process: it receives one request at a time and answers it.

What runs here may change the process that it runs in: patch a built-in function, hold the
interpreter's lock, fork. So the loop keeps its own references to what it needs, and its parent waits
for nothing without a limit (`conformance.observe.process`).
"""

import multiprocessing.util
import os
import pickle
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

#: Length in bytes of the prefix of each message, which holds the message's length in bytes.
PREFIX = 8
#: The message that confirms that a request was received.
RECEIVED = b""
_read, _write, _end = os.read, os.write, os._exit
_dumps, _loads = pickle.dumps, pickle.loads


@dataclass(frozen=True)
class Broken:
    """The suite or the adapter raised: the exception in one line, and its traceback."""

    message: str
    traceback: str


def serve(
    requests: Connection,
    answers: Connection,
    output: Connection,
    prepare: Callable[..., None],
    arguments: tuple[Any, ...],
) -> None:
    """Answer requests until their pipe is closed. `prepare(*arguments)` is called first; what is printed
    goes to `output` from the start."""
    # A group of its own: what the framework starts is killed with it, and Ctrl-C does not reach it.
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    output.close()
    prepare(*arguments)
    reading, writing = requests.fileno(), answers.fileno()
    while True:
        request = _receive(reading)
        if request is None:
            multiprocessing.util._exit_function()  # type: ignore[attr-defined]
            _end(0)
        _send(writing, RECEIVED)
        _send(writing, _answer(request))


def framed(message: bytes) -> bytes:
    """A message as it is sent: its length first."""
    return len(message).to_bytes(PREFIX, "big") + message


def _answer(request: bytes) -> bytes:
    """What the function of a request returned, or a `Broken`, pickled."""
    try:
        function, arguments = _loads(request)
        return _dumps(function(*arguments))
    except BaseException as error:
        return _dumps(_broken(error))


def _broken(error: BaseException) -> Broken:
    """An exception in words. Making those may fail, too: the exception may be anybody's."""
    try:
        line = "".join(traceback.format_exception_only(error)).strip()
        return Broken(str.__str__(line), str.__str__(traceback.format_exc()))
    except BaseException as raised:
        return Broken(f"{type(error).__name__}, and {type(raised).__name__} while it was shown", "")


def _receive(reading: int) -> bytes | None:
    """The next message; `None` once the other end of the pipe is closed."""
    prefix = _exactly(reading, PREFIX)
    return None if prefix is None else _exactly(reading, int.from_bytes(prefix, "big"))


def _exactly(reading: int, size: int) -> bytes | None:
    """The next `size` bytes; `None` where the other end was closed before."""
    parts: list[bytes] = []
    while size:
        part = _read(reading, min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _send(writing: int, message: bytes) -> None:
    rest = memoryview(framed(message))
    while rest:
        rest = rest[_write(writing, rest) :]
