"""Probing an implementation: which programs to run, and what to conclude from their results.

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
#: Words of it that are enough for that.
_WORDS = 3
#: Cases that are run at most for a capability, the smallest first; and for a variant's deviations.
PER_CAPABILITY, PER_VARIANT = 4, 10
#: Cases among which those are looked for that distinguish what runs again, the smallest first.
MOST_DISTINGUISHING = 80
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
class RerunRule:
    """What runs again, and what is kept for that, as `adapter.yaml` declares it; `variants` are the
    names of the variants that declare this."""

    discipline: Discipline
    residuals: Mapping[str, str]
    variants: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The rule in a line."""
        residuals = ", ".join(f"{name}: {words}" for name, words in self.residuals.items())
        return f"{self.discipline}, residuals {{{residuals}}}" if residuals else self.discipline


@dataclass(frozen=True)
class Ending:
    """How a case ended.

    `error` is what the recomputed run raised and the plain one did not; `message` says how the process
    died, or why nothing was observed. Both are empty where the run came to its end. `known` says whether
    the error is a known deviation of a variant that the function is built on, or declared already.
    """

    error: ErrorSeen | None = None
    message: str = ""
    known: bool = False

    @property
    def words(self) -> str:
        """The ending in a line; empty where nothing went wrong."""
        return (
            self.message
            if self.error is None
            else f"{self.error.type}: {_beginning(self.error, 100)}"
        )


@dataclass
class Capabilities:
    """What is known of the capabilities of a function.

    `offered` are those with which it runs, `shared` those with which it raises the same as the variant
    that it is built on, `refused` those that it refuses with an error that says so. With `faults` it
    raises something else, and of `unclear` nothing is known: both map a capability to a case and how it
    ended.
    """

    offered: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)
    refused: dict[str, Refusal] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    unclear: dict[str, str] = field(default_factory=dict)

    def about(self, word: str) -> str:
        """What is known of a capability, in a few words."""
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


def rerun_rules(model: AdapterModel) -> tuple[RerunRule, ...]:
    """The rules that an implementation may follow: each discipline, and what the adapter's own variants
    declare. Those of compilers are left out: they may run almost anything again."""
    variants: dict[tuple[Discipline, tuple[tuple[str, str], ...]], list[str]] = {
        (name, ()): []  # type: ignore[misc]
        for name in DISCIPLINES
    }
    for name, variant in model.variants.items():
        if not variant.says("cheap"):
            key = (variant.discipline, tuple(sorted(variant.residuals.items())))
            variants.setdefault(key, []).append(name)
    return tuple(
        RerunRule(discipline, dict(residuals), tuple(names))
        for (discipline, residuals), names in variants.items()
    )


def smallest_first(cases: Iterable[Case]) -> list[Case]:
    """The cases whose ending says something of the function, the smallest first: by capabilities that
    they need, then by statements."""
    # An error that a case provokes says nothing of the function; long programs show what short ones do.
    telling = [c for c in cases if c.error is None and not c.as_plain and c.law is None]
    return sorted(telling, key=lambda c: (len(required_by(c)), len(list(c.statements())), c.id))


def distinguishing(
    cases: Sequence[Case],
    rules: Sequence[RerunRule],
    expect: Callable[[Case, RerunRule], Expected],
) -> list[Case]:
    """The first cases that distinguish rules: two for each pair of rules that allow different
    counts. Few are enough, since each case distinguishes many pairs.
    """
    chosen: list[Case] = list(cases[:1])
    #: How many more cases are wanted that distinguish two rules, given by their numbers.
    wanted = {(a, b): 2 for a in range(len(rules)) for b in range(a)}
    for case in cases[:MOST_DISTINGUISHING]:
        allowed = [expect(case, rule).executions for rule in rules]
        distinguished = {
            (a, b)
            for (a, b), number in wanted.items()
            if number
            and any(
                allowed[a][key].counts != allowed[b][key].counts
                for key in allowed[a].keys() & allowed[b].keys()
            )
        }
        if distinguished:
            wanted |= {rule_pair: wanted[rule_pair] - 1 for rule_pair in distinguished}
            chosen.append(case)
    return list({case.id: case for case in chosen}.values())


