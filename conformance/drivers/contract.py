"""The interface of an adapter.

`emitter.py` defines a class `Emitter`, `observe.py` a class `Observer`. The suite calls only the methods
of the protocols `Emitter` and `Observer` below, so any class that has them will do. The base classes
(`conformance.emit.emitter.Emitter`, `conformance.observe.worker.observer.Observer`) implement them and
require less: a subclass must define the members of `Writes` or `Sees`, and may define those of
`MayWrite` or `MaySee`, each of which enables what its line says. Any other method of the bases may be
overridden, too; docs/adapters.md lists them.

An exception becomes a verdict on the case, or ends the run:

- `NotEmittedError` out of `write`: `unsupported: does not emit`, with the operation's name, and
  `NotOfferedError`: `unsupported: the adapter does not write`, with that part of the case;
- anything else out of `write`, or out of `observe`: `broken`, and never held against the framework;
- a worker process that dies or does not answer: `crashed`, `timeout`;
- anything out of importing `observe.py`, making an `Observer` or `warm_up`: the run ends.

An exception raised by the program itself is not raised by the observer, but returned as `Run.error`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:  # keeps the imports of workers few, since they start often
    from collections.abc import Callable, Collection, Mapping, Sequence
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
    #: The source map: `sites[N]` for the line marked `sN`. A draft may also have `notes`: words that
    #: reach the adapter's observer as `Program.notes`.
    sites: list[Site]


class Emitter(Protocol):
    """Writes one case for one variant. It runs in the judging process and may import no framework."""

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
        """Write the forward pass, backward (once, twice, or of second order), and what `run` returns.
        Not needed if `write_run`, which calls it, is overridden."""
        raise NotImplementedError


class MayWrite(Protocol):
    """Optional members, each with what it enables. A case that needs a missing one is `unsupported`:
    `does not emit` an operation, or `the adapter does not write` anything else. `broken: not written` is
    a program without a part of the case whose member is there."""

    #: Cases with these operations: format strings over arguments and options, or functions of a `Call`.
    operations: Mapping[str, Any]
    #: Operations that need more than an expression: definitions of functions for the program.
    helpers: Mapping[str, str]
    #: Import lines of programs; unused ones are removed.
    imports: Sequence[str]
    #: Which repetitions of a case become a loop: `all`; only those of `calls` of regions, for an
    #: observer that tells the operations within one call apart by their lines; `nothing`, for one that
    #: goes by lines alone.
    loops: Literal["all", "calls", "nothing"]
    #: Kinds of procedure other than `backward`, which every adapter writes; `train` is one of them
    #: where `write_training` is there.
    procedures_written: Collection[str]
    #: Cases that draw random numbers without naming a generator.
    seeding: str
    #: `between: draw`, and `between: update`.
    drawing: str
    halving: str
    #: Inference, where gradients have to be turned off; `between: no-gradients`.
    without_gradients: str
    #: The option of recompute that should be refused, where a case gives one its wrong type.
    wrong_option: str
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
        """Additional arguments of a region's call."""


class Sees(Protocol):
    """What an observer derived from the base must have."""

    @abstractmethod
    def leaf(self, value: object) -> Leaf | None:
        """The elements (a NumPy array of the tensor's shape; bfloat16 as float32) and the dtype's name
        of a tensor; `None` for anything else. Values, gradients and state are read only through it."""


class MaySee(Protocol):
    """Optional members, each with what it enables. A check without its observation is `unsupported`, for
    the reason given in `unobserved`."""

    def unobserved(self, program: Program) -> Mapping[str, str]:
        """The checks that cannot be observed for a program: by name, the reason."""

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
