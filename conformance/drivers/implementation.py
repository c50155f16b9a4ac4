"""A user's own recompute in place of the framework's: `--implementation`.

It is named as `package.module:function`, or by a YAML file that also describes its options, discipline,
missing capabilities and known deviations. `adapt` returns the framework's adapter with that function in
its programs; nothing else differs, so that verdicts can be compared.

The function takes regions in one of three styles. An adapter says which of them it supports, and for
which variants (`implementations` in `adapter.yaml`):

- `call`: `function(region, *args, **kwargs)` runs the region;
- `transform`: `function(region)` gives the callable that runs it;
- `module`: `function(module)` gives the module that runs it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from conformance.drivers import adapter as adapters
from conformance.drivers.adapter import Adapter, Discipline, Implementation, Only, Refusal, Style
from conformance.errors import ImplementationError, nearest

#: The options of a region in a case, each with the capability that a non-default value needs.
OPTIONS: Mapping[str, str] = {
    "preserve_rng": "preserve-rng-off",
    "merge_adjacent": "merge-adjacent",
    "save": "policy",
    "contexts": "contexts",
}
#: Of these, the ones that every call of a region is given, whatever the case asks for.
GIVEN_ALWAYS = ("preserve_rng", "merge_adjacent")
#: How a function of each style is called.
CALLS: Mapping[Style, str] = {
    "call": "function(region, *args, **kwargs)",
    "transform": "function(region)(*args, **kwargs)",
    "module": "function(module)(*args, **kwargs)",
}
_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class ImplementationModel(adapters.Strict):
    """The file that describes an implementation. All but `function` may be left out."""

    function: str
    """`package.module:function`, as Python imports it."""
    name: str = ""
    """What results and the report call it; made from `function` if left out."""
    title: str = ""
    style: Style | None = None
    """How it is given regions; the adapter's first style if left out."""
    variants: list[str] = Field([])
    """Only these of the variants that the adapter has for the style."""
    options: dict[str, str] = Field(
        {},
        description="The function's keyword for each option of a case that it accepts: "
        + ", ".join(f"`{name}`" for name in OPTIONS)
        + "; beside these, what the adapter's `keywords` name.",
    )
    always: dict[str, Any] = Field({})
    """Keywords that every call is given, with plain values."""
    discipline: Discipline | None = None
    """How much runs again; the adapter's if left out."""
    exact: bool | None = None
    """As in `adapter.yaml`."""
    exact_gradients: bool | Literal["pairs"] | None = None
    """As in `adapter.yaml`."""
    residuals: dict[str, str] | None = None
    """As in `adapter.yaml`."""
    lacks: dict[str, str] = Field({})
    """Capabilities it has not, and why."""
    refuses: dict[str, Refusal] = Field({})
    """What it refuses aloud."""
    offers: list[str] = Field([])
    """Capabilities that the adapter takes it not to have, and it has."""
    only: Only | None = None
    """As in `adapter.yaml`."""
    known: list[str] = Field([])
    """Variants that it is built on (`torch/non-reentrant`): their known deviations are its own,
    too, and may be gone."""
    packages: list[str] = Field([])
    """Distributions whose versions are noted."""
    path: list[str] = Field(["."])
    """Folders that Python looks for the function in, relative to the file."""


