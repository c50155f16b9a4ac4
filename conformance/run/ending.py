"""What a program that stands alone compares in its end, so that it shows a deviation by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from conformance.emit.standalone import Compared, Counted, Ending, Raised
from conformance.model.case import Case
from conformance.model.observation import Leaf, Run
from conformance.model.verdict import Verdict
from conformance.results import Result

#: The keys and positions that lead to a part of a tree of values.
Path = tuple[str | int, ...]


def expected_ending(case: Case, result: Result, verdict: Verdict) -> Ending:
    """The ending of the program of a case that shows a verdict: an error that it raises, a comparison of
    plain with recomputed, or a count of calls. `None` where a program cannot observe it itself."""
    observation = result.observation
    if observation is None or verdict.check == "error":
        return Raised(case.error.type if case.error else "")
    if verdict.check == "executions":
        return _wrong_count(result)
    if verdict.check in ("retained memory", "peak memory", "release"):
        return None
    tolerance = case.tolerance
    for key in ("gradients", "again", "parameters", "state", "losses", "outputs"):
        plain, recomputed = getattr(observation.plain, key), getattr(observation.recomputed, key)
        for path in _different(plain, recomputed, tolerance.rtol, tolerance.atol):
            missing = _at(plain, path) is None or _at(recomputed, path) is None
            return Compared((key, *path), tolerance.rtol, tolerance.atol, missing)
    return None


def _at(tree: Any, path: Path) -> object:
    """The part of a tree at a path."""
    for key in path:
        tree = tree[key]
    return tree


def _different(plain: object, recomputed: object, rtol: float, atol: float) -> Iterator[Path]:
    """The paths at which two trees of arrays and numbers differ by more than the tolerance, or at which
    one of them alone has a value."""
    if isinstance(plain, Mapping) and isinstance(recomputed, Mapping):
        for key in plain:
            for rest in _different(plain[key], recomputed.get(key), rtol, atol):
                yield (key, *rest)
    elif isinstance(plain, tuple | list) and isinstance(recomputed, tuple | list):
        for position, parts in enumerate(zip(plain, recomputed, strict=False)):
            for rest in _different(*parts, rtol, atol):
                yield (position, *rest)
    else:
        a, b = (value.array if isinstance(value, Leaf) else value for value in (plain, recomputed))
        if (a is None) != (b is None):
            yield ()
        elif isinstance(a, np.ndarray | float) and isinstance(b, np.ndarray | float):
            same_shape = np.shape(a) == np.shape(b)
            if not same_shape or not np.allclose(b, a, rtol=rtol, atol=atol, equal_nan=True):
                yield ()


def _wrong_count(result: Result) -> Ending:
    """The first region whose function is called too often or not often enough, and the right numbers of
    calls, forward and reruns together; `None` where there is none."""
    assert result.observation is not None
    run: Run = result.observation.recomputed
    if run.executions is None or result.expected is None:
        return None
    for (region, statement, phase), allowed in result.expected.executions.items():
        if statement or phase != "rerun":
            continue
        of_region = [e for e in run.executions if (e.region, e.statement) == (region, "")]
        counts = {e.phase: e.count for e in of_region}
        forward = result.expected.executions.get((region, "", "forward"))
        if forward is None or counts.get("rerun", 0) in allowed:
            continue
        right = tuple(sorted({f + rerun for f in forward.counts for rerun in allowed.counts}))
        if sum(counts.values()) not in right:
            return Counted(region, right)
    return None
