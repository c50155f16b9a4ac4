"""Measuring a program's memory a second way: by the pages of its process that lie in memory.

What an adapter's observer reads comes from its framework. `measure` asks the kernel instead, and so
shows whether that reading is right. It takes seconds for each number and needs activations of some
MiB, since memory comes in pages. So it tests observers, and judges no cases.

`python benchmarks/pages.py REQUESTS ANSWER` is the process that is measured: it reads the requests,
measures each run of a program, and writes a list of `Measurement`. With the variables in
`ENVIRONMENT`, set before it starts, glibc maps each tensor by itself and unmaps it when it is freed.

A framework may instead keep what it frees in a pool of its own. Its pages stay, and only memory that is
touched for the first time shows. The free part of such a pool is measured by filling it: tensors are
made until one of them needs new pages.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from conformance.drivers.modules import load_module
from conformance.errors import BrokenAdapterError
from conformance.model.case import Array, Case
from conformance.model.program import Program
from conformance.observe.worker.loaded import LoadedProgram, load_program
from conformance.observe.worker.observer import Observer
from conformance.observe.worker.trace import Trace

ROOT = Path(__file__).resolve().parents[1]
#: Seconds for one process: an import, two warm-up runs and one that counts.
LIMIT = 300.0
#: Variables that would replace the allocator or its settings in `ENVIRONMENT`.
_UNWANTED = ("LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_")
_LOG_TAIL = 2000
#: glibc maps each block above 64 KiB by itself, and goes on doing so when one is freed. One thread
#: has one arena, and no buffers that depend on the number of cores.
ENVIRONMENT: Mapping[str, str] = {
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
WARM_UPS = 2
MOST_PROBES = 1024
#: Bytes; below this, pages do not tell one tensor from the next.
SMALLEST = 65536
#: Seconds between two readings of pages that must agree, and how many readings at most.
PAUSE = 0.05
MOST_LOOKS = 200
_SELF = Path("/proc/self")
_PR_SET_THP_DISABLE = 41


@dataclass(frozen=True)
class Request:
    """What to measure: a program of the adapter in a folder, with its forward function `path`.

    `warm_up` is the program that runs first. `pooled` is 0, or the bytes of one activation where the
    framework has a pool that never gives memory back: then nothing of that size may run before. With
    `probes`, the free bytes of the pool are measured with tensors of that size and smaller ones.
    """

    adapter: str
    program: Program
    path: str
    warm_up: Program
    pooled: int
    probes: bool


@dataclass(frozen=True)
class Measurement:
    """Bytes: `baseline` when forward starts, and beyond it `retained` when backward starts, without
    what the variables of `run` hold, and `peak`, at most until `run` returns (`None` where the kernel
    does not let the mark be set back)."""

    baseline: int
    retained: int
    peak: int | None


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
    adapter: Path, program: Program, paths: Sequence[str], environment: Mapping[str, str]
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
    places = os.pathsep.join(filter(None, [str(ROOT), inherited.get("PYTHONPATH", "")]))
    with tempfile.TemporaryDirectory(prefix="conformance-rss-") as folder:
        request, answer = Path(folder) / "requests", Path(folder) / "answer"
        request.write_bytes(pickle.dumps([vars(one) for one in requests]))
        done = subprocess.run(
            [sys.executable, __file__, str(request), str(answer)],
            cwd=folder,
            env={**inherited, "PYTHONPATH": places, **environment, **ENVIRONMENT},
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


# -- in the process that is measured ---------------------------------------------------------------


def anonymous() -> int:
    """Bytes of this process's own pages in memory: no file's, none shared."""
    return _read_bytes("smaps_rollup", "Anonymous")


def reset_peak() -> bool:
    """Reset the peak to what is in memory now. Returns whether the kernel allowed it."""
    try:
        (_SELF / "clear_refs").write_text("5")
    except OSError:
        return False
    return True


def peak() -> int:
    """The most bytes in memory since `reset_peak`, pages of files included."""
    return _read_bytes("status", "VmHWM")


def trim() -> None:
    """Collect garbage, and give free pages back to the kernel."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def without_huge_pages() -> None:
    """Switch huge pages off: one is in memory as a whole as soon as one byte of it is touched."""
    ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)


def _read_bytes(file: str, word: str) -> int:
    """The bytes that a file of `/proc/self` states, in kibibytes, on the line of a word."""
    kibibytes = re.search(rf"^{word}:\s+(\d+) kB$", (_SELF / file).read_text(), re.MULTILINE)
    if kibibytes is None:
        raise RuntimeError(f"/proc/self/{file} does not tell {word}")
    return int(kibibytes[1]) * 1024


