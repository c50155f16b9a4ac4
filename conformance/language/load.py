"""Reading case files: YAML in, `Case` values out, every error with file, line and column."""

from __future__ import annotations

import builtins
import itertools
import keyword
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from conformance.errors import CaseError, nearest
from conformance.language.capabilities import CAPABILITIES
from conformance.language.defaults import last_value, usual_loss, without_gradient
from conformance.language.laws import LAWS
from conformance.language.operations import OPERATIONS
from conformance.language.spec import (
    MAX_COPIES,
    MAX_ELEMENTS,
    NUMBER,
    ArrayModel,
    AsPlainModel,
    BackwardModel,
    BackwardProcedure,
    BlockModel,
    CallModel,
    CaseFileModel,
    CaseModel,
    DefineModel,
    ErrorModel,
    GeneratorModel,
    GradientsModel,
    RegionModel,
    ReleaseModel,
    RepeatModel,
    SequenceModel,
    TrainProcedure,
    ValueModel,
)
from conformance.language.spec_errors import described, explain
from conformance.language.statements import RegionCall, divided, parse, parse_head
from conformance.language.tables import read_table, with_tensors
from conformance.language.yaml_marks import Marked, load, read_text
from conformance.model.case import (
    Again,
    Array,
    Case,
    ExpectedError,
    Fill,
    Generator,
    Law,
    Literal,
    Loss,
    Node,
    Position,
    Procedure,
    Ref,
    Region,
    Segment,
    Statement,
    Tolerance,
    Tree,
    Value,
    leaves,
    node_makes,
    node_reads,
)

Path_ = tuple[object, ...]
#: Tolerances by dtype. A case has the loosest among those of its floating tensors.
TOLERANCES: Mapping[str, Tolerance] = {
    "float64": Tolerance(1e-9, 1e-11),
    "float32": Tolerance(1e-4, 1e-5),
    "float16": Tolerance(1e-2, 1e-2),
    "bfloat16": Tolerance(4e-2, 4e-2),
}
#: Names that emitted programs use for themselves, so that a case cannot.
RESERVED = re.compile(r"np|rng|(arg|result)\d+")
_EXCEPTIONS = tuple(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, Exception)
)
_TOP = ("family", "tensors", "cases")
_AXIS = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


def schema() -> dict[str, Any]:
    """The JSON Schema of case files, for editors."""
    made = CaseFileModel.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Recompute conformance cases",
        **{key: _closed(value) for key, value in made.items() if key != "title"},
    }


