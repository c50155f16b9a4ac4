"""Logging what a worker prints: for each program, the beginning and the end."""

from __future__ import annotations

from pathlib import Path

#: Bytes that are kept of the beginning of what one program prints, and as many of its end.
KEPT = 64 * 1024


class Output:
    """Takes what is printed and appends it to a log, up to a limit for each program.

    The beginning is written as it comes, the end with `finish`. A log that cannot be written is no
    reason to stop: what is printed is no result.
    """

    def __init__(self, log: Path, kept: int = KEPT) -> None:
        self.log, self.kept = log, kept
        self._start()
        self._append(b"")  # a log that is there and empty: nothing was printed

    def _start(self) -> None:
        self._head, self._tail = b"", b""
        self._taken = 0

    def take(self, data: bytes) -> None:
        """More of what one program prints."""
        self._taken += len(data)
        first = data[: self.kept - len(self._head)]
        if first:
            self._head += first
            self._append(first)
        if len(first) < len(data):
            self._tail = (self._tail + data[len(first) :])[-self.kept :]

    def finish(self) -> bytes:
        """Write the end of what one program has printed. Returns what was kept of it."""
        left_out = self._taken - len(self._head) - len(self._tail)
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
