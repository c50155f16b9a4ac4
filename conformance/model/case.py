"""The values that a case is made of, after loading: frozen, and free of any framework.

A *tree* is a name (`Ref`), a literal (`Literal`), or a tuple, a dict or another container of trees
(`conformance.model.containers`). Trees describe the arguments and results of regions and the outputs of
programs. Whether their containers come back unchanged is tested, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Literal as OneOf
from typing import TypeVar

from conformance.model.containers import alike

#: In the body of a `Repeat`: the number of the iteration, in names (`w$i`) or by itself.
NUMBER = "$i"
Scalar = None | bool | int | float | str
#: Procedures but `train`.
Untrained = OneOf[
    "backward",
    "part",
    "per_output",
    "functional",
    "second_backward",
    "second_order",
    "third_order",
    "jvp",
    "jvp_of_gradient",
    "gradient_of_jvp",
    "jacobian",
    "inference",
]
#: Procedures in forward mode: they carry tangents beside the values.
FORWARD_MODE = frozenset({"jvp", "jvp_of_gradient", "gradient_of_jvp"})
#: How common a program is; `conformance.language.spec` says what each means.
Use = OneOf["everyday", "unusual", "contract"]


@dataclass(frozen=True)
class Position:
    """A place in a case file, both numbers from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Ref:
    """A name that stands for a value of the program, and where the case reads it."""

    name: str
    where: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Literal:
    """A value written down in the case: `None`, a bool, a number or a string."""

    value: Scalar


Tree = Ref | Literal | tuple["Tree", ...] | Mapping[str, "Tree"]
#: An argument of an operation: a name, a literal, or a tuple of names (`concat([a, b])`).
Argument = Ref | Literal | tuple[Ref, ...]
Option = Scalar | tuple[int, ...]


@dataclass(frozen=True)
class Fill:
    """How the elements of an array are made.

    `full` (one value), `values` (written out), `arange` (start, step), or a draw from
    `numpy.random.default_rng(seed)`: `normal` (scale), `uniform` (low, high), `integers` (low, high).
    One generator per program serves all draws, in the order: inputs, parameters, state.
    """

    kind: OneOf["full", "values", "arange", "normal", "uniform", "integers"]
    numbers: tuple[float, ...] = ()
    values: object = None  # nested tuples of numbers, for `values`


