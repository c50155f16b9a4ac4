"""Reads an optimised HLO module: which instructions compute the statements of a program.

Instructions are value-numbered across fusions and calls, so that an instruction that several fusions
duplicate counts once. The results of an optimisation barrier are new values: what is computed from
them is computed again. The body of a loop counts as often as the loop's known trip count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from conformance.model.program import Program, Site

from . import statements
from .jaxprs import RERUN, by_rule, in_backward

_HEAD = re.compile(r"^(?:ENTRY )?%?(?P<name>[\w.\-]+) \(.*\) -> .* \{$")
_LINE = re.compile(
    r"^\s+(?:ROOT )?%?(?P<name>[\w.\-]+) = (?P<type>\(.*?\)|\S+) "
    r"(?P<opcode>[a-z][\w\-]*)\((?P<operands>.*)$"
)
_META = re.compile(r",? metadata=\{(?P<meta>[^}]*)\}")
_CALLED = re.compile(r"(?:calls|to_apply)=%?(?P<name>[\w.\-]+)")
_BRANCHES = re.compile(r"(?:branch_computations=\{|true_computation=)(?P<names>[^}]*)")
_BODY = re.compile(r"body=%?(?P<name>[\w.\-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(?P<trips>\d+)"\}')
_ROW = re.compile(r"^(?P<id>\d+) (?P<rest>.*)$")
#: A region, a statement in it, its operation, and a primitive.
Key = tuple[str, str, str, str]
#: Opcodes that compute nothing themselves.
_NO_WORK = frozenset(
    {"fusion", "call", "while", "conditional", "parameter", "get-tuple-element", "tuple"}
)


@dataclass(frozen=True)
class Instruction:
    """One line of a computation."""

    name: str
    opcode: str
    type: str
    operands: tuple[str, ...]
    attributes: str
    called: str
    op_name: str
    stack_frame: int


@dataclass
class Module:
    """A parsed module: computations, and the tables that source lines are kept in: files, and numbers by
    name for each location and frame."""

    entry: str = ""
    computations: dict[str, list[Instruction]] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    locations: dict[int, dict[str, int]] = field(default_factory=dict)
    frames: dict[int, dict[str, int]] = field(default_factory=dict)

    def lines(self, frame: int, file: str) -> list[int]:
        """The lines of a file in a stack frame and those around it, the outermost first."""
        line_numbers: list[int] = []
        seen: set[int] = set()
        while frame in self.frames and frame not in seen:
            seen.add(frame)
            location = self.locations[self.frames[frame]["file_location_id"]]
            if self.files.get(location["file_name_id"]) == file:
                line_numbers.append(location["line"])
            # The text counts parents from one, and a root is its own.
            frame = self.frames[frame].get("parent_frame_id", 0) - 1
        return line_numbers[::-1]

    def arity(self, name: str) -> int:
        """How many parameters a computation has."""
        return sum(one.opcode == "parameter" for one in self.computations[name])


def parse(text: str) -> Module:
    """A module's text. Raises `ValueError` where it holds no entry computation."""
    module, current, table = Module(), None, ""
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head:
            current = module.computations.setdefault(head["name"], [])
            if line.startswith("ENTRY "):
                module.entry = head["name"]
        elif line == "}":
            current = None
        elif current is not None:
            instruction = _instruction(line)
            if instruction is not None:
                current.append(instruction)
        elif line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
            table = line
        elif row := _ROW.match(line):
            number, rest = int(row["id"]), row["rest"]
            if table == "FileNames":
                module.files[number] = rest.strip('"')
            elif table in ("FileLocations", "StackFrames"):
                into = module.locations if table == "FileLocations" else module.frames
                into[number] = {k: int(v) for k, v in re.findall(r"(\w+)=(-?\d+)", rest)}
    if not module.entry:
        raise ValueError("no entry computation in the text of an HLO module")
    return module


def _instruction(line: str) -> Instruction | None:
    meta = _META.search(line)
    pairs = {} if meta is None else dict(re.findall(r'(\w+)="?([^"\s]*)"?', meta["meta"]))
    match = _LINE.match(_META.sub("", line))
    if match is None:
        return None
    inside, attributes = _until_closed(match["operands"])
    called = _CALLED.search(attributes)
    names = tuple(re.findall(r"%([\w.\-]+)", inside))
    return Instruction(
        match["name"],
        match["opcode"],
        match["type"],
        names,
        inside if match["opcode"] == "parameter" else attributes if names else inside + attributes,
        "" if called is None else called["name"],
        pairs.get("op_name", ""),
        int(pairs.get("stack_frame_id", 0)),
    )


def _until_closed(text: str) -> tuple[str, str]:
    """What stands before the parenthesis that closes one before the text, and what stands after it."""
    depth = 1
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[:place], text[place + 1 :]
    return text, ""


def key_of(site: Site, primitive: str) -> Key:
    """What stands for a primitive of a statement, in either path. Statements of one name may be of
    several operations."""
    return site.region, site.label, site.op, primitive


@dataclass
class Computed:
    """Counts of a module by region, statement and primitive.

    `instructions` are all instructions, duplicates in fusions included. `values` are the distinct values
    that they compute; a value computed from a barrier's results is another one. `behind` are those
    values that belong to a rerun: computed from a barrier's results, or by instructions of forward, too.
    """

    instructions: Counter[Key] = field(default_factory=Counter)
    values: Counter[Key] = field(default_factory=Counter)
    behind: Counter[Key] = field(default_factory=Counter)

    def add(self, other: Computed) -> None:
        """Add the counts of another module."""
        self.instructions.update(other.instructions)
        self.values.update(other.values)
        self.behind.update(other.behind)

    def beyond(self, other: Computed, key: Key) -> int:
        """How many more there are than elsewhere, by the count that tells most."""
        return max(
            self.instructions[key] - other.instructions[key],
            self.values[key] - other.values[key],
            self.behind[key] - other.behind[key],
        )


