"""What a run is asked for: cases, adapters with their variants, and what is known to deviate."""

from __future__ import annotations

import fnmatch
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from conformance.drivers.adapter import CPU, Adapter, Variant, find_adapter
from conformance.drivers.implementation import Described, adapt
from conformance.errors import AdapterError, ConformanceError, nearest
from conformance.judge.known import Catalog, Entry, bound, in_release, read
from conformance.language.hashing import cases_hash
from conformance.language.load import load_folder
from conformance.model.case import Case
from conformance.model.result import Pair
from conformance.observe.pool import completed
from conformance.oracle.interpreter import check_shapes, is_own
from conformance.paths import Paths, find_paths
from conformance.run.programs import OwnProgram, programs_of

#: By option, how a header names the limit: of a case on a variant, and of a worker.
LIMITS = {"time_limit": "seconds", "memory_limit": "GiB"}
_SHARD = re.compile(r"([1-9]\d{0,3})/([1-9]\d{0,3})")


@dataclass(frozen=True)
class Shard:
    """The `number`-th (from 1) of `of` parts of a run. A checksum of a pair's name says which part it is
    in, so that every machine divides the run alike."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """The shard that is written `2/4`. Raises `ConformanceError` for anything else."""
        match = _SHARD.fullmatch(text)
        if match is None or int(match[1]) > int(match[2]):
            hint = "write --shard 2/4 for the second of four parts"
            raise ConformanceError(f"found --shard {text!r}, expected NUMBER/OF", hint=hint)
        return cls(int(match[1]), int(match[2]))

    def __contains__(self, pair: Pair) -> bool:
        case, variant = pair
        return zlib.crc32(f"{case}[{variant}]".encode()) % self.of + 1 == self.number

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


@dataclass(frozen=True)
class Chosen:
    """An adapter with those of its variants that run."""

    adapter: Adapter
    variants: tuple[Variant, ...]
    known: tuple[Entry, ...]
    #: Those of its programs that are about these variants.
    programs: tuple[OwnProgram, ...] = ()


@dataclass(frozen=True)
class Selection:
    """The cases of a folder, the adapters that they run on, and which part of that runs here."""

    paths: Paths
    cases: tuple[Case, ...]
    chosen: tuple[Chosen, ...]
    shard: Shard | None = None
    #: The ids of the cases and programs that were asked for, by name or as smoke cases.
    wanted: frozenset[str] = frozenset()
    #: The limits on the command line, as a header says them.
    limits: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def hash(self) -> str:
        """The hash of all these cases, whichever of them are wanted."""
        return cases_hash(self.cases)


def select(
    adapters: Sequence[str],
    variants: Sequence[str],
    paths: Paths,
    described: Described | None = None,
    known: Path | None = None,
    *,
    smoke: bool = False,
    named: Sequence[str] = (),
    limits: Mapping[str, float] = MappingProxyType({}),
    shard: str = "",
    release: Callable[[str], str] | None = None,
    device: str = CPU,
) -> Selection:
    """Read what a run needs. A variant is named alone or with its adapter (`torch/reentrant`);
    `described` is somebody's own recompute, to be put in the place of one adapter's, and `known` a
    list of known deviations that takes the place of one adapter's, or a variant (`torch/reentrant`)
    that shares its own with somebody's recompute. `named` are patterns of the ids of cases, all if there
    are none; of these, `smoke` chooses the smoke cases. `limits` (`LIMITS`) take the place of the
    adapters'. `release` says which release of the adapter of a name runs, where it does not run here;
    `device` where programs run.

    Raises `ConformanceError` for anything that does not exist or is malformed.
    """
    for name, value in limits.items():
        if not 0 < value < float("inf"):
            option = f"--{name.replace('_', '-')}"
            raise ConformanceError(f"found {option} {value:g}, expected a number above 0")
    found = [find_adapter(name, paths.adapters).on(device) for name in dict.fromkeys(adapters)]
    selected = [replace(a, model=a.model.model_copy(update=dict(limits))) for a in found]
    selected = _on_cluster(selected, described, release)
    shares: list[str] = []
    if described is not None:
        if len(selected) != 1:
            raise AdapterError("--implementation needs exactly one --adapter")
        if known is not None and not known.suffix:
            described = described.changed(known=[*described.model.known, str(known)])
            known = None
        described = completed(selected[0], described)
        shares = described.model.known
        described = built_on(described, shares, paths.adapters)
        selected = [adapt(selected[0], described)]
    if known is not None:
        if len(selected) != 1:
            raise AdapterError("--known needs exactly one --adapter")
        if not known.is_file():
            raise AdapterError("there is no such file of known deviations", where=known)
        selected = [replace(selected[0], deviations=known)]
    names = [adapter.name for adapter in selected]
    for name in names:
        if names.count(name) > 1:
            raise AdapterError(f"two adapters are named {name!r}", where=paths.adapters)
    all_variants = [variant for adapter in selected for variant in adapter.variants]
    for name in variants:
        if not any(name in (v.name, v.id) for v in all_variants):
            hint = nearest(name, [v.id if "/" in name else v.name for v in all_variants])
            raise AdapterError(f"there is no variant {name!r} in {', '.join(names)}", hint=hint)
    cases = load_folder(paths.cases)
    if not is_own(paths.cases):
        check_shapes(cases)
    catalog = Catalog(cases)
    by_adapter = [
        (a, tuple(v for v in a.variants if not variants or {v.name, v.id} & set(variants)))
        for a in selected
    ]
    chosen = tuple(
        Chosen(
            adapter,
            of_adapter,
            bound((*_known(adapter), *_shared(shares, paths)), catalog),
            _programs(adapter, of_adapter),
        )
        for adapter, of_adapter in by_adapter
    )
    ids = [case.id for case in cases]
    ids += [program.id for one in chosen for program in one.programs]
    wanted = _wanted(named, ids, paths)
    if smoke:
        wanted &= {case.id for case in cases if case.smoke}
    part = Shard.parse(shard) if shard else None
    told = {LIMITS[name]: value for name, value in limits.items()}
    return Selection(paths, cases, chosen, part, wanted, told)


def _on_cluster(
    adapters: list[Adapter], own: Described | None, release: Callable[[str], str] | None
) -> list[Adapter]:
    if release is None:
        return adapters
    if len(adapters) != 1 or own is not None:
        hint = "one --adapter for each command, and no --implementation"
        raise AdapterError("--scheduler runs one framework's own recompute", hint=hint)
    return [replace(adapters[0], on_cluster=release(adapters[0].name))]


def _programs(adapter: Adapter, variants: Sequence[Variant]) -> tuple[OwnProgram, ...]:
    """The programs about the chosen variants. They call the framework's own recompute, so there are none
    for somebody's function in its place."""
    if adapter.implementation is not None:
        return ()
    names = {variant.name for variant in variants}
    return tuple(one for one in programs_of(adapter) if one.variant in names)