@dataclass(frozen=True)
class Array:
    """A tensor that a program starts from. `dtype` is a NumPy name or `bfloat16`; `gradient` says
    whether it requires a gradient. One that is `by_rank` has other elements on each rank: draws of
    `numpy.random.default_rng([seed, rank + 1])`, or the rank's part of `values`, which have an axis
    more."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    fill: Fill
    gradient: bool
    by_rank: bool = False


@dataclass(frozen=True)
class Value:
    """An input that is not a tensor: `None`, a bool, a number, a string, or several of them, which
    programs write as a list."""

    name: str
    value: Scalar | tuple[Scalar, ...]


@dataclass(frozen=True)
class Generator:
    """An explicit random generator as an input: the framework's own generator or key, or
    `numpy.random.default_rng(seed)`. The program passes it to its random operations."""

    name: str
    library: OneOf["framework", "numpy"]
    seed: int


@dataclass(frozen=True)
class Statement:
    """`targets = op(*arguments, **options)`."""

    targets: tuple[str, ...]
    op: str
    arguments: tuple[Argument, ...]
    options: Mapping[str, Option]
    where: Position

    @property
    def label(self) -> str:
        """The name by which results refer to this statement within its region: its first target. One
        that registers a hook on what another one has made is told apart from it."""
        return f"hook on {self.targets[0]}" if self.op == "hooked" else self.targets[0]

    def names(self) -> tuple[str, ...]:
        """The names that the statement reads, in order, repeats included."""
        return leaves(self.arguments)


@dataclass(frozen=True)
class Segment:
    """Which part of a sequence of layers a region is: `number` (from 1) of `count` segments, with the
    statements of each of its `layers`."""

    sequence: str
    number: int
    count: int
    layers: tuple[tuple[Statement, ...], ...]

    @property
    def first(self) -> bool:
        return self.number == 1

    @property
    def last(self) -> bool:
        return self.number == self.count


@dataclass(frozen=True)
class Region:
    """A part of the program that is recomputed in backward.

    The leaves of its arguments, `takes` and `kwargs`, are names, and the body uses each leaf under that
    same name. `gives` is what the region returns. `save` is the policy: operations, or labels of
    statements of the body, whose results are kept. A region that is not `called` is only defined here,
    for later calls (`Again`). `segment` is set if the granularity is `segment`. A `mapped` region is
    called through the framework's vectorising map over the first axis of all arguments. `autocast` is
    the dtype of the autocast that the region's function enters itself, or empty. `returned` names the
    call's return value as a whole, with its containers, or is empty. `written` are the options that the
    program passes explicitly although they have their default value. Adapters that write calls as loops
    write a call of a `round` region as a loop of one iteration. `option` says what is wrong with an
    option that recompute itself is given. A region with `contexts` runs in a context manager of the
    program's own, and its rerun in another one. `left` are results, by their names in `gives`, that the
    function does not return: it appends them to a list, where the program finds them after the call.
    """

    name: str
    takes: tuple[Tree, ...]
    kwargs: Mapping[str, Tree]
    gives: Tree
    body: tuple[Node, ...]
    granularity: OneOf["function", "module", "operation", "segment"]
    preserve_rng: bool
    where: Position
    merge_adjacent: bool = False
    block: OneOf["callable", "invalid"] = "callable"
    save: tuple[str, ...] = ()
    called: bool = True
    segment: Segment | None = None
    signature: OneOf["plain", "keyword-only", "variadic", "undeclared"] = "plain"
    mapped: bool = False
    autocast: str = ""
    returned: str = ""
    written: frozenset[str] = frozenset()
    round: bool = False
    option: OneOf["", "unknown", "wrong"] = ""
    contexts: bool = False
    left: tuple[str, ...] = ()

    @property
    def returns(self) -> Tree:
        """What the function returns: what the region gives, but for what is `left`."""
        return self.returned_of(self.gives)

    def returned_of(self, gives: Tree) -> Tree:
        """What a call returns that gives these names."""
        if not self.left or not isinstance(gives, tuple) or not isinstance(self.gives, tuple):
            return gives
        own = zip(gives, self.gives, strict=True)
        kept = tuple(g for g, o in own if not (isinstance(o, Ref) and o.name in self.left))
        returned: tuple[Tree, ...] = alike(gives, kept)
        return returned[0] if len(returned) == 1 and type(returned) is tuple else returned

    def left_of(self, gives: Tree) -> tuple[str, ...]:
        """The names of what a call leaves in the list, of these that it gives, in their order there."""
        names = dict(zip(leaves(self.gives), leaves(gives), strict=True))
        return tuple(names[name] for name in self.left)

    def saves(self, statement: Statement) -> bool:
        """Whether the policy keeps the results of a statement of the body."""
        return statement.op in self.save or not set(self.save).isdisjoint(statement.targets)

    def captured(self) -> tuple[str, ...]:
        """The names that the body reads from outside, in order of first use."""
        return self._captured

    @cached_property  # emitters ask for it often, above all for nested regions
    def _captured(self) -> tuple[str, ...]:
        known = {*leaves(self.takes), *leaves(self.kwargs)}
        captured: dict[str, None] = {}
        for node in flat(self.body):
            captured |= dict.fromkeys(name for name in node_reads(node) if name not in known)
            known.update(node_makes(node))
        captured |= dict.fromkeys(name for name in leaves(self.gives) if name not in known)
        return tuple(captured)


@dataclass(frozen=True)
class Again:
    """A further call of a region that was defined earlier, in this list of nodes or an outer one.

    `left_out` are arguments given by name that the program does not pass, since the region's function
    has them by default; `kwargs` has these, too.
    """

    region: str
    takes: tuple[Tree, ...]
    kwargs: Mapping[str, Tree]
    gives: Tree
    where: Position
    returned: str = ""
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Repeat:
    """Statements and calls of regions that the case writes once, for several iterations.

    In the names of `body`, `$i` stands for an iteration's number, one of `numbers`; what another name
    stands for carries over to the next iteration. Iterations that define regions are written out, each
    with a region of its own, and are no `Repeat`.
    """

    body: tuple[Node, ...]
    numbers: tuple[int, ...]

    @cached_property  # a statement of an iteration is the same object whenever it is asked for
    def iterations(self) -> tuple[tuple[Node, ...], ...]:
        return tuple(numbered(self.body, number) for number in self.numbers)


Node = Statement | Region | Again | Repeat
#: What is left of the nodes once repetitions are unrolled.
FlatNode = Statement | Region | Again


@dataclass(frozen=True)
class Loss:
    """The scalar that is differentiated: `sum` or `mean` of an output, or a scalar output itself."""

    reduction: OneOf["sum", "mean", "none"]
    name: str


@dataclass(frozen=True)
class Change:
    """Something that is done between two steps of training; `name` is what it is done to.

    `freeze` and `unfreeze` switch whether a tensor requires a gradient. `assign` halves a parameter in
    place; `replace` puts another tensor in its place, with half its values. `set` gives an input another
    `value`, `rows` cuts all inputs to so many rows. `copy` goes on with a deep copy of what holds the
    regions, and changes the original; `run` is a forward pass with gradients off, and `fail` one that
    raises an error, because a flag is set.
    """

    kind: OneOf["freeze", "unfreeze", "assign", "replace", "set", "rows", "copy", "run", "fail"]
    name: str = ""
    value: Scalar = None


@dataclass(frozen=True)
class Procedure:
    """What is done with the program.

    `backward`: forward, then gradients of the loss. `part`: the framework is told to compute only the
    gradients that the case names. `functional`: gradients come from a transform of the function.
    `per_output`: gradients of the loss, then of the loss `then`, over one retained graph.
    `second_backward`: the gradients are taken twice over one retained graph. `second_order`: the sum
    of all first gradients is differentiated again. `third_order`: and once more. `jvp`: forward mode,
    the tangent of the loss's output, where the tangent of each tensor in `wrt` is the tensor itself.
    `jvp_of_gradient`: the tangents of the gradients (forward over reverse). `gradient_of_jvp`: the
    gradients of the tangent, reduced as the loss is (reverse over forward). `jacobian`: all derivatives
    of the loss's output, by the framework's own function. `inference`: forward with gradients switched
    off. `train`: `steps` steps of SGD with `learning_rate` on all
    parameters that require a gradient.

    `between` is what happens between forward and backward: the implicit generator is seeded again, or
    drawn from; `update` halves all parameters; `switch` turns on the switch that `switched_sin` reads;
    with `thread`, backward is started by another thread than the one that forward ran in, with
    `autocast` under autocast to bfloat16, with `no-gradients` where gradients are switched off.

    `after` is what is done with the same program first: a forward pass with gradients switched off
    (`inference`), or forward and backward, to whose gradients those of the procedure are added
    (`backward`).
    """

    kind: Untrained | OneOf["train"] = "backward"
    steps: int = 1
    learning_rate: float = 0.0
    between: OneOf[
        "", "reseed", "draw", "update", "thread", "switch", "autocast", "no-gradients"
    ] = ""
    after: OneOf["", "inference", "backward"] = ""
    #: Whether the recomputed regions are made once, before training, or anew in each step.
    made: OneOf["each-step", "once"] = "each-step"
    #: What is done before the second step, the third, and so on.
    changes: tuple[tuple[Change, ...], ...] = ()

    @property
    def order(self) -> int:
        twice = dict.fromkeys(("second_order", "jvp_of_gradient", "gradient_of_jvp"), 2)
        return {**twice, "third_order": 3}.get(self.kind, 1)


@dataclass(frozen=True)
class ExpectedError:
    """An error that the program must raise, by the name of a built-in exception. `then` gives inputs new
    values for the good run that must work afterwards; empty where no good run follows."""

    type: str
    then: Mapping[str, Scalar]


@dataclass(frozen=True)
class Tolerance:
    """`|observed - expected| <= atol * magnitude + rtol * |expected|`; `magnitude` is the array's
    largest element, at least 1. See `conformance.judge.arrays`."""

    rtol: float
    atol: float


@dataclass(frozen=True)
class Law:
    """The law of growth that a case is a point of: a name in `conformance.language.laws`, and `at`, the
    value of its variable. `counts` is the operation whose executions it describes, or empty."""

    name: str
    at: int
    constants: Mapping[str, int] = field(default_factory=dict)
    counts: str = ""


@dataclass(frozen=True)
class Case:
    """One program and what is expected of it. `id` (`family/name[axis=value]`) is permanent."""

    id: str
    title: str
    source: str
    why: str
    inputs: tuple[Array | Value | Generator, ...]
    parameters: tuple[Array, ...]
    state: tuple[Array, ...]
    program: tuple[Node, ...]
    outputs: Tree
    loss: Loss | None
    wrt: tuple[str, ...]
    procedure: Procedure
    tolerance: Tolerance
    needs: frozenset[str]
    seed: int
    error: ExpectedError | None
    where: Position
    #: What a document printed: gradients by name, executions by region and phase.
    printed_gradients: Mapping[str, object] = field(default_factory=dict)
    printed_executions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: How often the procedure is repeated to see whether anything is left over; 0 for not at all.
    release: int = 0
    #: Whether the outputs of each of these runs are kept until the last is over.
    keeps: bool = False
    law: Law | None = None
    #: The dtype that the forward pass is cast to by the framework's autocast; empty for none.
    autocast: str = ""
    #: The setting that holds around the forward pass, and not around backward; empty for none.
    around: OneOf["", "default-float64"] = ""
    #: Tensors whose gradient hook is watched.
    hooks: tuple[str, ...] = ()
    #: Why implementations may differ on this case; what they do is recorded, and fails only where
    #: numbers are wrong without an error. Empty for most cases.
    differs: str = ""
    #: Whether the recomputed program may raise if the plain program raises, too.
    as_plain: bool = False
    #: What the second backward pass of `per_output` differentiates.
    then: Loss | None = None
    #: Whether the program seeds the framework's generator.
    seeded: bool = True
    #: By parameter: the sum of its gradient's elements, in multiples of the loss. It holds for any
    #: random samples.
    totals: Mapping[str, float] = field(default_factory=dict)
    #: Whether it is one of the everyday cases that `--smoke` runs.
    smoke: bool = False
    use: Use = "unusual"
    #: On how many ranks the program runs. What is differentiated is the sum of their losses.
    ranks: int = 1
    #: How the framework spreads the program over them: with `data`, the gradients of parameters are
    #: averaged over all ranks; with `sharded`, each rank holds a part of each parameter, too; with
    #: `tensor`, layers are `split`; empty where the program says all itself.
    parallel: OneOf["", "data", "sharded", "tensor"] = ""
    #: By parameter, the weight of a layer: by what tensor parallelism splits the layer over the ranks.
    split: Mapping[str, OneOf["columns", "rows"]] = field(default_factory=dict)

    @property
    def family(self) -> str:
        return self.id.split("/", 1)[0]

    @property
    def arrays(self) -> tuple[Array, ...]:
        given = tuple(i for i in self.inputs if isinstance(i, Array))
        return given + self.parameters + self.state

    def names(self) -> tuple[str, ...]:
        """The names of `plain` and `recomputed`'s arguments, in order."""
        return tuple(v.name for v in (*self.inputs, *self.parameters, *self.state))

    @property
    def differentiated(self) -> tuple[str, ...]:
        """The names of the gradients: those of `wrt`, or of the output that a tangent belongs to."""
        if self.loss is not None and self.procedure.kind in ("jvp", "gradient_of_jvp"):
            return (self.loss.name,)
        return self.wrt

    def regions(self) -> tuple[Region, ...]:
        return self._regions

    @cached_property
    def _regions(self) -> tuple[Region, ...]:
        return tuple(node for node in walk(self.program) if isinstance(node, Region))

    def called(self) -> tuple[Region, ...]:
        """The regions that run, each once; one that is defined may be called nowhere."""
        known = {region.name: region for region in self.regions()}
        found: dict[str, Region] = {}

        def follow(nodes: Iterable[Node]) -> None:
            for node in flat(nodes):
                name = node.region if isinstance(node, Again) else getattr(node, "name", "")
                runs = isinstance(node, Again) or (isinstance(node, Region) and node.called)
                if runs and name not in found:
                    found[name] = known[name]
                    follow(known[name].body)

        follow(self.program)
        return tuple(found.values())

    def statements(self) -> tuple[tuple[str, Statement], ...]:
        """All statements with the name of the innermost region around each (empty outside)."""
        return tuple(
            (name, node) for name, node in owned(self.program) if isinstance(node, Statement)
        )

    def sources(self) -> frozenset[str]:
        """What the case draws random numbers from without naming it: `implicit` (the framework's
        generator), `numpy`, `python`."""
        return frozenset(_SOURCES[s.op] for _, s in self.statements() if s.op in _SOURCES)

    def counted(self) -> frozenset[tuple[str, str]]:
        """Region and label of the statements whose executions the case's law is about."""
        if self.law is None:
            return frozenset()
        others = {(r, s.label) for r, s in self.statements() if s.op != self.law.counts}
        return frozenset((r, s.label) for r, s in self.statements()) - others

    def uses(self, operations: frozenset[str]) -> bool:
        return any(statement.op in operations for _, statement in self.statements())


