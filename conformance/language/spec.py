"""The case file as YAML writes it: the models behind the published JSON Schema.

`conformance.language.load` turns these into the values of `conformance.model.case`. What a key means
stands below it, and is its description in the schema. Tags of unions are written `<so>`: in the
location of an error, they cannot be taken for a key.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, TypeAlias, Union
from typing import Literal as OneOf

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

from conformance.errors import nearest
from conformance.language.features import CAPABILITIES
from conformance.language.yaml_marks import CUT, is_cut
from conformance.model.case import Untrained, Use

Scalar: TypeAlias = bool | int | float | str | None
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
RegionName = Annotated[str, Field(pattern=r"^[a-z]([a-z0-9_-]|\$i)*$")]
#: A region's name, or its name and what it takes, `block(x, mask=m)`.
RegionHead = Annotated[str, Field(pattern=r"^[a-z]([a-z0-9_-]|\$i)*(\(.*\))?$")]
CaseName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
AxisRef = Annotated[str, Field(pattern=r"^\$[A-Za-z_]", description="The value of an axis.")]
#: More copies, elements or cases than any case needs; a slip of the keyboard must not fill the memory.
MAX_COPIES = 5_000
MAX_ELEMENTS = 2**28
MAX_INTEGER = 2**63 - 1
#: How often something is repeated.
Count = Annotated[int, Field(ge=1, le=MAX_COPIES)] | AxisRef
Integer = Annotated[int, Field(ge=-MAX_INTEGER, le=MAX_INTEGER)]
Pair = Annotated[list[float], Field(min_length=2, max_length=2)]
Dtype = OneOf["float32", "float64", "float16", "bfloat16", "int32", "int64", "bool"]


def _hint(key: str, known: Collection[str]) -> str:
    """What to write in place of an unknown key."""
    if is_cut(key):
        return CUT
    if key in ("checkpoint", "remat"):
        return "write `recompute`"
    if known == {"value"}:
        return "an input with a value has no other key; leave `value` out for a tensor"
    for owner, model in (("a region", RegionModel), ("`gradients`", GradientsModel)):
        if key in model.model_fields:
            return f"{key!r} is a key of {owner}"
    return nearest(key, known)


class Model(BaseModel):
    """Base of all models: unknown keys are errors, values are frozen, numbers are finite."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, written: Any) -> Any:
        known = {field.alias or name for name, field in cls.model_fields.items()}
        for key in written if isinstance(written, dict) else ():
            if key not in known:
                context = {"key": key, "hint": _hint(str(key), known)}
                raise PydanticCustomError("unknown_key", "unknown key", context)
        return written


def _tagged(otherwise: str, *keys: str, bare: str = "") -> Discriminator:
    """Chooses the member of a union by the key that a mapping has: `otherwise` where it has none, `bare`
    for what is no mapping."""

    def tag(value: Any) -> str:
        if not isinstance(value, dict):
            return f"<{bare or otherwise}>"
        return next((f"<{key}>" for key in keys if key in value), f"<{otherwise}>")

    return Discriminator(tag)


class ArrayModel(Model):
    """A tensor: its shape and exactly one way to fill it."""

    shape: list[Annotated[int, Field(ge=0, le=MAX_ELEMENTS)] | AxisRef] | AxisRef | None = None
    """Lengths of the axes; left out where `values` are given."""
    dtype: Dtype | AxisRef | None = None
    """float32, or int32 for `integers`."""
    full: float | None = None
    """One value for every element."""
    values: Any = None
    """The elements, as nested lists."""
    arange: Pair | None = None
    """[start, step], counted in row-major order."""
    normal: float | None = None
    """Standard normal samples times this scale."""
    uniform: Pair | None = None
    """Uniform samples from [low, high)."""
    integers: Annotated[list[Integer], Field(min_length=2, max_length=2)] | None = None
    """Integers from [low, high), each as likely."""
    gradient: bool | None = None
    """Whether the tensor requires a gradient. Left out: floating inputs and parameters do, state
    does not."""
    repeat: Count | None = None
    """Declares this many tensors; `$i` in the name is the number of each, from 1."""
    by_rank: bool = False
    """Each rank has other elements: draws of its own, or its part of `values`, whose first axis is that
    of the ranks."""