def _wanted(patterns: Sequence[str], ids: Sequence[str], paths: Paths) -> frozenset[str]:
    """The ids that patterns name (`growth/*`; brackets stand for themselves), or all."""
    names: set[str] = set() if patterns else set(ids)
    for pattern in patterns:
        matching = fnmatch.filter(ids, pattern.replace("[", "[[]"))
        if not matching:
            hint = nearest(pattern, ids)
            hint = hint if hint.startswith("did you mean") else "`conformance list` shows all cases"
            raise AdapterError(f"there is no case {pattern!r}", where=paths.cases, hint=hint)
        names.update(matching)
    return frozenset(names)


def built_on(described: Described, variants: Sequence[str], adapters: Path) -> Described:
    """The implementation with what its description leaves out taken from the variants (full ids) that it
    is built on: discipline and residuals from the first, refusals from all."""
    if not variants:
        return described
    names = [name.partition("/") for name in variants]
    models = [find_adapter(owner, adapters).variant(variant).model for owner, _, variant in names]
    own, first = described.model, models[0]
    refused = [model.refuses for model in reversed(models)]
    update: dict[str, object] = {
        "refuses": {w: r for refuses in (*refused, own.refuses) for w, r in refuses.items()}
    }
    if own.discipline is None:
        update["discipline"] = first.discipline
    if first.residuals and own.residuals is None and own.discipline in (None, first.discipline):
        update["residuals"] = first.residuals
    return described.changed(**update)


def _known(adapter: Adapter) -> tuple[Entry, ...]:
    """The known deviations of the release that is installed, on the device where programs run."""
    return in_release(read(adapter.known), adapter.release, adapter.device)


def _shared(variants: Iterable[str], paths: Paths) -> tuple[Entry, ...]:
    """The known deviations of these variants (full ids), as somebody's own recompute shares them."""
    entries: list[Entry] = []
    for name in variants:
        owner, _, variant = name.partition("/")
        adapter = find_adapter(owner, paths.adapters)
        shared = adapter.variant(variant).id
        known = (entry for entry in _known(adapter) if entry.names_variant(shared))
        entries += (replace(entry, variants=("*",), shared=shared) for entry in known)
    return tuple(entries)


def unused(
    known: Sequence[Entry], covered: Collection[int], cases: Sequence[Case], paths: Paths
) -> tuple[Entry, ...]:
    """The known deviations that explain nothing in a whole run of these cases.

    `covered` are the positions in their list of those that speak of a result. Those of the suite's own
    cases are left out where others were run in their place, and so are those with features: they
    are about programs, and in each judged program that has the features the deviation has to show.
    """
    try:
        folder = find_paths(adapters=paths.adapters).cases
        own = () if folder == paths.cases else load_folder(folder)
    except ConformanceError:  # an installation without cases of its own
        own = ()
    absent = {case.id for case in own} - {case.id for case in cases}
    known = bound(known, Catalog([*own, *cases]))
    return tuple(
        entry
        for position, entry in enumerate(known)
        if entry.cases and not entry.lenient and position not in covered
        if not any(map(entry.names_case, absent))
    )
