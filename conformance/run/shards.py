"""Shards: parts of one run for several machines, each of about the same length.

Every machine computes the same split from what is checked in: the cases, the variants, and the
seconds that each took in a run of before (`conformance.results.recorded`). `conformance merge` puts the
results of all shards together.

Plugins that split a pytest run (pytest-split, pytest-shard) deal in items. Here an item is a check,
and all checks of a case on a variant are judged from one observation: two machines that share them
would both make it. So what is split is pairs of case and variant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from conformance.drivers.adapter import Adapter, Variant
from conformance.errors import ConformanceError
from conformance.model.case import Case
from conformance.results.recorded import Recorded
from conformance.run.runner import lacking

#: A case's id and a variant's.
Pair = tuple[str, str]
#: What a shard adds to the names of its files, as a pattern for any shard.
PATTERN = ".shard-*-of-*"
#: Seconds, roughly, until a worker process has imported a framework.
START = 5.0
#: Seconds of a case that a variant does not support: it is written down, and that is all.
UNSUPPORTED = 0.005
_SHARD = re.compile(r"([1-9]\d{0,3})/([1-9]\d{0,3})")


@dataclass(frozen=True)
class Shard:
    """The `number`-th (from 1) of `of` parts of a run."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def stem(self, adapter: str) -> str:
        """What its files are named: `torch.shard-2-of-4`, to be followed by `.jsonl` or `.log`."""
        return f"{adapter}.shard-{self.number}-of-{self.of}"


@dataclass(frozen=True)
class Job:
    """A case on a variant, as something that takes time in a worker process."""

    pair: Pair
    worker: str
    seconds: float


def parse(text: str) -> Shard:
    """The shard that is written `2/4`. Raises `ConformanceError` for anything else."""
    match = _SHARD.fullmatch(text)
    if match is None or int(match[1]) > int(match[2]):
        raise ConformanceError(
            f"{text!r} is no shard",
            hint="write which of how many: --shard 2/4 is the second of four",
        )
    return Shard(int(match[1]), int(match[2]))


def pair_of(nodeid: str) -> Pair:
    """The case and the variant of an item's id: `….yaml::family/case[torch/eager] gradient`."""
    case, _, variant = nodeid.partition("::")[2].rpartition("] ")[0].rpartition("[")
    return case, variant


def seconds(recorded: Recorded, case: Case, variant: Variant) -> float:
    """How long a case on a variant takes, as far as that is known before it runs."""
    if lacking(case, variant) is not None:
        return UNSUPPORTED
    return max(recorded.seconds(case.id, variant.id), UNSUPPORTED)


def jobs(
    adapter: Adapter, recorded: Recorded, pairs: Iterable[tuple[Case, Variant]]
) -> tuple[Job, ...]:
    """Pairs as jobs. Variants with the same environment share a worker process."""
    return tuple(
        Job(
            (case.id, variant.id),
            repr(sorted((adapter.model.environment | variant.model.environment).items())),
            seconds(recorded, case, variant),
        )
        for case, variant in pairs
    )


def split(listed: Sequence[Job], of: int) -> tuple[frozenset[Pair], ...]:
    """The jobs in `of` parts of about the same length, each in one part; parts may be empty.

    What takes longer than its part ought to gets a part of its own. The others are laid in a row, by
    worker and variant, and the row is filled into the parts one after the other; a variant at the
    end of a part is divided, longest jobs first, so that hardly more workers start than without
    parts (McNaughton's wrap-around rule, with jobs for its units of time). The same jobs give the
    same parts, in whatever order they are given.
    """
    rest = sorted(listed, key=lambda job: (-job.seconds, job.pair))
    parts: list[list[Job]] = []
    while rest and len(parts) < of - 1 and rest[0].seconds > _length(rest, of - len(parts)) - START:
        parts.append([rest.pop(0)])
    while len(parts) < of:
        part = _fill(rest, of - len(parts))
        in_part = {job.pair for job in part}
        rest = [job for job in rest if job.pair not in in_part]
        parts.append(part)
    return tuple(frozenset(job.pair for job in part) for part in parts)


def _length(rest: Sequence[Job], parts: int) -> float:
    """How long each of so many parts ought to be: every part more is a worker more, if not two."""
    starts = len({job.worker for job in rest}) + parts - 1
    return (sum(job.seconds for job in rest) + START * starts) / parts


def _fill(rest: Sequence[Job], parts: int) -> list[Job]:
    """The first of so many parts. `rest` is sorted by length."""
    if parts == 1:
        return list(rest)
    groups: dict[tuple[str, str], list[Job]] = {}
    for job in rest:
        groups.setdefault((job.worker, job.pair[1]), []).append(job)
    room = _length(rest, parts)
    part: list[Job] = []
    started: set[str] = set()
    for (worker, _), group in sorted(groups.items()):
        start = 0.0 if worker in started else START
        if part and room - start < start:  # no more to do there than to start it
            break
        room -= start
        started.add(worker)
        left_out = False
        for job in group:
            if job.seconds <= room:
                part.append(job)
                room -= job.seconds
            else:
                left_out = True
        if left_out:
            break
    return part
