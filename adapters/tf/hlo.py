"""What is left in the optimised HLO of a compiled `tf.function`, by the graph node it comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from . import profiler

#: For an operation of a case, the types of graph nodes of which one does its work, and the
#: instructions of such a node that do it; what else a node becomes (constants, changes of layout) is
#: there without it. Operations that are not here have no dependable count: the compiler rewrites
#: arithmetic (a square of a sum, the logarithm of an exponential), takes out or merges changes of
#: shape and type, and the instructions of random numbers come from no node.
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
    """How often an instruction of a node and an opcode ran in the last run of a program's compiled
    functions; what a fusion repeats counts once.

    The executables are those that ran: the profiler tells of their modules. Raises `RuntimeError`
    where it does not.
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
    """How often a statement of an operation ran, which was traced to nodes (name and type); `None`
    where its instructions do not tell."""
    types, opcodes = (words.split() for words in WORK.get(op, ("", "")))
    names = [name for name, kind in nodes if kind in types]
    if not names:
        return None
    return max(ran.get((names[-1], opcode), 0) for opcode in opcodes)


def traces(nodes: Sequence[tuple[str, str]], ran: Mapping[tuple[str, str], int]) -> int:
    """How often anything of a statement ran, which was traced to nodes."""
    names = {name for name, _ in nodes}
    return max((count for (name, _), count in ran.items() if name in names), default=0)
