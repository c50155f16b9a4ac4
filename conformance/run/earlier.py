"""Finding what an unfinished earlier run left behind, to resume it.

An interrupted run has written its results and says so in their header. A killed run leaves its
partial results: a folder whose lock nobody holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from conformance.errors import ComparisonError, ResultsError
from conformance.results import Header, Result, Results, read
from conformance.results.partial import PartialResults
from conformance.run.merge import difference
from conformance.run.shards import Pair
from conformance.run.summary import AdapterRun, Tally

#: What the headers of the earlier and of this run share, and what it is called.
_SHARED: Mapping[str, str] = {
    "suite": "versions of the suite",
    "versions": "versions",
    "cases": "cases",
    "implementation": "implementations",
    "limits": "limits",
}


@dataclass
class Earlier:
    """What is left of an adapter's unfinished runs: their results by pair, of several those of the later
    run, and the partial results that hold them."""

    results: dict[Pair, Result] = field(default_factory=dict)
    partials: list[PartialResults] = field(default_factory=list)

    def drop(self, adapter: str) -> None:
        """Delete the partial results; they are now all part of a results file."""
        for partial in self.partials:
            partial.drop(adapter)

    def close(self) -> None:
        """Release the partial results, so that a later run can resume them."""
        for partial in self.partials:
            partial.close()


def find(left: Iterable[PartialResults], file: Path, now: Header) -> Earlier:
    """What is left of earlier runs that were to write `file`, to be continued by the run that begins
    with the header `now`. `left` are the partial results of runs that were cut off.

    Raises `ComparisonError` where they were of other cases or versions, and `WriteError`.
    """
    earlier = Earlier()
    runs: list[tuple[str, Results]] = []
    if file.is_file():
        try:
            before = read(file)
        except ResultsError:
            before = None
        if before is not None and before.header.interrupted:
            _fits(before.header, now, file)
            runs.append((before.header.started, before))
    for partial in left:
        header = partial.begun(now.adapter)
        if header is None or header.shard != now.shard:
            continue
        earlier.partials.append(partial)
        results = _read(partial, header)
        if results is not None:
            _fits(header, now, partial.folder)
            runs.append((header.started, results))
    for _, run in sorted(runs, key=lambda run: run[0]):
        earlier.results |= {(r.case, r.variant): r for r in run.results}
    return earlier


def _read(partial: PartialResults, header: Header) -> Results | None:
    """The results of an adapter among partial ones; `None` where there are none, or they are damaged."""
    run = AdapterRun(header.adapter, header.variants, partial.folder)
    try:
        for note in partial.results(header.adapter).notes:
            run.add(msgspec.json.decode(note, type=Tally))
        return partial.read(header.adapter, header, run.footer) if run.results else None
    except (ResultsError, ValueError, OSError):  # the machine went down while it was written
        return None


def _fits(before: Header, now: Header, where: Path) -> None:
    """Raise `ComparisonError` where an earlier run cannot be continued by the one that begins now."""
    for name, words in _SHARED.items():
        old, new = getattr(before, name), getattr(now, name)
        if name == "cases":
            old, new = old[:12], new[:12]
        if old != new:
            raise ComparisonError(
                f"the run that was cut off had other {words}: {difference(old, new)}",
                where=where,
                hint="run again without --resume",
            )
    for name in ("disciplines", "accuracy"):
        old, new = getattr(before, name), getattr(now, name)
        changed = [v for v in old if v in now.variants and old[v] != new.get(v)]
        if changed:
            raise ComparisonError(
                f"{changed[0]} has changed since the run that was cut off",
                where=where,
                hint="run again without --resume",
            )
