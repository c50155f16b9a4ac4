"""Reads an optimised HLO module: which instructions compute the statements of a program.

Instructions are value-numbered across fusions and calls, so that an instruction that several fusions
duplicate counts once. The results of an optimisation barrier are new values: what is computed from
them is computed again. The body of a loop counts as often as the loop's known trip count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from conformance.model.program import Program, Site

from . import statements
from .jaxprs import RERUN, in_backward

_HEAD = re.compile(r"^(?:ENTRY )?%?(?P<name>[\w.\-]+) \(.*\) -> .* \{$")
_LINE = re.compile(r"^\s+(?:ROOT )?%?(?P<name>[\w.\-]+) = (?P<rest>.*)$")
_OPCODE = re.compile(r"(?P<opcode>[a-z][\w\-]*)\((?P<operands>.*)$")
_META = re.compile(r",? metadata=\{(?P<meta>[^}]*)\}")
_CALLED = re.compile(r"(?:calls|to_apply)=%?(?P<name>[\w.\-]+)")
_BRANCHES = re.compile(r"(?:branch_computations=\{|true_computation=)(?P<names>[^}]*)")
_BODY = re.compile(r"body=%?(?P<name>[\w.\-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(?P<trips>\d+)"\}')
_TABLE = re.compile(r"^(?P<id>\d+) (?P<rest>.*)$")


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
    """A parsed module: computations, and the tables that source lines are kept in."""

    entry: str = ""
    computations: dict[str, list[Instruction]] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    locations: dict[int, tuple[int, int]] = field(default_factory=dict)
    frames: dict[int, tuple[int, int]] = field(default_factory=dict)

    def lines(self, frame: int) -> list[tuple[str, int]]:
        """(file, line) of a stack frame and of those around it, the outermost first."""
        found: list[tuple[str, int]] = []
        seen: set[int] = set()
        while frame in self.frames and frame not in seen:
            seen.add(frame)
            location, above = self.frames[frame]
            file, line = self.locations[location]
            found.append((self.files.get(file, ""), line))
            frame = above - 1  # the text counts parents from one, and a root is its own
        return found[::-1]


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
            found = _instruction(line)
            if found is not None:
                current.append(found)
        elif line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
            table = line
        elif table:
            _tabulate(module, table, line)
    if not module.entry:
        raise ValueError("no entry computation in the text of an HLO module")
    return module


def _tabulate(module: Module, table: str, line: str) -> None:
    row = _TABLE.match(line)
    if row is None:
        return
    number = int(row["id"])
    if table == "FileNames":
        module.files[number] = row["rest"].strip('"')
        return
    pairs = dict(re.findall(r"(\w+)=(-?\d+)", row["rest"]))
    if table == "FileLocations":
        module.locations[number] = (int(pairs["file_name_id"]), int(pairs["line"]))
    elif table == "StackFrames":
        above = int(pairs.get("parent_frame_id", 0))
        module.frames[number] = (int(pairs["file_location_id"]), above)


def _instruction(line: str) -> Instruction | None:
    found = _LINE.match(line)
    if found is None:
        return None
    rest = found["rest"]
    meta = _META.search(rest)
    pairs = {} if meta is None else dict(re.findall(r'(\w+)="?([^"\s]*)"?', meta["meta"]))
    rest = _META.sub("", rest)
    type_, rest = _type(rest)
    opcode = _OPCODE.match(rest)
    if opcode is None:
        return None
    inside, attributes = _until_closed(opcode["operands"])
    called = _CALLED.search(attributes)
    names = tuple(re.findall(r"%([\w.\-]+)", inside))
    return Instruction(
        found["name"],
        opcode["opcode"],
        type_,
        names,
        inside if opcode["opcode"] == "parameter" else attributes if names else inside + attributes,
        "" if called is None else called["name"],
        pairs.get("op_name", ""),
        int(pairs.get("stack_frame_id", 0)),
    )


def _type(text: str) -> tuple[str, str]:
    if text.startswith("("):
        inside, rest = _until_closed(text[1:])
        return f"({inside})", rest.lstrip()
    type_, _, rest = text.partition(" ")
    return type_, rest


def _until_closed(text: str) -> tuple[str, str]:
    depth = 1
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[:place], text[place + 1 :]
    return text, ""


@dataclass(frozen=True)
class Computed:
    """Counts by statement and primitive of a module.

    `instructions` are all instructions, duplicates in fusions included. `values` are the distinct values
    that they compute; a value computed from a barrier's results is another one. `behind` are those
    values that belong to a rerun and are computed from a barrier's results.
    """

    instructions: Counter[tuple[Site, str]]
    values: Counter[tuple[Site, str]]
    behind: Counter[tuple[Site, str]]


def _trips(attributes: str) -> int:
    """A loop's trip count, or 1 where XLA does not know it."""
    found = _TRIPS.search(attributes)
    return 1 if found is None else int(found["trips"])


