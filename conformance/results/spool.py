"""Results on their way to the results files, from whichever process ran them."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from conformance.results import Bound, Result, Sheaf, encode


class Spool:
    """A folder for one run: for each adapter, what each process wrote.

    The number of a result is its place in the results file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sheaves: dict[str, Sheaf] = {}

    @classmethod
    def make(cls, reports: Path) -> Spool:
        """A new, empty spool below the reports' folder."""
        reports.mkdir(parents=True, exist_ok=True)
        return cls(Path(tempfile.mkdtemp(dir=reports, prefix=".spool-")))

    def put(self, adapter: str, number: int, result: Result, note: bytes) -> None:
        """Keep a result, encoded as it will stand in the file. `note` is JSON, kept with it."""
        if adapter not in self._sheaves:
            self._sheaves[adapter] = Sheaf(self.folder / adapter / str(os.getpid()))
        self._sheaves[adapter].put(number, encode(result), note)

    def results(self, adapter: str) -> Bound:
        """What all processes have put here for an adapter."""
        found = sorted((self.folder / adapter).glob("*.index"))
        return Bound.of(file.with_suffix("") for file in found)

    def close(self) -> None:
        """Close the files of this process."""
        for sheaf in self._sheaves.values():
            sheaf.close()

    def remove(self) -> None:
        """Delete the folder."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)
