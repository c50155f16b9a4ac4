"""How often every statement and region of a case may run: in forward, and again in backward.

A rule takes the dataflow of the forward pass and an assumption on what is saved, and gives reruns in one
backward pass by (region, statement's label), and by (region, "") for the region itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property

from conformance.language.operations import BOOLS, COSTLY, OPERATIONS, VIEWS, saved_more
from conformance.model.case import Case, Position, Region, flat
from conformance.model.observation import Allowed, Phase
from conformance.oracle.dataflow import Assumption, Call, Dataflow, Key, Step, assumptions, walk

# -- whole -----------------------------------------------------------------------------------------


def whole(assumption: Assumption) -> Counter[Key]:
    """Reruns under `whole`: every region that contributes to a gradient runs again as a whole, and what
    is in an inner region runs again once for each region around it.

    If the variant says `asked`, only regions run again in which a residual was saved that backward
    reads; if `flat`, inner regions do not count as regions; if `ends`, statements whose results nothing
    in the region reads do not run again.
    """
    again = asked_for(assumption) if "asked" in assumption.regions else _contributing(assumption)
    again = {call for call in again if not assumption.runs_plainly(call)}
    ends = "ends" in assumption.regions
    reruns: Counter[Key] = Counter()
    for item in assumption.dataflow.items:
        if isinstance(item, Step) and ends and is_end(item):
            continue
        around = item.chain[:1] if "flat" in assumption.regions else item.chain
        if (
            isinstance(item, Step) and item.kept
        ):  # by the innermost, and computed for those around it
            around = tuple(call for call in around if call is not item.call)
        reruns[item.key] += len(again.intersection(around))
    return reruns


def _contributing(assumption: Assumption) -> set[Call]:
    """The calls in which a gradient is taken, and those that are merged into one of these: what they
    returned it is recomputed."""
    dataflow, taken = assumption.dataflow, assumption.differentiated
    again = {call for call in dataflow.calls if not taken.isdisjoint(call.steps)}
    for call in reversed(dataflow.calls):
        merged = dataflow.merged_into(call)
        given = {n for later in merged if later in again for n in later.taken}
        if not given.isdisjoint(assumption.active.intersection(call.gives)):
            again.add(call)
    return again


def is_end(step: Step) -> bool:
    """Whether no step in the outermost region around this one reads its results. False for the first
    step of a region, and outside of regions."""
    if not step.chain:
        return False
    first, *rest = step.chain[0].steps
    read = {number for other in rest for number in other.reads}
    return step is not first and read.isdisjoint(step.results)


def asked_for(assumption: Assumption) -> set[Call]:
    """The calls of regions in which a residual was saved that backward reads. The arguments of an inner
    region count as residuals if that region runs again."""
    dataflow = assumption.dataflow
    asked: set[Call] = set()

    def saved(item: Step | Call) -> bool:
        if isinstance(item, Call):
            return bool(item.saved_on_entry) and item in asked
        return item in assumption.differentiated and bool(assumption.residuals(item))

    for call in reversed(dataflow.calls):  # later and inner ones first
        if any(map(saved, call.body)) or not asked.isdisjoint(dataflow.merged_into(call)):
            asked.add(call)
    return asked


# -- early stop ------------------------------------------------------------------------------------


def early_stop(assumption: Assumption) -> Counter[Key]:
    """Reruns under `early-stop`: a region runs again when backward first reads a residual saved in it,
    and stops as soon as all its residuals are computed again."""
    dataflow, asked = assumption.dataflow, asked_for(assumption)
    reruns: Counter[Key] = Counter()
    for call in dataflow.calls:
        length = stop_point(call, assumption)
        if length is None or assumption.runs_plainly(call) or call not in asked:
            continue
        reruns[call.key] += 1
        if call.region.merge_adjacent and (assumption.merged_to_end or dataflow.merged_into(call)):
            length = len(call.body)
        inside = walk(call.body[:length])
        # What an inner region's policy keeps is computed when the outer one calls that region again.
        reruns.update(
            i.key for i in inside if isinstance(i, Call) or not (i.kept and i.call is call)
        )
    return reruns


def stop_point(call: Call, assumption: Assumption) -> int | None:
    """How many items of a call's body run again until its last residual is computed; `None` if nothing
    is saved in it.

    If the last residuals are arguments of a statement, the rerun stops before that statement (unless the
    variant says `after`), as it does for a statement that saves its residuals before its end (`early`).
    An inner region saves its arguments before it runs. A rerun that saves more comes to the number of
    residuals earlier.
    """
    lengths: list[int] = []  # one for each residual
    more = 0
    for place, item in enumerate(call.body):
        if isinstance(item, Call):
            lengths += [place] * len(item.saved_on_entry)
        elif words := assumption.residuals(item):
            result_kept = "early" not in words and not words.isdisjoint(("out", "mask"))
            own = saved_more(item.statement.options)
            more += own
            after = result_kept or "after" in assumption.regions
            lengths += [place + after] * (len(words - {"early"}) + own)
    return lengths[-1 - more] if lengths else None


# -- minimal ---------------------------------------------------------------------------------------
# It looks at what backward reads, not at where regions begin and end: a statement runs again when a
# residual, or another statement that runs again, reads what it made.

#: The whole program as a region without a name, for a variant that reruns it as one (`program`).
PROGRAM = Region("", (), {}, (), (), "function", False, Position("", 0, 0))


@dataclass(frozen=True)
class Unit:
    """Calls that run again together: one call, or several that are merged.

    `reads` are the tensors from around it that its gradients need, `reruns` the steps that must run
    again, and `kept_results` those of its own tensors that are kept and read.
    """

    calls: tuple[Call, ...]
    reads: frozenset[int] = frozenset()
    reruns: frozenset[Step] = frozenset()
    kept_results: frozenset[int] = frozenset()

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Every step in its calls."""
        return tuple(step for call in self.calls for step in call.steps)

    @cached_property
    def producers(self) -> Mapping[int, Step]:
        """The step that made each of the tensors that are made in it."""
        return {n: step for step in self.steps for n in step.results}


