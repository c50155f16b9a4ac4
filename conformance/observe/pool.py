"""The worker processes of an adapter: started, given one program at a time, replaced when they die.

Variants with the same environment share a process, but for those that ask for their own; most adapters
have one.

Pebble keeps the process and the time; this module says what its ends mean. Nothing that the worker
raises crosses the border as an exception: a framework's own exception types could not be read here,
where no framework is imported.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pebble import ProcessExpired, ProcessPool

from conformance.errors import BrokenAdapterError
from conformance.model.observation import Observation
from conformance.model.program import Program
from conformance.observe.worker import entry

if TYPE_CHECKING:  # a worker imports this module, and has no use for what reads adapters
    from conformance.drivers.adapter import Adapter

#: Seconds that importing a framework and warming it up may take.
IMPORT_LIMIT = 300.0
_GIB = 2**30
#: What NumPy's BLAS reads when it is loaded.
_THREADS = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}
_LOG_TAIL = 2000


@dataclass(frozen=True)
class Finished:
    """The worker came back with what it saw."""

    observation: Observation


@dataclass(frozen=True)
class Crashed:
    """The worker died: `how` is a signal's name or an exit code, `log` the end of what it wrote."""

    how: str
    log: str


@dataclass(frozen=True)
class TimedOut:
    """The worker was stopped after `seconds`."""

    seconds: float


@dataclass(frozen=True)
class Broken:
    """The suite or the adapter raised: the exception in one line, and its traceback."""

    message: str
    traceback: str


Outcome = Finished | Crashed | TimedOut | Broken


class Pool:
    """The worker processes of one adapter, as many as its variants ask for.

    Use as a context manager, or `close` it. `log` is the file that takes what the framework prints;
    it is appended to.
    """

    def __init__(self, adapter: Adapter, log: Path) -> None:
        self.adapter, self.log = adapter, log
        #: By environment, and the variant where that has a process to itself.
        self._workers: dict[tuple[frozenset[tuple[str, str]], str], _Worker] = {}

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def describe(self, variants: Sequence[str]) -> Mapping[str, str]:
        """Versions of Python and the framework, after an import and a warm-up of the variants.

        Raises `BrokenAdapterError` where the framework cannot be imported or does not warm up.
        """
        shared: dict[_Worker, list[str]] = {}
        for variant in variants:
            shared.setdefault(self._worker(variant), []).append(variant)
        found: dict[str, str] = {}
        for worker, names in shared.items():
            found |= worker.describe(names)
        return found

    def parameters(self, variant: str, function: str) -> tuple[str, ...]:
        """The names of the keywords that `package.module:function` takes, as the worker imports it.

        Raises `BrokenAdapterError` where it cannot be imported.
        """
        return self._worker(variant).parameters(function)

    def ready(self, variant: str) -> Broken | None:
        """See to it that the worker has imported the framework and warmed the variant up."""
        return self._worker(variant).ready(variant)

    def observe(self, program: Program) -> Outcome:
        """Run one program. A new worker imports the framework first, outside the time limit."""
        return self._worker(program.variant).observe(program)

    def close(self) -> None:
        """Stop the workers and remove their folders."""
        for worker in self._workers.values():
            worker.close()

    def _worker(self, variant: str) -> _Worker:
        model = self.adapter.model.variants.get(variant)
        own = {} if model is None else model.environment
        environment = self.adapter.model.environment | own
        alone = model is not None and model.own_process
        key = frozenset(environment.items()), variant if alone else ""
        if key not in self._workers:
            self._workers[key] = _Worker(self.adapter, environment, self.log)
        return self._workers[key]


