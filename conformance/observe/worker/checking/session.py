"""One program and its framework: models made alike, and steps run alike."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from conformance.model.checked import Compared, Raised, What
from conformance.model.observation import Leaf
from conformance.observe.worker.checking import arrays
from conformance.observe.worker.checking.arrays import Values
from conformance.observe.worker.checking.base import Framework, Trained, Watch
from conformance.observe.worker.checking.outputs import named
from conformance.observe.worker.checking.regions import Regions
from conformance.observe.worker.observer import error_text

#: In words, whether recomputation is switched on.
_WITH = {False: "without recomputation", True: "with recomputation"}
#: What a run gives that is compared, by what it is.
Given = dict[What, Values]


class ProgramError(Exception):
    """The program raised, where no other run of it did: `raised` says what."""

    def __init__(self, raised: Raised) -> None:
        super().__init__(raised.message)
        self.raised = raised


@dataclass
class Stepped:
    """What one step gave, and its seconds. `gradients` are the framework's own tensors."""

    given: Given
    seconds: float


class Session:
    """A program, and what its models are made and trained with."""

    def __init__(self, framework: Framework, file: ModuleType, path: str, regions: Regions) -> None:
        self.framework, self.file, self.path, self.regions = framework, file, path, regions
        self.watch = Watch()
        #: Told which run starts.
        self.tell: Callable[[str], object] = lambda text: None
        #: Whether models that were made are trained with recomputation, in words, by their `id`.
        self.with_: dict[int, str] = {}
        told = getattr(file, "tolerance", None)
        number, why = told if isinstance(told, tuple) else (told, "")
        self.tolerance: float | None = None if number is None else float(number)
        self.why = str(why)

    def seed(self, number: int) -> None:
        """Seed the generators of Python, NumPy and the framework."""
        random.seed(number)
        np.random.seed(number)
        self.framework.seed(number)

    def made(self, recompute: bool) -> Trained:
        """A model of the program, with recomputation or without; made alike each time."""
        self.seed(0)
        self.tell(f"{_WITH[recompute]}, in `model`")
        self.watch.phase = "model"
        self.regions.marked.clear()
        with self.catching(0):
            made = self.framework.trained(self.file, self.file.model(recompute), self.watch)
        self.with_[id(made)] = _WITH[recompute]
        return made

    def step(self, trained: Trained, step: int, *, read: bool = True) -> Stepped:
        """One step of training on the batch of that number. Raises `ProgramError`."""
        self.seed(step + 1)
        now = f"{self.with_[id(trained)]}, in {{}} of step {step}"
        self.watch.tell = lambda phase: self.tell(now.format(phase))
        self.regions.tell = lambda name: (
            self.watch.phase == "forward"
            and self.tell(f"{now.format('forward')}, in region {name}")
        )
        self.watch.enters("batch")
        self.regions.layers = {id(layer): name for name, layer in trained.layers().items()}
        with self.catching(step):
            batch = self.file.batch(step)
            start = time.perf_counter()
            returned, gradients = trained.differentiate(batch)
            seconds = time.perf_counter() - start
            loss, outputs = _split(returned)
            given: Given = {}
            if read:
                given["loss"] = {"loss": self.framework.scalar(loss)}
                given["outputs"] = {} if outputs is None else self.values(outputs)
                given["gradients"] = self.framework.leaves(gradients)
                given["random state"] = self.framework.drawn()
            del returned, loss, outputs
            self.watch.enters("optimizer")
            start = time.perf_counter()
            trained.update(gradients)
            seconds += time.perf_counter() - start
        return Stepped(given, seconds)

    def values(self, value: Any) -> Values:
        return named(value, self.framework.leaf, "outputs")

    def state(self, trained: Trained) -> Given:
        """Parameters and buffers as they are now."""
        leaves = self.framework.leaves
        return {"parameters": leaves(trained.parameters()), "buffers": leaves(trained.buffers())}

    def compare(
        self, step: int, plain: Given, other: Given, control: Given | None
    ) -> list[Compared]:
        """Hold what a step gave to what it gave without recomputation."""
        found = []
        for what, values in plain.items():
            spreads = {} if control is None else arrays.spread(values, control[what])
            tolerance = None if what == "random state" else self.tolerance
            found.append(arrays.compared(what, step, values, other[what], spreads, tolerance))
        return found

    def catching(self, step: int) -> _Catching:
        """A context in which what the program raises becomes a `ProgramError`."""
        return _Catching(self, step)

    def note(self, wanted: bool) -> None:
        """Whether regions are noted from now on that are called before backward."""
        self.regions.noting = lambda: wanted and self.watch.phase != "backward"

    def through(self, chosen: Callable[[str], bool]) -> None:
        """From now on, let the regions through of which `chosen` is true."""
        self.regions.plainly = chosen


class _Catching:
    def __init__(self, session: Session, step: int) -> None:
        self._session, self._step = session, step

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ProgramError) or error is None:
            return
        session = self._session
        session.framework.observer.raised(error)
        said = session.framework.said(error)
        raised = raised_by(error, session.path, self._step, session.watch.phase, said)
        raise ProgramError(raised) from None


def raised_by(
    error: BaseException, path: str, step: int, phase: str, said: str | None = None
) -> Raised:
    """An exception as a value, with the innermost line of the program's file that it came through."""
    said = error_text(error) if said is None else said
    where = ""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            where = str(trace.tb_lineno)
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename == path:
        where = str(error.lineno)
    return Raised(type(error).__name__, said[:2000], where, step, phase)


def _split(returned: Any) -> tuple[Any, Any]:
    """The loss, and what else the program's `loss` returned beside it."""
    if isinstance(returned, tuple) and len(returned) == 2:
        return returned[0], returned[1]
    return returned, None


def sizes(values: Mapping[str, Leaf | None]) -> int:
    """How many numbers there are in some arrays."""
    return sum(leaf.array.size for leaf in values.values() if leaf is not None)
