"""What changed between two runs of the same adapters: worse, better, measured otherwise; versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from conformance.errors import ResultsError
from conformance.judge.outcomes import Outcome
from conformance.model.observation import Run
from conformance.report.versus import Side, side_of
from conformance.results import Result, Results
from conformance.words import line

#: Bytes count as unchanged where they differ by at most this fraction of the old number.
TOLERANCE = 0.02
_NOT_JUDGED = frozenset({Outcome.NOT_RUN, Outcome.UNSEEN})
#: From the worst to the best. No longer to offer what a case needs is worse than to cost more.
_WORST_FIRST = (
    Outcome.BROKEN,
    Outcome.WRONG,
    Outcome.RAISES,
    Outcome.INERT,
    Outcome.NOT_OFFERED,
    Outcome.COSTS,
    Outcome.WARNS,
    Outcome.RIGHT,
)


@dataclass(frozen=True)
class Change:
    """A case on a variant (full id) whose outcome differs between the two runs."""

    case: str
    variant: str
    old: Side
    new: Side

    @property
    def worse(self) -> bool:
        """Whether the new outcome is graver than the old one."""
        return _WORST_FIRST.index(self.new.outcome) < _WORST_FIRST.index(self.old.outcome)


@dataclass(frozen=True)
class Measured:
    """A measured number that differs where the outcome does not; `what` names it with its unit."""

    case: str
    variant: str
    what: str
    old: int
    new: int


@dataclass(frozen=True)
class Changes:
    """What changed from an old run to a new one.

    `versions` maps `adapter: package` to its old and its new version. `gone` and `added` are pairs of
    case and variant that only the old or only the new run has; `same` counts pairs without any change.
    """

    versions: Mapping[str, tuple[str, str]]
    changes: tuple[Change, ...]
    measured: tuple[Measured, ...]
    gone: tuple[tuple[str, str], ...]
    added: tuple[tuple[str, str], ...]
    same: int

    @property
    def worse(self) -> tuple[Change, ...]:
        """The changes for the worse, the gravest first."""
        worse = [change for change in self.changes if change.worse]
        return tuple(sorted(worse, key=lambda c: _WORST_FIRST.index(c.new.outcome)))

    @property
    def better(self) -> tuple[Change, ...]:
        """The changes for the better, in the order of the new run."""
        return tuple(change for change in self.changes if not change.worse)


def changes(old: Sequence[Results], new: Sequence[Results]) -> Changes:
    """What changed between two runs, matched by case and variant, whatever their versions.

    Raises `ResultsError` where no adapter is in both.
    """
    adapters = {run.header.adapter for run in old} & {run.header.adapter for run in new}
    if not adapters:
        names = [", ".join(sorted(run.header.adapter for run in runs)) for runs in (old, new)]
        message = f"no adapter in common: {names[0]} before, {names[1]} now"
        raise ResultsError(message, hint="give two runs of the same adapters")
    before, after = _by_pair(old, adapters), _by_pair(new, adapters)
    changed: list[Change] = []
    measured: list[Measured] = []
    same = 0
    for pair, result in after.items():
        if pair not in before:
            continue
        old_side, new_side = side_of(before[pair]), side_of(result)
        if (
            old_side.outcome is new_side.outcome
            or {old_side.outcome, new_side.outcome} & _NOT_JUDGED
        ):
            differences = tuple(_numbers(before[pair], result))
            measured += differences
            same += not differences
        else:
            changed.append(Change(*pair, old_side, new_side))
    return Changes(
        _versions(old, new, adapters),
        tuple(changed),
        tuple(measured),
        tuple(pair for pair in before if pair not in after),
        tuple(pair for pair in after if pair not in before),
        same,
    )


def _by_pair(runs: Sequence[Results], adapters: set[str]) -> dict[tuple[str, str], Result]:
    compared = [run for run in runs if run.header.adapter in adapters]
    return {(result.case, result.variant): result for run in compared for result in run.results}


def _versions(
    old: Sequence[Results], new: Sequence[Results], adapters: set[str]
) -> dict[str, tuple[str, str]]:
    """Packages whose versions differ: `adapter: package` to the old and the new version."""
    before = {run.header.adapter: run.header.versions for run in old}
    versions: dict[str, tuple[str, str]] = {}
    for run in new:
        if run.header.adapter in adapters:
            old_versions = before[run.header.adapter]
            for name in dict.fromkeys([*old_versions, *run.header.versions]):
                pair = old_versions.get(name, "none"), run.header.versions.get(name, "none")
                if pair[0] != pair[1]:
                    versions[f"{run.header.adapter}: {name}"] = pair
    return versions


def _numbers(old: Result, new: Result) -> Iterator[Measured]:
    """Reruns and bytes of one case on one variant that differ between the runs."""
    if old.observation is None or new.observation is None:
        return
    old_run, new_run = old.observation.recomputed, new.observation.recomputed
    counts = [_reruns(run) for run in (old_run, new_run)]
    for name in dict.fromkeys([*counts[0], *counts[1]]):
        count_before, count_now = (count.get(name, 0) for count in counts)
        if (
            count_before != count_now
            and old_run.executions is not None
            and new_run.executions is not None
        ):
            yield Measured(
                new.case, new.variant, f"{name} runs again, times", count_before, count_now
            )
    for what, bytes_before, bytes_now in (
        ("bytes retained", old_run.retained, new_run.retained),
        ("bytes at the peak", old_run.peak, new_run.peak),
    ):
        if bytes_before is None or bytes_now is None:
            continue
        if abs(bytes_now - bytes_before) > TOLERANCE * max(bytes_before, 1):
            yield Measured(new.case, new.variant, what, bytes_before, bytes_now)


def _reruns(run: Run) -> dict[str, int]:
    """How often each region, or each statement of one, runs again in backward."""
    reruns: dict[str, int] = {}
    for e in run.executions or ():
        if e.phase == "rerun" and e.region:
            name = f"{e.statement} of {e.region}" if e.statement else e.region
            reruns[name] = reruns.get(name, 0) + e.count
    return reruns


def lines(changed: Changes, *, longest: int = 200) -> Iterator[str]:
    """What changed, as lines for a terminal: changes for the worse first."""
    for name, (old, new) in changed.versions.items():
        yield f"{name} {old} → {new}"
    for title, group in (("worse", changed.worse), ("better", changed.better)):
        for change in group:
            yield f"{title}: {change.case} on {change.variant}"
            yield f"  was {line(change.old.text, longest)}"
            yield f"  now {line(change.new.text, longest)}"
    for difference in changed.measured:
        yield (
            f"measured otherwise: {difference.case} on {difference.variant}: {difference.what} "
            f"{difference.old} → {difference.new}"
        )
    yield summary(changed)


def summary(changed: Changes) -> str:
    """How many cases changed, in a sentence."""
    parts = [
        f"{len(changed.worse)} worse",
        f"{len(changed.better)} better",
        f"{len(changed.measured)} numbers differ",
        f"{changed.same} as before",
    ]
    if changed.gone:
        parts.append(f"{len(changed.gone)} not run any more")
    if changed.added:
        parts.append(f"{len(changed.added)} new")
    return f"{', '.join(parts)}."