def _closed(part: Any) -> Any:
    """A part of a schema that forbids keys which match no pattern, as the pydantic models do."""
    if isinstance(part, list):
        return [_closed(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    closed = {key: _closed(value) for key, value in part.items()}
    return closed | ({"additionalProperties": False} if "patternProperties" in closed else {})


def load_folder(folder: Path) -> tuple[Case, ...]:
    """All cases below a folder, by file name and then in file order. Raises `CaseError`."""
    files = sorted(folder.rglob("*.yaml"))
    if not files:
        raise CaseError("no case files (*.yaml) here", where=folder)
    cases = tuple(case for file in files for case in load_file(file))
    first: dict[str, Case] = {}
    for case in cases:
        if first.setdefault(case.id, case) is not case:
            raise CaseError(
                f"case {case.id!r} stands in two files, first at {first[case.id].where}",
                where=case.where,
            )
    return cases


def load_file(file: Path) -> tuple[Case, ...]:
    """The cases of a file, axes expanded. Raises `CaseError`."""
    return load_text(read_text(file, CaseError), str(file))


def load_text(text: str, name: str) -> tuple[Case, ...]:
    """The cases in a text; `name` stands for the file in messages. Raises `CaseError`."""
    marked = load(text, name)
    top = marked.value
    if not isinstance(top, dict):
        raise CaseError(
            f"found {described(top)}, expected a mapping with the keys family and cases",
            where=marked.at(()),
        )
    for key in top:
        if key not in _TOP:
            raise CaseError(
                f"unknown key {key!r}", where=marked.key((key,)), hint=nearest(key, _TOP)
            )
    for key in ("family", "cases"):
        if key not in top:
            raise CaseError(f"key {key!r} is missing", where=marked.at(()))
    family, cases = top["family"], top["cases"]
    if not isinstance(family, str) or not re.fullmatch("[a-z][a-z0-9-]*", family):
        raise CaseError(
            f"found family {family!r}, expected lower-case letters, digits and hyphens",
            where=marked.at(("family",)),
        )
    if not isinstance(cases, dict) or not cases:
        raise CaseError(
            f"found {described(cases)}, expected a mapping of cases by name",
            where=marked.at(("cases",)),
        )
    table = read_table(marked)
    loaded: list[Case] = []
    for key, raw in cases.items():
        path = ("cases", key)
        loaded += _expanded(*with_tensors(marked, path, raw, table), family, path)
    table.refuse_unused(marked)
    return tuple(loaded)


def _expanded(marked: Marked, raw: object, family: str, path: Path_) -> Iterator[Case]:
    name = path[-1]
    if not isinstance(name, str) or not re.fullmatch("[a-z][a-z0-9-]*", name):
        raise CaseError(
            f"found case name {name!r}, expected lower-case letters, digits and hyphens",
            where=marked.key(path),
        )
    axes = _axes(marked, path, raw)
    followers = _followers(marked, path, raw, axes)
    for places in itertools.product(*(range(len(values)) for values in axes.values())):
        place = dict(zip(axes, places, strict=True))
        chosen = {axis: axes[axis][i] for axis, i in place.items()}
        suffix = ",".join(f"{axis}={value}" for axis, value in chosen.items())
        identity = f"{family}/{name}" + (f"[{suffix}]" if suffix else "")
        words = {name: values[place[axis]] for name, (axis, values) in followers.items()}
        yield _Builder(marked, path).case(identity, _substituted(raw, chosen | words, marked, path))


def _axes(marked: Marked, path: Path_, raw: object) -> Mapping[str, Sequence[Any]]:
    """The axes of a case. Their values become part of its id, and are words or numbers."""
    axes = raw.get("axes", {}) if isinstance(raw, dict) else {}
    here = (*path, "axes")
    if not isinstance(axes, dict):
        raise CaseError(
            f"found {described(axes)}, expected a mapping of names to lists", where=marked.at(here)
        )
    number = 1
    axes = {axis: values for axis, values in axes.items() if not isinstance(values, dict)}
    for axis, values in axes.items():
        if f"${axis}" == NUMBER:
            raise CaseError(
                f"the name {axis!r} is taken already",
                where=marked.key((*here, axis)),
                hint=f"`{NUMBER}` is the number in a `repeat`",
            )
        if not isinstance(values, list) or not values:
            raise CaseError(
                f"found {described(values)}, expected a list of the values of axis {axis!r}",
                where=marked.at((*here, axis)),
            )
        for i, value in enumerate(values):
            text = value if isinstance(value, str) else repr(value)
            if not re.fullmatch(r"[A-Za-z0-9_.+-]+", text):
                raise CaseError(
                    f"found {described(value)}, expected a word or a number",
                    where=marked.at((*here, axis, i)),
                )
        number *= len(values)
    if number > MAX_COPIES:
        raise CaseError(
            f"the axes make {number} cases, expected at most {MAX_COPIES}", where=marked.at(here)
        )
    return axes


def _followers(
    marked: Marked, path: Path_, raw: object, axes: Mapping[str, Sequence[Any]]
) -> Mapping[str, tuple[str, Sequence[Any]]]:
    """The `follows` entries of a case: by name, the axis that it follows and a word for each of that
    axis's values."""
    followers: dict[str, tuple[str, Sequence[Any]]] = {}
    given = raw.get("axes", {}) if isinstance(raw, dict) else {}
    for name, model in given.items():
        if not isinstance(model, dict):
            continue
        axis, values, here = model.get("follows"), model.get("values"), (*path, "axes", name)
        if not isinstance(axis, str) or axis not in axes:
            raise CaseError(
                f"{name!r} follows {axis!r}, which is not an axis",
                where=marked.at(here),
                hint=nearest(str(axis), axes) if axes else "",
            )
        if not isinstance(values, list) or len(values) != len(axes[axis]):
            raise CaseError(
                f"axis {axis!r} has {len(axes[axis])} values, and {name!r} as many words for them",
                where=marked.at(here),
            )
        followers[name] = (axis, values)
    return followers


def _substituted(raw: Any, chosen: Mapping[str, Any], marked: Marked, path: Path_) -> Any:
    if isinstance(raw, dict):
        if "repeat" in raw:  # `$i` stays in the text until the nodes are unrolled
            chosen = {**chosen, NUMBER[1:]: NUMBER}
        return {
            key: value if key == "axes" else _substituted(value, chosen, marked, (*path, key))
            for key, value in raw.items()
        }
    if isinstance(raw, list):
        return [_substituted(v, chosen, marked, (*path, i)) for i, v in enumerate(raw)]
    if not isinstance(raw, str):
        return raw

    def value(match: re.Match[str]) -> str:
        if match[1] not in chosen:
            hint = nearest(match[1], chosen) if chosen else "the case has no axes"
            if match[0] == NUMBER:
                hint = f"`{NUMBER}` is the number in a `repeat`, and stands in none here"
            raise CaseError(f"unknown axis {match[0]!r}", where=marked.at(path), hint=hint)
        return str(chosen[match[1]])

    whole = _AXIS.fullmatch(raw)
    if whole and whole[1] in chosen:
        return chosen[whole[1]]
    return _AXIS.sub(value, raw)


class _Builder:
    """Builds one case; keeps the path that errors are reported at."""

    def __init__(self, marked: Marked, path: Path_) -> None:
        self.marked, self.path = marked, path
        self.regions: dict[str, Region] = {}
        self._open: list[str] = []  # the regions around what is being read
        self._scopes: list[set[str]] = [
            set()
        ]  # regions defined so far, a set per open list of nodes
        self.generators: set[str] = set()
        #: Names of calls' return values as a whole (`returned`), and where the case names them.
        self._returned: dict[str, Position] = {}
        self._raises = False
        self._undifferentiable: frozenset[str] = frozenset()

    def at(self, *path: object) -> Position:
        return self.marked.at((*self.path, *path))

    def key(self, *path: object) -> Position:
        return self.marked.key((*self.path, *path))

    def case(self, identity: str, raw: object) -> Case:
        model = self._model(raw)
        self._raises = isinstance(model.error, ErrorModel)
        procedure = self._procedure(model)
        kind = procedure.kind
        inputs = tuple(self._inputs(model))
        self.generators = {i.name for i in inputs if isinstance(i, Generator)}
        parameters = tuple(self._arrays(model.parameters, "parameters", True))
        state = tuple(self._arrays(model.state, "state", False))
        names = [v.name for v in (*inputs, *parameters, *state)]
        self._refuse_twice(model, names)
        known = set(names) - self.generators
        program = self._nodes(model.program, ("program",), known, {})
        _refuse_rebinding(program)
        outputs = self._outputs(model, program, known)
        arrays = (*(i for i in inputs if isinstance(i, Array)), *parameters, *state)
        self._undifferentiable = without_gradient(program, (*inputs, *parameters, *state))
        loss, wrt = self._gradients(model, kind, arrays, outputs)
        self._check_needs(model)
        error = self._error(model, inputs)
        self._check_executions(model)
        if not self.regions:
            raise CaseError("no region is recomputed in this program", where=self.at("program"))
        keeps = isinstance(model.release, ReleaseModel)
        steps = model.release.steps if isinstance(model.release, ReleaseModel) else model.release
        return Case(
            id=identity,
            title=model.title,
            source=model.source,
            why=model.why,
            inputs=inputs,
            parameters=parameters,
            state=state,
            program=program,
            outputs=outputs,
            loss=loss,
            wrt=wrt,
            procedure=procedure,
            tolerance=self._tolerance(model, arrays),
            needs=frozenset(model.needs),
            seed=model.seed,
            error=error,
            where=self.at(),
            printed_gradients=dict(model.gradients.expect) if model.gradients else {},
            printed_executions={k: v.model_dump() for k, v in model.expect.executions.items()},
            release=steps or 0,
            keeps=keeps,
            law=self._law(model),
            autocast=model.autocast or "",
            hooks=self._hooks(model, arrays),
            differs=model.differs or "",
            as_plain=isinstance(model.error, AsPlainModel),
            then=self._then(model, kind, outputs),
            seeded=model.seeded,
            totals=self._totals(model, parameters, kind),
        )

    def _procedure(self, model: CaseModel) -> Procedure:
        given = model.procedure
        if isinstance(given, TrainProcedure):
            return Procedure("train", given.train.steps, given.train.learning_rate)
        if not isinstance(given, BackwardProcedure):
            return Procedure(given)
        asked = given.backward
        if asked == BackwardModel():
            raise CaseError(
                "`backward` says neither what is `between` nor what it comes `after`",
                where=self.at("procedure", "backward"),
                hint="`procedure: backward` alone is a backward pass",
            )
        return Procedure("backward", between=asked.between or "", after=asked.after or "")

    def _refuse_twice(self, model: CaseModel, names: Sequence[str]) -> None:
        for name in names:
            if names.count(name) > 1:
                sections = ("state", "parameters", "inputs")
                section = next(s for s in sections if name in getattr(model, s))
                raise CaseError(
                    f"the name {name!r} is taken already", where=self.key(section, name)
                )

    def _outputs(self, model: CaseModel, program: Sequence[Node], known: set[str]) -> Tree:
        outputs = self._gives(model, "outputs", program, (), {})
        self._check_names(outputs, known | set(self._returned), ("outputs",))
        for name, where in self._returned.items():
            if name not in leaves(outputs):
                raise CaseError(
                    f"{name!r} is not among the outputs",
                    where=where,
                    hint="what a region returned as a whole is there to be put out",
                )
        return outputs

    def _check_needs(self, model: CaseModel) -> None:
        for i, word in enumerate(model.needs):
            if word not in CAPABILITIES:
                raise CaseError(
                    f"unknown capability {word!r}",
                    where=self.at("needs", i),
                    hint=nearest(word, CAPABILITIES),
                )

    def _error(
        self, model: CaseModel, inputs: Sequence[Array | Value | Generator]
    ) -> ExpectedError | None:
        if not isinstance(model.error, ErrorModel):
            return None
        if model.error.type not in _EXCEPTIONS:
            raise CaseError(
                f"unknown exception {model.error.type!r}",
                where=self.at("error", "type"),
                hint=nearest(model.error.type, _EXCEPTIONS),
            )
        values = {v.name for v in inputs if isinstance(v, Value)}
        for name in model.error.then:
            if name not in values:
                raise CaseError(
                    f"{name!r} is not an input with a value",
                    where=self.key("error", "then", name),
                    hint=nearest(name, values) if values else "",
                )
        return ExpectedError(model.error.type, model.error.then)

    def _check_executions(self, model: CaseModel) -> None:
        for name in model.expect.executions:
            if name not in self.regions:
                raise CaseError(
                    f"no region is named {name!r}",
                    where=self.key("expect", "executions", name),
                    hint=nearest(name, self.regions) if self.regions else "",
                )

    def _totals(
        self, model: CaseModel, parameters: Sequence[Array], kind: str
    ) -> Mapping[str, float]:
        totals = model.gradients.totals if model.gradients else {}
        if not model.seeded and not totals:
            raise CaseError(
                "a program that is not seeded is held to `totals` alone, and has none",
                where=self.key("seeded"),
                hint="gradients: {totals: {w: 2.0}}",
            )
        full = {array.name for array in parameters if array.fill.kind == "full"}
        for name in totals:
            if name not in full:
                raise CaseError(
                    f"{name!r} is not a parameter that starts `full`",
                    where=self.key("gradients", "totals", name),
                    hint=nearest(name, full) if full else "",
                )
            if kind not in ("backward", "train"):
                raise CaseError(
                    f"procedure {kind!r} has no totals",
                    where=self.key("gradients", "totals", name),
                )
        return dict(totals)

    def _hooks(self, model: CaseModel, arrays: Sequence[Array]) -> tuple[str, ...]:
        asking = tuple(array.name for array in arrays if array.gradient)
        hooks = tuple(model.gradients.hooks) if model.gradients else ()
        for i, name in enumerate(hooks):
            if name not in asking:
                raise CaseError(
                    f"{name!r} asks for no gradient",
                    where=self.at("gradients", "hooks", i),
                    hint=nearest(name, asking),
                )
        return hooks

    def _then(self, model: CaseModel, kind: str, outputs: Tree) -> Loss | None:
        given = None if model.gradients is None else model.gradients.then
        if (kind == "per_output") != (given is not None):
            raise CaseError(
                "procedure 'per_output' and `then` go together", where=self.at("gradients")
            )
        return None if given is None else self._loss(given, outputs, ("gradients", "then"))

    def _law(self, model: CaseModel) -> Law | None:
        if model.law is None:
            return None
        if model.law.name not in LAWS:
            raise CaseError(
                f"unknown law {model.law.name!r}",
                where=self.at("law", "name"),
                hint=nearest(model.law.name, LAWS),
            )
        if model.law.counts is not None and model.law.counts not in OPERATIONS:
            raise CaseError(
                f"unknown operation {model.law.counts!r}",
                where=self.at("law", "counts"),
                hint=nearest(model.law.counts, OPERATIONS),
            )
        wanted = LAWS[model.law.name].constants
        if set(model.law.constants) != set(wanted):
            raise CaseError(
                f"law {model.law.name!r} depends on {', '.join(wanted) or 'no constants'}, found "
                f"{', '.join(model.law.constants) or 'none'}",
                where=self.at("law"),
            )
        constants = {name: int(value) for name, value in model.law.constants.items()}
        return Law(model.law.name, int(model.law.at), constants, model.law.counts or "")

    def _model(self, raw: object) -> CaseModel:
        try:
            return CaseModel.model_validate(raw)
        except ValidationError as error:
            explanation = explain(error, raw)
            path = (*self.path, *explanation.path)
            where = self.marked.key(path) if explanation.key else self.marked.at(path)
            raise CaseError(explanation.message, where=where, hint=explanation.hint) from error

    # -- tensors and values ----------------------------------------------------------------------

    def _inputs(self, model: CaseModel) -> Iterator[Array | Value | Generator]:
        for name, given in model.inputs.items():
            if isinstance(given, ValueModel):
                self._identifier(name, ("inputs", name), key=True)
                listed = isinstance(given.value, list)
                yield Value(name, tuple(given.value) if listed else given.value)  # type: ignore[arg-type]
            elif isinstance(given, GeneratorModel):
                self._identifier(name, ("inputs", name), key=True)
                yield Generator(name, given.generator, given.seed)
            else:
                yield from self._arrays({name: given}, "inputs", True)

    def _arrays(
        self, models: Mapping[str, ArrayModel], section: str, differentiable: bool
    ) -> Iterator[Array]:
        for name, model in models.items():
            path = (section, name)
            for number in range(1, int(model.repeat or 1) + 1):
                chosen = name.replace(NUMBER, str(number)) if model.repeat else name
                self._identifier(chosen, path, key=True)
                yield self._array(chosen, model, path, differentiable)

    def _array(self, name: str, model: ArrayModel, path: Path_, differentiable: bool) -> Array:
        kinds = ("full", "values", "arange", "normal", "uniform", "integers")
        given = [kind for kind in kinds if getattr(model, kind) is not None]
        if len(given) != 1:
            raise CaseError(
                f"tensor {name!r} is filled in {len(given)} ways, expected exactly one",
                where=self.at(*path),
                hint=f"one of {', '.join(kinds)}",
            )
        kind = given[0]
        if kind == "values":
            values = self._nested(model.values, (*path, "values"))
            shape = _shape_of(values)
            if shape is None or (model.shape is not None and tuple(model.shape) != shape):
                raise CaseError(
                    f"values of {name!r} are of shape {shape}, expected "
                    f"{model.shape or 'lists of equal lengths'}",
                    where=self.at(*path, "values"),
                )
            fill = Fill("values", values=values)
        else:
            if model.shape is None:
                raise CaseError(f"tensor {name!r} has no shape", where=self.at(*path))
            shape = tuple(int(n) for n in model.shape)
            filling = getattr(model, kind)
            fill = Fill(kind, tuple(filling) if isinstance(filling, list) else (filling,))  # type: ignore[arg-type]
        if math.prod(shape) > MAX_ELEMENTS:
            raise CaseError(
                f"tensor {name!r} has {math.prod(shape)} elements, expected at most {MAX_ELEMENTS}",
                where=self.at(*path, "shape"),
            )
        dtype = model.dtype or ("int32" if kind == "integers" else "float32")
        floating = "float" in dtype
        gradient = model.gradient
        if gradient is None:
            gradient = differentiable and floating
        if gradient and not floating:
            raise CaseError(f"a tensor of dtype {dtype} has no gradient", where=self.at(*path))
        return Array(name, shape, dtype, fill, gradient)

    def _nested(self, values: object, path: Path_) -> object:
        if isinstance(values, list):
            return tuple(self._nested(v, (*path, i)) for i, v in enumerate(values))
        if isinstance(values, bool | int | float) and _is_finite(values):
            return values
        raise CaseError(
            f"found {described(values)}, expected a finite number", where=self.at(*path)
        )

    def _identifier(self, name: str, path: Path_, key: bool = False) -> None:
        """Refuse a name that cannot be a variable of an emitted program; `key` if it is a YAML key."""
        where = self.key(*path) if key else self.at(*path)
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) or keyword.iskeyword(name):
            raise CaseError(
                f"found {name!r}, expected a name",
                where=where,
                hint="letters, digits and underscores, and no word of Python's own",
            )
        if RESERVED.fullmatch(name):
            raise CaseError(
                f"the name {name!r} is taken already",
                where=where,
                hint="every program uses it itself",
            )

    # -- the program -----------------------------------------------------------------------------

    def _nodes(
        self, models: Iterable[Any], path: Path_, known: set[str], words: Mapping[str, str]
    ) -> tuple[Node, ...]:
        """The nodes of a list; names that they make are added to `known`."""
        self._scopes.append(set())
        try:
            return tuple(self._listed(models, path, known, words))
        finally:
            self._scopes.pop()

    def _listed(
        self, models: Iterable[Any], path: Path_, known: set[str], words: Mapping[str, str]
    ) -> list[Node]:
        nodes: list[Node] = []
        for i, model in enumerate(models):
            here = (*path, i)
            if isinstance(model, RepeatModel):
                times = model.repeat
                numbers = times if isinstance(times, list) else range(1, int(times) + 1)
                for number in numbers:
                    inner = {**words, NUMBER: str(number)}
                    nodes += self._listed(model.body, (*here, "body"), known, inner)
                    if len(nodes) > MAX_COPIES:
                        raise CaseError(
                            f"the program has more than {MAX_COPIES} statements and regions here",
                            where=self.at(*here, "repeat"),
                        )
            elif isinstance(model, RegionModel | DefineModel):
                nodes.append(self._region(model, here, known, words))
            elif isinstance(model, SequenceModel):
                nodes += self._sequence(model, here, known, words)
            elif isinstance(model, CallModel):
                nodes.append(self._call(model, here, known, words))
            else:
                nodes += self._statements(_replaced(model, words), here, known)
        return nodes

    def _statements(self, text: str, path: Path_, known: set[str]) -> Iterator[Statement | Again]:
        """The statements of a text; a further call of a region reads as one."""
        visible = {name.replace("-", "_"): name for name in set().union(*self._scopes)}
        for part, where in divided(text, self.at(*path)):
            statement = parse(part, where, visible)
            if isinstance(statement, RegionCall):
                yield self._called(statement, visible[statement.region], known)
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
                if generator not in self.generators:
                    raise CaseError(
                        f"{generator or 'a number'!r} is not a generator",
                        where=place(generator) if generator else statement.where,
                        hint="declare it among the inputs: `g: {generator: framework}`",
                    )
                continue
            parts = argument if isinstance(argument, tuple) else (argument,)
            for part in parts:
                if isinstance(part, Ref) and part.name not in known:
                    raise self._unknown(part.name, known, place(part.name))
        self._make(statement.targets, known, statement.where)
        return statement

    def _make(self, names: Sequence[str], known: set[str], where: Position) -> None:
        """Add names to the known ones; a region's name cannot be assigned again."""
        functions = {region.replace("-", "_") for region in (*self.regions, *self._open)}
        for name in names:
            if name in functions or RESERVED.fullmatch(name):
                raise CaseError(
                    f"the name {name!r} is taken already",
                    where=where,
                    hint="a region has it" if name in functions else "every program uses it itself",
                )
            if name in self._returned:
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
        path: Path_,
        known: set[str],
        words: Mapping[str, str],
    ) -> Region:
        called = isinstance(model, RegionModel)
        key = "recompute" if called else "define"
        text = _replaced(getattr(model, key), words)
        name = text.partition("(")[0]
        self._region_name(name, (*path, key), known)
        head = parse_head(text, self.at(*path, key))
        if head is None:
            takes, kwargs = self._takes(model, path, known if called else None, words)
        else:
            takes, kwargs = self._named(model, head, path, known if called else None)
        inside = known | set(leaves(takes)) | set(leaves(kwargs))
        self._open.append(name)
        body = self._nodes(model.body, (*path, "body"), inside, words)
        self._open.pop()
        _refuse_rebinding(body)
        gives = self._gives(model, "gives", body, path, words)
        self._check_names(gives, inside, (*path, "gives"))
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
            self.at(*path),
            self._policy(model, body, path, words),
            called,
            signature=model.signature,
            mapped=model.mapped,
            autocast=model.autocast or "",
            returned=self._whole(model, name, gives, path, known, words),
            written=frozenset({"preserve_rng", "merge_adjacent"} & model.model_fields_set),
            round=isinstance(model, RegionModel) and model.round,
            option=model.option or "",
            contexts=model.contexts,
        )
        ops = {node.op for node in body if isinstance(node, Statement)}
        if "doubled_sin" in ops and not region.contexts:
            raise CaseError(
                "doubled_sin runs in the contexts of its region, which has none",
                where=self.at(*path),
                hint="write `contexts: true`",
            )
        if region.signature == "undeclared" and set(leaves(kwargs)) & set(_read(body)):
            raise CaseError(
                "the body reads what is no argument of the function",
                where=self.at(*path, "signature"),
            )
        if region.mapped and (kwargs or not all(isinstance(tree, Ref) for tree in takes)):
            raise CaseError(
                "a mapped region takes tensors, each by its name", where=self.at(*path, "mapped")
            )
        one = len(takes) == 1 and isinstance(takes[0], Ref) and isinstance(gives, Ref)
        if region.round and (kwargs or not one):
            raise CaseError(
                "the round of a loop takes one tensor and gives one", where=self.at(*path, "round")
            )
        made = {n for node in body for n in node_makes(node)}
        both = made & set(region.captured())
        if both:
            raise CaseError(
                f"{min(both)!r} is captured and made anew in region {name!r}",
                where=self.at(*path),
                hint="take it as an argument, or give the new value a name of its own",
            )
        self._defined(region)
        if called:
            self._make(leaves(gives), known, self.at(*path, "gives"))
        return region

    def _gives(
        self,
        model: BlockModel | CaseModel,
        key: str,
        nodes: Sequence[Node],
        path: Path_,
        words: Mapping[str, str],
    ) -> Tree:
        """What a region gives (`gives`) or a program puts out (`outputs`)."""
        if key in model.model_fields_set:
            return self._tree(getattr(model, key), (*path, key), words)
        last = last_value(nodes)
        if last is None:
            raise CaseError(
                f"what comes last makes more than one value, or none: `{key}` must say which",
                where=nodes[-1].where,
                hint=f"left out, `{key}` is the last value that is made",
            )
        return last

    def _whole(
        self,
        model: BlockModel | CallModel,
        region: str,
        gives: Tree,
        path: Path_,
        known: set[str],
        words: Mapping[str, str],
    ) -> str:
        """The name for a call's return value as a whole (added to `known`); empty if there is none."""
        given = model.returned if isinstance(model, RegionModel | CallModel) else ""
        name, here = _replaced(given, words), (*path, "returned")
        if not name:
            return ""
        self._identifier(name, here)
        if self._open:
            raise CaseError(
                "what is returned inside a region is not put out",
                where=self.at(*here),
                hint="`returned` stands in the program itself",
            )
        if isinstance(gives, Ref | Literal):
            raise CaseError(
                f"{name!r} is no tuple and no dict",
                where=self.at(*here),
                hint="`gives` names it already" if isinstance(gives, Ref) else "",
            )
        functions = {other.replace("-", "_") for other in (*self.regions, region)}
        taken = known | set(self._returned) | functions | self.generators | set(leaves(gives))
        if name in taken:
            raise CaseError(f"the name {name!r} is taken already", where=self.at(*here))
        self._returned[name] = self.at(*here)
        return name

    def _defined(self, region: Region) -> None:
        self.regions[region.name] = region
        self._scopes[-1].add(region.name)

    def _region_name(self, name: str, path: Path_, known: set[str]) -> None:
        variable = name.replace("-", "_")
        self._identifier(variable, path)
        taken = {other.replace("-", "_") for other in (*self.regions, *self._open)}
        if variable in taken | known | set(self._returned):
            raise CaseError(
                f"the name {name!r} is taken already",
                where=self.at(*path),
                hint="in a `repeat`, number the name: `block$i`",
            )

    def _policy(
        self, model: BlockModel, body: Sequence[Node], path: Path_, words: Mapping[str, str]
    ) -> tuple[str, ...]:
        """The policy: operations, or names that statements of the body make."""
        made = {n for node in body if isinstance(node, Statement) for n in node.targets}
        saved = tuple(_replaced(word, words) for word in model.save)
        for i, word in enumerate(saved):
            here = (*path, "save", i)
            if word in made and word in OPERATIONS:
                raise CaseError(
                    f"{word!r} is an operation and a name of the body", where=self.at(*here)
                )
            used = {node.op for node in body if isinstance(node, Statement)}
            if word not in made and word not in used:
                raise CaseError(
                    f"{word!r} is neither an operation of the body nor a name that it makes",
                    where=self.at(*here),
                    hint=nearest(word, made | used),
                )
        return saved

    def _sequence(
        self, model: SequenceModel, path: Path_, known: set[str], words: Mapping[str, str]
    ) -> list[Region]:
        """The segments of a sequence, each a region of its own."""
        name, handed = _replaced(model.sequence, words), _replaced(model.takes, words)
        self._check_names(Ref(handed), known, (*path, "takes"))
        layers = self._layers(model, (*path, "layers"), known, words)
        count = int(model.segments)
        if count > len(layers) and not self._raises:
            raise CaseError(
                f"{len(layers)} layer(s) cannot make {count} segments",
                where=self.at(*path, "segments"),
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
                self.at(*path),
                segment=Segment(name, number, count, part),
            )
            self._defined(region)
            regions.append(region)
        return regions

    def _layers(
        self, model: SequenceModel, path: Path_, known: set[str], words: Mapping[str, str]
    ) -> tuple[tuple[Statement, ...], ...]:
        handed = _replaced(model.takes, words)
        layers: list[tuple[Statement, ...]] = []
        inside = set(known)
        for i, given in enumerate(model.layers):
            if isinstance(given, list):
                texts, place, copies = given, (*path, i), [words]
            else:
                texts, place = given.layer, (*path, i, "layer")
                copies = [{**words, NUMBER: str(n)} for n in range(1, int(given.repeat) + 1)]
            for chosen in copies:
                layer = tuple(
                    self._operation(parsed, part, where, inside)
                    for j, text in enumerate(texts)
                    for part, where in divided(_replaced(text, chosen), self.at(*place, j))
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
        self, model: CallModel, path: Path_, known: set[str], words: Mapping[str, str]
    ) -> Again:
        name = _replaced(model.call, words)
        visible = set().union(*self._scopes)
        if name not in visible:
            raise CaseError(
                f"no region {name!r} before this call",
                where=self.at(*path, "call"),
                hint=nearest(name, visible) if visible else "",
            )
        takes, kwargs = self._takes(model, path, known, words)
        gives = self._tree(model.gives, (*path, "gives"), words)
        self._as_first(name, len(takes), set(kwargs), self.at(*path))
        whole = self._whole(model, name, gives, path, known, words)
        self._make(leaves(gives), known, self.at(*path, "gives"))
        return Again(name, takes, kwargs, gives, self.at(*path), whole)

    def _named(
        self,
        model: RegionModel | DefineModel,
        head: RegionCall,
        path: Path_,
        known: set[str] | None,
    ) -> tuple[tuple[Tree, ...], dict[str, Tree]]:
        """The arguments of a region whose head is a call, `block(x)`; `known` is given if it is called
        here, not only defined."""
        for key in ("takes", "kwargs"):
            if key in model.model_fields_set:
                raise CaseError(
                    f"what {head.region!r} takes stands in brackets already, and under {key!r} again",
                    where=self.key(*path, key),
                    hint="write it in one place",
                )
        for word in head.kwargs:
            self._identifier(word, path)
        return self._arguments(head, known)

    def _arguments(
        self, call: RegionCall, known: set[str] | None
    ) -> tuple[tuple[Tree, ...], dict[str, Tree]]:
        for argument, where in call.places.items():
            if known is not None and argument not in known:
                raise self._unknown(argument, known, where)
            if RESERVED.fullmatch(argument):
                raise CaseError(
                    f"the name {argument!r} is taken already",
                    where=where,
                    hint="every program uses it itself",
                )
        takes = tuple(Ref(argument) for argument in call.takes)
        return takes, {key: Ref(argument) for key, argument in call.kwargs.items()}

    def _called(self, call: RegionCall, name: str, known: set[str]) -> Again:
        """A further call that is written as a statement."""
        takes, kwargs = self._arguments(call, known)
        self._as_first(name, len(takes), set(kwargs), call.where)
        self._make(call.targets, known, call.where)
        gives = tuple(Ref(target) for target in call.targets)
        return Again(name, takes, kwargs, gives if len(gives) > 1 else gives[0], call.where)

    def _as_first(self, name: str, takes: int, kwargs: set[str], where: Position) -> None:
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
        path: Path_,
        known: set[str] | None,
        words: Mapping[str, str],
    ) -> tuple[tuple[Tree, ...], dict[str, Tree]]:
        given = model.takes if isinstance(model.takes, list) else [model.takes]
        many = isinstance(model.takes, list)
        places = [(*path, "takes", i) if many else (*path, "takes") for i in range(len(given))]
        takes = tuple(
            self._tree(tree, place, words) for tree, place in zip(given, places, strict=True)
        )
        for key in model.kwargs:
            self._identifier(key, (*path, "kwargs", key), key=True)
        kwargs = {
            key: self._tree(tree, (*path, "kwargs", key), words)
            for key, tree in model.kwargs.items()
        }
        for tree, place in zip(takes, places, strict=True):
            own = set(leaves(tree)) if known is None else known
            self._check_names(tree, own, place, literals=False)
        for key, tree in kwargs.items():
            own = set(leaves(tree)) if known is None else known
            self._check_names(tree, own, (*path, "kwargs", key), literals=False)
        return takes, kwargs

    def _tree(self, raw: object, path: Path_, words: Mapping[str, str]) -> Tree:
        if isinstance(raw, str):
            name = _replaced(raw, words)
            self._identifier(name, path)
            return Ref(name)
        if raw is None or (isinstance(raw, bool | int | float) and _is_finite(raw)):
            return Literal(raw)
        if isinstance(raw, list):
            return tuple(self._tree(part, (*path, i), words) for i, part in enumerate(raw))
        if isinstance(raw, dict):
            return {str(k): self._tree(part, (*path, k), words) for k, part in raw.items()}
        raise CaseError(
            f"found {described(raw)}, expected a name, a list or a mapping", where=self.at(*path)
        )

    def _check_names(self, tree: Tree, known: set[str], path: Path_, literals: bool = True) -> None:
        for name, place in _places(tree, path):
            if name not in known:
                raise self._unknown(name, known, self.at(*place))
        if not literals and isinstance(tree, Literal):
            raise CaseError(
                f"found {tree.value!r}, expected a name",
                where=self.at(*path),
                hint="declare it among the inputs: `scale: {value: 2}`",
            )

    def _unknown(self, name: str, known: set[str], where: Position) -> CaseError:
        """The error of a name that cannot be read here."""
        if name in self._returned:
            return CaseError(
                f"{name!r} is what a region returned as a whole, only `outputs` may hold it",
                where=where,
                hint="`gives` names what is in it",
            )
        return CaseError(f"unknown name {name!r}", where=where, hint=nearest(name, known))

    # -- what is differentiated ------------------------------------------------------------------

    def _gradients(
        self, model: CaseModel, kind: str, arrays: Sequence[Array], outputs: Tree
    ) -> tuple[Loss | None, tuple[str, ...]]:
        asking = tuple(array.name for array in arrays if array.gradient)
        if kind == "inference":
            if model.gradients is not None:
                raise CaseError("inference has no gradients", where=self.at("gradients"))
            return None, ()
        given = model.gradients or GradientsModel()
        if given.of is None:
            loss = self._usual_loss(model, outputs)
        else:
            loss = self._loss(given.of, outputs, ("gradients", "of"))
        wrt = asking if given.wrt is None else tuple(given.wrt)
        for i, name in enumerate(wrt):
            if name not in asking:
                raise CaseError(
                    f"{name!r} asks for no gradient",
                    where=self.at("gradients", "wrt", i),
                    hint=nearest(name, asking),
                )
        for name in given.expect:
            if name not in wrt:
                raise CaseError(
                    f"no gradient of {name!r} is asked for",
                    where=self.key("gradients", "expect", name),
                    hint=nearest(name, wrt),
                )
            printed = self._nested(given.expect[name], ("gradients", "expect", name))
            shape = next(array.shape for array in arrays if array.name == name)
            if _shape_of(printed) != shape:
                raise CaseError(
                    f"the printed gradient of {name!r} is of shape {_shape_of(printed)}, "
                    f"expected {shape}",
                    where=self.key("gradients", "expect", name),
                )
        return loss, wrt

    def _usual_loss(self, model: CaseModel, outputs: Tree) -> Loss:
        loss = usual_loss(outputs)
        if loss is None or loss.name in self._returned or loss.name in self._undifferentiable:
            raise CaseError(
                "the first output is no floating tensor, and nothing says what is differentiated",
                where=self.at("outputs" if "outputs" in model.model_fields_set else "program"),
                hint="say so (`gradients: {of: sum(z)}`), or `procedure: inference`",
            )
        return loss

    def _loss(self, text: str, outputs: Tree, path: Path_) -> Loss:
        match = re.fullmatch(r"(?:(sum|mean)\((\w+)\)|(\w+))", text.strip())
        if match is None:
            raise CaseError(
                f"found {text!r}, expected sum(name), mean(name) or a name", where=self.at(*path)
            )
        loss = Loss(match[1] or "none", match[2] or match[3])  # type: ignore[arg-type]
        if loss.name in self._returned:
            raise self._unknown(loss.name, set(), self.at(*path))
        if loss.name not in leaves(outputs):
            raise CaseError(
                f"{loss.name!r} is not among the outputs",
                where=self.at(*path),
                hint=nearest(loss.name, leaves(outputs)),
            )
        if loss.name in self._undifferentiable:
            raise CaseError(
                f"{loss.name!r} is no floating tensor, and has no gradient",
                where=self.at(*path),
                hint="say of what (`gradients: {of: sum(z)}`), or `procedure: inference`",
            )
        return loss

    def _tolerance(self, model: CaseModel, arrays: Sequence[Array]) -> Tolerance:
        if model.tolerance is not None:
            return Tolerance(model.tolerance.rtol, model.tolerance.atol)
        tolerances = [TOLERANCES[a.dtype] for a in arrays if a.dtype in TOLERANCES]
        return max(tolerances, key=lambda t: t.rtol, default=TOLERANCES["float32"])


