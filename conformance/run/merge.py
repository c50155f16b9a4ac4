"""Shards of a run, put together: one run's results again, in the order of a run that was not divided.

Shards that do not belong together are refused with `ComparisonError`, one message for what is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from conformance.errors import ComparisonError
from conformance.model.case import Case
from conformance.results import Footer, Header, Result, Results, cases_hash, make_footer
from conformance.run.shards import Pair, Shard, parse

_RUN_AGAIN = "run the shards anew, from the same checkout and with the same options"
#: What the headers of shards share, and what it is called.
_SHARED: Mapping[str, str] = {
    "adapter": "adapters",
    "suite": "versions of the suite",
    "implementation": "implementations",
    "variants": "variants",
    "cases": "cases",
    "selection": "selections",
    "disciplines": "disciplines of the variants",
    "accuracy": "accuracies of the variants",
    "limits": "limits",
    "selected": "numbers of cases and variants",
}
#: Shown and not compared: machines of one kind differ in it from week to week.
_PLATFORM = "platform"


@dataclass(frozen=True)
class Merged:
    """A whole run: what `conformance.results.write` takes."""

    header: Header
    results: tuple[Result, ...]
    footer: Footer


def merge(shards: Sequence[Results], cases: Sequence[Case]) -> Merged:
    """The run that these are the shards of; `cases` are those of the checkout, in order.

    Raises `ComparisonError` where they are not all shards of one run.
    """
    numbers = _numbers(shards)
    first = shards[0]
    for other in shards[1:]:
        _belong(first, other)
    _complete(first, numbers)
    if first.header.cases != cases_hash(cases):
        raise ComparisonError(
            "these shards are of other cases than those here",
            where=first.path,
            hint="name the folder of cases that they were run with: --cases DIR",
        )
    _each_once(shards)
    position = {case.id: i for i, case in enumerate(cases)}
    variants = {variant: i for i, variant in enumerate(first.header.variants)}
    results = sorted(
        (result for shard in shards for result in shard.results),
        key=lambda result: (position.get(result.case, len(position)), variants[result.variant]),
    )
    platforms = sorted(
        {s.header.versions[_PLATFORM] for s in shards if _PLATFORM in s.header.versions}
    )
    header = replace(
        first.header,
        versions={
            **first.header.versions,
            **({_PLATFORM: ", ".join(platforms)} if platforms else {}),
        },
        started=min(shard.header.started for shard in shards),
        shard="",
        selected=0,
    )
    seconds: Counter[str] = Counter()
    for shard in shards:
        seconds.update(shard.footer.seconds)
    return Merged(header, tuple(results), make_footer(results, seconds))


def _numbers(shards: Sequence[Results]) -> dict[Shard, Path]:
    """Which shards there are, none of them twice, and all of the same number of parts."""
    files: dict[Shard, Path] = {}
    for results in shards:
        if not results.header.shard:
            raise ComparisonError("this is a whole run, and no shard", where=results.path)
        shard = parse(results.header.shard)
        if shard in files:
            raise ComparisonError(
                f"shard {shard} of {results.header.adapter} is there twice",
                where=f"{files[shard]}, {results.path}",
                hint="take one of them out",
            )
        files[shard] = results.path
    counts = sorted({shard.of for shard in files})
    if len(counts) > 1:
        numbers = " and ".join(str(count) for count in counts)
        raise ComparisonError(
            f"shards of runs in {numbers} parts: {_named(files)}",
            hint="take those of an earlier run out",
        )
    return files


def _belong(first: Results, other: Results) -> None:
    """Raise `ComparisonError` where two shards cannot be of one run."""
    where = f"{first.path}, {other.path}"
    for name, words in _SHARED.items():
        value, other_value = getattr(first.header, name), getattr(other.header, name)
        if value != other_value:
            raise ComparisonError(
                f"shards of different {words}: {difference(value, other_value)}", where=where
            )
    versions = [
        {name: version for name, version in results.header.versions.items() if name != _PLATFORM}
        for results in (first, other)
    ]
    if versions[0] != versions[1]:
        raise ComparisonError(
            f"shards of different versions: {difference(*versions)}",
            where=where,
            hint="install the same everywhere",
        )


def difference(a: object, b: object) -> str:
    """Two values in words; of mappings, the first entry in which they differ."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        name = next(n for n in sorted({*a, *b}) if a.get(n) != b.get(n))
        return f"{name} {_word(a.get(name))} and {_word(b.get(name))}"
    return f"{_word(a)} and {_word(b)}"


def _word(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(part) for part in value)
    return "none" if value in (None, "") else str(value)


def _complete(first: Results, files: Mapping[Shard, Path]) -> None:
    """Raise `ComparisonError` where a shard is missing."""
    of = next(iter(files)).of
    missing = [s for number in range(1, of + 1) if (s := Shard(number, of)) not in files]
    if missing:
        verb = "shards are" if len(missing) > 1 else "shard is"
        raise ComparisonError(
            f"{first.header.adapter}: {len(missing)} of {of} {verb} missing: "
            + ", ".join(str(shard) for shard in missing),
            where=first.path.parent,
            hint=f"conformance run --adapter {first.header.adapter} --shard {missing[0]}",
        )


def _each_once(shards: Sequence[Results]) -> None:
    """Raise `ComparisonError` where a result is there twice, or missing."""
    seen: dict[Pair, Path] = {}
    for shard in shards:
        for result in shard.results:
            pair = (result.case, result.variant)
            if pair in seen:
                raise ComparisonError(
                    f"{result.case} on {result.variant} is in two shards",
                    where=f"{seen[pair]}, {shard.path}",
                    hint=f"their splits differ: {_RUN_AGAIN}",
                )
            seen[pair] = shard.path
    selected = shards[0].header.selected
    if len(seen) != selected:
        raise ComparisonError(
            f"{len(seen)} of {selected} results: a shard stopped early (-x, an interrupt), "
            "or their splits differ",
            where=shards[0].path.parent,
            hint=_RUN_AGAIN,
        )


def _named(shards: Mapping[Shard, Path]) -> str:
    return ", ".join(path.name for path in shards.values())
