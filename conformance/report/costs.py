"""What recompute costs and saves: in any result, and on one program that most variants run."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal as OneOf

import msgspec
import numpy as np

from conformance.errors import AdapterError
from conformance.judge.outcomes import recomputed as recomputed_of
from conformance.model.observation import Phase, Run
from conformance.model.result import Result

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
        seen = result.observation
        if result.case == PROGRAM and seen and not (seen.plain.error or seen.recomputed.error):
            return Cost(_share(result, "retained"), peak(result), reruns(result), seconds)
    return Cost(seconds=seconds)


def _share(result: Result, quantity: OneOf["retained", "peak"]) -> float | None:
    """Bytes of the recomputed run, as a share of those of the plain run."""
    seen = result.observation
    if seen is None:
        return None
    plain, recomputed = getattr(seen.plain, quantity), getattr(seen.recomputed, quantity)
    return max(0.0, recomputed / plain) if plain and recomputed is not None else None


peak = partial(_share, quantity="peak")


def reruns(result: Result) -> float | None:
    """Executions of regions' operations in backward per execution in forward."""
    run = recomputed_of(result)
    if run is None or run.executions is None or run.error is not None:
        return None
    forward = _executions(run, "forward")
    return _executions(run, "rerun") / forward if forward else None


def _executions(run: Run, phase: Phase) -> int:
    """Executions of operations in regions; of whole regions, where operations were not observed."""
    in_regions = [e for e in run.executions or () if e.region and e.phase == phase]
    return sum(e.count for e in [e for e in in_regions if e.statement] or in_regions)


def freed(result: Result) -> float | None:
    """The drop in retained bytes, in percent (0 to 100) of the expected one."""
    if result.observation is None or result.expected is None or result.expected.memory is None:
        return None
    plain, recomputed = result.observation.plain.retained, result.observation.recomputed.retained
    drop = result.expected.memory.drop
    if plain is None or recomputed is None or not drop:
        return None
    return min(100.0, max(0.0, 100 * (plain - recomputed) / drop))


def updates(result: Result) -> float | None:
    """The largest change of the running mean, divided by that of the plain run."""
    if result.observation is None or result.observation.recomputed.error is not None:
        return None
    states = result.observation.plain.state, result.observation.recomputed.state
    if not all("running_mean" in state for state in states):
        return None
    plain, recomputed = (float(np.abs(state["running_mean"]).max()) for state in states)
    return recomputed / plain if plain else None


#: What is measured in a result, by the name that questions use; `None` where it was not observed.
MEASURES: Mapping[str, Callable[[Result], float | None]] = {
    "freed": freed,
    "peak": peak,
    "reruns": reruns,
    "updates": updates,
}


class _Seconds(msgspec.Struct):
    version: str
    ratios: dict[str, float]


def read_seconds(adapter: str, folder: Path) -> dict[str, tuple[str, float]]:
    """What `benchmarks/seconds.py` has measured of an adapter, from its file in the adapter's folder.

    By variant (full id) the framework's version and the ratio of seconds; empty where there is no file.
    Raises `AdapterError` for a malformed file.
    """
    file = folder / SECONDS
    if not file.is_file():
        return {}
    try:
        read = msgspec.json.decode(file.read_bytes(), type=_Seconds)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise AdapterError(f"no ratios of seconds: {error}", where=file) from error
    return {f"{adapter}/{name}": (read.version, ratio) for name, ratio in read.ratios.items()}
