"""What a case asks of its program beside the operations and regions, and whether it is written.

An adapter that passes over a part of a case would be judged on another program than the case says, and
might pass. So each method of `conformance.emit.emitter.Emitter` that writes such a part notes it, and
a program in which one is missing is refused. The words are those of a case file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from conformance.language.operations import NOTED
from conformance.model.case import Case, Generator
from conformance.model.program import Site

#: For each part that a program may have to have: where a case asks for it, and what writes it.
PARTS = {
    "seeding": "random operations that name no generator: `write_seeding`, called by `write_run`",
    "between": "`procedure: {between: …}` but for `thread`: `write_between`, before backward",
    "after": "`procedure: {backward: {after: …}}`: `write_after`, before forward",
    "thread": "`procedure: {between: thread}`: `write_backward`, which starts backward",
    "hooks": "`hooks`: `write_hooks`, called by `write_run`",
    "state": "`state`, operations that take notes, and `hooks`: `state_entries`, in what `run` returns",
    "generators": "explicit generators: `generators_entry`, in what `run` returns",
    "autocast": "`autocast`: `write_forward`",
    "then": "`error: {then: …}`: `run_signature` and `inputs_call`",
}


def asked(case: Case) -> Iterator[str]:
    """The words of `PARTS` that a case asks for."""
    if case.sources() and case.seeded:
        yield "seeding"
    if case.procedure.between == "thread":
        yield "thread"
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
    if case.error is not None and case.error.then:
        yield "then"


def missing(
    case: Case, written: Collection[str], procedures: Collection[str], sites: Collection[Site]
) -> list[str]:
    """What a case asks for and its program does not have, in words of a case file.

    `written` are the words of `PARTS` that were noted, `procedures` those that the emitter writes,
    `sites` what lines are marked with. Statements are looked for on either path: both may share a
    definition.
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
