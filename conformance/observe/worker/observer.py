"""How a program is observed: the part that all frameworks share.

An adapter's `observe.py` has a class `Observer(conformance.observe.worker.observer.Observer)`. Each
run of a program is made of separate passes, so that what watches one thing cannot disturb another:
values first, with nothing attached; then executions and random samples; then memory.
"""

import gc
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np

from conformance.drivers import contract
from conformance.language.operations import RANDOM
from conformance.model.containers import fields_of
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
from conformance.observe.worker.meter import Meter, Reading, allocated_bytes
from conformance.observe.worker.random_state import SHARED, RandomStates, Reader
from conformance.observe.worker.surroundings import Setting
from conformance.observe.worker.trace import Trace, executions
from conformance.words import printable

#: Executions by statement and phase.
Counts = Mapping[tuple[Site, Phase], int]
#: Bytes or tensors after each of several runs, beyond those before the first; `None` where unknown.
Growth = tuple[int, ...] | None


class Observer(contract.Observer, ABC):
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
    #: The framework's functions that return its random state, as regions look them up.
    state_readers: tuple[Reader, ...] = ()
    #: Whether `held` counts these states, too, since they are tensors in the framework's memory.
    holds_states = False

    def __init__(self, variant: str) -> None:
        self.variant = variant
        self.states = RandomStates((*SHARED, *self.state_readers), self.state_bytes)
        #: Of a program that is to raise an error, by path, the run before it with the inputs that raise
        #: nothing.
        self._good: dict[str, Run] = {}
        #: The peak of the last run that `retained` measured, in bytes beyond its baseline.
        self.highest: int | None = None
        #: The random state kept in the last run that `retained` measured.
        self.random_state: RandomState | None = None

    def warm_up(self) -> None:
        """Run once before the first program, outside all limits of a case."""

    @abstractmethod
    def leaf(self, value: object) -> Leaf | None:
        """The elements and dtype of a tensor of the framework; `None` for any other value."""

    def generator(self) -> Array | None:
        """A few numbers drawn now from the framework's default generator; `None` where it has none."""
        return None

    def numbers(self, generator: object) -> Array | None:
        """A few numbers drawn now from an explicit generator; `None` where it has no state (a key)."""
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
        """Bytes allocated now. The default asks glibc, and cannot see inside a framework's pool."""
        return allocated_bytes()

    def reset_peak(self) -> None:
        """Reset the peak: from now on `peak` covers only what follows."""

    def peak(self) -> int | None:
        """The most bytes allocated at any time since `reset_peak`; `None` where that is not exact."""
        return None

    def alive(self) -> int | None:
        """Tensors alive now; `None` where they cannot be counted."""
        return None

    def unobserved(self, program: Program) -> Mapping[str, str]:
        """For each check that cannot be observed on this variant and program: why."""
        return {}

    def observe(self, program: Program) -> Observation:
        """The plain and the recomputed run of a program. An exception from here is the suite's fault."""
        start = time.perf_counter()
        module = load_program(program)
        unobserved = dict(self.unobserved(program))
        if not program.seeded:
            self.unseed()
        plain = self._one(LoadedProgram.of(program, module, "plain"), unobserved)
        recomputed = self._one(LoadedProgram.of(program, module, "recomputed"), unobserved)
        seconds = time.perf_counter() - start
        return Observation(plain, recomputed, self.methods, unobserved, seconds, self.resolution)

    def _one(self, loaded: LoadedProgram, unobserved: dict[str, str]) -> Run:
        """The run of a path, after a good one where an error is to follow."""
        if loaded.program.then:
            self._good[loaded.path] = self.tried(loaded)
        return self.run(loaded, unobserved)

    def run(self, loaded: LoadedProgram, unobserved: dict[str, str]) -> Run:
        """One run, in passes. An exception of the program's ends it, as `Run.error`.

        Where a pass raises, the program runs once more with nothing attached: if that raises, too, the
        program is at fault, and else the observer, whose exception is raised.
        """
        try:
            run = self.first_pass(loaded, unobserved)
            if run.error is None:
                return self.further_passes(loaded, run, unobserved)
        except BaseException as error:
            self.raised(error)
            run = self.values(loaded)
            if run.error is None:
                raise
        if loaded.program.then:
            run = self.good_run(loaded, run)
        return self._released(self._dropping_errors(loaded), run, unobserved)

    def _released(self, loaded: LoadedProgram, run: Run, unobserved: Mapping[str, str]) -> Run:
        """`run` with what is left over from step to step, where the program repeats the procedure."""
        if not loaded.program.release or "release" in unobserved:
            return run
        held, alive = self.leftovers(loaded)
        return replace(run, held=held, alive=alive)

    def first_pass(self, loaded: LoadedProgram, unobserved: Mapping[str, str]) -> Run:
        """The first pass: values with nothing attached or, with `at_once`, values and all counts."""
        if not self.at_once or "executions" in unobserved:
            return self.values(loaded)
        results: list[Mapping[str, Any]] = []
        keep_result = replace(loaded, run=lambda: results.append(loaded.run()))
        counted = self.counted(keep_result, Run(), unobserved)
        run = self.read(results[0], counted)
        return replace(run, generators=self.next_numbers(loaded.program, results[0]))

    def further_passes(self, loaded: LoadedProgram, run: Run, unobserved: dict[str, str]) -> Run:
        """`run` with what the passes after the first observe; each of them runs the program again."""
        program = loaded.program
        if run.executions is None and "executions" not in unobserved:
            run = self.counted(loaded, run, unobserved)
        if self.keeps(program, unobserved) and not self.counts_and_reads(program, unobserved):
            self.highest = self.random_state = None
            retained = self.retained(loaded)
            run = replace(run, retained=retained, random_state=self.random_state, peak=self.highest)
        return self._released(loaded, run, unobserved)

    def keeps(self, program: Program, unobserved: Mapping[str, str]) -> bool:
        """Whether the bytes retained between forward and backward are measured."""
        return "retained memory" not in unobserved and program.procedure != "inference"

    def counts_and_reads(self, program: Program, unobserved: Mapping[str, str]) -> bool:
        """Whether memory is measured in the run in which executions are counted. It is not where random
        samples are copied: the copies would be counted as the program's tensors."""
        counted = "executions" not in unobserved
        return self.together and counted and self.keeps(program, unobserved) and not program.random

    def counted(self, loaded: LoadedProgram, run: Run, unobserved: Mapping[str, str]) -> Run:
        """`run` with executions and random samples, and with bytes where the same run tells them."""
        if not self.counts_and_reads(loaded.program, unobserved):
            return self.count(loaded, run)
        meter = self.meter()
        with self.states.followed():
            run = self.count(loaded, run, meter)
        states = meter.random_state
        return replace(run, retained=meter.retained, random_state=states, peak=meter.highest)

    def values(self, loaded: LoadedProgram) -> Run:
        """Outputs, losses, gradients, state and the generator's next numbers; nothing is attached."""
        try:
            result = loaded.run()
            run = self.read(result)
        except BaseException as error:  # sys.exit is the program's doing as any other
            self.raised(error)
            # The explicit generators are not known: the program has returned nothing.
            left = self.next_numbers(loaded.program, {})
            return Run(error=error_seen(error, loaded.program), generators=left)
        return replace(run, generators=self.next_numbers(loaded.program, result))

    def unseed(self) -> None:
        """Reset the generators, so that no seed of an earlier program is left."""

    def raised(self, error: BaseException) -> None:
        """Hook for an exception that a program raised, before it and its frames are dropped."""

    def next_numbers(self, program: Program, result: Mapping[str, Any]) -> Mapping[str, Array]:
        """The numbers that each generator of the program draws next, which tell its position. The
        `result` of `run` holds the explicit ones, and is empty after an error."""
        draws: Mapping[str, Callable[[], Array | None]] = {
            "implicit": self.generator,
            "numpy": lambda: np.random.uniform(size=4),
            "python": lambda: np.array([random.random() for _ in range(4)]),
        }
        numbers = {name: draw() for name, draw in draws.items() if name in program.sources}
        for name, generator in result.get("generators", {}).items():
            is_numpy = isinstance(generator, np.random.Generator)
            numbers[name] = generator.random(4) if is_numpy else self.numbers(generator)
        return {name: drawn for name, drawn in numbers.items() if drawn is not None}

    def read(self, result: Mapping[str, Any], run: Run | None = None) -> Run:
        """What `run(forward)` of a program returned, as an observation that adds to `run`."""
        return replace(
            run or Run(),
            outputs=self.to_tree(result["outputs"]),
            losses=tuple(float(self._array(loss)) for loss in result.get("losses", ())),
            gradients=self._arrays(result.get("gradients", {})),
            again=self._arrays(result.get("again", {})),
            parameters={k: self._array(v) for k, v in result.get("parameters", {}).items()},
            state={k: self._array(v) for k, v in result.get("state", {}).items()},
        )

    def tried(self, loaded: LoadedProgram) -> Run:
        """The run with the inputs that raise nothing; its error if it raises something all the same."""
        try:
            return self.read(loaded.run(**dict(loaded.program.then or {})))
        except BaseException as error:
            return Run(error=error_seen(error, loaded.program))

    def good_run(self, loaded: LoadedProgram, run: Run) -> Run:
        """`run` with whether the program works after the error, with the changed inputs: it raises
        nothing and computes what the plain program computed with them before any error. Where it did
        not do so before the error either, the error has not broken it."""
        plain, before = self._good["plain"], self._good[loaded.path]
        if plain.error or before.error or not computes_alike(before, plain):
            return replace(run, good_run_before_error=False, error_after=before.error)
        after = self.tried(loaded)
        return replace(
            run,
            good_run_before_error=True,
            good_run_after_error=after.error is None and computes_alike(after, plain),
            error_after=after.error,
        )

    @contextmanager
    def watching(self) -> Iterator[None]:
        """The context that must be active while `held`, `peak` and `alive` measure a program."""
        yield

    def count(self, loaded: LoadedProgram, run: Run, meter: Meter | None = None) -> Run:
        """`run` with executions and random samples, by following the program's lines. With `together`, a
        `meter` reads memory in the same run."""
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
        afterwards. The default counts the lines that ran to their end, not what reached a kernel.
        """
        yield lambda: trace.completed

    def retained(self, loaded: LoadedProgram) -> int | None:
        """Bytes held when the first backward pass starts, as `Meter` reads them, in a run after
        `rehearsals` others. Sets `highest` and `random_state`, too."""
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
        """Bytes held and tensors alive after each of `program.release` runs, beyond those before the
        first, with the outputs of all runs where `program.keeps` says so.

        The garbage collector is off, so that reference cycles show as growth. No tracing is active.
        """
        kept: list[Any] = []
        held: list[int | None] = []
        alive: list[int | None] = []
        with self.watching():
            self.settle()
            held_before, alive_before = self.held(), self.alive()
            gc.disable()
            try:
                for _ in range(loaded.program.release):
                    result = loaded.run()
                    if loaded.program.keeps and result is not None:
                        kept.append(result["outputs"])
                        self.kept(result["outputs"])
                    del result
                    self.wait()
                    held.append(self.held())
                    alive.append(self.alive())
            finally:
                gc.enable()
                gc.collect()
        return _beyond(held_before, held), _beyond(alive_before, alive)

    def kept(self, outputs: Any) -> None:
        """Told what a run has returned that is kept, for what sees the results of operations alone."""

    def _dropping_errors(self, loaded: LoadedProgram) -> LoadedProgram:
        """A program whose every run ends in an error, which is dropped: an exception and the frames that
        it came through refer to each other, and are not counted as left over."""

        def run() -> None:
            try:
                loaded.run()
            except BaseException as error:
                self.raised(error)
            gc.collect()

        return replace(loaded, run=run)

    def meter(self) -> Meter:
        return Meter(self.reading, self.reset_peak, self.peak)

    def reading(self, frame: FrameType) -> Reading:
        """What is held when a line of `run`, whose frame this is, is reached."""
        self.settle()
        states = self.states.now()
        held = self.held()
        if held is not None and self.holds_states:
            held -= states.nbytes
        return Reading(held, self.frame_bytes(frame), states)

    def frame_bytes(self, frame: FrameType) -> int:
        """Bytes of the distinct tensors that the variables of a frame hold, containers included."""
        seen: dict[int, int] = {}

        def visit(value: object) -> None:
            if isinstance(value, dict | list | tuple):
                for part in value.values() if isinstance(value, dict) else value:
                    visit(part)
            else:
                seen[self.identity(value)] = self.nbytes(value)

        visit(dict(frame.f_locals))
        return sum(seen.values())

    def identity(self, value: object) -> int:
        """A key that differs for tensors that do not share memory."""
        return id(value)

    def to_tree(self, value: object) -> Tree:
        """An output as an observation: containers and non-tensors as they are."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        leaf = self.leaf(value)
        if leaf is None and (fields := fields_of(value)) is not None:
            return type(fields)({key: self.to_tree(part) for key, part in fields.items()})
        if isinstance(value, tuple):
            return tuple(self.to_tree(part) for part in value)
        if isinstance(value, list):
            return [self.to_tree(part) for part in value]
        if isinstance(value, dict):
            return {str(key): self.to_tree(part) for key, part in value.items()}
        return leaf if leaf is not None else f"<{type(value).__name__}>"

    def _arrays(self, values: Mapping[str, Any]) -> dict[str, Array | None]:
        return {k: None if v is None else self._array(v) for k, v in values.items()}

    def _array(self, value: Any) -> Array:
        leaf = self.leaf(value)
        return np.array(value if leaf is None else leaf.array)


