"""The results of a run on one adapter, as values, free of how the store keeps them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conformance.model.observation import Expected, Observation
from conformance.model.verdict import Verdict
from conformance.words import counted

#: A case's id and the full id of a variant (`torch/reentrant`).
Pair = tuple[str, str]
#: How the selection of a run begins that ran the smoke cases alone.
SMOKE = "--smoke"
#: Into what a run's wall time is split.
STAGES = ("import", "emitting", "observing", "judging")


@dataclass(frozen=True)
class Header:
    """Who ran, what, and on what.

    `variants` are full ids (`torch/reentrant`), each with its discipline in `disciplines`. `versions`
    names Python, NumPy, the operating system (`platform`) and the framework's packages.
    `cases` is `cases_hash` of the whole set of cases that was loaded; `selection` is the options that
    chose among them, and is empty where all ran. `started` is ISO 8601 in UTC.
    `implementation` names a user's own function that was put in the framework's place, or is empty.
    `accuracy` names, for each variant, operations with inaccurate kernels and their greatest error.
    `shard` says which parts of a divided run these results are (`2/4`), and is empty for all of it.
    `interrupted` says what ended the run early, and is empty for one that came to its end.
    `limits` are those on the command line: `seconds` for a case, `GiB` of memory. `seconds` is the wall
    time of each stage.
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
    accuracy: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    shard: str = ""
    interrupted: str = ""
    limits: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


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

    @property
    def pair(self) -> Pair:
        """The ids of the case and of the variant."""
        return self.case, self.variant


@dataclass(frozen=True)
class Results:
    """The results of one run on one adapter. `planned` are the pairs that the run was to judge, those of
    other parts of a divided run among them; it is empty where that is not known."""

    path: Path
    header: Header
    results: tuple[Result, ...]
    planned: tuple[Pair, ...] = ()

    @property
    def missing(self) -> tuple[Pair, ...]:
        """The pairs without a result: the run was interrupted, or a part of it lies elsewhere."""
        judged = {result.pair for result in self.results}
        return tuple(pair for pair in self.planned if pair not in judged)

    @property
    def lacks(self) -> str:
        """What is missing, in a sentence; empty for a whole run."""
        missing = len(self.missing)
        if not missing and not self.header.interrupted:
            return ""
        words = f"{missing:,} of {counted(len(self.planned), 'pair')} missing"
        reasons = [f"ended by {self.header.interrupted}" if self.header.interrupted else ""]
        reasons += [f"only shard {self.header.shard} is here" if self.header.shard else ""]
        return "; ".join([words, *filter(None, reasons)])
