"""How JAX is observed: jaxprs with source lines, optimised HLO, and the arrays that are alive."""

from __future__ import annotations

import ast
import gc
import inspect
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from conformance.adapter import load_file
from conformance.observation import Draw, Execution, Leaf, Observation, Phase, Run
from conformance.program import Program, Site
from conformance.worker.observer import Observer as Base

_here = Path(__file__).parent
jaxprs: Any = load_file(_here / "jaxprs.py", "conformance_adapter_jax_jaxprs")
hlo: Any = load_file(_here / "hlo.py", "conformance_adapter_jax_hlo")

#: By region, statement and primitive.
Held = Counter[tuple[str, str, str]]


class Observer(Base):
    """Observes JAX on the CPU: `eager` or `jit`.

    An eager program dispatches its operations one after the other, and what it dispatches is what
    tracing all of `run` gives. A jitted one is compiled, and what counts is what is left in the
    optimised module.
    """

    def __init__(self, variant: str) -> None:
        super().__init__(variant)
        self.methods = {
            "executions": "jaxpr of the whole run, values by program line",
            "randomness": "values of the jaxpr's random equations",
            "retained memory": "arrays alive when backward starts",
        }
        if variant == "jit":
            self.methods["executions"] = "optimised HLO against plain's, values by program line"
        #: What the optimised modules of the plain run compute: the control of the recomputed one.
        self._control: tuple[Held, Held] = (Counter(), Counter())

    def warm_up(self) -> None:
        jax.block_until_ready(jax.grad(lambda x: jnp.sin(x).sum())(jnp.ones(2)))

    def observe(self, program: Program) -> Observation:
        jax.config.update("jax_enable_x64", False)  # a program before this one may have set it
        return super().observe(program)

    def unobserved(self, program: Program) -> Mapping[str, str]:
        if self.variant == "jit":
            reason = "one executable holds forward and backward, with no boundary between them"
            return {"retained memory": reason}
        if program.procedure == "second_order":
            reason = "what first and second order keep lies in one pass, with no boundary between"
            return {"retained memory": reason}
        return {}

    def leaf(self, value: object) -> Leaf | None:
        if not isinstance(value, jax.Array):
            return None
        if _is_key(value):
            return Leaf(np.array(jax.random.key_data(value)), str(value.dtype))
        dtype = str(value.dtype)
        array = np.array(value.astype(jnp.float32) if dtype == "bfloat16" else value)
        return Leaf(array, dtype)

    # -- memory --------------------------------------------------------------------------------

    def settle(self) -> None:
        for array in jax.live_arrays():
            array.block_until_ready()
        gc.collect()

    def held(self) -> int | None:
        """Bytes of the distinct buffers of all arrays that are alive."""
        found = {self.identity(array): array.nbytes for array in jax.live_arrays()}
        return sum(found.values())

    def nbytes(self, value: object) -> int:
        if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
            return 0
        return int(jax.random.key_data(value).nbytes if _is_key(value) else value.nbytes)

    def identity(self, value: object) -> int:
        if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
            return id(value)
        if _is_key(value):
            value = jax.random.key_data(value)
        return int(value.unsafe_buffer_pointer())

    # -- executions ----------------------------------------------------------------------------

    def count(
        self, program: Program, module: ModuleType, forward: Callable[..., Any], run: Run
    ) -> Run:
        walk = jaxprs.Walk(program)
        alone = walk.run(jax.make_jaxpr(lambda: _arrays(_forward(module, forward)))())
        known = walk.known = jaxprs.signatures(walk, alone)
        events = walk.run(jax.make_jaxpr(lambda: _arrays(module.run(forward)))())
        counts = jaxprs.count(events, known)
        rerun, shown = counts.rerun, list(known)
        if self.variant == "jit":
            held = _held(program, module, forward)
            if forward.__name__ == "plain":
                self._control = held
            rerun = Counter()
            for site, signature in known.items():
                keys = [(site.region, site.label, name) for name in signature.primitives]
                more = (h[k] - c[k] for h, c in zip(held, self._control, strict=True) for k in keys)
                rerun[site] = max(0, min(counts.rerun[site], max(more)))
                if not any(held[0][key] for key in keys):
                    shown.remove(site)
        draws = tuple(
            Draw(site.region, site.label, "rerun" if again else "forward", np.array(walk.value(n)))
            for site, again, n in counts.drawn
        )
        found = _executions(program, forward.__name__, counts.forward, rerun, shown)
        return replace(run, executions=found, draws=draws if program.random else None)