def fitting(
    statuses_under: Mapping[int, Sequence[Status | None]], allowed: Mapping[int, int]
) -> list[int]:
    """The numbers of the rules under which no rerun was wrong, the best rule first: that under which the
    most cases were as expected, and of several the one that allows the fewest counts.

    `statuses_under` are the statuses of the check `executions` under a rule, case by case; `allowed` is
    how many counts a rule allows in all cases together.
    """
    fits = [
        (-sum(status is Status.PASS for status in statuses), allowed[number], number)
        for number, statuses in statuses_under.items()
        if Status.PASS in statuses and Status.FAIL not in statuses
    ]
    return [number for _, _, number in sorted(fits)]


def for_capabilities(cases: Sequence[Case]) -> list[Case]:
    """A few of the smallest cases for each capability, in their order."""
    numbers: dict[str, int] = {}
    chosen: list[Case] = []
    for case in cases:
        words = required_by(case)
        if any(numbers.get(word, 0) < PER_CAPABILITY for word in words):
            chosen.append(case)
            for word in words:
                numbers[word] = numbers.get(word, 0) + 1
    return chosen


def find_capabilities(
    cases: Sequence[Case], run: Callable[[Case], Ending], report: Callable[[str, str], None]
) -> Capabilities:
    """Try every capability that some case needs, with as small a case as there is.

    An error is put down to a capability only where that is all that is new in a case. `report` is
    called with each capability that a case has said something of, and what, in a few words.
    """
    capabilities = Capabilities()
    needs = {case.id: required_by(case) for case in cases}
    waiting = list(cases)
    while (case := _next(waiting, needs, capabilities)) is not None:
        waiting.remove(case)
        ending = run(case)
        new = needs[case.id] - capabilities.offered
        if not ending.words:
            capabilities.offered |= new
        elif ending.error is not None and len(new) == 1:
            word = min(new)
            if ending.known:
                capabilities.shared.add(word)
            elif refuses(ending.error):
                capabilities.refused[word] = refusal(ending.error)
            else:
                capabilities.faults[word] = f"{case.id}: {ending.words}"
        else:
            for word in new:
                capabilities.unclear[word] = f"{case.id}: {ending.words}"
        for word in sorted(new):
            report(word, capabilities.about(word))
    for word in capabilities.offered | capabilities.failing:
        capabilities.unclear.pop(word, None)
    return capabilities


def refuses(error: ErrorSeen) -> bool:
    """Whether an error says that something is not offered, and is not a fault of the function's."""
    if error.type == "NotImplementedError":
        return True
    if error.type in _FAULTS or _FAULT.search(error.message):
        return False
    return _REFUSES.search(error.message) is not None


def refusal(error: ErrorSeen) -> Refusal:
    """The refusal that an error makes: its type, and the beginning of its message.

    What the message quotes is left out where enough words stand before it: it may be a name of the case
    (`got an unexpected keyword argument 'y'`), and other cases have other names.
    """
    match = _beginning(error, MATCHED)
    unquoted = re.split(r"['\"`]", match)[0].rstrip()
    enough = len(unquoted.split()) >= _WORDS
    return Refusal(raises=error.type, match=unquoted if enough else match)


def _next(
    waiting: Sequence[Case], needs: Mapping[str, frozenset[str]], known: Capabilities
) -> Case | None:
    """The case with the fewest capabilities that nothing is known of, none of them failing."""
    best: tuple[int, int, Case] | None = None
    for position, case in enumerate(waiting):
        if needs[case.id] & known.failing:
            continue
        new = needs[case.id] - known.offered
        if new and (best is None or (len(new), position) < best[:2]):
            best = (len(new), position, case)
    return None if best is None else best[2]


def ending_of(result: Result) -> Ending:
    """How a result ended, for a case that expects no error."""
    verdict = next((v for v in result.verdicts if v.check == "error"), None)
    error = result.observation.recomputed.error if result.observation is not None else None
    if verdict is None:
        return Ending()
    if verdict.status is Status.UNSUPPORTED:
        return Ending(error, known=True)
    if verdict.status not in (Status.FAIL, Status.CRASHED, Status.TIMEOUT, Status.BROKEN):
        return Ending()
    return Ending(error, "" if error is not None else verdict.message)


def _beginning(error: ErrorSeen, most: int) -> str:
    """The beginning of an error's message, up to a place between words."""
    line = error.message.strip().partition("\n")[0]
    return line if len(line) <= most else line[:most].rpartition(" ")[0]
