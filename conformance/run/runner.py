"""Running one adapter: what a variant does not support, what was observed, and how it is judged.

The framework runs in the adapter's worker process alone. Expectations come from the reference here,
in the process that judges, and never go to the worker.
"""

import itertools
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import msgspec
from threadpoolctl import ThreadpoolController

from conformance.drivers.adapter import Adapter, Discipline, Variant
from conformance.emit.programs import EmitFailure, Key, program_path, write_programs
from conformance.judge.checks import applicable, judge
from conformance.judge.known import Entry
from conformance.judge.ranks import each_rank
from conformance.judge.triage import noted
from conformance.language.features import CAPABILITIES, required_by
from conformance.model.case import Case
from conformance.model.facts import Fact, Unoffered
from conformance.model.observation import Expected, Observation, RandomSample
from conformance.model.program import Program
from conformance.model.result import STAGES, Result
from conformance.model.verdict import Level, Status, Verdict
from conformance.observe.pool import (
    Broken,
    Crashed,
    Finished,
    Lacking,
    Outcome,
    Pool,
    Stuck,
    TimedOut,
)
from conformance.oracle import expected as oracle
from conformance.paths import Paths
from conformance.words import printable

#: The check that says how a run ended; every case has it.
ERROR = "error"
#: The checks of numbers, which nothing excuses.
NUMBERS = ("value", "gradient")
Expect = Callable[[Sequence[RandomSample] | None], Expected]


def checks_of(case: Case) -> tuple[str, ...]:
    """The checks of a case: `error` first, then those that apply, in the order of the suite."""
    return (ERROR, *(name for name in applicable(case) if name != ERROR))


def lacking(case: Case, variant: Variant) -> Verdict | None:
    """The verdict on a case that the variant has no way to express; `None` where it has."""
    lacked = sorted(required_by(case) & set(variant.model.lacks))
    only = variant.model.only
    if not lacked and only is not None and only.leaves_out(case.id):
        return _unoffered(variant, Unoffered("not run", only.why))
    if not lacked:
        return None
    reasons = "; ".join(f"{word} ({variant.model.lacks[word]})" for word in lacked)
    return _unoffered(variant, Unoffered("lacks", reasons, tuple(lacked)))


def refused(case: Case, variant: Variant, observation: Observation) -> Verdict | None:
    """The verdict on a case that the variant refused with the error that it declares for that. Where the
    case promises an error that comes before, the good run after it is refused."""
    run = observation.recomputed
    errors = [error for error in (run.error, run.error_after) if error is not None]
    for word, error in itertools.product(
        sorted(required_by(case) & set(variant.model.refuses)), errors
    ):
        refusal = variant.model.refuses[word]
        if refusal.raises in (error.type, *error.bases) and refusal.match in error.message:
            fact = Unoffered("refuses", f"{word}: {error.type}: {error.message}", (word,))
            return _unoffered(variant, fact, f"{error.type} in {error.phase}")
    return None


def _unoffered(variant: Variant, fact: Unoffered, observed: str = "") -> Verdict:
    meanings = "; ".join(f"{word}: {CAPABILITIES[word]}" for word in fact.capabilities)
    message = f"{variant.id} {fact.words}"
    return _verdict(Status.UNSUPPORTED, message, meanings, observed, facts=(fact,))


def stopped(outcome: Crashed | TimedOut | Stuck | Broken, requested: str) -> Verdict:
    """The verdict on a worker that gave no observation of the case and variant that were `requested`."""
    match outcome:
        case Crashed(how, log):
            return _verdict(Status.CRASHED, f"the process died of {how}", observed=log)
        case TimedOut(seconds, where):
            where = where and f": {where}"
            return _verdict(Status.TIMEOUT, f"no answer within {seconds:g} s{where}")
        case Stuck(seconds, before):
            after = f"; {before} ran before and left it so" if before else ""
            message = f"the worker did not begin with {requested} within {seconds:g} s{after}"
            return _verdict(Status.BROKEN, message)
        case Broken(message, text):
            return _verdict(Status.BROKEN, f"the adapter's observer failed: {message}", "", text)


def verdicts_on(
    case: Case, variant: Variant, expect: Expect, observation: Observation
) -> tuple[Verdict, ...]:
    """The verdicts on an observation: refusals and broken controls first, then the checks."""
    try:
        return _verdicts_on(case, variant, expect, observation)
    except Exception as raised:
        line = "".join(traceback.format_exception_only(raised)).strip()
        message = f"judging failed: {line}"
        return (_verdict(Status.BROKEN, message, observed=traceback.format_exc()),)