def _counted(
    made: Mapping[tuple[Site, int, str], Sequence[tuple[int, int]]],
    used: Mapping[tuple[Site, int, str], AbstractSet[int]],
    again: AbstractSet[int],
) -> Computed:
    """The counts of values (number, how often) by statement, line and primitive. Of each, those that the
    same line and primitive reads, `used`, are left out; `again` are those of reruns behind a barrier."""
    instructions: Counter[tuple[Site, str]] = Counter()
    values: Counter[tuple[Site, str]] = Counter()
    behind: Counter[tuple[Site, str]] = Counter()
    for (site, line, primitive), found in made.items():
        ends = [value for value in found if value[0] not in used[site, line, primitive]]
        instructions[site, primitive] += sum(times for _, times in ends)
        values[site, primitive] += sum(times for _, times in set(ends))
        behind[site, primitive] += sum(times for value, times in set(ends) if value in again)
    return Computed(instructions, values, behind)


def computed(text: str, program: Program, *, apart: bool = False) -> Computed:
    """What a module computes for the program's statements. `apart` means that the module is a backward
    pass of its own: all its arguments then count as a barrier's results.

    Instructions for gradients are left out. One primitive may become many instructions: those that only
    the same primitive reads are left out too. Raises `ValueError` where the text is no HLO module.
    """
    module = parse(text)
    numbers: dict[object, int] = {}
    made: dict[tuple[Site, int, str], list[tuple[int, int]]] = {}  # values, and how often
    used: dict[tuple[Site, int, str], set[int]] = {}
    barred: set[int] = set()  # values that a barrier gives, and what is computed from them
    again: set[int] = set()

    def number(key: object) -> int:
        return numbers.setdefault(key, len(numbers))

    def evaluate(name: str, arguments: Sequence[int], quiet: bool, times: int) -> int:
        known: dict[str, int] = {}
        last = -1
        for one in module.computations[name]:
            operands = tuple(known[operand] for operand in one.operands if operand in known)
            if one.opcode == "parameter":
                last = arguments[int(one.attributes)]
            elif one.opcode in ("fusion", "call") and one.called in module.computations:
                last = evaluate(one.called, operands, quiet, times)
            elif one.opcode == "while":
                loop = _BODY.search(one.attributes)
                if loop is not None:
                    carried = number(("carried", one.name))
                    barred.update([carried] if barred.intersection(operands) else [])
                    evaluate(loop["name"], [carried], quiet, times * _trips(one.attributes))
                last = number(("loop", one.name))
            elif one.opcode == "conditional":
                branches = _branches(one.attributes)
                made_by = tuple(
                    evaluate(branch, [operand], quiet, times)
                    for branch, operand in zip(branches, operands[1:], strict=True)
                )
                last = number(("conditional", operands[0], made_by))
            elif one.opcode in ("bitcast", "copy") and operands:
                last = operands[0]
            else:
                body = ""
                if one.called in module.computations:  # of a reduction, say: not counted by line
                    size = _arity(module, one.called)
                    holes = [number(("hole", place)) for place in range(size)]
                    body = str(evaluate(one.called, holes, True, times))
                alone = one.name if one.opcode == "opt-barrier" else ""
                attributes = _CALLED.sub("", one.attributes)
                last = number((one.opcode, one.type, operands, attributes, body, alone))
            known[one.name] = last
            if one.opcode == "opt-barrier" or barred.intersection(operands):
                barred.add(last)
            if quiet or last in operands:  # an instruction that returns its operand makes no value
                continue
            found = _site(module, program, one)
            if found is not None:
                key = (*found, one.op_name.rsplit("/", 1)[-1])
                made.setdefault(key, []).append((last, times))
                used.setdefault(key, set()).update(operands)
                if last in barred and RERUN in one.op_name:
                    again.add(last)
        return last

    entry = [number(("argument", place)) for place in range(_arity(module, module.entry))]
    barred.update(entry if apart else [])
    evaluate(module.entry, entry, False, 1)
    return _counted(made, used, again)


def _branches(attributes: str) -> list[str]:
    """The computations of a conditional, in the order of its operands."""
    found = _BRANCHES.search(attributes)
    if found is None:
        raise ValueError(f"a conditional without branches: {attributes}")
    return re.findall(r"%([\w.\-]+)", found["names"])


def _arity(module: Module, name: str) -> int:
    return sum(one.opcode == "parameter" for one in module.computations[name])


def _site(module: Module, program: Program, one: Instruction) -> tuple[Site, int] | None:
    """The statement of an instruction that is not work for gradients, and its line."""
    work = in_backward(one.op_name, program) and RERUN not in one.op_name
    if work or one.opcode in _NO_WORK:
        return None
    for file, line in module.lines(one.stack_frame):
        site = program.lines.get(line) if file == program.file else None
        if site is not None and site.kind == "statement":
            return site, statements.starts(program.text)[line]
    return None
