"""Checks the names of a program: what is read is known, and what is made has a name of its own."""

from collections.abc import Iterable, Mapping, Sequence

from conformance.errors import CaseError, nearest
from conformance.language import hooking
from conformance.language.operations import OPERATIONS, VIEWS
from conformance.language.source import OWN, RESERVED
from conformance.model.case import (
    Again,
    Node,
    Position,
    Ref,
    Region,
    Statement,
    Tree,
    flat,
    leaves,
    node_makes,
    refs,
    walk,
)


class Names:
    """The names of a program as it runs: what is read is known, and what is made has a name of its own.

    All methods raise `CaseError`.
    """

    def __init__(self, generators: set[str]) -> None:
        self._generators = generators
        #: By the place of a region or call: where its name stands, and where its `returned`.
        self.named_at: dict[Position, Position] = {}
        self.returned_at: dict[Position, Position] = {}
        #: Names of calls' return values as a whole, and where the case names them.
        self.returned: dict[str, Position] = {}
        #: Regions so far, by the name of their function, those included that are being followed.
        self._functions: set[str] = set()
        self._regions: set[str] = set()
        self._known: dict[str, Region] = {}
        #: Names that the regions around have given values of their own; and by region, what it and those
        #: that it calls capture, with what these names were where these stand.
        self._bound: frozenset[str] = frozenset()
        self._captured: dict[str, Mapping[str, frozenset[str]]] = {}
        #: By name: the name of the tensor whose memory it may share, and the new name of a tensor that
        #: was changed in place.
        self._memory: dict[str, str] = {}
        self._changed: dict[str, str] = {}
        #: By region, the names that its body makes; and the keywords of the regions around what is read.
        self._made: dict[str, set[str]] = {}
        self._keywords: dict[str, str] = {}

    def follow(self, nodes: Iterable[Node], known: set[str]) -> None:
        """Check the nodes of a list; names that they make are added to `known`."""
        captured: dict[str, str] = {}
        fresh: frozenset[str] = frozenset()
        for node in flat(nodes):
            if isinstance(node, Statement) and OPERATIONS[node.op].hooks:
                hooking.check(node, fresh)
            else:
                fresh = hooking.fresh(node, self._known)
            if isinstance(node, Statement):
                self._statement(node, known)
            elif isinstance(node, Region):
                self._known[node.name] = node
                self._region(node, known)
            else:
                self.check((*node.takes, *node.kwargs.values()), known)
                self._check_captured(node)
                self._call(node, known)
            for name in node_makes(node):
                if name in captured:  # a rerun would read the new value
                    message = (
                        f"{name!r} is assigned again, and region {captured[name]!r} captures it"
                    )
                    hint = "give the new value another name"
                    raise CaseError(message, where=node.where, hint=hint)
            if isinstance(node, Region):
                captured |= dict.fromkeys(node.captured(), node.name)

    def _statement(self, statement: Statement, known: set[str]) -> None:
        tensors = OPERATIONS[statement.op].tensors
        for kind, argument in zip(tensors, statement.arguments, strict=True):
            ref = argument if isinstance(argument, Ref) else Ref("")
            where = ref.where or statement.where
            if kind == "region?" and ref.name not in self._regions:
                hint = nearest(ref.name, self._regions)
                raise CaseError(f"no region {ref.name!r} before this", where=where, hint=hint)
            if kind == "generator?" and ref.name not in self._generators:
                message = f"{ref.name or 'a number'!r} is not a generator"
                hint = "declare it among the inputs: `g: {generator: framework}`"
                raise CaseError(message, where=where, hint=hint)
            if kind not in ("region?", "generator?"):
                self.check(argument, known)
        read = statement.names()
        memory = self._memory.get(read[0], read[0]) if read else ""
        self._add([Ref(target, statement.where) for target in statement.targets], known)
        if statement.op in VIEWS:
            self._memory |= dict.fromkeys(statement.targets, memory)
        if OPERATIONS[statement.op].capability == "in-place":
            target, sharing = statement.label, {n for n, m in self._memory.items() if m == memory}
            self._changed |= dict.fromkeys({memory, *sharing} - {target}, target)

    def _region(self, region: Region, known: set[str]) -> None:
        function = region.name.replace("-", "_")
        if function in self._functions | known | set(self.returned):
            where, hint = self.named_at[region.where], "in a `repeat`, number the name: `block$i`"
            raise CaseError(f"the name {region.name!r} is taken already", where=where, hint=hint)
        arguments = (*region.takes, *region.kwargs.values())
        if region.called:
            self.check(arguments, known)
        named = list(refs(arguments))
        for i, ref in enumerate(named):
            if ref in named[:i]:
                hint = f"define the region first, `define: {region.name}(a, b)`, and then call it"
                message = f"{ref.name!r} is an argument of region {region.name!r} twice"
                raise CaseError(message, where=ref.where, hint=hint)
        inside = known | set(leaves(arguments))
        self._functions.add(function)
        for layer in region.segment.layers if region.segment else ():
            (name,) = leaves(region.takes)
            if name not in layer[-1].targets:
                message = f"a layer's last statement must make {name!r}, the next layer's argument"
                raise CaseError(message, where=layer[-1].where)
        made = {name for node in flat(region.body) for name in node_makes(node)}
        self._made[region.name] = made
        outer = self._keywords
        self._keywords = outer | {
            word: tree.name for word, tree in region.kwargs.items() if isinstance(tree, Ref)
        }
        around = self._bound
        again = [node.region for node in walk(region.body) if isinstance(node, Again)]
        captured = {**dict.fromkeys(region.captured(), around)}
        for name in again:
            captured |= self._captured.get(name, {})
        self._captured[region.name] = captured
        self._bound = around | made | set(leaves(arguments))
        self.follow(region.body, inside)
        self._bound, self._keywords = around, outer
        self.check(region.gives, inside)
        both = made & set(region.captured())
        if both and region.segment is None:
            message = f"region {region.name!r} both captures and assigns {min(both)!r}"
            hint = "make it an argument, or give the new value another name"
            raise CaseError(message, where=region.where, hint=hint)
        if region.called:
            self._call(region, known)
        self._regions.add(region.name)

    def _check_captured(self, node: Again) -> None:
        """Refuse a call where a name that its region captures has another value, since it reads the one
        where it stands, or one that is left out."""
        captured = self._captured.get(node.region, {})
        other = {name for name, around in captured.items() if name in self._bound - around}
        if other:
            message = f"region {node.region!r} captures {min(other)!r}, which is another value here"
            hint = "make it an argument, or give the other value another name"
            raise CaseError(message, where=node.where, hint=hint)
        defaults = (name for key in node.left_out for name in leaves(node.kwargs[key]))
        if default := next((name for name in defaults if name in self._bound), ""):
            message = f"{default!r} is left out of a call, and is another value here"
            hint = (
                "a default is a value of the program's inputs: pass it, or rename the other value"
            )
            raise CaseError(message, where=node.where, hint=hint)

    def _call(self, node: Region | Again, known: set[str]) -> None:
        """Note the names of what a call returns: as a whole, and its parts."""
        if node.returned:
            name, where = node.returned, self.returned_at[node.where]
            taken = known | set(self.returned) | self._functions | self._generators
            if name in taken | set(leaves(node.gives)):
                raise CaseError(f"the name {name!r} is taken already", where=where)
            self.returned[name] = where
        self._add(list(refs(node.gives)), known)

    def _add(self, made: Sequence[Ref], known: set[str]) -> None:
        """Add names to the known ones; a region's name cannot be assigned again."""
        names = [ref.name for ref in made]
        for ref in made:
            hint = OWN if RESERVED.fullmatch(ref.name) else ""
            if ref.name in self._functions:
                hint = "a region has this name"
            elif ref.name in self.returned:
                hint = "the return value of a region has this name"
            if hint:
                message = f"the name {ref.name!r} is taken already"
                raise CaseError(message, where=ref.where, hint=hint)
            if names.count(ref.name) > 1:
                raise CaseError(f"the name {ref.name!r} is given twice", where=ref.where)
        known |= set(names)
        for name in names:
            self._memory.pop(name, None)
            self._changed.pop(name, None)

    def check(self, tree: Tree, known: set[str]) -> None:
        """Refuse a name in a tree that is not known."""
        for ref in refs(tree):
            if ref.name not in known:
                raise self.unknown(ref.name, known, ref.where)
            if new := self._changed.get(ref.name):
                message = f"{ref.name!r} was changed in place, and its new name is {new!r}"
                raise CaseError(message, where=ref.where, hint=f"read {new!r}")

    def unknown(self, name: str, known: set[str], where: Position | None) -> CaseError:
        """The error of a name that cannot be read here."""
        if name in self.returned:
            message = (
                f"{name!r} is the whole return value of a region, and only `outputs` may name it"
            )
            return CaseError(message, where=where, hint="read its parts by their names in `gives`")
        function = name.replace("_", "-")
        inside = next((r for r, made in self._made.items() if name in made), "")
        if name in self._functions | self._regions or function in self._regions:
            hint = f"{name!r} is a region: read the names of its results, in `gives`"
        elif name in self._keywords:
            hint = f"{name!r} is a keyword: read the tensor by its name, {self._keywords[name]!r}"
        elif inside:
            hint = f"region {inside!r} makes {name!r}: add it to its `gives`"
        else:
            hint = nearest(name, known)
        return CaseError(f"unknown name {name!r}", where=where, hint=hint)
