"""From values to the models of lines, and back."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from conformance.errors import ResultsError
from conformance.observation import (
    Allowed,
    Array,
    Draw,
    ErrorSeen,
    Execution,
    Expected,
    ExpectedMemory,
    Leaf,
    Observation,
    Phase,
    Run,
    Tree,
)
from conformance.results import lines as m
from conformance.results.model import Footer, Header, KnownNote, Result
from conformance.verdict import Verdict

_STORED_KINDS = "biufc"


# -- numbers and trees -----------------------------------------------------------------------------


def array_to_model(array: Array) -> m.ArrayModel:
    """An array of bools or numbers. Raises `ResultsError` for any other dtype."""
    array = np.asarray(array)
    if array.dtype.kind not in _STORED_KINDS or array.dtype.name not in np.sctypeDict:
        raise ResultsError(f"an array of dtype {array.dtype} cannot be stored", hint="widen it")
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return m.ArrayModel(
        dtype=array.dtype.name,
        shape=list(array.shape),
        data=base64.b64encode(data).decode("ascii"),
    )


def array_from_model(model: m.ArrayModel) -> Array:
    """The array, read-only. Raises `ResultsError` where data and shape disagree."""
    dtype = np.dtype(model.dtype).newbyteorder("<")
    try:
        data = base64.b64decode(model.data, validate=True)
    except ValueError as error:
        raise ResultsError(f"an array's data is not base64: {error}") from error
    wanted = math.prod(model.shape) * dtype.itemsize
    if len(data) != wanted:
        shape = tuple(model.shape)
        raise ResultsError(
            f"an array of {model.dtype} and shape {shape} has {len(data)} bytes, not {wanted}"
        )
    try:
        found = np.frombuffer(data, dtype).reshape(model.shape)
    except (ValueError, OverflowError) as error:
        raise ResultsError(f"an array cannot have shape {model.shape}: {error}") from error
    native = found.astype(dtype.newbyteorder("="), copy=False)
    native.flags.writeable = False
    return native


def _float_to_model(value: float) -> m.Float:
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _float_from_model(value: m.Float) -> float:
    return float(value)


def tree_to_model(tree: Tree) -> Any:
    """An output tree, its containers and floats tagged."""
    if isinstance(tree, Leaf):
        return m.TensorModel(tensor=array_to_model(tree.array), dtype=tree.dtype)
    if tree is None or isinstance(tree, bool | str):
        return tree
    if isinstance(tree, int):
        return int(tree)
    if isinstance(tree, float):
        return m.FloatModel(float=_float_to_model(tree))
    if isinstance(tree, tuple):
        return m.TupleModel(tuple=[tree_to_model(part) for part in tree])
    if isinstance(tree, list):
        return m.ListModel(list=[tree_to_model(part) for part in tree])
    if isinstance(tree, dict):
        return m.DictModel(mapping={str(k): tree_to_model(part) for k, part in tree.items()})
    raise ResultsError(f"an output of type {type(tree).__name__} cannot be stored")


def tree_from_model(model: Any) -> Tree:
    """The tree that `tree_to_model` was given."""
    match model:
        case m.TensorModel():
            return Leaf(array_from_model(model.tensor), model.dtype)
        case m.FloatModel():
            return _float_from_model(model.float)
        case m.TupleModel():
            return tuple(tree_from_model(part) for part in model.tuple)
        case m.ListModel():
            return [tree_from_model(part) for part in model.list]
        case m.DictModel():
            return {key: tree_from_model(part) for key, part in model.mapping.items()}
        case None | bool() | int() | str():
            return model
    raise ResultsError(f"not an output tree: {model!r}")


def _arrays_to_model(arrays: Mapping[str, Array]) -> dict[str, m.ArrayModel]:
    return {name: array_to_model(array) for name, array in arrays.items()}


def _arrays_from_model(models: Mapping[str, m.ArrayModel]) -> dict[str, Array]:
    return {name: array_from_model(model) for name, model in models.items()}


def _maybe_to_model(arrays: Mapping[str, Array | None]) -> dict[str, m.ArrayModel | None]:
    return {k: None if a is None else array_to_model(a) for k, a in arrays.items()}


def _maybe_from_model(models: Mapping[str, m.ArrayModel | None]) -> dict[str, Array | None]:
    return {k: None if a is None else array_from_model(a) for k, a in models.items()}


def _losses_to_model(losses: Iterable[float]) -> list[m.Float]:
    return [_float_to_model(loss) for loss in losses]


def _losses_from_model(losses: Iterable[m.Float]) -> tuple[float, ...]:
    return tuple(_float_from_model(loss) for loss in losses)


# -- observations ----------------------------------------------------------------------------------


def _run_to_model(run: Run) -> m.RunModel:
    executions = run.executions
    return m.RunModel(
        outputs=tree_to_model(run.outputs),
        losses=_losses_to_model(run.losses),
        gradients=_maybe_to_model(run.gradients),
        again=_maybe_to_model(run.again),
        parameters=_arrays_to_model(run.parameters),
        state=_arrays_to_model(run.state),
        executions=None
        if executions is None
        else [
            m.ExecutionModel(region=e.region, statement=e.statement, phase=e.phase, count=e.count)
            for e in executions
        ],
        draws=None
        if run.draws is None
        else [
            m.DrawModel(
                region=d.region, statement=d.statement, phase=d.phase, array=array_to_model(d.array)
            )
            for d in run.draws
        ],
        generators=_arrays_to_model(run.generators),
        retained=run.retained,
        peak=run.peak,
        held=None if run.held is None else list(run.held),
        alive=None if run.alive is None else list(run.alive),
        error=None
        if run.error is None
        else m.ErrorModel(
            type=run.error.type,
            bases=list(run.error.bases),
            message=run.error.message,
            phase=run.error.phase,
        ),
        good_run_after_error=run.good_run_after_error,
    )


def _run_from_model(model: m.RunModel) -> Run:
    error = model.error
    return Run(
        outputs=tree_from_model(model.outputs),
        losses=_losses_from_model(model.losses),
        gradients=_maybe_from_model(model.gradients),
        again=_maybe_from_model(model.again),
        parameters=_arrays_from_model(model.parameters),
        state=_arrays_from_model(model.state),
        executions=None
        if model.executions is None
        else tuple(Execution(e.region, e.statement, e.phase, e.count) for e in model.executions),
        draws=None
        if model.draws is None
        else tuple(
            Draw(d.region, d.statement, d.phase, array_from_model(d.array)) for d in model.draws
        ),
        generators=_arrays_from_model(model.generators),
        retained=model.retained,
        peak=model.peak,
        held=None if model.held is None else tuple(model.held),
        alive=None if model.alive is None else tuple(model.alive),
        error=None
        if error is None
        else ErrorSeen(error.type, tuple(error.bases), error.message, error.phase),
        good_run_after_error=model.good_run_after_error,
    )


def _observation_to_model(observation: Observation) -> m.ObservationModel:
    return m.ObservationModel(
        plain=_run_to_model(observation.plain),
        recomputed=_run_to_model(observation.recomputed),
        methods=dict(observation.methods),
        unobserved=dict(observation.unobserved),
        seconds=float(observation.seconds),
    )


def _observation_from_model(model: m.ObservationModel) -> Observation:
    return Observation(
        _run_from_model(model.plain),
        _run_from_model(model.recomputed),
        model.methods,
        model.unobserved,
        model.seconds,
    )


def _expected_to_model(expected: Expected) -> m.ExpectedModel:
    memory = expected.memory
    return m.ExpectedModel(
        outputs=tree_to_model(expected.outputs),
        losses=None if expected.losses is None else _losses_to_model(expected.losses),
        gradients=None if expected.gradients is None else _maybe_to_model(expected.gradients),
        again=None if expected.again is None else _maybe_to_model(expected.again),
        parameters=None if expected.parameters is None else _arrays_to_model(expected.parameters),
        state=None if expected.state is None else _arrays_to_model(expected.state),
        executions=[
            m.AllowedModel(
                region=region,
                statement=statement,
                phase=phase,
                counts=list(allowed.counts),
                reason=allowed.reason,
            )
            for (region, statement, phase), allowed in expected.executions.items()
        ],
        memory=None
        if memory is None
        else m.MemoryModel(
            plain=list(memory.plain),
            recomputed=list(memory.recomputed),
            drop=memory.drop,
            unit=memory.unit,
            peaks=list(memory.peaks),
        ),
        error=expected.error,
    )


def _expected_from_model(model: m.ExpectedModel) -> Expected:
    memory = model.memory
    executions: dict[tuple[str, str, Phase], Allowed] = {
        (e.region, e.statement, e.phase): Allowed(tuple(e.counts), e.reason)
        for e in model.executions
    }
    return Expected(
        outputs=tree_from_model(model.outputs),
        losses=None if model.losses is None else _losses_from_model(model.losses),
        gradients=None if model.gradients is None else _maybe_from_model(model.gradients),
        again=None if model.again is None else _maybe_from_model(model.again),
        parameters=None if model.parameters is None else _arrays_from_model(model.parameters),
        state=None if model.state is None else _arrays_from_model(model.state),
        executions=executions,
        memory=None
        if memory is None
        else ExpectedMemory(
            (memory.plain[0], memory.plain[1]),
            (memory.recomputed[0], memory.recomputed[1]),
            memory.drop,
            memory.unit,
            (memory.peaks[0], memory.peaks[1]),
        ),
        error=model.error,
    )


# -- lines -----------------------------------------------------------------------------------------


def result_to_model(result: Result) -> m.ResultModel:
    """A result as its line. Raises `ResultsError` for an array that cannot be stored."""
    return m.ResultModel(
        case=result.case,
        variant=result.variant,
        verdicts=[
            m.VerdictModel(
                check=v.check,
                status=v.status,
                level=v.level,
                message=v.message,
                expected=v.expected,
                observed=v.observed,
                method=v.method,
            )
            for v in result.verdicts
        ],
        observation=None
        if result.observation is None
        else _observation_to_model(result.observation),
        expected=None if result.expected is None else _expected_to_model(result.expected),
        program=result.program,
        known=[m.KnownModel(check=k.check, reason=k.reason, url=k.url) for k in result.known],
    )


def result_from_model(model: m.ResultModel) -> Result:
    """The result of a line. Raises `ResultsError` for an array whose data do not fit its shape."""
    return Result(
        case=model.case,
        variant=model.variant,
        verdicts=tuple(
            Verdict(v.check, v.status, v.level, v.message, v.expected, v.observed, v.method)
            for v in model.verdicts
        ),
        observation=None
        if model.observation is None
        else _observation_from_model(model.observation),
        expected=None if model.expected is None else _expected_from_model(model.expected),
        program=model.program,
        known=tuple(KnownNote(k.check, k.reason, k.url) for k in model.known),
    )


def header_to_model(header: Header) -> m.HeaderModel:
    """A header as its line."""
    return m.HeaderModel(
        format=header.format,
        suite=header.suite,
        adapter=header.adapter,
        variants=list(header.variants),
        disciplines=dict(header.disciplines),
        versions=dict(header.versions),
        cases=header.cases,
        selection=header.selection,
        started=header.started,
        implementation=header.implementation,
        accuracy={variant: dict(found) for variant, found in header.accuracy.items()},
        shard=header.shard,
        selected=header.selected,
    )


def header_from_model(model: m.HeaderModel) -> Header:
    """The header of a line."""
    return Header(
        suite=model.suite,
        adapter=model.adapter,
        variants=tuple(model.variants),
        disciplines=model.disciplines,
        versions=model.versions,
        cases=model.cases,
        selection=model.selection,
        started=model.started,
        implementation=model.implementation,
        accuracy=model.accuracy,
        shard=model.shard,
        selected=model.selected,
        format=model.format,
    )


def footer_to_model(footer: Footer) -> m.FooterModel:
    """A footer as its line."""
    return m.FooterModel(
        results=footer.results, statuses=dict(footer.statuses), seconds=dict(footer.seconds)
    )


def footer_from_model(model: m.FooterModel) -> Footer:
    """The footer of a line."""
    return Footer(model.results, model.statuses, model.seconds)
