"""The lines of a results file as pydantic models: what may stand in the JSON, and its schema.

Nothing here is pickled or evaluated. Floats that JSON cannot write are the strings `NaN`,
`Infinity` and `-Infinity`; an output tree tags its containers, so that a tuple stays a tuple.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from conformance.verdict import Level, Status


class _Line(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, json_schema_serialization_defaults_required=True
    )


#: A float64, losslessly: JSON has no word for the last three.
Float = float | Literal["NaN", "Infinity", "-Infinity"]
Count = Annotated[int, Field(ge=0)]


class ArrayModel(_Line):
    """An array: its elements in C order, little-endian, in base64."""

    dtype: str = Field(
        description="A NumPy name.",
        pattern=r"^(bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128))$",
    )
    shape: list[Count] = Field(max_length=32)
    data: str = Field(pattern=r"^[A-Za-z0-9+/]*={0,2}$")


class TensorModel(_Line):
    """A tensor of an output tree; `dtype` may be `bfloat16` while its elements are float32."""

    tensor: ArrayModel
    dtype: str


class TupleModel(_Line):
    """A tuple of an output tree."""

    tuple: list[TreeModel]


class ListModel(_Line):
    """A list of an output tree."""

    list: list[TreeModel]


class DictModel(_Line):
    """A dict of an output tree, in order."""

    mapping: dict[str, TreeModel]


class FloatModel(_Line):
    """A Python float of an output tree; tagged, because JSON does not keep 1.0 and 1 apart."""

    float: Float


TreeModel = bool | int | str | FloatModel | TensorModel | TupleModel | ListModel | DictModel | None
PhaseModel = Literal["forward", "rerun"]
Arrays = dict[str, ArrayModel]
MaybeArrays = dict[str, ArrayModel | None]


class ExecutionModel(_Line):
    """How often something ran in a phase; `statement` is empty for the region as a whole."""

    region: str
    statement: str
    phase: PhaseModel
    count: Count


class DrawModel(_Line):
    """What one execution of a random statement produced."""

    region: str
    statement: str
    phase: PhaseModel
    array: ArrayModel


class ErrorModel(_Line):
    """An exception as it reached the caller."""

    type: str
    bases: list[str]
    message: str
    phase: Literal["forward", "backward", "unknown"]


class RunModel(_Line):
    """One run of a program's procedure; null is what the adapter could not see."""

    outputs: TreeModel
    losses: list[Float]
    gradients: MaybeArrays
    again: MaybeArrays
    parameters: Arrays
    state: Arrays
    executions: list[ExecutionModel] | None
    draws: list[DrawModel] | None
    generators: Arrays = Field(description="Numbers drawn after the run, by generator.")
    retained: int | None = Field(description="Bytes.")
    peak: int | None = Field(description="Bytes.")
    held: list[int] | None = Field(description="Bytes after each of several runs.")
    alive: list[int] | None = Field(description="Live tensors after each of several runs.")
    error: ErrorModel | None
    good_run_after_error: bool | None


class ObservationModel(_Line):
    """Both runs; how each check was observed, or why it was not."""

    plain: RunModel
    recomputed: RunModel
    methods: dict[str, str]
    unobserved: dict[str, str]
    seconds: float


class AllowedModel(_Line):
    """The counts that are right for a region or a statement in a phase."""

    region: str
    statement: str
    phase: PhaseModel
    counts: list[Count]
    reason: str


class MemoryModel(_Line):
    """Bytes that the reference counts: [least, most], the least drop, the largest activation."""

    plain: Annotated[list[int], Field(min_length=2, max_length=2)]
    recomputed: Annotated[list[int], Field(min_length=2, max_length=2)]
    drop: int
    unit: int
    peaks: Annotated[list[int], Field(min_length=2, max_length=2)]


class ExpectedModel(_Line):
    """What the reference says; null values where the case draws random numbers."""

    outputs: TreeModel
    losses: list[Float] | None
    gradients: MaybeArrays | None
    again: MaybeArrays | None
    parameters: Arrays | None
    state: Arrays | None
    executions: list[AllowedModel]
    memory: MemoryModel | None
    error: str | None


class VerdictModel(_Line):
    """The judgement of one check."""

    check: str
    status: Annotated[Status, Field(strict=False)]
    level: Annotated[Level, Field(strict=False)]
    message: str
    expected: str
    observed: str
    method: str


class KnownModel(_Line):
    """Why a check's deviation was expected."""

    check: str
    reason: str
    url: str


class HeaderModel(_Line):
    """The first line."""

    type: Literal["header"] = "header"
    format: int
    suite: str
    adapter: str
    variants: list[str]
    disciplines: dict[str, str]
    versions: dict[str, str]
    cases: str = Field(description="SHA-256 of the whole set of cases.", pattern="^[0-9a-f]{64}$")
    selection: str
    started: str
    implementation: str
    accuracy: dict[str, dict[str, float]] = {}
    shard: str = Field(
        default="", description="Which of how many parts of a run (2/4).", pattern=r"^(\d+/\d+)?$"
    )
    selected: Count = Field(default=0, description="Cases times variants in all parts together.")


class ResultModel(_Line):
    """One case on one variant."""

    type: Literal["result"] = "result"
    case: str
    variant: str
    verdicts: list[VerdictModel]
    observation: ObservationModel | None
    expected: ExpectedModel | None
    program: str
    known: list[KnownModel]


class FooterModel(_Line):
    """The last line: without it, the run did not finish."""

    type: Literal["footer"] = "footer"
    results: Count
    statuses: dict[Annotated[Status, Field(strict=False)], Count]
    seconds: dict[str, float]


Line = Annotated[HeaderModel | ResultModel | FooterModel, Field(discriminator="type")]
LINE: TypeAdapter[HeaderModel | ResultModel | FooterModel] = TypeAdapter(Line)


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of one line of a results file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of a results file of recompute-conformance",
        **LINE.json_schema(mode="serialization"),
    }
