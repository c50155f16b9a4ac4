"""How a program is observed: the part that all frameworks share.

An adapter's `observe.py` has a class `Observer(conformance.observe.worker.observer.Observer)`. Each
run of a program is made of separate passes, so that what watches one thing cannot disturb another:
values first, with nothing attached; then executions and random samples; then memory.
"""

from __future__ import annotations

import ctypes
import gc
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import numpy as np

from conformance.drivers import contract
from conformance.language.operations import RANDOM
from conformance.model.observation import (
    RESOLUTION,
    Array,
    ErrorSeen,
    Leaf,
    Observation,
    Phase,
    RandomSample,
    RandomState,
    Run,
    Tree,
)
from conformance.model.program import Program, Site
from conformance.observe.worker.loaded import LoadedProgram, load_program
from conformance.observe.worker.random_state import SHARED, RandomStates, Reader
from conformance.observe.worker.surroundings import Setting
from conformance.observe.worker.trace import Trace, executions
from conformance.words import printable

#: Executions by statement and phase.
Counts = Mapping[tuple[Site, Phase], int]
#: Bytes or tensors after each of several runs, beyond those before the first; `None` where unknown.
Growth = tuple[int, ...] | None
BACKWARD_PROCEDURES = (
    *("backward", "part", "per_output", "functional"),
    *("second_backward", "second_order", "third_order", "train"),
)