def _beyond(before: int | None, readings: Sequence[int | None]) -> Growth:
    """What was read, minus what was read before; `None` where one reading is."""
    known = [reading for reading in readings if reading is not None]
    return None if len(known) < len(readings) else tuple(n - (before or 0) for n in known)


def with_shared_counts(run: Run, other: Run) -> Run:
    """A run with only those executions that the other counts, too: a compiler may fuse statements."""
    if run.executions is None or other.executions is None:
        return run
    counted = {(e.region, e.statement) for e in other.executions}
    shared = tuple(e for e in run.executions if (e.region, e.statement) in counted)
    return replace(run, executions=shared)


def computes_alike(run: Run, control: Run) -> bool:
    """Whether a run has the losses and gradients of the plain run, up to rounding."""

    def alike(observed: Array | None, expected: Array | None) -> bool:
        if observed is None or expected is None:
            return observed is expected
        same_shape = observed.shape == expected.shape
        return same_shape and np.allclose(observed, expected, rtol=1e-3, atol=1e-5)

    pairs = [(run.gradients.get(name), expected) for name, expected in control.gradients.items()]
    return all(alike(*pair) for pair in [(np.array(run.losses), np.array(control.losses)), *pairs])


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
    return ErrorSeen(bases[0], bases, error_text(error), phase)


def error_text(error: BaseException) -> str:
    """The text of an exception as a plain, printable string, even if its `__str__` fails. Of a long one,
    which may have an array in it, both ends: either may say what is wrong."""
    try:
        text = str.__str__(str(error))  # a subclass of `str` could not be unpickled by the pool
    except BaseException as raised:
        return f"(its text cannot be made: {type(raised).__name__})"
    return printable(text if len(text) <= 2000 else f"{text[:1500]} … {text[-497:]}")
