"""Logging what a worker prints: for each program, the beginning and the end."""

from __future__ import annotations

from pathlib import Path

#: Bytes that are kept of the beginning of what one program prints, and as many of its end.
KEPT = 64 * 1024


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
        self._head, self._tail = b"", b""
        self._received = 0

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
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("ab") as file:
                file.write(data)
        except OSError:
            return
