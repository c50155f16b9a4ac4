"""Reads the optimised HLO of a compiled `tf.function`: its instructions, by graph node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from . import lines, profiler

#: For an operation of a case, the types of the graph nodes that may do its work.
WORK: Mapping[str, Sequence[str]] = {**lines.WORK, "dropout": ("GreaterEqual",)}
#: The opcodes of the instructions of such a node that do the work; other instructions of the node
#: (constants, changes of layout) may be there without them. Operations that are missing here have no
#: reliable count: the compiler rewrites arithmetic (the square of a sum, the logarithm of an
#: exponential), removes or merges changes of shape and type, and the instructions of random numbers name
#: no node.
OPCODES: Mapping[str, Sequence[str]] = {
    "matmul": ("dot",),
    "linear": ("dot",),
    "conv2d": ("convolution", "dot"),
    "max_pool2d": ("reduce-window",),
    "avg_pool2d": ("reduce-window",),
    "batch_norm": ("multiply",),
    "layer_norm": ("multiply",),
    "embedding": ("gather", "dynamic-slice"),
    "relu": ("maximum",),
    "gelu": ("exponential", "erf"),
    "tanh": ("tanh",),
    "sigmoid": ("divide", "logistic"),
    "sin": ("sine",),
    "cos": ("cosine",),
    "sin_or_cos": ("sine", "cosine"),
    "custom_sin": ("sine",),
    "noted_sin": ("sine",),
    "slope_of_sin": ("cosine",),
    "accumulate_sin": ("sine",),
    "sqrt": ("sqrt",),
    "maximum": ("maximum",),
    "max": ("reduce",),
    "softmax": ("exponential",),
    "dropout": ("compare",),
}


def instructions(module: Any) -> set[tuple[str, str]]:
    """The instructions of a module that come from a graph node: the node's name, and their opcode."""
    return {
        (one.metadata.op_name, one.opcode)
        for computation in module.computations
        for one in computation.instructions
        if one.metadata.op_name
    }


def ran(functions: Any) -> Counter[tuple[str, str]]:
    """How often instructions ran in the last run of a program's compiled functions, by node name and
    opcode; an instruction that several fusions duplicate counts once.

    The HLO modules are those of the executables that ran, from the profiler. Raises `RuntimeError`
    where the profiler has none for a function.
    """
    planes = profiler.Session().stop()
    counts: Counter[tuple[str, str]] = Counter()
    for function in functions.known:
        names = [graph.name.decode() for graph in function.graphs()]
        modules = profiler.modules(planes, names)
        if len(modules) != 1:
            raise RuntimeError(f"{len(modules)} executables of {', '.join(names)}")
        for key in instructions(modules[0]):
            counts[key] += function.calls
    return counts


def runs(
    op: str, nodes: Sequence[tuple[str, str]], ran: Mapping[tuple[str, str], int]
) -> int | None:
    """How often a statement of the operation `op` ran that was traced to `nodes` (name, type); `None`
    where its instructions do not show it."""
    opcodes = OPCODES.get(op)
    names = [name for name, kind in nodes if kind in WORK.get(op, ())]
    if opcodes is None or not names:
        return None
    return max(ran.get((names[-1], opcode), 0) for opcode in opcodes)


def traces(nodes: Sequence[tuple[str, str]], ran: Mapping[tuple[str, str], int]) -> int:
    """The count of the instruction that ran most of those that come from a statement's `nodes`; 0 where
    there is none."""
    names = {name for name, _ in nodes}
    return max((count for (name, _), count in ran.items() if name in names), default=0)
