"""Adapters: folders with all that is specific to one framework, found by path, not imported by name.

A folder holds `adapter.yaml` (what this module reads), `emitter.py` (a function `emitter`, see
`conformance.emit.emitter`), `observe.py` (a class `Observer`, see
`conformance.observe.worker.observer`; imported in the worker process alone), `requirements.txt`,
`known.yaml`, and `reproducers` with a program for each cause of a known deviation.
"""

import importlib.metadata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import Annotated, Self, TypeVar
from typing import Literal as OneOf

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from conformance.drivers.installed import version
from conformance.drivers.modules import load_module, searched
from conformance.errors import AdapterError, ConformanceError, nearest
from conformance.language import yaml_marks
from conformance.language.features import CAPABILITIES, RARE
from conformance.language.operations import OPERATIONS

Discipline = OneOf["whole", "early-stop", "minimal"]
Style = OneOf["call", "transform", "module"]
M = TypeVar("M", bound=BaseModel)
#: The adapter for the oracle itself, which computes what is expected of the others.
REFERENCE = "reference"
#: The device of programs that are told no other.
CPU = "cpu"
#: The folder of the package `conformance`.
_PACKAGE = Path(__file__).resolve().parents[1]
DISCIPLINES: Mapping[str, str] = {
    "whole": "the whole region runs again; a nested region once more per level",
    "early-stop": "the region runs again until the last value that backward needs is back",
    "minimal": "only the operations whose results some gradient needs run again",
}
#: What a variant may declare about all its regions, under `residuals: {region: …}`.
REGION_RESIDUALS: Mapping[str, str] = {
    "out": "the results of a region are available in backward",
    "inner": "and so is what regions inside it give",
    "anew": "the results of a region are not kept for the gradients around it, but recomputed",
    "operations": "the result of a region of one operation without parameters is recomputed, not kept",
    "last": "the last segment of a sequence is run plainly",
    "flat": "nested regions are run again as one",
    "after": "a value is saved when its operation has run, so early stop comes after it",
    "asked": "a region runs again only where a value saved in it is asked for",
    "ends": "what nothing in the region reads is not run again, but for its first operation",
    "passed": "what a region passes directly to another one is available",
    "factors": "a sine, a cosine and a hyperbolic tangent keep the factor that their gradient "
    "multiplies with, an array of their own",
    "numbers": "a number that a product or a quotient reads is a tensor, and kept as one",
    "loss": "what is kept is for the gradients of the loss; other outputs have none",
    "cheap": "a compiler may run what is cheap again anywhere, in the plain run too",
    "together": "an operation of which one gradient is taken keeps what all of them read",
    "program": "the whole program is run again as one region, whatever regions are written",
}


class Strict(BaseModel):
    """A model that takes no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Refusal(Strict):
    """A capability that the variant refuses, with the error that says so; the case is run to see it."""

    raises: str
    """The exception's type."""
    match: str
    """A part of its message."""


class Only(Strict):
    """The cases that a variant is run on, where all of them would take too long."""

    cases: list[str]
    """Case ids; `*` and `?` stand for any text, and `!` before one takes them out again."""
    why: str
    """What all of them would cost."""

    def leaves_out(self, case: str) -> bool:
        """Whether a case is left out. The last pattern that matches its id decides; brackets in a
        pattern are literal, as in ids."""
        out = True
        for pattern in self.cases:
            if fnmatchcase(case, pattern.removeprefix("!").replace("[", "[[]")):
                out = pattern.startswith("!")
        return out


