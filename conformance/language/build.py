"""Building a case out of its YAML: what it declares, its program, and what is differentiated."""

import builtins
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from pydantic import ValidationError

from conformance.errors import CaseError, nearest
from conformance.language import spec
from conformance.language.changes import read_changes, with_changes
from conformance.language.features import CAPABILITIES
from conformance.language.flow import Flow
from conformance.language.laws import LAWS
from conformance.language.operations import BOOLS, COLLECTIVES, DRAWS, OPERATIONS
from conformance.language.program import ProgramBuilder
from conformance.language.reach import updated
from conformance.language.source import KeyPath, Source, described, explain, is_finite
from conformance.language.splitting import check_split
from conformance.model.case import (
    FORWARD_MODE,
    NUMBER,
    Array,
    Case,
    ExpectedError,
    Fill,
    Generator,
    Law,
    Loss,
    Node,
    Procedure,
    Region,
    Statement,
    Tolerance,
    Tree,
    Value,
    leaves,
    walk,
)

#: Tolerances by dtype. A case has the loosest among those of its floating tensors.
TOLERANCES: Mapping[str, Tolerance] = {
    "float64": Tolerance(1e-9, 1e-11),
    "float32": Tolerance(1e-4, 1e-5),
    "float16": Tolerance(1e-2, 1e-2),
    "bfloat16": Tolerance(4e-2, 4e-2),
}
_EXCEPTIONS = tuple(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, Exception)
)
_REGION = "write one: `{recompute: block(x), body: y = tanh(x)}`"
_NAME_ANOTHER = "name {} (`gradients: {{of: sum(z)}}`), or write `procedure: inference`"


