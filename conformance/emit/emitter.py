"""Writes a case as a program of a framework, with the parts that an adapter gives.

A program has the same few functions in every framework:

- `inputs()` returns a dict of what the program starts from, by name;
- `plain(...)` and `recomputed(...)` are the forward pass without and with recompute of its regions;
- `run(forward)` does the case's procedure and returns a dict with `outputs`, `losses` (a list),
  `gradients`, and where the procedure has them `again`, `parameters` and `state` (dicts by name);
- run as a script, it does both and prints what they computed.

An adapter's `emitter.py` has a function `emitter(case, variant)`, which gives an `Emitter` its parts.
While lines are written, marks (comments) refer to their sites; `finish` formats the programs with ruff,
removes the marks and returns the source map.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from conformance.drivers.adapter import Variant
from conformance.emit import containers, lists
from conformance.emit.code import Code
from conformance.emit.expressions import function, in_docstring
from conformance.emit.forward import Body, Forward
from conformance.emit.layers import Layers
from conformance.emit.lists import Item
from conformance.emit.part import OWN_NAMES, PROCEDURES, RAISE_IF, Call, Part, Words, Writer
from conformance.emit.recompute import Calling, Recompute
from conformance.emit.running import Run
from conformance.emit.transforms import Transforms
from conformance.emit.values import Tensors, Values
from conformance.errors import AdapterError, NotOfferedError
from conformance.language.backward import TOLD
from conformance.language.flow import Flow
from conformance.language.operations import NOTED, OF_CALLABLES
from conformance.language.reach import reach, steps
from conformance.model.case import Again, Case, Generator, Region, leaves, node_makes, walk
from conformance.model.steps import stepped

#: What adapters import from here.
__all__ = ["RAISE_IF", "Body", "Call", "Calling", "Emitter", "Forward", "Layers", "Parts"]
__all__ += ["PROCEDURES", "Recompute", "Run", "Tensors", "Values", "Words", "Writer"]


#: The procedures that every adapter writes, so that one without them is at fault; the others are its
#: choice.
REQUIRED = frozenset({"backward"})
#: The parts that a case may demand of its program: where a case file does so, and what writes them.
PARTS = {
    "seeding": "random operations that name no generator: `write_seeding`, called by `write_run`",
    "between": "`procedure: {between: …}` but for those of `start`: `write_between`, before backward",
    "after": "`procedure: {backward: {after: …}}`: `write_after`, before forward",
    "start": "`procedure: {between: …}` with `thread`, `autocast`, `no-gradients`: `write_backward`, "
    "which starts backward",
    "hooks": "`hooks`: `write_hooks`, called by `write_run`",
    "state": "`state`, operations that take notes, and `hooks`: `state_entries`, in what `run` returns",
    "generators": "explicit generators: `generators_entry`, in what `run` returns",
    "autocast": "`autocast`: `write_forward`",
    "around": "`around`: `write_forward`",
    "autocast inside": "`autocast` of a region: `casting`, around its body",
    "mapped": "`mapped` of a region: `write_call`",
    "signature": "`signature` of a region: `parameters`",
    "option": "`option`: `misuse`, among what recompute is given",
    "contexts": "`contexts`: `contexts_option`, among what recompute is given",
    "left": "`left` of a region: `write_left`, before its function's `return`",
    "changes": "`procedure: {train: {between: …}}`: `write_changes`, called by `write_training`",
    "made": "`procedure: {train: {made: once}}`: `write_forward` and `passed`",
    "then": "`error: {then: …}`: `write_run` and `inputs_call`",
}


@dataclass(frozen=True)
class Parts:
    """What a variant's programs are written with: the framework's words, and for each part of a program
    what makes the object that writes it."""

    words: Words
    #: `inputs`: how tensors are made.
    tensors: Callable[[Emitter], Tensors]
    #: How a region is recomputed: a transform of its function, or a call that is given the function.
    recompute: Callable[[Emitter], Recompute]
    #: `run`: gradients, training, inference.
    run: Callable[[Emitter], Run]
    #: Statements, and the expressions that read names.
    body: Callable[[Emitter], Body] = Body
    #: Statements that the framework's own layers do.
    layers: Callable[[Emitter], Layers] = Layers
    #: `plain` and `recomputed`: the functions, modules and calls of regions.
    forward: Callable[[Emitter], Forward] = Forward
    #: What `run` reads out of `values`.
    values: Callable[[Emitter], Values] = Values
    #: `run` in forward mode, and of Jacobians.
    transforms: Callable[[Emitter], Transforms] = Transforms

    def but(self, *imports: str, **changes: Any) -> Parts:
        """The parts of another variant: with other parts, with other words (`lists="all"`), and with
        more lines of `imports`."""
        words = {name: changes.pop(name) for name in [*changes] if hasattr(self.words, name)}
        words.setdefault("imports", tuple(dict.fromkeys((*self.words.imports, *imports))))
        return replace(self, words=replace(self.words, **words), **changes)


class Emitter:
    """Writes one case for one variant."""

    tensors: Tensors
    body: Body
    layers: Layers
    recompute: Recompute
    forward: Forward
    values: Values
    run: Run
    transforms: Transforms

    def __init__(self, case: Case, variant: Variant, parts: Parts) -> None:
        self.case, self.variant, self.words = case, variant, parts.words
        self.code = Code()
        self.path = "plain"  # which of `plain` and `recomputed` is being written
        self.within = ""  # the innermost region whose body is being written
        #: The regions whose functions both paths share.
        self.shared: frozenset[str] = frozenset()
        #: The regions of the case by name.
        self.regions = {region.name: region for region in case.regions()}
        #: By region, its further calls.
        self.again: dict[str, list[Again]] = {name: [] for name in self.regions}
        for node in walk(case.program):
            if isinstance(node, Again):
                self.again[node.region].append(node)
        #: The regions that are called again, or that an operation inspects.
        self.named_often = {name for name, calls in self.again.items() if calls} | {
            s.names()[0] for _, s in case.statements() if s.op in OF_CALLABLES
        }
        self.case_names = {name for node in walk(case.program) for name in node_makes(node)}
        self.case_names |= {*case.names()}
        self._functions = {*map(function, self.regions)}
        #: Names that a program may not use for anything else.
        self.taken_names = self.case_names | self._functions | OWN_NAMES
        #: The names of the classes of its containers.
        self.classes = containers.classes(case)
        self.imported = _imported(tuple(self.words.imports))
        self.taken_names |= self.imported | set(dir(builtins))
        #: The parameters that are in lists, and where.
        self.in_lists: Mapping[str, Item] = {}
        alike = case.procedure.made == "each-step" and not case.procedure.changes
        if self.words.lists != "nothing" and alike:
            captured = self.words.lists == "all"
            self.in_lists = lists.items(case, self.taken_names, captured=captured)
        self.taken_names |= {item.name for item in self.in_lists.values()}
        made: dict[str, Part] = {}
        for name in Part.__annotations__:
            made[name] = getattr(parts, name)(self)
            for one in (self, *made.values()):
                vars(one).update(made)

    def write(self) -> Code:
        """The whole program."""
        code, case = self.code, self.case
        self._refuse()
        code(f'"""{in_docstring(case.title)}.')
        code()
        code(f"Case {in_docstring(case.id)}, variant {self.variant.id}.\n")
        code(f'Source: {in_docstring(case.source)}\n"""\n')
        for line in self._import_lines():
            code(line)
        if self.words.first:
            code(f"\n{self.words.first}")
        self.body.write_helpers()
        self.recompute.write_helpers()
        self.tensors.write_inputs()
        self._write_shared()
        for path in ("plain", "recomputed"):
            begin = len(code.lines)
            self.path = path
            self.forward.write_forward(path)
            container = self.words.list_of_parameters
            code.lines[begin:] = lists.replaced(code.lines[begin:], self.in_lists, container)
        self.run.write_run()
        self.run.write_main()
        self._refuse_missing()
        return code

    def _refuse(self) -> None:
        """Raise `AdapterError` where a name of the case would hide one that the program imports, and
        `NotOfferedError` where its procedure is none that the adapter says it writes; training is
        refused by `write_training`."""
        if clashes := self.imported & self.case_names:
            raise AdapterError(
                f"case {self.case.id} names a value {min(clashes)!r}, which is an import here",
                where=self.case.where,
                hint="give the value another name",
            )
        kind = self.case.procedure.kind
        if kind not in REQUIRED and kind != "train" and kind not in self.words.procedures_written:
            raise NotOfferedError(self.variant.id, f"procedure {kind}")
        if kind != "inference" and self.words.asking:
            self._refuse_frozen()

    def _refuse_frozen(self) -> None:
        """Raise `NotOfferedError` where no gradient of an argument is taken that the framework cannot do
        without."""
        told = self.case.procedure.kind in (*TOLD, "functional")
        for flow in map(Flow, stepped(self.case)):
            asked = reach(flow).asked
            for step in steps(flow.items):
                asks = {
                    name: any(t in asked if told else t.asks for t in read)
                    for name, read in step.reads.items()
                }
                for first, second in self.words.asking.get(step.statement.op, ()):
                    if asks.get(first) and not asks.get(second):
                        what = f"gradients of {step.statement.op} without that of {second}"
                        raise NotOfferedError(self.variant.id, what)

    def _refuse_missing(self) -> None:
        """Raise `AdapterError` if the case demands a part that is not written, though offered: the
        adapter would be judged on another program, and might pass. A statement may be in `plain` or in
        `recomputed`, since both may share a function."""
        code, case = self.code, self.case
        lacking = [part for part in asked(case) if part not in code.parts]
        if case.procedure.kind not in self.words.procedures_written:
            lacking.insert(0, f"procedure {case.procedure.kind}")
        there = {(s.region, s.label) for s in code.sites if s.kind in ("statement", "layer")}
        lacking += [
            f"statement {statement.label}" + (f" of region {region}" if region else "")
            for region, statement in case.statements()
            if (region, statement.label) not in there
        ]
        if "autocast" in lacking:  # which a framework may also ask of its layers, elsewhere
            self.run.offered("autocast")
        if lacking:
            raise AdapterError(
                f"not written for {self.variant.id}: {', '.join(lacking)}",
                where=self.case.where,
                hint="each is a part of the case, see Words.procedures_written and Code.wrote",
            )

    def _import_lines(self) -> list[str]:
        """The import lines of a program: `imports`, and the user's own recompute if there is one."""
        imports, own = [*self.words.imports], self.recompute.own
        imports += {containers.IMPORTS[kind] for kind, *_ in self.classes}
        if self.case.procedure.between == "thread":
            imports.append("from concurrent.futures import ThreadPoolExecutor")
        if any(c.kind == "copy" for changes in self.case.procedure.changes for c in changes):
            imports.append("import copy")
        if own is None:
            return imports
        module, _, name = own.function.partition(":")
        first = name.partition(".")[0]
        bound = self.recompute.own_callee.partition(".")[0]
        line = f"from {module} import {first}" + (f" as {bound}" if bound != first else "")
        hidden = re.compile(rf"from \S+ import {re.escape(bound)}")
        return [*(given for given in imports if not hidden.fullmatch(given)), line]

    def _write_shared(self) -> None:
        """Write the functions that `plain` and `recomputed` share; their sites have the path `both`."""
        if not self.words.shares:
            return
        self.path = "both"
        outermost = [node for node in self.case.program if isinstance(node, Region)]
        regions = self.case.regions() if self.words.shares_nested else outermost
        takes = [tree for r in self.case.regions() for tree in (*r.takes, *r.kwargs.values())]
        known = self.case_names | self._functions | {*leaves(tuple(takes))}
        for region in filter(self.forward.serves_both, regions):
            begin = len(self.code.lines)
            self.forward.write_function(region)
            # What a function captures is in one path, as are callables that it asks for something.
            captured = _globals(self.code.lines[begin:]) & known
            asks = any(getattr(node, "op", "") in OF_CALLABLES for node in walk(region.body))
            if captured or asks:
                del self.code.lines[begin:]
            else:
                self.shared |= {region.name}


