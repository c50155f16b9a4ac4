"""How the replicas of a `tf.distribute.MirroredStrategy` are observed, each a rank."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from unittest import mock

import tensorflow as tf
from tensorflow.python.eager import context

from conformance.model.observation import Observation

#: The most ranks of a program.
MOST = 4


def divide_cpu() -> None:
    """Make a logical CPU for each rank, before TensorFlow starts."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration()] * MOST
    tf.config.set_logical_device_configuration(cpu, parts)


def observe(ranks: int, seen: Callable[[], Observation]) -> Observation:
    """What each rank sees, that of rank 0 with the `others`. Replicas are threads that take turns: one
    runs until it meets the others in a collective."""
    found: dict[int, Observation] = {}

    def on_rank() -> None:
        # A replica's callbacks are the list of the thread that starts it, and so the other replicas'.
        context.context()._thread_local_data.op_callbacks = []
        number = int(tf.distribute.get_replica_context().replica_id_in_sync_group)
        found[number] = seen()

    # Replicas attach to new threads in turn, and take off out of order.
    trace = threading.gettrace()
    try:
        with mock.patch.object(threading.Thread, "start", threading.Thread.start):
            tf.distribute.MirroredStrategy([f"CPU:{n}" for n in range(ranks)]).run(on_rank)
    finally:
        threading.settrace(trace)
    first, *others = (found[number] for number in range(ranks))
    return replace(first, others=tuple(others))
