"""Which known cause a deviation of a user's program looks like: a guess, and said to be one.

A cause's `when` speaks of programs in the language of cases. Of a user's program less is known:
the messages of errors, and what was seen of its regions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from conformance.judge.known import Condition, Entry
from conformance.model.checked import Checked

#: The checks of causes that a comparison belongs to.
_CHECKS = {
    "gradients": "gradient",
    "outputs": "value",
    "loss": "value",
    "random state": "randomness",
}
#: Features that say that a region draws random numbers.
_DRAWS = re.compile(r"draw|random|dropout|seed|rng")
#: A part of a message is about an error if it has so many characters.
_TELLING = 20
_MOST = 2


class Guess(NamedTuple):
    """A cause that may explain a deviation."""

    cause: str
    says: str
    instead: str
    url: str

    def __str__(self) -> str:
        instead = f" Instead: {self.instead}" if self.instead else ""
        return f"{self.says}{instead}{f' ({self.url})' if self.url else ''}"


def guesses(checked: Checked, entries: Sequence[Entry]) -> tuple[Guess, ...]:
    """The causes that explain most of what was seen; none where nothing speaks for one."""
    found: dict[str, tuple[int, Entry]] = {}
    for score, entry in (*_of_errors(checked, entries), *_of_values(checked, entries)):
        if score > found.get(entry.cause, (0, entry))[0]:
            found[entry.cause] = (score, entry)
    best = sorted(found.values(), key=lambda pair: -pair[0])
    return tuple(
        Guess(
            entry.cause, " ".join(entry.reason.split()), " ".join(entry.instead.split()), entry.url
        )
        for score, entry in best[:_MOST]
        if score == best[0][0]
    )


def _of_errors(checked: Checked, entries: Iterable[Entry]) -> Iterator[tuple[int, Entry]]:
    """Causes of an error whose message has a part that they name."""
    if checked.raised is None:
        return
    of_errors = [one for one in entries if one.check == "error" and _may_be(one, checked)]
    found = [entry for entry in of_errors if _names(entry, checked.raised.message)]
    alone = len({entry.cause for entry in found}) == 1
    for entry in found:
        seen = _seen(entry, checked)
        if seen or (alone and not entry.lenient):
            yield 10 + seen, entry


def _may_be(entry: Entry, checked: Checked) -> bool:
    """Whether a region was called as a variant of the entry calls it, as far as that is known."""
    called = [region.variants for region in checked.regions]
    return not all(called) or any(entry.names_variant(v) for names in called for v in names)


def _names(entry: Entry, text: str) -> bool:
    return any(len(part) >= _TELLING and part in text for part in entry.observed)


def _of_values(checked: Checked, entries: Iterable[Entry]) -> Iterator[tuple[int, Entry]]:
    """Causes of wrong values that need something which was seen, and nothing that was not."""
    failed = {_CHECKS[one.what] for one in checked.compared if one.wrong and one.what in _CHECKS}
    for entry in entries:
        if entry.check in failed and not entry.lenient and _may_be(entry, checked):
            score = _seen(entry, checked)
            if score:
                yield score, entry


def _seen(entry: Entry, checked: Checked) -> int:
    """How many of an entry's features were seen; 0 where it needs one that would have been."""
    return max((_score(condition, checked) for condition in entry.when), default=0)


def _score(condition: Condition, checked: Checked) -> int:
    seen = {feature for region in checked.regions for feature in region.features}
    draws = any(one.wrong and one.what == "random state" for one in checked.compared)
    draws = draws and "preserve-rng-off" not in seen  # which explains it
    words = [word for word in (*condition.region, *condition.case) if not word.startswith("not ")]
    score = 0
    for word in words:
        if word.startswith("keyword:"):  # of the region, and not told
            return 0
        if word in checked.told:
            if word not in seen:
                return 0
            score += 2
        elif _DRAWS.search(word):
            if not draws:
                return 0
            score += 1
    return score
