"""Reads the random numbers that statements draw in a graph.

A symbolic tensor has no value. Its value is read by a Python function that it passes through or, in an
XLA-compiled function, which cannot call Python, as an additional output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, cast
from unittest import mock

import numpy as np
import tensorflow as tf

from conformance.language.operations import RANDOM
from conformance.model.observation import Phase, RandomSample
from conformance.model.program import Program, Site
from conformance.observe.worker.trace import Trace

#: Makes the trace that follows a program, from what it is to call at each statement.
Follow = Callable[[Callable[[Site, Phase, Mapping[str, Any]], None]], Trace]


@contextmanager
def passing(follow: Follow) -> Iterator[list[RandomSample]]:
    """Draws of graphs that run on kernels: each random statement's result passes through Python.

    The gradient depends on it, so that a rerun's draw is read even if no gradient reads its value. The
    draws do not change: seeds depend on the number of random operations in a graph.
    """
    samples: list[RandomSample] = []

    def drawn(site: Site, phase: Phase, names: Mapping[str, Any]) -> None:
        tensor = names.get(site.label)
        if site.op not in RANDOM or not isinstance(tensor, tf.Tensor):
            return

        def tell(array: Any) -> Any:
            samples.append(RandomSample(site.region, site.label, phase, np.array(array)))
            return array

        @tf.custom_gradient
        def told(value: Any) -> Any:
            passed = tf.numpy_function(tell, [value], value.dtype)
            passed.set_shape(value.shape)

            def gradient(cotangent: Any) -> Any:
                with tf.control_dependencies([passed]):
                    return tf.identity(cotangent)

            return passed, gradient

        # Python writes the locals that a trace function leaves behind back to the frame.
        cast("MutableMapping[str, Any]", names)[site.label] = told(tensor)

    with follow(drawn).active():
        yield samples


@contextmanager
def returning(program: Program) -> Iterator[list[RandomSample]]:
    """Draws of compiled functions, which become outputs beside those that the program takes."""
    samples: list[RandomSample] = []
    traced: list[tuple[Site, Phase, Any]] = []
    original = tf.function

    def drawn(site: Site, phase: Phase, names: Mapping[str, Any]) -> None:
        tensor = names.get(site.label)
        if site.op in RANDOM and isinstance(tensor, tf.Tensor):
            traced.append((site, phase, tensor))

    def function(*given: Any, **options: Any) -> Any:
        if given or not options.get("jit_compile"):
            return original(*given, **options)
        return lambda body: watched(body, options)

    def watched(body: Callable[..., Any], options: Mapping[str, Any]) -> Any:
        places: list[tuple[Site, Phase]] = []

        def more(*arguments: Any) -> Any:
            traced.clear()
            result = body(*arguments)
            places[:] = [(site, phase) for site, phase, _ in traced]
            return result, [tensor for _, _, tensor in traced]

        compiled = original(**options)(more)

        def call(*arguments: Any) -> Any:
            result, arrays = compiled(*arguments)
            for (site, phase), array in zip(places, arrays, strict=True):
                samples.append(RandomSample(site.region, site.label, phase, np.array(array)))
            return result

        return call

    with mock.patch.object(tf, "function", function), Trace(program, on_statement=drawn).active():
        yield samples