#: By operation, what it draws from without the case naming it. Frameworks often use the implicit
#: generator even if the operation is given a seed.
_SOURCES = {
    **dict.fromkeys(("dropout", "uniform", "rrelu"), "implicit"),
    **{"numpy_uniform": "numpy", "python_uniform": "python"},
}
_T = TypeVar("_T")


def numbered(value: _T, number: int) -> _T:
    """Nodes, trees or names with a number in place of `$i`; a `Repeat` among them has its own."""
    made: object = value
    if isinstance(value, str):
        made = number if value == NUMBER else value.replace(NUMBER, str(number))
    elif isinstance(value, tuple):
        made = alike(value, (numbered(part, number) for part in value))
    elif isinstance(value, Mapping):
        made = alike(
            value, {numbered(key, number): numbered(part, number) for key, part in value.items()}
        )
    elif isinstance(value, Statement | Region | Again | Segment | Ref | Literal):
        parts = {f.name: numbered(getattr(value, f.name), number) for f in fields(value)}
        made = replace(value, **parts)
    return made  # type: ignore[return-value]


def flat(nodes: Iterable[Node]) -> Iterator[FlatNode]:
    """The nodes of a list in the order in which they run, repetitions unrolled; regions stay whole."""
    for node in nodes:
        if isinstance(node, Repeat):
            for iteration in node.iterations:
                yield from flat(iteration)
        else:
            yield node


