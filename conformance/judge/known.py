"""Known deviations: `adapters/<name>/known.yaml`, a list of causes, each of which explains verdicts.

A cause says which variants deviate and when: `when` names features of the program (see
`conformance.language.features`), `shows` the checks that deviate then, with a piece of text that the
verdict must contain. An adapter has a program that shows the cause in `reproducers/<cause>.py`.

Causes are strict. The run fails where a deviation is gone, and where the case ids of a cause explain
none. What depends on chance says `sometimes`, and why: it may be seen in some cases, or in none. Causes
that an implementation shares with the variant that it is built on need not explain any: the
implementation may do better.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated
from typing import Literal as OneOf

import yaml
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from conformance.errors import KnownError, nearest
from conformance.language import yaml_marks
from conformance.language.features import Features, feature_names, features_of, is_feature
from conformance.model.case import Case
from conformance.model.verdict import KnownNote, Verdict
from conformance.writing import write_text


def _release(text: str) -> str:
    try:
        Version(text or "0")
    except InvalidVersion as error:
        raise ValueError(f"found {text!r}, expected a release such as 0.7.0") from error
    return text


Words = str | list[str]
Release = Annotated[str, AfterValidator(_release)]
_NOT = "not "
#: The step of training that a check looks at, where it is not all of them.
_STEP = {"gradient": -1, "retained memory": 0, "peak memory": 0}


class ConditionModel(BaseModel):
    """Features that a program has together; `not x` for one that it lacks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    region: Words = Field([], description="Features that one region has, all of them.")
    case: Words = Field([], description="Features of the case, or of any of its regions.")


