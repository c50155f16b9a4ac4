"""Reads the optimised HLO of a compiled `tf.function`: its instructions, by graph node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from . import profiler

#: For an operation of a case, the types of the graph nodes that may do its work, and the opcodes of the
#: instructions of such a node that do it; other instructions of the node (constants, changes of layout)
#: may be there without them. Operations that are missing here have no reliable count: the compiler
#: rewrites arithmetic (the square of a sum, the logarithm of an exponential), removes or merges changes
#: of shape and type, and the instructions of random numbers name no node.
WORK: Mapping[str, tuple[str, str]] = {
    "matmul": ("MatMul BatchMatMulV2", "dot"),
    "linear": ("MatMul BatchMatMulV2", "dot"),
    "conv2d": ("Conv2D", "convolution dot"),
    "max_pool2d": ("MaxPool", "reduce-window"),
    "avg_pool2d": ("AvgPool", "reduce-window"),
    "batch_norm": ("SquaredDifference", "multiply"),
    "layer_norm": ("SquaredDifference", "multiply"),
    "embedding": ("ResourceGather GatherV2", "gather dynamic-slice"),
    "relu": ("Relu", "maximum"),
    "gelu": ("Erf Erfc", "exponential erf"),
    "tanh": ("Tanh", "tanh"),
    "sigmoid": ("Sigmoid", "divide logistic"),
    "sin": ("Sin", "sine"),
    "cos": ("Cos", "cosine"),
    "sin_or_cos": ("Sin Cos", "sine cosine"),
    "custom_sin": ("Sin", "sine"),
    "noted_sin": ("Sin", "sine"),
    "slope_of_sin": ("Cos", "cosine"),
    "accumulate_sin": ("Sin", "sine"),
    "sqrt": ("Sqrt", "sqrt"),
    "maximum": ("Maximum", "maximum"),
    "max": ("Max", "reduce"),
    "softmax": ("Softmax", "exponential"),
    "dropout": ("GreaterEqual", "compare"),
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
    found: Counter[tuple[str, str]] = Counter()
    for function in functions.known:
        names = [graph.name.decode() for graph in function.graphs()]
        modules = profiler.modules(planes, names)
        if len(modules) != 1:
            raise RuntimeError(f"{len(modules)} executables of {', '.join(names)}")
        for key in instructions(modules[0]):
            found[key] += function.calls
    return found


def runs(
    op: str, nodes: Sequence[tuple[str, str]], ran: Mapping[tuple[str, str], int]
) -> int | None:
    """How often a statement of the operation `op` ran that was traced to `nodes` (name, type); `None`
    where its instructions do not show it."""
    types, opcodes = (words.split() for words in WORK.get(op, ("", "")))
    names = [name for name, kind in nodes if kind in types]
    if not names:
        return None
    return max(ran.get((names[-1], opcode), 0) for opcode in opcodes)


def traces(nodes: Sequence[tuple[str, str]], ran: Mapping[tuple[str, str], int]) -> int:
    """The count of the instruction that ran most of those that come from a statement's `nodes`; 0 where
    there is none."""
    names = {name for name, _ in nodes}
    return max((count for (name, _), count in ran.items() if name in names), default=0)
