"""The executables of a program's jitted functions: compiled once, run and looked at as they are.

A program makes its jitted functions anew whenever it runs. Here each is compiled when it is first
called, by `jax.jit`'s own way through `lower` and `compile`, and that executable serves the runs that
follow: what is counted and measured is what gave the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any
from unittest import mock

import jax
from jax._src import compiler

from conformance.model.program import Program


@contextmanager
def compiled_once() -> Iterator[None]:
    """Inside the `with`, XLA compiles a module once, however often the program makes a function of it.

    For passes that run a whole program many times. JAX traces and lowers each time, so that what it
    keeps of doing so is kept as ever.
    """
    known: dict[tuple[bytes, bytes], Any] = {}
    original = compiler.backend_compile_and_load

    def compiled(backend: Any, module: Any, devices: Any, options: Any, host_callbacks: Any) -> Any:
        if host_callbacks:
            return original(backend, module, devices, options, host_callbacks)
        text = BytesIO()
        module.operation.write_bytecode(text)
        key = text.getvalue(), options.SerializeAsString()
        if key not in known:
            known[key] = original(backend, module, devices, options, host_callbacks)
        return known[key]

    with mock.patch.object(compiler, "backend_compile_and_load", compiled):
        yield


@dataclass
class Executable:
    """A function, compiled for arguments of one kind. `jaxpr` is what it was compiled from."""

    name: str
    kind: tuple[Any, ...]
    jaxpr: Any
    compiled: Any
    #: What `text` holds, once something was made of it.
    read: dict[str, Any] = field(default_factory=dict)

    @property
    def temporary(self) -> int:
        """Bytes that it takes for itself while it runs."""
        return int(self.compiled.memory_analysis().temp_size_in_bytes)

    @property
    def output(self) -> int:
        """Bytes of what it puts out."""
        return int(self.compiled.memory_analysis().output_size_in_bytes)

    def once(self, make: Callable[[str], Any]) -> Any:
        """What `make` makes of the optimised module's text, made once."""
        if "made" not in self.read:
            self.read["made"] = make(self.compiled.as_text())
        return self.read["made"]


@dataclass(frozen=True)
class Called:
    """One call of an executable. `copies` are the buffers in what its second result holds, by address,
    that repeat an argument or another result: (address, bytes). `given` and `gave` are the leaves of its
    arguments and of its results, where they are kept."""

    executable: Executable
    copies: Mapping[int, int]
    given: tuple[Any, ...] = ()
    gave: tuple[Any, ...] = ()


class Executables:
    """Those of one forward pass (`plain` or `recomputed`) of a program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: list[Executable] = []
        self._keep = False
        #: Of the last time that it was active, in order.
        self.calls: list[Called] = []

    @contextmanager
    def active(self, *, keep: bool = False) -> Iterator[None]:
        """Inside the `with`, the program's jitted functions run as the executables known here. `keep`
        says whether their arguments and results are kept, for `taken`."""
        self.calls, self._keep = [], keep
        original = jax.jit

        def jit(function: Any, *args: Any, **kwargs: Any) -> Any:
            jitted = original(function, *args, **kwargs)
            if function.__code__.co_filename != self._program.file:
                return jitted
            return lambda *arguments: self._call(jitted, function, arguments)

        with mock.patch.object(jax, "jit", jit):
            yield

    def _call(self, jitted: Any, function: Any, arguments: tuple[Any, ...]) -> Any:
        kind = _kind(arguments)
        for found in self._known:
            if found.name == function.__qualname__ and found.kind == kind:
                break
        else:
            traced = jitted.trace(*arguments)
            compiled = traced.lower().compile()
            found = Executable(function.__qualname__, kind, traced.jaxpr, compiled)
            self._known.append(found)
        result = found.compiled(*arguments)
        kept = (jax.tree.leaves(part) if self._keep else () for part in (arguments, result))
        copies = _copies(found.jaxpr, arguments, result)
        self.calls.append(Called(found, copies, *map(tuple, kept)))
        return result

    def taken(self) -> list[Called]:
        """The calls with what they were given and gave, which is kept no longer."""
        found = self.calls
        self.calls = [replace(called, given=(), gave=()) for called in found]
        return found


def _kind(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    leaves, structure = jax.tree.flatten(arguments)
    return structure, *((leaf.shape, leaf.dtype, str(jax.typeof(leaf))) for leaf in leaves)


def _copies(closed: Any, arguments: Any, result: Any) -> dict[int, int]:
    """Buffers of the residuals (the second of the results) that hold what is held elsewhere too: an
    argument, another result, or a residual before them."""
    if not isinstance(result, tuple) or len(result) < 3:
        return {}
    first, held = (len(jax.tree.leaves(part)) for part in result[:2])
    leaves, variables = jax.tree.leaves(result), closed.jaxpr.outvars
    own = range(first, first + held)
    elsewhere = {id(v) for v in closed.jaxpr.invars}
    elsewhere |= {id(v) for i, v in enumerate(variables) if i not in own}
    given = jax.tree.leaves(arguments)  # references among them, which no result can be
    needed = {buffer(leaf) for leaf in given if isinstance(leaf, jax.Array)}
    needed |= {buffer(leaf) for i, leaf in enumerate(leaves) if i not in own}
    found: dict[int, int] = {}
    for i in own:
        if id(variables[i]) in elsewhere:
            found[buffer(leaves[i])] = int(leaves[i].nbytes)
        else:
            needed.add(buffer(leaves[i]))
            elsewhere.add(id(variables[i]))
    return {address: size for address, size in found.items() if address not in needed}


def buffer(array: Any) -> int:
    """The address of an array's elements; of a key, of its data's."""
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    return int(array.unsafe_buffer_pointer())
