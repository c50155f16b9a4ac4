"""Trying out an implementation: `conformance probe`, and `conformance run --probe`.

One worker process runs it all; what is asked and what follows from the answers is in
`conformance.run.probe`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from conformance.drivers.adapter import Adapter, Style, Variant
from conformance.drivers.implementation import OPTIONS, Described, adapt
from conformance.errors import ImplementationError
from conformance.judge.known import Entry, read
from conformance.judge.triage import explaining
from conformance.language.capabilities import required_by
from conformance.model.case import Case
from conformance.model.observation import Expected, Observation
from conformance.model.verdict import Status
from conformance.observe.pool import Pool
from conformance.oracle import expected as oracle
from conformance.paths import Paths
from conformance.results import Result
from conformance.run import probe
from conformance.run.runner import Runner, executions_under, lacking
from conformance.run.selection import built_on

#: What stands among the names of a function's parameters where it takes any keyword.
ANY_KEYWORD = "**"
Tell = Callable[[str, str], None]
_CALLS: Mapping[Style, str] = {
    "call": "function(region, *arguments)",
    "transform": "function(region)(*arguments)",
    "module": "function(module)(*arguments)",
}


@dataclass(frozen=True)
class Probed:
    """An implementation with what was found of it: `described` says its style, options, discipline,
    residuals, what it is built on and what it refuses; `capable` has the rest. `misfits` are the cases
    whose reruns no rule explains, with what is wrong under the rule that explains the most."""

    described: Described
    capable: probe.Capable
    misfits: tuple[str, ...] = ()


def probed(
    owner: Adapter, described: Described, cases: Sequence[Case], paths: Paths, tell: Tell
) -> Probed:
    """Try an implementation out. What it is described with already is not tried.

    `tell` is told of each thing as it is found: what about, and what. Raises `ImplementationError`
    where the function cannot run the plainest case, `BrokenAdapterError` where it cannot be imported.
    """
    with tempfile.TemporaryDirectory(prefix="conformance-probe-") as folder:
        trial = replace(paths, reports=Path(folder))
        with Pool(adapt(owner, described), trial.reports / "log.txt") as pool:
            return _Prober(owner, cases, trial, pool, tell).answers(described)


class _Prober:
    def __init__(
        self, owner: Adapter, cases: Sequence[Case], paths: Paths, pool: Pool, tell: Tell
    ) -> None:
        self.owner, self.paths, self.pool, self.tell = owner, paths, pool, tell
        self.cases = probe.small(cases)
        self._known_results: dict[str, Result] = {}

    def answers(self, described: Described) -> Probed:
        """All questions, one after the other: each rests on the answers before."""
        first = adapt(self.owner, described).variants[0].name
        self.pool.describe([first])
        self.pool.parameters(
            first, described.model.function
        )  # it can be imported, or the error says so
        described = self._with_style(described)
        described = self._with_options(described)
        rules, misfits = self._reruns(described)
        described = self._with_known(described, rules)
        if rules and not described.model.known:
            rule = rules[0]
            residuals = {"residuals": dict(rule.residuals)} if rule.residuals else {}
            described = _changed(described, discipline=rule.discipline, **residuals)
        inherited = built_on(described, described.model.known, self.paths.adapters)
        capable = self._capabilities(inherited)
        refuses = {word: capable.refused[word] for word in sorted(capable.refused)}
        if refuses:
            described = _changed(described, refuses={**refuses, **described.model.refuses})
        return Probed(described, capable, misfits)

    # -- how it is called --------------------------------------------------------------------------

    def _with_style(self, described: Described) -> Described:
        """The implementation in the first style in which it runs the plainest case."""
        styles = list(self.owner.model.implementations)
        given = described.model.style
        failed: list[str] = []
        for style in [given] if given is not None else styles:
            trial = _changed(described, style=style)
            ended = self._ended(trial, self._able(trial)[:1])
            if not ended.words:
                self.tell("style", style)
                return trial if given is not None or style != styles[0] else described
            failed.append(f"{_CALLS[style]}: {ended.words}")
        raise ImplementationError(
            f"{described.model.function} does not run the plainest case in any style",
            where=described.where,
            hint="it raised, called as " + "; as ".join(failed),
        )

    def _with_options(self, described: Described) -> Described:
        """The implementation with the usual keywords that its function has, under those given. One that
        takes any keyword is tried with each."""
        variant = adapt(self.owner, described).variants[0]
        usual = self.owner.model.usual_keywords
        names = self.pool.parameters(variant.name, described.model.function)
        options = {**probe.keywords(usual, names), **described.model.options}
        for option, word in usual.items() if ANY_KEYWORD in names else ():
            trial = _changed(described, options={**options, option: word})
            able = self._able(trial)
            asking = [case for case in able if OPTIONS[option] in required_by(case)]
            if option == "preserve_rng":  # it is given at every call
                asking = asking or able
            if option not in options and asking and not self._ended(trial, asking[:1]).words:
                options[option] = word
        said = ", ".join(f"{option}={word}" for option, word in options.items())
        self.tell("options", said or "none of the usual keywords")
        return _changed(described, options=options)

    # -- what runs again ---------------------------------------------------------------------------

    def _reruns(self, described: Described) -> tuple[list[probe.Rerun], tuple[str, ...]]:
        """The rules that fit its reruns, the best first; where none does, what is wrong."""
        model = described.model
        rules = [
            rule
            for rule in probe.reruns(self.owner.model)
            if model.discipline in (None, rule.discipline)
            and model.residuals in (None, rule.residuals)
        ]
        if len(rules) < 2:
            return rules, ()
        observed: list[tuple[Case, Observation]] = []
        plain = [c for c in self._able(described) if c.procedure.kind == "backward"]
        asked = probe.telling(plain, rules, _expected)
        for number, (case, result) in enumerate(self._results(described, asked), start=1):
            self.tell("reruns", f"case {number} of {len(asked)}: {case.id}")
            if result.observation is not None:
                observed.append((case, result.observation))
        variant = adapt(self.owner, described).variants[0]
        verdicts = {
            number: [
                executions_under(case, variant, seen, rule.discipline, rule.residuals)
                for case, seen in observed
            ]
            for number, rule in enumerate(rules)
        }
        statuses = {n: [v.status if v else None for v in each] for n, each in verdicts.items()}
        loose = {
            number: sum(
                len(allowed.counts)
                for case, _ in observed
                for allowed in _expected(case, rule).executions.values()
            )
            for number, rule in enumerate(rules)
        }
        fits = [rules[number] for number in probe.fitting(statuses, loose)]
        if fits:
            self.tell("reruns", " or ".join(rule.words for rule in fits))
            return fits, ()
        nearest = max(statuses, key=lambda n: statuses[n].count(Status.PASS))
        self.tell("reruns", "as under no discipline")
        wrong = tuple(
            f"{case.id}, {rules[nearest].discipline}: {verdict.message}"
            for (case, _), verdict in zip(observed, verdicts[nearest], strict=True)
            if verdict is not None and verdict.status is Status.FAIL
        )
        return [], wrong

    # -- what it is built on -----------------------------------------------------------------------

    def _with_known(self, described: Described, rules: Sequence[probe.Rerun]) -> Described:
        """The implementation with the variants that it is built on: those, among the variants whose
        rules it follows, whose known deviations it shows. The first shares the most deviations;
        each other one adds some that the first lacks.
        """
        if described.model.known:
            return described
        named = [name for rule in rules for name in rule.variants]
        alike = [v for v in map(self.owner.variant, named) if v.model.only is None]
        entries = read(self.owner.known)
        shared_with: list[Variant] = []
        while alike:
            sampled = {v.id: self._sample(described, v, entries, beside=shared_with) for v in alike}
            wanted = {case.id: case for each in sampled.values() for case, _ in each}
            self._know(described, wanted)
            scores = {
                v.id: sum(
                    1 if _shows(self._known_results[case.id], entry, v.id) else -1
                    for case, entry in sampled[v.id]
                )
                for v in alike
            }
            best = max(alike, key=lambda v: scores[v.id])
            if scores[best.id] <= 0:
                break
            shared_with.append(best)
            alike.remove(best)
        names = [variant.id for variant in shared_with]
        what = f"{' and '.join(names)}, whose deviations it shows" if names else "no variant"
        self.tell("built on", what)
        return _changed(described, known=names) if names else described

    def _know(self, described: Described, wanted: Mapping[str, Case]) -> None:
        """Have the results of cases, by id."""
        new = [case for name, case in wanted.items() if name not in self._known_results]
        for case, result in self._results(described, new):
            self._known_results[case.id] = result

    def _sample(
        self,
        described: Described,
        variant: Variant,
        entries: Sequence[Entry],
        beside: Sequence[Variant],
    ) -> list[tuple[Case, Entry]]:
        """A few known deviations of a variant, each with its smallest case; none that one of the others
        has, too."""
        able = self._able(described)
        pairs: list[tuple[Case, Entry]] = []
        own = [entry for entry in entries if entry.names_variant(variant.id)]
        others = [(entry, v.id) for entry in entries for v in beside if entry.names_variant(v.id)]
        for entry in own:
            for case in able:
                if not entry.covers(case.id, variant.id, entry.check) or lacking(case, variant):
                    continue
                if not any(other.covers(case.id, name, entry.check) for other, name in others):
                    pairs.append((case, entry))
                break
        order = {case.id: place for place, case in enumerate(able)}
        return sorted(pairs, key=lambda each: order[each[0].id])[: probe.SAMPLED]

    # -- what it takes -----------------------------------------------------------------------------

    def _capabilities(self, described: Described) -> probe.Capable:
        entries = read(self.owner.known)
        shared = [
            entry for entry in entries if any(map(entry.names_variant, described.model.known))
        ]

        def run(case: Case) -> probe.Ended:
            result = runner.run(case, variant)
            ended = probe.ended(result)
            built_on = described.model.known
            known = any(
                explaining(shared, case.id, name, verdict) is not None
                for verdict in result.verdicts
                for name in built_on
            )
            return replace(ended, known=ended.known or known)

        with self._runner(described) as (runner, variant):
            tried = probe.worth_trying(self._able(described))
            runner.emit([(case, variant) for case in tried])
            return probe.capabilities(tried, run, self.tell)

    # -- running -----------------------------------------------------------------------------------

    def _able(self, described: Described) -> list[Case]:
        """The cases that the implementation has a way to express, the smallest first."""
        variant = adapt(self.owner, described).variants[0]
        return [case for case in self.cases if lacking(case, variant) is None]

    def _results(
        self, described: Described, cases: Iterable[Case]
    ) -> Iterator[tuple[Case, Result]]:
        """The results of cases, each as it is there."""
        listed = list(cases)
        with self._runner(described) as (runner, variant):
            runner.emit([(case, variant) for case in listed])
            for case in listed:
                yield case, runner.run(case, variant)

    def _ended(self, described: Described, cases: Sequence[Case]) -> probe.Ended:
        """How the first of the cases ended that ended in an error."""
        for _, result in self._results(described, cases):
            ended = probe.ended(result)
            if ended.words:
                return ended
        return probe.Ended()

    @contextmanager
    def _runner(self, described: Described) -> Iterator[tuple[Runner, Variant]]:
        trial = adapt(self.owner, described)
        # The worker is shared, so that the framework is imported once.
        runner = Runner(trial, self.paths, self.paths.reports / "log.txt", pool=self.pool)
        yield runner, trial.variants[0]


def _expected(case: Case, rule: probe.Rerun) -> Expected:
    return oracle.expect(case, rule.discipline, residuals=rule.residuals)


def _shows(result: Result, entry: Entry, variant: str) -> bool:
    return any(explaining([entry], result.case, variant, v) is not None for v in result.verdicts)


def _changed(described: Described, **words: object) -> Described:
    return replace(described, model=described.model.model_copy(update=words))
