"""The executables of a program's jitted functions: each compiled once, then run and inspected.

A program creates its jitted functions whenever it runs. Here each is compiled with `lower` and
`compile` when it is first called, and later runs use that executable: executions and memory are read
from the very executable that computed the values.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any
from unittest import mock

import jax
from jax._src import compiler

from conformance.model.program import Program

from . import hlo, jaxprs

#: The type of an array as JAX traces it; `jax.typeof` came with JAX 0.6.
_TYPE_OF = jax.typeof if hasattr(jax, "typeof") else jax.core.get_aval
#: What calls XLA's compiler; the second up to JAX 0.5.
_COMPILE = next(
    name for name in ("backend_compile_and_load", "backend_compile") if hasattr(compiler, name)
)


def scoped(function: Any) -> Any:
    """The function in a scope of its own: up to JAX 0.6, name stacks show transformations only of names
    that are there."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with jax.named_scope("run"):
            return function(*args, **kwargs)

    return run


@contextmanager
def compiled_once() -> Iterator[None]:
    """Inside the `with`, XLA compiles equal modules only once.

    For passes that run a whole program many times. JAX still traces and lowers each time, so its own
    caches behave as usual.
    """
    known: dict[tuple[bytes, bytes], Any] = {}
    original = getattr(compiler, _COMPILE)

    def compiled(backend: Any, module: Any, *rest: Any) -> Any:
        *_, options, host_callbacks = rest
        if host_callbacks:
            return original(backend, module, *rest)
        text = BytesIO()
        module.operation.write_bytecode(text)
        key = text.getvalue(), options.SerializeAsString()
        if key not in known:
            known[key] = original(backend, module, *rest)
        return known[key]

    with mock.patch.object(compiler, _COMPILE, compiled):
        yield


@dataclass
class Executable:
    """A function, compiled for arguments of one `kind`; `jaxpr` is what it was compiled from."""

    name: str
    kind: tuple[Any, ...]
    jaxpr: Any
    compiled: Any
    counts: hlo.Computed | None = None

    @property
    def temporary(self) -> int:
        """Bytes of temporary buffers while it runs, by XLA's memory analysis."""
        return int(self.compiled.memory_analysis().temp_size_in_bytes)

    @property
    def output(self) -> int:
        """Bytes of its outputs, by XLA's memory analysis."""
        return int(self.compiled.memory_analysis().output_size_in_bytes)

    def computed(self, program: Program) -> hlo.Computed:
        """What the optimised module computes for the program's statements, read once. A jitted function
        that ends two phases, `finish`, is a backward pass of its own."""
        if self.counts is None:
            apart = self.name.endswith(".finish")
            self.counts = hlo.computed(self.compiled.as_text(), program, apart=apart)
        return self.counts


@dataclass(frozen=True)
class Called:
    """One call of an executable.

    `copies` maps address to bytes, for the buffers of its second result (the residuals) that hold the
    same array as an argument or another result. `given` and `gave` are the leaves of its arguments and
    of its results, or empty where they are not kept.
    """

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
        """Inside the `with`, `jax.jit` in the program gives the executables that are known here. `keep`
        says whether their arguments and results are kept, for `taken`."""
        self.calls, self._keep = [], keep
        if self._program.ranks > 1:
            yield
            return
        original = jax.jit

        def jit(function: Any, *args: Any, **kwargs: Any) -> Any:
            jitted = original(scoped(function), *args, **kwargs)
            own = inspect.unwrap(function)  # of jax.value_and_grad, what it differentiates
            if own.__code__.co_filename != self._program.file:
                return jitted
            return lambda *arguments: self._call(jitted, function, arguments)

        with mock.patch.object(jax, "jit", jit):
            yield

    def _call(self, jitted: Any, function: Any, arguments: tuple[Any, ...]) -> Any:
        kind = _kind(arguments)
        for known in self._known:
            if known.name == function.__qualname__ and known.kind == kind:
                break
        else:
            traced = jitted.trace(*arguments)
            compiled = traced.lower().compile()
            known = Executable(function.__qualname__, kind, traced.jaxpr, compiled)
            self._known.append(known)
        result = known.compiled(*arguments)
        kept = (jax.tree.leaves(part) if self._keep else () for part in (arguments, result))
        copies = _copies(known.jaxpr, arguments, result)
        self.calls.append(Called(known, copies, *map(tuple, kept)))
        return result

    def taken(self) -> list[Called]:
        """The calls with their arguments and results, which are then dropped here."""
        calls = self.calls
        self.calls = [replace(called, given=(), gave=()) for called in calls]
        return calls


def _kind(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    leaves, structure = jax.tree.flatten(arguments)
    return structure, *((leaf.shape, leaf.dtype, str(_TYPE_OF(leaf))) for leaf in leaves)


def _copies(closed: Any, arguments: Any, result: Any) -> dict[int, int]:
    """Bytes by address of the residual buffers (second result) whose array is also an argument, another
    result, or an earlier residual."""
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
    bytes_by_address: dict[int, int] = {}
    for i in own:
        if id(variables[i]) in elsewhere:
            bytes_by_address[buffer(leaves[i])] = nbytes(leaves[i])
        else:
            needed.add(buffer(leaves[i]))
            elsewhere.add(id(variables[i]))
    return {address: size for address, size in bytes_by_address.items() if address not in needed}


def nbytes(array: Any) -> int:
    """The bytes of an array's elements; of a key, of its data's."""
    return int((jax.random.key_data(array) if jaxprs.is_key(array) else array).nbytes)


def buffer(array: Any) -> int:
    """The address of an array's elements; of a key, of its data's, and of what is divided among devices,
    of the first one's part."""
    return next(iter(parts(array)))


def parts(array: Any) -> dict[int, int]:
    """The bytes of an array on each device, by address; of a key, of its data."""
    if jaxprs.is_key(array):
        array = jax.random.key_data(array)
    if len(array.devices()) > 1:
        shards = (shard.data for shard in array.addressable_shards)
        return {int(part.unsafe_buffer_pointer()): int(part.nbytes) for part in shards}
    return {int(array.unsafe_buffer_pointer()): int(array.nbytes)}
