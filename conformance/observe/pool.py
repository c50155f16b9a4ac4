"""The worker processes of an adapter: started, given one program at a time, replaced when they die.

`conformance.observe.process` runs the process and watches its time limits; this module turns each way
in which a request can end into an outcome. Nothing that the worker raises arrives here as an
exception: a framework's own exception types cannot be unpickled where no framework is imported.
"""

from __future__ import annotations

import os
import pickle
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from inspect import Signature
from pathlib import Path
from typing import Any, NamedTuple

from conformance.drivers.adapter import Adapter
from conformance.drivers.implementation import Described, adapt, by_signature
from conformance.errors import BrokenAdapterError, LackingError
from conformance.model.observation import Observation
from conformance.model.program import Program
from conformance.observe.process import Answered, Died, Late, Output, Process
from conformance.observe.worker import entry
from conformance.observe.worker.ranks import WaitingError
from conformance.observe.worker.serve import Broken as Broken  # one of the outcomes
from conformance.writing import check_full

#: Seconds that importing a framework and warming up a variant may take.
IMPORT_LIMIT = 300.0
#: Seconds that an idle worker may take to read a request. It takes no time, unless the program before
#: has left the worker blocked; the limit allows for a machine that swaps.
RECEIVE_LIMIT = 60.0
_GIB = 2**30
#: What NumPy's BLAS reads when it is loaded.
_THREADS = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}
_LOG_TAIL = 2000


class Finished(NamedTuple):
    """The worker has observed the program."""

    observation: Observation


class Lacking(NamedTuple):
    """The program did not run: it needs `what`, and the installed release does not have it."""

    what: str


class Crashed(NamedTuple):
    """The worker died: `how` is a signal's name or an exit code, `log` the end of what it wrote."""

    how: str
    log: str


class TimedOut(NamedTuple):
    """The worker was stopped after `seconds`. Of a program of several ranks, `where` says where each
    of them was."""

    seconds: float
    where: str = ""


class Stuck(NamedTuple):
    """The worker did not start on the request within `seconds`. `before` names its previous task."""

    seconds: float
    before: str


Failure = Crashed | TimedOut | Stuck | Broken
Outcome = Finished | Lacking | Failure


class Pool:
    """The worker processes of one adapter. Variants with the same environment share one, but for those
    that ask for their own.

    Use as a context manager, or `close` it. What the framework prints is appended to the file `log`.
    """

    def __init__(self, adapter: Adapter, log: Path) -> None:
        self.adapter, self.log = adapter, log
        #: By environment variables, and by variant where it has a process to itself, else "".
        self._workers: dict[tuple[frozenset[tuple[str, str]], str], _Worker] = {}

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def describe(self, variants: Sequence[str]) -> Mapping[str, str]:
        """Versions of Python and the framework, after an import and a warm-up of the variants.

        Raises `BrokenAdapterError` where the framework cannot be imported or does not warm up.
        """
        versions: dict[str, str] = {}
        for variant in variants:
            versions |= self._worker(variant).describe(variant)
        return versions

    def signature(self, variant: str, function: str) -> Signature | None:
        """The signature of `package.module:function`, as the worker imports it, with `None` for each
        default; `None` where it does not say.

        Raises `BrokenAdapterError` where it cannot be imported.
        """
        return self._worker(variant).signature(function)

    def ready(self, variant: str) -> Stuck | Broken | None:
        """Make sure that the worker has imported the framework and warmed up the variant."""
        return self._worker(variant).ready(variant)

    def observe(self, program: Program) -> Outcome:
        """Run one program. A new worker imports the framework first, outside the time limit.

        Raises `WriteError` where there is no room for the worker's folder.
        """
        return self._worker(program.variant).observe(program)

    def close(self) -> None:
        """Stop the workers and remove their folders. What comes after has new ones."""
        for worker in self._workers.values():
            worker.close()

    def _worker(self, variant: str) -> _Worker:
        model = self.adapter.model.variants[variant]
        environment = self.adapter.environment(variant)
        key = frozenset(environment.items()), variant if model.own_process else ""
        if key not in self._workers:
            self._workers[key] = _Worker(self.adapter, environment, self.log)
        return self._workers[key]


