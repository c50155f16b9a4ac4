"""Partial results: what the processes of one run have finished, until it goes into results files."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from conformance.model.result import Footer, Header, Result, Results
from conformance.results.codec import encode
from conformance.results.files import read, write_merged
from conformance.results.written import ResultWriter, WrittenResults
from conformance.writing import writing

_NAME = ".partial-"
_HEADER = "header.json"
_LOCK = "lock"


class PartialResults:
    """The partial results of one run in a folder: for each adapter, what each process wrote.

    The number of a result is its place in the results file. The process that made the folder holds a
    lock on it for as long as it lives: so a later one can tell that a run was cut off.
    """

    def __init__(self, folder: Path, lock: int | None = None) -> None:
        self.folder = folder
        self._lock = lock
        self._writers: dict[str, ResultWriter] = {}

    @classmethod
    def make(cls, reports: Path) -> PartialResults:
        """A new, empty folder below the reports' folder. Raises `WriteError`."""
        with writing(reports):
            reports.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(dir=reports, prefix=_NAME))
            return cls(folder, _held(folder))

    @classmethod
    def left(cls, reports: Path, adapters: Iterable[str]) -> Iterator[PartialResults]:
        """The folders left by interrupted runs of these adapters, oldest first. This process holds
        their locks until they are closed or removed.
        """
        folders = {
            path
            for name in adapters
            for path in reports.glob(f"{_NAME}*")
            if (path / name / _HEADER).is_file()
        }
        for folder in sorted(folders, key=_modified):
            with contextlib.suppress(OSError):
                lock = _held(folder)
                yield cls(folder, lock)

    def begin(self, adapter: str, header: Header) -> None:
        """Record which run the results belong to: `header` as far as it is known before any case
        runs. Raises `WriteError`.
        """
        with writing(self.folder):
            (self.folder / adapter).mkdir(exist_ok=True)
            (self.folder / adapter / _HEADER).write_bytes(msgspec.json.encode(header))

    def begun(self, adapter: str) -> Header | None:
        """The header that a run began with for an adapter; `None` where there is none of it here."""
        try:
            written = (self.folder / adapter / _HEADER).read_bytes()
            return msgspec.json.decode(written, type=Header)
        except (OSError, ValueError):
            return None

    def put(self, adapter: str, number: int, result: Result, note: bytes) -> None:
        """Keep a result, encoded as it will stand in the file. `note` is JSON, kept with it. Raises
        `WriteError`."""
        with writing(self.folder):
            if adapter not in self._writers:
                # Named by chance: a process of before may have had the number of this one.
                folder = self.folder / adapter
                folder.mkdir(exist_ok=True)
                handle, name = tempfile.mkstemp(dir=folder, prefix=f"{os.getpid()}-")
                os.close(handle)
                self._writers[adapter] = ResultWriter(Path(name))
            self._writers[adapter].put(number, encode(result), note)

    def results(self, adapter: str) -> WrittenResults:
        """What all processes have put here for an adapter."""
        indices = sorted((self.folder / adapter).glob("*.index"))
        return WrittenResults.of(file.with_suffix("") for file in indices)

    def read(self, adapter: str, header: Header, footer: Footer) -> Results:
        """What all processes have put here for an adapter, decoded. Raises `WriteError`, since it takes
        a file, and `ResultsError` where a machine went down while one was written."""
        file = self.folder / f"{adapter}.jsonl"
        write_merged(file, header, self.results(adapter), footer)
        return read(file)

    def drop(self, adapter: str) -> None:
        """Delete what there is of an adapter, and the folder where it was the last one."""
        shutil.rmtree(self.folder / adapter, ignore_errors=True)
        if not any(self.folder.glob(f"*/{_HEADER}")):
            self.remove()

    def close(self) -> None:
        """Close the files of this process, and let go of the folder."""
        for writer in self._writers.values():
            # What a full disk has not taken is not in the index either.
            with contextlib.suppress(OSError):
                writer.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def remove(self) -> None:
        """Delete the folder."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _held(folder: Path) -> int | None:
    """An exclusive lock on a folder of partial results; `None` where the file system has no locks.
    Raises `BlockingIOError` if another process holds it.
    """
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise
    except OSError:
        os.close(handle)
        return None
    return handle


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