class CaseBuilder(Source):
    """Builds one case. All methods raise `CaseError`."""

    _model: spec.CaseModel
    _procedure: Procedure
    _program: ProgramBuilder
    _outputs: Tree
    _arrays: tuple[Array, ...]
    #: The names of tensors that require a gradient, and of values that have none.
    _asking: tuple[str, ...]
    _undifferentiable: frozenset[str]

    def case(self, identity: str, raw: object) -> Case:
        """The case with this id, of its YAML, whose axes are expanded."""
        try:
            self._model = model = spec.CaseModel.model_validate(raw)
        except ValidationError as refused:
            raise explain(refused, raw, self) from refused
        if model.smoke and model.use != "everyday":
            message = f"a smoke case must be an everyday one, and this case is {model.use}"
            hint = "write `use: everyday`, or remove `smoke`"
            raise self.error(message, "smoke", hint=hint, key=True)
        self._procedure = self._read_procedure()
        inputs = tuple(self._inputs(model))
        generators = {i.name for i in inputs if isinstance(i, Generator)}
        values = {i.name for i in inputs if isinstance(i, Value)}
        may_raise = isinstance(model.error, spec.ErrorModel)
        around = model.around.forward if model.around else ""
        self._program = ProgramBuilder(
            *(self, generators, values),
            may_raise=may_raise,
            default_dtype=around.removeprefix("default-") or "float32",
        )
        parameters = tuple(self._tensors(model.parameters, "parameters", True))
        state = tuple(self._tensors(model.state, "state", False))
        given = (*inputs, *parameters, *state)
        names = [value.name for value in given]
        for name in names:
            if names.count(name) > 1:
                sections = ("state", "parameters", "inputs")
                section = next(s for s in sections if name in getattr(model, s))
                raise self.error(f"the name {name!r} is taken already", section, name, key=True)
        known = set(names) - generators
        program = self._program.nodes(model.program, ("program",))
        self._program.names.follow(program, known)
        self._check_procedure(program)
        self._outputs = self._read_outputs(program, known)
        self._arrays = tuple(value for value in given if isinstance(value, Array))
        self._asking = tuple(array.name for array in self._arrays if array.gradient)
        self._undifferentiable = _without_gradient(program, given)
        gradients = model.gradients or spec.GradientsModel()
        loss, wrt = self._gradients(gradients)
        for i, word in enumerate(model.needs):
            self.refuse_other(word, CAPABILITIES, f"unknown capability {word!r}", "needs", i)
        error = self._error(inputs)
        regions = self._program.regions
        for name in model.expect.executions:
            path = ("expect", "executions", name)
            self.refuse_other(name, regions, f"no region is named {name!r}", *path, key=True)
        if not regions:
            raise self.error("the program has no region", "program", hint=_REGION)
        release = model.release
        law = self._law(model.law) if model.law else None
        self._refuse_others(gradients.hooks, "hooks")
        if (self._procedure.kind == "per_output") != (gradients.then is not None):
            raise self.error("procedure 'per_output' and `then` go together", "gradients")
        self._check_totals(gradients.totals, parameters)
        self._check_ranks(program)
        written = model.parallel
        split = written.tensor if isinstance(written, spec.TensorParallelModel) else {}
        copied = ("title", "source", "why", "seed", "seeded", "smoke", "use", "ranks")
        made = Case(
            id=identity,
            inputs=inputs,
            parameters=parameters,
            state=state,
            program=program,
            outputs=self._outputs,
            loss=loss,
            wrt=wrt,
            procedure=self._procedure,
            tolerance=self._tolerance(),
            needs=frozenset(model.needs),
            error=error,
            where=self.at(),
            printed_gradients=dict(gradients.expect),
            printed_executions={k: v.model_dump() for k, v in model.expect.executions.items()},
            release=(release.steps if isinstance(release, spec.ReleaseModel) else release) or 0,
            keeps=isinstance(release, spec.ReleaseModel),
            law=law,
            autocast=model.autocast or "",
            around=around,
            hooks=tuple(gradients.hooks),
            differs=model.differs or "",
            parallel="tensor" if split else written or "",  # type: ignore[arg-type]
            split=split,
            as_plain=isinstance(model.error, spec.AsPlainModel),
            then=self._loss(gradients.then, "then") if gradients.then is not None else None,
            totals=dict(gradients.totals),
            **{word: getattr(model, word) for word in copied},
        )
        if self._procedure.changes or self._procedure.made == "once":
            made = with_changes(self, made, gradients.wrt)
        if made.split:
            check_split(self, made)
        if error is not None:
            called = Flow(made).of_region
            silent = [r for r in made.regions() if r.name not in called and _raises(r)]
            if silent:
                message = f"region {silent[0].name!r} would raise an error, and is never called"
                raise self.error(message, "error")
        training = made.procedure.kind == "train"
        if (training or made.procedure.between == "update") and updated(Flow(made)):
            message = "an output shares memory with a parameter, which is updated before it is read"
            place = ("train",) if training else ("backward", "between")
            raise self.error(message, "procedure", *place)
        return made

    def _inputs(self, model: spec.CaseModel) -> Iterator[Array | Value | Generator]:
        for name, declared in model.inputs.items():
            if isinstance(declared, spec.ArrayModel):
                yield from self._tensors({name: declared}, "inputs", True)
                continue
            self.identifier(name, "inputs", name, key=True)
            if isinstance(declared, spec.ValueModel):
                listed = isinstance(declared.value, list)
                yield Value(name, tuple(declared.value) if listed else declared.value)  # type: ignore[arg-type]
            else:
                yield Generator(name, declared.generator, declared.seed)

    def _tensors(
        self, models: Mapping[str, spec.ArrayModel], section: str, differentiable: bool
    ) -> Iterator[Array]:
        """The tensors of a section (`inputs`, `parameters`, `state`); floating ones require a gradient
        where they are `differentiable`, unless they say otherwise."""
        for name, model in models.items():
            path = (section, name)
            for number in range(1, int(model.repeat or 1) + 1):
                chosen = name.replace(NUMBER, str(number)) if model.repeat else name
                self.identifier(chosen, *path, key=True)
                yield self._array(chosen, model, path, differentiable)

    def _array(
        self, name: str, model: spec.ArrayModel, path: KeyPath, differentiable: bool
    ) -> Array:
        error = self.error
        kinds = ("full", "values", "arange", "normal", "uniform", "integers")
        filled = [kind for kind in kinds if getattr(model, kind) is not None]
        if len(filled) != 1:
            found = " and ".join(filled) or "no values"
            message = f"tensor {name!r} has {found}, expected one of {', '.join(kinds)}"
            raise error(message, *path, hint="write `normal: 0.5`, for example")
        (kind,) = filled
        if kind == "values":
            values = self._numbers(model.values, (*path, "values"))
            shape = _shape_of(values)
            if model.by_rank and shape is not None:
                if shape[:1] != (self._model.ranks,):
                    message = (
                        f"the values of {name!r} have no first axis of {self._model.ranks} ranks"
                    )
                    raise error(message, *path, "values")
                shape = shape[1:]
            if shape is None or (model.shape is not None and tuple(model.shape) != shape):
                wanted = model.shape or "lists of equal lengths"
                message = f"the values of {name!r} have shape {shape}, expected {wanted}"
                raise error(message, *path, "values")
            fill = Fill("values", values=values)
        elif model.shape is None:
            raise error(
                f"tensor {name!r} has no shape", *path, hint="write `shape: [3, 4]`, for example"
            )
        else:
            shape = tuple(int(n) for n in model.shape)
            filling = getattr(model, kind)
            fill = Fill(kind, tuple(filling) if isinstance(filling, list) else (filling,))  # type: ignore[arg-type]
        size = math.prod(shape)
        if size > spec.MAX_ELEMENTS:
            message = f"tensor {name!r} has {size} elements, expected at most {spec.MAX_ELEMENTS}"
            raise error(message, *path, "shape")
        dtype = model.dtype or ("int32" if kind == "integers" else "float32")
        floating = "float" in dtype
        gradient = model.gradient if model.gradient is not None else differentiable and floating
        if gradient and not floating:
            hint = "move it to `inputs`, and remove `gradient`"
            raise error(
                f"tensor {name!r} of dtype {dtype} cannot require a gradient", *path, hint=hint
            )
        if model.by_rank and kind in ("full", "arange"):
            hint = "draw them (`normal: 0.5`), or write `values` with an axis of ranks"
            message = f"{kind!r} fills {name!r} alike on each rank"
            raise error(message, *path, "by_rank", hint=hint)
        return Array(name, shape, dtype, fill, gradient, model.by_rank)

    def _numbers(self, values: object, path: KeyPath) -> object:
        """Nested lists of finite numbers as nested tuples."""
        if isinstance(values, list):
            return tuple(self._numbers(v, (*path, i)) for i, v in enumerate(values))
        if isinstance(values, bool | int | float) and is_finite(values):
            return values
        raise self.error(f"found {described(values)}, expected a finite number", *path)

    def _read_procedure(self) -> Procedure:
        written = self._model.procedure
        if isinstance(written, spec.TrainProcedure):
            train = written.train
            between, made = read_changes(train), cast(Any, train.made)
            return Procedure("train", train.steps, train.learning_rate, "", "", made, between)
        if not isinstance(written, spec.BackwardProcedure):
            return Procedure(written)
        backward = written.backward
        if backward == spec.BackwardModel():
            message = "found an empty mapping, expected `between` or `after` in it"
            hint = "write `procedure: backward` for one backward pass"
            raise self.error(message, "procedure", "backward", hint=hint)
        return Procedure("backward", between=backward.between or "", after=backward.after or "")

    def _check_procedure(self, program: Sequence[Node]) -> None:
        """Refuse a procedure that changes what is not there, or that takes no gradient of a program that
        takes one itself."""
        used = {node.op for node in walk(program) if isinstance(node, Statement)}
        procedure, model = self._procedure, self._model
        places: dict[str, tuple[str, ...]] = {}
        places[procedure.between] = ("procedure", "backward", "between")
        if model.around:
            places[model.around.forward] = ("around", "forward")
        for word, place in places.items():
            changing = {o.name for o in OPERATIONS.values() if o.between and o.between == word}
            if changing and used.isdisjoint(changing):
                message = f"nothing in this program reads what {word!r} changes"
                hint = f"{' and '.join(sorted(changing))} reads it"
                raise self.error(message, *place, hint=hint)
        if model.around and (drawing := min(used & DRAWS, default="")):
            message = f"{drawing} draws float32, and frameworks draw the default dtype"
            raise self.error(message, "around", hint="leave out `around`, or use dropout")
        if procedure.between == "update" and not model.parameters:
            raise self.error("there is no parameter to update", "procedure", "backward", "between")
        slopes = {n for n in used if OPERATIONS[n].capability == "gradient-inside"}
        if slopes and "inference" in (procedure.kind, procedure.after):
            message = f"{min(slopes)} takes a gradient where gradients are switched off"
            raise self.error(message, "procedure")

    def _check_ranks(self, program: Sequence[Node]) -> None:
        """Refuse what takes several ranks in a program that runs on one, and what several cannot do."""
        if self._model.ranks > 1:
            kind = self._procedure.kind
            if self._procedure.order > 1 or kind in (*FORWARD_MODE, "jacobian", "functional"):
                raise self.error(f"procedure {kind!r} is for one rank", "procedure")
            if isinstance(self._model.parallel, str):
                self._check_parallel()
            return
        hint = "write `ranks: 2` in the case"
        for node in walk(program):
            if isinstance(node, Statement) and node.op in COLLECTIVES:
                raise CaseError(f"{node.op} takes several ranks", where=node.where, hint=hint)
        if self._model.parallel:
            raise self.error("`parallel` takes several ranks", "parallel", hint=hint, key=True)
        for array in self._arrays:
            if array.by_rank:
                message = f"{array.name!r} is `by_rank`, and there is one rank"
                raise self.error(message, hint=hint)

    def _check_parallel(self) -> None:
        """Refuse what no framework can do that spreads a program over ranks by itself."""
        if self._procedure.kind in ("second_backward", "per_output"):
            message = "`parallel` averages gradients once after a forward pass"
            raise self.error(message, "procedure")
        for array in self._arrays:
            if array.by_rank and array.name in self._model.parameters:
                message = f"{array.name!r} is `by_rank`, and `parallel` keeps parameters alike"
                raise self.error(message, "parallel", key=True)

    def _read_outputs(self, program: Sequence[Node], known: set[str]) -> Tree:
        outputs = self._program.gives(self._model, "outputs", program, ())
        returned = self._program.names.returned
        self._program.names.check(outputs, known | set(returned))
        for name, where in returned.items():
            if name not in leaves(outputs):
                message = f"`returned` names {name!r}, which is not among the outputs"
                raise CaseError(message, where=where, hint=f"add it: `outputs: [{name}]`")
        return outputs

    def _error(self, inputs: Sequence[Array | Value | Generator]) -> ExpectedError | None:
        error = self._model.error
        if not isinstance(error, spec.ErrorModel):
            return None
        message = f"unknown exception {error.type!r}"
        self.refuse_other(error.type, _EXCEPTIONS, message, "error", "type")
        values = {v.name for v in inputs if isinstance(v, Value)}
        for name in error.then:
            message = f"{name!r} is not an input with a value"
            self.refuse_other(name, values, message, "error", "then", name, key=True)
        return ExpectedError(error.type, error.then)

    def _check_totals(self, totals: Mapping[str, float], parameters: Sequence[Array]) -> None:
        if not self._model.seeded and not totals:
            message = "a program with `seeded: false` needs `totals`"
            hint = "gradients: {totals: {w: 2.0}}"
            raise self.error(message, "seeded", hint=hint, key=True)
        full = {array.name for array in parameters if array.fill.kind == "full"}
        kind = self._procedure.kind
        for name in totals:
            path = ("gradients", "totals", name)
            message = f"{name!r} is not a parameter filled by `full`"
            self.refuse_other(name, full, message, *path, key=True)
            if kind not in ("backward", "train"):
                raise self.error(f"procedure {kind!r} has no totals", *path, key=True)

    def _refuse_others(self, names: Sequence[str], key: str) -> None:
        """Refuse names, listed under a key of `gradients`, of what requires no gradient."""
        for i, name in enumerate(names):
            if name not in self._asking:
                message = (
                    f"found {name!r}, expected an input or a parameter that requires a gradient"
                )
                hint = nearest(name, self._asking)
                raise self.error(message, "gradients", key, i, hint=hint)

    def _law(self, written: spec.LawModel) -> Law:
        self.refuse_other(written.name, LAWS, f"unknown law {written.name!r}", "law", "name")
        if written.counts is not None:
            message = f"unknown operation {written.counts!r}"
            self.refuse_other(written.counts, OPERATIONS, message, "law", "counts")
        wanted = LAWS[written.name].constants
        if set(written.constants) != set(wanted):
            depends = ", ".join(wanted) or "no constants"
            found = ", ".join(written.constants) or "none"
            message = f"law {written.name!r} depends on {depends}, found {found}"
            raise self.error(message, "law")
        constants = {name: int(value) for name, value in written.constants.items()}
        return Law(written.name, int(written.at), constants, written.counts or "")

    def _gradients(self, gradients: spec.GradientsModel) -> tuple[Loss | None, tuple[str, ...]]:
        """The loss, and what it is differentiated with respect to."""
        if self._procedure.kind == "inference":
            if self._model.gradients is not None:
                raise self.error(
                    "`procedure: inference` has no gradients",
                    "gradients",
                    hint="remove `gradients`, or leave `procedure` out",
                    key=True,
                )
            return None, ()
        loss = self._usual_loss() if gradients.of is None else self._loss(gradients.of, "of")
        wrt = self._asking if gradients.wrt is None else tuple(gradients.wrt)
        self._refuse_others(wrt, "wrt")
        if self._procedure.order > 1 and not wrt:
            raise self.error("there is no gradient whose gradient could be taken", "procedure")
        for name, written in gradients.expect.items():
            path = ("gradients", "expect", name)
            message = f"the loss is not differentiated with respect to {name!r}"
            self.refuse_other(name, wrt, message, *path, key=True)
            found = _shape_of(self._numbers(written, path))
            shape = next(array.shape for array in self._arrays if array.name == name)
            if found != shape:
                message = f"the printed gradient of {name!r} is of shape {found}, expected {shape}"
                raise self.error(message, *path, key=True)
        return loss, wrt

    def _usual_loss(self) -> Loss:
        named = leaves(self._outputs)
        if not named or named[0] in self._undifferentiable.union(self._program.names.returned):
            raise self.error(
                "the first output is not a floating-point tensor, and `gradients` names no other",
                "outputs" if "outputs" in self._model.model_fields_set else "program",
                hint=_NAME_ANOTHER.format("one"),
            )
        return Loss("sum", named[0])

    def _loss(self, text: str, key: str) -> Loss:
        path = ("gradients", key)
        match = re.fullmatch(r"(?:(sum|mean)\((\w+)\)|(\w+))", text.strip())
        if match is None:
            raise self.error(f"found {text!r}, expected `sum(name)`, `mean(name)` or a name", *path)
        loss = Loss(match[1] or "none", match[2] or match[3])  # type: ignore[arg-type]
        if loss.name in self._program.names.returned:
            raise self._program.names.unknown(loss.name, set(), self.at(*path))
        outside = f"{loss.name!r} is not among the outputs"
        self.refuse_other(loss.name, leaves(self._outputs), outside, *path)
        if loss.name in self._undifferentiable:
            message = f"{loss.name!r} is not a floating-point tensor, and has no gradient"
            raise self.error(message, *path, hint=_NAME_ANOTHER.format("another"))
        return loss

    def _tolerance(self) -> Tolerance:
        if given := self._model.tolerance:
            return Tolerance(given.rtol, given.atol)
        tolerances = [TOLERANCES[a.dtype] for a in self._arrays if a.dtype in TOLERANCES]
        return max(tolerances, key=lambda t: t.rtol, default=TOLERANCES["float32"])


