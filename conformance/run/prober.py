"""Probing an implementation: running it, for `conformance probe` and `conformance run --probe`.

One worker process runs all programs. Which to run and what to conclude is in `conformance.run.probe`.
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
#: Told of each thing as it is found: its topic, and what was found.
Report = Callable[[str, str], None]
_CALLS: Mapping[Style, str] = {
    "call": "function(region, *arguments)",
    "transform": "function(region)(*arguments)",
    "module": "function(module)(*arguments)",
}


@dataclass(frozen=True)
class Probed:
    """An implementation with what was found of it.

    `described` says its style, options, discipline, residuals, what it is built on and what it refuses.
    `misfits` are the cases whose reruns no rule explains, with what is wrong under the rule that
    explains the most.
    """

    described: Described
    capabilities: probe.Capabilities
    misfits: tuple[str, ...] = ()


def probe_implementation(
    owner: Adapter, described: Described, cases: Sequence[Case], paths: Paths, report: Report
) -> Probed:
    """Find what an implementation offers in an adapter. What it is described with already is not tried.

    Raises `ImplementationError`
    where the function cannot run the plainest case, `BrokenAdapterError` where it cannot be imported.
    """
    with tempfile.TemporaryDirectory(prefix="conformance-probe-") as folder:
        trial = replace(paths, reports=Path(folder))
        with Pool(adapt(owner, described), trial.reports / "log.txt") as pool:
            return _Prober(owner, cases, trial, pool, report).run(described)


class _Prober:
    def __init__(
        self, owner: Adapter, cases: Sequence[Case], paths: Paths, pool: Pool, report: Report
    ) -> None:
        self.owner, self.paths, self.pool, self.report = owner, paths, pool, report
        self.cases = probe.smallest_first(cases)
        self._results_by_case: dict[str, Result] = {}

    def run(self, described: Described) -> Probed:
        """Find one thing after the other: each rests on those before."""
        variant = adapt(self.owner, described).variants[0].name
        self.pool.describe([variant])
        # It can be imported, or the error says so.
        self.pool.parameters(variant, described.model.function)
        described = self._with_style(described)
        described = self._with_options(described)
        rules, misfits = self._reruns(described)
        described = self._with_known(described, rules)
        if rules and not described.model.known:
            rule = rules[0]
            residuals = {"residuals": dict(rule.residuals)} if rule.residuals else {}
            described = _changed(described, discipline=rule.discipline, **residuals)
        inherited = built_on(described, described.model.known, self.paths.adapters)
        capabilities = self._capabilities(inherited)
        refuses = dict(sorted(capabilities.refused.items()))
        if refuses:
            described = _changed(described, refuses={**refuses, **described.model.refuses})
        return Probed(described, capabilities, misfits)

    # -- how it is called --------------------------------------------------------------------------

    def _with_style(self, described: Described) -> Described:
        """The implementation in the first style in which it runs the plainest case."""
        styles = list(self.owner.model.implementations)
        declared = described.model.style
        failures: list[str] = []
        for style in [declared] if declared is not None else styles:
            trial = _changed(described, style=style)
            ending = self._ending(trial, self._expressible(trial)[:1])
            if not ending.words:
                self.report("style", style)
                return trial if declared is not None or style != styles[0] else described
            failures.append(f"{_CALLS[style]}: {ending.words}")
        raise ImplementationError(
            f"{described.model.function} does not run the plainest case in any style",
            where=described.where,
            hint="it raised, called as " + "; as ".join(failures),
        )

    def _with_options(self, described: Described) -> Described:
        """The implementation with the usual keywords for options that its function has among its
        parameters; those it is described with stay. A function that takes any keyword is tried with
        each of them."""
        variant = adapt(self.owner, described).variants[0]
        usual = self.owner.model.usual_keywords
        parameters = self.pool.parameters(variant.name, described.model.function)
        options = {**probe.keywords(usual, parameters), **described.model.options}
        for option, keyword in usual.items() if ANY_KEYWORD in parameters else ():
            if option in options:
                continue
            trial = _changed(described, options={**options, option: keyword})
            cases = self._expressible(trial)
            with_option = [case for case in cases if OPTIONS[option] in required_by(case)]
            if option == "preserve_rng":  # it is given at every call
                with_option = with_option or cases
            if with_option and not self._ending(trial, with_option[:1]).words:
                options[option] = keyword
        listed = ", ".join(f"{option}={keyword}" for option, keyword in options.items())
        self.report("options", listed or "none of the usual keywords")
        return _changed(described, options=options)

    # -- what runs again ---------------------------------------------------------------------------

    def _reruns(self, described: Described) -> tuple[list[probe.RerunRule], tuple[str, ...]]:
        """The rules that fit its reruns, the best first; where none does, the misfits."""
        model = described.model
        rules = [
            rule
            for rule in probe.rerun_rules(self.owner.model)
            if model.discipline in (None, rule.discipline)
            and model.residuals in (None, rule.residuals)
        ]
        if len(rules) < 2:
            return rules, ()
        observed: list[tuple[Case, Observation]] = []
        backward = [c for c in self._expressible(described) if c.procedure.kind == "backward"]
        cases = probe.distinguishing(backward, rules, _expected)
        for number, (case, result) in enumerate(self._results(described, cases), start=1):
            self.report("reruns", f"case {number} of {len(cases)}: {case.id}")
            if result.observation is not None:
                observed.append((case, result.observation))
        variant = adapt(self.owner, described).variants[0]
        verdicts = {
            number: [
                executions_under(case, variant, observation, rule.discipline, rule.residuals)
                for case, observation in observed
            ]
            for number, rule in enumerate(rules)
        }
        statuses = {
            number: [verdict.status if verdict else None for verdict in under_rule]
            for number, under_rule in verdicts.items()
        }
        allowed = {
            number: sum(
                len(executions.counts)
                for case, _ in observed
                for executions in _expected(case, rule).executions.values()
            )
            for number, rule in enumerate(rules)
        }
        fitting = [rules[number] for number in probe.fitting(statuses, allowed)]
        if fitting:
            self.report("reruns", " or ".join(rule.words for rule in fitting))
            return fitting, ()
        nearest = max(statuses, key=lambda n: statuses[n].count(Status.PASS))
        self.report("reruns", "as under no discipline")
        misfits = tuple(
            f"{case.id}, {rules[nearest].discipline}: {verdict.message}"
            for (case, _), verdict in zip(observed, verdicts[nearest], strict=True)
            if verdict is not None and verdict.status is Status.FAIL
        )
        return [], misfits

    # -- what it is built on -----------------------------------------------------------------------

    def _with_known(self, described: Described, rules: Sequence[probe.RerunRule]) -> Described:
        """The implementation with the variants that it is built on: those, among the variants whose
        rules it follows, whose known deviations it shows. The first shares the most deviations;
        each other one adds some that the first lacks.
        """
        if described.model.known:
            return described
        names = [name for rule in rules for name in rule.variants]
        candidates = [v for v in map(self.owner.variant, names) if v.model.only is None]
        entries = read(self.owner.known)
        built_on: list[Variant] = []
        while candidates:
            samples = {v.id: self._sample(described, v, entries, built_on) for v in candidates}
            self._run_new(described, [case for sample in samples.values() for case, _ in sample])
            scores = {
                v.id: sum(
                    1 if _shows(self._results_by_case[case.id], entry, v.id) else -1
                    for case, entry in samples[v.id]
                )
                for v in candidates
            }
            best = max(candidates, key=lambda v: scores[v.id])
            if scores[best.id] <= 0:
                break
            built_on.append(best)
            candidates.remove(best)
        ids = [variant.id for variant in built_on]
        shown = f"{' and '.join(ids)}, whose deviations it shows" if ids else "no variant"
        self.report("built on", shown)
        return _changed(described, known=ids) if ids else described

    def _run_new(self, described: Described, cases: Iterable[Case]) -> None:
        """Run those of the cases that have no result yet."""
        new = {case.id: case for case in cases if case.id not in self._results_by_case}
        for case, result in self._results(described, new.values()):
            self._results_by_case[case.id] = result

    def _sample(
        self,
        described: Described,
        variant: Variant,
        entries: Sequence[Entry],
        others: Sequence[Variant],
    ) -> list[tuple[Case, Entry]]:
        """A few known deviations of a variant, each with its smallest case; none that one of the other
        variants has, too."""
        cases = self._expressible(described)
        sample: list[tuple[Case, Entry]] = []
        own = [entry for entry in entries if entry.names_variant(variant.id)]
        of_others = [
            (entry, v.id) for entry in entries for v in others if entry.names_variant(v.id)
        ]
        for entry in own:
            for case in cases:
                if not entry.covers(case.id, variant.id, entry.check) or lacking(case, variant):
                    continue
                if not any(other.covers(case.id, name, entry.check) for other, name in of_others):
                    sample.append((case, entry))
                break
        size = {case.id: position for position, case in enumerate(cases)}
        return sorted(sample, key=lambda deviation: size[deviation[0].id])[: probe.PER_VARIANT]

    # -- what it takes -----------------------------------------------------------------------------

    def _capabilities(self, described: Described) -> probe.Capabilities:
        entries = read(self.owner.known)
        shared = [
            entry for entry in entries if any(map(entry.names_variant, described.model.known))
        ]

        def run(case: Case) -> probe.Ending:
            result = runner.run(case, variant)
            ending = probe.ending_of(result)
            known = any(
                explaining(shared, case.id, name, verdict) is not None
                for verdict in result.verdicts
                for name in described.model.known
            )
            return replace(ending, known=ending.known or known)

        with self._runner(described) as (runner, variant):
            cases = probe.for_capabilities(self._expressible(described))
            runner.emit([(case, variant) for case in cases])
            return probe.find_capabilities(cases, run, self.report)

    # -- running -----------------------------------------------------------------------------------

    def _expressible(self, described: Described) -> list[Case]:
        """The cases that the implementation has a way to express, the smallest first."""
        variant = adapt(self.owner, described).variants[0]
        return [case for case in self.cases if lacking(case, variant) is None]

    def _results(
        self, described: Described, cases: Iterable[Case]
    ) -> Iterator[tuple[Case, Result]]:
        """Run cases, and yield the result of each when it is there."""
        listed = list(cases)
        with self._runner(described) as (runner, variant):
            runner.emit([(case, variant) for case in listed])
            for case in listed:
                yield case, runner.run(case, variant)

    def _ending(self, described: Described, cases: Sequence[Case]) -> probe.Ending:
        """How the first of the cases ends that does not come to its end; empty where all do."""
        endings = (probe.ending_of(result) for _, result in self._results(described, cases))
        return next((ending for ending in endings if ending.words), probe.Ending())

    @contextmanager
    def _runner(self, described: Described) -> Iterator[tuple[Runner, Variant]]:
        """A runner of the implementation, and the variant that its programs are of."""
        trial = adapt(self.owner, described)
        # The worker is shared, so that the framework is imported once.
        runner = Runner(trial, self.paths, self.paths.reports / "log.txt", pool=self.pool)
        yield runner, trial.variants[0]


def _expected(case: Case, rule: probe.RerunRule) -> Expected:
    return oracle.expect(case, rule.discipline, residuals=rule.residuals)


def _shows(result: Result, entry: Entry, variant: str) -> bool:
    """Whether a result shows a known deviation of a variant."""
    return any(explaining([entry], result.case, variant, v) is not None for v in result.verdicts)


def _changed(described: Described, **fields: object) -> Described:
    """The description with other values of these fields."""
    return replace(described, model=described.model.model_copy(update=fields))
