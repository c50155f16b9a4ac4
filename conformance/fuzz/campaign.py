"""Generated programs on the variants of an adapter, and what is unexpected of them, in groups."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from conformance.drivers.adapter import Variant
from conformance.errors import CaseError
from conformance.fuzz.programs import Generated, Raw, Vocabulary, loaded, written
from conformance.fuzz.reduce import reduced
from conformance.fuzz.stable import KERNELS, cancels, extent, is_stable, vanishes
from conformance.judge.arrays import differs
from conformance.judge.checks import evidence
from conformance.judge.known import Catalog, bound
from conformance.judge.triage import Triage, Triaged, cause, triaged
from conformance.language.features import CAPABILITIES
from conformance.language.operations import COMPARED
from conformance.model.observation import Observation
from conformance.model.result import Result
from conformance.model.verdict import Status
from conformance.run.runner import NUMBERS, Runner

#: How many programs are written together, first and at most.
_FIRST_BATCH, _LARGEST_BATCH = 4, 64
#: For how many seconds a smaller program is looked for, and how many programs are run for it.
_SECONDS, _RUNS = 30.0, 200
#: One in so many programs may have what the variant refuses.
_REFUSED = 10
#: How often another program is made in the place of one that is of no use.
_ATTEMPTS = 5
#: What the unexpected verdicts of a group share: variant, check, and what seems to be their cause.
Key = tuple[str, str, str]


@dataclass
class Found:
    """A group of unexpected verdicts: how many programs show it, and one of them."""

    key: Key
    variant: Variant
    program: Generated
    #: The verdict on it, and what is unexpected about it.
    message: str
    count: int = 0


@dataclass
class Tally:
    """How many programs of a variant had which outcome; `wasted` were no programs for it."""

    variant: Variant
    outcomes: Counter[str] = field(default_factory=Counter)
    #: Known deviations, by cause.
    causes: Counter[str] = field(default_factory=Counter)
    wasted: int = 0

    @property
    def judged(self) -> int:
        """How many programs were judged."""
        return self.outcomes.total()

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """What programs for the variant may be made of."""
        return Vocabulary(frozenset(CAPABILITIES) - set(self.variant.model.lacks))

    @cached_property
    def accepted(self) -> Vocabulary:
        """The part of it that the variant does not refuse."""
        return Vocabulary(self.vocabulary.allowed - set(self.variant.model.refuses))


class Campaign:
    """Judges `examples` programs of a seed on each of the variants, or as many as `seconds` allow.

    `told` is called after each program, and `new` for each group that was not there before, or has a
    smaller program now. What has come of it is in `tallies` and `found`, also after an interruption.
    """

    def __init__(
        self,
        runner: Runner,
        variants: Sequence[Variant],
        *,
        seed: int = 0,
        examples: int | None = None,
        seconds: float = float("inf"),
        told: Callable[[], None] = lambda: None,
        new: Callable[[Found], None] = lambda _: None,
    ) -> None:
        self.runner, self.catalog = runner, Catalog()
        self.runner.known = self.known = bound(runner.known, self.catalog)
        self.seed, self.examples, self.seconds = seed, examples or 10**9, seconds
        self.told, self.new = told, new
        # Cases that somebody chose for a variant are not the only ones here.
        models = ((v, v.model.model_copy(update={"only": None})) for v in variants)
        self.tallies = [Tally(replace(variant, model=model)) for variant, model in models]
        self.found: dict[Key, Found] = {}

    def start(self) -> None:
        """Import the framework. Raises `BrokenAdapterError`."""
        self.runner.start([tally.variant for tally in self.tallies])

    def run(self) -> None:
        """Judge all programs."""
        ends = time.monotonic() + self.seconds
        number, size = 0, _FIRST_BATCH
        while number < self.examples:
            numbers = range(number, min(number + size, self.examples))
            for tally in self.tallies:
                self.judge(tally, numbers, ends)
                if time.monotonic() > ends:
                    return
            number, size = numbers.stop, min(2 * size, _LARGEST_BATCH)

    def judge(self, tally: Tally, numbers: range, ends: float = float("inf")) -> None:
        """Judge the programs of these numbers."""
        batch = list(self._generated(tally, numbers))
        self._emit(batch, tally.variant)
        for program in batch:
            if time.monotonic() > ends:
                return
            self._judge(program, tally)

    def _generated(self, tally: Tally, numbers: range) -> Iterator[Generated]:
        for number in numbers:
            known = tally.accepted if number % _REFUSED else tally.vocabulary
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

    def _judge(self, program: Generated, tally: Tally) -> None:
        result, shown = self._shown(program, tally.variant)
        if shown is None:
            tally.wasted += 1
            return
        for key, one in shown.items():
            if key not in self.found:
                self.found[key] = Found(key, tally.variant, program, _message(one))
                self.new(self.found[key])
            self.found[key].count += 1
        causes = {v.known.cause for v in result.verdicts if v.known is not None}
        tally.causes.update(causes)
        refused = all(v.status is Status.UNSUPPORTED for v in result.verdicts)
        outcome = "unexpected" if shown else "known" if causes else ""
        tally.outcomes[outcome or ("refused" if refused else "right")] += 1
        self.told()

    def _shown(
        self, program: Generated, variant: Variant
    ) -> tuple[Result, Mapping[Key, Triaged] | None]:
        """The result of a program, and one unexpected verdict on it of each group; `None` for those
        if they are of numbers alone, and these are large, rounding errors, or depend on them with what
        was drawn, or on those of kernels where the plain run differs, or a compiler may have got a
        maximum wrong there; or if a known deviation is gone that would be in such errors."""
        result = self.runner.run(program.case, variant)
        unexpected = [t for t in triaged(self.known, result) if t.triage is Triage.UNEXPECTED]
        of_numbers = {t.verdict.check for t in unexpected}.issubset(NUMBERS)
        if unexpected and of_numbers and result.observation is not None:
            drawn = evidence.drawn(result.observation) or None
            gone = all(one.entry is not None for one in unexpected)
            plain = all(one.verdict.status is Status.BROKEN for one in unexpected)
            # Frameworks and compilers differ on what is 0 times an infinite number.
            loose = plain or gone or not variant.model.exact
            moderate, finite = extent(program.case, drawn)
            kernels = partial(is_stable, errors=KERNELS, accuracy=variant.model.accuracy)
            if (
                not moderate
                or (loose and not finite)
                or cancels(program.case, drawn)
                or (drawn and not is_stable(program.case, drawn))
                or (plain and not kernels(program.case, drawn))
                or (plain and not variant.model.exact and program.case.uses(COMPARED))
                or (gone and (not _same(result.observation) or vanishes(program.case, drawn)))
            ):
                return result, None
        return result, {_key(result, one): one for one in reversed(unexpected)}

    def shrink(self) -> None:
        """Look for a smaller program of each group."""
        for found in self.found.values():
            self._shrink(found)
            self.new(found)

    def _shrink(self, found: Found) -> None:
        (allowed,) = (t.vocabulary.allowed for t in self.tallies if t.variant is found.variant)
        ends, left = time.monotonic() + _SECONDS, _RUNS

        def first(candidates: Sequence[Raw]) -> Raw | None:
            nonlocal left
            programs: list[Generated] = []
            for raw in candidates if left > 0 and time.monotonic() < ends else ():
                with suppress(Exception):  # many are no cases, and some are no programs
                    programs.append(loaded(raw, allowed))
            self._emit(programs, found.variant)
            for program in programs:
                if time.monotonic() > ends:  # one that hangs takes as long as it may
                    break
                left -= 1
                _, shown = self._shown(program, found.variant)
                self.told()
                if shown and found.key in shown:
                    found.program, found.message = program, _message(shown[found.key])
                    return program.raw
            return None

        reduced(found.program.raw, first)


def _same(observation: Observation) -> bool:
    """Whether gradients are the same bit for bit: those that a known deviation changes may be within the
    tolerance."""
    plain, seen = observation.plain, observation.recomputed
    return all(
        after is None or before is None or not differs(after, before, None)
        for befores, afters in ((plain.gradients, seen.gradients), (plain.again, seen.again))
        for before, after in ((befores[name], afters.get(name)) for name in befores)
    )


def _message(shown: Triaged) -> str:
    reason = f" ({shown.reason})" if shown.reason else ""
    return f"{shown.verdict.status}: {shown.verdict.message}{reason}"


def _key(result: Result, one: Triaged) -> Key:
    """The group of an unexpected verdict; a known deviation that is gone is one by its cause."""
    seems = one.entry.cause if one.entry is not None else cause(one.verdict)
    return result.variant, one.verdict.check, seems
