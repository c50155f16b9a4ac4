"""The results of one process, appended as they finish and merged at the end.

Lines and arrays are written as they will appear in the results file; an index records their
positions. Merging copies bytes in the order of the results' numbers, without decoding them.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec
import numpy as np

from conformance.model.observation import Array
from conformance.results.codec import Encoded


class Span(msgspec.Struct, frozen=True, array_like=True):
    """A range of bytes of a file: `start` is the first, `end` the one after the last."""

    start: int
    end: int


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """An array in the file of arrays: `start` is the position of its first byte."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A result: its number in the results file, its line, and by their keys the lines that it refers to.

    A line of `shared` that this process had written before has no span here, and an array that it had
    written before is not listed. `note` is JSON that the caller wants back with the result.
    """

    number: int
    line: Span
    shared: dict[str, Span | None]
    arrays: tuple[Stored, ...]
    note: msgspec.Raw


class ResultWriter:
    """The results of one process: `<stem>.lines`, `<stem>.arrays` and `<stem>.index`."""

    def __init__(self, stem: Path) -> None:
        stem.parent.mkdir(parents=True, exist_ok=True)
        self._lines = stem.with_suffix(".lines").open("ab")
        self._arrays = stem.with_suffix(".arrays").open("ab")
        self._index = stem.with_suffix(".index").open("ab")
        self._written: set[str] = set()

    def put(self, number: int, encoded: Encoded, note: bytes = b"null") -> None:
        """Keep a result. `note` is JSON."""
        entry = Entry(
            number,
            _append(self._lines, encoded.line + b"\n"),
            {
                key: None if key in self._written else _append(self._lines, line + b"\n")
                for key, line in encoded.shared
            },
            tuple(
                Stored(name, array.dtype.name, array.shape, self._append_array(array))
                for name, array in encoded.arrays.items()
                if name not in self._written
            ),
            msgspec.Raw(note),
        )
        self._written |= {*entry.shared, *encoded.arrays}
        # The index last: what it names is there.
        for file in (self._lines, self._arrays):
            file.flush()
        self._index.write(msgspec.json.encode(entry) + b"\n")
        self._index.flush()

    def close(self) -> None:
        """Close the files."""
        for file in (self._lines, self._arrays, self._index):
            file.close()

    def _append_array(self, array: Array) -> int:
        return _append(self._arrays, array.tobytes()).start


def _append(file: IO[bytes], data: bytes) -> Span:
    start = file.tell()
    file.write(data)
    return Span(start, start + len(data))


@dataclass(frozen=True)
class WrittenResults:
    """The results of several processes, by number, and where everything that they refer to stands."""

    entries: tuple[tuple[Path, Entry], ...]
    shared: Mapping[str, tuple[Path, Span]]
    stored: Mapping[str, tuple[Path, Stored]]

    @classmethod
    def of(cls, stems: Iterable[Path]) -> WrittenResults:
        """What these processes have written. Of two results with one number, the later one counts.

        Raises `ValueError` and `OSError` where it is damaged.
        """
        decoder = msgspec.json.Decoder(Entry)
        entries: dict[int, tuple[Path, Entry]] = {}
        shared: dict[str, tuple[Path, Span]] = {}
        stored: dict[str, tuple[Path, Stored]] = {}
        for stem in stems:
            with stem.with_suffix(".index").open("rb") as file:
                for line in file:
                    if not line.endswith(b"\n"):  # of a process that died while it wrote
                        continue
                    entry = decoder.decode(line)
                    entries[entry.number] = (stem, entry)
                    for key, span in entry.shared.items():
                        if span is not None:
                            shared.setdefault(key, (stem, span))
                    for array in entry.arrays:
                        stored.setdefault(array.name, (stem, array))
        for _, entry in entries.values():
            missing = next((key for key in entry.shared if key not in shared), None)
            if missing is not None:
                raise ValueError(f"the index names a line {missing} that is not there")
        return cls(tuple(entries[number] for number in sorted(entries)), shared, stored)

    @property
    def notes(self) -> Iterator[bytes]:
        """The notes, by the results' numbers."""
        return (bytes(entry.note) for _, entry in self.entries)

    def lines(self) -> Iterator[bytes]:
        """Lines with their ends: each shared one once, before the first result that refers to it."""
        stems = {stem for stem, _ in (*self.entries, *self.shared.values())}
        data = {stem: _mapped(stem.with_suffix(".lines")) for stem in stems}
        written: set[str] = set()
        for own_stem, entry in self.entries:
            for key in entry.shared:
                if key not in written:
                    written.add(key)
                    stem, span = self.shared[key]
                    yield data[stem][span.start : span.end]
            yield data[own_stem][entry.line.start : entry.line.end]

    def arrays(self) -> Mapping[str, Array]:
        """All arrays by name; their elements stay in the processes' files until they are used."""
        stems = {stem for stem, _ in self.stored.values()}
        data = {stem: _mapped(stem.with_suffix(".arrays")) for stem in stems}
        return {name: _view(data[stem], stored) for name, (stem, stored) in self.stored.items()}


def _view(data: bytes | mmap.mmap, stored: Stored) -> Array:
    """An array, not copied. Raises `ValueError` for a dtype or shape that does not fit the data."""
    try:
        dtype = np.dtype(stored.dtype)
        count = math.prod(stored.shape)
        if count == 0:
            return np.empty(stored.shape, dtype)
        flat: Array = np.frombuffer(data, dtype, count, stored.start)
        return flat.reshape(stored.shape)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"the index names an array that cannot be: {error}") from error


def _mapped(path: Path) -> bytes | mmap.mmap:
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
