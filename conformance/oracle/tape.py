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

import builtins
import copy
import functools
import heapq
import itertools
import math
import random
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, is_dataclass, replace
from types import MappingProxyType
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

P = ParamSpec("P")
T = TypeVar("T")
Elements = NDArray[Any]
Shape = tuple[int, ...]
#: A place in the graph: a vertex, and which of its results.
Key = tuple["Vertex", int]
#: For each input of an operation: whether its cotangent is wanted, and (`Cotangents`) the cotangent.
Wanted = Sequence[bool]
Cotangents = Sequence["Tensor | None"]
#: The residuals of an operation, by position; `None` for one that no differentiated input needs.
Saved = Sequence["Tensor | None"]
#: A function that returns these, given for each input whether a gradient can reach it.
Chooses = Callable[..., Saved]
#: `slope(cotangent, *saved)`: the cotangent of one input, before it is summed over what broadcasting
#: had repeated. It does not use residuals that are `None`.
Slope = Callable[..., "Tensor"]
#: A start, a stop and a step, along an axis.
_Bounds = tuple[int, int | None, int]
Context = AbstractContextManager[object]
#: The states of generators, of NumPy's global one and of Python's, each in the library's own format.
RandomState = tuple[list[tuple[np.random.Generator, Mapping[str, Any]]], Any, tuple[Any, ...]]

#: The dtype of a tensor's elements, by the kind of dtype that they stand for.
_HELD = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64, "c": np.complex128}
#: The dtype of a Python number among an operation's arguments. It has no part in promotion.
NUMBER = ""
_number = itertools.count()
_erf = np.vectorize(math.erf, otypes=[np.float64])


@dataclass(eq=False, repr=False, slots=True, weakref_slot=True)
class Tensor:
    """Elements (float64, complex128, int64 or bool), the dtype that they stand for, and a place in the
    graph where a gradient can reach it: `node` made it as its result number `index`.

    `scope` is the run of a region's function that it was made in, `None` outside: a tensor of another
    scope is one that the function reads by closure.
    """

    data: Elements
    dtype: str
    node: Vertex | None = None
    index: int = 0
    scope: Frame | None = None

    @property
    def shape(self) -> Shape:
        return self.data.shape

    @property
    def key(self) -> Key | None:
        """Its place in the graph; `None` where no gradient can reach it."""
        return None if self.node is None else (self.node, self.index)

    def __repr__(self) -> str:
        return f"{self.data!r} [{self.dtype}]"


def itemsize(dtype: str) -> int:
    """Bytes of one element of a dtype, by name."""
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize


def is_float(dtype: str) -> bool:
    """Whether a dtype, by name, is a floating or a complex one: a gradient can flow through it."""
    return "float" in dtype or "complex" in dtype


def tensor(elements: ArrayLike, dtype: str = "float32", gradient: bool = False) -> Tensor:
    """A tensor of those elements, rounded to `dtype` and then held in float64 (or int64, bool)."""
    node = Leaf() if gradient and is_float(dtype) else None
    return Tensor(rounded(np.asarray(elements), dtype), dtype, node)


def rounded(elements: Elements, dtype: str) -> Elements:
    """Elements rounded to a dtype, as float64, complex128, int64 or bool; always a new array."""
    if dtype != "bfloat16":
        return elements.astype(dtype).astype(_HELD[np.dtype(dtype).kind])
    single = np.ascontiguousarray(elements, np.float32)
    bits: Elements = single.view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    near = bits.astype(np.uint32).view(np.float32).reshape(np.shape(elements))
    return np.where(np.isfinite(near), near, elements).astype(np.float64)


def promote(*dtypes: str) -> str:
    """The dtype of a result whose operands have these dtypes; `NUMBER` is ignored.

    Promotion is NumPy's; `bfloat16` with another floating dtype gives `float32` (with `float64`,
    `float64`).
    """
    known = [d for d in dtypes if d != NUMBER] or ["float32"]
    if len(set(known)) == 1:
        return known[0]
    if "bfloat16" in known:
        others = {d for d in known if d != "bfloat16" and is_float(d)}
        return "float32" if others - {"float64"} else "float64" if others else "bfloat16"
    return str(np.result_type(*known))


# -- the graph -------------------------------------------------------------------------------------


class Vertex:
    """A vertex of the graph, which tensors result from. A later one has a greater `seq`; `inputs` are
    the keys of the tensors that it reads, `saved` its residuals, and `results` their number."""

    seq: int = -1
    inputs: Sequence[Key | None] = ()
    saved: Saved = ()
    results: int = 1
    #: What the cotangents of results are multiplied with, by number: hooks on tensors.
    hooks: Mapping[int, float] = MappingProxyType({})

    def gradients(self, cotangents: Cotangents, wanted: Wanted, task: Task) -> Cotangents:
        """The cotangents of the inputs that are wanted, given those of the results."""
        raise NotImplementedError


class Leaf(Vertex):
    """A tensor that the program starts from and that requires a gradient."""


class _Own(Tensor):
    """A node's own result, without a reference to the node: that would be a cycle."""

    __slots__ = ()


#: Stands for an operation's own result among its residuals.
OUT = Tensor(np.empty(0), NUMBER)


class Node(Vertex):
    """One recorded operation: its residuals, and for each input the key, the shape and the slope."""

    def __init__(
        self, inputs: Sequence[Tensor], saved: Saved, slopes: Sequence[Slope], out: Tensor
    ) -> None:
        self.seq = next(_number)
        self.inputs = [t.key for t in inputs]
        self.shapes = [t.shape for t in inputs]
        self.slopes = slopes
        self.saved = [_Own(out.data, out.dtype) if s is OUT else s for s in saved]

    def gradients(self, cotangents: Cotangents, wanted: Wanted, task: Task) -> Cotangents:
        saved = [Tensor(s.data, s.dtype, self) if isinstance(s, _Own) else s for s in self.saved]
        return [
            _like(slope(cotangents[0], *saved), shape) if want else None
            for slope, shape, want in zip(self.slopes, self.shapes, wanted, strict=True)
        ]


@dataclass(eq=False)
class Frame:
    """A run of a region's function, and all that its operations `made`, in order. If `keep` is false, no
    graph is recorded, only which tensors the function reads by closure (`outside`, by `id`)."""

    keep: bool
    outside: dict[int, Tensor] = field(default_factory=dict)
    inside: Leaf = field(default_factory=Leaf)
    made: list[weakref.ref[Tensor]] = field(default_factory=list)


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
    rounding: Callable[[Elements], Elements] | None = None
    keeping: bool = False
    rank: _Rank | None = None
    default_dtype: str = "float32"


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