def minimal(assumption: Assumption) -> Counter[Key]:
    """Reruns under `minimal`: only what some gradient needs runs again. A region's count is the largest
    of its statements' counts."""
    solved = minimal_units(assumption)
    again = [step for unit in solved for step in unit.reruns]
    reruns = Counter(step.key for step in again)
    # Several operations may make one name.
    for ((region, _), _), count in Counter((s.key, s.statement.op) for s in again).items():
        if region:
            reruns[region, ""] = max(reruns[region, ""], count)
    return reruns


def minimal_units(assumption: Assumption) -> list[Unit]:
    """Every unit with its reruns, an outer one before its inner ones. If the variant says `flat`, only
    the outermost units; if `program`, one unit for the whole program."""
    dataflow = assumption.dataflow
    outermost = units(dataflow, dataflow.body)
    if "program" in assumption.regions:
        every = tuple(dataflow.leaves.values())
        body = list(dataflow.body)
        outermost = [Unit((Call(PROGRAM, None, every, (), dataflow.outputs, body),))]
    solved = [unit for outer in outermost for unit in _solved(assumption, outer)]
    if assumption.regions.isdisjoint(("anew", "operations")):
        return solved
    return _made_anew(assumption, solved)


def units(dataflow: Dataflow, items: Iterable[Step | Call]) -> list[Unit]:
    """The calls among the items as units, in order; merged calls are in one unit."""
    calls = [item for item in items if isinstance(item, Call)]
    if not any(call.region.merge_adjacent for call in calls):
        return [Unit((call,)) for call in calls]
    groups: list[list[Call]] = []
    for call in calls:
        home = [g for g in groups if any(call in dataflow.merged_into(c) for c in g)]
        joined = [member for group in home for member in group] + [call]
        groups = [group for group in groups if group not in home] + [joined]
    return [Unit(tuple(group)) for group in groups]


