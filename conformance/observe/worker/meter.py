"""How much memory a run holds: what is read when its first forward and backward passes start."""

import ctypes
from collections.abc import Callable
from types import FrameType
from typing import NamedTuple

from conformance.model.observation import RandomState


class Reading(NamedTuple):
    """Bytes of tensors held, those of them that the variables of `run` hold, and random state. `held`
    and `states` are `None` where they cannot be told."""

    held: int | None
    variables: int
    states: RandomState | None


class Meter:
    """Reads what is held when the first forward pass of a run starts (the baseline, with the inputs) and
    when the first backward pass does. Bytes are `None` where the run was not read at both moments or
    `read` cannot tell.
    """

    def __init__(
        self,
        read: Callable[[FrameType], Reading],
        reset_peak: Callable[[], None],
        peak: Callable[[], int | None],
    ) -> None:
        self._read, self._reset_peak, self._read_peak = read, reset_peak, peak
        self._before: Reading | None = None
        self._after: Reading | None = None
        self._peak: int | None = None

    def on_phase(self, label: str, frame: FrameType) -> None:
        """For `Trace`: called when a line starts a phase."""
        if label == "forward" and self._before is None:
            self._before = self._read(frame)
            self._reset_peak()
        elif label == "backward" and self._after is None:
            self._after = self._read(frame)

    def finish(self) -> None:
        """To be called when the run is over."""
        self._peak = self._read_peak()

    @property
    def retained(self) -> int | None:
        """Bytes of tensors held when backward starts, beyond the baseline and what the variables of
        `run` hold (inputs, outputs, loss)."""
        before, after = self._before, self._after
        if before is None or after is None or before.held is None or after.held is None:
            return None
        return after.held - before.held - (after.variables - before.variables)

    @property
    def random_state(self) -> RandomState | None:
        """The random state that is held when backward starts and was not there at the baseline."""
        before, after = (None if r is None else r.states for r in (self._before, self._after))
        if before is None or after is None:
            return None
        return RandomState(after.nbytes - before.nbytes, after.copies - before.copies)

    @property
    def highest(self) -> int | None:
        """The most bytes held at any time since the baseline, minus the baseline."""
        before = self._before
        if self.retained is None or self._peak is None or before is None or before.held is None:
            return None
        return self._peak - before.held


class _Mallinfo2(ctypes.Structure):
    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]


def allocated_bytes() -> int | None:
    """Bytes in use on the heap and in mapped blocks, as glibc's `mallinfo2` tells; `None` elsewhere."""
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return None
    mallinfo2.restype = _Mallinfo2
    info = mallinfo2()
    return int(info.uordblks) + int(info.hblkhd)
