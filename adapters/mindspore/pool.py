"""Reads the byte counts of MindSpore's CPU memory pool directly.

The pool counts its bytes, but no Python function returns them. The C++ object is found in memory by its
class's virtual table, which contains the address of an exported function. An object is trusted only
after it has reported a tensor of known size correctly.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

_LIBRARY = Path(ms.__file__).parent / "lib" / "libmindspore_memory_pool.so"
_USED = "_ZNK9mindspore6device21DynamicMemPoolBestFit22TotalUsedMemStatisticsEv"
_PEAK = "_ZNK9mindspore6device21DynamicMemPoolBestFit25MaxMemAllocatedStatisticsEv"
_RESET = "_ZN9mindspore6device21DynamicMemPoolBestFit20ResetMaxMemAllocatedEv"
_MAP = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)$")
#: Bytes: what a tensor takes is a multiple of this.
BLOCK = 512
#: A virtual table has at most this size.
_TABLE = 1024


class Pool:
    """The bytes that tensors of the memory pool occupy, in blocks of 512.

    `before` is called before each reading. It runs a small operation, after which the pool has taken
    back the blocks that earlier operations freed.
    """

    def __init__(self, address: int, before: Callable[[], None]) -> None:
        self._address = ctypes.c_void_p(address)
        self._before = before
        library = ctypes.CDLL(str(_LIBRARY))
        self._used, self._highest, self._reset = (library[name] for name in (_USED, _PEAK, _RESET))
        for function in (self._used, self._highest, self._reset):
            function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_size_t

    def allocated(self) -> int:
        """Bytes that are allocated now."""
        self._before()
        return int(self._used(self._address))

    def reset_peak(self) -> None:
        """Set the peak to the bytes that are allocated now."""
        self._before()
        self._reset(self._address)

    def peak(self) -> int:
        """The most bytes at any time since `reset_peak`."""
        return int(self._highest(self._address))


def find(before: Callable[[], None]) -> Pool | None:
    """The pool of this process, which must have run an operation; `None` where nothing that may be it
    counts exactly."""
    try:
        function = ctypes.CDLL(str(_LIBRARY), mode=os.RTLD_NOLOAD | os.RTLD_LAZY)[_USED]
    except (OSError, AttributeError):
        return None
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    pools = (Pool(candidate, before) for candidate in _objects(address))
    return next(filter(_is_exact, pools), None)


def _is_exact(pool: Pool) -> bool:
    """Whether a tensor of 1 MiB is shown as 1 MiB, now and at the peak, and no more once it is freed."""
    source = Tensor(np.ones(2**18), ms.float32)
    ops.exp(source).asnumpy()
    pool.reset_peak()
    before = pool.allocated()
    held = ops.exp(source)
    during = pool.allocated()
    del held
    gone, highest = pool.allocated(), pool.peak()
    return during - before == 2**20 and 0 <= highest - during <= 1024 and gone == before


def _objects(function: int) -> list[int]:
    """Addresses of objects in static memory whose virtual table contains a function's address."""
    tables = [
        start + 8 * int(i)
        for start, words in _words(writable=False)
        for i in np.flatnonzero(words == function)
    ]
    addresses: list[int] = []
    for start, words in _words(writable=True):
        for entry in tables:
            near = (words <= entry) & (words > entry - _TABLE)
            addresses += [start + 8 * int(i) for i in np.flatnonzero(near)]
    return addresses


def _words(*, writable: bool) -> Iterator[tuple[int, Any]]:
    """The data of MindSpore's libraries: where it starts, and its words of 8 bytes."""
    library = False
    with Path("/proc/self/mem").open("rb", buffering=0) as memory:
        for line in Path("/proc/self/maps").read_text().splitlines():
            match = _MAP.match(line)
            if match is None:
                continue
            start, end = int(match[1], 16), int(match[2], 16)
            # What a library does not fill from its file follows it without a name.
            library = "libmindspore" in match[4] or (library and not match[4])
            if not library or match[3][:2] != ("rw" if writable else "r-"):
                continue
            memory.seek(start)
            yield start, np.frombuffer(memory.read(end - start), np.uint64)
