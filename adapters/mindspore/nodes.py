"""The nodes of a graph as MindSpore's compiler writes it: what each does, and which values it reads.

A function that is called several times and has a loop or a conditional stays a graph of its own, which
the program's graph calls. It is read as if it were inlined at each call. Steps of a loop and branches
of a conditional cannot be inlined: they are read as one node, the call.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

#: A value: the node's number and which of its results, or a parameter's name and 0.
Ref = tuple[int | str, int]
#: The result of a node: a value, or a (nested) tuple of values.
Value = Ref | list["Value"]

CALL = "call"
WHOLE = -1  # in the place of a result's number: all results
COPIED = "duplicated: Bool(1)"
_ENTRY = re.compile(r"^# IR entry: @(\S+)", re.MULTILINE)
_GRAPH = re.compile(r"^subgraph @([^\s(]+)\(([^\n]*)\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NODE = re.compile(r"^  %(\d+)\(.*?\) = (?:PrimFunc_)?([\w:]+)\((.*)$")
#: A call of another graph: of a conditional's branches, which a node has chosen, or by its name.
_CALL = re.compile(r"^  %(\d+)\(.*?\) = (%\d+\[.*?\]|call @\S+?)\((.*)$")
_RETURN = re.compile(r"^  Return\((.*)$")
_OPERAND = re.compile(r"%para(\d+)_([^\s,()\[\]]*)|%(\d+)")
_ATTRIBUTES = re.compile(r"\) (?:primitive_attrs|cnode_attrs|cnode_primal_attrs): \{")
_INDEX = re.compile(r"I64\((\d+)\)")
_ID = re.compile(r"recompute_id: I64\((\d+)\)")
_NAMED = re.compile(r"@([^\s(),\[\]]+)")
_SCOPE = "# Fullname with scope: (Gradients/"
#: Nodes that run no kernel: those that return their first operand, and those that return all.
_FIRST = frozenset({"Load", "Depend", "TensorMove"})
_ALL = frozenset({"MakeTuple", "MakeList"})
#: A node that adds to a parameter. What reads its result reads the parameter, as it is then.
_ADDING = "AssignAdd"


@dataclass
class Node:
    """A node of a graph: what it does, the values it reads, and whether it belongs to a gradient."""

    operation: str
    reads: tuple[Ref, ...]
    recompute_id: str
    copy: bool
    gradient: bool = False


@dataclass(frozen=True)
class _Graph:
    """A graph's text: the numbers of its parameters, its lines, and the graphs that it names."""

    parameters: tuple[str, ...]
    lines: tuple[str, ...]
    names: frozenset[str]


def read_nodes(text: str, *, handing_on: Collection[str] = ()) -> dict[int, Node]:
    """The nodes of the program's graph, by number, in order; without those of the operations in
    `handing_on`, whose readers read what they read.

    Raises `RuntimeError` where the text names no entry graph, or where a graph that the program's does
    not call has recomputed copies.
    """
    graphs = {
        graph[1]: _Graph(
            tuple(number for number, _, _ in _OPERAND.findall(graph[2])),
            tuple(graph[3].splitlines()),
            frozenset(_NAMED.findall(graph[3])),
        )
        for graph in _GRAPH.finditer(text)
    }
    entry = _ENTRY.search(text)
    if entry is None:
        raise RuntimeError("the compiler has written a graph that does not say where it begins")
    reader = _Reader(graphs, _FIRST.union(handing_on))
    reader.read(entry[1], [])
    apart = graphs.keys() - reader.opened
    if any(COPIED in line for name in apart for line in graphs[name].lines):
        raise RuntimeError("operations are copied in a graph that is none of the program's")
    return reader.nodes