def _solved(assumption: Assumption, unit: Unit) -> list[Unit]:
    """A unit and those inside it, with `reads`, `reruns` and `kept_results` computed."""
    as_one = not assumption.regions.isdisjoint(("flat", "program"))
    direct = [s for call in unit.calls for s in call.steps if as_one or s.call is call]
    inner: list[Unit] = []
    for call in () if as_one else unit.calls:
        for below in units(assumption.dataflow, call.body):
            inner += _solved(assumption, below)
    available = _available(assumption, unit, direct)
    wanted, reruns = _residuals(assumption, direct, available)
    inside = [u for u in inner if u.calls[0].parent in unit.calls]
    wanted += [n for u in inside for n in u.reads]
    again, masked = _kept_inside(assumption, inside, available)
    wanted += again
    reruns |= masked
    made = unit.producers
    reads: set[int] = set()
    kept: set[int] = set()
    expanded: set[Step] = set()  # steps whose arguments are wanted already
    while wanted:
        number = wanted.pop()
        if number in available:
            kept.add(number)
        elif number not in made:
            reads.add(number)
        elif made[number] not in expanded:
            expanded.add(made[number])
            wanted += made[number].reads
    solved = Unit(unit.calls, frozenset(reads), frozenset(reruns | expanded), frozenset(kept))
    return [solved, *inner]


def _available(assumption: Assumption, unit: Unit, direct: Iterable[Step]) -> frozenset[int]:
    """The tensors made in a unit that backward need not compute again: those that policies keep, and
    those that the variant declares available (`out`, `inner`, `passed`)."""
    available = {n for step in direct if step.kept for n in step.results}
    if "out" in assumption.regions:
        into = assumption.dataflow.merged_into
        last = [call for call in unit.calls if set(into(call)).isdisjoint(unit.calls)]
        if "inner" in assumption.regions:
            inside = (item for call in unit.calls for item in walk(call.body))
            last += [item for item in inside if isinstance(item, Call)]
        available |= {n for call in last for n in call.gives}
    if "passed" in assumption.regions:
        available |= assumption.dataflow.passed
    return frozenset(available)


def _residuals(
    assumption: Assumption, steps: Iterable[Step], available: Set[int]
) -> tuple[list[int], set[Step]]:
    """The residuals of steps: (numbers of tensors, steps that run again for their mask)."""
    wanted: list[int] = []
    masks: set[Step] = set()
    for step in steps:
        if step not in assumption.differentiated:
            continue
        wanted += assumption.read(step)
        # An operation that is not run again keeps its mask too.
        saved = not available.isdisjoint(step.results)
        if "mask" in assumption.residuals(step) and not (
            saved and (assumption.mask_kept or not step.kept)
        ):
            masks.add(step)
            wanted += step.mask_reads if assumption.mask_alone else step.reads
    return wanted, masks


def _kept_inside(
    assumption: Assumption, inside: Iterable[Unit], available: Set[int]
) -> tuple[list[int], set[Step]]:
    """What the unit around some units computes again because their policies keep it only until their
    own gradients, which it runs: (numbers of tensors, steps that run again for their mask)."""
    wanted: list[int] = []
    masks: set[Step] = set()
    for unit in inside:
        kept = frozenset(n for call in unit.calls for n in call.kept)
        wanted += kept & unit.kept_results
        own = {step for step in unit.steps if step.kept and step.call in unit.calls}
        for step in own & assumption.differentiated if assumption.mask_kept else ():
            if "mask" in assumption.residuals(step) and available.isdisjoint(step.results):
                masks.add(step)
                wanted += step.mask_reads if assumption.mask_alone else step.reads
    return wanted, masks


def _made_anew(assumption: Assumption, solved: list[Unit]) -> list[Unit]:
    """The units for a variant that says `anew` or `operations`: a region's results (with `operations`,
    only those of regions of one operation) are not kept for gradients outside of it, but computed
    again from what is kept."""
    anew = "anew" in assumption.regions
    inside = [step for unit in solved for step in unit.steps]
    made = {n: step for step in inside if anew or _is_operation(step) for n in step.results}
    available = {n for step in inside if step.kept for n in step.results}
    available |= assumption.dataflow.passed if "passed" in assumption.regions else frozenset()
    outside = [step for step in assumption.dataflow.steps if step.call is None]
    through = outside if assumption.through else []
    cheap = {n: s for s in through if s.statement.op not in COSTLY for n in s.results}
    wanted = [n for unit in solved for n in unit.reads]
    for step in assumption.differentiated.intersection(outside):
        wanted += assumption.read(step)
    rerun: set[Step] = set()
    while wanted:
        number = wanted.pop()
        if number in made and number not in available and made[number] not in rerun:
            rerun.add(made[number])
            wanted += made[number].reads
        elif number in cheap:
            wanted += cheap.pop(number).reads
    return [replace(u, reruns=u.reruns | rerun.intersection(u.steps)) for u in solved]


