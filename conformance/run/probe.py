"""Probing an implementation: which programs to try, and what to conclude from their results.

It answers five questions from actual runs (`conformance.run.prober` runs the programs): which of
the usual keywords the function accepts, what it runs again and keeps, which variant of the
framework has the same deviations, which capabilities it refuses with an error, and on which it
fails without an error that says so. Whether accepted cases give correct results is left to a full
run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from conformance.drivers.adapter import DISCIPLINES, AdapterModel, Discipline, Refusal
from conformance.language.capabilities import required_by
from conformance.model.case import Case
from conformance.model.observation import ErrorSeen, Expected
from conformance.model.verdict import Status
from conformance.results import Result

#: Characters of an error's message that a refusal is recognised by.
MATCHED = 60
#: Cases that are tried at most for a capability, the smallest first; and for a variant's deviations.
TRIED, SAMPLED = 4, 10
#: Cases among which those are looked for that tell what runs again, the smallest first.
LOOKED_AT = 80
#: What an error's message says where it refuses something, and does not only fail.
_REFUSES = re.compile(
    r"support|implement|compatib|allow|unexpected keyword|keyword argument|keywords"
    r"|not (?:take|accept|offer|possible|permit)|(?:is|are) not (?:a )?valid|refus",
    re.IGNORECASE,
)
#: What Python says of its own accord where a program is at fault.
_FAULT = re.compile(
    r"unsupported operand|object is not|not subscriptable|indices must be|positional argument"
    r"|multiple values|unpack|has no attribute"
)
#: Exceptions that nobody refuses anything with.
_FAULTS = ("AttributeError", "IndexError", "KeyError", "NameError", "UnboundLocalError")


@dataclass(frozen=True)
class Rerun:
    """What runs again, and what is kept for that: as `adapter.yaml` says it of `variants`."""

    discipline: Discipline
    residuals: Mapping[str, str]
    variants: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """In a line."""
        saved = ", ".join(f"{name}: {words}" for name, words in self.residuals.items())
        return f"{self.discipline}, residuals {{{saved}}}" if saved else self.discipline


@dataclass(frozen=True)
class Ended:
    """How a case ended: `error` is what the recomputed run raised and the plain one did not, `how`
    is how the process died; empty where it came to its end. `known` says whether that is a deviation
    of the variant that the function is built on, or declared already."""

    error: ErrorSeen | None = None
    how: str = ""
    known: bool = False

    @property
    def words(self) -> str:
        """In a line; empty where nothing went wrong."""
        return self.how if self.error is None else f"{self.error.type}: {_first(self.error, 100)}"


@dataclass
class Capable:
    """What is known of capabilities: which are taken, which deviate as in the variant that the function
    is built on, which are refused, on which the function fails without saying that it refuses them,
    and what could not be told; the latter two in words."""

    offered: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)
    refused: dict[str, Refusal] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    unclear: dict[str, str] = field(default_factory=dict)

    def about(self, word: str) -> str:
        """What was found of a capability, in a few words."""
        if word in self.offered:
            return "taken"
        if word in self.shared:
            return "a known deviation"
        if word in self.refused:
            return f"refused ({self.refused[word].raises})"
        return f"raises ({self.faults[word]})" if word in self.faults else "not told apart"

    @property
    def failing(self) -> set[str]:
        """The capabilities with which the function ends in an error."""
        return self.shared | set(self.refused) | set(self.faults)


def keywords(usual: Mapping[str, str], parameters: Sequence[str]) -> dict[str, str]:
    """The usual keywords for options of cases that a function has among its parameters."""
    return {option: word for option, word in usual.items() if word in parameters}


def reruns(model: AdapterModel) -> tuple[Rerun, ...]:
    """What an implementation may be found to run again: each discipline, and what the adapter's own
    variants do. What compilers do is left out: they may run almost anything again."""
    plain: dict[tuple[Discipline, tuple[tuple[str, str], ...]], list[str]] = {
        (name, ()): []  # type: ignore[misc]
        for name in DISCIPLINES
    }
    for name, variant in model.variants.items():
        if not variant.says("cheap"):
            key = (variant.discipline, tuple(sorted(variant.residuals.items())))
            plain.setdefault(key, []).append(name)
    return tuple(Rerun(d, dict(residuals), tuple(names)) for (d, residuals), names in plain.items())


def small(cases: Iterable[Case]) -> list[Case]:
    """The cases that say something of a function by how they end, the smallest first."""
    # An error that a case provokes says nothing of the function; long programs show what short ones do.
    steady = [c for c in cases if c.error is None and not c.as_plain and c.law is None]
    return sorted(steady, key=lambda c: (len(required_by(c)), len(list(c.statements())), c.id))


def telling(
    cases: Sequence[Case], rules: Sequence[Rerun], expect: Callable[[Case, Rerun], Expected]
) -> list[Case]:
    """The first cases that distinguish rules: two for each pair of rules that allow different
    counts. Few are enough, since each case distinguishes many pairs.
    """
    chosen: list[Case] = list(cases[:1])
    together = {(a, b): 2 for a in range(len(rules)) for b in range(a)}
    for case in cases[:LOOKED_AT]:
        allowed = [expect(case, rule).executions for rule in rules]
        apart = {
            (a, b)
            for (a, b), wanted in together.items()
            if wanted
            and any(
                allowed[a][key].counts != allowed[b][key].counts
                for key in allowed[a].keys() & allowed[b].keys()
            )
        }
        if apart:
            together |= {pair: together[pair] - 1 for pair in apart}
            chosen.append(case)
    return list({case.id: case for case in chosen}.values())


def fitting(tried: Mapping[int, Sequence[Status | None]], loose: Mapping[int, int]) -> list[int]:
    """The rules, by number, under which no rerun was wrong: first those under which the most cases were
    as expected, of them those that allow the fewest counts (`loose`). The statuses are those of the
    check `executions`, case by case."""
    fits = [
        (-sum(status is Status.PASS for status in statuses), loose[number], number)
        for number, statuses in tried.items()
        if Status.PASS in statuses and Status.FAIL not in statuses
    ]
    return [number for _, _, number in sorted(fits)]


def worth_trying(cases: Sequence[Case]) -> list[Case]:
    """A few of the smallest cases for each capability, in their order."""
    tried: dict[str, int] = {}
    chosen: list[Case] = []
    for case in cases:
        words = required_by(case)
        if any(tried.get(word, 0) < TRIED for word in words):
            chosen.append(case)
            for word in words:
                tried[word] = tried.get(word, 0) + 1
    return chosen


def capabilities(
    cases: Sequence[Case], run: Callable[[Case], Ended], tell: Callable[[str, str], None]
) -> Capable:
    """Try every capability that some case needs, with as small a case as there is.

    An error is a capability's only where it is all that is new in a case. `tell` is told of each word
    that is found out about, in a few words.
    """
    capable = Capable()
    needs = {case.id: required_by(case) for case in cases}
    waiting = list(cases)
    while (chosen := _next(waiting, needs, capable)) is not None:
        waiting.remove(chosen)
        ended = run(chosen)
        new = needs[chosen.id] - capable.offered
        if not ended.words:
            capable.offered |= new
        elif ended.error is not None and len(new) == 1:
            word = min(new)
            if ended.known:
                capable.shared.add(word)
            elif refuses(ended.error):
                capable.refused[word] = Refusal(
                    raises=ended.error.type, match=_first(ended.error, MATCHED)
                )
            else:
                capable.faults[word] = f"{chosen.id}: {ended.words}"
        else:
            for word in new:
                capable.unclear[word] = f"{chosen.id}: {ended.words}"
        for word in sorted(new):
            tell(word, capable.about(word))
    for word in capable.offered | capable.failing:
        capable.unclear.pop(word, None)
    return capable


def refuses(error: ErrorSeen) -> bool:
    """Whether an error says that something is not offered, and is not a fault of the function's."""
    if error.type == "NotImplementedError":
        return True
    if error.type in _FAULTS or _FAULT.search(error.message):
        return False
    return _REFUSES.search(error.message) is not None


