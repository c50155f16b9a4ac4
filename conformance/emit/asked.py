"""Checks that an emitter has written all that a case demands beside its operations and regions.

An adapter that skipped a part of a case would be judged on another program, and might pass. So each
method of `conformance.emit.emitter.Emitter` that writes such a part records it, and a program that
lacks one is refused. The parts are named by the words of a case file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

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
    "signature": "`signature` of a region: `parameters` and `named_formals`",
    "option": "`option`: `misuse`, among what recompute is given",
    "contexts": "`contexts`: `contexts_option`, among what recompute is given",
    "then": "`error: {then: …}`: `run_signature` and `inputs_call`",
}


def asked(case: Case) -> Iterator[str]:
    """The words of `PARTS` that a case demands."""
    if case.sources() and case.seeded:
        yield "seeding"
    if case.procedure.between in ("thread", "autocast", "no-gradients"):
        yield "start"
    elif case.procedure.between:
        yield "between"
    if case.procedure.after:
        yield "after"
    if case.hooks:
        yield "hooks"
    if case.state or case.uses(NOTED) or case.hooks:
        yield "state"
    if any(isinstance(value, Generator) for value in case.inputs):
        yield "generators"
    if case.autocast:
        yield "autocast"
    if any(region.autocast for region in case.regions()):
        yield "autocast inside"
    if any(region.mapped for region in case.regions()):
        yield "mapped"
    if any(region.signature != "plain" for region in case.regions()):
        yield "signature"
    if any(region.option for region in case.regions()):
        yield "option"
    if any(region.contexts for region in case.regions()):
        yield "contexts"
    if case.error is not None and case.error.then:
        yield "then"


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
        f"statement {statement.label} of region {region}"
        if region
        else f"statement {statement.label}"
        for region, statement in case.statements()
        if (region, statement.label) not in there
    ]