def rounding(change: Callable[[Elements], Elements]) -> AbstractContextManager[None]:
    """A `with` block in which this is done to what each operation computes, in forward and backward."""
    return _set(rounding=change)


def keeping_zeros() -> AbstractContextManager[None]:
    """A `with` block in which a dropout keeps zeros, whatever its mask is, and the slope that an `rrelu`
    has drawn for a zero is another one: the result is the same."""
    return _set(keeping=True)


def _apart(data: Elements) -> Elements:
    """The elements; where results are rounded, no two of them are equal: which one counts is open."""
    return data if _state.rounding is None else _state.rounding(data)


def executions() -> list[tuple[str, str, str]]:
    """What ran since the process began, in order: (name of the region's function, or '' outside of
    regions; operation, or '' for the region itself; `forward` or `rerun`)."""
    return _state.log


def _record(
    inputs: Sequence[Tensor],
    data: Elements,
    saved: Saved | Chooses = (),
    *slopes: Slope,
    dtype: str = "",
) -> Tensor:
    """The result of an operation, linked to its inputs where a gradient can reach it.

    `slopes` has one function for each input, or none if the operation has no gradient; `saved` may be
    a function of which inputs a gradient can reach. The dtype is that of the inputs, promoted, if no
    other one is given.
    """
    frame = _state.frame
    if frame is not None and not frame.keep:
        for t in inputs:
            if t.scope is not frame:
                frame.outside.setdefault(id(t), t)
    dtype = dtype or promote(*(t.dtype for t in inputs))
    if _state.rounding is not None and is_float(dtype):
        data = _state.rounding(np.asarray(data))
    out = Tensor(np.asarray(data), dtype, scope=frame)
    if frame is not None:
        frame.made.append(weakref.ref(out))
    reached = [t.node is not None for t in inputs]
    if not _state.recording or not slopes or not is_float(dtype) or not any(reached):
        return out
    if frame is not None and not frame.keep:
        out.node = frame.inside
        return out
    out.node = Node(inputs, saved(*reached) if callable(saved) else saved, slopes, out)
    return out


def _unary(x: Tensor, data: Elements, slope: Slope, *saved: Tensor, dtype: str = "") -> Tensor:
    return _record((x,), data, saved, slope, dtype=dtype)


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
        by_place = _backward([target], [cotangent], {k for k in keys if k}, {}, stop=False)
    return [by_place.get(key) if key else None for key in keys]


def total(gradients: Iterable[Tensor | None], weights: Iterable[Tensor] = ()) -> Tensor:
    """The sum of all elements of all gradients that are not `None`, each times the element of its
    weight, a constant, where there are weights: a scalar."""
    result = _const(0.0)
    with quiet():
        for g, weight in itertools.zip_longest(gradients, weights):
            if g is not None:
                g = g if weight is None else multiply(g, _const(weight.data, weight.dtype))
                result = add(result, sum(g))
    return result


def jvp(target: Tensor, wrt: Sequence[Tensor], create_graph: bool = False) -> Tensor | None:
    """The tangent of `target` where the tangent of each of `wrt` is its own value: forward mode, made of
    two passes in reverse mode. `None` where the target does not depend on them."""
    cotangent = tensor(np.zeros(target.shape), target.dtype, gradient=True)
    gradients = gradient(target, wrt, cotangent, create_graph=True)
    return gradient(total(gradients, wrt), [cotangent], create_graph=create_graph)[0]


def jacobian(target: Tensor, x: Tensor) -> Tensor | None:
    """The derivatives of each element of `target` with respect to those of x, of the shape of both one
    after the other; `None` where the target does not depend on x."""
    rows: list[Elements] = []
    for number in range(target.data.size):
        one = np.zeros(target.data.size)
        one[number] = 1
        (row,) = gradient(target, [x], Tensor(one.reshape(target.shape), target.dtype))
        if row is None:
            return None
        rows.append(row.data)
    return Tensor(np.reshape(rows, (*target.shape, *x.shape)), x.dtype)


def descend(x: Tensor, slope: Tensor | None, rate: float) -> Tensor:
    """A step of SGD: a new leaf `x - rate * slope`, not rounded; x itself if `slope` is `None`."""
    if slope is None:
        return x
    return Tensor(x.data - rate * slope.data, x.dtype, Leaf())