class Observer(contract.Observer, contract.Sees, contract.MaySee, ABC):
    """Observes programs of one framework; made once per worker process."""

    #: For each check, in a few words, how this observer sees it.
    methods: Mapping[str, str] = {
        "executions": "Python line trace",
        "randomness": "Python line trace",
        "retained memory": "mallinfo2",
        "release": "mallinfo2",
    }

    #: What follows a program's lines while executions are counted.
    tracing: type[Trace] = Trace

    #: Whether `held`, `peak` and `alive` are right inside `counting`, too, so that memory and executions
    #: can be observed in the same run.
    together = False

    #: Whether values, too, are read from the run in which executions are counted. Only right where
    #: tracing Python's lines cannot change what the framework computes.
    at_once = False

    #: Runs that `retained` makes before the one that it reads, to fill the framework's caches.
    rehearsals = 1

    #: Bytes below which `held` cannot tell what is kept; 0 where it counts the bytes of every tensor and
    #: nothing else.
    resolution = RESOLUTION

    #: The framework's settings that a program may change for those after it, each with the functions
    #: that read it and set it to what was read. A setting that cannot be set raises.
    settings: Mapping[str, Setting] = {}

    #: The framework's functions that return its random state, by the names under which regions look them
    #: up.
    state_readers: tuple[Reader, ...] = ()

    #: Whether `held` counts these states, too, since they are tensors in the framework's memory.
    holds_states = False

    def __init__(self, variant: str) -> None:
        self.variant = variant
        self.states = RandomStates((*SHARED, *self.state_readers), self.state_bytes)
        #: The plain run with the inputs that raise nothing, of a program that is to raise an error.
        self._good: Run | None = None
        #: The peak of the last run that `retained` measured, in bytes beyond its baseline.
        self.highest: int | None = None
        #: The random state kept in the last run that `retained` measured.
        self.random_state: RandomState | None = None

    # -- what each framework says for itself -----------------------------------------------------

    def warm_up(self) -> None:
        """Run once before the first program, outside all limits of a case."""

    @abstractmethod
    def leaf(self, value: object) -> Leaf | None:
        """The elements and dtype of a tensor of the framework; `None` for any other value."""

    def generator(self) -> Array | None:
        """A few numbers drawn now from the framework's default generator; `None` where it has none."""
        return None

    def numbers(self, generator: object) -> Array | None:
        """A few numbers drawn now from an explicit generator; `None` where its state cannot be
        read, or where it has none (a key).
        """
        return None

    def nbytes(self, value: object) -> int:
        """Bytes that a tensor occupies; 0 for anything else."""
        leaf = self.leaf(value)
        return 0 if leaf is None else leaf.array.nbytes

    def state_bytes(self, state: object) -> int:
        """Bytes of a state that one of `state_readers` returned; 0 where Python can measure it."""
        return self.nbytes(state)

    def wait(self) -> None:
        """Wait until the framework has finished all asynchronous work."""

    def settle(self) -> None:
        """Wait for all asynchronous work, and collect garbage."""
        self.wait()
        gc.collect()

    def held(self) -> int | None:
        """Bytes allocated now. The default asks glibc, and so does not see inside a framework's own
        pool.
        """
        return allocated_bytes()

    def reset_peak(self) -> None:
        """Reset the peak: from now on `peak` covers only what follows."""

    def peak(self) -> int | None:
        """The most bytes allocated at any time since `reset_peak`; `None` where it cannot be told
        exactly."""
        return None

    def alive(self) -> int | None:
        """Tensors alive now; `None` where they cannot be counted."""
        return None

    def unobserved(self, program: Program) -> Mapping[str, str]:
        """For each check that cannot be observed on this variant and program: why."""
        return {}

    # -- passes ----------------------------------------------------------------------------------

    def observe(self, program: Program) -> Observation:
        """The plain and the recomputed run of a program. An exception from here is the suite's fault."""
        start = time.perf_counter()
        module = load_program(program)
        unobserved = dict(self.unobserved(program))
        if not program.seeded:
            self.unseed()
        if program.then:  # before any error, which may leave the framework in a wrong state
            self._good = self.read(module.run(module.plain, **program.then))
        plain = self.run(LoadedProgram.of(program, module, "plain"), unobserved)
        recomputed = self.run(LoadedProgram.of(program, module, "recomputed"), unobserved)
        seconds = time.perf_counter() - start
        return Observation(plain, recomputed, self.methods, unobserved, seconds, self.resolution)

    def run(self, loaded: LoadedProgram, unobserved: dict[str, str]) -> Run:
        """One run, in passes. An exception of the program's ends it, as `Run.error`."""
        program = loaded.program
        run = self.first_pass(loaded, unobserved)
        if run.error is not None:
            if program.then:
                run = replace(run, good_run_after_error=self.good_run(loaded))
            if program.release and "release" not in unobserved:
                held, alive = self.leftovers(self._dropping_errors(loaded))
                run = replace(run, held=held, alive=alive)
            return run
        try:
            return self.further_passes(loaded, run, unobserved)
        except BaseException as error:
            # A program that ran once may fail when it is run again. Running it once more with nothing
            # attached shows whether the program is at fault or the observer.
            self.raised(error)
            unwatched = self.values(loaded)
            if unwatched.error is None:
                raise
            return unwatched

    def further_passes(self, loaded: LoadedProgram, run: Run, unobserved: Mapping[str, str]) -> Run:
        """`run` with what the passes after the first observe; each of them runs the program again."""
        program = loaded.program
        measures_memory = self.keeps(program, unobserved)
        together = self.counts_and_reads(program, unobserved)
        if run.executions is None and "executions" not in unobserved:
            count = self.count_and_read if together else self.count
            run = count(loaded, run)
        if measures_memory and not together:
            self.highest = self.random_state = None
            retained = self.retained(loaded)
            run = replace(run, retained=retained, random_state=self.random_state, peak=self.highest)
        if program.release and "release" not in unobserved:
            held, alive = self.leftovers(loaded)
            run = replace(run, held=held, alive=alive)
        return run

    def first_pass(self, loaded: LoadedProgram, unobserved: Mapping[str, str]) -> Run:
        """The first pass: values with nothing attached or, with `at_once`, values and all counts."""
        if not self.at_once or "executions" in unobserved:
            return self.values(loaded)
        result: Mapping[str, Any] = {}

        def keep_result() -> Mapping[str, Any]:
            nonlocal result
            result = loaded.run()
            return result

        together = self.counts_and_reads(loaded.program, unobserved)
        count = self.count_and_read if together else self.count
        try:
            counted = count(replace(loaded, run=keep_result), Run())
            run = self.read(result)
        except Exception as error:
            self.raised(error)
            unwatched = self.values(loaded)
            if unwatched.error is None:
                raise
            return unwatched
        return replace(
            run,
            executions=counted.executions,
            samples=counted.samples,
            retained=counted.retained,
            random_state=counted.random_state,
            peak=counted.peak,
            generators=self.next_numbers(loaded.program, result),
        )

    def keeps(self, program: Program, unobserved: Mapping[str, str]) -> bool:
        """Whether the bytes retained between forward and backward are measured."""
        return "retained memory" not in unobserved and program.procedure in BACKWARD_PROCEDURES

    def counts_and_reads(self, program: Program, unobserved: Mapping[str, str]) -> bool:
        """Whether memory is measured in the run in which executions are counted. Recording random
        samples copies them, and the copies would be counted as the program's tensors.
        """
        counted = "executions" not in unobserved
        return self.together and counted and self.keeps(program, unobserved) and not program.random

    def meter(self) -> Meter:
        """The object that measures memory."""
        return Meter(self)

    def count_and_read(self, loaded: LoadedProgram, run: Run) -> Run:
        """`run` with executions, random samples and bytes, all from one run."""
        meter = self.meter()
        with self.states.followed():
            run = self.count(loaded, run, meter)
        return replace(
            run, retained=meter.retained, random_state=meter.random_state, peak=meter.highest
        )

    def values(self, loaded: LoadedProgram) -> Run:
        """Outputs, losses, gradients, state and the generator's next numbers; nothing is attached."""
        try:
            result = loaded.run()
            run = self.read(result)
        except BaseException as error:  # sys.exit is the program's doing as any other
            self.raised(error)
            return Run(error=error_seen(error, loaded.program))
        return replace(run, generators=self.next_numbers(loaded.program, result))

    def unseed(self) -> None:
        """Reset the generators, so that no seed of an earlier program is left."""

    def raised(self, error: BaseException) -> None:
        """Hook for an exception that a program raised, called before the exception and its frames
        are dropped.
        """

    def next_numbers(self, program: Program, result: Mapping[str, Any]) -> Mapping[str, Array]:
        """The numbers that each generator of the program draws next, which tell its position.

        `result` is what the program's `run` returned, with its explicit generators.
        """
        numbers: dict[str, Array | None] = {}
        if "implicit" in program.sources:
            numbers["implicit"] = self.generator()
        if "numpy" in program.sources:
            numbers["numpy"] = np.random.uniform(size=4)
        if "python" in program.sources:
            numbers["python"] = np.array([random.random() for _ in range(4)])
        for name, generator in result.get("generators", {}).items():
            is_numpy = isinstance(generator, np.random.Generator)
            numbers[name] = generator.random(4) if is_numpy else self.numbers(generator)
        return {name: drawn for name, drawn in numbers.items() if drawn is not None}

    def read(self, result: Mapping[str, Any]) -> Run:
        """Convert what `run(forward)` of a program returned into an observation."""
        return Run(
            outputs=self.to_tree(result["outputs"]),
            losses=tuple(float(self._array(loss)) for loss in result.get("losses", ())),
            gradients=self._arrays(result.get("gradients", {})),
            again=self._arrays(result.get("again", {})),
            parameters={k: self._array(v) for k, v in result.get("parameters", {}).items()},
            state={k: self._array(v) for k, v in result.get("state", {}).items()},
        )

    def good_run(self, loaded: LoadedProgram) -> bool:
        """Whether the program works after the error, with the changed inputs: it raises nothing and
        computes what the plain program computed with them before any error."""
        try:
            run = self.read(loaded.run(**dict(loaded.program.then or {})))
        except BaseException:
            return False
        return self._good is not None and computes_alike(run, self._good)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """The context that must be active while `held`, `peak` and `alive` measure a program."""
        yield

    def count(self, loaded: LoadedProgram, run: Run, meter: Meter | None = None) -> Run:
        """`run` with executions and random samples, by following the program's lines.

        A `meter` reads memory in the same run; it is given only where `together` says so.
        """
        samples: list[RandomSample] = []

        def add_sample(site: Site, phase: Phase, names: Mapping[str, Any]) -> None:
            leaf = self.leaf(names.get(site.label)) if site.op in RANDOM else None
            if leaf is not None:
                samples.append(RandomSample(site.region, site.label, phase, np.array(leaf.array)))

        program = loaded.program
        trace = self.tracing(
            program,
            on_statement=add_sample if program.random else None,
            on_phase=None if meter is None else meter.on_phase,
        )
        with trace.active(), self.counting(trace) as statements:
            loaded.run()
            if meter is not None:
                meter.finish()
            self.settle()
        return replace(
            run,
            executions=executions(trace.entered, statements()),
            samples=tuple(samples) if program.random else None,
        )

    @contextmanager
    def counting(self, trace: Trace) -> Iterator[Callable[[], Counts]]:
        """Count executions of statements inside the `with`. Yields a function that returns the counts
        afterwards.

        The default counts the lines that ran to their end. A framework that can tell which
        operations really reached a kernel overrides it.
        """
        yield lambda: trace.completed

    def retained(self, loaded: LoadedProgram) -> int | None:
        """Bytes held when the first backward pass starts, beyond inputs, parameters and outputs.

        The program runs `rehearsals` times before the measured run. Stores the peak beyond the
        baseline, in bytes, in `highest`, and the random state kept in `random_state`. `Meter` says
        when each value is read.
        """
        with self.watching(), self.states.followed():
            for _ in range(self.rehearsals + 1):
                meter = self.meter()
                with Trace(loaded.program, on_phase=meter.on_phase).active():
                    loaded.run()
                    meter.finish()
                    self.settle()
        self.highest, self.random_state = meter.highest, meter.random_state
        return meter.retained

    def leftovers(self, loaded: LoadedProgram) -> tuple[Growth, Growth]:
        """Bytes held and tensors alive after each of `program.release` runs, beyond those before
        the first.

        The garbage collector is off, so that reference cycles show as growth from run to run. No
        tracing is active. With `program.keeps`, the outputs of all runs are included.
        """
        program = loaded.program
        kept: list[Any] = []
        held: list[int | None] = []
        alive: list[int | None] = []
        with self.watching():
            self.settle()
            bytes_before, before = self.held() or 0, self.alive() or 0
            gc.disable()
            try:
                for _ in range(program.release):
                    result = loaded.run()
                    if program.keeps and result is not None:
                        kept.append(result["outputs"])
                    del result
                    self.wait()
                    held.append(_beyond(bytes_before, self.held()))
                    alive.append(_beyond(before, self.alive()))
            finally:
                gc.enable()
                gc.collect()
        return (
            None if None in held else tuple(n for n in held if n is not None),
            None if None in alive else tuple(n for n in alive if n is not None),
        )

    def _dropping_errors(self, loaded: LoadedProgram) -> LoadedProgram:
        """A program whose every run ends in an error that is expected; the error is dropped.

        An exception and the frames that it came through refer to each other. Only the garbage collector
        frees them, and what it frees is not counted as left over.
        """

        def run() -> None:
            try:
                loaded.run()
            except BaseException as error:
                self.raised(error)
            gc.collect()

        return replace(loaded, run=run)

    def frame_bytes(self, frame: FrameType) -> int:
        """Bytes of the distinct tensors that the variables of a frame hold, containers included."""
        seen: dict[int, int] = {}

        def visit(value: object) -> None:
            if isinstance(value, dict):
                for part in value.values():
                    visit(part)
            elif isinstance(value, list | tuple):
                for part in value:
                    visit(part)
            else:
                seen[self.identity(value)] = self.nbytes(value)

        for value in frame.f_locals.values():
            visit(value)
        return sum(seen.values())

    def identity(self, value: object) -> int:
        """A key that differs for tensors that do not share memory."""
        return id(value)

    # -- values ----------------------------------------------------------------------------------

    def to_tree(self, value: object) -> Tree:
        """An output as an observation: containers and non-tensors as they are."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, tuple):
            return tuple(self.to_tree(part) for part in value)
        if isinstance(value, list):
            return [self.to_tree(part) for part in value]
        if isinstance(value, dict):
            return {str(key): self.to_tree(part) for key, part in value.items()}
        leaf = self.leaf(value)
        return leaf if leaf is not None else f"<{type(value).__name__}>"

    def _arrays(self, values: Mapping[str, Any]) -> dict[str, Array | None]:
        return {k: None if v is None else self._array(v) for k, v in values.items()}

    def _array(self, value: Any) -> Array:
        leaf = self.leaf(value)
        return np.array(value if leaf is None else leaf.array)


def _beyond(before: int, reading: int | None) -> int | None:
    """What was read, minus what was read before."""
    return None if reading is None else reading - before


class Meter:
    """Reads what is held when the first forward pass of a run starts and when the first backward pass
    does.

    The inputs are there at the first reading, and belong to the baseline. What the variables of `run`
    hold (inputs, outputs, loss) is subtracted from both. `retained` and `highest`, the peak beyond
    the baseline, are bytes, and `None` where the run was not read at both moments or the observer
    cannot tell.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._before: _Reading | None = None
        self._after: _Reading | None = None
        self._peak: int | None = None

    def on_phase(self, label: str, frame: FrameType) -> None:
        """For `Trace`: called when a line starts a phase."""
        if label == "forward" and self._before is None:
            self._before = self._read(frame)
            self._observer.reset_peak()
        elif label == "backward" and self._after is None:
            self._after = self._read(frame)

    def finish(self) -> None:
        """To be called when the run is over."""
        self._peak = self._observer.peak()

    @property
    def retained(self) -> int | None:
        """Bytes of tensors held when backward starts, beyond the baseline and the variables of `run`."""
        if self._before is None or self._after is None:
            return None
        if self._before.held is None or self._after.held is None:
            return None
        held = self._after.held - self._before.held
        return held - (self._after.variables - self._before.variables)

    @property
    def random_state(self) -> RandomState | None:
        """The random state that is held when backward starts and was not there at the baseline."""
        if self._before is None or self._after is None:
            return None
        before, after = self._before.states, self._after.states
        return RandomState(after.nbytes - before.nbytes, after.copies - before.copies)

    @property
    def highest(self) -> int | None:
        """The most bytes held at any time since the baseline, minus the baseline."""
        if self.retained is None or self._before is None or self._before.held is None:
            return None
        return None if self._peak is None else self._peak - self._before.held

    def _read(self, frame: FrameType) -> _Reading:
        self._observer.settle()
        states = self._observer.states.now()
        held = self._observer.held()
        if held is not None and self._observer.holds_states:
            held -= states.nbytes
        return _Reading(held, self._observer.frame_bytes(frame), states)


