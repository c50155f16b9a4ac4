"""Random numbers that do not come from a key, but from NumPy's or Python's generators.

Tracing runs a region's Python code once, so such numbers are drawn once and become constants of the
jaxpr. No equation draws them: they are noted where the program calls `jnp.asarray` on them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import jax.numpy as jnp
import numpy as np

from conformance.model.observation import RandomSample
from conformance.model.program import Program
from conformance.observe.worker.trace import Trace

SOURCES = frozenset({"uniform_from", "numpy_uniform", "python_uniform"})


def samples_on_host(program: Program) -> bool:
    """Whether a program draws from NumPy's or Python's generators."""
    return any(site.op in SOURCES for site in program.lines.values())


@contextmanager
def drawing(program: Program) -> Iterator[list[RandomSample]]:
    """Yield a list of the draws inside the `with`, in order; those after backward has started have the
    phase `rerun`.

    Lines are traced, which slows down all Python code, only where `samples_on_host` says so.
    """
    samples: list[RandomSample] = []
    if not samples_on_host(program):
        yield samples
        return
    original = jnp.asarray
    trace = Trace(program)

    def asarray(value: Any, *args: Any, **kwargs: Any) -> Any:
        frame = sys._getframe(1)
        own = frame.f_code.co_filename == program.file
        site = program.lines.get(frame.f_lineno) if own else None
        if site is not None and site.op in SOURCES:
            array = np.asarray(value, np.float32)
            samples.append(RandomSample(site.region, site.label, trace.phase, array))
        return original(value, *args, **kwargs)

    with trace.active(), mock.patch.object(jnp, "asarray", asarray):
        yield samples
