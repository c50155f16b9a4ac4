"""Building a case out of its YAML: what it declares, its program, and what is differentiated."""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from conformance.errors import CaseError
from conformance.language.capabilities import CAPABILITIES
from conformance.language.defaults import usual_loss, without_gradient
from conformance.language.laws import LAWS
from conformance.language.operations import OPERATIONS
from conformance.language.program import ProgramBuilder
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
        program = self._program.nodes(model.program, ("program",))
        self._program.names.follow(program, known)
        outputs = self._outputs(model, program, known)
        arrays = (*(i for i in inputs if isinstance(i, Array)), *parameters, *state)
        self._undifferentiable = without_gradient(program, (*inputs, *parameters, *state))
        loss, wrt = self._gradients(model, kind, arrays, outputs)
        self._check_needs(model)
        error = self._error(model, inputs)
        self._check_executions(model)
        if not self._program.regions:
            raise self.error("no region is recomputed in this program", "program")
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
            raise self.error(
                "`backward` needs `between` or `after`",
                *("procedure", "backward"),
                hint="`procedure: backward` alone is a backward pass",
            )
        return Procedure("backward", between=backward.between or "", after=backward.after or "")

    def _refuse_twice(self, model: CaseModel, names: Sequence[str]) -> None:
        for name in names:
            if names.count(name) > 1:
                sections = ("state", "parameters", "inputs")
                section = next(s for s in sections if name in getattr(model, s))
                raise self.error(f"the name {name!r} is taken already", section, name, key=True)

    def _outputs(self, model: CaseModel, program: Sequence[Node], known: set[str]) -> Tree:
        outputs = self._program.gives(model, "outputs", program, ())
        returned = self._program.names.returned
        self._program.names.check(outputs, known | set(returned))
        for name, where in returned.items():
            if name not in leaves(outputs):
                raise CaseError(
                    f"{name!r} is not among the outputs",
                    where=where,
                    hint="`returned` names an output",
                )
        return outputs

    def _check_needs(self, model: CaseModel) -> None:
        for i, word in enumerate(model.needs):
            self.refuse_other(word, CAPABILITIES, f"unknown capability {word!r}", "needs", i)

    def _error(
        self, model: CaseModel, inputs: Sequence[Array | Value | Generator]
    ) -> ExpectedError | None:
        if not isinstance(model.error, ErrorModel):
            return None
        kind = model.error.type
        self.refuse_other(kind, _EXCEPTIONS, f"unknown exception {kind!r}", "error", "type")
        values = {v.name for v in inputs if isinstance(v, Value)}
        for name in model.error.then:
            message = f"{name!r} is not an input with a value"
            self.refuse_other(name, values, message, "error", "then", name, key=True)
        return ExpectedError(kind, model.error.then)

    def _check_executions(self, model: CaseModel) -> None:
        for name in model.expect.executions:
            regions, path = self._program.regions, ("expect", "executions", name)
            self.refuse_other(name, regions, f"no region is named {name!r}", *path, key=True)

    def _totals(
        self, model: CaseModel, parameters: Sequence[Array], kind: str
    ) -> Mapping[str, float]:
        totals = model.gradients.totals if model.gradients else {}
        if not model.seeded and not totals:
            raise self.error(
                "a program with `seeded: false` needs `totals`",
                "seeded",
                hint="gradients: {totals: {w: 2.0}}",
                key=True,
            )
        full = {array.name for array in parameters if array.fill.kind == "full"}
        for name in totals:
            path = ("gradients", "totals", name)
            message = f"{name!r} is not a parameter filled by `full`"
            self.refuse_other(name, full, message, *path, key=True)
            if kind not in ("backward", "train"):
                raise self.error(f"procedure {kind!r} has no totals", *path, key=True)
        return dict(totals)

    def _refuse_others(self, names: Sequence[str], asking: Sequence[str], key: str) -> None:
        """Refuse names, listed under a key of `gradients`, of what requires no gradient."""
        for i, name in enumerate(names):
            message = f"{name!r} requires no gradient"
            self.refuse_other(name, asking, message, "gradients", key, i)

    def _hooks(self, model: CaseModel, arrays: Sequence[Array]) -> tuple[str, ...]:
        hooks = tuple(model.gradients.hooks) if model.gradients else ()
        self._refuse_others(hooks, [array.name for array in arrays if array.gradient], "hooks")
        return hooks

    def _then(self, model: CaseModel, kind: str, outputs: Tree) -> Loss | None:
        text = None if model.gradients is None else model.gradients.then
        if (kind == "per_output") != (text is not None):
            raise self.error("procedure 'per_output' and `then` go together", "gradients")
        return None if text is None else self._loss(text, outputs, ("gradients", "then"))

    def _law(self, model: CaseModel) -> Law | None:
        written = model.law
        if written is None:
            return None
        self.refuse_other(written.name, LAWS, f"unknown law {written.name!r}", "law", "name")
        if written.counts is not None:
            message = f"unknown operation {written.counts!r}"
            self.refuse_other(written.counts, OPERATIONS, message, "law", "counts")
        wanted = LAWS[written.name].constants
        if set(written.constants) != set(wanted):
            raise self.error(
                f"law {written.name!r} depends on {', '.join(wanted) or 'no constants'}, found "
                f"{', '.join(written.constants) or 'none'}",
                "law",
            )
        constants = {name: int(value) for name, value in written.constants.items()}
        return Law(written.name, int(written.at), constants, written.counts or "")

    def _model(self, raw: object) -> CaseModel:
        try:
            return CaseModel.model_validate(raw)
        except ValidationError as error:
            raise explain(error, raw, self) from error

    def _gradients(
        self, model: CaseModel, kind: str, arrays: Sequence[Array], outputs: Tree
    ) -> tuple[Loss | None, tuple[str, ...]]:
        asking = tuple(array.name for array in arrays if array.gradient)
        if kind == "inference":
            if model.gradients is not None:
                raise self.error("inference has no gradients", "gradients")
            return None, ()
        gradients = model.gradients or GradientsModel()
        if gradients.of is None:
            loss = self._usual_loss(model, outputs)
        else:
            loss = self._loss(gradients.of, outputs, ("gradients", "of"))
        wrt = asking if gradients.wrt is None else tuple(gradients.wrt)
        self._refuse_others(wrt, asking, "wrt")
        for name, written in gradients.expect.items():
            path = ("gradients", "expect", name)
            message = f"the loss is not differentiated with respect to {name!r}"
            self.refuse_other(name, wrt, message, *path, key=True)
            found = shape_of(self._tensors.numbers(written, path))
            shape = next(array.shape for array in arrays if array.name == name)
            if found != shape:
                raise self.error(
                    f"the printed gradient of {name!r} is of shape {found}, expected {shape}",
                    *path,
                    key=True,
                )
        return loss, wrt

    def _usual_loss(self, model: CaseModel, outputs: Tree) -> Loss:
        loss = usual_loss(outputs)
        none = self._undifferentiable.union(self._program.names.returned)
        if loss is None or loss.name in none:
            raise self.error(
                "the first output is not a floating-point tensor, and `gradients` names no other",
                "outputs" if "outputs" in model.model_fields_set else "program",
                hint="name one (`gradients: {of: sum(z)}`), or write `procedure: inference`",
            )
        return loss

    def _loss(self, text: str, outputs: Tree, path: KeyPath) -> Loss:
        match = re.fullmatch(r"(?:(sum|mean)\((\w+)\)|(\w+))", text.strip())
        if match is None:
            raise self.error(f"found {text!r}, expected sum(name), mean(name) or a name", *path)
        loss = Loss(match[1] or "none", match[2] or match[3])  # type: ignore[arg-type]
        if loss.name in self._program.names.returned:
            raise self._program.names.unknown(loss.name, set(), self.at(*path))
        outside = f"{loss.name!r} is not among the outputs"
        self.refuse_other(loss.name, leaves(outputs), outside, *path)
        if loss.name in self._undifferentiable:
            raise self.error(
                f"{loss.name!r} is not a floating-point tensor, and has no gradient",
                *path,
                hint="name another (`gradients: {of: sum(z)}`), or write `procedure: inference`",
            )
        return loss

    def _tolerance(self, model: CaseModel, arrays: Sequence[Array]) -> Tolerance:
        if model.tolerance is not None:
            return Tolerance(model.tolerance.rtol, model.tolerance.atol)
        tolerances = [TOLERANCES[a.dtype] for a in arrays if a.dtype in TOLERANCES]
        return max(tolerances, key=lambda t: t.rtol, default=TOLERANCES["float32"])
