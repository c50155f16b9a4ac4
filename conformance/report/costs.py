"""What each mode costs, measured on one program that most of them run, and which is recommended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from conformance.errors import AdapterError
from conformance.report.findings import Tally
from conformance.report.outcomes import Outcome
from conformance.report.questions import again
from conformance.results import Result

#: The program that costs are measured on, and what it is.
PROGRAM = "memory/chain-segments"
WORDS = "eight layers in four regions"
#: The file in an adapter's folder that `benchmarks/seconds.py` writes.
SECONDS = "seconds.json"


@dataclass(frozen=True)
class Cost:
    """What recompute costs and frees in a program.

    `retained` (bytes between forward and backward) and `peak` are shares of those of the program without
    recompute; `again` is how often an operation of a region runs again, on average; `seconds` are those
    of the processor for a step, over those of the step without recompute. `None` is what was not
    observed.
    """

    retained: float | None = None
    peak: float | None = None
    again: float | None = None
    seconds: float | None = None

    @property
    def memory(self) -> float | None:
        """The share of memory: retained, or at the peak where that alone was observed."""
        return self.peak if self.retained is None else self.retained


def cost(results: Iterable[Result]) -> Cost:
    """The cost of a variant, from its results; nothing where it does not run the program to its end."""
    for result in results:
        seen = result.observation
        if result.case == PROGRAM and seen is not None:
            plain, recomputed = seen.plain, seen.recomputed
            if plain.error is None and recomputed.error is None:
                return Cost(
                    _share(recomputed.retained, plain.retained),
                    _share(recomputed.peak, plain.peak),
                    again(result),
                )
    return Cost()


def read_seconds(adapter: str, folder: Path) -> dict[str, tuple[str, float]]:
    """What `benchmarks/seconds.py` has measured of an adapter: by variant (full id) the version, and the
    ratio. Raises `AdapterError` for a file that it has not written."""
    file = folder / SECONDS
    if not file.is_file():
        return {}
    try:
        said = json.loads(file.read_text("utf-8"))
        version, ratios = str(said["version"]), dict(said["ratios"])
        return {f"{adapter}/{name}": (version, float(ratio)) for name, ratio in ratios.items()}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise AdapterError(f"no ratios of seconds: {error}", where=file) from error


def _share(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else max(0.0, part / whole)


def recommended(modes: Mapping[str, tuple[Tally, Cost]]) -> str:
    """The mode with the fewest cases silently wrong, then refused, then with nothing recomputed, each as
    a share of those that it ran; then the one that frees most memory. Empty where there is none.

    Modes that run less than half of what the broadest one does are left out: they are right where
    nobody has looked. So are those that recompute nothing in half of their cases.
    """
    most = max((tally.ran for tally, _ in modes.values()), default=0)

    def rank(name: str) -> tuple[float, ...]:
        tally, spent = modes[name]
        asked = (Outcome.BROKEN, Outcome.WRONG, Outcome.RAISES, Outcome.INERT)
        shares = [tally.outcomes[outcome] / tally.ran for outcome in asked]
        return (*shares, 1.0 if spent.memory is None else spent.memory)

    broad = [
        name
        for name, (tally, _) in modes.items()
        if 0 < most <= 2 * tally.ran and 2 * tally.outcomes[Outcome.INERT] < tally.ran
    ]
    return min(broad, key=rank, default="")