class FormModel(BaseModel):
    """What deviates, and when."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    variants: Words | None = Field(
        None, description="Variants, with or without the adapter's name; all if it is left out."
    )
    when: ConditionModel | list[ConditionModel] | None = Field(
        None, description="Features of the program; of several conditions one has to hold."
    )
    cases: Words | None = Field(
        None,
        description="Case ids, for what no feature describes; `*` and `?` stand for any text, and `!` "
        "before one takes them out again.",
    )
    shows: dict[str, Words] = Field(
        {}, description="By check, a part of the verdict's status and message, or several of them."
    )
    sometimes: str = Field(
        "", description="Why the deviation shows in some runs or cases only, where it does."
    )
    since: Release = Field("", description="The first release that is known to deviate.")
    fixed: Release = Field("", description="The first release that does not deviate any more.")
    device: str = Field(
        "", description="The device that deviates (`cpu`, `cuda`), where not all do."
    )


class CauseModel(FormModel):
    """A cause as it is written."""

    cause: str = Field(
        pattern="^[a-z0-9_]*$",
        description="The cause's name: that of its program in `reproducers`, without `.py`.",
    )
    kind: OneOf["defect", "limit", "choice"] = Field(
        "defect",
        description="`defect`; `limit`: the documentation says so, on the page at `url`; `choice`: an "
        "implementation may do so.",
    )
    says: str = Field("", description="What happens, and when, in a sentence.")
    instead: str = Field("", description="What to do instead.")
    url: Words = Field(
        [], description="The page that documents a limit, or a report upstream; others follow it."
    )
    also: list[FormModel] = Field(
        [], description="Further forms of it; what one leaves out is that of the cause."
    )


@dataclass(frozen=True)
class Condition:
    """Features that one region has, all of them, and features of the case."""

    region: tuple[str, ...] = ()
    case: tuple[str, ...] = ()

    def holds(self, features: Features) -> bool:
        """Whether a program with these features meets the condition, in one step where steps differ."""
        if features.steps:
            return any(map(self.holds, features.steps))
        return _all(self.case, features.case) and (
            not self.region or any(_all(self.region, region) for region in features.regions)
        )


def _all(words: Iterable[str], features: frozenset[str]) -> bool:
    return all((word.removeprefix(_NOT) in features) is not word.startswith(_NOT) for word in words)


class Catalog:
    """Cases by id, and the features of those that are asked for."""

    def __init__(self, cases: Iterable[Case] = ()) -> None:
        self.cases = {case.id: case for case in cases}
        self._features: dict[str, Features] = {}

    def only(self, cases: Iterable[Case]) -> None:
        """From now on, have these cases and no others."""
        self.cases = {case.id: case for case in cases}
        self._features = {}

    def features(self, case: str) -> Features | None:
        """The features of a case; `None` where the case is not there."""
        if case not in self._features and case in self.cases:
            self._features[case] = features_of(self.cases[case])
        return self._features.get(case)


@dataclass(frozen=True)
class Entry:
    """What a cause says of one check. `where` is its file and line; `shared` is the variant whose
    deviation it is, where somebody's own recompute shares it."""

    variants: tuple[str, ...]
    check: str
    observed: tuple[str, ...]
    cause: str
    reason: str
    when: tuple[Condition, ...] = ()
    cases: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    where: str = ""
    kind: str = "defect"
    instead: str = ""
    sometimes: str = ""
    since: str = ""
    fixed: str = ""
    device: str = ""
    shared: str = ""
    catalog: Catalog = field(default_factory=Catalog, repr=False, compare=False)

    @property
    def url(self) -> str:
        """The page or the report that is shown; empty for none."""
        return self.urls[0] if self.urls else ""

    @property
    def note(self) -> KnownNote:
        """What is stored with the deviations that it explains."""
        return KnownNote(self.reason, self.url, self.cause, self.kind, self.instead)

    @property
    def lenient(self) -> bool:
        """Whether the deviation may be absent where the entry speaks of a case."""
        return bool(self.shared or self.sometimes)

    def may_be_absent(self, case: str) -> bool:
        """Whether the deviation may be absent in a case that the entry speaks of: also a difference of
        numbers that are compared as those of half precision are, which may be within the tolerance, the
        loss of a gradient that may be zero, and what deviates in another step of training than the one
        that the check looks at."""
        features = self.catalog.features(case)
        if self.lenient or features is None:
            return self.lenient
        seen = [features.steps[_STEP[self.check]]] if features.steps and self.check in _STEP else []
        elsewhere = any(not any(one.holds(step) for one in self.when) for step in seen)
        alike = {"coarse", "constant-of-itself"}.intersection(features.case)
        return elsewhere or (self.check in ("value", "gradient") and bool(alike))

    @property
    def of_errors(self) -> bool:
        """Whether it is about programs that have to raise an error, or about cases by their ids."""
        words = {word for condition in self.when for word in condition.case}
        return not self.when or any(w.startswith(("expected-error", "raises:")) for w in words)

    def names_case(self, case: str) -> bool:
        """Whether the entry is about this case, for any variant and check. Of patterns the last that
        matches counts."""
        if self.cases:
            matching = [p for p in self.cases if _matcher(p.removeprefix("!"))(case)]
            if not matching or matching[-1].startswith("!"):
                return False
        if not self.when:
            return True
        features = self.catalog.features(case)
        return features is not None and any(one.holds(features) for one in self.when)

    def is_in(self, release: str) -> bool:
        """Whether the deviation is in this release; in all of them where nothing says which."""
        version = Version(release)
        return not (self.since and version < Version(self.since)) and not (
            self.fixed and version >= Version(self.fixed)
        )

    def covers(self, case: str, variant: str, check: str) -> bool:
        """Whether the entry is for this check of this case on this variant (a full id)."""
        return check == self.check and self.names_variant(variant) and self.names_case(case)

    def names_variant(self, variant: str) -> bool:
        """Whether the entry names this variant (a full id), for any case and check."""
        names = (variant, variant.split("/", 1)[-1])
        return any(_matcher(pattern)(name) for name in names for pattern in self.variants)

    def describes(self, verdict: Verdict) -> bool:
        """Whether the verdict is a deviation whose text (`fail: gradient of x is None, but …`) contains
        one of the entry's."""
        return verdict.status.deviates and self.tells(verdict)

    def tells(self, verdict: Verdict) -> bool:
        """Whether the verdict's text contains one of the entry's, whatever its status."""
        text = f"{verdict.status}: {verdict.message}\n{verdict.observed}"
        return any(part in text for part in self.observed)


def read(file: Path, *, unfinished: bool = False) -> tuple[Entry, ...]:
    """The entries of a file, none where there is no file.

    Raises `KnownError` with file and line for what is malformed, for two causes of one name, and for a
    cause without a name or `says` unless `unfinished` ones are wanted.
    """
    if not file.is_file():
        return ()
    marked = yaml_marks.read(file, KnownError, may_be_empty=True)
    if marked.value is None:
        return ()
    if not isinstance(marked.value, list):
        raise KnownError("expected a list of causes", where=file)
    entries: list[Entry] = []
    lines: dict[str, str] = {}
    for number, raw in enumerate(marked.value):
        where = f"{file}:{marked.at((number,)).line}"
        model = _model(raw, where, unfinished)
        if model.cause and model.cause in lines:
            hint = f"the other one: {lines[model.cause]}; further forms of a cause go under `also`"
            raise KnownError(f"two causes are named {model.cause!r}", where=where, hint=hint)
        lines[model.cause] = where
        entries += _entries(model, where)
    return tuple(entries)


