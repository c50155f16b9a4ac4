"""What each variant costs, measured on one program that most of them run; which one is recommended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from conformance.errors import AdapterError
from conformance.judge.outcomes import Outcome
from conformance.report.findings import Tally
from conformance.report.questions import reruns_per_operation
from conformance.results import Result

#: The case whose program costs are measured on, and a description of it.
PROGRAM = "memory/chain-segments"
PROGRAM_WORDS = "eight layers in four regions"
#: The file in an adapter's folder that `benchmarks/seconds.py` writes.
SECONDS = "seconds.json"


@dataclass(frozen=True)
class Cost:
    """What recompute costs and saves in a program; `None` where it was not observed.

    `retained` and `peak` are bytes, and `seconds` processor time of a step, each divided by that of the
    program without recompute. `reruns` is how often an operation of a region runs in backward, on
    average over the operations.
    """

    retained: float | None = None
    peak: float | None = None
    reruns: float | None = None
    seconds: float | None = None

    @property
    def memory(self) -> float | None:
        """`retained`, or `peak` where that alone was observed."""
        return self.peak if self.retained is None else self.retained


def cost(results: Iterable[Result]) -> Cost:
    """The cost of a variant, from its results; all `None` where `PROGRAM` did not run to its end."""
    for result in results:
        observation = result.observation
        if result.case == PROGRAM and observation is not None:
            plain, recomputed = observation.plain, observation.recomputed
            if plain.error is None and recomputed.error is None:
                return Cost(
                    _share(recomputed.retained, plain.retained),
                    _share(recomputed.peak, plain.peak),
                    reruns_per_operation(result),
                )
    return Cost()


def read_seconds(adapter: str, folder: Path) -> dict[str, tuple[str, float]]:
    """What `benchmarks/seconds.py` has measured of an adapter, from its file in the adapter's folder.

    By variant (full id) the framework's version and the ratio of seconds; empty where there is no file.
    Raises `AdapterError` for a malformed file.
    """
    file = folder / SECONDS
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_text("utf-8"))
        version, ratios = str(content["version"]), dict(content["ratios"])
        return {f"{adapter}/{name}": (version, float(ratio)) for name, ratio in ratios.items()}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise AdapterError(f"no ratios of seconds: {error}", where=file) from error


def _share(number: int | None, plain: int | None) -> float | None:
    return None if number is None or not plain else max(0.0, number / plain)


def recommended(modes: Mapping[str, tuple[Tally, Cost]]) -> str:
    """The name of the mode to recommend; empty where none is eligible.

    It has the smallest share of cases silently wrong, then refused, then with nothing recomputed, and
    among equals the smallest share of memory. A mode is eligible that runs at least half as many cases
    as the broadest one, since few cases show few deviations, and recomputes in over half of them.
    """
    broadest = max((tally.ran for tally, _ in modes.values()), default=0)

    def rank(name: str) -> tuple[float, ...]:
        tally, cost_of = modes[name]
        by_gravity = (Outcome.BROKEN, Outcome.WRONG, Outcome.RAISES, Outcome.INERT)
        shares = [tally.outcomes[outcome] / tally.ran for outcome in by_gravity]
        return (*shares, 1.0 if cost_of.memory is None else cost_of.memory)

    eligible = [
        name
        for name, (tally, _) in modes.items()
        if 0 < broadest <= 2 * tally.ran and 2 * tally.outcomes[Outcome.INERT] < tally.ran
    ]
    return min(eligible, key=rank, default="")
