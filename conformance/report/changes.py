"""What changed between two runs of the same adapters: worse, better, measured otherwise; versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from conformance.errors import ResultsError
from conformance.model.observation import Run
from conformance.report.outcomes import Outcome
from conformance.report.versus import Side, side_of
from conformance.results import Result, Results
from conformance.words import line

#: Bytes that differ by less than this share of the old ones are measured as before.
ALIKE = 0.02
_SILENT = frozenset({Outcome.NOT_RUN, Outcome.UNSEEN})
#: From the worst to the best; to offer a thing no more is worse than to cost more than needed.
_ORDER = (
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
    """A case on a variant (full id) that comes out otherwise."""

    case: str
    variant: str
    old: Side
    new: Side

    @property
    def worse(self) -> bool:
        """Whether the new outcome is the graver one."""
        return _ORDER.index(self.new.outcome) < _ORDER.index(self.old.outcome)


@dataclass(frozen=True)
class Measured:
    """A number of a case on a variant that is another one now, where the outcome is the same."""

    case: str
    variant: str
    what: str
    old: int
    new: int


@dataclass(frozen=True)
class Changes:
    """What changed from an old run to a new one. `gone` and `added` are pairs of case and variant."""

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
        return tuple(sorted(worse, key=lambda c: _ORDER.index(c.new.outcome)))

    @property
    def better(self) -> tuple[Change, ...]:
        """The changes for the better."""
        return tuple(change for change in self.changes if not change.worse)


def changes(old: Sequence[Results], new: Sequence[Results]) -> Changes:
    """What changed; results are matched by case and variant, whatever the versions.

    Raises `ResultsError` where no adapter is in both.
    """
    both = {run.header.adapter for run in old} & {run.header.adapter for run in new}
    if not both:
        names = [", ".join(sorted(run.header.adapter for run in runs)) for runs in (old, new)]
        message = f"no adapter in common: {names[0]} before, {names[1]} now"
        raise ResultsError(message, hint="give two runs of the same adapters")
    before, now = _by_pair(old, both), _by_pair(new, both)
    changed: list[Change] = []
    measured: list[Measured] = []
    same = 0
    for pair, result in now.items():
        if pair not in before:
            continue
        was, side = side_of(before[pair]), side_of(result)
        if was.outcome is side.outcome or {was.outcome, side.outcome} & _SILENT:
            numbers = tuple(_numbers(before[pair], result))
            measured += numbers
            same += not numbers
        else:
            changed.append(Change(*pair, was, side))
    return Changes(
        _versions(old, new, both),
        tuple(changed),
        tuple(measured),
        tuple(pair for pair in before if pair not in now),
        tuple(pair for pair in now if pair not in before),
        same,
    )


def _by_pair(runs: Sequence[Results], adapters: set[str]) -> dict[tuple[str, str], Result]:
    chosen = [run for run in runs if run.header.adapter in adapters]
    return {(result.case, result.variant): result for run in chosen for result in run.results}


def _versions(
    old: Sequence[Results], new: Sequence[Results], adapters: set[str]
) -> dict[str, tuple[str, str]]:
    """What was installed in another version: `torch: torch` to the old and the new one."""
    before = {run.header.adapter: run.header.versions for run in old}
    versions: dict[str, tuple[str, str]] = {}
    for run in new:
        if run.header.adapter in adapters:
            was = before[run.header.adapter]
            for name in dict.fromkeys([*was, *run.header.versions]):
                pair = was.get(name, "none"), run.header.versions.get(name, "none")
                if pair[0] != pair[1]:
                    versions[f"{run.header.adapter}: {name}"] = pair
    return versions


def _numbers(old: Result, new: Result) -> Iterator[Measured]:
    if old.observation is None or new.observation is None:
        return
    one, two = old.observation.recomputed, new.observation.recomputed
    counts = [_reruns(run) for run in (one, two)]
    for name in dict.fromkeys([*counts[0], *counts[1]]):
        was, now = (count.get(name, 0) for count in counts)
        if was != now and one.executions is not None and two.executions is not None:
            yield Measured(new.case, new.variant, f"{name} runs again, times", was, now)
    for what, was_bytes, bytes_now in (
        ("bytes retained", one.retained, two.retained),
        ("bytes at the peak", one.peak, two.peak),
    ):
        if was_bytes is None or bytes_now is None:
            continue
        if abs(bytes_now - was_bytes) > ALIKE * max(was_bytes, 1):
            yield Measured(new.case, new.variant, what, was_bytes, bytes_now)


def _reruns(run: Run) -> dict[str, int]:
    reruns: dict[str, int] = {}
    for e in run.executions or ():
        if e.phase == "rerun" and e.region:
            name = f"{e.statement} of {e.region}" if e.statement else e.region
            reruns[name] = reruns.get(name, 0) + e.count
    return reruns


def lines(changed: Changes, *, longest: int = 200) -> Iterator[str]:
    """What changed, for a terminal: the worse first."""
    for name, (old, new) in changed.versions.items():
        yield f"{name} {old} → {new}"
    for title, listed in (("worse", changed.worse), ("better", changed.better)):
        for change in listed:
            yield f"{title}: {change.case} on {change.variant}"
            yield f"  was {line(change.old.text, longest)}"
            yield f"  now {line(change.new.text, longest)}"
    for number in changed.measured:
        yield (
            f"measured otherwise: {number.case} on {number.variant}: {number.what} "
            f"{number.old} → {number.new}"
        )
    yield summary(changed)


def summary(changed: Changes) -> str:
    """How much changed, in a sentence."""
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