@dataclass
class _Reader:
    """Reads the program's graph and those that it calls, and numbers their nodes."""

    graphs: Mapping[str, _Graph]
    #: Operations whose result is read as their first operand.
    handing_on: Collection[str]
    nodes: dict[int, Node] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)

    def read(self, name: str, given: Sequence[Value]) -> Value:
        """Add the nodes of a graph that is called on `given`, and return its result."""
        graph = self.graphs[name]
        self.opened.add(name)
        known: dict[str, Value] = {
            f"para{n}": v for n, v in zip(graph.parameters, given, strict=False)
        }
        current: Node | None = None
        for line in graph.lines:
            called, plain, ends = _CALL.match(line), _NODE.match(line), _RETURN.match(line)
            if ends:
                return next(iter(_operands(ends[1], known)), [])
            if called:
                current = None
                known[called[1]] = self._called(called[2], called[3], known)
            elif plain:
                operation, operands = plain[2], list(_operands(plain[3], known))
                handed = self._handed(operation, operands, plain[3])
                current = None
                if handed is None:
                    handed = added = self._added(operation, operands, line)
                    current = self.nodes[added[0]]
                known[plain[1]] = operands[0] if operation == _ADDING else handed
            elif current is not None and _SCOPE in line:
                current.gradient = True
        return []

    def _called(self, callee: str, rest: str, known: Mapping[str, Value]) -> Value:
        """The result of a call, inlined where that is possible, else one new node."""
        name = callee.removeprefix("call @")
        operands = list(_operands(rest, known))
        if name != callee and name in self.graphs and not self._returns_to(name):
            return self.read(name, operands)
        number, _ = self._added(CALL, [*_operands(callee, known), *operands], rest)
        return number, WHOLE

    def _added(self, operation: str, operands: Sequence[Value], line: str) -> tuple[int, int]:
        """Add a node that runs a kernel, and return its value."""
        number, identity = len(self.nodes), _ID.search(line)
        flat = (ref for operand in operands for ref in _flat(operand))
        reads = tuple((name, max(part, 0)) for name, part in flat)
        self.nodes[number] = Node(operation, reads, identity[1] if identity else "", COPIED in line)
        return number, 0

    def _handed(self, operation: str, operands: Sequence[Value], rest: str) -> Value | None:
        """The result of a node that runs no kernel; `None` for a node that runs one."""
        if operation == "UpdateState":
            return []  # an order of effects, and no value
        if operation in self.handing_on:
            return operands[0]
        if operation in _ALL:
            return list(operands)
        if operation != "TupleGetItem":
            return None
        whole, index = operands[0], _INDEX.search(rest)
        if isinstance(whole, list):
            return whole[int(index[1])] if index else whole
        number, part = whole
        if isinstance(number, str) or index is None:
            return whole
        # Of a call's results, value and gradient are distinguished, but not the parts of either.
        inside = self.nodes[number].operation == CALL and part != WHOLE
        return whole if inside else (number, int(index[1]))

    def _returns_to(self, name: str) -> bool:
        """Whether a graph calls itself, at whatever depth: a loop does."""
        seen: set[str] = set()
        todo = [name]
        while todo:
            inner = self.graphs[todo.pop()].names & self.graphs.keys() - seen
            seen |= inner
            todo += inner
        return name in seen


def _operands(rest: str, known: Mapping[str, Value]) -> Iterator[Value]:
    """The operands of a node, in order; a constant is an empty list."""
    for part in _parts(_ATTRIBUTES.split(rest)[0]):
        operands = [
            known.get(f"para{parameter}", (name, 0)) if parameter else known.get(number, [])
            for parameter, name, number in _OPERAND.findall(part)
        ]
        yield operands[0] if _OPERAND.fullmatch(part) else operands


def _parts(text: str) -> Iterator[str]:
    """The parts of a list, up to the bracket that closes it."""
    depth, part = 0, ""
    for letter in text:
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        if depth < 0:
            break
        if letter == "," and not depth:
            yield part.strip()
            part = ""
        else:
            part += letter
    if part.strip():
        yield part.strip()


def _flat(value: Value) -> Iterator[Ref]:
    if isinstance(value, tuple):
        yield value
        return
    for part in value:
        yield from _flat(part)
