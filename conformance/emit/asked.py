"""Checks that an emitter has written all that a case demands beside its operations and regions.

An adapter that skipped a part of a case would be judged on another program, and might pass. So each
method that writes such a part records it, and a program that lacks one is refused.
"""

from __future__ import annotations

from collections.abc import Collection

from conformance.language.operations import NOTED
from conformance.model.case import Case, Generator
from conformance.model.program import Site

#: The procedures that every adapter writes, so that one without them is at fault; the others are its
#: choice.
REQUIRED = frozenset({"backward"})
#: The parts that a case may demand of its program: where a case file does so, and what writes them.
PARTS = {
    "seeding": "random operations that name no generator: `write_seeding`, called by `write_run`",
    "between": "`procedure: {between: …}` but for those of `start`: `write_between`, before backward",
    "after": "`procedure: {backward: {after: …}}`: `write_after`, before forward",
    "start": "`procedure: {between: …}` with `thread`, `autocast`, `no-gradients`: `write_backward`, "
    "which starts backward",
    "hooks": "`hooks`: `write_hooks`, called by `write_run`",
    "state": "`state`, operations that take notes, and `hooks`: `state_entries`, in what `run` returns",
    "generators": "explicit generators: `generators_entry`, in what `run` returns",
    "autocast": "`autocast`: `write_forward`",
    "autocast inside": "`autocast` of a region: `casting`, around its body",
    "mapped": "`mapped` of a region: `write_call`",
    "signature": "`signature` of a region: `parameters`",
    "option": "`option`: `misuse`, among what recompute is given",
    "contexts": "`contexts`: `contexts_option`, among what recompute is given",
    "then": "`error: {then: …}`: `write_run` and `inputs_call`",
}


def asked(case: Case) -> list[str]:
    """The words of `PARTS` that a case demands."""
    regions, between = case.regions(), case.procedure.between
    started = between in ("thread", "autocast", "no-gradients")
    demanded = {
        "seeding": case.sources() and case.seeded,
        "start": started,
        "between": between and not started,
        "after": case.procedure.after,
        "hooks": case.hooks,
        "state": case.state or case.uses(NOTED) or case.hooks,
        "generators": any(isinstance(value, Generator) for value in case.inputs),
        "autocast": case.autocast,
        "autocast inside": any(region.autocast for region in regions),
        "mapped": any(region.mapped for region in regions),
        "signature": any(region.signature != "plain" for region in regions),
        "option": any(region.option for region in regions),
        "contexts": any(region.contexts for region in regions),
        "then": case.error is not None and case.error.then,
    }
    return [part for part, needed in demanded.items() if needed]


def missing(
    case: Case, written: Collection[str], procedures: Collection[str], sites: Collection[Site]
) -> list[str]:
    """What a case demands and its program lacks, in words of a case file.

    `written` are the recorded words of `PARTS`, `procedures` the kinds that the emitter supports,
    `sites` the entries of the source map. A statement may be in `plain` or in `recomputed`, since both
    may share a function.
    """
    lacking = [part for part in asked(case) if part not in written]
    if case.procedure.kind not in procedures:
        lacking.insert(0, f"procedure {case.procedure.kind}")
    there = {(site.region, site.label) for site in sites if site.kind in ("statement", "layer")}
    return lacking + [
        f"statement {statement.label}" + (f" of region {region}" if region else "")
        for region, statement in case.statements()
        if (region, statement.label) not in there
    ]
