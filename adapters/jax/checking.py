"""How a model that a user wrote is trained in JAX, and what is seen of it."""

from __future__ import annotations

import inspect
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
from jax._src import source_info_util

from conformance.observe.worker.checking import base
from conformance.observe.worker.checking.base import LEARNING_RATE, Watch
from conformance.observe.worker.checking.regions import Recompute

from .jaxprs import CALLS, IDENTITIES, RERUN
from .observe import Observer

#: Whether JAX reads a user's frame from a source info and not, as since 0.7, from its traceback.
_BY_INFO = "source_info" in inspect.signature(source_info_util.user_frame).parameters
#: Why reruns are not told where recomputation brings derivative rules and nothing has their name.
_BY_RULE = "a rule of `jax.custom_vjp` computes the gradient, and what it runs again has no name"


class Trained(base.Trained):
    """A pytree whose arrays of floats are trained, or a module of Flax NNX.

    The step is compiled (`jax.jit`), unless the program's file says `jit = False`.
    """

    def __init__(self, file: ModuleType, model: Any, watch: Watch) -> None:
        super().__init__(file, model, watch)
        nnx = sys.modules.get("flax.nnx")
        self._parts: _Pytree | _Nnx = (
            _Pytree(model) if nnx is None or not isinstance(model, nnx.Module) else _Nnx(nnx, model)
        )
        self.current: dict[str, Any] = self._parts.parameters()
        self._buffers: dict[str, Any] = self._parts.buffers()
        self._state: Any = None
        if self.optimizer is not None:
            self._state = self.optimizer.init(self.current)
        step = jax.value_and_grad(self.loss_of, has_aux=True)
        self._step = step if getattr(file, "jit", True) is False else jax.jit(step)

    def loss_of(self, parameters: Mapping[str, Any], buffers: Any, batch: Any) -> Any:
        """The loss, and beside it what the program returned and the buffers after the step."""
        model = self._parts.merged(parameters, buffers)
        returned = self.file.loss(model, batch)
        loss = returned[0] if isinstance(returned, tuple) else returned
        return loss, (returned, self._parts.after(model))

    def parameters(self) -> Mapping[str, Any]:
        return self.current

    def buffers(self) -> Mapping[str, Any]:
        return self._buffers

    def differentiate(self, batch: Any) -> tuple[Any, Mapping[str, Any]]:
        if self.watch.reading:
            return self._in_two(batch)
        self.watch.enters("forward or backward")  # one compiled function
        (_, (returned, after)), gradients = self._step(self.current, self._buffers, batch)
        jax.block_until_ready(gradients)
        self._after = after
        return returned, gradients

    def _in_two(self, batch: Any) -> tuple[Any, Mapping[str, Any]]:
        """Forward and backward one after the other: what is kept lies between them."""
        self.watch.starts("forward")
        _, pullback, (returned, self._after) = jax.vjp(
            lambda parameters: self.loss_of(parameters, self._buffers, batch),
            self.current,
            has_aux=True,
        )
        loss = returned[0] if isinstance(returned, tuple) else returned
        self.watch.starts("backward", jax.tree.leaves((returned, self._after)))
        (gradients,) = pullback(jnp.ones_like(loss))
        jax.block_until_ready(gradients)
        return returned, gradients

    def update(self, gradients: Mapping[str, Any]) -> None:
        if self.optimizer is not None:
            moves, self._state = self.optimizer.update(gradients, self._state, self.current)
            self.current = jax.tree.map(lambda p, move: p + move, self.current, moves)
        else:
            self.current = jax.tree.map(lambda p, g: p - LEARNING_RATE * g, self.current, gradients)
        self._buffers = self._after

    def start_as(self, other: base.Trained) -> None:
        assert isinstance(other, Trained)
        self.current = {name: other.current.get(name, own) for name, own in self.current.items()}

    def compiled(self, batch: Any) -> Any:
        """The compiled step, for what JAX says of its memory."""
        step = jax.jit(jax.value_and_grad(self.loss_of, has_aux=True))
        return step.lower(self.current, self._buffers, batch).compile()

    def jaxprs(self, batch: Any) -> tuple[Any, Any]:
        """The forward pass and the whole step, as jaxprs."""
        given = (self.current, self._buffers, batch)
        step = jax.value_and_grad(self.loss_of, has_aux=True)

        def jaxpr(function: Callable[..., Any]) -> Any:
            return jax.make_jaxpr(lambda *values: jax.tree.leaves(function(*values)))(*given)

        return jaxpr(self.loss_of), jaxpr(step)


class _Pytree:
    """A model that is any pytree."""

    def __init__(self, model: Any) -> None:
        found, self._tree = jax.tree_util.tree_flatten_with_path(model)
        self._names = [".".join(str(key).strip("[]'.") for key in path) for path, _ in found]
        self._values = [value for _, value in found]

    def parameters(self) -> dict[str, Any]:
        return {
            n: jnp.asarray(v)
            for n, v in zip(self._names, self._values, strict=True)
            if _is_trained(v)
        }

    def buffers(self) -> dict[str, Any]:
        return {}

    def merged(self, parameters: Mapping[str, Any], buffers: Mapping[str, Any]) -> Any:
        pairs = zip(self._names, self._values, strict=True)
        return jax.tree.unflatten(
            self._tree, [parameters.get(name, value) for name, value in pairs]
        )

    def after(self, model: Any) -> dict[str, Any]:
        return {}