def _is_operation(step: Step) -> bool:
    """Whether the region around a step consists of it alone and captures nothing."""
    if step.call is None:
        return False
    region = step.call.region
    return len(tuple(flat(region.body))) == 1 and not region.captured()


# -- the whole procedure ---------------------------------------------------------------------------

#: Reruns in one backward pass, by discipline.
RULES: Mapping[str, Callable[[Assumption], Counter[Key]]]
RULES = {"whole": whole, "early-stop": early_stop, "minimal": minimal}
#: The reasons for which more than one count is allowed.
_REASONS = {
    "alternatives": "implementations differ in what a gradient reads and which gradients they take",
    "second order": "the second pass may run a region again or use what the first made",
    "jacobian": "all elements may be differentiated at once, or one after the other",
    "before": "what ran before with gradients off may be another program, and not counted",
    "unused": "what no output needs, or computes nothing, may be left out",
    "cheap": "a compiler may run what is cheap again",
    "flat": "a compiler runs again what it needs of regions inside others",
}


class Executions:
    """The executions of a case under one discipline. `declared` is what the variant declares of
    residuals, see `expect`."""

    def __init__(
        self, case: Case, dataflow: Dataflow, discipline: str, declared: Mapping[str, str]
    ) -> None:
        self.case, self.dataflow = case, dataflow
        self.discipline, self.declared = discipline, declared
        self.least = discipline == "minimal"
        self.passes = passes_of(case)
        #: How often each runs in one forward pass.
        self.once = Counter(item.key for item in dataflow.items)
        self.needed = needed_executions(dataflow) if self.least else self.once
        cheap = {step.key for step in dataflow.steps if step.statement.op not in COSTLY}
        self.cheap = cheap | {(region, "") for region, _ in cheap if region}
        self.computing = {s.key for s in dataflow.steps if s.statement.op not in VIEWS}
        self.bools = {step.key for step in dataflow.steps if step.statement.op in BOOLS}
        seen = [step for step in dataflow.steps if step.key not in self.bools]
        #: The regions with statements of their own that compute something.
        self.counted = {s.key[0] for s in seen if not OPERATIONS[s.statement.op].raises}
        self.nested = {step.key for step in dataflow.steps if len(step.chain) > 1}

    def allowed(self) -> dict[tuple[str, str, Phase], Allowed]:
        """The allowed counts over the whole procedure, by (region, statement's label, phase); the label
        is empty for the region itself."""
        allowed: dict[tuple[str, str, Phase], Allowed] = {}
        reruns = self._reruns()
        for key in self.once:
            # Under `minimal`, a region's count comes from its own statements; without any it has none.
            # Nor has what gives a bool, which no backward pass reads.
            if not self.least or (key not in self.bools and (key[1] or key[0] in self.counted)):
                allowed[*key, "forward"] = self._forward(key)
                allowed[*key, "rerun"] = self._rerun(key, reruns[key])
        return allowed

    def _forward(self, key: Key) -> Allowed:
        # What a call of a region does without need may be left out of one call and run in another.
        most, least = (self.passes * n for n in (self.once[key], self.needed[key]))
        counts = tuple(range(most, least - 1, -1))
        if self.case.procedure.after == "inference":
            more = tuple(range(2 * most, 2 * least - 1, -1))
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
            counted = rule(assumed)
            if kind == "gradient_of_jvp":  # what gives a constant tangent need not run again
                taken = self.dataflow.bent(self.dataflow.active(assumed.wanted), self.dataflow.loss)
                bent = rule(replace(assumed, differentiated=taken))
                for key in seen:
                    seen[key].setdefault(bent[key])
            if kind == "per_output":
                active, ends = self.dataflow.active(assumed.wanted), (self.dataflow.second_loss,)
                taken = self.dataflow.differentiated(active, ends)
                counted = counted + rule(replace(assumed, differentiated=taken))
                if self.least:  # one backward program may serve all outputs
                    both = rule(replace(assumed, differentiated=assumed.differentiated | taken))
                    for key, count in both.items():
                        seen[key].setdefault(2 * count)
            for key in seen:
                seen[key].setdefault(counted[key])
                own = (counted[k] for k in self.computing if k[0] == key[0])
                if self.least and not key[1] and not any(own):
                    seen[key].setdefault(0)  # a view of the whole argument computes nothing
        return {key: tuple(counts) for key, counts in seen.items()}

    def _rerun(self, key: Key, counts: tuple[int, ...]) -> Allowed:
        procedure = self.case.procedure
        times = 2 if procedure.kind == "second_backward" else self.passes
        counts = tuple(times * n for n in counts) or (0,)
        allowed = Allowed(counts, _REASONS["alternatives"] if len(counts) > 1 else "")
        if procedure.kind == "jacobian":  # one backward pass for all elements, or one for each
            passes = self.dataflow.tensors[self.dataflow.loss or 0].size * len(self.case.wrt)
            counts += tuple(n * max(counts) for n in range(2, passes + 1))
            return Allowed(counts, _REASONS["jacobian"])
        allowed = self._compiled(key, allowed, times)
        if procedure.order > 1 and (self.least or max(allowed.counts)):
            each = self._most(key) if self.least else max(allowed.counts)
            most = (2**procedure.order - 1) * each
            between = range(min(allowed.counts) + 1, most + 1)
            more = tuple(n for n in between if n not in allowed.counts)
            return Allowed((*allowed.counts, *more), _REASONS["second order"])
        return allowed

    def _most(self, key: Key) -> int:
        """How often it would run again if every region around it did as a whole; a region as often as
        what is most frequent in it, where equal operations that make one name are counted together."""
        alike = Counter[tuple[Key, str]]()
        for item in self.dataflow.items:
            if item.key == key:
                alike[key, ""] += len(item.chain)
            elif isinstance(item, Step) and (item.key[0], "") == key:
                alike[item.key, item.statement.op] += len(item.chain)
        return max(alike.values())

    def _compiled(self, key: Key, allowed: Allowed, times: int) -> Allowed:
        """The counts, and those that a compiler adds if the variant says `cheap`: it may run cheap
        operations again, once for each execution in forward. Under `whole`, each rerun of a compiled
        region has a backward graph of its own, which may do so."""
        words = self.declared.get("region", "").split()
        if "cheap" not in words:
            return allowed
        start, may, reason = max(allowed.counts) + 1, key in self.cheap, "cheap"
        more = range(start, times * self.once[key] + 1)
        if self.discipline == "whole":
            more = range(start, 2 * start - 1)
            may = bool(key[1] and more) and (may or ("flat" in words and key in self.nested))
            reason = "flat" if key in self.nested else "cheap"
        return Allowed((*allowed.counts, *more), _REASONS[reason]) if may else allowed