def asked(case: Case) -> list[str]:
    """The words of `PARTS` that a case demands."""
    regions, between = case.called(), case.procedure.between
    started = between in ("thread", "autocast", "no-gradients")
    demanded = {
        "seeding": case.sources() and case.seeded,
        "start": started,
        "between": between and not started,
        "after": case.procedure.after,
        "hooks": case.hooks,
        "state": case.state or case.uses(NOTED) or case.hooks,
        "generators": any(isinstance(value, Generator) for value in case.inputs),
        "autocast": case.autocast,
        "around": case.around,
        "autocast inside": any(region.autocast for region in regions),
        "mapped": any(region.mapped for region in regions),
        "signature": any(region.signature != "plain" for region in regions),
        "option": any(region.option for region in regions),
        "contexts": any(region.contexts for region in regions),
        "left": any(region.left for region in regions),
        "changes": case.procedure.changes,
        "made": case.procedure.made == "once",
        "then": case.error is not None and case.error.then,
    }
    return [part for part, needed in demanded.items() if needed]


@lru_cache(maxsize=64)
def _imported(lines: tuple[str, ...]) -> frozenset[str]:
    """The names that lines of imports give, which are the same for all cases of a variant."""
    names = [node for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, ast.alias)]
    return frozenset((n.asname or n.name).partition(".")[0] for n in names)


def _globals(lines: Sequence[str]) -> set[str]:
    """The global names that the functions in some lines read."""
    names: set[str] = set()
    tables = symtable.symtable("\n".join(lines), "program", "exec").get_children()
    while tables:
        table = tables.pop()
        names |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
        tables += table.get_children()
    return names