class _Values:
    """Numbers the values of a module, and notes which statement makes and reads which."""

    def __init__(self, module: Module, program: Program) -> None:
        self._module, self._program = module, program
        self._numbers: dict[object, int] = {}
        #: By statement, its line and primitive: the values made, each with how often, and those read.
        self._made: dict[tuple[Site, int, str], list[tuple[int, int]]] = {}
        self._read: dict[tuple[Site, int, str], set[int]] = {}
        #: Values that a barrier gives, with what is computed from them; and those of reruns among them.
        self._barred: set[int] = set()
        self._again: set[int] = set()
        #: Values that instructions of reruns make, and those that others make.
        self._reruns: set[int] = set()
        self._others: set[int] = set()

    def run(self, *, apart: bool) -> None:
        """Evaluate the module; with `apart`, its arguments count as a barrier's results."""
        entry = self._module.entry
        arguments = [self._number(("argument", n)) for n in range(self._module.arity(entry))]
        self._barred.update(arguments if apart else [])
        self._evaluate(entry, arguments, False, 1)

    def counts(self) -> Computed:
        """By statement and primitive: the values made but for those that the same line and primitive
        reads itself."""
        computed, again = Computed(), self._again | (self._reruns & self._others)
        for (site, line, primitive), made in self._made.items():
            ends = [value for value in made if value[0] not in self._read[site, line, primitive]]
            key, distinct = key_of(site, primitive), set(ends)
            computed.instructions[key] += sum(times for _, times in ends)
            computed.values[key] += sum(times for _, times in distinct)
            computed.behind[key] += sum(times for n, times in distinct if n in again)
        return computed

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _evaluate(self, name: str, arguments: Sequence[int], quiet: bool, times: int) -> int:
        """The number of what a computation gives. A `quiet` one makes no statement's values; `times` is
        how often it runs."""
        known: dict[str, int] = {}
        last = -1
        for one in self._module.computations[name]:
            operands = tuple(known[operand] for operand in one.operands if operand in known)
            if one.opcode == "parameter":
                last = arguments[int(one.attributes)]
            else:
                last = self._result(one, operands, quiet, times)
            known[one.name] = last
            if one.opcode == "opt-barrier" or self._barred.intersection(operands):
                self._barred.add(last)
            if not quiet and last not in operands:  # what returns its operand makes no value
                self._note(one, operands, last, times)
        return last

    def _result(self, one: Instruction, operands: tuple[int, ...], quiet: bool, times: int) -> int:
        """The number of what an instruction gives."""
        if one.opcode in ("fusion", "call") and one.called in self._module.computations:
            return self._evaluate(one.called, operands, quiet, times)
        if one.opcode == "while":
            loop, trips = _BODY.search(one.attributes), _TRIPS.search(one.attributes)
            if loop is not None:
                carried = self._number(("carried", one.name))
                self._barred.update([carried] if self._barred.intersection(operands) else [])
                rounds = 1 if trips is None else int(trips["trips"])  # XLA knows most
                self._evaluate(loop["name"], [carried], quiet, times * rounds)
            return self._number(("loop", one.name))
        if one.opcode == "conditional":
            made = tuple(
                self._evaluate(branch, [operand], quiet, times)
                for branch, operand in zip(_branches(one.attributes), operands[1:], strict=True)
            )
            return self._number(("conditional", operands[0], made))
        if one.opcode in ("bitcast", "copy") and operands:
            return operands[0]
        body = -1
        if one.called in self._module.computations:  # of a reduction, say: not counted by line
            holes = [self._number(("hole", n)) for n in range(self._module.arity(one.called))]
            body = self._evaluate(one.called, holes, True, times)
        alone = one.name if one.opcode == "opt-barrier" else ""
        attributes = _CALLED.sub("", one.attributes)
        return self._number((one.opcode, one.type, operands, attributes, body, alone))

    def _note(self, one: Instruction, operands: Sequence[int], value: int, times: int) -> None:
        """Note whose value an instruction has made, unless it is work for gradients."""
        rerun = RERUN in one.op_name or bool(by_rule(one.op_name, self._program))
        if one.opcode in _NO_WORK or (in_backward(one.op_name, self._program) and not rerun):
            return
        lines = self._module.lines(one.stack_frame, self._program.file)
        place = statements.outermost(self._program, lines)
        if place is None:
            return
        site, around = place
        key = site, around[-1], one.op_name.rsplit("/", 1)[-1]
        self._made.setdefault(key, []).append((value, times))
        self._read.setdefault(key, set()).update(operands)
        (self._reruns if rerun else self._others).add(value)
        if rerun and value in self._barred:
            self._again.add(value)


def computed(text: str, program: Program, *, apart: bool = False) -> Computed:
    """What a module computes for the program's statements. `apart` means that the module is a backward
    pass of its own: all its arguments then count as a barrier's results.

    Instructions for gradients are left out. One primitive may become many instructions: those that only
    the same primitive reads are left out too. Raises `ValueError` where the text is no HLO module.
    """
    values = _Values(parse(text), program)
    values.run(apart=apart)
    return values.counts()


def _branches(attributes: str) -> list[str]:
    """The computations of a conditional, in the order of its operands."""
    match = _BRANCHES.search(attributes)
    if match is None:
        raise ValueError(f"a conditional without branches: {attributes}")
    return re.findall(r"%([\w.\-]+)", match["names"])