def _forward(module: ModuleType, forward: Callable[..., Any]) -> Any:
    """The forward pass alone; the argument that is no input is the key."""
    given = module.inputs()
    others = [name for name in inspect.signature(forward).parameters if name not in given]
    return forward(**given, **{name: jax.random.key(0) for name in others})


def _held(program: Program, module: ModuleType, forward: Callable[..., Any]) -> tuple[Held, Held]:
    """Instructions, and their distinct values, in the optimised modules that a run executes.

    Where either are more than in those of the plain run, values are computed again. Where the compiler
    has taken a rerun and its forward for one, they are not, and both are as in the plain run.
    """
    instructions: Held = Counter()
    values: Held = Counter()
    original = jax.jit

    def jit(function: Any, *args: Any, **kwargs: Any) -> Any:
        jitted = original(function, *args, **kwargs)
        if function.__code__.co_filename != program.file:
            return jitted
        ready: list[Any] = []

        def call(*arguments: Any) -> Any:
            if not ready:
                ready.append(jitted.lower(*arguments).compile())
                ready.append(hlo.computed(ready[0].as_text(), program))
            for into, found in (
                (instructions, ready[1].instructions),
                (values, ready[1].values),
            ):
                for (site, primitive), number in found.items():
                    into[site.region, site.label, primitive] += number
            return ready[0](*arguments)

        return call

    with mock.patch.object(jax, "jit", jit):
        module.run(forward)
    return instructions, values


def _executions(
    program: Program,
    path: str,
    forward: Mapping[Site, int],
    rerun: Mapping[Site, int],
    shown: Collection[Site],
) -> tuple[Execution, ...]:
    """Counts as observation values, of the statements that are shown and of all regions.

    A region counts as its busiest statement does; one of nothing but regions is entered as often as
    they are, and has nothing of its own to rerun.
    """
    found: list[Execution] = []
    phases: tuple[tuple[Phase, Mapping[Site, int]], ...] = (("forward", forward), ("rerun", rerun))
    inner = _inner_regions(program, path)
    for phase, counts in phases:
        own: dict[str, int] = {}
        for site in counts:
            own[site.region] = max(own.get(site.region, 0), counts[site])

        def entered(name: str, own: dict[str, int] = own, phase: Phase = phase) -> int:
            if name in own or phase == "rerun":
                return own.get(name, 0)
            return max(map(entered, inner[name]), default=0)

        found += [Execution(name, "", phase, entered(name)) for name in inner]
        found += [Execution(s.region, s.label, phase, counts.get(s, 0)) for s in shown]
    return tuple(found)


def _inner_regions(program: Program, path: str) -> dict[str, list[str]]:
    """For each region of a forward pass the regions directly inside it, outer ones first."""
    found: dict[str, list[str]] = {}

    def visit(node: ast.AST, around: str) -> None:
        for child in ast.iter_child_nodes(node):
            site = program.lines.get(child.lineno) if isinstance(child, ast.FunctionDef) else None
            if site is not None and site.kind == "region" and site.path == path:
                found[site.region] = []
                if around:
                    found[around].append(site.region)
                visit(child, site.region)
            else:
                visit(child, around)

    visit(ast.parse(program.text), "")
    return found


def _is_key(value: Any) -> bool:
    return bool(jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key))


def _arrays(result: Any) -> list[Any]:
    """The arrays in a result: tracing puts out nothing else."""
    return [leaf for leaf in jax.tree.leaves(result) if isinstance(leaf, jax.Array)]
