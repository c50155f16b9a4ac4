"""What one run of one adapter leaves behind: the values, free of how a file stores them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conformance.model.observation import Expected, Observation
from conformance.model.verdict import Status, Verdict

#: The number of the file format; a reader refuses any other.
FORMAT = 5
#: How the selection of a run begins that ran the smoke selection.
SMOKE = "--smoke"
#: Into what a run's wall time is split.
STAGES = ("import", "emitting", "observing", "judging")


@dataclass(frozen=True)
class Header:
    """Who ran, what, and on what.

    `variants` are full ids (`torch/reentrant`), each with its discipline in `disciplines`.
    `versions` names Python, NumPy, the operating system (`platform`) and the framework's packages.
    `cases` is `cases_hash` of the whole set of cases that was loaded; `selection` says in words
    which of them ran, and is empty where all did. `started` is ISO 8601 in UTC.
    `implementation` names a user's own function that was put in the framework's place, or is empty.
    `shard` says which of how many parts of a run this is (`2/4`), and `selected` how many pairs of
    case and variant all parts have together; they are empty and 0 for a run that was not divided.
    `interrupted` says what ended the run and how many results it had by then, and is empty for one that
    came to its end. `limits` are those on the command line: `seconds` for a case, `GiB` of memory.
    """

    suite: str
    adapter: str
    variants: tuple[str, ...]
    disciplines: Mapping[str, str]
    versions: Mapping[str, str]
    cases: str
    selection: str = ""
    started: str = ""
    implementation: str = ""
    #: For each variant, operations with inaccurate kernels and their greatest absolute error.
    accuracy: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    shard: str = ""
    selected: int = 0
    interrupted: str = ""
    limits: Mapping[str, float] = field(default_factory=dict)
    format: int = FORMAT


@dataclass(frozen=True)
class Result:
    """One case on one variant (full id): the verdicts, and what they were made from.

    `observation` is `None` where nothing could be observed (a crash, a missing capability),
    `expected` where nothing was expected. `program` is the path of the emitted program, relative to
    the reports' folder.
    """

    case: str
    variant: str
    verdicts: tuple[Verdict, ...]
    observation: Observation | None
    expected: Expected | None
    program: str


@dataclass(frozen=True)
class Footer:
    """That the run ended: how many results, how many verdicts of each status, seconds per stage."""

    results: int
    statuses: Mapping[Status, int]
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """A whole results file."""

    path: Path
    header: Header
    results: tuple[Result, ...]
    footer: Footer


def make_footer(results: Iterable[Result], seconds: Mapping[str, float]) -> Footer:
    """The footer that belongs under these results."""
    listed = list(results)
    counted = Counter(verdict.status for result in listed for verdict in result.verdicts)
    return Footer(len(listed), {s: counted[s] for s in Status if counted[s]}, dict(seconds))