class ValueModel(Model):
    """An input that is not a tensor."""

    value: Scalar | list[Scalar]
    """None, a bool, a number, a string, or a list of them."""


class GeneratorModel(Model):
    """An input that random numbers are drawn from, explicitly."""

    generator: OneOf["framework", "numpy"]
    """The framework's own generator or key, or `numpy.random.default_rng`."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0


InputModel = Annotated[
    Annotated[ArrayModel, Tag("<array>")]
    | Annotated[ValueModel, Tag("<value>")]
    | Annotated[GeneratorModel, Tag("<generator>")],
    _tagged("array", "value", "generator"),
]


Statement = Annotated[
    str,
    Field(
        pattern="=",
        description="`name = op(arguments, option=literal)`, or `name = region(arguments)` for a "
        "further call of a region; several with `;` between them.",
        min_length=3,
    ),
]


def _as_list(value: Any) -> Any:
    """A text that stands where a list may: the list of it alone."""
    return [value] if isinstance(value, str) else value


_Statements = Annotated[list[Statement], Field(min_length=1)]
#: Statements as a list, or as one text.
Layer = Annotated[
    _Statements, BeforeValidator(_as_list, json_schema_input_type=_Statements | Statement)
]

Returned = Annotated[
    str,
    Field(
        description="A name for the whole return value of the region, a tuple or a dict. "
        "Only `outputs` may name it."
    ),
]


class BlockModel(Model):
    """What a region takes, gives and does, and how it is to be recomputed."""

    takes: Any = []
    """The positional arguments: a name, or a list, each a name or a nested list or mapping of
    names. The body calls each tensor in them by the same name. A list is a tuple, and `{list: …}`,
    `{named: …}` and `{object: …}` are a list, a named tuple and a dataclass."""
    kwargs: dict[Name, Any] = {}
    """Arguments given by name."""
    gives: Any = None
    """A name, or a nested list or mapping of names and literals. Left out: the last value that the
    body makes."""
    body: Body
    """Statements and inner regions, in a list or as one text."""
    granularity: OneOf["function", "module", "operation"] = "function"
    """A function given at the call, or a module or an operation configured once."""
    preserve_rng: bool = True
    """Whether the rerun must draw the numbers that the forward drew. Where the case says `true`,
    programs write the option out, although it is the default."""
    merge_adjacent: bool = False
    """This region's output is not kept for the region that follows; both are rerun once in
    backward. Where the case says `false`, programs write the option out."""
    block: OneOf["callable", "invalid"] = "callable"
    """With `invalid`, something that is not callable is passed to recompute."""
    option: OneOf["unknown", "wrong"] | None = None
    """recompute gets a keyword that it does not have (`unknown`), or a string for an option of
    another type (`wrong`)."""
    contexts: bool = False
    """The region runs in a context manager of the program's own, and its rerun in another one:
    `doubled_sin` is twice the sine inside them."""
    save: list[Name | AxisRef] | AxisRef = []
    """The policy: operations, or names that the body makes, whose results are kept although the
    region is recomputed."""
    signature: OneOf["plain", "keyword-only", "variadic", "undeclared"] = "plain"
    """How the region's function declares its arguments: `(x, m)`, `(x, *, m)` for what is given by
    name, or `(*args, **named)`; `undeclared`: what is given by name is no argument of the
    function."""
    autocast: OneOf["bfloat16", "float16"] | None = None
    """The region's function enters the framework's autocast itself, around its body."""
    mapped: bool = False
    """The recomputed function is called through the framework's vectorizing map (`vmap`), over the
    first axis of each argument."""
    left: str | list[str] = []
    """Results, by their names in `gives`, that the function does not return: it appends them to a list
    outside of it, from which the program takes them after the call."""


class RegionModel(BlockModel):
    """A region: a part of the program that is recomputed in backward."""

    recompute: RegionHead
    """The region's name; what it takes may stand in brackets behind it, `block(x, mask=m)`, where
    that is names alone."""
    returned: Returned = ""
    round: bool = False
    """Where a variant writes calls as a loop, the one call of this region is a loop of one
    round."""


class DefineModel(BlockModel):
    """A region that is defined here and called later, by `call`, from any list of nodes below.

    The names that it takes are its own.
    """

    define: RegionHead
    """As `recompute`."""


class LayersModel(Model):
    """The same layer several times; `$i` in any text of it is the number."""

    repeat: Count
    layer: Layer


class SequenceModel(Model):
    """Layers that are called one after the other, divided into segments that are recomputed.

    Each layer takes and gives one tensor, of the same name. Segments have
    `len(layers) // segments` layers each, and the last has the rest.
    """

    sequence: RegionName
    """The sequence's name; segments are numbered from 1."""
    segments: Count
    takes: Name
    """The tensor that is passed from layer to layer."""
    layers: list[
        Annotated[
            Annotated[Layer, Tag("<layer>")] | Annotated[LayersModel, Tag("<layers>")],
            _tagged("layers", bare="layer"),
        ]
    ] = Field(min_length=1)
    """Statements of one layer each, or `repeat` and `layer`."""
    preserve_rng: bool = True
    """As for a region."""


