"""Reverse-mode differentiation in NumPy, in float64, with functions that are recomputed in backward.

    x = tensor(np.ones((2, 3)), gradient=True)
    block = recompute(lambda x: tanh(sin(x)))
    loss = sum(block(x))
    (g,) = gradient(loss, [x])

Every floating tensor holds float64 elements; its `dtype` names what it stands for (`float32`,
`bfloat16`, ...), and decides how a cast rounds and how many bytes `retained` counts. Gradients are
made of the same operations as programs are, so that they can be differentiated again.

Operations are recorded as they run, in a graph that a backward pass walks. An operation saves what its
gradient reads and nothing else. A region (a function given to `recompute`) saves nothing from inside:
it keeps the tensors that it was given and those that its function reads by closure, and in backward
runs the function again to record what is missing. Needs NumPy and nothing else: programs that the
suite writes have a copy of this file beside them.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
import random
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from types import EllipsisType
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

P = ParamSpec("P")
T = TypeVar("T")
#: float64, complex128, int64 or bool.
Elements = NDArray[Any]
Shape = tuple[int, ...]
#: A place in the graph: a vertex, and which of its results.
Key = tuple["Vertex", int]
#: For each input of an operation: whether its cotangent is wanted, and (`Cotangents`) the cotangent.
Wanted = Sequence[bool]
Cotangents = Sequence["Tensor | None"]
#: The residuals of an operation, by position; `None` for one that no differentiated input needs.
Saved = Sequence["Tensor | _Out | None"]
#: A function that returns these, given for each input whether a gradient can reach it.
Chooses = Callable[..., Saved]
#: `back(cotangent, wanted, *saved)`: the cotangents of the inputs. It does not use residuals that are
#: `None`.
Back = Callable[..., Cotangents]
#: The states of generators, of NumPy's global one and of Python's, each in the library's own format.
RandomState = tuple[list[tuple[np.random.Generator, Mapping[str, Any]]], Any, tuple[Any, ...]]

ITEMSIZE = {"bool": 1, "bfloat16": 2, "float16": 2}
#: The dtype of a Python number among an operation's arguments. It has no part in promotion.
NUMBER = ""
_number = itertools.count()
_erf = np.vectorize(math.erf, otypes=[np.float64])


class Tensor:
    """Elements, the dtype that they stand for, and a place in the graph where a gradient can reach it:
    `node` made it as its result number `index`.

    `scope` is the run of a region's function that it was made in, `None` outside: a tensor of another
    scope is one that the function reads by closure.
    """

    __slots__ = ("__weakref__", "data", "dtype", "index", "node", "scope")

    def __init__(
        self,
        data: Elements,
        dtype: str,
        node: Vertex | None = None,
        index: int = 0,
        scope: Frame | None = None,
    ) -> None:
        self.data, self.dtype, self.node, self.index = data, dtype, node, index
        self.scope = scope

    @property
    def shape(self) -> Shape:
        return self.data.shape

    @property
    def nbytes(self) -> int:
        """Bytes at the dtype that the tensor stands for, not of the float64 elements."""
        return self.data.size * itemsize(self.dtype)

    @property
    def key(self) -> Key | None:
        """Its place in the graph; `None` where no gradient can reach it."""
        return None if self.node is None else (self.node, self.index)

    def numpy(self) -> Elements:
        """The elements: float64, int64 or bool."""
        return self.data

    def __repr__(self) -> str:
        return f"{self.data!r} [{self.dtype}]"


def itemsize(dtype: str) -> int:
    """Bytes of one element of a dtype, by name."""
    return ITEMSIZE.get(dtype) or np.dtype(dtype).itemsize


def is_float(dtype: str) -> bool:
    """Whether a dtype, by name, is a floating or a complex one: a gradient can flow through it."""
    return "float" in dtype or "complex" in dtype


def tensor(elements: ArrayLike, dtype: str = "float32", gradient: bool = False) -> Tensor:
    """A tensor of those elements, rounded to `dtype` and then held in float64 (or int64, bool)."""
    node = Leaf() if gradient and is_float(dtype) else None
    return Tensor(rounded(np.asarray(elements), dtype), dtype, node)


def rounded(elements: Elements, dtype: str) -> Elements:
    """Elements rounded to a dtype, as float64, complex128, int64 or bool; always a new array."""
    if dtype == "bool":
        return elements.astype(np.bool_)
    if not is_float(dtype):
        return elements.astype(dtype).astype(np.int64)
    if "complex" in dtype:
        return elements.astype(dtype).astype(np.complex128)
    if dtype != "bfloat16":
        return elements.astype(dtype).astype(np.float64)
    single = np.ascontiguousarray(elements, np.float32)
    bits: Elements = single.view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    near = bits.astype(np.uint32).view(np.float32).reshape(np.shape(elements))
    return np.where(np.isfinite(near), near, elements).astype(np.float64)


def promote(*dtypes: str | None) -> str:
    """The dtype of a result whose operands have these dtypes; `None` (a Python number) is ignored.

    Promotion is NumPy's; `bfloat16` with another floating dtype gives `float32` (with `float64`,
    `float64`).
    """
    known = [d for d in dtypes if d is not None] or ["float32"]
    if len(set(known)) == 1:
        return known[0]
    if "bfloat16" in known:
        others = {d for d in known if d != "bfloat16" and is_float(d)}
        return "float32" if others - {"float64"} else "float64" if others else "bfloat16"
    return str(np.result_type(*known))


# -- the graph -------------------------------------------------------------------------------------


class Vertex:
    """A vertex of the graph, which tensors result from. A later one has a greater `seq`; `inputs` are
    the keys of the tensors that it reads, `saved` its residuals."""

    seq: int
    inputs: Sequence[Key | None]
    saved: Sequence[Tensor | _Own | None]

    def gradients(self, cotangents: Cotangents, wanted: Wanted, task: _Task) -> Cotangents:
        """The cotangents of the inputs that are wanted, given those of the results."""
        raise NotImplementedError


class Leaf(Vertex):
    """A tensor that the program starts from and that requires a gradient."""

    inputs = ()
    saved = ()
    seq = -1


class Node(Vertex):
    """One recorded operation: the keys of its inputs, and its residuals.

    `saved` holds tensors; an `OUT` among them becomes the operation's own result, as `_Own`.
    """

    def __init__(self, inputs: Sequence[Tensor], saved: Saved, back: Back, out: Tensor) -> None:
        self.seq = next(_number)
        self.inputs = [t.key for t in inputs]
        self.back = back
        self.saved = [_Own(out.data, out.dtype) if s is OUT else s for s in saved]

    def gradients(self, cotangents: Cotangents, wanted: Wanted, task: _Task) -> Cotangents:
        saved = [Tensor(s.data, s.dtype, self, 0) if isinstance(s, _Own) else s for s in self.saved]
        return self.back(cotangents[0], wanted, *saved)


@dataclass
class _Own:
    """A node's own result, without a reference to the node: that would be a cycle."""

    data: Elements
    dtype: str


class _Out(Enum):
    OUT = "out"


OUT: Final = _Out.OUT