@dataclass(frozen=True)
class Described:
    """An implementation as its user describes it. Its paths are relative to `folder`; `file` is the
    description's file, empty if it came from the command line."""

    model: ImplementationModel
    folder: Path
    file: str = ""

    def changed(self, **fields: object) -> Described:
        """The description with other values of these fields of its model."""
        return replace(self, model=self.model.model_copy(update=fields))

    @property
    def where(self) -> str:
        return self.file or "--implementation"

    @property
    def name(self) -> str:
        """What results and the report call it."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.model.function.lower()).strip("-")
        return self.model.name or slug

    @property
    def known(self) -> Path:
        """The file of its known deviations; it need not exist."""
        stem = Path(self.file).stem if self.file else self.name
        return self.folder / f"{stem}.known.yaml"


def describe(
    text: str,
    options: Iterable[str] = (),
    always: Iterable[str] = (),
    discipline: Discipline | None = None,
) -> Described:
    """The implementation that a command line names.

    `text` is `package.module:function` or the path of a YAML file; `options` are words like
    `preserve_rng=preserve_rng_state`, `always` like `use_reentrant=False`; they and `discipline`
    override the file. Raises `ImplementationError`.
    """
    described = Described(ImplementationModel(function=text), Path.cwd())
    if text.endswith((".yaml", ".yml")):
        own = adapters.read_model(Path(text), ImplementationModel, ImplementationError)
        described = Described(own, Path(text).absolute().parent, text)
    own = described.model
    keywords = own.options | dict(_name_and_value(word, "--option") for word in options)
    given = dict(_name_and_value(word, "--always") for word in always)
    constants = own.always | {name: _literal(text, name) for name, text in given.items()}
    how = discipline or own.discipline
    described = described.changed(options=keywords, always=constants, discipline=how)
    model, where = described.model, described.where
    if not _TARGET.fullmatch(model.function):
        raise ImplementationError(
            f"{model.function!r} names no function",
            where=where,
            hint="write package.module:function, or the path of a .yaml file",
        )
    if model.name and not re.fullmatch(r"[a-z0-9][a-z0-9-]*", model.name):
        raise ImplementationError(
            f"name {model.name!r}: lower-case letters, digits and hyphens", where=where
        )
    for keyword in (*model.options.values(), *model.always):
        if not re.fullmatch(r"[A-Za-z_]\w*", keyword):
            raise ImplementationError(f"{keyword!r} is no keyword of Python's", where=where)
    words = [*model.lacks, *model.offers]
    adapters.check_words(
        "it", words, model.refuses, model.residuals or {}, where, ImplementationError
    )
    return described


def _name_and_value(word: str, flag: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    if not (name and value):
        raise ImplementationError(f"{flag} {word!r} is not NAME=VALUE")
    return name, value


def _literal(text: str, name: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        raise ImplementationError(
            f"--always {name}: {text!r} is no plain value of Python's",
            hint="strings need quotes of their own",
        ) from error


def by_signature(adapter: Adapter, described: Described, signature: Signature) -> Described:
    """The description with what the function's signature says: the framework's own keywords that it has
    (`keywords` in `adapter.yaml`), and the variants that these belong to. What is declared stays.

    Raises `ImplementationError` where the function cannot be called as it is described.
    """
    model = described.model
    kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    by_name = {p.name for p in signature.parameters.values() if p.kind in kinds}
    options, always, known = dict(model.options), dict(model.always), list(model.known)
    for keyword, meaning in adapter.model.keywords.items():
        other = meaning.options or model.always.get(keyword) != meaning.always
        if keyword not in by_name or (keyword in model.always and other):
            continue
        for option in meaning.options:
            options.setdefault(option, keyword)
        if meaning.always is not None:
            always[keyword] = meaning.always
        known += [] if model.known else [name for name in meaning.known if name not in known]
    described = described.changed(options=options, always=always, known=known)
    _check_call(adapter, described, signature)
    return described


def _check_call(adapter: Adapter, described: Described, signature: Signature) -> None:
    """Raise `ImplementationError` where no call of the function can succeed."""
    model, styles = described.model, adapter.model.implementations
    style: Style = next(iter(styles)) if model.style is None else model.style
    keywords = {keyword for option, keyword in model.options.items() if option in GIVEN_ALWAYS}
    arguments = ("region", "argument") if style == "call" else ("region",)
    try:
        bound = signature.bind(*arguments, **dict.fromkeys({*keywords, *model.always}))
        rest = [p.name for p in signature.parameters.values() if p.kind is Parameter.VAR_POSITIONAL]
        if style == "call" and not {*rest} <= {*bound.arguments}:
            raise TypeError(f"the region's arguments come after {', '.join(bound.arguments)}")
    except TypeError as error:
        others = " or ".join(f"`style: {other}`" for other in styles if other != style)
        otherwise = f", or {others} in a YAML file" if others else ""
        raise ImplementationError(
            f"{model.function}{signature} cannot be called as {CALLS[style]}: {error}",
            where=described.where,
            hint="declare what it requires with --always KEYWORD=VALUE or --option OPTION=KEYWORD"
            + otherwise,
        ) from error


def adapt(adapter: Adapter, described: Described) -> Adapter:
    """The adapter with the user's function in its programs. Raises `ImplementationError`."""
    model, where = described.model, described.where
    styles = adapter.model.implementations
    if not styles:
        raise ImplementationError(
            f"adapter {adapter.name!r} takes no implementation of others", where=where
        )
    style: Style = next(iter(styles)) if model.style is None else model.style
    options = {*OPTIONS, *(o for word in adapter.model.keywords.values() for o in word.options)}
    named: tuple[tuple[Iterable[str], Collection[str], str], ...] = (
        ((style,), styles, "adapter {adapter!r} has no style {name!r}"),
        (model.options, options, "no option {name!r} of a case"),
        (model.variants, styles.get(style, ()), "no variant {name!r} for style {style!r}"),
    )
    for names, known, problem in named:
        for name in names:
            if name not in known:
                message = problem.format(adapter=adapter.name, name=name, style=style)
                raise ImplementationError(message, where=where, hint=nearest(name, known))
    variants = {
        name: _variant(variant, model)
        for name, variant in styles[style].items()
        if not model.variants or name in model.variants
    }
    changed = {
        "name": described.name,
        "title": model.title or f"{model.function} ({adapter.model.title})",
        "packages": [*model.packages, *adapter.model.packages],
        "variants": variants,
    }
    path = tuple(str((described.folder / folder).resolve()) for folder in model.path)
    return replace(
        adapter,
        model=adapter.model.model_copy(update=changed),
        implementation=Implementation(model.function, style, model.options, model.always, path),
        deviations=described.known,
    )


def _variant(variant: adapters.VariantModel, model: ImplementationModel) -> adapters.VariantModel:
    lacks = {
        capability: f"no keyword of the function is named for the option {option}"
        for option, capability in OPTIONS.items()
        if option not in model.options
    }
    if "wrong-option" not in model.offers:
        lacks["wrong-option"] = "nothing says that a keyword of the function is held to its type"
    offered = {OPTIONS[option] for option in model.options if option in OPTIONS}
    offered |= set(model.offers)
    of_variant = {word: why for word, why in variant.lacks.items() if word not in offered}
    fields = ("discipline", "exact", "exact_gradients", "residuals", "only")
    declared = {name: getattr(model, name) for name in fields}
    return variant.model_copy(
        update={
            "lacks": {**lacks, **of_variant, **model.lacks},
            "refuses": {**variant.refuses, **model.refuses},
            **{name: value for name, value in declared.items() if value is not None},
        }
    )
