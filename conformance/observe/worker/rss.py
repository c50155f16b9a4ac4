"""How much memory a program takes: the pages of its process that lie in memory.

A second way to measure what an adapter's observer reads, by the kernel and without the framework.
`python -m conformance.observe.worker.rss REQUESTS ANSWER` reads a list of `Request`, measures each run
of a program in this one process, and writes a list of `Measurement`. With the variables in
`ENVIRONMENT`, set before it starts, glibc maps each tensor by itself and unmaps it when it is freed.

A framework may instead keep what it frees in a pool of its own. Its pages stay, and only memory that is
touched for the first time shows. The free part of such a pool is measured by filling it: tensors are
made until one of them needs new pages.
"""

from __future__ import annotations

import ctypes
import gc
import json
import pickle
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from conformance.drivers.modules import load_module
from conformance.model.program import Program
from conformance.observe.worker.loaded import LoadedProgram, load_program
from conformance.observe.worker.observer import Observer
from conformance.observe.worker.trace import Trace

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


def measure(request: Request, observer: Observer) -> Measurement:
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
    requests: list[Request] = pickle.loads(file.read_bytes())
    program = requests[0].program
    observer = load_module(Path(requests[0].adapter), "observe").Observer(program.variant)
    gc.collect()
    gc.freeze()  # each reading collects garbage; what imports have made is not searched
    measurements = [asdict(measure(request, observer)) for request in requests]
    answer.write_text(json.dumps(measurements), "utf-8")


if __name__ == "__main__":
    # Imported under its own name, so that what is unpickled is of the same classes as here.
    from conformance.observe.worker import rss

    rss.main(Path(sys.argv[1]), Path(sys.argv[2]))
