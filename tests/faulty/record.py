"""Which cases catch each fault, on record in `adapters/<framework>/caught.yaml`.

Smoke selections are chosen from it (`conformance.smoke_cover`), so that they catch every fault. A case
is on record where it catches a fault whatever ran before it in the same process: a fault that one case
leaves behind for the next is that first case's to catch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from conformance.adapter import Adapter, read_adapter
from conformance.smoke_cover import read_caught, write_caught
from tests.faulty.faults import ROOT, faults_of
from tests.faulty.table import Found

#: For each case the checks that catch a fault in it.
Caught = Mapping[str, tuple[str, ...]]
UPDATE = "pytest tests/faulty --update-caught"
_HEADER = """\
# Which cases catch each faulty implementation of tests/faulty/implementations/{framework}, and by which
# checks, whatever runs before them. Written by `{update}` with {framework} installed.
"""


def adapter_of(framework: str) -> Adapter:
    """The adapter that a framework's faulty implementations run in."""
    return read_adapter(ROOT / "adapters" / framework)


def both(one: Found, other: Found) -> Caught:
    """What is caught in both of two runs."""
    agreed = {
        case: tuple(check for check in checks if check in other.caught.get(case, ()))
        for case, checks in one.caught.items()
    }
    return {case: checks for case, checks in agreed.items() if checks}


def write(recorded: Mapping[str, Caught]) -> list[Path]:
    """Put on record what catches faults, by their ids. What did not run stays as it is, and faults
    that there are no more go. Returns the files."""
    new: dict[str, dict[str, Caught]] = {}
    for fault, caught in recorded.items():
        framework, _, name = fault.partition("/")
        new.setdefault(framework, {})[name] = caught
    files = []
    for framework, caught in new.items():
        adapter = adapter_of(framework)
        names = {fault.name for fault in faults_of(framework)}
        every = {k: v for k, v in {**read_caught(adapter), **caught}.items() if k in names}
        header = _HEADER.format(framework=framework, update=UPDATE)
        files.append(write_caught(adapter, every, header))
    return files
