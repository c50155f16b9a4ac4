"""For each statement of a case, whether it runs again in backward, and whether its result is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from conformance.model.case import Case
from conformance.oracle.expected import evaluation
from conformance.oracle.memory import keepers

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
    always, ever = keepers(case, evaluated.dataflow, {})
    kept: dict[tuple[str, str], Kept] = {step.key: "some" for step in ever}
    kept |= {step.key: "all" for step in always}
    rerun_under: dict[tuple[str, str], list[str]] = {key: [] for key in kept}
    for name, of_case in counts.items():
        for (region, label, phase), allowed in of_case.items():
            if label and phase == "rerun" and max(allowed.counts, default=0) > 0:
                rerun_under.setdefault((region, label), []).append(name)
    return {key: Fate(tuple(names), kept.get(key, "")) for key, names in rerun_under.items()}