def owned(nodes: Iterable[Node], region: str = "") -> Iterator[tuple[str, FlatNode]]:
    """Every node, repetitions unrolled, a region before what is in it; each with the name of the
    innermost region around it."""
    for node in flat(nodes):
        yield region, node
        if isinstance(node, Region):
            yield from owned(node.body, node.name)


def walk(nodes: Iterable[Node]) -> Iterator[FlatNode]:
    """Every node, repetitions unrolled, a region before what is in it."""
    return (node for _, node in owned(nodes))


def refs(tree: Tree) -> Iterator[Ref]:
    """The names in a tree, in order: tuples by position, dicts in the order written."""
    if isinstance(tree, Ref):
        yield tree
    elif not isinstance(tree, Literal):
        for part in tree.values() if isinstance(tree, Mapping) else tree:
            yield from refs(part)


def leaves(tree: Tree) -> tuple[str, ...]:
    """The names in a tree, in order."""
    return tuple(ref.name for ref in refs(tree))


def node_reads(node: FlatNode) -> tuple[str, ...]:
    """The names that a node reads and does not make itself."""
    if isinstance(node, Statement):
        return node.names()
    if isinstance(node, Region) and not node.called:
        return node.captured()
    captured = node.captured() if isinstance(node, Region) else ()
    return (*leaves(node.takes), *leaves(node.kwargs), *captured)


def node_makes(node: FlatNode) -> tuple[str, ...]:
    """The names that a node assigns (or reassigns), for use by later nodes."""
    if isinstance(node, Statement):
        return node.targets
    if isinstance(node, Region) and not node.called:
        return ()
    return leaves(node.gives) + ((node.returned,) if node.returned else ())
