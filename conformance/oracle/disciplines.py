"""How often statements run again in one backward pass, under the disciplines `whole` and `early-stop`.

A rule takes the dataflow of the forward pass and an assumption on what is saved, and gives reruns by
(region, statement's label), and by (region, "") for the region itself. `minimal` has its own module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from conformance.oracle.assumptions import Assumption, is_kept, merged_into, runs_plainly
from conformance.oracle.dataflow import Call, Dataflow, Step

#: The name of a region (empty outside of regions), and the label of a statement (empty for the region).
Key = tuple[str, str]

# -- whole -----------------------------------------------------------------------------------------


def whole(dataflow: Dataflow, assumption: Assumption) -> Counter[Key]:
    """Reruns under `whole`: every region that contributes to a gradient runs again as a whole, and what
    is in an inner region runs again once for each region around it.

    If the variant says `asked`, only regions run again in which a residual was saved that backward
    reads; if `flat`, inner regions do not count as regions; if `ends`, statements whose results nothing
    in the region reads do not run again.
    """
    reruns: Counter[Key] = Counter()
    asked = asked_for(dataflow, assumption)

    def around(chain: tuple[Call, ...]) -> tuple[Call, ...]:
        return chain[:1] if "flat" in assumption.regions else chain

    def runs_again(call: Call) -> bool:
        if runs_plainly(call, assumption):
            return False
        return asked(call) if "asked" in assumption.regions else contributes(call, assumption)

    for step in dataflow.steps:
        left_out = is_kept(step) or ("ends" in assumption.regions and is_end(step))
        if not left_out:
            reruns[step.key] += sum(runs_again(call) for call in around(step.chain))
    for call in dataflow.calls():
        reruns[call.region.name, ""] += sum(runs_again(outer) for outer in around(call.chain))
    return reruns


def contributes(call: Call, assumption: Assumption) -> bool:
    """Whether the gradient of any statement in a call of a region is computed."""
    return any(step in assumption.differentiated for step in call.steps)


def is_end(step: Step) -> bool:
    """Whether no step in the outermost region around this one reads its results. False for the first
    step of a region, and outside of regions."""
    if not step.chain:
        return False
    first, *rest = step.chain[0].steps
    read = {number for other in rest for number in other.reads}
    return step is not first and read.isdisjoint(step.results)


def asked_for(dataflow: Dataflow, assumption: Assumption) -> Callable[[Call], bool]:
    """A function that says whether backward reads a residual saved in a call of a region. The arguments
    of an inner region count as residuals if that region runs again."""
    known: dict[Call, bool] = {}

    def asked(call: Call) -> bool:
        if call not in known:
            known[call] = False
            known[call] = asked_inside(call) or any(map(asked, merged_into(dataflow, call)))
        return known[call]

    def asked_inside(call: Call) -> bool:
        for item in call.body:
            if isinstance(item, Call):
                if item.saved_on_entry and asked(item):
                    return True
            elif item in assumption.differentiated and assumption.residuals(dataflow, item):
                return True
        return False

    return asked


# -- early stop ------------------------------------------------------------------------------------


def early_stop(dataflow: Dataflow, assumption: Assumption) -> Counter[Key]:
    """Reruns under `early-stop`: a region runs again when backward first reads a residual saved in it,
    and stops as soon as all its residuals are computed again."""
    asked = asked_for(dataflow, assumption)
    reruns: Counter[Key] = Counter()
    for call in dataflow.calls():
        length = stop_point(dataflow, call, assumption)
        if length is None or runs_plainly(call, assumption) or not asked(call):
            continue
        reruns[call.region.name, ""] += 1
        if call.region.merge_adjacent and (assumption.merged_to_end or merged_into(dataflow, call)):
            length = len(call.body)
        for item in call.body[:length]:
            _run_to_end(item, reruns)
    return reruns


def stop_point(dataflow: Dataflow, call: Call, assumption: Assumption) -> int | None:
    """How many items of a call's body run again until its last residual is computed; `None` if nothing
    is saved in it.

    If the last residuals are arguments of a statement, the rerun stops before that statement (unless the
    variant says `after`), as it does for a statement that saves its residuals before its end (`early`).
    An inner region saves its arguments before it runs.
    """
    length = None
    for place, item in enumerate(call.body):
        if isinstance(item, Call):
            if item.saved_on_entry:
                length = place
        else:
            words = assumption.residuals(dataflow, item)
            if words:
                result_kept = "early" not in words and not words.isdisjoint(("out", "mask"))
                length = place + (result_kept or "after" in assumption.regions)
    return length


def _run_to_end(item: Step | Call, reruns: Counter[Key]) -> None:
    """Count a rerun of an item and of all that it contains."""
    if isinstance(item, Call):
        reruns[item.region.name, ""] += 1
        for inner in item.body:
            _run_to_end(inner, reruns)
    elif not is_kept(item):
        reruns[item.key] += 1
