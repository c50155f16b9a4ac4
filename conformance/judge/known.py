"""Known deviations: `adapters/<name>/known.yaml`, a list of entries that explain verdicts.

An entry says which case, variant and check deviate, a piece of text that the verdict must contain, the
name of the cause, and a person's reason. Entries with one cause share its name; an adapter has a program
that shows the cause in `reproducers/<cause>.py`. Entries are strict: the run fails where a deviation is
gone, and where an entry explains none. An entry with `strict: false` has to explain a deviation in one
of the cases that it names, and may in all of them. An `intermittent` one appears in some runs and not in
others, and need explain none, as long as what it names is judged. Entries that an implementation shares
with the variant that it is built on need not explain any: the implementation may do better.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conformance.errors import KnownError
from conformance.language import yaml_marks
from conformance.model.verdict import Verdict
from conformance.writing import write_text


class EntryModel(BaseModel):
    """An entry as it is written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    case: str | list[str] = Field(
        description="Case ids; `*` and `?` stand for any text, and `!` before one takes them out again."
    )
    variant: str | list[str] = Field(description="Variants, with or without the adapter's name.")
    check: str
    observed: str = Field(min_length=1, description="A part of the verdict's status and message.")
    cause: str = Field(
        pattern="^[a-z0-9_]*$",
        description="The cause's name: that of its program in `reproducers`, without `.py`.",
    )
    reason: str | None = None
    url: str = ""
    strict: bool = Field(
        default=True,
        description="`false` where it is expected wherever it is seen among these cases, and has to be "
        "seen in one of them only.",
    )
    intermittent: bool = Field(
        default=False,
        description="`true` where it appears in some runs and not in others: it is expected wherever it "
        "is seen among these cases, and may be seen in none.",
    )


@dataclass(frozen=True)
class Entry:
    """A known deviation. `where` is its file and line; `shared` is the variant whose deviation it is,
    where somebody's own recompute shares it."""

    cases: tuple[str, ...]
    variants: tuple[str, ...]
    check: str
    observed: str
    cause: str
    reason: str
    url: str
    where: str
    shared: str = ""
    strict: bool = True
    intermittent: bool = False

    @property
    def lenient(self) -> bool:
        """Whether a case that the entry names may lack the deviation."""
        return bool(self.shared) or self.intermittent or not self.strict

    def names_case(self, case: str) -> bool:
        """Whether the entry names this case, for any variant and check: the last pattern counts."""
        matching = [p for p in self.cases if _matcher(p.removeprefix("!"))(case)]
        return bool(matching) and not matching[-1].startswith("!")

    def covers(self, case: str, variant: str, check: str) -> bool:
        """Whether the entry is for this check of this case on this variant (a full id)."""
        return check == self.check and self.names_case(case) and self.names_variant(variant)

    def names_variant(self, variant: str) -> bool:
        """Whether the entry names this variant (a full id), for any case and check."""
        names = (variant, variant.split("/", 1)[-1])
        return any(_matcher(pattern)(name) for name in names for pattern in self.variants)

    def describes(self, verdict: Verdict) -> bool:
        """Whether the verdict is a deviation whose text (`fail: gradient of x is None, but …`) contains
        the entry's."""
        text = f"{verdict.status}: {verdict.message}\n{verdict.observed}"
        return verdict.status.deviates and self.observed in text


def read(file: Path, *, unfinished: bool = False) -> tuple[Entry, ...]:
    """The entries of a file, none where there is no file.

    Raises `KnownError` with file and line for what is malformed, and for an entry without a cause or
    a reason unless `unfinished` ones are wanted.
    """
    if not file.is_file():
        return ()
    marked = yaml_marks.read(file, KnownError, may_be_empty=True)
    if marked.value is None:
        return ()
    if not isinstance(marked.value, list):
        raise KnownError("expected a list of entries", where=file)
    return tuple(
        _entry(raw, f"{file}:{marked.at((number,)).line}", unfinished)
        for number, raw in enumerate(marked.value)
    )


def _entry(raw: object, where: str, unfinished: bool) -> Entry:
    try:
        model = EntryModel.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"] if part != "list[str]")
        raise KnownError(f"{place}: {first['msg']}", where=where) from error
    reason = (model.reason or "").strip()
    for what, value, hint in (
        ("reason", reason, "say why it deviates, and give the upstream url where there is one"),
        ("cause", model.cause, "give the cause a name, the same in all entries that it explains"),
    ):
        if not value and not unfinished:
            raise KnownError(f"a known deviation without a {what}", where=where, hint=hint)
    fields = model.model_dump(exclude={"case", "variant", "reason"})
    cases, variants = _several(model.case), _several(model.variant)
    return Entry(cases=cases, variants=variants, reason=reason, where=where, **fields)


def append(file: Path, added: Sequence[dict[str, object]]) -> None:
    """Write entries at the end of a file, and leave what stands there as it is."""
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


def _several(patterns: str | list[str]) -> tuple[str, ...]:
    return (patterns,) if isinstance(patterns, str) else tuple(patterns)


@functools.cache  # a list has more patterns than `fnmatch` remembers
def _matcher(pattern: str) -> Callable[[str], re.Match[str] | None]:
    # Ids hold brackets (`[depth=4]`), which stand for themselves here.
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]"))).match