class Meter:
    """Reads memory when the first forward pass starts, when the first backward pass does, and at the
    end."""

    def __init__(self, observer: Observer, pooled: int, probes: bool) -> None:
        self._observer, self._pooled, self._probes = observer, pooled, probes
        self._before: tuple[int, int] | None = None
        self._lowest: int | None = None
        self._retained: int | None = None

    def on_phase(self, label: str, frame: FrameType) -> None:
        """For `Trace`: what the lines marked `forward` and `backward` call."""
        if label == "forward" and self._before is None:
            if self._pooled:
                for value in tensors(frame.f_locals, self._observer):
                    value.sum()  # an input is copied when it is first read, and belongs to the baseline
            held = self._observer.frame_bytes(frame)
            self._before = self._in_use(frame), held
            self._lowest = peak() if reset_peak() else None
        elif label == "backward" and self._before is not None and self._retained is None:
            held = self._observer.frame_bytes(frame)
            grown = self._in_use(frame) - self._before[0]
            self._retained = grown - (held - self._before[1])

    def measurement(self) -> Measurement | None:
        """To be called when `run` has returned, before its result is dropped; `None` where a phase did
        not start."""
        if self._before is None or self._retained is None:
            return None
        self._observer.settle()
        baseline, highest = self._before[0], None
        if self._lowest is not None:
            highest = max(peak() - self._lowest, anonymous() - baseline)
        return Measurement(baseline, self._retained, highest)

    def _in_use(self, frame: FrameType) -> int:
        """Bytes of pages that are in use; with a pool, the touched pages without those that are
        free in it.
        """
        pages = self._settled()
        return pages - self._free(frame) if self._probes else pages

    def _settled(self) -> int:
        """Bytes in memory after all work is done and freed memory is returned, read until two
        readings agree: another thread of the framework may still be busy when the framework reports
        that it is done.
        """
        pages = 0
        for _ in range(MOST_LOOKS):
            self._observer.settle()
            trim()
            before, pages = pages, anonymous()
            if abs(pages - before) < SMALLEST:
                return pages
            time.sleep(PAUSE)
        raise RuntimeError(f"memory still changes after {MOST_LOOKS} looks")

    def _free(self, frame: FrameType) -> int:
        """Bytes of the pool that were touched and are free.

        They are measured by filling them: copies of the tensors that `run` holds are made until one of
        them needs new pages. The largest are copied first; a gap that is a little too small for an
        activation is filled with weights.
        """
        gc.freeze()  # settling collects garbage each time; older objects are not searched
        values = {self._observer.nbytes(v): v for v in tensors(frame.f_locals, self._observer)}
        sizes = sorted((size for size in values if SMALLEST <= size <= self._pooled), reverse=True)
        before, filled = anonymous(), 0
        probes: list[Any] = []
        for size in sizes:
            for _ in range(MOST_PROBES):
                pages = anonymous()
                probes.append(-values[size])
                filled += size
                self._observer.settle()
                if anonymous() - pages > size / 2:
                    break
            else:
                raise RuntimeError(f"{MOST_PROBES} tensors of {size} bytes needed no new pages")
        gc.unfreeze()
        return filled - (anonymous() - before)


def tensors(value: Any, observer: Observer) -> Iterator[Any]:
    """The tensors in a value, containers included."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from tensors(part, observer)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors(part, observer)
    elif observer.nbytes(value):
        yield value


def measured(request: Request, observer: Observer) -> Measurement:
    """Run the program and measure. Raises what it raises, and `RuntimeError` where no phase starts."""
    warm_up = LoadedProgram.of(request.warm_up, load_program(request.warm_up), request.path)
    for _ in range(WARM_UPS):
        _measure_run(warm_up, Meter(observer, 0, False))
    loaded = LoadedProgram.of(request.program, load_program(request.program), request.path)
    measurement = _measure_run(loaded, Meter(observer, request.pooled, request.probes))
    if measurement is None:
        raise RuntimeError(f"{request.program.case} has no forward and backward to read between")
    return measurement


def _measure_run(loaded: LoadedProgram, meter: Meter) -> Measurement | None:
    with Trace(loaded.program, on_phase=meter.on_phase).active():
        result = loaded.run()
        measurement = meter.measurement()
    del result
    return measurement


def main(file: Path, answer: Path) -> None:
    """Measure the requests in a file, in order, in a process that has done nothing else."""
    without_huge_pages()
    requests = [Request(**fields) for fields in pickle.loads(file.read_bytes())]
    observers = load_module(Path(requests[0].adapter), "observe")
    observer = observers.Observer(requests[0].program.variant)
    gc.collect()
    gc.freeze()  # each reading collects garbage; what imports have made is not searched
    measurements = [asdict(measured(request, observer)) for request in requests]
    answer.write_text(json.dumps(measurements), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
