"""Measuring a program's memory a second way, in a process of its own that asks the kernel.

What an adapter's observer reads comes from its framework. `measure` asks the kernel instead, and so
shows whether that reading is right. It takes seconds for each number and needs activations of some
MiB, since memory comes in pages. So it is used to test observers, and not to judge cases.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from conformance.errors import BrokenAdapterError
from conformance.model.case import Array, Case
from conformance.model.program import Program
from conformance.observe.worker.rss import ENVIRONMENT, Measurement, Request

#: Seconds for one process: an import, two warm-up runs and one that counts.
LIMIT = 300.0
#: Variables that would replace the allocator or its settings in `ENVIRONMENT`.
_UNWANTED = ("LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_")
_LOG_TAIL = 2000


def unavailable() -> str | None:
    """Why nothing can be measured here; `None` where it can be."""
    if not Path("/proc/self/smaps_rollup").is_file():
        return "the kernel does not tell a process's anonymous pages"
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        return "the C library is not glibc"
    return None


def scaled(case: Case, sizes: Mapping[int, int]) -> Case:
    """The case with the axes of its inputs, parameters and state resized: `sizes` maps old to new sizes.

    Raises `ValueError` where an axis has a size that is not in `sizes`.
    """

    def resized(value: Array) -> Array:
        unknown = [size for size in value.shape if size not in sizes]
        if unknown or value.fill.values is not None:
            raise ValueError(f"{case.id}: {value.name} has no axes to scale")
        return replace(value, shape=tuple(sizes[size] for size in value.shape))

    return replace(
        case,
        inputs=tuple(resized(v) if isinstance(v, Array) else v for v in case.inputs),
        parameters=tuple(map(resized, case.parameters)),
        state=tuple(map(resized, case.state)),
    )


def measure(
    adapter: Path,
    program: Program,
    path: str,
    environment: Mapping[str, str],
    *,
    warm_up: Program | None = None,
    pooled: int = 0,
    peak: bool = True,
) -> Measurement:
    """Bytes that `path` (`plain` or `recomputed`) of a program keeps, in a fresh process.

    `adapter` is the adapter's folder; `environment` is set before the framework's import. `pooled` is
    the bytes of one activation where the framework has a pool of its own that never gives back: only
    memory that was never touched can then be seen to be taken. `warm_up` is the program with small
    arrays, and a `peak` is measured in a second process, since looking into the pool adds to it.
    Raises `BrokenAdapterError` where a process fails.
    """
    request = Request(str(adapter), program, path, warm_up or program, pooled, bool(pooled))
    (measurement,) = _measure_apart([request], environment)
    if pooled and peak:
        (unprobed,) = _measure_apart([replace(request, probes=False)], environment)
        return replace(measurement, peak=unprobed.peak)
    return measurement if peak else replace(measurement, peak=None)


def measure_retained(
    adapter: Path,
    program: Program,
    paths: Sequence[str],
    environment: Mapping[str, str],
) -> tuple[Measurement, ...]:
    """As `measure`, without a peak, for several paths one after the other in one fresh process. That is
    right for a framework without a pool: it gives back what it frees, so that each run starts from the
    same pages."""
    requests = [Request(str(adapter), program, path, program, 0, False) for path in paths]
    return tuple(replace(m, peak=None) for m in _measure_apart(requests, environment))


def _measure_apart(
    requests: Sequence[Request], environment: Mapping[str, str]
) -> tuple[Measurement, ...]:
    """Measure in a fresh process. Raises `BrokenAdapterError` where it fails."""
    inherited = {k: v for k, v in os.environ.items() if k not in _UNWANTED}
    with tempfile.TemporaryDirectory(prefix="conformance-rss-") as folder:
        request, answer = Path(folder) / "requests", Path(folder) / "answer"
        request.write_bytes(pickle.dumps(requests))
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "conformance.observe.worker.rss",
                str(request),
                str(answer),
            ],
            cwd=folder,
            env={**inherited, **environment, **ENVIRONMENT},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT,
            check=False,
        )
        if done.returncode:
            raise BrokenAdapterError(
                f"measuring {requests[0].program.case} on {requests[0].program.variant} failed: "
                f"exit code {done.returncode}\n{done.stdout[-_LOG_TAIL:]}",
                detail=done.stdout,
            )
        return tuple(Measurement(**m) for m in json.loads(answer.read_text("utf-8")))
