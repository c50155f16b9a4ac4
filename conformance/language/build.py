"""Building a case out of its YAML: what it declares, its program, and what is differentiated."""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from conformance.errors import CaseError, nearest
from conformance.language.capabilities import CAPABILITIES
from conformance.language.defaults import usual_loss, without_gradient
from conformance.language.laws import LAWS
from conformance.language.operations import OPERATIONS
from conformance.language.program import ProgramBuilder, refuse_rebinding
from conformance.language.source import KeyPath, Source
from conformance.language.spec import (
    AsPlainModel,
    BackwardModel,
    BackwardProcedure,
    CaseModel,
    ErrorModel,
    GradientsModel,
    ReleaseModel,
    TrainProcedure,
)
from conformance.language.spec_errors import explain
from conformance.language.tensors import TensorBuilder, shape_of
from conformance.language.yaml_marks import Marked
from conformance.model.case import (
    Array,
    Case,
    ExpectedError,
    Generator,
    Law,
    Loss,
    Node,
    Procedure,
    Tolerance,
    Tree,
    Value,
    leaves,
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


class CaseBuilder(Source):
    """Builds one case. All methods raise `CaseError`."""

    _program: ProgramBuilder
    _undifferentiable: frozenset[str]

    def __init__(self, marked: Marked, path: KeyPath) -> None:
        super().__init__(marked, path)
        self._tensors = TensorBuilder(self)

    def case(self, identity: str, raw: object) -> Case:
        """The case with this id, of its YAML, whose axes are expanded."""
        model = self._model(raw)
        procedure = self._procedure(model)
        kind = procedure.kind
        inputs = tuple(self._tensors.inputs(model))
        generators = {i.name for i in inputs if isinstance(i, Generator)}
        may_raise = isinstance(model.error, ErrorModel)
        self._program = ProgramBuilder(self, generators, may_raise=may_raise)
        parameters = tuple(self._tensors.arrays(model.parameters, "parameters", True))
        state = tuple(self._tensors.arrays(model.state, "state", False))
        names = [v.name for v in (*inputs, *parameters, *state)]
        self._refuse_twice(model, names)
        known = set(names) - generators
        program = self._program.nodes(model.program, ("program",), known, {})
        refuse_rebinding(program)
        outputs = self._outputs(model, program, known)
        arrays = (*(i for i in inputs if isinstance(i, Array)), *parameters, *state)
        self._undifferentiable = without_gradient(program, (*inputs, *parameters, *state))
        loss, wrt = self._gradients(model, kind, arrays, outputs)
        self._check_needs(model)
        error = self._error(model, inputs)
        self._check_executions(model)
        if not self._program.regions:
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
            smoke=model.smoke,
        )

    def _procedure(self, model: CaseModel) -> Procedure:
        written = model.procedure
        if isinstance(written, TrainProcedure):
            return Procedure("train", written.train.steps, written.train.learning_rate)
        if not isinstance(written, BackwardProcedure):
            return Procedure(written)
        backward = written.backward
        if backward == BackwardModel():
            raise CaseError(
                "`backward` says neither what is `between` nor what it comes `after`",
                where=self.at("procedure", "backward"),
                hint="`procedure: backward` alone is a backward pass",
            )
        return Procedure("backward", between=backward.between or "", after=backward.after or "")

    def _refuse_twice(self, model: CaseModel, names: Sequence[str]) -> None:
        for name in names:
            if names.count(name) > 1:
                sections = ("state", "parameters", "inputs")
                section = next(s for s in sections if name in getattr(model, s))
                raise CaseError(
                    f"the name {name!r} is taken already", where=self.key(section, name)
                )

    def _outputs(self, model: CaseModel, program: Sequence[Node], known: set[str]) -> Tree:
        outputs = self._program.gives(model, "outputs", program, (), {})
        self._program.check_names(outputs, known | set(self._program.returned), ("outputs",))
        for name, where in self._program.returned.items():
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
            if name not in self._program.regions:
                raise CaseError(
                    f"no region is named {name!r}",
                    where=self.key("expect", "executions", name),
                    hint=nearest(name, self._program.regions) if self._program.regions else "",
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
        text = None if model.gradients is None else model.gradients.then
        if (kind == "per_output") != (text is not None):
            raise CaseError(
                "procedure 'per_output' and `then` go together", where=self.at("gradients")
            )
        return None if text is None else self._loss(text, outputs, ("gradients", "then"))

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

    def _gradients(
        self, model: CaseModel, kind: str, arrays: Sequence[Array], outputs: Tree
    ) -> tuple[Loss | None, tuple[str, ...]]:
        asking = tuple(array.name for array in arrays if array.gradient)
        if kind == "inference":
            if model.gradients is not None:
                raise CaseError("inference has no gradients", where=self.at("gradients"))
            return None, ()
        gradients = model.gradients or GradientsModel()
        if gradients.of is None:
            loss = self._usual_loss(model, outputs)
        else:
            loss = self._loss(gradients.of, outputs, ("gradients", "of"))
        wrt = asking if gradients.wrt is None else tuple(gradients.wrt)
        for i, name in enumerate(wrt):
            if name not in asking:
                raise CaseError(
                    f"{name!r} asks for no gradient",
                    where=self.at("gradients", "wrt", i),
                    hint=nearest(name, asking),
                )
        for name in gradients.expect:
            if name not in wrt:
                raise CaseError(
                    f"no gradient of {name!r} is asked for",
                    where=self.key("gradients", "expect", name),
                    hint=nearest(name, wrt),
                )
            printed = self._tensors.numbers(gradients.expect[name], ("gradients", "expect", name))
            shape = next(array.shape for array in arrays if array.name == name)
            if shape_of(printed) != shape:
                raise CaseError(
                    f"the printed gradient of {name!r} is of shape {shape_of(printed)}, "
                    f"expected {shape}",
                    where=self.key("gradients", "expect", name),
                )
        return loss, wrt

    def _usual_loss(self, model: CaseModel, outputs: Tree) -> Loss:
        loss = usual_loss(outputs)
        if (
            loss is None
            or loss.name in self._program.returned
            or loss.name in self._undifferentiable
        ):
            raise CaseError(
                "the first output is no floating tensor, and nothing says what is differentiated",
                where=self.at("outputs" if "outputs" in model.model_fields_set else "program"),
                hint="say so (`gradients: {of: sum(z)}`), or `procedure: inference`",
            )
        return loss

    def _loss(self, text: str, outputs: Tree, path: KeyPath) -> Loss:
        match = re.fullmatch(r"(?:(sum|mean)\((\w+)\)|(\w+))", text.strip())
        if match is None:
            raise CaseError(
                f"found {text!r}, expected sum(name), mean(name) or a name", where=self.at(*path)
            )
        loss = Loss(match[1] or "none", match[2] or match[3])  # type: ignore[arg-type]
        if loss.name in self._program.returned:
            raise self._program.unknown(loss.name, set(), self.at(*path))
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
