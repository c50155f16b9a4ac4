"""The same run several times: which verdicts and which observed values are not the same each time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from conformance.judge.arrays import flat
from conformance.model.observation import Array, Leaf, Run
from conformance.results import Result
from conformance.results.parts import difference, shape_of
from conformance.run.shards import Pair
from conformance.words import line

#: By field of `Run`, the check that reads it.
_CHECKS: Mapping[str, str] = {
    "outputs": "value",
    "losses": "value",
    "gradients": "gradient",
    "again": "gradient",
    "parameters": "state",
    "state": "state",
    "executions": "executions",
    "retained": "retained memory",
    "random_state": "retained memory",
    "peak": "peak memory",
}
_LONGEST = 160
#: Different values of one quantity that are listed; where it differs each time, more say nothing.
_LISTED = 4


@dataclass
class _Seen:
    """The different values of one observed quantity, each with the rounds in which it was seen."""

    values: list[tuple[object, list[int]]] = field(default_factory=list)

    def add(self, value: object, number: int) -> None:
        for known, rounds in self.values:
            if _same(known, value):
                rounds.append(number)
                return
        self.values.append((value, [number]))


@dataclass(frozen=True)
class Unsteady:
    """A verdict (where `verdict` is true) or an observed value that differs between rounds."""

    case: str
    variant: str
    check: str
    verdict: bool
    words: str


class Rounds:
    """The verdicts and observed values of all rounds, each different one once."""

    def __init__(self) -> None:
        self.number = 0
        self._seen: dict[tuple[Pair, str, str, str], _Seen] = {}
        #: The rounds in which there were a pair's verdicts, or one of its runs.
        self._rounds: dict[tuple[Pair, str], list[int]] = {}

    def add(self, results: Iterable[Result]) -> None:
        """Add the results of one round."""
        self.number += 1
        for result in results:
            pair = (result.case, result.variant)
            seen = ((v.check, "verdict", v.status.value) for v in result.verdicts)
            self._add(pair, "", seen)
            if result.observation is None:
                continue
            for path in ("plain", "recomputed"):
                run: Run = getattr(result.observation, path)
                error = None if run.error is None else f"{run.error.type}: {run.error.message}"
                self._add(pair, f"{path} error", [("error", "", error)])
                if error is None:  # what there is of a run that did not end is no value of it
                    self._add(pair, path, _values(run))

    def _add(self, pair: Pair, what: str, observed: Iterable[tuple[str, str, object]]) -> None:
        self._rounds.setdefault((pair, what), []).append(self.number)
        for check, name, value in observed:
            key = (pair, what, check, name)
            self._seen.setdefault(key, _Seen()).add(value, self.number)

    @property
    def unsteady(self) -> tuple[Unsteady, ...]:
        """What differs between rounds, a case's verdicts before its values."""
        listed = []
        for (pair, what, check, name), seen in self._seen.items():
            rounds = [number for _, numbers in seen.values for number in numbers]
            missing = [n for n in self._rounds[pair, what] if n not in rounds]
            if len(seen.values) > 1 or missing:
                words = _words(f"{what} {name}".strip(), seen, missing)
                listed.append(Unsteady(*pair, check, not what, words))
        return tuple(sorted(listed, key=lambda u: (u.case, u.variant, not u.verdict)))


def _values(run: Run) -> Iterator[tuple[str, str, object]]:
    """What was observed: the check that reads it, its name, and the value."""
    for name, check in _CHECKS.items():
        value = getattr(run, name)
        if name == "outputs":
            for path, leaf in flat(value):
                yield check, path, leaf.array if isinstance(leaf, Leaf) else repr(leaf)
        elif isinstance(value, Mapping):
            for key, array in value.items():
                yield check, f"{name} {key}", array
        elif name == "executions" and value is not None:
            for seen in value:
                statement = ".".join(part for part in (seen.region, seen.statement) if part)
                yield check, f"executions of {statement} in {seen.phase}", seen.count
        elif value is not None:
            yield check, name, value


def _same(a: object, b: object) -> bool:
    """Whether two values are identical: arrays bit for bit, others with their types."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and shape_of(a) == shape_of(b) and a.tobytes() == b.tobytes()
    return type(a) is type(b) and a == b


def _words(name: str, seen: _Seen, missing: list[int]) -> str:
    """The different values of a quantity with their rounds, and the rounds in which it was missing."""
    arrays: list[Array] = [value for value, _ in seen.values if isinstance(value, np.ndarray)]
    if len(arrays) == len(seen.values) > 1 and len({shape_of(array) for array in arrays}) == 1:
        apart = max((difference(arrays[0], other) for other in arrays[1:]), default=0.0)
        rest = sorted(n for _, rounds in seen.values[1:] for n in rounds)
        text = f"{len(arrays)} different arrays, up to {apart:.3g} from the first"
        text += f" ({_in(rest)})"
    else:
        listed = seen.values[:_LISTED]
        text = "; ".join(f"{_short(value)} {_in(rounds)}" for value, rounds in listed)
        if len(seen.values) > len(listed):
            text += f"; and {len(seen.values) - len(listed)} more values"
    return f"{name}: {text}" + (f"; not there {_in(missing)}" if missing else "")


def _short(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {shape_of(value)}"
    return line(str(value), _LONGEST)


def _in(rounds: list[int]) -> str:
    return f"in round{'s' if len(rounds) > 1 else ''} {', '.join(map(str, rounds))}"
