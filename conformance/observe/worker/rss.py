"""How much memory a program really has: the pages of its process that lie in memory.

A second way to see what an adapter's observer sees, that asks the kernel and no framework. One process
measures one run of one program, or several of them one after the other, `python -m
conformance.observe.worker.rss ASKED ANSWER`: it reads a list of `Asked` and writes a list of
`Measured`.
Tensors are then mapped one by one and unmapped when they are freed, if glibc is told so before it
starts, by `ENVIRONMENT`.

A framework may instead keep what it frees in a pool of its own. Its pages stay, and only what is
touched for the first time shows. What is free in such a pool is found out by taking it: tensors are
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
from conformance.observe.worker.loaded import load_program
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
#: Seconds between two looks at pages that must agree.
PAUSE = 0.05
MOST_LOOKS = 200
_SELF = Path("/proc/self")
_PR_SET_THP_DISABLE = 41


@dataclass(frozen=True)
class Asked:
    """What to run: the adapter's folder, a program, and which of its forward passes.

    `warm_up` is the program that runs first. `pooled` is 0, or the bytes of one activation where the
    framework has a pool that never gives back: nothing of that size may run before. With `probes`
    what is free in the pool is found out with tensors of that size and smaller ones.
    """

    adapter: str
    program: Program
    path: str
    warm_up: Program
    pooled: int
    probes: bool


@dataclass(frozen=True)
class Measured:
    """Bytes: `baseline` when forward starts, and beyond it `retained` when backward starts, without
    what the variables of `run` hold, and `peak`, at most until `run` returns (`None` where the kernel
    does not let the mark be set back)."""

    baseline: int
    retained: int
    peak: int | None


def anonymous() -> int:
    """Bytes of this process's own pages in memory: no file's, none shared."""
    return _kibibytes("smaps_rollup", "Anonymous")


def reset_peak() -> bool:
    """Set the most pages back to those that lie in memory now. Whether the kernel let us."""
    try:
        (_SELF / "clear_refs").write_text("5")
    except OSError:
        return False
    return True


def peak() -> int:
    """The most bytes in memory since `reset_peak`, pages of files included."""
    return _kibibytes("status", "VmHWM")


def trim() -> None:
    """Give the pages of all that nobody holds back to the kernel."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def without_huge_pages() -> None:
    """From now on a page is a page: a huge one is there as a whole when one byte of it is touched."""
    ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)


def _kibibytes(file: str, word: str) -> int:
    found = re.search(rf"^{word}:\s+(\d+) kB$", (_SELF / file).read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"/proc/self/{file} does not tell {word}")
    return int(found[1]) * 1024


class Meter:
    """Reads when the first forward pass starts, when the first backward pass does, and at the end."""

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

    def measured(self) -> Measured | None:
        """To be asked when `run` has returned, before its result is dropped."""
        if self._before is None or self._retained is None:
            return None
        self._observer.settle()
        baseline, highest = self._before[0], None
        if self._lowest is not None:
            highest = max(peak() - self._lowest, anonymous() - baseline)
        return Measured(baseline, self._retained, highest)

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
        found = 0
        for _ in range(MOST_LOOKS):
            self._observer.settle()
            trim()
            before, found = found, anonymous()
            if abs(found - before) < SMALLEST:
                return found
            time.sleep(PAUSE)
        raise RuntimeError(f"memory still changes after {MOST_LOOKS} looks")

    def _free(self, frame: FrameType) -> int:
        """Bytes of the pool that were touched and are free: what fits into them adds no pages.

        Taken with copies of what `run` holds, the largest first: a hole that is a little too small
        for an activation is filled with weights.
        """
        gc.freeze()  # settling collects each time; what is there already is not looked through
        values = {self._observer.nbytes(v): v for v in tensors(frame.f_locals, self._observer)}
        sizes = sorted((size for size in values if SMALLEST <= size <= self._pooled), reverse=True)
        before, taken = anonymous(), 0
        probes: list[Any] = []
        for size in sizes:
            for _ in range(MOST_PROBES):
                pages = anonymous()
                probes.append(-values[size])
                taken += size
                self._observer.settle()
                if anonymous() - pages > size / 2:
                    break
            else:
                raise RuntimeError(f"{MOST_PROBES} tensors of {size} bytes needed no new pages")
        gc.unfreeze()
        return taken - (anonymous() - before)


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


def measure(asked: Asked, observer: Observer) -> Measured:
    """Run the program and measure. Raises whatever it raises, and `RuntimeError` without phases."""
    warm = load_program(asked.warm_up)
    for _ in range(WARM_UPS):
        meter = Meter(observer, 0, False)
        with Trace(asked.warm_up, on_phase=meter.on_phase).active():
            warm.run(getattr(warm, asked.path))
    module = load_program(asked.program)
    meter = Meter(observer, asked.pooled, asked.probes)
    with Trace(asked.program, on_phase=meter.on_phase).active():
        result = module.run(getattr(module, asked.path))
        found = meter.measured()
    del result
    if found is None:
        raise RuntimeError(f"{asked.program.case} has no forward and backward to read between")
    return found


def main(asked: Path, answer: Path) -> None:
    """Measure what the file asks for, in order, in a process that has done nothing else."""
    without_huge_pages()
    requests: list[Asked] = pickle.loads(asked.read_bytes())
    program = requests[0].program
    observer = load_module(Path(requests[0].adapter), "observe").Observer(program.variant)
    gc.collect()
    gc.freeze()  # each look at pages collects; what imports have left behind is not looked through
    found = [asdict(measure(request, observer)) for request in requests]
    answer.write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    # Under its own name, so that what is unpickled is of the classes that are asked for.
    from conformance.observe.worker import rss

    rss.main(Path(sys.argv[1]), Path(sys.argv[2]))
