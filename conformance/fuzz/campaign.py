"""Generated programs on the variants of one adapter, and what is unexpected of them, in groups."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from conformance.drivers.adapter import Variant
from conformance.errors import CaseError
from conformance.fuzz.programs import Generated, Raw, Vocabulary, loaded, written
from conformance.fuzz.reduce import reduced
from conformance.judge.known import Catalog, bound
from conformance.judge.triage import Triage, Triaged, cause, triaged
from conformance.language.features import CAPABILITIES
from conformance.model.result import Result
from conformance.model.verdict import Status
from conformance.run.runner import Runner

#: How many programs are written together, first and at most.
_FIRST_BATCH, _LARGEST_BATCH = 4, 64
#: How long a smaller program is looked for, and how many are run.
_SHRINK_SECONDS, _SHRINK_RUNS = 30.0, 200
#: How often a program of a number is made anew where it is of no use.
_ATTEMPTS = 5
#: A group of deviations that seem to have one cause: variant, check, and what its verdicts share.
Key = tuple[str, str, str]


@dataclass
class Found:
    """A group of unexpected verdicts: how often it was seen, and one program that shows it."""

    key: Key
    program: Generated
    shown: Triaged
    count: int = 0


@dataclass
class Tally:
    """What became of the programs of one variant."""

    variant: Variant
    vocabulary: Vocabulary
    judged: int = 0
    right: int = 0
    refused: int = 0
    wasted: int = 0
    #: Programs by the cause of a known deviation in them.
    known: Counter[str] = field(default_factory=Counter)
    unexpected: int = 0


def may_have(variant: Variant) -> frozenset[str]:
    """The features that programs for a variant may have."""
    return frozenset(CAPABILITIES) - set(variant.model.lacks)


def unrestricted(variant: Variant) -> Variant:
    """The variant, for cases that nobody has chosen for it."""
    return replace(variant, model=variant.model.model_copy(update={"only": None}))


class Campaign:
    """Judges `examples` programs of a seed for each of the variants, or as many as `seconds` allow.

    `told` is called after each program. What has come of it is in `tallies` and `found`, also after an
    interruption.
    """

    def __init__(
        self,
        runner: Runner,
        variants: Sequence[Variant],
        *,
        seed: int,
        examples: int,
        seconds: float = float("inf"),
        told: Callable[[], None] = lambda: None,
    ) -> None:
        self.runner, self.catalog = runner, Catalog()
        self.runner.known = self.known = bound(runner.known, self.catalog)
        self.seed, self.examples, self.seconds, self.told = seed, examples, seconds, told
        chosen = map(unrestricted, variants)
        self.tallies = [Tally(v, Vocabulary(may_have(v))) for v in chosen]
        self.found: dict[Key, Found] = {}

    def run(self) -> None:
        """Judge all programs."""
        ends = time.monotonic() + self.seconds
        number, size = 0, _FIRST_BATCH
        while number < self.examples and time.monotonic() < ends:
            numbers = range(number, min(number + size, self.examples))
            for tally in self.tallies:
                batch = list(self._generated(tally, numbers))
                self._emit(batch, tally.variant)
                for program in batch:
                    if time.monotonic() > ends:
                        return
                    self._judge(tally, program)
            number, size = numbers.stop, min(2 * size, _LARGEST_BATCH)

    def _generated(self, tally: Tally, numbers: range) -> Iterator[Generated]:
        known = tally.vocabulary
        for number in numbers:
            for attempt in range(_ATTEMPTS):
                try:
                    yield loaded(written(known, self.seed, number, attempt), known.allowed)
                    break
                except CaseError:
                    tally.wasted += 1

    def _emit(self, programs: Sequence[Generated], variant: Variant) -> None:
        """Write programs, and have causes speak of them."""
        self.catalog.only(program.case for program in programs)
        self.runner.emit([(program.case, variant) for program in programs])

    def _judge(self, tally: Tally, program: Generated) -> None:
        result = self.runner.run(program.case, tally.variant)
        tally.judged += 1
        met: set[Key] = set()
        causes: set[str] = set()
        for one in triaged(self.known, result):
            if one.triage is Triage.KNOWN:
                causes.add((one.entry and one.entry.cause) or one.reason)
            elif one.triage is Triage.UNEXPECTED:
                key = group_of(result, one)
                met.add(key)
                self.found.setdefault(key, Found(key, program, one))
        for key in met:
            self.found[key].count += 1
        tally.known.update(causes)
        tally.unexpected += bool(met)
        refused = any(v.status is Status.UNSUPPORTED for v in result.verdicts)
        tally.refused += refused and not met
        tally.right += not (met or causes or refused)
        self.told()

    def shrink(self, told: Callable[[str], None]) -> None:
        """Look for a smaller program of each group."""
        for number, found in enumerate(self.found.values(), 1):
            told(f"looking for smaller programs, {number} of {len(self.found)}")
            tally = next(t for t in self.tallies if t.variant.id == found.key[0])
            self._shrink(found, tally)

    def _shrink(self, found: Found, tally: Tally) -> None:
        ends, left = time.monotonic() + _SHRINK_SECONDS, _SHRINK_RUNS

        def first(candidates: Sequence[Raw]) -> Raw | None:
            nonlocal left
            programs = list(_loadable(candidates, tally.vocabulary.allowed))[: max(left, 0)]
            if time.monotonic() > ends:
                return None
            self._emit(programs, tally.variant)
            for program in programs:
                left -= 1
                self.told()
                shown = self._shown(program, tally.variant).get(found.key)
                if shown is not None:
                    found.program, found.shown = program, shown
                    return program.raw
            return None

        reduced(found.program.raw, first)

    def _shown(self, program: Generated, variant: Variant) -> dict[Key, Triaged]:
        """The unexpected verdicts on a program, by group."""
        result = self.runner.run(program.case, variant)
        shown = triaged(self.known, result)
        return {group_of(result, one): one for one in shown if one.triage is Triage.UNEXPECTED}


def _loadable(candidates: Sequence[Raw], allowed: frozenset[str]) -> Iterator[Generated]:
    for raw in candidates:
        with suppress(Exception):  # many are no cases, and some are no programs
            yield loaded(raw, allowed)


def group_of(result: Result, one: Triaged) -> Key:
    """The group of an unexpected verdict."""
    return result.variant, one.verdict.check, cause(one.verdict)