class _Worker:
    """One worker process for one adapter, under one environment."""

    def __init__(self, adapter: Adapter, environment: Mapping[str, str], log: Path) -> None:
        self.adapter, self.environment, self.log = adapter, environment, log
        self._pool: ProcessPool | None = None
        self._folder: str | None = None
        #: Variants whose observer the present worker has made and warmed up.
        self._warm: set[str] = set()
        #: Programs that the present worker has run.
        self._ran = 0

    def describe(self, variants: Sequence[str]) -> Mapping[str, str]:
        """Versions of Python and the framework, after an import and a warm-up of the variants.

        Raises `BrokenAdapterError` where the framework cannot be imported or does not warm up.
        """
        packages = list(self.adapter.model.packages)
        arguments = (str(self.adapter.folder), list(variants), packages)
        outcome = self._call(entry.describe, arguments, IMPORT_LIMIT)
        match outcome:
            case Crashed(how, log):
                problem, detail = f"its worker process died of {how}", log
            case TimedOut(seconds):
                problem, detail = f"it was not ready after {seconds:g} s", ""
            case Broken(message, text):
                problem, detail = message, text
            case _:
                self._warm |= set(variants)
                return dict(outcome)
        if detail and not isinstance(outcome, Crashed):
            with self.log.open("a", encoding="utf-8") as log_file:
                log_file.write(detail)
        raise BrokenAdapterError(
            f"adapter {self.adapter.name!r} cannot run: {problem}",
            hint=f"pip install -r {self.adapter.folder / 'requirements.txt'}; log: {self.log}",
            detail=detail,
        )

    def parameters(self, function: str) -> tuple[str, ...]:
        """The names of the keywords that `package.module:function` takes.

        Raises `BrokenAdapterError` where it cannot be imported.
        """
        answer = self._call(entry.parameters, (function,), IMPORT_LIMIT)
        if isinstance(answer, Crashed | TimedOut | Broken):
            problem = answer.message if isinstance(answer, Broken) else "its process died"
            raise BrokenAdapterError(
                f"{function} cannot be imported: {problem}",
                hint="Python looks in the current folder, or in those of `path` in the "
                "implementation's file, and then where it looks anyway",
            )
        return tuple(answer)

    def ready(self, variant: str) -> Broken | None:
        """See to it that the worker has imported the framework and warmed the variant up."""
        if variant not in self._warm:
            try:
                self.describe([variant])
            except BrokenAdapterError as error:
                return Broken(error.message, error.detail)
        return None

    def observe(self, program: Program) -> Outcome:
        """Run one program. A new worker imports the framework first, outside the time limit."""
        model = self.adapter.model.variants.get(program.variant)
        if model is not None and 0 < model.renew_after <= self._ran:
            self.close()
        unready = self.ready(program.variant)
        if unready is not None:
            return unready
        self._ran += 1
        limit = self.adapter.model.time_limit
        outcome = self._call(entry.observe, (str(self.adapter.folder), program), limit)
        if isinstance(outcome, Crashed | TimedOut | Broken):
            return outcome
        if not isinstance(outcome, Observation):
            kind = type(outcome).__name__
            return Broken(f"the observer returned a {kind}, not an Observation", "")
        raised = outcome.plain.error is not None or outcome.recomputed.error is not None
        left_in_disorder = outcome.recomputed.good_run_after_error is False
        if left_in_disorder or (raised and model is not None and model.renew_after_error):
            self.close()
        return Finished(outcome)

    def close(self) -> None:
        """Stop the worker and remove its folder."""
        if self._pool is not None:
            self._pool.stop()  # type: ignore[no-untyped-call]
            self._pool.join()
            self._pool = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        self._warm.clear()
        self._ran = 0

    def _running(self) -> ProcessPool:
        if self._pool is None:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            self._folder = tempfile.mkdtemp(prefix=f"conformance-{self.adapter.name}-")
            model, own = self.adapter.model, self.adapter.implementation
            # NumPy comes with the process, before its initializer can set anything.
            for name in _THREADS & set(self.environment):
                os.environ.setdefault(name, self.environment[name])
            self._pool = ProcessPool(
                max_workers=1,
                context=multiprocessing.get_context("spawn"),
                initializer=entry.start,
                initargs=(
                    dict(self.environment),
                    int(model.memory_limit * _GIB),
                    self._folder,
                    str(self.log),
                    () if own is None else own.path,
                ),
            )
        return self._pool

    def _call(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], limit: float
    ) -> Any | Crashed | TimedOut | Broken:
        """What the function returned in the worker, or how it ended."""
        for last in (False, True):
            written = self.log.stat().st_size if self.log.exists() else 0
            try:
                future = self._running().schedule(_guarded, (function, arguments), timeout=limit)
                answer = future.result()
            except FutureTimeoutError:
                self._warm.clear()
                return TimedOut(limit)
            except ProcessExpired as error:
                self._warm.clear()
                return Crashed(_ending(error.exitcode), self._log_after(written))
            except RuntimeError as error:  # BrokenProcessPool, or a pool that is not active
                # The worker died between two tasks: no task is to blame, so it is given once more.
                self.close()
                if last:
                    return Broken(f"the worker process does not start: {error}", "")
                continue
            try:
                return pickle.loads(answer)
            except Exception as error:
                return Broken(f"the observer's answer cannot be read: {error!r}", "")
        raise AssertionError("unreachable")

    def _log_after(self, offset: int) -> str:
        if not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            file.seek(offset)
            return file.read().decode("utf-8", "replace").strip()[-_LOG_TAIL:]


def _guarded(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    """Runs in the worker: the pickled result, or a pickled `Broken`."""
    try:
        return pickle.dumps(function(*arguments))
    except BaseException as error:
        line = "".join(traceback.format_exception_only(error)).strip()
        return pickle.dumps(Broken(line, traceback.format_exc()))


def _ending(code: int) -> str:
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"
