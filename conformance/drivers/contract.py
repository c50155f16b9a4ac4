"""The interface of an adapter.

`emitter.py` defines a function `emitter(case, variant)` that returns an `Emitter`, `observe.py` a class
`Observer`. The suite calls only the methods of these protocols, so any class that has them will do.
`conformance.emit.emitter.Emitter` has them for an adapter that gives it words and parts
(`conformance.emit.emitter.Parts`). `conformance.observe.worker.observer.Observer` is a base class: a
subclass must define the members of `Sees`, and may define those of `MaySee`, each of which enables what
its line says. docs/adapters.md lists the methods that adapters write.

An exception becomes a verdict on the case, or ends the run:

- `NotEmittedError` out of `write`: `unsupported: the adapter does not write the operation`, with its
  name, and `NotOfferedError`: `unsupported: the adapter does not write`, with that part of the case;
- anything else out of `write`, or out of `observe`: `broken`, and never held against the framework;
- a worker process that dies or does not answer: `crashed`, `timeout`;
- anything out of importing `observe.py`, making an `Observer` or `warm_up`: the run ends.

An exception raised by the program itself is not raised by the observer, but returned as `Run.error`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # keeps the imports of workers few, since they start often
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

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

    def write(self) -> Draft:
        """The program: `inputs`, `plain`, `recomputed` and `run`. Called once."""


class Observer(Protocol):
    """Observes the programs of one variant, one after the other, in a worker process."""

    def __init__(self, variant: str) -> None: ...

    def warm_up(self) -> None:
        """Called once before the first program, outside all limits of a case."""

    def observe(self, program: Program) -> Observation:
        """The plain run and the recomputed run of a program; arrays are NumPy's."""


# -- what the base of observers asks for -----------------------------------------------------------


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
