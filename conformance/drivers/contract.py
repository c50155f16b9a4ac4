"""The interface of an adapter.

`emitter.py` defines a function `emitter(case, variant)` that returns an `Emitter`, `observe.py` a class
`Observer`. The suite calls only the methods of these protocols, so any class that has them will do.
`conformance.emit.emitter.Emitter` has them for an adapter that gives it words and parts
(`conformance.emit.emitter.Parts`). `conformance.observe.worker.observer.Observer` is a base class: a
subclass must define `leaf`, which all values, gradients and state are read through. What else it may
define enables more: `generator` and `numbers` the checks of implicit and explicit random state, `unseed`
cases that nothing seeds; `counting` executions by what reached a kernel, where a line of Python does not
tell; `held`, `nbytes` and `identity` retained memory and release by the framework's own count in place
of glibc's, `reset_peak` and `peak` peak memory, `alive` release by the number of tensors; `wait` a
framework that goes on working after it has returned. A check without its observation is `unsupported`,
for the reason given in `unobserved`. docs/adapters.md lists the methods that adapters write.

An exception becomes a verdict on the case, or ends the run:

- `NotEmittedError` out of `write`: `unsupported: the adapter does not write the operation`, with its
  name, and `NotOfferedError`: `unsupported: the adapter does not write`, with that part of the case;
- `LackingError` out of `observe`: `unsupported: lacks`, with what it says that the installed release
  does not have;
- anything else out of `write`, or out of `observe`: `broken`, and never held against the framework;
- a worker process that dies or does not answer: `crashed`, `timeout`;
- anything out of importing `observe.py`, making an `Observer` or `warm_up`: the run ends.

An exception raised by the program itself is not raised by the observer, but returned as `Run.error`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # keeps the imports of workers few, since they start often
    from conformance.model.observation import Observation
    from conformance.model.program import Program, Site


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