def _model(raw: object, where: str, unfinished: bool) -> CauseModel:
    try:
        model = CauseModel.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"] if "[" not in str(part))
        raise KnownError(f"{place}: {first['msg']}", where=where) from error
    for key, value, hint in (
        ("says", model.says, "say what happens and when, in a sentence"),
        ("name", model.cause, "give the cause a name: `cause: …`"),
    ):
        if not value.strip() and not unfinished:
            raise KnownError(f"a cause without {key!r}", where=where, hint=hint)
    if model.kind == "limit" and not model.url:
        hint = "give the address of the page that documents the limit"
        raise KnownError(f"the limit {model.cause!r} has no url", where=where, hint=hint)
    return model


def _entries(model: CauseModel, where: str) -> Iterator[Entry]:
    """The entries of a cause: one for each check of each of its forms."""
    for form in (model, *model.also):
        when, cases = form.when, form.cases
        if when is None and cases is None:
            when, cases = model.when, model.cases
        shows = form.shows or model.shows
        conditions = [when] if isinstance(when, ConditionModel) else when or []
        if form is model and model.also and not (shows and (conditions or cases)):
            continue  # its forms have what is said here in common
        if not shows:
            hint = "`shows: {gradient: is None}`: the check, and a part of its message"
            raise KnownError(f"{model.cause}: nothing says what shows", where=where, hint=hint)
        if not conditions and not cases:
            hint = "`when: {region: […]}` or, for what no feature describes, `cases: […]`"
            raise KnownError(f"{model.cause}: nothing says when it shows", where=where, hint=hint)
        for check, texts in shows.items():
            yield Entry(
                variants=_several(form.variants or model.variants or "*"),
                check=check,
                observed=_several(texts),
                cause=model.cause,
                reason=" ".join(model.says.split()),
                when=tuple(_condition(condition, where) for condition in conditions),
                cases=_several(cases or []),
                urls=_several(model.url),
                where=where,
                kind=model.kind,
                instead=" ".join(model.instead.split()),
                sometimes=form.sometimes or model.sometimes,
                since=form.since or model.since,
                fixed=form.fixed or model.fixed,
                device=form.device or model.device,
            )


def _condition(model: ConditionModel, where: str) -> Condition:
    condition = Condition(_several(model.region), _several(model.case))
    for word in (*condition.region, *condition.case):
        name = word.removeprefix(_NOT)
        if not is_feature(name):
            hint = nearest(name, feature_names())
            raise KnownError(f"there is no feature {name!r}", where=where, hint=hint)
    return condition


def in_release(entries: Iterable[Entry], release: str, device: str = "") -> tuple[Entry, ...]:
    """The entries whose deviation is in this release of the framework, and on this device; all for no
    release, and for no device."""
    return tuple(
        entry
        for entry in entries
        if (not release or entry.is_in(release)) and (not device or entry.device in ("", device))
    )


def bound(entries: Iterable[Entry], catalog: Catalog) -> tuple[Entry, ...]:
    """The entries, as they speak of these cases."""
    return tuple(replace(entry, catalog=catalog) for entry in entries)


def append(file: Path, added: Sequence[Mapping[str, object]]) -> None:
    """Write causes at the end of a file, and leave what stands there as it is."""
    if not added:
        return
    before = yaml_marks.read_text(file, KnownError) if file.is_file() else ""
    if yaml_marks.load(before, str(file), KnownError, may_be_empty=True).value in ([], None):
        kept = [line for line in before.splitlines() if line.lstrip().startswith("#")]
        before = "".join(f"{line}\n" for line in kept)
    elif not before.endswith("\n"):
        before += "\n"
    dumped = yaml.safe_dump(list(added), sort_keys=False, allow_unicode=True, width=96)
    write_text(file, before + dumped)


def _several(words: Words) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else tuple(words)


@functools.cache  # a list has more patterns than `fnmatch` remembers
def _matcher(pattern: str) -> Callable[[str], re.Match[str] | None]:
    # Ids hold brackets (`[depth=4]`), which stand for themselves here.
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]"))).match
