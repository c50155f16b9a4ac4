"""What an adapter has to offer, on one page.

`emitter.py` has a class `Emitter`, `observe.py` a class `Observer`. That the suite calls nothing but
what `Emitter` and `Observer` say here is all there is to the contract: a class that has these few
methods is enough, whatever it derives from. The bases (`conformance.emit.emitter.Emitter`,
`conformance.observe.worker.observer.Observer`) have them, and ask for less: `Writes` and `Sees` must be
there, and each member of `MayWrite` and `MaySee` that is there buys what its line says. All else that
they have may be overridden, too; docs/adapters.md lists it.

What is raised becomes a verdict on the case, or ends the run:

- `NotEmittedError` out of `write`: `unsupported: does not emit`, with the operation's name;
- anything else out of `write`, or out of `observe`: `broken`, and never held against the framework;
- a worker process that dies or does not answer: `crashed`, `timeout`;
- anything out of importing `observe.py`, making an `Observer` or `warm_up`: the run ends.

What a program itself raises is no exception of the observer's: it is `Run.error`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:  # workers, which start often, import no more than they need
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from conformance.drivers.adapter import Variant
    from conformance.model.case import Again, Array, Case, Region
    from conformance.model.observation import Array as Numbers
    from conformance.model.observation import Leaf, Observation
    from conformance.model.program import Program, Site

# -- what the suite calls --------------------------------------------------------------------------


class Draft(Protocol):
    """A program before ruff formats it."""

    #: The lines, without their ends. One that is marked ends with `# pylint: sN`.
    lines: list[str]
    #: What line is which: `sites[N]` for the mark `sN`. A draft may have `notes`, too: words that reach
    #: the adapter's observer as `Program.notes`.
    sites: list[Site]


class Emitter(Protocol):
    """Writes one case for one variant, in the process that judges: no framework is imported there."""

    def __init__(self, case: Case, variant: Variant) -> None: ...

    def write(self) -> Draft:
        """The program: `inputs`, `plain`, `recomputed` and `run`. Called once."""


class Observer(Protocol):
    """Observes the programs of one variant, one after the other, in a worker process."""

    def __init__(self, variant: str) -> None: ...

    def warm_up(self) -> None:
        """Called once before the first program, outside all limits of a case."""

    def observe(self, program: Program) -> Observation:
        """The plain run and the recomputed run of a program; arrays are NumPy's."""


# -- what the bases ask for ------------------------------------------------------------------------


class Writes(Protocol):
    """What an emitter derived from the base must have; expressions are Python's, as text."""

    @abstractmethod
    def tensor(self, array: Array, source: str) -> str:
        """The expression that makes a tensor from `source`, a NumPy expression of the array's elements
        (float64 or int64, of `array.shape`), in `array.dtype`."""

    @abstractmethod
    def recompute(self, region: Region) -> str:
        """The expression of the recomputed callable at a region's first call."""

    def write_gradients(self) -> None:
        """Forward, backward (once, twice, or of the second order), and what `run` returns. Who overrides
        `write_run`, of which this is a part, does without."""
        raise NotImplementedError


class MayWrite(Protocol):
    """What it buys. Where a case asks for something that is missing, it is `unsupported` (an operation)
    or `broken: not written` (all else), until the variant `lacks` it."""

    #: Cases with these operations: format strings over arguments and options, or functions of a `Call`.
    operations: Mapping[str, Any]
    #: Operations that take more than an expression: functions that a program defines for itself.
    helpers: Mapping[str, str]
    #: What programs import; what one does not use is taken out.
    imports: Sequence[str]
    #: What is written as a loop where it repeats: `all`; `calls` of regions alone, for an observer that
    #: tells the operations of one call apart by their lines; `nothing`, for one that knows lines alone.
    rolls: Literal["all", "calls", "nothing"]
    #: Cases that draw random numbers without naming a generator.
    seeding: str
    #: `between: draw`, and `between: update`.
    drawing: str
    halving: str
    #: Inference, where gradients have to be turned off.
    without_gradients: str
    #: `hooks`, `autocast`, and regions that are `mapped`.
    hook: str
    autocast: str
    vmap: str

    def write_training(self) -> None:
        """`procedure: train`."""

    def framework_generator(self, seed: int) -> str:
        """Explicit generators, or keys."""

    def called(self, node: Region | Again, callee: str, region: Region) -> str:
        """A recompute that takes the function and its arguments in one call."""

    def call_arguments(self, node: Region | Again) -> str:
        """Arguments that a region is handed beside its own."""


class Sees(Protocol):
    """What an observer derived from the base must have."""

    @abstractmethod
    def leaf(self, value: object) -> Leaf | None:
        """The elements (a NumPy array of the tensor's shape; bfloat16 as float32) and the dtype's name
        of a tensor; `None` for anything else. Values, gradients and state are read with it alone."""


class MaySee(Protocol):
    """What it buys. What is not seen goes to `unobserved`, and is `unsupported` with that reason."""

    def unobserved(self, program: Program) -> Mapping[str, str]:
        """The right not to be asked: for a check's name, why it cannot be observed."""

    def generator(self) -> Numbers | None:
        """Whether the implicit generator stands where it should: a few numbers that it gives next."""

    def numbers(self, generator: object) -> Numbers | None:
        """The same of an explicit one."""

    def counting(self, trace: Any) -> AbstractContextManager[Callable[[], Any]]:
        """Executions by what reached a kernel, where a line that Python ran does not tell."""

    def held(self) -> int | None:
        """Retained memory and release by the framework's own count, in bytes, instead of glibc's."""

    def nbytes(self, value: object) -> int:
        """Bytes of a tensor as `held` counts them; with `identity`, what inputs and outputs share."""

    def identity(self, value: object) -> int:
        """What tells two tensors apart that do not share memory."""

    def reset_peak(self) -> None:
        """With `peak`, peak memory."""

    def peak(self) -> int | None:
        """The most bytes held since `reset_peak`."""

    def alive(self) -> int | None:
        """Release, by the number of tensors."""

    def wait(self) -> None:
        """A framework that goes on working after it has returned."""

    def unseed(self) -> None:
        """Cases that nothing seeds, after others that were."""