@dataclass(frozen=True)
class _Reading:
    """Bytes of tensors held, those of them that the variables of `run` hold, and random state."""

    held: int | None
    variables: int
    states: RandomState


def with_shared_counts(run: Run, other: Run) -> Run:
    """A run with only those executions that the other run counts, too: a compiler may fuse a statement
    of one of them into another statement.
    """
    if run.executions is None or other.executions is None:
        return run
    counted = {(e.region, e.statement) for e in other.executions}
    shared = tuple(e for e in run.executions if (e.region, e.statement) in counted)
    return replace(run, executions=shared)


def computes_alike(run: Run, control: Run) -> bool:
    """Whether a run has the losses and gradients of the plain run, up to rounding."""
    pairs = [(run.gradients.get(name), array) for name, array in control.gradients.items()]
    pairs.append((np.array(run.losses), np.array(control.losses)))
    for observed, expected in pairs:
        if observed is None or expected is None:
            if observed is not expected:
                return False
        elif observed.shape != expected.shape or not np.allclose(
            observed, expected, rtol=1e-3, atol=1e-5
        ):
            return False
    return True


def error_seen(error: BaseException, program: Program) -> ErrorSeen:
    """An exception as an observation. The phase comes from the lines of the program it passed."""
    phase: Any = "unknown"
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == program.file:
            site = program.lines.get(trace.tb_lineno)
            if site is not None and site.kind == "phase":
                phase = site.label
            elif site is not None and site.kind == "gradient":
                phase = "backward"
        trace = trace.tb_next
    bases = tuple(printable(base.__name__) for base in type(error).__mro__)
    return ErrorSeen(bases[0], bases, error_text(error)[:2000], phase)


def error_text(error: BaseException) -> str:
    """The text of an exception as a plain, printable string, even if its `__str__` fails."""
    try:
        text = str.__str__(str(error))  # a subclass of `str` could not be unpickled by the pool
    except BaseException as raised:
        return f"(its text cannot be made: {type(raised).__name__})"
    return printable(text)


class _Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def allocated_bytes() -> int | None:
    """Bytes in use on the heap and in mapped blocks, as glibc's `mallinfo2` tells; `None` elsewhere."""
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return None
    mallinfo2.restype = _Mallinfo2
    info = mallinfo2()
    return int(info.uordblks) + int(info.hblkhd)
