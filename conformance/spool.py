"""Results on their way to the results file: a JSON file each, from whichever process ran it."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from conformance.results import Result, result_from_dict, result_to_dict


class Spool:
    """A folder for one run. The number of a result is its place in the results file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def make(cls, reports: Path) -> Spool:
        """A new, empty spool below the reports' folder."""
        reports.mkdir(parents=True, exist_ok=True)
        return cls(Path(tempfile.mkdtemp(dir=reports, prefix=".spool-")))

    def put(self, adapter: str, number: int, result: Result) -> None:
        """Keep a result."""
        file = self.folder / adapter / f"{number:06}.json"
        file.parent.mkdir(exist_ok=True)
        temporary = file.with_suffix(".part")
        temporary.write_text(json.dumps(result_to_dict(result), allow_nan=False), "utf-8")
        temporary.replace(file)

    def results(self, adapter: str) -> tuple[Result, ...]:
        """The results of an adapter, by number."""
        files = sorted((self.folder / adapter).glob("*.json"))
        return tuple(result_from_dict(json.loads(file.read_text("utf-8"))) for file in files)

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