class VariantModel(Strict):
    """One way in which a framework offers recompute."""

    title: str
    """How a user of the framework would name it."""
    discipline: Discipline
    debugging: bool = False
    """Whether it is for debugging, and not for training. Reports recommend another variant."""
    exact: bool = True
    """Whether plain and recomputed agree bit for bit."""
    exact_gradients: bool | OneOf["pairs"] = True
    """Whether gradients agree bit for bit too, where `exact`; not where contributions to one
    gradient are added up in another order, those inside a region first. `pairs`: only two
    contributions, the order of which makes no difference."""
    accuracy: dict[str, Annotated[float, Field(gt=0, le=1e-2)]] = {}
    """Operations whose kernels are less accurate than rounding, and the greatest absolute
    error measured; widens the tolerance against the reference and against other frameworks, never
    that between plain and recomputed."""
    lacks: dict[str, str] = {}
    """Capabilities it cannot express, and why."""
    offers: list[OneOf["ranks", "data-parallel", "sharded-parallel", "tensor-parallel"]] = []
    """Capabilities that other variants lack without saying so."""
    refuses: dict[str, Refusal] = {}
    """Capabilities it refuses aloud."""
    only: Only | None = None
    """The only cases that it is run on (`cases`), and `why`."""
    renew_after: int = Field(0, ge=0)
    """Programs after which the variant's worker is replaced by a new one, for what keeps something
    of each; 0 for never."""
    renew_after_error: bool = False
    """Whether the worker is replaced after a program that raised an error, too, for what such a
    program leaves behind broken."""
    own_process: bool = False
    """Whether the variant has a worker process to itself, for what its programs leave behind in
    theirs."""
    environment: dict[str, str] = {}
    """Set before the first import, over the adapter's; other variants with the same environment
    share a worker process."""
    residuals: dict[str, str] = Field(
        {},
        description="For an operation, what its gradient keeps here, where that is not the registry's "
        "first alternative: words out of its arguments, `out`, `mask`, `number` (one element); `early` "
        "where all is kept before the operation ends, and early stop leaves it unfinished, `elements` "
        "where nothing is kept of a result without elements, `asked` where an argument is kept for its "
        "own gradient alone. For `region`: "
        + ", ".join(f"`{word}` ({meaning})" for word, meaning in REGION_RESIDUALS.items())
        + ".",
    )

    @model_validator(mode="after")
    def _lacks_what_is_rare(self) -> Self:
        rare = {word: why for word, why in RARE.items() if word not in self.offers}
        self.__dict__["lacks"] = {**rare, **self.lacks}  # the model is frozen
        return self

    def says(self, word: str) -> bool:
        return word in self.residuals.get("region", "").split()


class Keyword(Strict):
    """What a keyword of the framework's own means where an implementation has it in its signature."""

    options: list[str] = []
    """The options of a case that it passes on."""
    always: bool | None = None
    """The value that every call is given, where it passes on none."""
    known: list[str] = []
    """The variants that it belongs to (`torch/selective`): the implementation is built on these."""


class Device(Strict):
    """What programs need to run on another device than the CPU (`--device`)."""

    environment: dict[str, str] = {}
    """Set before the first import, over the adapter's and the variant's."""
    lacks: dict[str, str] = {}
    """Capabilities that no variant has there, and why."""
    residuals: dict[str, str] = {}
    """What gradients keep there, over what the variants say."""


class AdapterModel(Strict):
    """The file `adapter.yaml`."""

    name: str
    title: str
    packages: list[str]
    """Distributions whose versions a run records; the first one's is the release that causes name."""
    imports: list[str] = []
    """Modules whose import in a user's program shows that it uses the framework."""
    place: int = 50
    """Where reports list it: the least first, equal ones by name, the reference last."""
    builds_on: list[str] = []
    """Adapters that modules of this one import from (`from ..torch import storages`); each is
    beside it, or is shipped."""
    environment: dict[str, str] = {}
    """Set before the first import."""
    beside: list[str] = []
    """Files of the folder put next to every emitted program, and modules of the suite by their
    names (`conformance.oracle.tape`, which becomes `tape.py`)."""
    time_limit: float = 120.0
    """Seconds for one case on one variant."""
    memory_limit: float = 12.0
    """GiB that the worker may allocate."""
    missing: list[str] = []
    """Parts of the messages by which the framework says that it has no kernel for what a program
    computes. A case whose plain program raises one is not offered."""
    programs: dict[str, str] = {}
    """Programs in the folder `programs` that are about another variant than the first, and which."""
    devices: dict[str, Device] = {}
    """The devices besides the CPU that programs can run on, by the names that `--device` takes."""
    variants: dict[str, VariantModel]
    advice: dict[str, str] = {}
    """The variants that the framework's page is about, the best one for most people first, and in a
    sentence or two when to use each."""
    implementations: dict[Style, dict[str, VariantModel]] = {}
    """Where `--implementation` is taken: for each style in which a function can be given regions,
    the variants that such programs have."""
    keywords: dict[str, Keyword] = {}
    """The framework's own keywords that such a function may have in its signature."""