class CallModel(Model):
    """A further call of a region that was defined before."""

    call: RegionName
    """The region's name."""
    takes: Any = []
    """As in the region's first call."""
    kwargs: dict[Name, Any] = {}
    """As in the region's first call."""
    gives: Any
    """A name, or a nested list or mapping of names and literals."""
    returned: Returned = ""


class RepeatModel(Model):
    """The same nodes several times; `$i` in any text of the body is the number. Programs write three
    iterations or more as a loop."""

    repeat: (
        Annotated[int, Field(ge=1, le=MAX_COPIES)]
        | Annotated[list[int], Field(min_length=1)]
        | AxisRef
    )
    """How many times, numbered from 1; or the numbers themselves."""
    body: Body


NodeModel = Annotated[
    Union[  # noqa: UP007 (a forward reference stands in it)
        Annotated[Statement, Tag("<statement>")],
        Annotated[RegionModel, Tag("<recompute>")],
        Annotated[RepeatModel, Tag("<repeat>")],
        Annotated[CallModel, Tag("<call>")],
        Annotated[DefineModel, Tag("<define>")],
        Annotated[SequenceModel, Tag("<sequence>")],
    ],
    _tagged("recompute", "recompute", "repeat", "call", "define", "sequence", bare="statement"),
]
_Nodes = Annotated[list[NodeModel], Field(min_length=1)]
#: What a region, a repetition or a program does: nodes as a list, or statements as one text.
Body = Annotated[_Nodes, BeforeValidator(_as_list, json_schema_input_type=_Nodes | Statement)]


class GradientsModel(Model):
    """What is differentiated, with respect to what."""

    of: str | None = None
    """The loss, of an output: `sum(name)`, `mean(name)`, or the name of a scalar. Left out: the sum
    of the first output."""
    wrt: list[Name] | None = None
    """The tensors that the loss is differentiated with respect to. Left out: all that require a
    gradient."""
    expect: dict[Name, Any] = {}
    """Gradients that a document printed, as nested lists."""
    then: str | None = None
    """What the second backward pass of `per_output` differentiates."""
    hooks: list[Name] = []
    """Tensors with a hook on their gradient; the calls of each hook are counted."""
    totals: dict[Name, float] = {}
    """For each of these parameters, the sum of its gradient is this many times the loss, whatever
    numbers are drawn. They are filled by `full`."""


class TrainModel(Model):
    """Steps of SGD."""

    steps: Annotated[int, Field(ge=1, le=100)]
    learning_rate: float
    made: OneOf["each-step", "once"] | AxisRef = "each-step"
    """Whether the recomputed regions are made once, before the first step, as in a module that keeps
    them, or anew in each step."""
    between: list[ChangeModel | None] = []
    """What is done before the second step, before the third, and so on."""


class ChangeModel(Model):
    """What is done between two steps, in the order of these keys."""

    freeze: list[Name] | Name | None = None
    """Tensors that require no gradient from here on."""
    unfreeze: list[Name] | Name | None = None
    """Tensors that require a gradient from here on."""
    assign: list[Name] | Name | None = None
    """Parameters that are halved in place."""
    replace: list[Name] | Name | None = None
    """Parameters in whose place another tensor comes, with half their values."""
    set: dict[Name, Scalar] = {}
    """Inputs that are no tensors, with the value that they have from here on."""
    rows: Annotated[int, Field(ge=1)] | None = None
    """All inputs have so many rows from here on."""
    copied: OneOf["model"] | None = Field(None, alias="copy")
    """Training goes on with a deep copy of what holds the regions, and the original is changed."""
    run: OneOf["inference"] | None = None
    """A forward pass with gradients switched off, whose result is dropped."""
    fail: Name | None = None
    """A forward pass that raises an error, because this flag is set for it."""