def _next(
    waiting: Sequence[Case], needs: Mapping[str, frozenset[str]], capable: Capable
) -> Case | None:
    """The case with the fewest capabilities that nothing is known of, none of them failing."""
    best: tuple[int, int, Case] | None = None
    for place, case in enumerate(waiting):
        if needs[case.id] & capable.failing:
            continue
        new = needs[case.id] - capable.offered
        if new and (best is None or (len(new), place) < best[:2]):
            best = (len(new), place, case)
    return None if best is None else best[2]


def ended(result: Result) -> Ended:
    """How a result ended, for a case that expects no error."""
    verdict = next((v for v in result.verdicts if v.check == "error"), None)
    error = result.observation.recomputed.error if result.observation is not None else None
    if verdict is None:
        return Ended()
    if verdict.status is Status.UNSUPPORTED:
        return Ended(error, known=True)
    if verdict.status not in (Status.FAIL, Status.CRASHED, Status.TIMEOUT, Status.BROKEN):
        return Ended()
    return Ended(error, "" if error is not None else verdict.message)


def _first(error: ErrorSeen, most: int) -> str:
    """The beginning of an error's message, up to a place between words."""
    line = error.message.strip().partition("\n")[0]
    return line if len(line) <= most else line[:most].rpartition(" ")[0]