def _verdicts_on(
    case: Case, variant: Variant, expect: Expect, observation: Observation
) -> tuple[Verdict, ...]:
    refusal = refused(case, variant, observation)
    if refusal is not None:
        return (refusal,)
    error = observation.plain.error
    if error is not None:
        message, seen = f"{error.type}: {error.message}", f"{error.type} in {error.phase}"
        if lacked := absent(variant, message, seen):
            return (lacked,)
        if case.error is None and not case.as_plain:
            message = f"the plain program raised {message}"
            expected = "no error: nothing is recomputed in the plain program"
            return (_verdict(Status.BROKEN, message, expected, seen),)
    verdicts = judge(case, variant, expect, observation)
    for verdict in verdicts:
        if verdict.status is Status.BROKEN and (lacked := absent(variant, verdict.message)):
            return (lacked,)
    return complete(case, tuple(_tolerated(case, verdict) for verdict in verdicts))


def absent(variant: Variant, message: str, observed: str = "") -> Verdict | None:
    """The verdict where a message about the plain program says that a framework lacks something."""
    if not any(text in message for text in variant.missing):
        return None
    why = f"what the program needs, without recompute too: {message}"
    return _unoffered(variant, Unoffered("lacks", why), observed)


def _tolerated(case: Case, verdict: Verdict) -> Verdict:
    """The verdict, but a report in place of a failure or a warning where the case is one in which
    implementations legitimately differ. Numbers that are wrong without an error fail there, too."""
    faulty = verdict.status in (Status.FAIL, Status.WARN)
    if not case.differs or not faulty or verdict.check in NUMBERS:
        return verdict
    return msgspec.structs.replace(verdict, status=Status.REPORT, level=Level.REPORT)


def executions_under(
    case: Case, variant: Variant, observation: Observation, discipline: Discipline
) -> Verdict | None:
    """The verdict on the executions of a case as if the variant had said another discipline; the first
    that fails, of several. `None` where executions are not judged."""
    model = variant.model.model_copy(update={"discipline": discipline})

    def expect(samples: Sequence[RandomSample] | None) -> Expected:
        return oracle.expect(case, discipline, residuals=model.residuals, samples=samples)

    verdicts = verdicts_on(case, replace(variant, model=model), expect, observation)
    of_executions = [verdict for verdict in verdicts if verdict.check == "executions"]
    return min(of_executions, key=lambda v: v.status is not Status.FAIL, default=None)


