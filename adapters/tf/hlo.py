"""What is left in the optimised HLO of a compiled `tf.function`, by the graph node it comes from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import tensorflow as tf

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
    "accumulate_sin": ("Sin", "sine"),
    "sqrt": ("Sqrt", "sqrt"),
    "maximum": ("Maximum", "maximum"),
    "max": ("Max", "reduce"),
    "softmax": ("Softmax", "exponential"),
    "dropout": ("GreaterEqual", "compare"),
}
_LINE = re.compile(r"^\s+(?:ROOT )?%?[\w.\-]+ = .*? (?P<opcode>[a-z][a-z\-]*)\(.*$")
_NAME = re.compile(r'op_name="(?P<name>[^"]*)"')


def instructions(text: str) -> Counter[tuple[str, str]]:
    """How many instructions of a module's text have an opcode and come from a graph node: by the
    node's name and the opcode. Raises `ValueError` where the text is not a module's."""
    if not text.startswith("HloModule"):
        raise ValueError("the text is not an HLO module's")
    found: Counter[tuple[str, str]] = Counter()
    for line in text.splitlines():
        one = _LINE.match(line)
        name = _NAME.search(line)
        if one is not None and name is not None:
            found[name["name"], one["opcode"]] += 1
    return found


class Compiled:
    """The compiled functions that a program calls: their optimised HLO, and how often each ran."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        #: How often each text ran.
        self.calls: list[int] = []

    @contextmanager
    def active(self, file: str) -> Iterator[Compiled]:
        """Follow the functions that the program in a file makes, until the `with` ends."""
        original = tf.function

        def function(*given: Any, **options: Any) -> Any:
            made = original(*given, **options)
            if given or not options.get("jit_compile"):
                return made
            return lambda body: self._watched(made(body))

        with mock.patch.object(tf, "function", function):
            yield self

    def _watched(self, compiled: Any) -> Any:
        place: list[int] = []

        def call(*arguments: Any) -> Any:
            result = compiled(*arguments)
            if not place:
                place.append(len(self.texts))
                text = compiled.experimental_get_compiler_ir(*arguments)(stage="optimized_hlo")
                self.texts.append(text)
                self.calls.append(0)
            self.calls[place[0]] += 1
            return result

        return call

    def nodes(self) -> Counter[tuple[str, str]]:
        """How often an instruction of a node and an opcode ran; what a fusion repeats counts once."""
        found: Counter[tuple[str, str]] = Counter()
        for text, calls in zip(self.texts, self.calls, strict=True):
            for key in instructions(text):
                found[key] += calls
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
