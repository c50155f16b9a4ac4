"""Measuring a program's memory a second way, in a process of its own that asks the kernel.

What an adapter's observer reads comes from its framework. `measure` asks no framework, and so tells
whether that reading is right. It takes seconds for each number, and activations of some MiB, since
memory comes in pages; so it is no check on a case, but a test of observers.
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
from conformance.observe.worker.rss import ENVIRONMENT, Asked, Measured

#: Seconds for one process: an import, two warm-up runs and one that counts.
LIMIT = 300.0
#: What would put another allocator, or other settings of it, in the place of those asked for.
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
    """The case with other sizes of axes in the arrays that it starts from.

    Raises `ValueError` where an axis has a size that is not in `sizes`.
    """

    def array(value: Array) -> Array:
        strange = [size for size in value.shape if size not in sizes]
        if strange or value.fill.values is not None:
            raise ValueError(f"{case.id}: {value.name} has no axes to scale")
        return replace(value, shape=tuple(sizes[size] for size in value.shape))

    return replace(
        case,
        inputs=tuple(array(v) if isinstance(v, Array) else v for v in case.inputs),
        parameters=tuple(map(array, case.parameters)),
        state=tuple(map(array, case.state)),
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
) -> Measured:
    """Bytes that `path` (`plain` or `recomputed`) of a program keeps, in a fresh process.

    `adapter` is the adapter's folder; `environment` is set before the framework's import. `pooled` is
    the bytes of one activation where the framework has a pool of its own that never gives back: only
    memory that was never touched can then be seen to be taken. `warm_up` is the program with small
    arrays, and a `peak` is measured in a second process, since looking into the pool adds to it.
    Raises `BrokenAdapterError` where a process fails.
    """
    asked = Asked(str(adapter), program, path, warm_up or program, pooled, bool(pooled))
    (found,) = _ask([asked], environment)
    if pooled and peak:
        (other,) = _ask([replace(asked, probes=False)], environment)
        return replace(found, peak=other.peak)
    return found if peak else replace(found, peak=None)


def measure_retained(
    adapter: Path,
    program: Program,
    paths: Sequence[str],
    environment: Mapping[str, str],
) -> tuple[Measured, ...]:
    """As `measure`, without a peak, of several paths one after the other in one fresh process: where a
    framework gives back what it frees, a run starts from the same pages whatever ran before it."""
    asked = [Asked(str(adapter), program, path, program, 0, False) for path in paths]
    return tuple(replace(found, peak=None) for found in _ask(asked, environment))


def _ask(asked: Sequence[Asked], environment: Mapping[str, str]) -> tuple[Measured, ...]:
    given = {k: v for k, v in os.environ.items() if k not in _UNWANTED}
    with tempfile.TemporaryDirectory(prefix="conformance-rss-") as folder:
        request, answer = Path(folder) / "asked", Path(folder) / "answer"
        request.write_bytes(pickle.dumps(asked))
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "conformance.observe.worker.rss",
                str(request),
                str(answer),
            ],
            cwd=folder,
            env={**given, **environment, **ENVIRONMENT},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT,
            check=False,
        )
        if done.returncode:
            raise BrokenAdapterError(
                f"measuring {asked[0].program.case} on {asked[0].program.variant} failed: "
                f"exit code {done.returncode}\n{done.stdout[-_LOG_TAIL:]}",
                detail=done.stdout,
            )
        return tuple(Measured(**found) for found in json.loads(answer.read_text("utf-8")))