def _raises(region: Region) -> bool:
    """Whether a region raises an error where it is called."""
    statements = (node for node in walk(region.body) if isinstance(node, Statement))
    wrong = region.block == "invalid" or bool(region.option)
    return wrong or any(OPERATIONS[s.op].raises for s in statements)


def _without_gradient(
    program: Iterable[Node], given: Iterable[Array | Value | Generator]
) -> frozenset[str]:
    """The names of values other than floating tensors, as far as the text shows."""
    statements = [node for node in walk(program) if isinstance(node, Statement)]
    whole = {v.name for v in given if not isinstance(v, Array) or "float" not in v.dtype}
    whole |= {name for node in statements if _is_whole(node) for name in node.targets}
    return frozenset(
        whole - {n for node in statements if not _is_whole(node) for n in node.targets}
    )


def _is_whole(statement: Statement) -> bool:
    dtype = statement.options.get("dtype")
    return statement.op in BOOLS or (isinstance(dtype, str) and "float" not in dtype)


def _shape_of(values: object) -> tuple[int, ...] | None:
    """The shape of nested tuples of numbers; `None` where lengths differ."""
    if not isinstance(values, tuple):
        return ()
    inner = {_shape_of(v) for v in values}
    if len(inner) > 1 or None in inner:
        return None
    rest = inner.pop() if inner else ()
    return (len(values), *(rest or ()))