def passes_of(case: Case) -> int:
    """The forward passes of the case's procedure that are differentiated."""
    passes = case.procedure.steps if case.procedure.kind == "train" else 1
    return passes + (case.procedure.after == "backward")


def needed_steps(dataflow: Dataflow) -> set[Step]:
    """The steps that the outputs or the loss depend on."""
    losses = () if dataflow.loss is None else (dataflow.loss,)
    return _needed(dataflow, {*dataflow.outputs, *losses})


def needed_inside(dataflow: Dataflow, active: frozenset[int]) -> set[Step]:
    """The steps outside of regions, and those that the results of the outermost regions depend on; all
    of an outermost region that reads nothing `active`."""
    ends = (item.results if isinstance(item, Step) else item.gives for item in dataflow.body)
    whole = (step for step in dataflow.steps if step.chain and not active & step.chain[0].read)
    return _needed(dataflow, {number for numbers in ends for number in numbers}).union(whole)


def _needed(dataflow: Dataflow, wanted: set[int]) -> set[Step]:
    needed: set[Step] = set()
    for step in reversed(dataflow.steps):
        if not wanted.isdisjoint(step.results):
            wanted |= set(step.reads)
            needed.add(step)
    return needed


def needed_executions(dataflow: Dataflow) -> Counter[Key]:
    """How often each runs in forward, counting only what the outputs or the loss depend on: a region as
    often as the most frequent of its own statements that compute numbers. One statement may be needed of
    one call and another one of another."""
    steps = needed_steps(dataflow)
    needed = Counter(step.key for step in steps)
    inside = {
        (step.key[0], id(step.statement), step.call)
        for step in steps
        if step.call and step.statement.op not in VIEWS | BOOLS
    }
    calls = Counter((region, statement) for region, statement, _ in inside)
    for (region, _), number in calls.items():
        needed[region, ""] = max(needed[region, ""], number)
    return needed
