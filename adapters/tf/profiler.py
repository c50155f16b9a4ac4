"""What TensorFlow's profiler tells: the graph nodes that ran, and what was allocated."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

#: Rewriting by the optimizer that renames and fuses nodes, and does not decide what is computed.
REWRITES = ("remapping", "arithmetic_optimization")
_ALLOCATIONS = {"MemoryAllocation": 1, "MemoryDeallocation": -1}


@dataclass(frozen=True)
class Event:
    """Something that the profiler saw, with the statistics beside it; `time` is in picoseconds."""

    time: int
    name: str
    statistics: dict[str, Any]


class Session:
    """The profiler at work, from the moment that it is made until it is stopped."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        tf.profiler.experimental.start(self._folder.name)

    def stop(self) -> list[Event]:
        """End it. What it saw, in order of time."""
        tf.profiler.experimental.stop()
        found: list[Event] = []
        with self._folder as folder:
            for file in Path(folder).rglob("*.xplane.pb"):
                space = xplane_pb2.XSpace.FromString(file.read_bytes())
                for plane in space.planes:
                    found += _events(plane)
        return sorted(found, key=lambda event: event.time)


def _events(plane: Any) -> Iterator[Event]:
    names = {key: value.name for key, value in plane.event_metadata.items()}
    words = {key: value.name for key, value in plane.stat_metadata.items()}
    for line in plane.lines:
        for event in line.events:
            name = names[event.metadata_id]
            statistics = {}
            if name in _ALLOCATIONS:
                for one in event.stats:
                    statistics[words[one.metadata_id]] = one.int64_value or one.uint64_value
            yield Event(line.timestamp_ns * 1000 + event.offset_ps, name, statistics)


def kernels(events: list[Event]) -> Counter[str]:
    """How often a kernel ran for each graph node, by the node's name."""
    found: Counter[str] = Counter()
    for event in events:
        node, colon, kind = event.name.rpartition(":")
        if colon and not kind.startswith(" ") and not node.endswith(":"):
            found[node] += 1
    return found


def nodes_run(function: Callable[[], object]) -> Counter[str]:
    """How often a kernel ran for each graph node while a function ran."""
    session = Session()
    try:
        function()
    finally:
        events = session.stop()
    return kernels(events)


def sizes(events: list[Event]) -> list[int]:
    """Bytes allocated (freed: negative), in order of time, of what the profiler sees.

    That is every block of `SEEN` bytes or more: with oneDNN, as TensorFlow comes, smaller ones go to
    an allocator that tells nothing.
    """
    return [
        _ALLOCATIONS[event.name] * event.statistics["requested_bytes"]
        for event in events
        if event.name in _ALLOCATIONS
    ]


#: Bytes of the smallest block whose allocation the profiler sees.
SEEN = 256 * 1024


def highest(events: list[Event]) -> int:
    """The most bytes allocated at any time, beyond what was allocated when the session began."""
    now = most = 0
    for size in sizes(events):
        now += size
        most = max(most, now)
    return most


@contextmanager
def no_rewrites() -> Iterator[None]:
    """Keep the graph optimizer from renaming and fusing nodes."""
    tf.config.optimizer.set_experimental_options(dict.fromkeys(REWRITES, False))
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options(dict.fromkeys(REWRITES, True))
