"""For each statement of a case, whether it runs again in backward, and whether its result is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from conformance.model.case import Case
from conformance.oracle.assumptions import assumptions
from conformance.oracle.dataflow import Dataflow, Step
from conformance.oracle.disciplines import minimal_units
from conformance.oracle.expected import evaluation
from conformance.oracle.memory import Ledger, Way, differentiable

Kept = Literal["", "some", "all"]


@dataclass(frozen=True)
class Fate:
    """`again` are the disciplines under which a statement may run again. `kept` says whether its result
    is kept between forward and backward by `all` correct implementations, by `some`, or by none (empty).
    """

    again: tuple[str, ...]
    kept: Kept


def fates(case: Case, disciplines: Sequence[str]) -> Mapping[tuple[str, str], Fate]:
    """The fate of each statement, by region (empty outside of regions) and label, for a variant that
    declares no residuals. Empty for a case that must raise or takes no gradients."""
    if case.error is not None or case.procedure.kind == "inference":
        return {}
    evaluated = evaluation(case, None)
    counts = {name: evaluated.counts(name, {})[0] for name in disciplines}
    always, ever = _keepers(case, evaluated.dataflow, {})
    kept: dict[tuple[str, str], Kept] = {step.key: "some" for step in ever}
    kept |= {step.key: "all" for step in always}
    rerun_under: dict[tuple[str, str], list[str]] = {key: [] for key in kept}
    for name, of_case in counts.items():
        for (region, label, phase), allowed in of_case.items():
            if label and phase == "rerun" and max(allowed.counts, default=0) > 0:
                rerun_under.setdefault((region, label), []).append(name)
    return {key: Fate(tuple(names), kept.get(key, "")) for key, names in rerun_under.items()}


def _keepers(
    case: Case, dataflow: Dataflow, declared: Mapping[str, str]
) -> tuple[frozenset[Step], frozenset[Step]]:
    """The steps whose results or masks the recomputed run keeps between forward and backward: (under
    every assumption, under at least one)."""
    always: set[Step] | None = None
    ever: set[Step] = set()
    for assumed in assumptions(case, dataflow, declared, alternatives=True):
        ledger = Ledger(dataflow, assumed, views=False, wide=False)
        way = Way(dataflow, assumed, ledger, differentiable(dataflow, assumed))
        least, most = (
            {_keeper(dataflow, key) for key in kept}
            for kept in way.recomputed(minimal_units(dataflow, assumed))
        )
        ever |= {step for step in most if step is not None}
        kept_steps = {step for step in least if step is not None}
        always = kept_steps if always is None else always & kept_steps
    return frozenset(always or ()), frozenset(ever)


def _keeper(dataflow: Dataflow, key: int | Step | tuple[Step, str]) -> Step | None:
    """The step that made an entry of `Kept`; `None` for a tensor that the program starts from."""
    if isinstance(key, int):
        return dataflow.tensors[key].producer
    return key if isinstance(key, Step) else key[0]