def complete(case: Case, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    """The verdicts, with a `broken` one added for each applicable check that gave none, and one if
    checks that do not apply gave verdicts.

    A run that did not finish has one verdict that is not a pass, of the check `error`.
    """
    named = {verdict.check for verdict in verdicts}
    unfinished = named == {ERROR} and all(v.status is not Status.PASS for v in verdicts)
    missing = [name for name in checks_of(case) if not unfinished and name not in {*named, ERROR}]
    strange = sorted(named - set(checks_of(case)))
    added = [
        _verdict(Status.BROKEN, f"the check {name} gave no verdict", check=name) for name in missing
    ]
    if strange:
        message = f"verdicts of checks that do not apply to this case: {', '.join(strange)}"
        added.append(_verdict(Status.BROKEN, message))
    if ERROR not in named and not strange:
        message = "the run came to its end"
        added.append(Verdict(ERROR, Status.PASS, Level.MUST, message))
    return (*verdicts, *added)


def _verdict(
    status: Status,
    message: str,
    expected: str = "",
    observed: str = "",
    *,
    check: str = ERROR,
    facts: tuple[Fact, ...] = (),
) -> Verdict:
    return Verdict(check, status, Level.MUST, message, expected, observed, facts=facts)


def _printable(verdict: Verdict) -> Verdict:
    """A verdict whose words may be printed: some are an implementation's own."""
    words = {name: getattr(verdict, name) for name in ("message", "expected", "observed")}
    shown = {name: printable(text) for name, text in words.items()}
    return verdict if words == shown else msgspec.structs.replace(verdict, **shown)


class Runner:
    """Runs cases on the variants of one adapter, one after the other.

    `log` takes what the framework prints. `close` stops the worker process. A `pool` of processes that
    several runners share is given, and closed by who made it.
    """

    def __init__(
        self,
        adapter: Adapter,
        paths: Paths,
        log: Path,
        known: Sequence[Entry] = (),
        pool: Pool | None = None,
    ) -> None:
        self.adapter, self.paths, self.known = adapter, paths, known
        self.pool = pool or Pool(adapter, log)
        #: Of each stage.
        self.seconds = dict.fromkeys(STAGES, 0.0)
        #: Programs that are written and have not run yet.
        self._programs: dict[Key, Program | EmitFailure] = {}
        #: The case that each file of a program is of.
        self._files: dict[Path, str] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time spent inside the `with` to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start

    def start(self, variants: Sequence[Variant]) -> Mapping[str, str]:
        """Import the framework, and somebody's own recompute, and warm up. Returns versions; raises
        `BrokenAdapterError`."""
        with self.stage("import"):
            described = self.pool.describe([variant.name for variant in variants])
            if self.adapter.implementation is not None and variants:
                self.pool.signature(variants[0].name, self.adapter.implementation.function)
        return described

    def emit(self, pairs: Sequence[tuple[Case, Variant]]) -> None:
        """Write the programs of these cases and variants, those that a variant can express."""
        expressible = [(c, v) for c, v in pairs if lacking(c, v) is None]
        with self.stage("emitting"):
            written = write_programs(self.adapter, expressible, self.paths.reports, self._files)
        self._programs.update(written)

    def unwritten(self, case: Case, variant: Variant) -> bool:
        """Whether a case needs a program on a variant, and has none that waits to be run."""
        return (case.id, variant.id) not in self._programs and lacking(case, variant) is None

    def run(self, case: Case, variant: Variant) -> Result:
        """One case on one variant. Raises nothing: what goes wrong is a verdict."""
        unsupported = lacking(case, variant)
        if unsupported is not None:
            return self._result(case, variant, (unsupported,))
        with self.stage("judging"):
            contradicted = self._contradicted(case)
        if contradicted is not None:
            return self._result(case, variant, (contradicted,))
        if (case.id, variant.id) not in self._programs:
            self.emit([(case, variant)])
        program = self._programs.pop((case.id, variant.id))
        if isinstance(program, EmitFailure):
            message = f"the adapter cannot write the program: {program.message}"
            verdict = _verdict(Status.BROKEN, message, observed=program.traceback)
            if program.asked:
                verdict = _verdict(Status.UNSUPPORTED, program.message)
            return self._result(case, variant, (verdict,))
        path = str(program_path(case.id, variant.id))
        outcome, note = self._observe(variant, program)
        if isinstance(outcome, Lacking):
            lacked = _unoffered(variant, Unoffered("lacks", outcome.what))
            return self._result(case, variant, (lacked,), program=path)
        if not isinstance(outcome, Finished):
            verdict = stopped(outcome, f"{case.id} on {variant.id}")
            return self._result(case, variant, (verdict,), program=path)
        used: list[Expected] = []

        def expect(samples: Sequence[RandomSample] | None, rank: int) -> Expected:
            used.append(self._expected(case, variant, samples, rank))
            return used[-1]

        with self.stage("judging"):
            judged = partial(verdicts_on, case, variant)
            verdicts = each_rank(outcome.observation, expect, judged)
        if note:  # where a verdict says how the run ended
            verdicts = tuple(
                msgspec.structs.replace(v, message=f"{v.message} ({note})")
                if v.check == ERROR
                else v
                for v in verdicts
            )
        expected = used[0] if used else None
        return self._result(case, variant, verdicts, outcome.observation, expected, path)

    def _observe(self, variant: Variant, program: Program) -> tuple[Outcome, str]:
        """How a program ended, and a note where that took a second attempt.

        What crashes or times out runs once more, alone: in a new process, beside no other one of this
        adapter. An observation that this gives counts.
        """
        note = ""
        while True:
            with self.stage("import"):
                unready = self.pool.ready(variant.name)
            with self.stage("observing"):
                outcome = unready or self.pool.observe(program)
            if note or not isinstance(outcome, Crashed | TimedOut):
                return outcome, note
            first = stopped(outcome, "").message
            note = f"first {first}; this is of a second run, alone in a new process"
            self.pool.close()

    def close(self) -> None:
        self.pool.close()

    @cached_property
    def _threads(self) -> Any:
        """The libraries that have threads, looked up once."""
        return ThreadpoolController()

    def _contradicted(self, case: Case) -> Verdict | None:
        """The verdict on a case that quotes numbers which the reference does not come to."""
        if not case.printed_gradients and not case.printed_executions:
            return None
        contradictions = oracle.check_printed(case, oracle.expect(case, "whole"))
        message = f"the case quotes what the reference contradicts: {'; '.join(contradictions)}"
        return _verdict(Status.BROKEN, message) if contradictions else None

    def _expected(
        self, case: Case, variant: Variant, samples: Sequence[RandomSample] | None, rank: int
    ) -> Expected:
        discipline, residuals = variant.model.discipline, variant.model.residuals
        # The arrays are small: threads of BLAS would only wait for each other, and for the worker.
        with self._threads.limit(limits=1, user_api="blas"):
            return oracle.expect(case, discipline, residuals=residuals, samples=samples, rank=rank)

    def _result(
        self,
        case: Case,
        variant: Variant,
        verdicts: tuple[Verdict, ...],
        observation: Observation | None = None,
        expected: Expected | None = None,
        program: str = "",
    ) -> Result:
        shown = tuple(map(_printable, verdicts))
        result = Result(case.id, variant.id, shown, observation, expected, program)
        return noted(self.known, result)
