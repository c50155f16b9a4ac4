"""A program that has been imported, and which of its two forward functions is observed."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from conformance.drivers.modules import load_file
from conformance.model.program import Program


@dataclass(frozen=True)
class LoadedProgram:
    """An imported program with the forward function that is observed.

    `path` is the name of that function, `plain` or `recomputed`, and `forward` the function itself.
    `run()` runs forward and backward with it and returns the program's results (`outputs`, `losses`,
    `gradients`, ...); keyword arguments are passed to the program's own `run`. A pass may run the
    program in another way by `replace(loaded, run=...)`.
    """

    program: Program
    module: ModuleType
    path: str
    forward: Callable[..., Any]
    run: Callable[..., Any]

    @property
    def called(self) -> Callable[..., Any]:
        """The function that runs the forward pass: `forward`, or the method of the class whose objects
        `forward` makes."""
        made: Any = getattr(self.module, self.path.capitalize(), None)
        return made.__call__ if isinstance(made, type) else self.forward

    def alone(self, other: Callable[[], Any] = lambda: None) -> Any:
        """The result of the forward pass alone; `other` makes what it is given beside the inputs."""
        given = self.module.inputs()
        names = [name for name in inspect.signature(self.called).parameters if name != "self"]
        called, passed = self.forward, {n: given[n] if n in given else other() for n in names}
        if self.called is not called:
            called = called({name: value for name, value in given.items() if name not in names})
        return called(**passed)

    @classmethod
    def of(cls, program: Program, module: ModuleType, path: str) -> LoadedProgram:
        """The program that `module` was imported from, with its function `path`."""
        forward = getattr(module, path)
        return cls(program, module, path, forward, partial(module.run, forward))


def load_program(program: Program) -> ModuleType:
    """The emitted program as a module; files beside it can be imported by it."""
    folder = str(Path(program.file).parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = "program_" + "".join(c if c.isalnum() else "_" for c in program.file)
    sys.modules.pop(name, None)
    return load_file(Path(program.file), name)
