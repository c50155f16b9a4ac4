"""The program of a case: statements, regions and what they read and give."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from conformance.errors import CaseError, nearest
from conformance.language.defaults import last_value
from conformance.language.operations import OPERATIONS
from conformance.language.source import (
    RESERVED,
    KeyPath,
    Source,
    is_finite,
    paths_of_names,
    with_numbers,
)
from conformance.language.spec import (
    MAX_COPIES,
    NUMBER,
    BlockModel,
    CallModel,
    CaseModel,
    DefineModel,
    RegionModel,
    RepeatModel,
    SequenceModel,
)
from conformance.language.spec_errors import described
from conformance.language.statements import RegionCall, divided, parse, parse_head
from conformance.model.case import (
    Again,
    FlatNode,
    Literal,
    Node,
    Position,
    Ref,
    Region,
    Repeat,
    Segment,
    Statement,
    Tree,
    flat,
    leaves,
    node_makes,
    node_reads,
)


class ProgramBuilder:
    """Builds the nodes of one case's program. All methods raise `CaseError`.

    `generators` are the names of explicit generators; `may_raise` says that the case expects an error,
    so that what cannot be divided into segments may be written.
    """

    def __init__(self, source: Source, generators: set[str], *, may_raise: bool) -> None:
        self._source, self._generators, self._may_raise = source, generators, may_raise
        self.regions: dict[str, Region] = {}
        #: Names of calls' return values as a whole (`returned`), and where the case names them.
        self.returned: dict[str, Position] = {}
        #: The regions around what is being read.
        self._open: list[str] = []
        #: Regions defined so far, a set for each open list of nodes.
        self._scopes: list[set[str]] = [set()]

    def nodes(
        self, models: Iterable[Any], path: KeyPath, known: set[str], words: Mapping[str, str]
    ) -> tuple[Node, ...]:
        """The nodes of a list; names that they make are added to `known`."""
        self._scopes.append(set())
        try:
            return tuple(self._read_list(models, path, known, words))
        finally:
            self._scopes.pop()

    def _read_list(
        self, models: Iterable[Any], path: KeyPath, known: set[str], words: Mapping[str, str]
    ) -> list[Node]:
        """The nodes of a list, without a scope of its own."""
        nodes: list[Node] = []
        for i, model in enumerate(models):
            here = (*path, i)
            if isinstance(model, RepeatModel):
                nodes += self._repeated(model, here, known, words, len(nodes))
            elif isinstance(model, RegionModel | DefineModel):
                nodes.append(self._region(model, here, known, words))
            elif isinstance(model, SequenceModel):
                nodes += self._sequence(model, here, known, words)
            elif isinstance(model, CallModel):
                nodes.append(self._call(model, here, known, words))
            else:
                nodes += self._statements(with_numbers(model, words), here, known)
        return nodes

    def _repeated(
        self,
        model: RepeatModel,
        path: KeyPath,
        known: set[str],
        words: Mapping[str, str],
        before: int,
    ) -> Sequence[Node]:
        """What a `repeat` stands for, after `before` nodes: a `Repeat`; the nodes of all iterations one
        after the other where these define regions, or where there is only one."""
        numbers = (
            model.repeat if isinstance(model.repeat, list) else range(1, int(model.repeat) + 1)
        )
        iterations: list[tuple[Node, ...]] = []
        for number in numbers:
            inner = {**words, NUMBER: str(number)}
            nodes = tuple(self._read_list(model.body, (*path, "body"), known, inner))
            iterations.append(nodes)
            before += sum(1 for _ in flat(nodes))
            if before > MAX_COPIES:
                raise CaseError(
                    f"the program has more than {MAX_COPIES} statements and regions here",
                    where=self._source.at(*path, "repeat"),
                )
        alike = [Repeat(tuple(iterations))]
        regions = any(isinstance(node, Region) for node in flat(alike))
        return alike if len(iterations) > 1 and not regions else tuple(flat(alike))

    def _statements(self, text: str, path: KeyPath, known: set[str]) -> Iterator[Statement | Again]:
        """The statements of a text; a further call of a region reads as one."""
        visible = {name.replace("-", "_"): name for name in set().union(*self._scopes)}
        for part, where in divided(text, self._source.at(*path)):
            statement = parse(part, where, visible)
            if isinstance(statement, RegionCall):
                yield self._call_statement(statement, visible[statement.region], known)
            else:
                yield self._operation(statement, part, where, known)

    def _operation(
        self, statement: Statement, text: str, where: Position, known: set[str]
    ) -> Statement:
        operation = OPERATIONS[statement.op]

        def place(name: str) -> Position:
            """Where an argument's name stands: behind the operation's bracket."""
            bracket = text.index("(")
            match = re.compile(rf"\b{re.escape(name)}\b").search(text, bracket)
            return replace(where, column=where.column + (match.start() if match else 0))

        for name, argument in zip(operation.tensors, statement.arguments, strict=True):
            if name == "region?":
                region = argument.name if isinstance(argument, Ref) else ""
                if region not in self.regions:
                    raise CaseError(
                        f"no region {region!r} before this",
                        where=place(region) if region else statement.where,
                        hint=nearest(region, self.regions) if self.regions else "",
                    )
                continue
            if name == "generator?":
                generator = argument.name if isinstance(argument, Ref) else ""
                if generator not in self._generators:
                    raise CaseError(
                        f"{generator or 'a number'!r} is not a generator",
                        where=place(generator) if generator else statement.where,
                        hint="declare it among the inputs: `g: {generator: framework}`",
                    )
                continue
            parts = argument if isinstance(argument, tuple) else (argument,)
            for part in parts:
                if isinstance(part, Ref) and part.name not in known:
                    raise self.unknown(part.name, known, place(part.name))
        self._add_names(statement.targets, known, statement.where)
        return statement

    def _add_names(self, names: Sequence[str], known: set[str], where: Position) -> None:
        """Add names to the known ones; a region's name cannot be assigned again."""
        functions = {region.replace("-", "_") for region in (*self.regions, *self._open)}
        for name in names:
            if name in functions or RESERVED.fullmatch(name):
                raise CaseError(
                    f"the name {name!r} is taken already",
                    where=where,
                    hint="a region has it" if name in functions else "every program uses it itself",
                )
            if name in self.returned:
                raise CaseError(
                    f"the name {name!r} is taken already",
                    where=where,
                    hint="what a region returned as a whole has it",
                )
            if names.count(name) > 1:
                raise CaseError(f"the name {name!r} is given twice", where=where)
        known |= set(names)

    def _region(
        self,
        model: RegionModel | DefineModel,
        path: KeyPath,
        known: set[str],
        words: Mapping[str, str],
    ) -> Region:
        called = isinstance(model, RegionModel)
        key = "recompute" if called else "define"
        text = with_numbers(getattr(model, key), words)
        name = text.partition("(")[0]
        self._region_name(name, (*path, key), known)
        head = parse_head(text, self._source.at(*path, key))
        if head is None:
            takes, kwargs = self._takes(model, path, known if called else None, words)
        else:
            takes, kwargs = self._head_arguments(model, head, path, known if called else None)
        inside = known | set(leaves(takes)) | set(leaves(kwargs))
        self._open.append(name)
        body = self.nodes(model.body, (*path, "body"), inside, words)
        self._open.pop()
        refuse_rebinding(body)
        gives = self.gives(model, "gives", body, path, words)
        self.check_names(gives, inside, (*path, "gives"))
        region = Region(
            name,
            takes,
            kwargs,
            gives,
            body,
            model.granularity,
            model.preserve_rng,
            model.merge_adjacent,
            model.block,
            self._source.at(*path),
            self._policy(model, body, path, words),
            called,
            signature=model.signature,
            mapped=model.mapped,
            autocast=model.autocast or "",
            returned=self._returned_name(model, name, gives, path, known, words),
            written=frozenset({"preserve_rng", "merge_adjacent"} & model.model_fields_set),
            round=isinstance(model, RegionModel) and model.round,
            option=model.option or "",
            contexts=model.contexts,
        )
        nodes = tuple(flat(body))
        ops = {node.op for node in nodes if isinstance(node, Statement)}
        if "doubled_sin" in ops and not region.contexts:
            raise CaseError(
                "doubled_sin runs in the contexts of its region, which has none",
                where=self._source.at(*path),
                hint="write `contexts: true`",
            )
        if region.signature == "undeclared" and set(leaves(kwargs)) & set(_read(nodes)):
            raise CaseError(
                "the body reads what is no argument of the function",
                where=self._source.at(*path, "signature"),
            )
        if region.mapped and (kwargs or not all(isinstance(tree, Ref) for tree in takes)):
            raise CaseError(
                "a mapped region takes tensors, each by its name",
                where=self._source.at(*path, "mapped"),
            )
        one = len(takes) == 1 and isinstance(takes[0], Ref) and isinstance(gives, Ref)
        if region.round and (kwargs or not one):
            raise CaseError(
                "the round of a loop takes one tensor and gives one",
                where=self._source.at(*path, "round"),
            )
        made = {n for node in nodes for n in node_makes(node)}
        both = made & set(region.captured())
        if both:
            raise CaseError(
                f"{min(both)!r} is captured and made anew in region {name!r}",
                where=self._source.at(*path),
                hint="take it as an argument, or give the new value a name of its own",
            )
        self._define(region)
        if called:
            self._add_names(leaves(gives), known, self._source.at(*path, "gives"))
        return region

    def gives(
        self,
        model: BlockModel | CaseModel,
        key: str,
        nodes: Sequence[Node],
        path: KeyPath,
        words: Mapping[str, str],
    ) -> Tree:
        """What a region gives (`gives`) or a program puts out (`outputs`)."""
        if key in model.model_fields_set:
            return self._tree(getattr(model, key), (*path, key), words)
        unrolled = tuple(flat(nodes))
        last = last_value(unrolled)
        if last is None:
            raise CaseError(
                f"what comes last makes more than one value, or none: `{key}` must say which",
                where=unrolled[-1].where,
                hint=f"left out, `{key}` is the last value that is made",
            )
        return last

    def _returned_name(
        self,
        model: BlockModel | CallModel,
        region: str,
        gives: Tree,
        path: KeyPath,
        known: set[str],
        words: Mapping[str, str],
    ) -> str:
        """The name for a call's return value as a whole (added to `known`); empty if there is none."""
        written = model.returned if isinstance(model, RegionModel | CallModel) else ""
        name, here = with_numbers(written, words), (*path, "returned")
        if not name:
            return ""
        self._source.identifier(name, here)
        if self._open:
            raise CaseError(
                "what is returned inside a region is not put out",
                where=self._source.at(*here),
                hint="`returned` stands in the program itself",
            )
        if isinstance(gives, Ref | Literal):
            raise CaseError(
                f"{name!r} is no tuple and no dict",
                where=self._source.at(*here),
                hint="`gives` names it already" if isinstance(gives, Ref) else "",
            )
        functions = {other.replace("-", "_") for other in (*self.regions, region)}
        taken = known | set(self.returned) | functions | self._generators | set(leaves(gives))
        if name in taken:
            raise CaseError(f"the name {name!r} is taken already", where=self._source.at(*here))
        self.returned[name] = self._source.at(*here)
        return name

    def _define(self, region: Region) -> None:
        """Let what follows call the region by its name."""
        self.regions[region.name] = region
        self._scopes[-1].add(region.name)

    def _region_name(self, name: str, path: KeyPath, known: set[str]) -> None:
        variable = name.replace("-", "_")
        self._source.identifier(variable, path)
        taken = {other.replace("-", "_") for other in (*self.regions, *self._open)}
        if variable in taken | known | set(self.returned):
            raise CaseError(
                f"the name {name!r} is taken already",
                where=self._source.at(*path),
                hint="in a `repeat`, number the name: `block$i`",
            )

    def _policy(
        self, model: BlockModel, body: Sequence[Node], path: KeyPath, words: Mapping[str, str]
    ) -> tuple[str, ...]:
        """The policy: operations, or names that statements of the body make."""
        statements = [node for node in flat(body) if isinstance(node, Statement)]
        made = {name for statement in statements for name in statement.targets}
        saved = tuple(with_numbers(word, words) for word in model.save)
        for i, word in enumerate(saved):
            here = (*path, "save", i)
            if word in made and word in OPERATIONS:
                raise CaseError(
                    f"{word!r} is an operation and a name of the body", where=self._source.at(*here)
                )
            used = {statement.op for statement in statements}
            if word not in made and word not in used:
                raise CaseError(
                    f"{word!r} is neither an operation of the body nor a name that it makes",
                    where=self._source.at(*here),
                    hint=nearest(word, made | used),
                )
        return saved

    def _sequence(
        self, model: SequenceModel, path: KeyPath, known: set[str], words: Mapping[str, str]
    ) -> list[Region]:
        """The segments of a sequence, each a region of its own."""
        name, handed = with_numbers(model.sequence, words), with_numbers(model.takes, words)
        self.check_names(Ref(handed), known, (*path, "takes"))
        layers = self._layers(model, (*path, "layers"), known, words)
        count = int(model.segments)
        if count > len(layers) and not self._may_raise:
            raise CaseError(
                f"{len(layers)} layer(s) cannot make {count} segments",
                where=self._source.at(*path, "segments"),
                hint="a case about that error names it under `error`",
            )
        size = max(1, len(layers) // count)
        regions: list[Region] = []
        for number in range(1, min(count, len(layers)) + 1):
            last = number == count
            part = layers[(number - 1) * size : None if last else number * size]
            body = tuple(statement for layer in part for statement in layer)
            segment = f"{name}{number}"
            self._region_name(segment, (*path, "sequence"), known)
            region = Region(
                segment,
                (Ref(handed),),
                {},
                Ref(handed),
                body,
                "segment",
                model.preserve_rng,
                False,
                "callable",
                self._source.at(*path),
                segment=Segment(name, number, count, part),
            )
            self._define(region)
            regions.append(region)
        return regions

    def _layers(
        self, model: SequenceModel, path: KeyPath, known: set[str], words: Mapping[str, str]
    ) -> tuple[tuple[Statement, ...], ...]:
        handed = with_numbers(model.takes, words)
        layers: list[tuple[Statement, ...]] = []
        inside = set(known)
        for i, written in enumerate(model.layers):
            if isinstance(written, list):
                texts, layer_path, copies = written, (*path, i), [words]
            else:
                texts, layer_path = written.layer, (*path, i, "layer")
                copies = [{**words, NUMBER: str(n)} for n in range(1, int(written.repeat) + 1)]
            for chosen in copies:
                layer = tuple(
                    self._operation(parsed, part, where, inside)
                    for j, text in enumerate(texts)
                    for part, where in divided(
                        with_numbers(text, chosen), self._source.at(*layer_path, j)
                    )
                    if isinstance(parsed := parse(part, where), Statement)
                )
                if handed not in layer[-1].targets:
                    raise CaseError(
                        f"a layer's last statement does not make {handed!r}, which it hands on",
                        where=layer[-1].where,
                    )
                layers.append(layer)
        return tuple(layers)

    def _call(
        self, model: CallModel, path: KeyPath, known: set[str], words: Mapping[str, str]
    ) -> Again:
        name = with_numbers(model.call, words)
        visible = set().union(*self._scopes)
        if name not in visible:
            raise CaseError(
                f"no region {name!r} before this call",
                where=self._source.at(*path, "call"),
                hint=nearest(name, visible) if visible else "",
            )
        takes, kwargs = self._takes(model, path, known, words)
        gives = self._tree(model.gives, (*path, "gives"), words)
        self._refuse_other_arguments(name, len(takes), set(kwargs), self._source.at(*path))
        whole = self._returned_name(model, name, gives, path, known, words)
        self._add_names(leaves(gives), known, self._source.at(*path, "gives"))
        return Again(name, takes, kwargs, gives, self._source.at(*path), whole)

    def _head_arguments(
        self,
        model: RegionModel | DefineModel,
        head: RegionCall,
        path: KeyPath,
        known: set[str] | None,
    ) -> tuple[tuple[Tree, ...], dict[str, Tree]]:
        """The arguments of a region whose head is a call, `block(x)`; `known` is given if it is called
        here, not only defined."""
        for key in ("takes", "kwargs"):
            if key in model.model_fields_set:
                raise CaseError(
                    f"what {head.region!r} takes stands in brackets already, and under {key!r} again",
                    where=self._source.key(*path, key),
                    hint="write it in one place",
                )
        for word in head.kwargs:
            self._source.identifier(word, path)
        return self._call_arguments(head, known)

    def _call_arguments(
        self, call: RegionCall, known: set[str] | None
    ) -> tuple[tuple[Tree, ...], dict[str, Tree]]:
        for argument, where in call.places.items():
            if known is not None and argument not in known:
                raise self.unknown(argument, known, where)
            if RESERVED.fullmatch(argument):
                raise CaseError(
                    f"the name {argument!r} is taken already",
                    where=where,
                    hint="every program uses it itself",
                )
        takes = tuple(Ref(argument) for argument in call.takes)
        return takes, {key: Ref(argument) for key, argument in call.kwargs.items()}

    def _call_statement(self, call: RegionCall, name: str, known: set[str]) -> Again:
        """A further call that is written as a statement."""
        takes, kwargs = self._call_arguments(call, known)
        self._refuse_other_arguments(name, len(takes), set(kwargs), call.where)
        self._add_names(call.targets, known, call.where)
        gives = tuple(Ref(target) for target in call.targets)
        return Again(name, takes, kwargs, gives if len(gives) > 1 else gives[0], call.where)

    def _refuse_other_arguments(
        self, name: str, takes: int, kwargs: set[str], where: Position
    ) -> None:
        """Refuse a call whose arguments differ in number or keywords from those of the region."""
        first = self.regions[name]
        if takes != len(first.takes) or kwargs != set(first.kwargs):
            raise CaseError(
                f"region {name!r} takes {len(first.takes)} positional argument(s) "
                f"and {sorted(first.kwargs)} by name",
                where=where,
            )

    def _takes(
        self,
        model: BlockModel | CallModel,
        path: KeyPath,
        known: set[str] | None,
        words: Mapping[str, str],
    ) -> tuple[tuple[Tree, ...], dict[str, Tree]]:
        trees = model.takes if isinstance(model.takes, list) else [model.takes]
        many = isinstance(model.takes, list)
        paths = [(*path, "takes", i) if many else (*path, "takes") for i in range(len(trees))]
        takes = tuple(
            self._tree(tree, tree_path, words) for tree, tree_path in zip(trees, paths, strict=True)
        )
        for key in model.kwargs:
            self._source.identifier(key, (*path, "kwargs", key), key=True)
        kwargs = {
            key: self._tree(tree, (*path, "kwargs", key), words)
            for key, tree in model.kwargs.items()
        }
        for tree, tree_path in zip(takes, paths, strict=True):
            readable = set(leaves(tree)) if known is None else known
            self.check_names(tree, readable, tree_path, literals=False)
        for key, tree in kwargs.items():
            readable = set(leaves(tree)) if known is None else known
            self.check_names(tree, readable, (*path, "kwargs", key), literals=False)
        return takes, kwargs

    def _tree(self, raw: object, path: KeyPath, words: Mapping[str, str]) -> Tree:
        if isinstance(raw, str):
            name = with_numbers(raw, words)
            self._source.identifier(name, path)
            return Ref(name)
        if raw is None or (isinstance(raw, bool | int | float) and is_finite(raw)):
            return Literal(raw)
        if isinstance(raw, list):
            return tuple(self._tree(part, (*path, i), words) for i, part in enumerate(raw))
        if isinstance(raw, dict):
            return {str(k): self._tree(part, (*path, k), words) for k, part in raw.items()}
        raise CaseError(
            f"found {described(raw)}, expected a name, a list or a mapping",
            where=self._source.at(*path),
        )

    def check_names(
        self, tree: Tree, known: set[str], path: KeyPath, literals: bool = True
    ) -> None:
        for name, name_path in paths_of_names(tree, path):
            if name not in known:
                raise self.unknown(name, known, self._source.at(*name_path))
        if not literals and isinstance(tree, Literal):
            raise CaseError(
                f"found {tree.value!r}, expected a name",
                where=self._source.at(*path),
                hint="declare it among the inputs: `scale: {value: 2}`",
            )

    def unknown(self, name: str, known: set[str], where: Position) -> CaseError:
        """The error of a name that cannot be read here."""
        if name in self.returned:
            return CaseError(
                f"{name!r} is what a region returned as a whole, only `outputs` may hold it",
                where=where,
                hint="`gives` names what is in it",
            )
        return CaseError(f"unknown name {name!r}", where=where, hint=nearest(name, known))


def _read(nodes: Iterable[FlatNode]) -> Iterator[str]:
    """The names that nodes read."""
    for node in nodes:
        yield from node_reads(node)


def refuse_rebinding(nodes: Sequence[Node]) -> None:
    """Refuse to reassign a name that a region has captured: a rerun would read the new value."""
    captured: dict[str, str] = {}
    for node in flat(nodes):
        for name in node_makes(node):
            if name in captured:
                raise CaseError(
                    f"{name!r} is made anew, and region {captured[name]!r} has captured it",
                    where=node.where,
                    hint="give the new value a name of its own",
                )
        if isinstance(node, Region):
            captured |= dict.fromkeys(node.captured(), node.name)
