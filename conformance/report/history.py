"""Outcomes of cases from run to run: what appeared, what went, and with which framework version.

Runs of one version stand together, in the order in which they were started; versions follow each other
by their first run. What changes within a version was not changed by the framework.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from conformance.judge.outcomes import SIGN, Outcome
from conformance.report.findings import Finding, findings
from conformance.report.overview import version_of
from conformance.report.questions import QUESTIONS, answers
from conformance.report.versus import side_of
from conformance.results import Results
from conformance.words import line

_NOT_JUDGED = frozenset({Outcome.NOT_RUN, Outcome.UNSEEN})
#: Outcomes that are no finding.
_NO_FINDING = frozenset({Outcome.RIGHT, Outcome.NOT_OFFERED, *_NOT_JUDGED})


@dataclass(frozen=True)
class RunSnapshot:
    """What the history keeps of one run of an adapter.

    `outcomes` by case and variant (full id), `causes` of those that are findings, `answers` by variant
    and question; `run` is the name of the run's folder.
    """

    run: str
    adapter: str
    version: str
    started: str
    outcomes: Mapping[tuple[str, str], Outcome]
    causes: Mapping[tuple[str, str], str]
    answers: Mapping[tuple[str, str], str]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Row:
    """A change: what, in which cases and variants, and a cell for each run (empty if not run)."""

    what: str
    where: tuple[str, ...]
    cells: tuple[str, ...]
    outcomes: tuple[Outcome | None, ...]
    story: str
    rank: int


@dataclass(frozen=True)
class History:
    """An adapter's runs, ordered by version; what changed between them, and in `always` the findings of
    the last run with a pair of case and variant that did not change."""

    adapter: str
    shots: tuple[RunSnapshot, ...]
    changes: tuple[Row, ...]
    answers: tuple[Row, ...]
    always: tuple[Finding, ...]

    @property
    def versions(self) -> tuple[tuple[str, int], ...]:
        """Each version, and how many runs there are of it."""
        runs: dict[str, int] = {}
        for run_snapshot in self.shots:
            runs[run_snapshot.version] = runs.get(run_snapshot.version, 0) + 1
        return tuple(runs.items())


def run_snapshot(name: str, run: Results) -> RunSnapshot:
    """The snapshot of a run's results; `name` is the name of its folder."""
    sides = {(r.case, r.variant): side_of(r) for r in run.results}
    ranked = findings([run])
    causes: dict[tuple[str, str], str] = {}
    for finding in ranked:  # the gravest first
        for pair in finding.pairs:
            causes.setdefault(pair, finding.words)
    answer_texts = {
        (variant, question.title): answer.text
        for variant, listed in answers([run]).items()
        for question, answer in zip(QUESTIONS, listed, strict=True)
        if answer.outcome not in _NOT_JUDGED
    }
    return RunSnapshot(
        run=name,
        adapter=run.header.adapter,
        version=version_of(run),
        started=run.header.started,
        outcomes={pair: side.outcome for pair, side in sides.items()},
        causes=causes,
        answers=answer_texts,
        findings=ranked,
    )


def histories(shots: Iterable[RunSnapshot]) -> tuple[History, ...]:
    """The history of each adapter."""
    by_adapter: dict[str, list[RunSnapshot]] = {}
    for one in shots:
        by_adapter.setdefault(one.adapter, []).append(one)
    return tuple(_history(name, _ordered(by_adapter[name])) for name in sorted(by_adapter))


def _ordered(shots: Sequence[RunSnapshot]) -> tuple[RunSnapshot, ...]:
    by_time = sorted(shots, key=lambda one: (one.started, one.run))
    versions = list(dict.fromkeys(one.version for one in by_time))
    return tuple(sorted(by_time, key=lambda one: versions.index(one.version)))


def _history(adapter: str, shots: tuple[RunSnapshot, ...]) -> History:
    rows = sorted(_changes(shots), key=lambda row: (row.rank, -len(row.where)))
    changed = {pair for row in rows for pair in row.where}
    last = shots[-1]
    always = tuple(
        finding
        for finding in last.findings
        if any(f"{case} on {variant}" not in changed for case, variant in finding.pairs)
    )
    return History(adapter, shots, tuple(rows), tuple(_answers(shots)), always)


def _changes(shots: Sequence[RunSnapshot]) -> Iterator[Row]:
    """A row for all cases whose outcome changed with the same cause and the same outcomes by run."""
    pairs = dict.fromkeys(pair for one in shots for pair in one.outcomes)
    groups: dict[tuple[str, tuple[Outcome | None, ...]], list[tuple[str, str]]] = {}
    for pair in pairs:
        by_run = tuple(_judged(one.outcomes.get(pair)) for one in shots)
        if len({outcome for outcome in by_run if outcome is not None}) > 1:
            worst = min((o for o in by_run if o is not None), key=lambda o: o.rank)
            cause = next(
                (s.causes.get(pair, "") for s, o in zip(shots, by_run, strict=True) if o is worst),
                "",
            )
            groups.setdefault((cause, by_run), []).append(pair)
    for (cause, by_run), listed in groups.items():
        texts = [f"{SIGN[o]} {o.value}" if o is not None else "" for o in by_run]
        yield Row(
            what=cause or f"{listed[0][0]} on {listed[0][1]}",
            where=tuple(f"{case} on {variant}" for case, variant in listed),
            cells=tuple(texts),
            outcomes=by_run,
            story=_story(shots, [o.value if o is not None else "" for o in by_run]),
            rank=min(o.rank for o in by_run if o is not None),
        )


def _answers(shots: Sequence[RunSnapshot]) -> Iterator[Row]:
    """A row for each question whose answer changed on a variant."""
    for variant, question in dict.fromkeys(key for one in shots for key in one.answers):
        texts = tuple(one.answers.get((variant, question), "") for one in shots)
        if len({text for text in texts if text}) > 1:
            story = _story(shots, texts)
            yield Row(question, (variant,), texts, (None,) * len(texts), story, 0)


def _judged(outcome: Outcome | None) -> Outcome | None:
    return None if outcome in _NOT_JUDGED else outcome


def _story(shots: Sequence[RunSnapshot], texts: Sequence[str]) -> str:
    """When the outcome changed, in words; runs without a result for it are skipped."""
    sentences: list[str] = []
    before: tuple[RunSnapshot, str] | None = None
    for one, text in zip(shots, texts, strict=True):
        if not text:
            continue
        if before is not None and before[1] != text:
            same = before[0].version == one.version
            when = f"in {one.run}, the same version" if same else f"with {one.version} ({one.run})"
            sentences.append(f"{text} {when}, before that {before[1]}")
        before = one, text
    return "; ".join(sentences)


def render(histories: Sequence[History]) -> str:
    """The page, as HTML."""
    # Here, since who writes to a terminal needs no templates.
    from markupsafe import Markup

    from conformance.report.page import TEMPLATES, environment

    style = Markup((TEMPLATES / "style.css").read_text("utf-8"))
    template = environment().get_template("history.html.j2")
    return template.render(histories=histories, sign=SIGN, style=style)


def lines(histories: Sequence[History], *, longest: int = 160) -> Iterator[str]:
    """The changes of each adapter, as lines for a terminal."""
    for history in histories:
        versions = ", ".join(f"{version or 'none'}: {n}" for version, n in history.versions)
        yield f"{history.adapter}: {len(history.shots)} runs ({versions})"
        for row in history.changes:
            more = f" and {len(row.where) - 1} more" if len(row.where) > 1 else ""
            yield f"  {row.where[0]}{more}: {line(row.story, longest)}"