@dataclass(eq=False)
class Frame:
    """A run of a region's function. If `keep` is false, no graph is recorded, only which tensors the
    function reads by closure (`outside`, by `id`)."""

    keep: bool
    outside: dict[int, Tensor] = field(default_factory=dict)
    inside: Leaf = field(default_factory=Leaf)


@dataclass
class _State:
    recording: bool = True
    frame: Frame | None = None
    region: str = ""
    phase: str = "forward"
    logging: bool = True
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    explicit: weakref.WeakSet[_Explicit] = field(default_factory=weakref.WeakSet)
    log: list[tuple[str, str, str]] = field(default_factory=list)


_state = _State()


@contextmanager
def _set(**values: object) -> Iterator[None]:
    before = {name: getattr(_state, name) for name in values}
    for name, value in values.items():
        setattr(_state, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(_state, name, value)


def no_gradient() -> AbstractContextManager[None]:
    """A `with` block in which nothing is recorded."""
    return _set(recording=False)


def quiet() -> AbstractContextManager[None]:
    """A `with` block in which `executions` records nothing."""
    return _set(logging=False)


def executions() -> list[tuple[str, str, str]]:
    """What ran since the process began, in order: (name of the region's function, or '' outside of
    regions; operation, or '' for the region itself; `forward` or `rerun`)."""
    return _state.log


def _record(
    inputs: Sequence[Tensor],
    data: Elements,
    dtype: str,
    saved: Saved | Chooses = (),
    back: Back | None = None,
) -> Tensor:
    """The result of an operation, linked to its inputs where a gradient can reach it.

    `back(cotangent, wanted, *saved)` returns a cotangent, or `None`, for each input; `saved` may
    be a function of which inputs a gradient can reach.
    """
    frame = _state.frame
    if frame is not None and not frame.keep:
        for t in inputs:
            if t.scope is not frame:
                frame.outside.setdefault(id(t), t)
    out = Tensor(data, dtype, scope=frame)
    reached = [t.node is not None for t in inputs]
    if not _state.recording or back is None or not is_float(dtype) or not any(reached):
        return out
    if frame is not None and not frame.keep:
        out.node = frame.inside
        return out
    out.node = Node(inputs, saved(*reached) if callable(saved) else saved, back, out)
    return out


def _operation(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator that counts calls of a public operation; operations that it calls are not counted."""

    @functools.wraps(function)
    def counted(*args: P.args, **kwargs: P.kwargs) -> T:
        if not _state.logging:
            return function(*args, **kwargs)
        _state.logging = False  # without `_set`, which takes longer than many operations
        try:
            result = function(*args, **kwargs)
        finally:
            _state.logging = True
        _state.log.append((_state.region, function.__name__, _state.phase))
        return result

    return counted


def _as_tensor(value: Tensor | float) -> Tensor:
    if isinstance(value, Tensor):
        return value
    return Tensor(np.asarray(value, np.float64), NUMBER, scope=_state.frame)


def _const(data: ArrayLike, dtype: str = "float32") -> Tensor:
    return Tensor(np.asarray(data, np.float64), dtype, scope=_state.frame)


# -- gradients -------------------------------------------------------------------------------------


class _Task:
    """The state of one call of `gradient`, in which each region is run again at most once."""

    def __init__(self) -> None:
        self.runs: dict[RegionNode, _Run] = {}

    def rerun(self, node: RegionNode) -> _Run:
        if node not in self.runs:
            self.runs[node] = node.rerun(self)
        return self.runs[node]


def gradient(
    target: Tensor,
    wrt: Iterable[Tensor],
    cotangent: Tensor | None = None,
    create_graph: bool = False,
) -> list[Tensor | None]:
    """Gradients of a scalar (or of `sum(target * cotangent)`) with respect to tensors.

    One tensor for each of `wrt`, of its shape, `None` where the target does not depend on it. With
    `create_graph` they can be differentiated again. The graph stays, as with `retain_graph=True` in
    PyTorch: calling twice runs every region twice more. Raises `ValueError` where the target is no
    scalar and there is no cotangent, `RuntimeError` where a region returns another number of tensors
    when it runs again.
    """
    if cotangent is None:
        if target.data.size != 1:
            raise ValueError(f"gradient of a tensor of shape {target.shape}: give a cotangent")
        cotangent = _const(np.ones(target.shape), target.dtype)
    keys = [t.key for t in wrt]
    with _set(recording=create_graph, logging=False, frame=None):
        by_place = _backward([target], [cotangent], {k for k in keys if k}, _Task(), stop=False)
    return [by_place.get(key) if key else None for key in keys]


def total(gradients: Iterable[Tensor | None]) -> Tensor:
    """The sum of all elements of all gradients that are not `None`: a scalar."""
    result = _const(0.0)
    with quiet():
        for g in gradients:
            result = result if g is None else add(result, sum(g))
    return result


def descend(x: Tensor, slope: Tensor | None, rate: float) -> Tensor:
    """A step of SGD: a new leaf `x - rate * slope`, not rounded; x itself if `slope` is `None`."""
    if slope is None:
        return x
    return Tensor(x.data - rate * slope.data, x.dtype, Leaf())


def _backward(
    outputs: Sequence[Tensor],
    cotangents: Sequence[Tensor],
    targets: Set[Key],
    task: _Task,
    stop: bool,
) -> dict[Key, Tensor]:
    """Cotangents of the targets, by key. With `stop` the walk does not go beyond the targets."""
    leads = _leads(outputs, targets, stop)
    cotangent_of: dict[Key, Tensor] = {}
    heap: list[tuple[int, Vertex]] = []
    queued: set[Vertex] = set()

    def give(key: Key | None, value: Tensor | None) -> None:
        if value is None or key is None or not (key in targets or leads.get(key[0])):
            return
        cotangent_of[key] = add(cotangent_of[key], value) if key in cotangent_of else value
        node = key[0]
        if leads.get(node) and not (stop and key in targets) and node not in queued:
            queued.add(node)
            heapq.heappush(heap, (-node.seq, node))

    for output, cotangent in zip(outputs, cotangents, strict=True):
        give(output.key, cotangent)
    while heap:
        node = heapq.heappop(heap)[1]
        count = len(node.outputs) if isinstance(node, RegionNode) else 1
        mine = [
            None if stop and (node, i) in targets else cotangent_of.get((node, i))
            for i in range(count)
        ]
        wanted = [k is not None and (k in targets or bool(leads.get(k[0]))) for k in node.inputs]
        for key, value in zip(node.inputs, node.gradients(mine, wanted, task), strict=True):
            give(key, value)
    return {key: cotangent_of[key] for key in targets if key in cotangent_of}


def _leads(outputs: Iterable[Tensor], targets: Set[Key], stop: bool) -> dict[Vertex, bool]:
    """For each vertex that the outputs depend on, whether it depends on a target."""
    leads: dict[Vertex, bool] = {}
    stack = [(t.node, False) for t in outputs if t.node and not (stop and t.key in targets)]
    while stack:
        node, done = stack.pop()
        if done:
            leads[node] = any(k and (k in targets or leads.get(k[0])) for k in node.inputs)
        elif node not in leads:
            leads[node] = False
            stack.append((node, True))
            stack += [(k[0], False) for k in node.inputs if k and not (stop and k in targets)]
    return leads


# -- regions ---------------------------------------------------------------------------------------


@dataclass
class _Later:
    """Stands for an argument that a region does not keep, since rerunning the region merged with it
    (result number `index` of `node`) makes it."""

    node: RegionNode
    index: int


@dataclass
class _Run:
    """A region run again: its differentiable results (`outputs`) and the tensors that it was given as
    arguments (`taken`), in order."""

    outputs: list[Tensor]
    taken: list[Tensor]


class RegionNode(Vertex):
    """A region in the graph: its function, its arguments, and the tensors that it read by closure.

    `outputs` are the shapes and dtypes of its results; nothing that the function computed is kept.
    `context` is what a rerun runs in.
    """

    def __init__(
        self,
        function: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        captured: list[Tensor],
        state: RandomState | None,
        merge: bool,
        outputs: list[tuple[Shape, str]],
        name: str,
        context: AbstractContextManager[object],
    ) -> None:
        self.seq = next(_number)
        self.function, self.name, self.state, self.merge = function, name, state, merge
        self.context = context
        self.inputs = [t.key for t in (*tensors_in((args, kwargs)), *captured)]
        self.captured = captured
        self.args, self.kwargs = _map(_kept, args), _map(_kept, kwargs)
        self.saved = list(tensors_in((self.args, self.kwargs))) + list(captured)
        self.outputs = outputs

    def rerun(self, task: _Task) -> _Run:
        """Run the function again on what was kept, recording a graph."""
        inside: list[Tensor] = []

        def fetch(kept: Tensor | _Later) -> Tensor:
            if isinstance(kept, _Later):
                made = task.rerun(kept.node).outputs[kept.index]
                kept = Tensor(made.data, made.dtype, kept.node, kept.index)
            inside.append(_alias(kept))
            return inside[-1]

        before = None if self.state is None else random_state()
        frame = Frame(True)
        with _set(recording=True, frame=frame, region=self.name, phase="rerun"):
            args, kwargs = _map(fetch, self.args), _map(fetch, self.kwargs)
            if self.state is not None:
                set_random_state(self.state)
            with _set(logging=True):
                _state.log.append((self.name, "", "rerun"))
                with self.context:
                    result = self.function(*args, **kwargs)
        if before is not None:
            set_random_state(before)
        outputs = _distinct(t for t in tensors_in(result) if t.node and t.scope is frame)
        return _Run(outputs, inside)

    def gradients(self, cotangents: Cotangents, wanted: Wanted, task: _Task) -> Cotangents:
        run = task.rerun(self)
        if len(run.outputs) != len(self.outputs):
            raise RuntimeError(f"region {self.name!r} gave other tensors when it ran again")
        keys = [t.key for t in run.taken] + [t.key for t in self.captured]
        targets = {k for k, want in zip(keys, wanted, strict=True) if want and k}
        pairs = [(o, c) for o, c in zip(run.outputs, cotangents, strict=True) if c is not None]
        outputs, given = [o for o, _ in pairs], [c for _, c in pairs]
        by_place = _backward(outputs, given, targets, task, stop=True)
        return [
            by_place.get(k) if want and k else None for k, want in zip(keys, wanted, strict=True)
        ]


def _kept(given: Tensor) -> Tensor | _Later:
    """What a region keeps of an argument: the tensor, or `_Later` for a result of a merged region."""
    if isinstance(given.node, RegionNode) and given.node.merge:
        return _Later(given.node, given.index)
    return given


def _no_contexts() -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
    return nullcontext(), nullcontext()


def recompute(
    function: Callable[P, T],
    *,
    preserve_rng: bool = True,
    merge_adjacent: bool = False,
    contexts: Callable[
        [], tuple[AbstractContextManager[object], AbstractContextManager[object]]
    ] = _no_contexts,
) -> Callable[P, T]:
    """A callable that runs `function` again in backward instead of keeping its activations.

    `preserve_rng`: the rerun draws the same random numbers as forward, and restores all generators
    afterwards. `merge_adjacent`: a recomputed callable that takes this one's results does not keep
    them; both run again, once, when the later one's gradients are taken. `contexts` is called in
    forward, and gives the context managers in which forward and the rerun call the function. The
    function may take and return tensors in nested tuples, lists and dicts, by position or by name, and
    any other values. Raises `TypeError` if it is not callable, or if an option is of another type.
    """
    if not callable(function):
        raise TypeError(f"recompute needs a callable, not {type(function).__name__}")
    if not isinstance(preserve_rng, bool):
        raise TypeError(f"preserve_rng is a bool, not {type(preserve_rng).__name__}")

    @functools.wraps(function)
    def region(*args: P.args, **kwargs: P.kwargs) -> T:
        name = getattr(function, "__name__", "region")
        outer = _state.frame
        first, second = contexts()
        if not _state.recording or (outer is not None and not outer.keep):
            with _set(region=name), first:
                _state.log.append((name, "", _state.phase))
                return function(*args, **kwargs)
        state = random_state() if preserve_rng else None
        frame = Frame(False)

        def enter(t: Tensor) -> Tensor:
            return Tensor(t.data, t.dtype, t.node and frame.inside, 0, frame)

        with _set(region=name, frame=frame), first:
            _state.log.append((name, "", _state.phase))
            result = function(*_map(enter, args), **_map(enter, kwargs))
        made = _distinct(t for t in tensors_in(result) if t.node is frame.inside)
        node = None
        if made:
            captured = list(frame.outside.values())
            like = [(t.shape, t.dtype) for t in made]
            node = RegionNode(
                function, args, kwargs, captured, state, merge_adjacent, like, name, second
            )
        index = {id(t): i for i, t in enumerate(made)}

        def leave(t: Tensor) -> Tensor:
            if id(t) in index:
                return Tensor(t.data, t.dtype, node, index[id(t)], outer)
            return Tensor(t.data, t.dtype, scope=outer) if t.scope is frame else t

        given: T = _map(leave, result)
        return given

    return region


def _distinct(tensors: Iterable[Tensor]) -> list[Tensor]:
    return list({id(t): t for t in tensors}.values())


def tensors_in(tree: object) -> Iterator[Tensor]:
    """The tensors in nested tuples, lists and dicts."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, dict):
        for part in tree.values():
            yield from tensors_in(part)
    elif isinstance(tree, list | tuple):
        for part in tree:
            yield from tensors_in(part)


def _map(function: Callable[[Any], object], tree: object) -> Any:
    """A tree with its tensors replaced, in the order of `tensors_in`."""
    if isinstance(tree, Tensor | _Later):
        return function(tree)
    if isinstance(tree, dict):
        return {key: _map(function, part) for key, part in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)([_map(function, part) for part in tree])
    return tree


def memory_of(tensor: Tensor | _Own) -> Elements:
    """The array that owns a tensor's memory: that of another tensor if it is a view."""
    return tensor.data if tensor.data.base is None else tensor.data.base


def retained(*roots: object) -> dict[int, tuple[Elements, int]]:
    """The arrays kept by the graph of the tensors in `roots` (nested containers), by `id`, each with its
    bytes at the dtype that its tensor stands for."""
    arrays: dict[int, tuple[Elements, int]] = {}
    seen: set[Vertex] = set()
    stack = [t.node for t in tensors_in(roots) if t.node is not None]
    while stack:
        node = stack.pop()
        if node in seen or isinstance(node, Leaf):
            continue
        seen.add(node)
        for t in node.saved:
            if t is not None and t.dtype != NUMBER:
                base = memory_of(t)
                arrays[id(base)] = (base, base.size * itemsize(t.dtype))
        stack += [key[0] for key in node.inputs if key is not None]
    return arrays


# -- random numbers --------------------------------------------------------------------------------


def seed(number: int) -> None:
    """Seed the implicit generator."""
    _state.generator.bit_generator.state = np.random.PCG64(number).state


class _Explicit(np.random.Generator):
    """A generator that supports weak references."""


def generator(seed: int) -> np.random.Generator:
    """An explicit generator, whose state regions preserve as well."""
    made = _Explicit(np.random.PCG64(seed))
    _state.explicit.add(made)
    return made


def random_state() -> RandomState:
    """The states of all generators: the implicit one, NumPy's, Python's, and explicit ones."""
    known = (_state.generator, *_state.explicit)
    sources = [(source, source.bit_generator.state) for source in known]
    return sources, np.random.get_state(), random.getstate()


def set_random_state(state: RandomState) -> None:
    """Restore the states of all generators from `random_state`."""
    sources, numpys, pythons = state
    for source, before in sources:
        source.bit_generator.state = before
    np.random.set_state(numpys)
    random.setstate(pythons)


def _uniform(u: Elements | float, low: float, high: float) -> Tensor:
    return _record((), rounded(np.asarray(low + (high - low) * u), "float32"), "float32")


@_operation
def uniform(
    shape: Sequence[int], low: float = 0.0, high: float = 1.0, seed: int | None = None
) -> Tensor:
    """`low + (high - low) * u`, u uniform in [0, 1), as float32, from the implicit generator, or
    from the operation's own seed."""
    source = _state.generator if seed is None else np.random.default_rng(seed)
    return _uniform(source.random(shape), low, high)


@_operation
def uniform_from(
    generator: np.random.Generator, shape: Sequence[int], low: float = 0.0, high: float = 1.0
) -> Tensor:
    """As `uniform`, from an explicit generator or key, which is an input."""
    return _uniform(generator.random(shape), low, high)


@_operation
def numpy_uniform(shape: Sequence[int], low: float = 0.0, high: float = 1.0) -> Tensor:
    """As `uniform`, from NumPy's global generator."""
    return _uniform(np.random.uniform(size=shape), low, high)


@_operation
def python_uniform(low: float = 0.0, high: float = 1.0) -> Tensor:
    """As `uniform`, a scalar from Python's own `random`."""
    return _uniform(random.random(), low, high)


@_operation
def dropout(x: Tensor, p: float = 0.5, seed: int | None = None) -> Tensor:
    """`x * mask / (1 - p)`, mask 0 with probability p and else 1, from the implicit generator,
    or from the operation's own seed."""
    source = _state.generator if seed is None else np.random.default_rng(seed)
    return masked(x, source.random(x.shape) >= p, p)


def masked(x: Tensor, mask: ArrayLike, p: float) -> Tensor:
    """Dropout with a given mask."""
    kept = Tensor(np.asarray(mask, np.bool_), "bool", scope=_state.frame)
    return _record(
        (x,),
        x.data * kept.data / (1 - p),
        x.dtype,
        (kept,),
        lambda g, wanted, m: (masked(g, m.data, p),),
    )


# -- elementwise operations ------------------------------------------------------------------------


def _like(g: Tensor, shape: Shape) -> Tensor:
    """A cotangent summed over what broadcasting had repeated, so that it has `shape`."""
    if g.shape == shape:
        return g
    extra = len(g.shape) - len(shape)
    for _ in range(extra):
        g = sum(g, axis=0)
    for axis, length in enumerate(shape):
        if length == 1 and g.shape[axis] != 1:
            g = sum(g, axis=axis, keepdims=True)
    return g


def _binary(a: Tensor | float, b: Tensor | float) -> tuple[Tensor, Tensor, str]:
    a, b = _as_tensor(a), _as_tensor(b)
    return a, b, promote(a.dtype or None, b.dtype or None)


def _alias(x: Tensor) -> Tensor:
    """The same elements as a new vertex of the graph."""
    return _record((x,), x.data, x.dtype, (), lambda g, wanted: (g,))


@_operation
def add(a: Tensor | float, b: Tensor | float) -> Tensor:
    """`a + b`, broadcast."""
    a, b, dtype = _binary(a, b)
    shapes = a.shape, b.shape

    def back(g: Tensor, wanted: Wanted) -> Cotangents:
        return [
            _like(g, shape) if want else None for shape, want in zip(shapes, wanted, strict=True)
        ]

    return _record((a, b), a.data + b.data, dtype, (), back)


@_operation
def subtract(a: Tensor | float, b: Tensor | float) -> Tensor:
    """`a - b`, broadcast."""
    a, b, dtype = _binary(a, b)
    shapes = a.shape, b.shape

    def back(g: Tensor, wanted: Wanted) -> Cotangents:
        return (
            _like(g, shapes[0]) if wanted[0] else None,
            _like(negative(g), shapes[1]) if wanted[1] else None,
        )

    return _record((a, b), a.data - b.data, dtype, (), back)


@_operation
def multiply(a: Tensor | float, b: Tensor | float) -> Tensor:
    """`a * b`, broadcast."""
    a, b, dtype = _binary(a, b)
    shapes = a.shape, b.shape

    def back(g: Tensor, wanted: Wanted, a: Tensor, b: Tensor) -> Cotangents:
        return (
            _like(multiply(g, b), shapes[0]) if wanted[0] else None,
            _like(multiply(g, a), shapes[1]) if wanted[1] else None,
        )

    return _record((a, b), a.data * b.data, dtype, _crosswise(a, b), back)


def _crosswise(a: Tensor, b: Tensor) -> Chooses:
    """The residuals of a product: each factor is read by the gradient of the other."""
    return lambda reach_a, reach_b: (a if reach_b else None, b if reach_a else None)


@_operation
def divide(a: Tensor | float, b: Tensor | float) -> Tensor:
    """`a / b`, broadcast."""
    a, b, dtype = _binary(a, b)
    shapes = a.shape, b.shape

    def back(g: Tensor, wanted: Wanted, a: Tensor, b: Tensor) -> Cotangents:
        return (
            _like(divide(g, b), shapes[0]) if wanted[0] else None,
            _like(negative(divide(multiply(g, a), multiply(b, b))), shapes[1])
            if wanted[1]
            else None,
        )

    def saved(reach_a: bool, reach_b: bool) -> Saved:
        return (a if reach_b else None, b)

    return _record((a, b), a.data / b.data, dtype, saved, back)


@_operation
def negative(x: Tensor) -> Tensor:
    """`-x`."""
    return _record((x,), -x.data, x.dtype, (), lambda g, wanted: (negative(g),))


@_operation
def relu(x: Tensor) -> Tensor:
    """`maximum(x, 0)`; its gradient at 0 is 0."""

    def back(g: Tensor, wanted: Wanted, out: Tensor) -> Cotangents:
        return (multiply(g, _const(out.data > 0, out.dtype)),)

    return _record((x,), np.maximum(x.data, 0), x.dtype, (OUT,), back)


@_operation
def gelu(x: Tensor) -> Tensor:
    """`x * (1 + erf(x / sqrt(2))) / 2`."""

    def back(g: Tensor, wanted: Wanted, x: Tensor) -> Cotangents:
        density = multiply(exp(multiply(multiply(x, x), -0.5)), 1 / math.sqrt(2 * math.pi))
        return (multiply(g, add(_normal_cdf(x), multiply(x, density))),)

    return _record((x,), x.data * (1 + _erf(x.data / math.sqrt(2))) / 2, x.dtype, (x,), back)


def _normal_cdf(x: Tensor) -> Tensor:
    def back(g: Tensor, wanted: Wanted, x: Tensor) -> Cotangents:
        density = multiply(exp(multiply(multiply(x, x), -0.5)), 1 / math.sqrt(2 * math.pi))
        return (multiply(g, density),)

    return _record((x,), (1 + _erf(x.data / math.sqrt(2))) / 2, x.dtype, (x,), back)


@_operation
def tanh(x: Tensor) -> Tensor:
    """`tanh(x)`."""

    def back(g: Tensor, wanted: Wanted, out: Tensor) -> Cotangents:
        return (multiply(g, subtract(1.0, multiply(out, out))),)

    return _record((x,), np.tanh(x.data), x.dtype, (OUT,), back)


@_operation
def sigmoid(x: Tensor) -> Tensor:
    """`1 / (1 + exp(-x))`."""

    def back(g: Tensor, wanted: Wanted, out: Tensor) -> Cotangents:
        return (multiply(g, multiply(out, subtract(1.0, out))),)

    return _record((x,), (1 + np.tanh(x.data / 2)) / 2, x.dtype, (OUT,), back)


@_operation
def sin(x: Tensor) -> Tensor:
    """`sin(x)`."""
    return _record((x,), np.sin(x.data), x.dtype, (x,), lambda g, wanted, x: (multiply(g, cos(x)),))


@_operation
def cos(x: Tensor) -> Tensor:
    """`cos(x)`."""

    def back(g: Tensor, wanted: Wanted, x: Tensor) -> Cotangents:
        return (negative(multiply(g, sin(x))),)

    return _record((x,), np.cos(x.data), x.dtype, (x,), back)


@_operation
def exp(x: Tensor) -> Tensor:
    """`exp(x)`."""
    return _record(
        (x,), np.exp(x.data), x.dtype, (OUT,), lambda g, wanted, out: (multiply(g, out),)
    )


@_operation
def log(x: Tensor) -> Tensor:
    """`log(x)`, the natural logarithm."""
    return _record((x,), np.log(x.data), x.dtype, (x,), lambda g, wanted, x: (divide(g, x),))


@_operation
def square(x: Tensor) -> Tensor:
    """`x * x`."""
    return _record((x,), x.data**2, x.dtype, (x,), lambda g, wanted, x: (multiply(g, add(x, x)),))


@_operation
def sqrt(x: Tensor) -> Tensor:
    """`sqrt(x)`."""

    def back(g: Tensor, wanted: Wanted, out: Tensor) -> Cotangents:
        return (divide(g, add(out, out)),)

    return _record((x,), np.sqrt(x.data), x.dtype, (OUT,), back)


@_operation
def abs(x: Tensor) -> Tensor:
    """`abs(x)`; its gradient at 0 is 0."""

    def back(g: Tensor, wanted: Wanted, x: Tensor) -> Cotangents:
        return (multiply(g, _const(np.sign(x.data), x.dtype)),)

    return _record((x,), np.abs(x.data), x.dtype, (x,), back)


@_operation
def maximum(a: Tensor | float, b: Tensor | float) -> Tensor:
    """The larger of a and b, broadcast; where they are equal the gradient goes to a."""
    a, b, dtype = _binary(a, b)
    shapes = a.shape, b.shape

    def back(g: Tensor, wanted: Wanted, a: Tensor, b: Tensor) -> Cotangents:
        first = _const(a.data >= b.data, g.dtype)
        return (
            _like(multiply(g, first), shapes[0]) if wanted[0] else None,
            _like(multiply(g, subtract(1.0, first)), shapes[1]) if wanted[1] else None,
        )

    return _record((a, b), np.maximum(a.data, b.data), dtype, (a, b), back)


@_operation
def max(x: Tensor, axis: int = -1, keepdims: bool = False) -> Tensor:
    """The largest element along an axis, the first where several are equal."""
    first = x.data.argmax(axis)

    def back(g: Tensor, wanted: Wanted, first: Tensor) -> Cotangents:
        chosen = np.zeros(shape)
        np.put_along_axis(chosen, np.expand_dims(first.data, axis), 1.0, axis)
        kept = tuple(1 if i == axis % len(shape) else n for i, n in enumerate(shape))
        return (multiply(reshape(g, kept), _const(chosen, g.dtype)),)

    shape = x.shape
    mask = Tensor(first, "int64")
    return _record((x,), x.data.max(axis, keepdims=keepdims), x.dtype, (mask,), back)


@_operation
def cumulative_sum(x: Tensor, axis: int = -1) -> Tensor:
    """The cumulative sum along an axis."""

    def back(g: Tensor, wanted: Wanted) -> Cotangents:
        return (_flipped(cumulative_sum(_flipped(g, axis), axis), axis),)

    return _record((x,), np.cumsum(x.data, axis), x.dtype, (), back)


def _flipped(x: Tensor, axis: int) -> Tensor:
    return _record(
        (x,), np.flip(x.data, axis).copy(), x.dtype, (), lambda g, wanted: (_flipped(g, axis),)
    )


@_operation
def rrelu(x: Tensor, low: float = 0.125, high: float = 1 / 3) -> Tensor:
    """x where it is positive, else x times a slope drawn for each element from the implicit
    generator, uniform in [low, high)."""
    slopes = low + (high - low) * _state.generator.random(x.shape)
    return leaky(x, np.where(x.data > 0, 1.0, slopes))


def leaky(x: Tensor, slopes: ArrayLike) -> Tensor:
    """x times given slopes."""
    kept = Tensor(np.asarray(slopes, np.float64), x.dtype, scope=_state.frame)
    return _record(
        (x,), x.data * kept.data, x.dtype, (kept,), lambda g, wanted, m: (leaky(g, m.data),)
    )


@_operation
def sin_or_cos(x: Tensor, flag: object) -> Tensor:
    """`sin(x)` where the bool flag is true, else `cos(x)`: in programs, a conditional of Python's."""
    return sin(x) if flag else cos(x)


@_operation
def branch_sin(x: Tensor) -> Tensor:
    """`sin(x)` where the sum of x is positive, else `cos(x)`: in programs, a conditional of the
    framework's."""
    return sin(x) if x.data.sum() > 0 else cos(x)


@_operation
def loop_sin(x: Tensor, times: int) -> Tensor:
    """`sin`, applied `times` times: in programs, a loop of the framework's."""
    for _ in range(times):
        x = sin(x)
    return x


@_operation
def custom_sin(x: Tensor, reads: int = 1, rule: str = "reverse") -> Tensor:
    """`sin(x)`, with a gradient written by hand, twice the true one. In programs, it reads what
    it has saved `reads` times, as a rule for cotangents (`reverse`) or for tangents (`forward`)."""

    def back(g: Tensor, wanted: Wanted, x: Tensor) -> Cotangents:
        return (multiply(multiply(g, cos(x)), 2.0),)

    return _record((x,), np.sin(x.data), x.dtype, (x,), back)


@_operation
def asking_sin(x: Tensor) -> Tensor:
    """As `custom_sin`. In programs, its backward gives a gradient only if its saved tensor says
    that x requires one."""
    return custom_sin(x)


@_operation
def slope_of_sin(x: Tensor) -> Tensor:
    """`cos(x)`. Programs compute it as the framework's gradient of `sum(sin(x))`, inside the
    forward pass."""
    return cos(x)


@_operation
def noted_sin(x: Tensor) -> Tensor:
    """`sin(x)`. Programs append a note to a global list when it runs."""
    return sin(x)


@_operation
def unsteady_sin(x: Tensor, then: str) -> Tensor:
    """`sin(x)`, as in the first call. In programs, later calls compute something else: `sin(2 *
    x)` (`values`), the sine of x twice over (`shape`), of x in float64 (`dtype`), `sin(sin(x))`
    (`operations`), or the sine times a product of x with itself (`product`)."""
    return sin(x)


@_operation
def counted_sin(x: Tensor, seen: object) -> Tensor:
    """`sin(n * x)`, n the length of the list `seen`, to which programs append first: `sin(x)`,
    as in the first call."""
    return sin(x)


@_operation
def switched_sin(x: Tensor) -> Tensor:
    """`sin(x)`. In programs, `cos(x)` once their switch is on, which is off in the forward pass."""
    return sin(x)


@_operation
def doubled_sin(x: Tensor) -> Tensor:
    """`2 * sin(x)`. In programs, only in the contexts that a region and its rerun run in, and
    else `sin(x)`."""
    return add(sin(x), sin(x))


@_operation
def raise_in_rerun(x: Tensor, flag: object) -> Tensor:
    """`sin(x)`. Programs raise `ValueError('raise_in_rerun')` where the bool flag is true and it
    was called before."""
    return sin(x)


@_operation
def accumulate_sin(x: Tensor, total: Tensor) -> Tensor:
    """`sin(x)`; adds the sum of x over its first axis to `total`, in place."""
    total.data[...] += x.data.sum(0)
    return sin(x)


@_operation
def add_in_place(a: Tensor | float, b: Tensor | float) -> Tensor:
    """`a + b`, as a new tensor; programs write it over a."""
    return add(a, b)


@_operation
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """`exp(x - max(x)) / sum(exp(x - max(x)))` along an axis."""
    powers = np.exp(x.data - x.data.max(axis, keepdims=True))

    def back(g: Tensor, wanted: Wanted, out: Tensor) -> Cotangents:
        g = multiply(g, out)
        return (subtract(g, multiply(out, sum(g, axis=axis, keepdims=True))),)

    return _record((x,), powers / powers.sum(axis, keepdims=True), x.dtype, (OUT,), back)


# -- products --------------------------------------------------------------------------------------


def _turned(x: Tensor) -> Tensor:
    return permute_dims(x, (*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2))


@_operation
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """`a @ b` of tensors with two axes or more, the leading ones broadcast."""
    shapes = a.shape, b.shape

    def back(g: Tensor, wanted: Wanted, a: Tensor, b: Tensor) -> Cotangents:
        return (
            _like(matmul(g, _turned(b)), shapes[0]) if wanted[0] else None,
            _like(matmul(_turned(a), g), shapes[1]) if wanted[1] else None,
        )

    return _record((a, b), a.data @ b.data, promote(a.dtype, b.dtype), _crosswise(a, b), back)


@_operation
def solve(a: Tensor, b: Tensor) -> Tensor:
    """The solution x of `a @ x = b`, a of shape (n, n) and b of (n, k)."""

    def back(g: Tensor, wanted: Wanted, a: Tensor, out: Tensor) -> Cotangents:
        gb = solve(_turned(a), g)
        return negative(matmul(gb, _turned(out))) if wanted[0] else None, gb if wanted[1] else None

    return _record(
        (a, b), np.linalg.solve(a.data, b.data), promote(a.dtype, b.dtype), (a, OUT), back
    )


@_operation
def linear(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """`x @ w.T + b`, w of shape (out, in)."""
    shape = x.shape

    def back(g: Tensor, wanted: Wanted, x: Tensor, w: Tensor) -> Cotangents:
        flat = reshape(g, (-1, g.shape[-1]))
        return (
            reshape(matmul(flat, w), shape) if wanted[0] else None,
            matmul(_turned(flat), reshape(x, (-1, shape[-1]))) if wanted[1] else None,
            sum(flat, axis=0) if wanted[2] else None,
        )

    def saved(reach_x: bool, reach_w: bool, reach_b: bool) -> Saved:
        return (x if reach_w else None, w if reach_x else None)

    dtype = promote(x.dtype, w.dtype, b.dtype)
    return _record((x, w, b), x.data @ w.data.T + b.data, dtype, saved, back)


@_operation
def conv2d(x: Tensor, w: Tensor, stride: int = 1, padding: str = "valid") -> Tensor:
    """The sum over a window of x (n, c, h, w) times w (o, c, kh, kw) (cross-correlation), zeros
    around x for `same`."""
    window = _Window.of(x.shape, w.shape[2:], stride, padding)

    def back(g: Tensor, wanted: Wanted, x: Tensor, w: Tensor) -> Cotangents:
        g = reshape(g, (g.shape[0], g.shape[1], -1))
        gx = gw = None
        if wanted[0]:
            gx = _fold(matmul(_turned(reshape(w, (w_shape[0], -1))), g), window)
        if wanted[1]:
            gw = reshape(sum(matmul(g, _turned(_unfold(x, window))), axis=0), w_shape)
        return gx, gw

    w_shape = w.shape
    patches = _unfolded(x.data, window)
    data = (w.data.reshape(w_shape[0], -1) @ patches).reshape(x.shape[0], w_shape[0], *window.size)
    return _record((x, w), data, promote(x.dtype, w.dtype), _crosswise(x, w), back)


@dataclass(frozen=True)
class _Window:
    """The geometry of a convolution: shape of x (n, c, h, w), kernel height and width, stride, zeros
    before, padded height and width, and the height and width of the result in windows."""

    shape: Shape
    kernel: Shape
    stride: int
    before: Shape
    padded: Shape
    size: Shape

    @classmethod
    def of(cls, shape: Shape, kernel: Shape, stride: int, padding: str) -> _Window:
        lengths = shape[2:]
        zeros = [0, 0]
        if padding == "same":
            steps = [-(-n // stride) for n in lengths]
            needed = zip(steps, kernel, lengths, strict=True)
            missing = [(s - 1) * stride + k - n for s, k, n in needed]
            zeros = [n if n > 0 else 0 for n in missing]
        padded = tuple(n + z for n, z in zip(lengths, zeros, strict=True))
        size = tuple((n - k) // stride + 1 for n, k in zip(padded, kernel, strict=True))
        return cls(shape, tuple(kernel), stride, tuple(z // 2 for z in zeros), padded, size)

    def rows(self, i: int) -> slice:
        return slice(i, i + self.stride * (self.size[0] - 1) + 1, self.stride)

    def columns(self, j: int) -> slice:
        return slice(j, j + self.stride * (self.size[1] - 1) + 1, self.stride)

    def inner(self) -> tuple[EllipsisType, slice, slice]:
        """Where x lies in the padded array."""
        top, left = self.before
        return (..., slice(top, top + self.shape[2]), slice(left, left + self.shape[3]))


def _unfold(x: Tensor, window: _Window) -> Tensor:
    """The windows of x: (n, c * kh * kw, windows)."""
    data = _unfolded(x.data, window)
    return _record((x,), data, x.dtype, (), lambda g, wanted: (_fold(g, window),))


def _unfolded(x: Elements, window: _Window) -> Elements:
    n, c = x.shape[:2]
    padded = np.zeros((n, c, *window.padded))
    padded[window.inner()] = x
    kh, kw = window.kernel
    out = np.empty((n, c, kh, kw, *window.size))
    for i, j in itertools.product(range(kh), range(kw)):
        out[:, :, i, j] = padded[:, :, window.rows(i), window.columns(j)]
    return out.reshape(n, c * kh * kw, -1)


def _fold(patches: Tensor, window: _Window) -> Tensor:
    """The adjoint of `_unfold`: adds up the windows."""
    n, c = window.shape[:2]
    kh, kw = window.kernel
    parts = patches.data.reshape(n, c, kh, kw, *window.size)
    padded = np.zeros((n, c, *window.padded))
    for i, j in itertools.product(range(kh), range(kw)):
        padded[:, :, window.rows(i), window.columns(j)] += parts[:, :, i, j]
    data = np.ascontiguousarray(padded[window.inner()])
    return _record((patches,), data, patches.dtype, (), lambda g, wanted: (_unfold(g, window),))


@_operation
def max_pool2d(x: Tensor, size: int) -> Tensor:
    """The maximum of each window, the first where several are equal; stride equals size, no padding."""
    n, c, h, w = x.shape
    rows, columns = h // size, w // size
    cut = x.data[:, :, : rows * size, : columns * size]
    parts = cut.reshape(n, c, rows, size, columns, size).transpose(0, 1, 2, 4, 3, 5)
    parts = parts.reshape(n, c, rows, columns, size * size)
    first = parts.argmax(-1)
    shape, covered = x.shape, cut.shape

    def back(g: Tensor, wanted: Wanted, first: Tensor) -> Cotangents:
        chosen = (np.arange(size * size) == first.data[..., None]).astype(np.float64)
        chosen = chosen.reshape(n, c, rows, columns, size, size).transpose(0, 1, 2, 4, 3, 5)
        mask = np.zeros(shape)
        mask[:, :, : rows * size, : columns * size] = chosen.reshape(covered)
        return (multiply(_spread(g, size, shape), _const(mask)),)

    mask = Tensor(first, "int64")
    data = np.take_along_axis(parts, first[..., None], -1)[..., 0]
    return _record((x,), data, x.dtype, (mask,), back)


@_operation
def avg_pool2d(x: Tensor, size: int) -> Tensor:
    """The mean of each window; stride equals size, no padding."""
    return multiply(_gather(x, size), 1 / size**2)


def _gather(x: Tensor, size: int) -> Tensor:
    """The sum of each window."""
    n, c, h, w = x.shape
    rows, columns = h // size, w // size
    cut = x.data[:, :, : rows * size, : columns * size]
    data = cut.reshape(n, c, rows, size, columns, size).sum((3, 5))
    shape = x.shape
    return _record((x,), data, x.dtype, (), lambda g, wanted: (_spread(g, size, shape),))


def _spread(g: Tensor, size: int, shape: Shape) -> Tensor:
    """The adjoint of `_gather`: each element repeated over its window, zeros outside all windows."""
    data = np.zeros(shape)
    rows, columns = g.shape[2] * size, g.shape[3] * size
    data[:, :, :rows, :columns] = g.data.repeat(size, 2).repeat(size, 3)
    return _record((g,), data, g.dtype, (), lambda h, wanted: (_gather(h, size),))


# -- normalisation ---------------------------------------------------------------------------------


def _normalized(
    x: Tensor, gamma: Tensor, beta: Tensor, axes: Shape, shape: Shape, eps: float
) -> Tensor:
    """`(x - mean) / sqrt(var + eps) * gamma + beta` over axes; gamma and beta viewed as `shape`."""
    centre = x.data.mean(axes, keepdims=True)
    scale = 1 / np.sqrt(x.data.var(axes, keepdims=True) + eps)
    count = math.prod(x.shape[axis] for axis in axes)

    def average(t: Tensor) -> Tensor:
        for axis in axes:
            t = sum(t, axis=axis, keepdims=True)
        return multiply(t, 1 / count)

    def back(g: Tensor, wanted: Wanted, x: Tensor, gamma: Tensor, mask: Tensor) -> Cotangents:
        if _state.recording:  # the statistics must depend on x for second order
            centred = subtract(x, average(x))
            inverse = _power(add(average(multiply(centred, centred)), eps), -0.5)
        else:
            centred, inverse = subtract(x, _const(centre)), _const(scale)
        hat = multiply(centred, inverse)
        gx = ggamma = None
        if wanted[0]:
            h = multiply(g, reshape(gamma, shape))
            shift = add(average(h), multiply(hat, average(multiply(h, hat))))
            gx = multiply(inverse, subtract(h, shift))
        if wanted[1]:
            ggamma = place(multiply(g, hat))
        return gx, ggamma, place(g) if wanted[2] else None

    def place(t: Tensor) -> Tensor:
        return reshape(_like(t, shape), gamma_shape)

    def saved(reach_x: bool, reach_gamma: bool, reach_beta: bool) -> Saved:
        mask = Tensor(np.stack([centre, scale]), x.dtype)
        any_statistics = reach_x or reach_gamma
        return (
            x if any_statistics else None,
            gamma if reach_x else None,
            mask if any_statistics else None,
        )

    gamma_shape = gamma.shape
    data = (x.data - centre) * scale * gamma.data.reshape(shape) + beta.data.reshape(shape)
    dtype = promote(x.dtype, gamma.dtype, beta.dtype)
    return _record((x, gamma, beta), data, dtype, saved, back)


def _power(x: Tensor, exponent: float) -> Tensor:
    def back(g: Tensor, wanted: Wanted, x: Tensor) -> Cotangents:
        return (multiply(g, multiply(_power(x, exponent - 1), exponent)),)

    return _record((x,), x.data**exponent, x.dtype, (x,), back)


@_operation
def batch_norm(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`(x - mean) / sqrt(var + eps) * gamma + beta`, mean and (biased) var over n, h, w of x (n,
    c, h, w); then `running = (1 - momentum) * running + momentum * batch`, in place."""
    axes = (0, 2, 3)
    for running, batch in (
        (running_mean, x.data.mean(axes)),
        (running_var, x.data.var(axes)),
    ):
        running.data[...] = (1 - momentum) * running.data + momentum * batch
    return _normalized(x, gamma, beta, axes, (1, -1, 1, 1), eps)


@_operation
def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """`(x - mean) / sqrt(var + eps) * gamma + beta`, mean and (biased) var over the last axis."""
    return _normalized(x, gamma, beta, (len(x.shape) - 1,), gamma.shape, eps)


# -- shapes, tables, dtypes ------------------------------------------------------------------------


@_operation
def embedding(indices: Tensor, table: Tensor) -> Tensor:
    """`table[indices]`."""
    return _rows(table, indices)


def _rows(table: Tensor, indices: Tensor) -> Tensor:
    rows = table.shape[0]

    def back(g: Tensor, wanted: Wanted, indices: Tensor) -> Cotangents:
        return (_scatter(g, indices, rows),)

    return _record((table,), table.data[indices.data], table.dtype, (indices,), back)


def _scatter(g: Tensor, indices: Tensor, rows: int) -> Tensor:
    """Rows added up where `indices` say: the adjoint of `_rows`."""
    data = np.zeros((rows, g.shape[-1]))
    np.add.at(data, indices.data, g.data)
    return _record((g,), data, g.dtype, (indices,), lambda h, wanted, i: (_rows(h, i),))


def _reduced(x: Tensor, axis: int | None, keepdims: bool, factor: float) -> Tensor:
    shape = x.shape
    data = np.asarray(x.data.sum(axis, keepdims=keepdims)) * factor

    def back(g: Tensor, wanted: Wanted) -> Cotangents:
        if axis is None:
            g = reshape(g, (1,) * len(shape))
        elif not keepdims:
            g = reshape(g, tuple(1 if i == axis % len(shape) else n for i, n in enumerate(shape)))
        return (_repeated(multiply(g, factor) if factor != 1 else g, shape),)

    return _record((x,), data, x.dtype, (), back)


def _repeated(x: Tensor, shape: Shape) -> Tensor:
    """x broadcast to a shape."""
    old = x.shape
    data = np.broadcast_to(x.data, shape).copy()
    return _record((x,), data, x.dtype, (), lambda g, wanted: (_like(g, old),))


@_operation
def sum(x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The sum over an axis, over all axes where it is `None`."""
    return _reduced(x, axis, keepdims, 1)


@_operation
def mean(x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The mean over an axis, over all axes where it is `None`."""
    count = x.data.size if axis is None else x.shape[axis]
    return _reduced(x, axis, keepdims, 1 / count)


@_operation
def reshape(x: Tensor, shape: Shape) -> Tensor:
    """`reshape(x, shape)`, with one -1 allowed."""
    old = x.shape
    return _record((x,), x.data.reshape(shape), x.dtype, (), lambda g, wanted: (reshape(g, old),))


@_operation
def permute_dims(x: Tensor, axes: Shape) -> Tensor:
    """`transpose(x, axes)`: the axes of x in the new order."""
    order = tuple(axis % len(x.shape) for axis in axes)
    inverse = tuple(int(i) for i in np.argsort(order))
    data = x.data.transpose(order)
    return _record((x,), data, x.dtype, (), lambda g, wanted: (permute_dims(g, inverse),))


@_operation
def concat(arrays: Sequence[Tensor], axis: int = 0) -> Tensor:
    """`concatenate(arrays, axis)`: tensors one after another along an axis."""
    ends = np.cumsum([0, *(t.shape[axis] for t in arrays)])
    bounds = list(itertools.pairwise(int(end) for end in ends))

    def back(g: Tensor, wanted: Wanted) -> Cotangents:
        parts = zip(bounds, wanted, strict=True)
        return [_part(g, axis, a, b) if want else None for (a, b), want in parts]

    data = np.concatenate([t.data for t in arrays], axis)
    return _record(tuple(arrays), data, promote(*(t.dtype for t in arrays)), (), back)


def _part(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    length = x.shape[axis]
    where = (slice(None),) * (axis % len(x.shape)) + (slice(start, stop),)

    def back(g: Tensor, wanted: Wanted) -> Cotangents:
        return (_padded(g, axis, start, length),)

    return _record((x,), x.data[where], x.dtype, (), back)


def _padded(x: Tensor, axis: int, start: int, length: int) -> Tensor:
    """x inside zeros along an axis: the adjoint of `_part`."""
    shape = list(x.shape)
    stop = start + shape[axis]
    shape[axis] = length
    data = np.zeros(shape)
    data[(slice(None),) * (axis % len(shape)) + (slice(start, stop),)] = x.data
    return _record((x,), data, x.dtype, (), lambda g, wanted: (_part(g, axis, start, stop),))


@_operation
def split(x: Tensor, sections: int, axis: int = 0) -> tuple[Tensor, ...]:
    """`split(x, sections, axis)`: equal parts along an axis, as a tuple."""
    length, rest = divmod(x.shape[axis], sections)
    if rest:
        raise ValueError(f"cannot split a length of {x.shape[axis]} into {sections} equal parts")
    return tuple(_part(x, axis, i * length, (i + 1) * length) for i in range(sections))


@_operation
def astype(x: Tensor, dtype: str) -> Tensor:
    """x as another dtype; its gradient is passed on unrounded."""
    return _relabelled(x, rounded(x.data, dtype), dtype)


def _relabelled(x: Tensor, data: Elements, dtype: str) -> Tensor:
    old = x.dtype
    return _record((x,), data, dtype, (), lambda g, wanted: (_relabelled(g, g.data, old),))


@_operation
def to_complex(a: Tensor, b: Tensor) -> Tensor:
    """`a + ib`, of two real tensors of one shape. The cotangent of a complex tensor is that of its real
    part plus i times that of its imaginary part."""
    wide = promote(a.dtype, b.dtype) == "float64"

    def back(g: Tensor, wanted: Wanted) -> Cotangents:
        return real(g), imag(g)

    dtype = "complex128" if wide else "complex64"
    return _record((a, b), a.data + 1j * b.data, dtype, (), back)


def _component(x: Tensor, data: Elements, back: Callable[[Tensor], Tensor]) -> Tensor:
    dtype = "float64" if x.dtype == "complex128" else "float32"
    return _record((x,), data, dtype, (), lambda g, wanted: (back(g),))


@_operation
def real(x: Tensor) -> Tensor:
    """The real part of a complex tensor."""
    return _component(x, x.data.real.copy(), lambda g: to_complex(g, multiply(g, 0.0)))


@_operation
def imag(x: Tensor) -> Tensor:
    """The imaginary part of a complex tensor."""
    return _component(x, x.data.imag.copy(), lambda g: to_complex(multiply(g, 0.0), g))


@_operation
def stop_gradient(x: Tensor) -> Tensor:
    """x, through which no gradient flows."""
    return _record((x,), x.data, x.dtype)


@_operation
def asks_gradient(x: Tensor) -> bool:
    """Whether a gradient can reach x, as x itself says it."""
    return x.node is not None


@_operation
def raise_if(x: Tensor, flag: object) -> Tensor:
    """x, or `ValueError('raise_if')` where the bool flag is true."""
    if flag:
        raise ValueError("raise_if")
    return _alias(x)
