"""The functions that the pool calls in a worker process."""

import gc
import importlib
import inspect
import os
import platform
import random
import resource
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.drivers.installed import version
from conformance.drivers.modules import load_module
from conformance.errors import LackingError
from conformance.model.observation import Observation
from conformance.model.program import Program
from conformance.observe.worker.ranks import WaitingError
from conformance.observe.worker.surroundings import Surroundings

#: What observing a program gives.
Seen = Observation | WaitingError | LackingError

_observers: dict[str, Any] = {}


def start(
    environment: Mapping[str, str], memory_limit: int, path: Sequence[str], folder: str
) -> None:
    """Prepare the process: its own folder, its limits, and what must be set before an import.

    `memory_limit` is in bytes; `path` are the folders of a user's recompute.
    """
    os.environ.update(environment)
    sys.path[:0] = path
    os.chdir(folder)
    # The size of this generator's state depends on its numbers, and that state may be counted.
    random.seed(0)
    # What a framework writes to be removed at its end stays when the process is killed.
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    resource.setrlimit(resource.RLIMIT_DATA, (memory_limit, memory_limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Line by line: what was printed before a crash is not lost.
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)


def observer(adapter: str, variant: str) -> Any:
    """The observer of the adapter in a folder for a variant, made and warmed up on first use."""
    if variant not in _observers:
        new = load_module(Path(adapter), "observe").Observer(variant)
        new.warm_up()
        _observers[variant] = new
    return _observers[variant]


def observe(adapter: str, program: Program) -> Seen:
    """Observe one program. `adapter` is the adapter's folder."""
    watching = observer(adapter, program.variant)
    # Observing collects garbage often; what imports have made is not searched each time.
    gc.collect()
    gc.freeze()
    try:
        observation: Observation = watching.observe(program)
    except (WaitingError, LackingError) as told:
        return told
    return observation


def observe_and_restore(adapter: str, program: Program) -> tuple[Seen, tuple[str, ...]]:
    """Observe one program, and restore the state of the process. Returns what cannot be restored, too:
    a worker in which that is something must not run further programs."""
    surroundings = Surroundings(getattr(observer(adapter, program.variant), "settings", {}))
    try:
        observation = observe(adapter, program)
    finally:
        unrestored = surroundings.put_back()
    return observation, unrestored


def signature(function: str) -> inspect.Signature | None:
    """The signature of `package.module:function` for `Pool.signature`. Raises what the import raises."""
    module, _, name = function.partition(":")
    target: Any = importlib.import_module(module)
    for part in name.split("."):
        target = getattr(target, part)
    try:
        found = inspect.signature(target)
    except (TypeError, ValueError):  # a function of C's
        return None
    # Without annotations and defaults, it can be pickled.
    parameters = [
        p.replace(annotation=p.empty, default=p.empty if p.default is p.empty else None)
        for p in found.parameters.values()
    ]
    return inspect.Signature(parameters)


def describe(adapter: str, variant: str, packages: list[str]) -> dict[str, str]:
    """Versions of the framework's packages and of Python, after a real import and warm-up. Raises what
    the import raises."""
    versions = {"python": platform.python_version()}
    for package in ["numpy", *packages]:
        versions[package] = version(package)
    observer(adapter, variant)
    return versions
