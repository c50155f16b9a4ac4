"""What an implementation offers, found by trying: `conformance probe`.

Three questions, each answered by what ran: which of the usual keywords the function has, under which
discipline its reruns are as expected, and which capabilities it refuses with an error. What it
accepts and gets wrong is no answer here: that is what a run is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from conformance.drivers.adapter import DISCIPLINES, Discipline, Refusal
from conformance.language.capabilities import required_by
from conformance.model.case import Case
from conformance.model.verdict import Status
from conformance.results import Result

#: Cases whose reruns differ from one discipline to another, the plain one first.
TELLING = ("basics/mlp-block", "regions/nested", "structure/unused-output")
#: Characters of an error's message that a refusal is recognised by.
MATCHED = 60


@dataclass(frozen=True)
class Ended:
    """How a case ended: `error` is what the recomputed run raised and the plain one did not, `how`
    is how the process died; empty where it came to its end."""

    error: Refusal | None = None
    how: str = ""


@dataclass
class Capable:
    """What is known of capabilities: which are taken, which refused, and what could not be told."""

    offered: set[str] = field(default_factory=set)
    refused: dict[str, Refusal] = field(default_factory=dict)
    unclear: dict[str, str] = field(default_factory=dict)


def keywords(usual: Mapping[str, str], parameters: Sequence[str]) -> dict[str, str]:
    """The usual keywords for options of cases that a function has among its parameters."""
    return {option: word for option, word in usual.items() if word in parameters}


def discipline(statuses: Mapping[Discipline, Sequence[Status | None]]) -> Discipline | None:
    """The discipline under which reruns were as expected in the most cases, and wrong in none; the
    first of several. `statuses` are those of the check `executions`."""
    fitting = [
        (sum(status is Status.PASS for status in found), name)
        for name, found in statuses.items()
        if Status.PASS in found and Status.FAIL not in found
    ]
    order = list(DISCIPLINES)
    return min(fitting, key=lambda f: (-f[0], order.index(f[1])))[1] if fitting else None


def telling(cases: Iterable[Case]) -> list[Case]:
    """The cases that tell disciplines apart, those of them that are there."""
    return [case for case in cases if case.id in TELLING]


def capabilities(cases: Iterable[Case], run: Callable[[Case], Ended]) -> Capable:
    """Try every capability that some case needs, with as small a case as there is.

    An error is a capability's only where it is all that is new in a case.
    """
    found = Capable()
    # An error that a case provokes says nothing of the function; long programs show what short ones do.
    steady = [case for case in cases if case.error is None and not case.as_plain]
    usable = [case for case in steady if case.law is None]
    needs = {case.id: required_by(case) for case in usable}
    waiting = sorted(usable, key=lambda c: (len(needs[c.id]), len(list(c.statements())), c.id))
    while (chosen := _next(waiting, needs, found)) is not None:
        waiting.remove(chosen)
        ended = run(chosen)
        new = needs[chosen.id] - found.offered
        if ended.error is None and not ended.how:
            found.offered |= new
        elif ended.error is not None and len(new) == 1:
            found.refused[min(new)] = ended.error
        else:
            for word in new:
                found.unclear[word] = f"{chosen.id}: {ended.how or ended.error}"
    for word in found.offered | set(found.refused):
        found.unclear.pop(word, None)
    return found


def _next(
    waiting: Sequence[Case], needs: Mapping[str, frozenset[str]], found: Capable
) -> Case | None:
    """The case with the fewest capabilities that nothing is known of, none of them refused."""
    best: tuple[int, int, Case] | None = None
    for place, case in enumerate(waiting):
        if needs[case.id] & set(found.refused):
            continue
        new = needs[case.id] - found.offered
        if new and (best is None or (len(new), place) < best[:2]):
            best = (len(new), place, case)
    return None if best is None else best[2]


def ended(result: Result) -> Ended:
    """How a result ended, for a case that expects no error."""
    verdict = next((v for v in result.verdicts if v.check == "error"), None)
    if verdict is None or verdict.status in (Status.PASS, Status.UNSUPPORTED):
        return Ended()
    error = result.observation.recomputed.error if result.observation is not None else None
    if error is None:
        return Ended(how=verdict.message)
    return Ended(Refusal(raises=error.type, match=_first(error.message)))


def _first(message: str) -> str:
    """The beginning of a message, up to a place between words."""
    line = message.strip().partition("\n")[0]
    return line if len(line) <= MATCHED else line[:MATCHED].rpartition(" ")[0]
