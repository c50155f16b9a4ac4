"""Which cases catch each fault, on record in `adapters/<framework>/caught.yaml`.

Smoke selections are chosen from it (`conformance.run.smoke_cover`), so that they catch every fault.
A case is on record where it catches a fault on its own. So a fault whose effect lasts from one
program to the next in a process, as the order of cases shows, is on record with the case that is meant
to catch it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from conformance.run.smoke import FILE, find
from conformance.run.smoke_cover import read_caught, write_caught

from conformance.drivers.adapter import Adapter, read_adapter
from tests.faulty.faults import ROOT, faults_of
from tests.faulty.table import Found

#: For each case the checks that catch a fault in it.
Caught = Mapping[str, tuple[str, ...]]
UPDATE = "pytest tests/faulty --update-caught"
_HEADER = """\
# Which cases catch each faulty implementation of tests/faulty/implementations/{framework}, and by which
# checks, each on its own. Written by `{update}` with {framework} installed.
"""


def adapter_of(framework: str) -> Adapter:
    """The adapter that a framework's faulty implementations run in."""
    return read_adapter(ROOT / "adapters" / framework)


def smoke_cases(framework: str) -> tuple[str, ...]:
    """The cases of the framework's smoke selection; none while there is no selection yet."""
    adapter = adapter_of(framework)
    return find(adapter).cases if (adapter.folder / FILE).is_file() else ()


def alone(forwards: Found, backwards: Found) -> Caught:
    """What catches a fault whatever ran before, out of two runs of all cases in opposite orders."""
    caught = {case: checks for case, checks in forwards.caught.items() if checks}
    if {case: checks for case, checks in backwards.caught.items() if checks} == caught:
        return caught
    fault = forwards.fault
    assert fault is not None, "there is nothing to catch"
    assert fault.check in backwards.caught[fault.case], "its own case does not catch it alone"
    return {fault.case: tuple(c for c in caught[fault.case] if c in backwards.caught[fault.case])}


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
