"""The issues that `conformance bug --all` has written, and the reasons that they are about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from conformance.errors import ResultsError

#: The folder of issues in that of the results, and in it, in a folder for each adapter, which reason
#: each file is about.
FOLDER, INDEX = "bugs", "reasons.json"


def reasons_of(folder: Path) -> dict[str, str]:
    """The file names in a folder of one adapter's issues, by their reasons. Raises `ResultsError` for an
    index that is none."""
    file = folder / INDEX
    if not file.is_file():
        return {}
    try:
        index = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ResultsError(f"no index of issues: {error}", where=file) from error
    if not isinstance(index, dict) or not all(isinstance(name, str) for name in index.values()):
        raise ResultsError("no index of issues: it maps reasons to files", where=file)
    return {" ".join(reason.split()): name for reason, name in index.items()}


def to_index(index: Mapping[str, str]) -> str:
    """The index, from file names by reason: the same each time."""
    return json.dumps(dict(sorted(index.items())), indent=1, ensure_ascii=False) + "\n"


def find(reports: Path) -> dict[tuple[str, str], str]:
    """The paths of all issues in a folder of results, by adapter and reason, relative to that folder.

    A name that is none of a file there is left out.
    """
    addresses: dict[tuple[str, str], str] = {}
    for folder in sorted((reports / FOLDER).glob("*/")):
        for reason, name in reasons_of(folder).items():
            if Path(name).name == name and (folder / name).is_file():
                addresses[folder.name, reason] = f"{FOLDER}/{folder.name}/{name}"
    return addresses
