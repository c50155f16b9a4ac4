"""What each variant costs, measured on one program that most of them run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from conformance.errors import AdapterError
from conformance.model.result import Result
from conformance.report.questions import reruns_per_operation

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


def cost(results: Iterable[Result], seconds: float | None = None) -> Cost:
    """The cost of a variant, from its results; memory and reruns are `None` where `PROGRAM` did not
    run to its end."""
    for result in results:
        observation = result.observation
        if result.case == PROGRAM and observation is not None:
            plain, recomputed = observation.plain, observation.recomputed
            if plain.error is None and recomputed.error is None:
                return Cost(
                    _share(recomputed.retained, plain.retained),
                    _share(recomputed.peak, plain.peak),
                    reruns_per_operation(result),
                    seconds,
                )
    return Cost(seconds=seconds)


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