def _places(tree: Tree, path: Path_) -> Iterator[tuple[str, Path_]]:
    """The names in a tree, each with its path."""
    if isinstance(tree, Ref):
        yield tree.name, path
    elif not isinstance(tree, Literal):
        items = tree.items() if isinstance(tree, Mapping) else enumerate(tree)
        for key, part in items:
            yield from _places(part, (*path, key))


def _replaced(text: str, words: Mapping[str, str]) -> str:
    """A text with `$i` replaced by the current number of each `repeat` around it."""
    return _AXIS.sub(lambda found: words.get(found[0], found[0]), text)


def _shape_of(values: object) -> tuple[int, ...] | None:
    if not isinstance(values, tuple):
        return ()
    inner = {_shape_of(v) for v in values}
    if len(inner) > 1 or None in inner:
        return None
    rest = inner.pop() if inner else ()
    return (len(values), *(rest or ()))


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond all floats
        return False


def _read(nodes: Sequence[Node]) -> Iterator[str]:
    """The names that nodes read."""
    for node in nodes:
        yield from node_reads(node)


def _refuse_rebinding(nodes: Sequence[Node]) -> None:
    """Refuse to reassign a name that a region has captured: a rerun would read the new value."""
    captured: dict[str, str] = {}
    for node in nodes:
        for name in node_makes(node):
            if name in captured:
                raise CaseError(
                    f"{name!r} is made anew, and region {captured[name]!r} has captured it",
                    where=node.where,
                    hint="give the new value a name of its own",
                )
        if isinstance(node, Region):
            captured |= dict.fromkeys(node.captured(), node.name)