class BackwardModel(Model):
    """One backward pass, and what happens before it."""

    between: (
        OneOf["reseed", "draw", "update", "thread", "switch", "autocast", "no-gradients"] | None
    ) = None
    """What happens between forward and backward: the implicit generator is seeded again or drawn
    from, all parameters are halved, or the switch that `switched_sin` reads is turned on; with
    `thread`, backward is started by another thread than forward ran in, with `autocast` under the
    framework's autocast to bfloat16, with `no-gradients` where gradients are switched off."""
    after: OneOf["inference", "backward"] | None = None
    """What was done with the program before: a forward pass with gradients switched off, or forward
    and backward, whose gradients are added to."""


class AroundModel(Model):
    """`around: {forward: default-float64}`"""

    forward: OneOf["default-float64"]
    """The framework's default dtype, which `to_default` casts to, is float64 while forward runs."""


class BackwardProcedure(Model):
    """`procedure: {backward: {between: reseed}}`"""

    backward: BackwardModel


class LawModel(Model):
    """The law of growth that the case is a point of; the report draws both."""

    name: str
    """A law of `conformance.language.laws`."""
    at: Annotated[int, Field(ge=1)] | AxisRef
    """The depth, or what the law counts."""
    constants: dict[Name, int | AxisRef] = {}
    """What else the law depends on."""
    counts: Name | None = None
    """The operation whose executions the law is about."""


class ReleaseModel(Model):
    """`release: {steps: 8, keep: outputs}`"""

    steps: Annotated[int, Field(ge=4, le=100)]
    keep: OneOf["outputs"]
    """The outputs of every run are kept until the last is over."""


class TrainProcedure(Model):
    """`procedure: {train: {steps: 5, learning_rate: 0.01}}`"""

    train: TrainModel


class TensorParallelModel(Model):
    """`parallel: {tensor: {w1: columns, w2: rows}}`"""

    tensor: dict[Name, OneOf["columns", "rows"]] = Field(min_length=1)
    """The weights of `linear` layers that are split over the ranks: those of `columns` each compute a
    part of their result, and those of `rows` read such a part and sum over the ranks. What is between
    them is split, too, and all else is whole and alike on all ranks."""


class ToleranceModel(Model):
    """`|observed - expected| <= atol * magnitude + rtol * |expected|`; defaults go by the dtype.

    `magnitude` is the array's largest element, at least 1.
    """

    rtol: Annotated[float, Field(ge=0, le=0.1)]
    atol: Annotated[float, Field(ge=0, le=0.1)]


class ErrorModel(Model):
    """An error that the recomputed program must raise."""

    type: Name
    """The name of a built-in exception."""
    then: dict[Name, Scalar] = {}
    """Inputs (not tensors) changed for the good run that must follow."""


class AsPlainModel(Model):
    """`error: {as: plain}`"""

    as_: OneOf["plain"] = Field(alias="as")
    """Written alone: the recomputed program may raise where the plain one does."""


class CountsModel(Model):
    """How often a region ran, as a document printed it."""

    forward: Annotated[int, Field(ge=0)]
    rerun: Annotated[int, Field(ge=0)]


class ExpectModel(Model):
    """What a document printed, beside gradients."""

    executions: dict[RegionName, CountsModel] = Field(default={})


class FollowsModel(Model):
    """Words that go with the values of an axis, one for each; they are not part of the case's id."""

    follows: Name
    """The axis."""
    values: list[Scalar | list[Scalar]] = Field(min_length=1)


def _section(by_name: Any) -> BeforeValidator:
    """A section: tensors by name, or names of the file's `tensors` and tensors by name in a list. What
    it names is written into it before it is validated."""
    return BeforeValidator(lambda value: value, by_name | str | list[str | by_name])


_Inputs = dict[str, InputModel]
_Arrays = dict[str, ArrayModel]
Inputs = Annotated[_Inputs, _section(_Inputs)]
Arrays = Annotated[_Arrays, _section(_Arrays)]