class _Nnx:
    """A module of Flax NNX: its parameters are trained, and all else in it is state."""

    def __init__(self, nnx: Any, model: Any) -> None:
        self._nnx = nnx
        self._graph, trained, rest = nnx.split(model, nnx.Param, ...)
        self._trained, self._rest = _Pytree(trained), _Pytree(rest)
        self._all = dict(_Nnx.named(rest))

    def parameters(self) -> dict[str, Any]:
        return self._trained.parameters()

    def buffers(self) -> dict[str, Any]:
        return dict(self._all)

    def merged(self, parameters: Mapping[str, Any], buffers: Mapping[str, Any]) -> Any:
        trained = self._trained.merged(parameters, {})
        return self._nnx.merge(self._graph, trained, self._rest.merged(buffers, {}))

    def after(self, model: Any) -> dict[str, Any]:
        rest = self._nnx.split(model, self._nnx.Param, ...)[2]
        return dict(_Nnx.named(rest))

    @staticmethod
    def named(rest: Any) -> Iterator[tuple[str, Any]]:
        of = _Pytree(rest)
        yield from zip(of._names, of._values, strict=True)


def _is_trained(value: Any) -> bool:
    return hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.inexact)


class Framework(base.Framework):
    """JAX on the CPU."""

    unit = "operations"
    recomputes: Sequence[Recompute] = (
        Recompute("jax", "checkpoint", "transform"),
        Recompute("jax", "remat", "transform"),
    )

    def __init__(self) -> None:
        super().__init__(Observer("eager"))
        self._rules: int | None = None

    def seed(self, number: int) -> None:
        """Nothing: JAX has no global generator."""

    def trained(self, file: ModuleType, model: Any, watch: Watch) -> Trained:
        trained = Trained(file, model, watch)
        if not trained.current:
            found = type(model).__name__
            raise TypeError(f"`model` returned a {found}, which is no pytree with arrays of floats")
        return trained

    def peak_of(self, trained: base.Trained, batch: Any) -> int | None:
        assert isinstance(trained, Trained)
        found = trained.compiled(batch).memory_analysis()
        return None if found is None else int(found.temp_size_in_bytes + found.output_size_in_bytes)

    @contextmanager
    def counting(self, trained: base.Trained) -> Iterator[Callable[[], Mapping[str, int]]]:
        """Count equations: Python runs a region once, while JAX traces it."""
        assert isinstance(trained, Trained)
        batches: list[Any] = []
        load = trained.file.batch

        def batch(step: int) -> Any:
            batches.append(load(step))
            return batches[-1]

        trained.file.batch = batch  # type: ignore[attr-defined]
        try:
            yield lambda: self._counted(*trained.jaxprs(batches[-1]))
        finally:
            trained.file.batch = load  # type: ignore[attr-defined]

    def _counted(self, forward: Any, step: Any) -> Mapping[str, int]:
        """The counts of a step, of which the first is without recomputation."""
        counts = _counts(forward, step)
        rules = sum(
            equation.primitive.name == "custom_vjp_call" for equation in _all(forward.jaxpr)
        )
        self._rules = rules if self._rules is None else self._rules
        named = any(RERUN in str(equation.source_info.name_stack) for equation in _all(step.jaxpr))
        self.uncounted = _BY_RULE if rules > self._rules and not named else ""
        return counts


def _counts(forward: Any, step: Any) -> Mapping[str, int]:
    """How often each function computes something: in the forward pass, and again in backward."""
    once: dict[str, Counter[str]] = defaultdict(Counter)
    again: dict[str, Counter[str]] = defaultdict(Counter)
    for place, primitive, _ in _equations(forward.jaxpr, "", False):
        once[place][primitive] += 1
    for place, primitive, rerun in _equations(step.jaxpr, "", False):
        again[place][primitive] += rerun
    return {place: n.total() + (n & again[place]).total() for place, n in once.items()}


def _equations(jaxpr: Any, around: str, rerun: bool) -> Iterator[tuple[str, str, bool]]:
    """The equations that compute something, with the function of the program that they come from."""
    for equation in jaxpr.eqns:
        info = equation.source_info
        again = rerun or RERUN in str(info.name_stack)
        frame = source_info_util.user_frame(info if _BY_INFO else info.traceback)
        place = around if frame is None else frame.function_name.replace("<locals>.", "")
        inner = [sub for value in equation.params.values() for sub in _jaxprs(value)]
        for one in inner:
            yield from _equations(one, place, again)
        if not inner and equation.primitive.name not in CALLS | IDENTITIES:
            yield place, equation.primitive.name, again


def _all(jaxpr: Any) -> Iterator[Any]:
    """All equations, those inside others included."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for inner in _jaxprs(value):
                yield from _all(inner)


def _jaxprs(value: Any) -> list[Any]:
    if hasattr(value, "eqns"):
        return [value]
    if hasattr(value, "jaxpr"):
        return _jaxprs(value.jaxpr)
    if isinstance(value, tuple | list):
        return [one for part in value for one in _jaxprs(part)]
    return []