@dataclass(frozen=True)
class Implementation:
    """A user's function that takes the place of the framework's recompute.

    `function` is `package.module:function`; `options` maps options of cases to its keywords, `always`
    are the keyword arguments of every call; `path` are absolute folders to import it from.
    """

    function: str
    style: Style
    options: Mapping[str, str]
    always: Mapping[str, object]
    path: tuple[str, ...]


@dataclass(frozen=True)
class Variant:
    """A variant of an adapter, by name."""

    adapter: str
    name: str
    model: VariantModel
    implementation: Implementation | None = None
    #: What `AdapterModel.missing` says.
    missing: tuple[str, ...] = ()
    #: Where programs run (`Adapter.device`).
    device: str = CPU

    @property
    def id(self) -> str:
        return f"{self.adapter}/{self.name}"


@dataclass(frozen=True)
class Adapter:
    """An adapter folder, read."""

    folder: Path
    model: AdapterModel
    implementation: Implementation | None = None
    #: The file of its known deviations, if it is not the folder's.
    deviations: Path | None = None
    #: The release of its first package on the workers of a cluster.
    on_cluster: str = ""
    #: Where programs run: `cpu`, or one of the model's devices.
    device: str = CPU

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def known(self) -> Path:
        """The file of its known deviations; it need not exist."""
        return self.deviations or self.folder / "known.yaml"

    @property
    def release(self) -> str:
        """The installed release of its first package; empty where that is not installed."""
        if self.on_cluster:
            return self.on_cluster
        try:
            return version(self.model.packages[0])
        except (IndexError, importlib.metadata.PackageNotFoundError):
            return ""

    def reproducer(self, cause: str) -> Path | None:
        """The program that shows a known deviation's cause with the framework alone, if there is one."""
        file = self.folder / "reproducers" / f"{cause}.py"
        return file if cause and file.is_file() else None

    @property
    def beside(self) -> Mapping[str, Path]:
        """The files that are put next to every program, by the names that they have there."""
        files = [
            _PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py")
            if name.startswith(f"{_PACKAGE.name}.")
            else self.folder / name
            for name in self.model.beside
        ]
        return {file.name: file for file in files}

    @property
    def variants(self) -> tuple[Variant, ...]:
        return tuple(self.variant(name) for name in self.model.variants)

    def variant(self, name: str) -> Variant:
        """The variant of that name. Raises `AdapterError` where there is none."""
        if name not in self.model.variants:
            raise AdapterError(
                f"adapter {self.name!r} has no variant {name!r}",
                where=self.folder / "adapter.yaml",
                hint=nearest(name, self.model.variants),
            )
        model, missing = self.model.variants[name], tuple(self.model.missing)
        there = self._there
        changed = {
            "lacks": model.lacks | there.lacks,
            "residuals": model.residuals | there.residuals,
        }
        model = model.model_copy(update=changed)
        return Variant(self.name, name, model, self.implementation, missing, self.device)

    def environment(self, variant: str) -> dict[str, str]:
        """What is set before the first import in the worker of a variant."""
        own = self.model.variants[variant].environment
        return self.model.environment | own | self._there.environment

    @property
    def _there(self) -> Device:
        return self.model.devices.get(self.device, Device())

    def on(self, device: str) -> Self:
        """The adapter with its programs on another device. Raises `AdapterError` where it has none of
        that name."""
        devices = {CPU: Device(), **self.model.devices}
        if device not in devices:
            raise AdapterError(
                f"adapter {self.name!r} has no device {device!r}",
                where=self.folder / "adapter.yaml",
                hint=f"it has {', '.join(devices)}",
            )
        return replace(self, device=device)

    def load(self, module: str) -> ModuleType:
        """The adapter's module of that name, out of its package. Raises `AdapterError`."""
        return load_module(self.folder, module)