class _Worker:
    """One worker process for one adapter, under one environment."""

    def __init__(self, adapter: Adapter, environment: Mapping[str, str], log: Path) -> None:
        self.adapter, self.environment, self.log = adapter, environment, log
        self._process: Process | None = None
        #: Bytes that the worker may allocate.
        self._memory = int(adapter.model.memory_limit * _GIB)
        #: Variants whose observer the present worker has made and warmed up.
        self._warm: set[str] = set()
        #: Programs that the present worker has run, and bytes that it had allocated before the first.
        self._ran = self._before = 0
        #: The case and variant of the program that the present worker has run last.
        self._last = ""

    def describe(self, variant: str) -> Mapping[str, str]:
        outcome = self._warm_up(variant)
        if isinstance(outcome, Failure):
            raise self._startup_error(outcome)
        return dict(outcome)

    def _warm_up(self, variant: str) -> Any | Failure:
        """Import the framework and warm up the variant: the versions, as `describe`, or a failure."""
        arguments = (str(self.adapter.folder), variant, list(self.adapter.model.packages))
        outcome = self._call(entry.describe, arguments, IMPORT_LIMIT)
        if not isinstance(outcome, Failure):
            self._warm.add(variant)
        return outcome

    def _startup_error(self, outcome: Failure) -> BrokenAdapterError:
        """The error message for an adapter that does not start; its traceback goes to the log."""
        match outcome:
            case Crashed(how, log):
                problem, detail = f"its worker process died of {how}", log
            case TimedOut(seconds) | Stuck(seconds):
                problem, detail = f"it was not ready after {seconds:g} s", ""
            case Broken(message, text):
                problem, detail = message, text
                output = Output(self.log)
                output.take(text.encode("utf-8", "replace"))
                output.finish()
        return BrokenAdapterError(
            f"adapter {self.adapter.name!r} cannot run: {problem}",
            hint=f"pip install -r {self.adapter.folder / 'requirements.txt'}; log: {self.log}",
            detail=detail,
        )

    def signature(self, function: str) -> Signature | None:
        answer = self._call(entry.signature, (function,), IMPORT_LIMIT)
        if isinstance(answer, Failure):
            problem = answer.message if isinstance(answer, Broken) else "its process died"
            raise BrokenAdapterError(
                f"{function} cannot be imported: {problem}",
                hint="Python looks in the current folder, or in those of `path` in the "
                "implementation's file, and then where it looks anyway",
            )
        return answer if isinstance(answer, Signature) else None

    def ready(self, variant: str) -> Stuck | Broken | None:
        if variant in self._warm:
            return None
        outcome = self._warm_up(variant)
        if isinstance(outcome, Stuck):
            return outcome
        if isinstance(outcome, Failure):
            error = self._startup_error(outcome)
            return Broken(error.message, error.detail)
        return None

    def observe(self, program: Program) -> Outcome:
        model = self.adapter.model.variants[program.variant]
        if 0 < model.renew_after <= self._ran:
            self.close()
        unready = self.ready(program.variant)
        if unready is not None:
            return unready
        if not self._ran:
            self._before = self._running().data
        self._ran += 1
        arguments, limit = (str(self.adapter.folder), program), self.adapter.model.time_limit
        outcome = self._call(entry.observe_and_restore, arguments, limit)
        self._last = f"{program.case} on {program.adapter}/{program.variant}"
        if isinstance(outcome, Failure):
            return outcome
        observation, unrestored = outcome
        if isinstance(observation, WaitingError):
            where, seconds = observation.args
            return TimedOut(seconds, where)
        if isinstance(observation, LackingError):
            return Lacking(observation.message)
        if not isinstance(observation, Observation):
            kind = type(observation).__name__
            return Broken(f"the observer returned a {kind}, not an Observation", "")
        raised = observation.plain.error is not None or observation.recomputed.error is not None
        # After an error the framework may be in a state in which no further program works.
        renewed = raised and model.renew_after_error
        without_run = observation.recomputed.good_run_after_error is False
        if unrestored or renewed or without_run or self._has_grown():
            self.close()
        return Finished(observation)

    def _has_grown(self) -> bool:
        """Whether programs have left more behind than half of what they may allocate, such as threads:
        a later program would be told to have no memory."""
        return self._running().data - self._before > (self._memory - self._before) // 2

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None
        self._warm.clear()
        self._ran = 0
        self._last = ""

    def _running(self) -> Process:
        if self._process is None:
            own = self.adapter.implementation
            # NumPy comes with the process, before its preparation can set anything.
            for name in _THREADS & set(self.environment):
                os.environ.setdefault(name, self.environment[name])
            arguments = (dict(self.environment), self._memory, () if own is None else own.path)
            self._process = Process(self.adapter.name, entry.start, arguments, Output(self.log))
        return self._process

    def _call(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        limit: float,
        *,
        is_retry: bool = False,
    ) -> Any | Failure:
        """What the function returned in the worker, or how it failed."""
        # A new process starts Python and imports NumPy before it reads a request.
        receive_limit = RECEIVE_LIMIT if self._process is not None else IMPORT_LIMIT
        try:
            reply = self._running().ask(pickle.dumps((function, arguments)), receive_limit, limit)
        except OSError as error:
            check_full(error, Path(tempfile.gettempdir()))
            return Broken(f"the worker process does not start: {error}", "")
        match reply:
            case Answered(answer):
                try:
                    return pickle.loads(answer)
                except Exception as error:
                    return Broken(f"the observer's answer cannot be read: {error!r}", "")
            case Late(received):
                stuck = Stuck(receive_limit, self._last)
                self.close()
                return TimedOut(limit) if received else stuck
            case Died(code, printed, received):
                self.close()
                log = printed.decode("utf-8", "replace").strip()[-_LOG_TAIL:]
                if received:
                    return Crashed(ending(code), log)
                # It died between two programs: neither is to blame, so this one is run once more.
                if not is_retry:
                    return self._call(function, arguments, limit, is_retry=True)
                problem = f"it ended with {ending(code)}"
                return Broken(f"the worker process does not start: {problem}", log)


def completed(adapter: Adapter, described: Described) -> Described:
    """The description of a user's recompute with what its signature says of its options.

    It stays as it is where the signature cannot be read: a run says why the import failed. Raises
    `ImplementationError` where the function cannot be called as it is described.
    """
    own = adapt(adapter, described)
    with (
        tempfile.TemporaryDirectory(prefix="conformance-signature-") as folder,
        Pool(own, Path(folder) / "log.txt") as pool,
    ):
        variant = own.variants[0].name
        try:
            pool.describe([variant])  # what a function imports may come with the adapter
            signature = pool.signature(variant, described.model.function)
        except BrokenAdapterError:
            return described
    return described if signature is None else by_signature(adapter, described, signature)


def ending(code: int) -> str:
    """An exit code in words; a negative one is that of a signal, as in `subprocess`."""
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"
