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
    """Every region that contributes to a gradient runs again, with all that is in it; what is in an
    inner region runs again once for each region around it.

    Where the variant says `asked`, only those run in which a value was saved that is asked for;
    where it says `flat`, inner regions are no regions; where it says `ends`, what nothing in a
    region reads does not run again.
    """
    reruns: Counter[Key] = Counter()
    asked = asked_for(dataflow, assumption)

    def around(chain: tuple[Call, ...]) -> tuple[Call, ...]:
        return chain[:1] if "flat" in assumption.regions else chain

    def again(call: Call) -> bool:
        if runs_plainly(call, assumption):
            return False
        return asked(call) if "asked" in assumption.regions else contributes(call, assumption)

    for step in dataflow.steps():
        left_out = is_kept(step) or ("ends" in assumption.regions and is_end(step))
        if not left_out:
            reruns[step.key] += sum(again(call) for call in around(step.chain))
    for call in dataflow.calls():
        reruns[call.region.name, ""] += sum(again(outer) for outer in around(call.chain))
    return reruns


def contributes(call: Call, assumption: Assumption) -> bool:
    """Whether any gradient that is taken passes through a call of a region."""
    return any(step in assumption.differentiated for step in call.steps())


def is_end(step: Step) -> bool:
    """Whether nothing in the outermost region around a step reads its results. The first step of a
    region is none of its ends."""
    if not step.chain:
        return False
    first, *rest = step.chain[0].steps()
    read = {number for other in rest for number in other.reads()}
    return step is not first and read.isdisjoint(step.results)


def asked_for(dataflow: Dataflow, assumption: Assumption) -> Callable[[Call], bool]:
    """A function that tells of a call whether backward asks for a value that was saved in it. What an
    inner region was given is such a value, where that region runs again."""
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
    """A region runs again when a value saved in it is first asked for, and stops when all that were
    saved in it are back."""
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
    """How many items of a call's body run again until its last saved value is back; `None` where
    nothing is saved in it.

    A statement that saves only arguments stops before it runs (unless the variant says `after`), and
    so does one that saves `early`, before its end; a region inside saves its arguments before it is
    entered.
    """
    length = None
    for place, item in enumerate(call.body):
        if isinstance(item, Call):
            if item.saved_on_entry:
                length = place
        else:
            words = assumption.residuals(dataflow, item)
            if words:
                own = "early" not in words and not words.isdisjoint(("out", "mask"))
                length = place + (own or "after" in assumption.regions)
    return length


def _run_to_end(item: Step | Call, reruns: Counter[Key]) -> None:
    """Count an item that runs to its end, with all that is in it."""
    if isinstance(item, Call):
        reruns[item.region.name, ""] += 1
        for inner in item.body:
            _run_to_end(inner, reruns)
    elif not is_kept(item):
        reruns[item.key] += 1
