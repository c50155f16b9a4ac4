"""How long a run still takes, from what its cases took when that was recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from conformance.run.shards import Pair

#: How far recorded seconds are believed before this machine has shown how fast it is: so much of the
#: whole run, and no more than so many recorded seconds of it.
_TRUST, _TRUST_LIMIT = 0.05, 20.0
#: Pairs that show how fast a machine is, where nothing is recorded.
_LEAST = 2


class Remaining:
    """What is left of a run, in seconds.

    `planned` are the seconds that each pair of case and variant took when they were `recorded`, or
    guesses of one size; `at_once` is how many worker processes share them. What is left is the sum of
    what is planned for the unfinished, times how much longer the finished have taken than planned.
    """

    def __init__(
        self,
        planned: Mapping[Pair, float],
        *,
        recorded: bool,
        at_once: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._planned = dict(planned)
        self._left = sum(planned.values())
        self._recorded, self._at_once, self._clock = recorded, at_once, clock
        self._trust = min(self._left * _TRUST, _TRUST_LIMIT) if recorded else 0.0
        #: The clock starts when the first pair ends: before it, programs are written and workers start.
        self._start: float | None = None
        self._done, self._finished = 0.0, 0
        self._last_estimate = self._estimate(0.0), clock()

    def finish(self, pair: Pair) -> None:
        """Note that a pair has been judged; a second time, nothing happens."""
        planned = self._planned.pop(pair, None)
        if planned is None:
            return
        now = self._clock()
        self._left -= planned
        if self._start is None:
            self._start = now
        else:
            self._done += planned
            self._finished += 1
        self._last_estimate = self._estimate(now - self._start), now

    def seconds(self) -> float | None:
        """The seconds that are left, or `None` while nothing is known."""
        estimate, when = self._last_estimate
        return None if estimate is None else max(estimate - (self._clock() - when), 0.0)

    def words(self) -> str:
        """The same in words (`about 4 min left`), or empty."""
        seconds = self.seconds()
        return "" if seconds is None else f"{in_words(seconds)} left"

    def _estimate(self, used: float) -> float | None:
        if not self._recorded and self._finished < _LEAST:
            return None
        ratio = (used + self._trust / self._at_once) / max(self._done + self._trust, 1e-9)
        return max(self._left, 0.0) * ratio


def in_words(seconds: float) -> str:
    """A length of time, as roughly as it is known."""
    if seconds < 10:
        return "a few seconds"
    if seconds < 95:
        return f"about {round(seconds, -1):.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"about {minutes} min"
    return f"about {minutes // 60} h {minutes % 60:02} min"