def _backward(
    outputs: Sequence[Tensor],
    cotangents: Sequence[Tensor],
    targets: Set[Key],
    task: Task,
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
        places = [(node, i) for i in range(node.results)]
        mine = [None if stop and k in targets else cotangent_of.get(k) for k in places]
        for i, scale in () if isinstance(node, RegionNode) else node.hooks.items():
            if (given := mine[i]) is not None:
                mine[i] = multiply(given, scale)
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


#: The regions that one call of `gradient` ran again, each once: the differentiable results, and the
#: tensors that the function was given as arguments, in order.
Task = dict["RegionNode", tuple[list[Tensor], list[Tensor]]]


@dataclass(eq=False)
class RegionNode(Vertex):
    """A region in the graph: its function, its arguments, and the tensors that it read by closure.

    Nothing that the function computed is kept, but of its differentiable `results` the number. The last
    of these are not returned, but `left` elsewhere: of all that its operations made, these numbers.
    `context` is what a rerun runs in.
    """

    function: Callable[..., object]
    name: str
    args: tuple[object, ...]
    kwargs: dict[str, object]
    captured: list[Tensor]
    state: RandomState | None
    merge: bool
    context: Context
    left: list[int]
    results: int

    def __post_init__(self) -> None:
        self.seq, self.setting = next(_number), {"default_dtype": _state.default_dtype}
        self.inputs = [t.key for t in (*tensors_in((self.args, self.kwargs)), *self.captured)]
        self.args, self.kwargs = _map(_kept, self.args), _map(_kept, self.kwargs)
        self.saved = [*tensors_in((self.args, self.kwargs)), *self.captured]

    def rerun(self, task: Task) -> tuple[list[Tensor], list[Tensor]]:
        """Run the function again on what was kept, recording a graph; once in a task."""
        if self in task:
            return task[self]
        inside: list[Tensor] = []

        def fetch(kept: Tensor | _Later) -> Tensor:
            if isinstance(kept, _Later):
                made = kept.node.rerun(task)[0][kept.index]
                kept = Tensor(made.data, made.dtype, kept.node, kept.index)
            inside.append(_alias(kept))
            return inside[-1]

        before = None if self.state is None else random_state()
        frame = Frame(True)
        with _set(recording=True, frame=frame, region=self.name, phase="rerun", **self.setting):
            args, kwargs = _map(fetch, self.args), _map(fetch, self.kwargs)
            frame.made.clear()
            if self.state is not None:
                set_random_state(self.state)
            try:
                with _set(logging=True):
                    _state.log.append((self.name, "", "rerun"))
                    with self.context:
                        result = self.function(*args, **kwargs)
            finally:
                if before is not None:
                    set_random_state(before)
        given = {id(t) for t in inside}
        made = (t for t in tensors_in(result) if t.node and t.scope is frame)
        outputs = _distinct(t for t in made if id(t) not in given)
        # What was left and is not any more has no gradient, unless one is asked for.
        left = [frame.made[i]() if i < len(frame.made) else None for i in self.left]
        outputs += [Tensor(np.empty(0), NUMBER) if t is None else t for t in left]
        if len(outputs) != self.results:
            raise RuntimeError(f"region {self.name!r} gave other tensors when it ran again")
        for place, scale in self.hooks.items():
            hooked(outputs[place], scale)
        task[self] = outputs, inside
        return task[self]

    def gradients(self, cotangents: Cotangents, wanted: Wanted, task: Task) -> Cotangents:
        results, taken = self.rerun(task)
        keys = [t.key for t in (*taken, *self.captured)]
        targets = {k for k, want in zip(keys, wanted, strict=True) if want and k}
        pairs = [(o, c) for o, c in zip(results, cotangents, strict=True) if c is not None]
        if any(o.dtype == NUMBER for o, _ in pairs):
            raise RuntimeError(f"region {self.name!r} left no tensor where it did in forward")
        by_place = _backward([o for o, _ in pairs], [c for _, c in pairs], targets, task, stop=True)
        return [
            by_place.get(k) if want and k else None for k, want in zip(keys, wanted, strict=True)
        ]


def _kept(given: Tensor) -> Tensor | _Later:
    """What a region keeps of an argument: the tensor, or `_Later` for a result of a merged region."""
    if isinstance(given.node, RegionNode) and given.node.merge:
        return _Later(given.node, given.index)
    return given


def recompute(
    function: Callable[P, T],
    *,
    preserve_rng: bool = True,
    merge_adjacent: bool = False,
    contexts: Callable[[], tuple[Context, Context]] = lambda: (nullcontext(), nullcontext()),
) -> Callable[P, T]:
    """A callable that runs `function` again in backward instead of keeping its activations.

    `preserve_rng`: the rerun draws the same random numbers as forward, and restores all generators
    afterwards. `merge_adjacent`: a recomputed callable that takes this one's results does not keep
    them; both run again, once, when the later one's gradients are taken. `contexts` is called in
    forward, and gives the context managers in which forward and the rerun call the function. The
    function may take and return tensors in nested tuples, lists and dicts, by position or by name, and
    any other values. A deep copy of the callable runs a deep copy of the function. Raises `TypeError` if
    it is not callable, or if an option is of another type.
    """
    if not callable(function):
        raise TypeError(f"recompute needs a callable, not {type(function).__name__}")
    if not isinstance(preserve_rng, bool):
        raise TypeError(f"preserve_rng is a bool, not {type(preserve_rng).__name__}")

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
        entered: dict[int, tuple[Tensor, Tensor]] = {}  # the tensors inside, and those outside

        def enter(t: Tensor) -> Tensor:
            inner = Tensor(t.data, t.dtype, t.node and frame.inside, 0, frame)
            entered[id(inner)] = inner, t
            return inner

        with _set(region=name, frame=frame), first:
            _state.log.append((name, "", _state.phase))
            result = function(*_map(enter, args), **_map(enter, kwargs))
        given_back = (t for t in tensors_in(result) if t.node is frame.inside)
        made = _distinct(t for t in given_back if id(t) not in entered)
        # What lives on and is not returned, the function has left in a list or in an object.
        alive = ((i, ref()) for i, ref in enumerate(frame.made))
        left = [(i, t) for i, t in alive if t is not None and t.node is frame.inside]
        left = [(i, t) for i, t in left if all(t is not other for other in made)]
        node = None
        if made or left:
            captured = list(frame.outside.values())
            kept = (args, kwargs, captured, state)
            number, places = len(made) + len(left), [i for i, _ in left]
            node = RegionNode(function, name, *kept, merge_adjacent, second, places, number)
        for place, (_, t) in enumerate(left, start=len(made)):
            t.node, t.index, t.scope = node, place, outer
        index = {id(t): i for i, t in enumerate(made)}

        given_out: dict[int, Tensor] = {}

        def leave(t: Tensor) -> Tensor:
            if id(t) in entered:
                return entered[id(t)][1]
            if id(t) in index:
                given_out[id(t)] = Tensor(t.data, t.dtype, node, index[id(t)], outer)
                return given_out[id(t)]
            return Tensor(t.data, t.dtype, scope=outer) if t.scope is frame else t

        given: T = _map(leave, result)
        if outer is not None:
            for ref in frame.made:
                inner = ref()
                out = None if inner is None else given_out.get(id(inner))
                outer.made.append(ref if out is None else weakref.ref(out))
        return given

    def again(other: Callable[P, T]) -> Callable[P, T]:
        options = {"preserve_rng": preserve_rng, "merge_adjacent": merge_adjacent}
        return recompute(other, contexts=contexts, **options)

    return _Recomputed(function, region, again)


class _Recomputed(Generic[P, T]):
    """A callable that runs `region`; `again` recomputes another function in the same way. A function
    would be the same object in a deep copy of what has it as an attribute."""

    def __init__(
        self,
        function: Callable[P, T],
        region: Callable[P, T],
        again: Callable[[Callable[P, T]], Callable[P, T]],
    ) -> None:
        functools.update_wrapper(self, function)
        self._region, self._again = region, again

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._region(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, object]) -> Callable[P, T]:
        return self._again(copy.deepcopy(self.__wrapped__, memo))  # type: ignore[attr-defined]


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
    elif is_dataclass(tree) and not isinstance(tree, type):
        yield from tensors_in(vars(tree))


