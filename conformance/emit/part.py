"""What the parts of an emitter have in common, and the framework's own words that they write with."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from typing import Literal as OneOf

from conformance.errors import NotOfferedError
from conformance.model.case import Option, Statement
from conformance.model.steps import held


@dataclass(frozen=True)
class Call:
    """An operation in a statement, its arguments and options as Python expressions.

    `arguments` maps the operation's argument names to expressions (a list argument to `[a, b]`);
    `options` maps option names to values, defaults filled in. `of_numpy` says that the explicit
    generator among the arguments is NumPy's.
    """

    op: str
    arguments: Mapping[str, str]
    options: Mapping[str, Option]
    statement: Statement
    of_numpy: bool = False


Writer = str | Callable[[Call], str]
RAISE_IF = """
    def raise_if(x, flag):
        if flag:
            raise ValueError("raise_if")
        return x
    """
#: The kinds of procedure, but for those of `FURTHER`.
PROCEDURES = (
    *("backward", "part", "functional", "per_output", "second_backward"),
    *("second_order", "third_order", "inference", "train"),
)
#: What they are followed by in few frameworks: forward mode, and whole Jacobians.
FURTHER = ("jvp", "jvp_of_gradient", "gradient_of_jvp", "jacobian")
#: Names that every program defines.
OWN_NAMES = frozenset(
    {"plain", "recomputed", "run", "main", "inputs", "values", "outputs", "forward"}
)


@dataclass(frozen=True)
class Words:
    """How a framework spells things. An empty text says that the framework has no such thing; a case
    that needs it is unsupported."""

    #: Import lines; those that a program does not use are removed.
    imports: Sequence[str] = ()
    #: A line after the imports, and the device that programs name; empty where the framework chooses.
    first: str = ""
    device: str = ""
    #: For each operation a format string over its arguments and options, or a function of a `Call`.
    operations: Mapping[str, Writer] = field(default_factory=dict)
    #: Functions that a program defines for itself, by the operation that calls them.
    helpers: Mapping[str, str] = field(default_factory=lambda: {"raise_if": RAISE_IF})
    #: The kinds of procedure that the part `run` writes.
    procedures_written: Collection[str] = ("backward", "inference")
    #: Which repetitions become a loop: those of calls of regions alone (`calls`) if the observer tells
    #: operations apart by their lines, since a loop hides how often a line ran within one call.
    loops: OneOf["all", "calls", "nothing"] = "all"
    #: Whether a region's function without captured names is written once, before `plain`, for both
    #: paths. The observer must then not rely on lines to tell `plain` and `recomputed` apart.
    shares: bool = False
    #: Whether that goes for a region inside another one, too.
    shares_nested: bool = False
    #: Which numbered parameters (`w1`, `w2`, …) are one list: those that no region captures
    #: (`uncaptured`), `all`, or none (`nothing`).
    lists: OneOf["all", "uncaptured", "nothing"] = "nothing"
    #: What a module holds a list of parameters in, as a format string.
    list_of_parameters: str = "{}"
    #: The decorator that a dataclass needs so that the framework finds the tensors in it.
    registered: str = ""
    #: How often the gradient of an operation can be taken, one of the other, where that is limited.
    orders: Mapping[str, int] = field(default_factory=dict)
    #: Operations that have no derivative in forward mode.
    reverse_only: Collection[str] = ()
    #: Operations through which only one backward pass can go, also over a graph that is retained.
    once: Collection[str] = ()
    #: For each operation pairs of arguments: where the first one requires a gradient, the second one has
    #: to, since the framework's own gradient is wrong else.
    asking: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    #: The line that seeds the framework's implicit generator; `{seed}` stands for the number.
    seeding: str = ""
    #: The line that draws from the implicit generator and discards the result.
    drawing: str = ""
    #: The head of the `with` in which gradients are off; empty where nothing has to be written.
    without_gradients: str = ""
    #: The head of the `with` of the framework's autocast; `{dtype}` stands for the dtype.
    autocast: str = ""
    #: The call that sets the framework's default dtype; `{dtype}` stands for the dtype.
    default_dtype: str = ""
    #: The framework's vectorising map of a function over the first axis of its arguments.
    vmap: str = ""
    #: The line that registers a gradient hook on a tensor of `values`; the hook appends `{name}` to the
    #: list `fired`.
    hook: str = ""
    #: The lines that halve the parameters in `values` whose names are in `{names}`, and those that halve
    #: a single one, `{name}`, where they differ.
    halving: str = ""
    halving_one: str = ""
    #: What the object has that holds regions made once: the tensors that training updates in place or
    #: puts back (`tensors`), or only inputs that are no tensors, since others are handed in (`values`).
    holds: OneOf["tensors", "values", ""] = ""
    #: The lines that change something between steps: `freeze`, `unfreeze`, `assign`, `replace`, `rows`.
    #: `{place}` is the tensor's expression (`{apart}` while it is frozen), `{name}` its name, and
    #: `{asks}` the text `asks`, if it is one that requires a gradient.
    changes: Mapping[str, str] = field(default_factory=dict)
    #: The expression of a loss that is made of an output `{x}`: its `{kind}`, `sum` or `mean`.
    reduction: str = "{x}.{kind}()"
    #: The number of the rank that runs, as an expression, and the lines that end a program of several
    #: ranks, where each is a process or a thread: both paths are run on each of `{ranks}` ranks.
    rank: str = ""
    start: str = ""
    #: The function that makes a module data parallel.
    data_parallel: str = ""
    #: The keyword with a text as the value of an option of recompute that takes none.
    wrong_option: str = ""


class Part:
    """A part of an emitter: it writes one kind of thing, and asks the other parts for the rest. It has
    those that are made before it from the start, and each other one once that is made."""

    # In the order in which they are made. Their types are left open: a part that named the types of the
    # others would import the modules that import it.
    tensors: Any
    body: Any
    layers: Any
    recompute: Any
    forward: Any
    values: Any
    run: Any
    transforms: Any

    def __init__(self, emitter: Any) -> None:
        self.emitter, self.words = emitter, emitter.words
        self.case, self.variant, self.code = emitter.case, emitter.variant, emitter.code
        #: The parameters that are in lists, and where.
        self.in_lists: Mapping[str, Any] = emitter.in_lists
        vars(self).update({n: part for n, part in vars(emitter).items() if isinstance(part, Part)})

    @cached_property
    def held_once(self) -> tuple[str, ...]:
        """The names that the object has which holds regions made once; none where there is no such
        object."""
        if self.case.procedure.made != "once" or self.forward.makes_network:
            return ()
        values = {value.name for value in self.case.inputs}
        tensors = self.offered("holds") == "tensors"
        return tuple(name for name in held(self.case) if tensors or name in values)

    @property
    def modelled(self) -> bool:
        """Whether an object holds the regions, which are made once."""
        return self.case.procedure.made == "once" and not self.forward.makes_network

    @property
    def wraps_network(self) -> bool:
        """Whether the framework's data parallelism wraps the forward pass and its parameters."""
        return self.case.parallel == "data"

    def offered(self, word: str) -> str:
        """One of the framework's words (`hook`). Raises `NotOfferedError` if it is empty."""
        line: str = getattr(self.words, word)
        if not line:
            raise NotOfferedError(self.variant.id, f"`{word}`")
        return line

    @property
    def path(self) -> str:
        """Which of `plain` and `recomputed` is being written; `both` for what they share."""
        return self.emitter.path
