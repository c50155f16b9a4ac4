"""Reads TensorFlow's profiler: the graph nodes that ran, and the bytes that were allocated."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.compiler.xla.service import hlo_pb2
from tensorflow.tsl.profiler.protobuf import xplane_pb2

#: Rewriting by the optimizer that renames and fuses nodes, and does not decide what is computed.
REWRITES = ("remapping", "arithmetic_optimization")
_ALLOCATIONS = {"MemoryAllocation": 1, "MemoryDeallocation": -1}


class Session:
    """The profiler at work, from the moment that it is made until it is stopped."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        tf.profiler.experimental.start(self._folder.name)

    def stop(self) -> list[Any]:
        """End it. What it saw, as the planes that it wrote."""
        tf.profiler.experimental.stop()
        with self._folder as folder:
            return [
                plane
                for file in Path(folder).rglob("*.xplane.pb")
                for plane in xplane_pb2.XSpace.FromString(file.read_bytes()).planes
            ]


def kernels(planes: list[Any]) -> Counter[str]:
    """How often a kernel ran for each graph node, by the node's name."""
    runs: Counter[str] = Counter()
    for plane in planes:
        seen = Counter(event.metadata_id for line in plane.lines for event in line.events)
        for key, count in seen.items():
            node, colon, kind = plane.event_metadata[key].name.rpartition(":")
            if colon and not kind.startswith(" ") and not node.endswith(":"):
                runs[node] += count
    return runs


def nodes_run(function: Callable[[], object]) -> Counter[str]:
    """How often a kernel ran for each graph node while a function ran."""
    session = Session()
    try:
        function()
    finally:
        planes = session.stop()
    return kernels(planes)


def sizes(planes: list[Any]) -> list[int]:
    """Bytes of each allocation (negative: freed) that the profiler sees, in order of time.

    It sees blocks of `SEEN` bytes or more: with oneDNN, which is on by default, smaller ones come from
    an allocator that reports nothing.
    """
    allocations: list[tuple[int, int]] = []  # picoseconds, and bytes
    for plane in planes:
        signs = {
            key: _ALLOCATIONS[value.name]
            for key, value in plane.event_metadata.items()
            if value.name in _ALLOCATIONS
        }
        bytes_of = [
            k for k, value in plane.stat_metadata.items() if value.name == "requested_bytes"
        ]
        if not signs:
            continue
        for line in plane.lines:
            for event in line.events:
                if event.metadata_id in signs:
                    (size,) = (
                        one.int64_value or one.uint64_value
                        for one in event.stats
                        if one.metadata_id in bytes_of
                    )
                    time = line.timestamp_ns * 1000 + event.offset_ps
                    allocations.append((time, signs[event.metadata_id] * size))
    return [size for _, size in sorted(allocations, key=itemgetter(0))]


def modules(planes: list[Any], functions: Collection[str]) -> list[Any]:
    """The optimised HLO modules of compiled functions, by the functions' names. The profiler tells of
    every executable that there is in the process."""
    heads = tuple(f"a_{name.lstrip('_')}__" for name in functions)
    return [
        hlo_pb2.HloProto.FromString(one.bytes_value).hlo_module
        for plane in planes
        if plane.name == "/host:metadata"
        for value in plane.event_metadata.values()
        if value.name.startswith(heads)
        for one in value.stats
    ]


#: Bytes of the smallest block whose allocation the profiler sees.
SEEN = 256 * 1024


def highest(planes: list[Any]) -> int:
    """The most bytes allocated at any time, beyond what was allocated when the session began."""
    now = most = 0
    for size in sizes(planes):
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
