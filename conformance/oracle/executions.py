"""How often every statement and region of a case may run: in forward, and again in backward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from conformance.model.case import Case
from conformance.model.observation import Allowed, Phase
from conformance.oracle.assumptions import COSTLY, Assumption, assumptions, region_words
from conformance.oracle.dataflow import Call, Dataflow
from conformance.oracle.disciplines import Key, early_stop, minimal, whole

#: Reruns in one backward pass, by discipline.
RULES: Mapping[str, Callable[[Dataflow, Assumption], Counter[Key]]] = {
    "whole": whole,
    "early-stop": early_stop,
    "minimal": minimal,
}
#: The reasons for which more than one count is allowed.
_REASONS = {
    "alternatives": "implementations differ in what a gradient reads and which gradients they take",
    "second order": "the second pass may run a region again or use what the first made",
    "before": "what ran before with gradients off may be another program, and not counted",
    "unused": "what no output needs may be left out",
    "cheap": "a compiler may run what is cheap again",
    "flat": "a compiler runs again what it needs of regions inside others",
}


def executions(
    case: Case, dataflow: Dataflow, discipline: str, declared: Mapping[str, str]
) -> dict[tuple[str, str, Phase], Allowed]:
    """The allowed counts over the whole procedure, by (region, statement's label, phase); the label is
    empty for the region itself. `declared` is what the variant declares of residuals, see `expect`."""
    return _Counts(case, dataflow, discipline, declared).allowed()


class _Counts:
    """The allowed counts of a case under one discipline."""

    def __init__(
        self, case: Case, dataflow: Dataflow, discipline: str, declared: Mapping[str, str]
    ) -> None:
        self.case, self.dataflow = case, dataflow
        self.discipline, self.declared = discipline, declared
        self.least = discipline == "minimal"
        procedure = case.procedure
        #: Forward passes of the procedure.
        self.passes = procedure.steps if procedure.kind == "train" else 1
        self.passes += procedure.after == "backward"
        #: How often each runs in one forward pass.
        self.once: Counter[Key] = Counter(step.key for step in dataflow.steps)
        self.once.update((call.region.name, "") for call in dataflow.calls())
        cheap = {step.key for step in dataflow.steps if step.statement.op not in COSTLY}
        self.cheap = cheap | {(region, "") for region, _ in cheap if region}
        self.nested = {step.key for step in dataflow.steps if len(step.chain) > 1}

    def allowed(self) -> dict[tuple[str, str, Phase], Allowed]:
        allowed: dict[tuple[str, str, Phase], Allowed] = {}
        needed = needed_executions(self.dataflow) if self.least else self.once
        for key in self.once:
            allowed[*key, "forward"] = self._forward(key, needed[key])
        for key, counts in self._reruns().items():
            # Under `minimal`, a region's count comes from its own statements; without any it has none.
            if key[1] or not self.least or any(r == key[0] and label for r, label in self.once):
                allowed[*key, "rerun"] = self._rerun(key, counts)
        return allowed

    def _forward(self, key: Key, needed: int) -> Allowed:
        counts = tuple(dict.fromkeys((self.passes * self.once[key], self.passes * needed)))
        if self.case.procedure.after == "inference":
            more = tuple(n + self.once[key] for n in counts)
            return Allowed((*counts, *more), _REASONS["before"])
        return Allowed(counts, _REASONS["unused"] if len(counts) > 1 else "")

    def _reruns(self) -> dict[Key, tuple[int, ...]]:
        """The counts of reruns in the backward passes of one step that any assumption leads to, in the
        order in which they are found."""
        rule, kind = RULES[self.discipline], self.case.procedure.kind
        seen: dict[Key, dict[int, None]] = {key: {} for key in self.once}
        if kind == "inference":
            return dict.fromkeys(seen, ())
        for assumed in assumptions(
            self.case, self.dataflow, self.declared, alternatives=self.least
        ):
            counted = rule(self.dataflow, assumed)
            if kind == "per_output":
                second = self._of_second_loss(assumed)
                counted = counted + rule(self.dataflow, second)
                if self.least:  # one backward program may serve all outputs
                    steps = assumed.differentiated | second.differentiated
                    both = rule(self.dataflow, replace(assumed, differentiated=steps))
                    for key, count in both.items():
                        seen[key].setdefault(2 * count)
            for key in seen:
                seen[key].setdefault(counted[key])
        return {key: tuple(counts) for key, counts in seen.items()}

    def _of_second_loss(self, assumed: Assumption) -> Assumption:
        """The assumption, for the backward pass that starts at the second loss."""
        active = self.dataflow.active(self.case.wrt)
        ends = (self.dataflow.second_loss,)
        return replace(assumed, differentiated=self.dataflow.differentiated(active, ends))

    def _rerun(self, key: Key, counts: tuple[int, ...]) -> Allowed:
        procedure = self.case.procedure
        times = 2 if procedure.kind == "second_backward" else self.passes
        counts = tuple(times * n for n in counts) or (0,)
        allowed = Allowed(counts, _REASONS["alternatives"] if len(counts) > 1 else "")
        allowed = self._compiled(key, allowed, times)
        if procedure.order > 1 and (self.least or max(allowed.counts)):
            each = nesting(key, self.dataflow) if self.least else max(allowed.counts)
            most = (2**procedure.order - 1) * each
            between = range(min(allowed.counts) + 1, most + 1)
            more = tuple(n for n in between if n not in allowed.counts)
            return Allowed((*allowed.counts, *more), _REASONS["second order"])
        return allowed

    def _compiled(self, key: Key, allowed: Allowed, times: int) -> Allowed:
        """The counts, and those that a compiler adds if the variant says `cheap`: it may run cheap
        operations again, once for each execution in forward. Under `whole`, each rerun of a compiled
        region has a backward graph of its own, which may do so."""
        words = region_words(self.declared)
        if "cheap" not in words:
            return allowed
        start = max(allowed.counts) + 1
        if self.discipline != "whole":
            if key not in self.cheap:
                return allowed
            more = range(start, times * self.once[key] + 1)
            return Allowed((*allowed.counts, *more), _REASONS["cheap"])
        more = range(start, 2 * max(allowed.counts) + 1)
        compiler_may = key in self.cheap or ("flat" in words and key in self.nested)
        if not (key[1] and compiler_may and more):
            return allowed
        reason = _REASONS["flat" if key in self.nested else "cheap"]
        return Allowed((*allowed.counts, *more), reason)


def nesting(key: Key, dataflow: Dataflow) -> int:
    """How often a statement or region would run again in one backward pass if every region around it
    ran again as a whole."""
    region, label = key
    if label:
        return sum(len(step.chain) for step in dataflow.steps if step.key == key)
    return sum(len(call.chain) for call in dataflow.calls() if call.region.name == region)


def needed_executions(dataflow: Dataflow) -> Counter[Key]:
    """How often each statement and region runs in forward, counting only what the outputs or the loss
    depend on."""
    wanted = set(dataflow.outputs) | ({dataflow.loss} - {None})
    needed: Counter[Key] = Counter()
    entered: set[Call] = set()
    for step in reversed(dataflow.steps):
        if not step.results or not wanted.isdisjoint(step.results):
            wanted |= set(step.reads)
            needed[step.key] += 1
            entered.update(step.chain)
    needed.update((call.region.name, "") for call in entered)
    return needed