class CaseModel(Model):
    """One program and what is expected of it."""

    title: str = Field(min_length=3)
    """What is recomputed, in one line."""
    source: str = Field(min_length=3)
    """The document, paper or report it comes from."""
    why: str = Field(min_length=3)
    """One line on why the case exists."""
    seed: Annotated[int, Field(ge=0, le=MAX_INTEGER)] = 0
    """The seed of the generator that fills all tensors."""
    seeded: bool = True
    """Whether the program seeds the framework's generator before it draws. Without, `gradients:
    {totals: …}` says what is expected."""
    axes: dict[Name, Annotated[list[Scalar], Field(min_length=1)] | FollowsModel] = {}
    """Expands to one case per combination; `$name` stands for the value. `follows` names another
    axis, whose values come with these."""
    inputs: Inputs = {}
    """Tensors and values that the program is given."""
    parameters: Arrays = {}
    """Tensors that training changes."""
    state: Arrays = {}
    """Changed in place by operations."""
    program: Body
    """Statements and regions, in order."""
    outputs: Any = None
    """A name, or a nested list or mapping of names. Left out: the last value that the program
    makes."""
    gradients: GradientsModel | None = None
    """Of what, with respect to what. Left out: of the sum of the first output, with respect to all
    tensors that require one. There are none where the procedure is `inference`."""
    procedure: Annotated[
        Annotated[Untrained, Tag("<word>")]
        | Annotated[TrainProcedure, Tag("<train>")]
        | Annotated[BackwardProcedure, Tag("<backward>")],
        _tagged("word", "backward", "train"),
    ] = "backward"
    """What is done with the program."""
    release: (
        Annotated[
            Annotated[int, Field(ge=4, le=100), Tag("<number>")]
            | Annotated[ReleaseModel, Tag("<release>")],
            _tagged("release", bare="number"),
        ]
        | None
    ) = None
    """Repeat the procedure so often, the garbage collector off, and see that nothing is left over;
    with an `error`, the run that ends in it. `{steps: 8, keep: outputs}` keeps what each run has
    put out until the last is over."""
    law: LawModel | None = None
    """The law of growth that the case is a point of."""
    tolerance: ToleranceModel | None = None
    """Where the dtype's is wrong."""
    needs: list[Annotated[str, Field(json_schema_extra={"enum": sorted(CAPABILITIES)})]] = []
    """Capabilities beyond those the text shows."""
    error: (
        Annotated[
            Annotated[ErrorModel, Tag("<raises>")] | Annotated[AsPlainModel, Tag("<as>")],
            _tagged("raises", "as"),
        ]
        | None
    ) = None
    """Where it must raise one; `{as: plain}` where it may, if the plain program does."""
    autocast: OneOf["bfloat16", "float16"] | None = None
    """The forward pass runs under the framework's autocast."""
    around: AroundModel | None = None
    """A setting that holds around the forward pass, and not around backward."""
    differs: str | None = Field(default=None, min_length=3)
    """Why implementations legitimately differ: what they do is recorded, and fails only where
    numbers are wrong without an error."""
    expect: ExpectModel = Field(default_factory=ExpectModel)
    """What a document printed, beside gradients."""
    ranks: Annotated[int, Field(ge=1, le=8)] = 1
    """On how many ranks the program runs. The sum of their losses is differentiated."""
    parallel: (
        Annotated[
            Annotated[OneOf["data", "sharded"], Tag("<word>")]
            | Annotated[TensorParallelModel, Tag("<tensor>")],
            _tagged("tensor", bare="word"),
        ]
        | None
    ) = None
    """The framework spreads the program over the ranks: `data` averages the gradients of parameters
    over them. `sharded` does so, too, and each rank holds a part of each parameter. `{tensor: …}`
    splits layers over the ranks."""
    use: Use = "unusual"
    """How common the program is. `everyday`: people who train models write it. `contract`: it breaks
    a rule that the frameworks document, as a function does that computes something else when it runs
    again. `unusual`: everything else."""
    smoke: bool = False
    """`conformance run --smoke` runs the case, which must be an `everyday` one."""


class CaseFileModel(Model):
    """A case file: one family of cases."""

    family: CaseName
    tensors: dict[str, InputModel] = {}
    """Tensors and values that cases of the file start from, by name."""
    cases: dict[CaseName, CaseModel] = Field(min_length=1)


for _model in (RegionModel, DefineModel, RepeatModel, CaseModel, CaseFileModel):
    _model.model_rebuild()