def _map(function: Callable[[Any], object], tree: object) -> Any:
    """A tree with its tensors replaced, in the order of `tensors_in`."""
    if isinstance(tree, Tensor | _Later):
        return function(tree)
    if isinstance(tree, dict):
        return type(tree)({key: _map(function, part) for key, part in tree.items()})
    if isinstance(tree, list | tuple):
        parts = [_map(function, part) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    if is_dataclass(tree) and not isinstance(tree, type):
        return replace(tree, **_map(function, vars(tree)))
    return tree


def memory_of(tensor: Tensor) -> Elements:
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


# -- ranks -----------------------------------------------------------------------------------------


class _Rank(threading.Thread):
    """A rank of `spawn`. It runs while it has its turn: until it takes part in a collective, or ends."""

    def __init__(self, number: int, ranks: int, function: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.number, self.ranks, self.function = number, ranks, function
        self.go, self.done = threading.Semaphore(0), threading.Semaphore(0)
        self.state = {**vars(_state), "rank": self, "generator": np.random.default_rng(0)}
        self.result: Any = None
        self.error: BaseException | None = None
        #: What it waits in, its part, and then the parts of all ranks, or why there are none.
        self.waits, self.given, self.met, self.refused = "", np.empty(0), [np.empty(0)], ""

    def run(self) -> None:
        self.go.acquire()
        try:
            self.result = self.function()
        except BaseException as error:
            self.error = error
        self.done.release()

    def turn(self) -> None:
        """Let it run to its next collective, or to its end, with its own part of the tape's state."""
        before, self.waits = {**vars(_state)}, ""
        vars(_state).update(self.state)
        self.go.release()
        self.done.acquire()
        self.state = {**vars(_state)}
        vars(_state).update(before)

    def meet(self, name: str, data: Elements) -> list[Elements]:
        """The parts of all ranks in a collective."""
        self.waits, self.given = name, data
        self.done.release()
        self.go.acquire()
        refused, self.refused = self.refused, ""
        if refused:
            raise RuntimeError(refused)
        return self.met


def spawn(function: Callable[[], T], ranks: int) -> list[T]:
    """The results of a function that each of several ranks runs; they take turns, and meet in
    collectives. An error on a rank ends all, and is raised."""
    group = [_Rank(number, ranks, function) for number in range(ranks)]
    waiting, failed = group, None
    for rank in group:
        rank.start()
    while waiting:
        for rank in waiting:
            rank.turn()
        waiting = [rank for rank in group if rank.waits]
        failed = failed or next((rank for rank in group if rank.error), None)
        alike = len({(rank.waits, rank.given.shape) for rank in group}) == 1
        for rank in waiting:
            rank.met = [other.given for other in group]
            if failed or not alike:
                others = (f"rank {o.number} {_place(o)}" for o in group if o is not rank)
                rank.refused = f"rank {rank.number} waits in {rank.waits}, and {', '.join(others)}"
    if failed is not None and failed.error is not None:
        raise failed.error
    return [rank.result for rank in group]


def _place(rank: _Rank) -> str:
    if rank.error is not None:
        return f"raised {type(rank.error).__name__}"
    return f"waits in {rank.waits} of {rank.given.shape}" if rank.waits else "has ended"


def rank() -> int:
    """The number of the rank that runs, from 0."""
    return 0 if _state.rank is None else _state.rank.number


def ranks() -> int:
    """How many ranks run."""
    return 1 if _state.rank is None else _state.rank.ranks


def _met(name: str, x: Tensor) -> list[Elements]:
    return [x.data] if _state.rank is None else _state.rank.meet(name, x.data)


@_operation
def all_reduce(x: Tensor) -> Tensor:
    """The sum of the x of all ranks."""
    return _unary(x, np.add.reduce(_met("all_reduce", x)), all_reduce)


@_operation
def all_gather(x: Tensor) -> Tensor:
    """The rows of the x of all ranks, one rank after the other."""
    return _unary(x, np.concatenate(_met("all_gather", x)), reduce_scatter)


@_operation
def reduce_scatter(x: Tensor) -> Tensor:
    """This rank's part of the rows of the sum of the x of all ranks."""
    total = np.add.reduce(_met("reduce_scatter", x))
    if len(total) % ranks():
        raise ValueError(f"{len(total)} rows cannot be divided among {ranks()} ranks")
    return _unary(x, np.split(total, ranks())[rank()], all_gather)


def averaged(x: Tensor) -> Tensor:
    """The mean of the x of all ranks, as data parallelism takes it of gradients."""
    return divide(all_reduce(x), ranks())


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


def _source(seed: int | None) -> np.random.Generator:
    return _state.generator if seed is None else np.random.default_rng(seed)


def _uniform(u: Elements | float, low: float, high: float) -> Tensor:
    return _record((), rounded(np.asarray(low + (high - low) * u), "float32"), dtype="float32")


@_operation
def uniform(
    shape: Sequence[int], low: float = 0.0, high: float = 1.0, seed: int | None = None
) -> Tensor:
    """`low + (high - low) * u`, u uniform in [0, 1), as float32, from the implicit generator, or
    from the operation's own seed."""
    return _uniform(_source(seed).random(shape), low, high)


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
    return masked(x, _source(seed).random(x.shape) >= p, p)


def masked(x: Tensor, mask: ArrayLike, p: float) -> Tensor:
    """Dropout with a given mask."""
    kept = Tensor(np.asarray(mask, np.bool_), "bool", scope=_state.frame)
    if _state.keeping:
        kept.data = kept.data | (x.data == 0)
    data = x.data * kept.data / (1 - p)
    return _unary(x, data, lambda g, mask: masked(g, mask.data, p), kept)


# -- elementwise operations ------------------------------------------------------------------------


def _like(g: Tensor, shape: Shape) -> Tensor:
    """A cotangent summed over what broadcasting had repeated, so that it has `shape`."""
    if g.shape == shape:
        return g
    for _ in range(len(g.shape) - len(shape)):
        g = sum(g, axis=0)
    for axis, length in enumerate(shape):
        if length == 1 and g.shape[axis] != 1:
            g = sum(g, axis=axis, keepdims=True)
    return g


def _pair(a: Tensor | float, b: Tensor | float) -> tuple[Tensor, Tensor]:
    return _as_tensor(a), _as_tensor(b)


def _alias(x: Tensor) -> Tensor:
    """The same elements as a new vertex of the graph."""
    return _unary(x, x.data, lambda g: g)


@_operation
def add(a: Tensor | float, b: Tensor | float) -> Tensor:
    """`a + b`, broadcast."""
    a, b = _pair(a, b)
    return _record((a, b), a.data + b.data, (), lambda g: g, lambda g: g)


@_operation
def subtract(a: Tensor | float, b: Tensor | float) -> Tensor:
    """`a - b`, broadcast."""
    a, b = _pair(a, b)
    return _record((a, b), a.data - b.data, (), lambda g: g, negative)


@_operation
def multiply(a: Tensor | float, b: Tensor | float) -> Tensor:
    """`a * b`, broadcast."""
    a, b = _pair(a, b)
    slopes = lambda g, a, b: multiply(g, b), lambda g, a, b: multiply(g, a)
    return _record((a, b), a.data * b.data, _crosswise(a, b), *slopes)


def _crosswise(a: Tensor, b: Tensor) -> Chooses:
    """The residuals of a product: each factor is read by the gradient of the other."""
    return lambda reach_a, reach_b, *_: (a if reach_b else None, b if reach_a else None)


@_operation
def divide(a: Tensor | float, b: Tensor | float) -> Tensor:
    """`a / b`, broadcast."""
    a, b = _pair(a, b)
    slopes = (
        lambda g, a, b: divide(g, b),
        lambda g, a, b: negative(divide(multiply(g, a), multiply(b, b))),
    )
    return _record((a, b), a.data / b.data, lambda _, reach_b: (a if reach_b else None, b), *slopes)


@_operation
def negative(x: Tensor) -> Tensor:
    """`-x`."""
    return _unary(x, -x.data, negative)


@_operation
def relu(x: Tensor) -> Tensor:
    """`maximum(x, 0)`; its gradient at 0 is 0."""
    data = np.maximum(x.data, 0)
    return _unary(x, data, lambda g, out: multiply(g, _const(out.data > 0, out.dtype)), OUT)


@_operation
def gelu(x: Tensor) -> Tensor:
    """`x * (1 + erf(x / sqrt(2))) / 2`."""

    def back(g: Tensor, x: Tensor) -> Tensor:
        return multiply(g, add(_normal_cdf(x), multiply(x, _normal_density(x))))

    return _unary(x, x.data * (1 + _erf(x.data / math.sqrt(2))) / 2, back, x)


def _normal_cdf(x: Tensor) -> Tensor:
    data = (1 + _erf(x.data / math.sqrt(2))) / 2
    return _unary(x, data, lambda g, x: multiply(g, _normal_density(x)), x)


def _normal_density(x: Tensor) -> Tensor:
    return multiply(exp(multiply(multiply(x, x), -0.5)), 1 / math.sqrt(2 * math.pi))


@_operation
def tanh(x: Tensor) -> Tensor:
    """`tanh(x)`."""
    data = np.tanh(x.data)
    return _unary(x, data, lambda g, out: multiply(g, subtract(1.0, multiply(out, out))), OUT)


@_operation
def sigmoid(x: Tensor) -> Tensor:
    """`1 / (1 + exp(-x))`."""
    data = (1 + np.tanh(x.data / 2)) / 2
    return _unary(x, data, lambda g, out: multiply(g, multiply(out, subtract(1.0, out))), OUT)


@_operation
def sin(x: Tensor) -> Tensor:
    """`sin(x)`."""
    return _unary(x, np.sin(x.data), lambda g, x: multiply(g, cos(x)), x)


@_operation
def cos(x: Tensor) -> Tensor:
    """`cos(x)`."""
    return _unary(x, np.cos(x.data), lambda g, x: negative(multiply(g, sin(x))), x)


@_operation
def exp(x: Tensor) -> Tensor:
    """`exp(x)`."""
    return _unary(x, np.exp(x.data), multiply, OUT)


@_operation
def log(x: Tensor) -> Tensor:
    """`log(x)`, the natural logarithm."""
    return _unary(x, np.log(x.data), divide, x)


@_operation
def square(x: Tensor) -> Tensor:
    """`x * x`."""
    return _unary(x, x.data**2, lambda g, x: multiply(g, add(x, x)), x)


@_operation
def sqrt(x: Tensor) -> Tensor:
    """`sqrt(x)`."""
    return _unary(x, np.sqrt(x.data), lambda g, out: divide(g, add(out, out)), OUT)


@_operation
def abs(x: Tensor) -> Tensor:
    """`abs(x)`; its gradient at 0 is 0. Where results are rounded, it is not: JAX's is 1."""
    data, slope = np.abs(x.data), np.sign(x.data)
    if _state.rounding is not None:
        slope = np.where(_apart(x.data) > 0, 1, -1)
    return _unary(x, data, lambda g, x: multiply(g, _const(slope, x.dtype)), x)


@_operation
def maximum(a: Tensor | float, b: Tensor | float) -> Tensor:
    """The larger of a and b, broadcast; where they are equal the gradient goes to a."""
    a, b = _pair(a, b)
    first = _apart(a.data) >= _apart(b.data)
    if _state.rounding is not None:  # the gradient of equal elements is open, too
        first &= a.data != b.data
    slopes = (
        lambda g, a, b: multiply(g, _const(first, g.dtype)),
        lambda g, a, b: multiply(g, _const(~first, g.dtype)),
    )
    return _record((a, b), np.maximum(a.data, b.data), (a, b), *slopes)


@_operation
def where(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a where the bool condition is true, else b."""
    if condition.dtype != "bool":
        raise TypeError(f"a condition of dtype {condition.dtype} has no truth, write `dtype: bool`")

    def of_a(g: Tensor, condition: Tensor) -> Tensor:
        return multiply(g, _const(condition.data, g.dtype))

    def of_b(g: Tensor, condition: Tensor) -> Tensor:
        return multiply(g, _const(~condition.data, g.dtype))

    data, dtype = np.where(condition.data, a.data, b.data), promote(a.dtype, b.dtype)
    return _record((condition, a, b), data, (condition,), of_a, of_a, of_b, dtype=dtype)


@_operation
def max(x: Tensor, axis: int = -1, keepdims: bool = False) -> Tensor:
    """The largest element along an axis, the first where several are equal."""
    shape = x.shape

    def back(g: Tensor, first: Tensor) -> Tensor:
        chosen = np.zeros(shape)
        np.put_along_axis(chosen, np.expand_dims(first.data, axis), 1.0, axis)
        return multiply(reshape(g, _reduced(shape, axis)), _const(chosen, g.dtype))

    first = Tensor(_apart(x.data).argmax(axis), "int64")
    return _unary(x, x.data.max(axis, keepdims=keepdims), back, first)


@_operation
def cumulative_sum(x: Tensor, axis: int = -1) -> Tensor:
    """The cumulative sum along an axis."""
    data = np.cumsum(x.data, axis)
    return _unary(x, data, lambda g: _flipped(cumulative_sum(_flipped(g, axis), axis), axis))


def _flipped(x: Tensor, axis: int) -> Tensor:
    return _unary(x, np.flip(x.data, axis).copy(), lambda g: _flipped(g, axis))


@_operation
def rrelu(x: Tensor, low: float = 0.125, high: float = 1 / 3) -> Tensor:
    """x where it is positive, else x times a slope drawn for each element from the implicit
    generator, uniform in [low, high)."""
    slopes = low + (high - low) * _state.generator.random(x.shape)
    return leaky(x, np.where(x.data > 0, 1.0, slopes))


def sloped(x: Tensor, drawn: Elements) -> Tensor:
    """`rrelu` with the slopes that a given result shows, none for a zero."""
    slopes = np.where((x.data == 0) & _state.keeping, 0.0, 1.0)
    return leaky(x, np.divide(drawn, x.data, out=slopes, where=x.data < 0))


def leaky(x: Tensor, slopes: ArrayLike) -> Tensor:
    """x times given slopes."""
    kept = Tensor(np.asarray(slopes, np.float64), x.dtype, scope=_state.frame)
    return _unary(x, x.data * kept.data, lambda g, slopes: leaky(g, slopes.data), kept)


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
    return _unary(x, np.sin(x.data), lambda g, x: multiply(multiply(g, cos(x)), 2.0), x)


@_operation
def asking_sin(x: Tensor) -> Tensor:
    """As `custom_sin`. In programs, its backward gives a gradient only if its saved tensor says
    that x requires one."""
    return custom_sin(x)


@_operation
def slope_of_sin(x: Tensor) -> Tensor:
    """`cos(x)`. Programs compute it as the framework's gradient of `sum(sin(x))`, inside the
    forward pass. Raises `ValueError` where `x` requires no gradient."""
    if x.node is None:
        raise ValueError("its argument requires no gradient")
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
    if not x.shape:
        raise ValueError("a scalar cannot be put twice in a row")
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

    def back(g: Tensor, out: Tensor) -> Tensor:
        g = multiply(g, out)
        return subtract(g, multiply(out, sum(g, axis=axis, keepdims=True)))

    return _unary(x, powers / powers.sum(axis, keepdims=True), back, OUT)


# -- products --------------------------------------------------------------------------------------


def _turned(x: Tensor) -> Tensor:
    return permute_dims(x, (*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2))


@_operation
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """`a @ b` of tensors with two axes or more, the leading ones broadcast."""
    slopes = lambda g, a, b: matmul(g, _turned(b)), lambda g, a, b: matmul(_turned(a), g)
    return _record((a, b), a.data @ b.data, _crosswise(a, b), *slopes)


@_operation
def solve(a: Tensor, b: Tensor) -> Tensor:
    """The solution x of `a @ x = b`, a of shape (n, n) and b of (n, k)."""
    slopes = (
        lambda g, a, out: negative(matmul(solve(_turned(a), g), _turned(out))),
        lambda g, a, out: solve(_turned(a), g),
    )
    matrix = (
        a.data if _state.rounding is None else _state.rounding(a.data)
    )  # an algorithm's own errors
    try:
        solution = np.linalg.solve(matrix, b.data)
    except np.linalg.LinAlgError:  # the matrix is singular
        solution = np.full(b.shape, np.nan)
    return _record((a, b), solution, (a, OUT), *slopes)


@_operation
def linear(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """`x @ w.T + b`, w of shape (out, in), x with two axes or more."""
    shape = x.shape
    if len(shape) < 2:
        raise ValueError(f"a vector of shape {shape} has no rows")

    def flat(t: Tensor) -> Tensor:
        return reshape(t, (math.prod(t.shape[:-1]), t.shape[-1]))

    slopes = (
        lambda g, x, w: reshape(matmul(flat(g), w), shape),
        lambda g, x, w: matmul(_turned(flat(g)), flat(x)),
        lambda g, x, w: sum(flat(g), axis=0),
    )
    product = x.data @ w.data.T
    if _state.rounding is not None:  # in many frameworks, an operation of its own
        product = _state.rounding(product)
    return _record((x, w, b), product + b.data, _crosswise(x, w), *slopes)


@_operation
def conv2d(x: Tensor, w: Tensor, stride: int = 1, padding: str = "valid") -> Tensor:
    """The sum over a window of x (n, c, h, w) times w (o, c, kh, kw) (cross-correlation), zeros
    around x for `same`."""
    window = Window.of(x.shape, w.shape[2:], stride, padding)
    w_shape = w.shape

    def of_x(g: Tensor, x: Tensor, w: Tensor) -> Tensor:
        return _fold(matmul(_turned(reshape(w, (w_shape[0], -1))), flat(g)), window)

    def of_w(g: Tensor, x: Tensor, w: Tensor) -> Tensor:
        return reshape(sum(matmul(flat(g), _turned(_unfold(x, window))), axis=0), w_shape)

    def flat(g: Tensor) -> Tensor:
        return reshape(g, (*g.shape[:2], -1))

    windows = window.over(np.pad(x.data, window.zeros))
    columns = windows.reshape(x.shape[0], math.prod(w_shape[1:]), -1)
    data = w.data.reshape(w_shape[0], -1) @ columns
    data = data.reshape(x.shape[0], w_shape[0], *windows.shape[4:])
    return _record((x, w), data, _crosswise(x, w), of_x, of_w)


def _windows(x: Elements, kernel: Shape, stride: int) -> Elements:
    """The windows of an array (n, c, h, w), as (n, c, rows, columns, *kernel): a view of it."""
    make = np.lib.stride_tricks.sliding_window_view
    return make(x, kernel, (2, 3), writeable=True)[:, :, ::stride, ::stride]


@dataclass(frozen=True)
class Window:
    """The geometry of a convolution: shape of x (n, c, h, w), kernel height and width, stride, and the
    zeros before and after each axis of x."""

    shape: Shape
    kernel: Shape
    stride: int
    zeros: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, shape: Shape, kernel: Shape, stride: int, padding: str) -> Window:
        zeros = [(0, 0)] * 4
        for axis, length in enumerate(kernel, 2) if padding == "same" else ():
            missing = (shape[axis] - 1) // stride * stride + length - shape[axis]
            if missing > 0:
                zeros[axis] = missing // 2, missing - missing // 2
        return cls(shape, kernel, stride, zeros)

    def over(self, padded: Elements) -> Elements:
        """The windows of padded elements: (n, c, kh, kw, rows, columns), a view of them."""
        return _windows(padded, self.kernel, self.stride).transpose(0, 1, 4, 5, 2, 3)


def _unfold(x: Tensor, window: Window) -> Tensor:
    """The windows of x: (n, c * kh * kw, windows)."""
    windows = window.over(np.pad(x.data, window.zeros))
    data = windows.reshape(x.shape[0], math.prod(windows.shape[1:4]), -1)
    return _unary(x, data, lambda g: _fold(g, window))


def _fold(patches: Tensor, window: Window) -> Tensor:
    """The adjoint of `_unfold`: adds up the windows."""
    padded = np.pad(np.zeros(window.shape), window.zeros)
    windows = window.over(padded)
    parts = patches.data.reshape(windows.shape)
    for i, j in np.ndindex(*window.kernel):
        windows[:, :, i, j] += parts[:, :, i, j]
    (top, _), (left, _) = window.zeros[2:]
    data = padded[:, :, top : top + window.shape[2], left : left + window.shape[3]].copy()
    return _unary(patches, data, lambda g: _unfold(g, window))


@_operation
def max_pool2d(x: Tensor, size: int) -> Tensor:
    """The maximum of each window, the first where several are equal; stride equals size, no padding."""
    shape = x.shape
    windows = _windows(x.data, (size, size), size)
    parts = windows.reshape(*windows.shape[:4], size * size)

    def back(g: Tensor, first: Tensor) -> Tensor:
        mask = np.zeros(shape)
        chosen = np.arange(size * size) == first.data[..., None]
        windows = _windows(mask, (size, size), size)
        windows[...] = chosen.reshape(windows.shape)
        return multiply(_spread(g, size, shape), _const(mask))

    first = Tensor(parts.argmax(-1), "int64")
    return _unary(x, parts.max(-1), back, first)


@_operation
def avg_pool2d(x: Tensor, size: int) -> Tensor:
    """The mean of each window; stride equals size, no padding."""
    return multiply(_gather(x, size), 1 / size**2)


def _gather(x: Tensor, size: int) -> Tensor:
    """The sum of each window."""
    shape = x.shape
    data = _windows(x.data, (size, size), size).sum((4, 5))
    return _unary(x, data, lambda g: _spread(g, size, shape))


def _spread(g: Tensor, size: int, shape: Shape) -> Tensor:
    """The adjoint of `_gather`: each element repeated over its window, zeros outside all windows."""
    data = np.zeros(shape)
    _windows(data, (size, size), size)[...] = g.data[..., None, None]
    return _unary(g, data, lambda h: _gather(h, size))


# -- normalisation ---------------------------------------------------------------------------------


def _normalized(
    x: Tensor, gamma: Tensor, beta: Tensor, axes: Shape, shape: Shape, eps: float
) -> Tensor:
    """`(x - mean) / sqrt(var + eps) * gamma + beta` over axes; gamma and beta viewed as `shape`."""
    count = math.prod(x.shape[axis] for axis in axes) or 1  # without elements, anything will do
    centre = x.data.sum(axes, keepdims=True) / count
    scale = 1 / np.sqrt(np.square(x.data - centre).sum(axes, keepdims=True) / count + eps)
    gamma_shape = gamma.shape

    def average(t: Tensor) -> Tensor:
        for axis in axes:
            t = sum(t, axis=axis, keepdims=True)
        return multiply(t, 1 / count)

    def normal(x: Tensor) -> tuple[Tensor, Tensor]:
        """`(x - mean) / sqrt(var + eps)`, and its factor."""
        if _state.recording:  # the statistics must depend on x for second order
            centred = subtract(x, average(x))
            inverse = _power(add(average(multiply(centred, centred)), eps), -0.5)
        else:
            centred, inverse = subtract(x, _const(centre)), _const(scale)
        return multiply(centred, inverse), inverse

    def place(t: Tensor) -> Tensor:
        return reshape(_like(t, shape), gamma_shape)

    def of_x(g: Tensor, x: Tensor, gamma: Tensor, mask: Tensor) -> Tensor:
        hat, inverse = normal(x)
        h = multiply(g, reshape(gamma, shape))
        shift = add(average(h), multiply(hat, average(multiply(h, hat))))
        return multiply(inverse, subtract(h, shift))

    def of_gamma(g: Tensor, x: Tensor, gamma: Tensor, mask: Tensor) -> Tensor:
        return place(multiply(g, normal(x)[0]))

    def saved(reach_x: bool, reach_gamma: bool, reach_beta: bool) -> Saved:
        if not (reach_x or reach_gamma):
            return (None, None, None)
        mask = Tensor(np.stack([centre, scale]), x.dtype)
        return (x, gamma if reach_x else None, mask)

    data = (x.data - centre) * scale * gamma.data.reshape(shape) + beta.data.reshape(shape)
    return _record((x, gamma, beta), data, saved, of_x, of_gamma, lambda g, *saved: place(g))


def _power(x: Tensor, exponent: float) -> Tensor:
    data = x.data**exponent
    return _unary(x, data, lambda g, x: multiply(g, multiply(_power(x, exponent - 1), exponent)), x)


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
    if x.data.size == x.shape[1]:
        raise ValueError("one value has no variance")
    batches = x.data.mean(axes), x.data.var(axes)
    for running, batch in zip((running_mean, running_var), batches, strict=True):
        running.data[...] = (1 - momentum) * running.data + momentum * batch
    return _normalized(x, gamma, beta, axes, (1, -1, 1, 1), eps)


@_operation
def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """`(x - mean) / sqrt(var + eps) * gamma + beta`, mean and (biased) var over the last axis."""
    if not gamma.shape == beta.shape == x.shape[-1:]:
        raise ValueError(f"gamma and beta must have the shape {x.shape[-1:]}")
    return _normalized(x, gamma, beta, (len(x.shape) - 1,), gamma.shape, eps)


# -- shapes, tables, dtypes ------------------------------------------------------------------------


@_operation
def embedding(indices: Tensor, table: Tensor) -> Tensor:
    """`table[indices]`."""
    if len(table.shape) != 2:
        raise ValueError(f"a table of shape {table.shape} has no rows")
    rows = table.shape[0]
    if np.any(indices.data < 0):
        raise IndexError("an index is negative")
    data = table.data[indices.data]
    return _unary(table, data, lambda g, indices: _scatter(g, indices, rows), indices)


def _scatter(g: Tensor, indices: Tensor, rows: int) -> Tensor:
    """Rows added up where `indices` say: the adjoint of `embedding`."""
    data = np.zeros((rows, g.shape[-1]))
    np.add.at(data, indices.data, g.data)
    return _unary(g, data, lambda h, indices: embedding(indices, h), indices)


@_operation
def sum(x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The sum over an axis, over all axes where it is `None`."""
    shape = x.shape
    data = x.data.sum(axis, keepdims=keepdims)
    return _unary(x, data, lambda g: _repeated(reshape(g, _reduced(shape, axis)), shape))


def _reduced(shape: Shape, axis: int | None) -> Shape:
    """A shape with an axis, or every one, of length 1."""
    return tuple(
        1 if axis is None or i == axis % len(shape) else length for i, length in enumerate(shape)
    )


def _repeated(x: Tensor, shape: Shape) -> Tensor:
    """x broadcast to a shape."""
    return _unary(x, np.broadcast_to(x.data, shape).copy(), lambda g: g)


@_operation
def mean(x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The mean over an axis, over all axes where it is `None`."""
    count = x.data.size if axis is None else x.shape[axis]
    return multiply(sum(x, axis, keepdims), 1 / count)


@_operation
def reshape(x: Tensor, shape: Shape) -> Tensor:
    """`reshape(x, shape)`, with one -1 allowed."""
    old = x.shape
    return _unary(x, x.data.reshape(shape), lambda g: reshape(g, old))


@_operation
def permute_dims(x: Tensor, axes: Shape) -> Tensor:
    """`transpose(x, axes)`: the axes of x in the new order."""
    inverse = tuple(int(i) for i in np.argsort([axis % len(x.shape) for axis in axes]))
    return _unary(x, x.data.transpose(axes), lambda g: permute_dims(g, inverse))


@_operation
def broadcast_to(x: Tensor, shape: Shape) -> Tensor:
    """`broadcast_to(x, shape)`: x repeated along new axes, and along axes of length 1."""
    return _repeated(x, shape)


@_operation
def concat(arrays: Sequence[Tensor], axis: int = 0) -> Tensor:
    """`concatenate(arrays, axis)`: tensors one after another along an axis."""
    ends = [0, *(int(end) for end in np.cumsum([t.shape[axis] for t in arrays]))]
    parts = [(start, end, 1) for start, end in itertools.pairwise(ends)]
    slopes = [functools.partial(_part, axis=axis, bounds=part) for part in parts]
    return _record(tuple(arrays), np.concatenate([t.data for t in arrays], axis), (), *slopes)


def _part(x: Tensor, axis: int, bounds: _Bounds) -> Tensor:
    """The elements of x from a start to a stop along an axis, in steps."""
    shape, chosen = x.shape, builtins.slice(*bounds)
    data = x.data.swapaxes(0, axis)[chosen].swapaxes(0, axis)
    return _unary(x, data, lambda g: _padded(g, axis, bounds, shape))


def _padded(x: Tensor, axis: int, bounds: _Bounds, shape: Shape) -> Tensor:
    """x among zeros along an axis: the adjoint of `_part`."""
    data = np.zeros(shape, x.data.dtype)
    data.swapaxes(0, axis)[builtins.slice(*bounds)] = x.data.swapaxes(0, axis)
    return _unary(x, data, lambda g: _part(g, axis, bounds))


@_operation
def slice(
    x: Tensor, start: int = 0, stop: int | None = None, step: int = 1, axis: int = 0
) -> Tensor:
    """The elements of x from `start` to `stop` along an axis, every `step`-th; `None` is the end. Raises
    `ValueError` where there are none, or the step is below 1."""
    if step < 1:
        raise ValueError(f"a step of {step}, expected 1 or more")
    part = _part(x, axis, (start, stop, step))
    if x.data.size and not part.data.size:
        raise ValueError(f"no elements of a length of {x.shape[axis]} from {start} to {stop}")
    return part


@_operation
def split(x: Tensor, sections: int, axis: int = 0) -> tuple[Tensor, ...]:
    """`split(x, sections, axis)`: equal parts along an axis, as a tuple."""
    length, rest = divmod(x.shape[axis], sections)
    if rest:
        raise ValueError(f"cannot split a length of {x.shape[axis]} into {sections} equal parts")
    return tuple(_part(x, axis, (i * length, (i + 1) * length, 1)) for i in range(sections))


@_operation
def astype(x: Tensor, dtype: str) -> Tensor:
    """x as another dtype; its gradient is passed on unrounded."""
    return _relabelled(x, rounded(x.data, dtype), dtype)


@_operation
def to_default(x: Tensor, dtype: str = "") -> Tensor:
    """x as the default dtype, or as `dtype`."""
    to = dtype or _state.default_dtype
    return _relabelled(x, rounded(x.data, to), to)


def set_default_dtype(dtype: str) -> None:
    """Set the dtype that `to_default` casts to; it is float32 at first."""
    _state.default_dtype = dtype


def _relabelled(x: Tensor, data: Elements, dtype: str) -> Tensor:
    old = x.dtype
    return _unary(x, data, lambda g: _relabelled(g, g.data, old), dtype=dtype)


@_operation
def to_complex(a: Tensor, b: Tensor) -> Tensor:
    """`a + ib`, of two real tensors of one shape. The cotangent of a complex tensor is that of its real
    part plus i times that of its imaginary part."""
    dtype = "complex128" if promote(a.dtype, b.dtype) == "float64" else "complex64"
    return _record((a, b), a.data + 1j * b.data, (), real, imag, dtype=dtype)


def _component(x: Tensor, data: Elements, back: Slope) -> Tensor:
    if not x.dtype.startswith("complex"):
        raise TypeError(f"a tensor of dtype {x.dtype} has no parts, expected a complex one")
    dtype = "float64" if x.dtype == "complex128" else "float32"
    return _unary(x, data, back, dtype=dtype)


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
    with _set(rounding=None):
        return _record((x,), x.data)


@_operation
def asks_gradient(x: Tensor) -> bool:
    """Whether a gradient can reach x, as x itself says it."""
    return x.node is not None


@_operation
def hooked(x: Tensor, scale: float = 2.0) -> Tensor:
    """x, which has to be made by the statement or the call before. In programs, a hook on its gradient
    returns it times `scale`."""
    out = _record((), x.data, dtype=x.dtype)
    out.node, out.index = x.node, x.index  # a hook is on the tensor: also what made it may read it
    if x.node is not None and not isinstance(x.node, Leaf):
        scale *= x.node.hooks.get(x.index, 1.0)
        x.node.hooks = {**x.node.hooks, x.index: scale}
    return out


@_operation
def raise_if(x: Tensor, flag: object) -> Tensor:
    """x, or `ValueError('raise_if')` where the bool flag is true."""
    if flag:
        raise ValueError("raise_if")
    return _alias(x)