def read_adapter(folder: Path) -> Adapter:
    """The adapter in a folder. Raises `AdapterError` with file and what is wrong."""
    file = folder / "adapter.yaml"
    if not file.is_file():
        raise AdapterError(
            "no adapter.yaml here", where=folder, hint="is this an adapter's folder?"
        )
    model = read_model(file, AdapterModel, AdapterError)
    for name in model.builds_on:
        places = [parent / name / "adapter.yaml" for parent in searched(folder.resolve())]
        if not any(place.is_file() for place in places):
            raise AdapterError(f"builds_on: there is no adapter {name!r} beside it", where=file)
    for name in model.advice:
        if name not in model.variants:
            hint = nearest(name, model.variants)
            raise AdapterError(f"advice: there is no variant {name!r}", where=file, hint=hint)
    for variants in (model.variants, *model.implementations.values()):
        for name, one in variants.items():
            check_words(f"variant {name!r}", one.lacks, one.refuses, one.residuals, file)
    for name, device in model.devices.items():
        check_words(f"device {name!r}", device.lacks, (), device.residuals, file)
    return Adapter(folder.resolve(), model)


def read_model(file: Path, kind: type[M], error: type[ConformanceError]) -> M:
    """A YAML file as a model. Raises `error` with the file, the place in it and what is wrong."""
    try:
        return kind.model_validate(yaml_marks.read(file, error).value)
    except ValidationError as raised:
        first = raised.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        unknown = first["type"] == "extra_forbidden" and len(first["loc"]) == 1
        hint = nearest(place, kind.model_fields) if unknown else ""
        raise error(f"{place}: {first['msg']}", where=file, hint=hint) from raised


def check_words(
    who: str,
    lacks: Iterable[str],
    refuses: Iterable[str],
    residuals: Mapping[str, str],
    where: object,
    kind: type[ConformanceError] = AdapterError,
) -> None:
    """Raise `kind` if `who` names an unknown capability, or residuals that do not exist."""

    def check(word: str, known: Collection[str], problem: str) -> None:
        if word not in known:
            raise kind(f"{who} {problem}", where=where, hint=nearest(word, known))

    for word in (*lacks, *refuses):
        check(word, CAPABILITIES, f"speaks of an unknown capability {word!r}")
    for operation, words in residuals.items():
        known: Collection[str] = REGION_RESIDUALS
        if operation != "region":
            check(operation, OPERATIONS, f"says what an unknown operation {operation!r} saves")
            tensors = (tensor.rstrip("?.") for tensor in OPERATIONS[operation].tensors)
            known = {*tensors, "out", "mask", "number", "early", "elements", "asked"}
        for word in words.split():
            check(word, known, f"says that {operation!r} saves an unknown {word!r}")


def find_adapter(name_or_path: str, folder: Path) -> Adapter:
    """The adapter of that name in `folder`, or the one at a path. Raises `AdapterError`."""
    if "/" in name_or_path or name_or_path.startswith("."):
        return read_adapter(Path(name_or_path))
    if not (folder / name_or_path / "adapter.yaml").is_file():
        names = [p.parent.name for p in folder.glob("*/adapter.yaml")]
        raise AdapterError(
            f"no adapter {name_or_path!r}", where=folder, hint=nearest(name_or_path, names)
        )
    return read_adapter(folder / name_or_path)


def all_adapters(folder: Path) -> tuple[Adapter, ...]:
    """Every adapter in a folder, the reference first, then by name."""
    adapters = [read_adapter(path.parent) for path in sorted(folder.glob("*/adapter.yaml"))]
    return tuple(sorted(adapters, key=lambda a: (a.name != REFERENCE, a.name)))
