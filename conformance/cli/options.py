"""Options that several commands share, and how the shell completes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conformance.drivers.adapter import REFERENCE, Adapter, AdapterModel, all_adapters, find_adapter
from conformance.errors import CaseError, ConformanceError, nearest
from conformance.exits import Exit
from conformance.judge.known import read
from conformance.language.load import load_folder
from conformance.model.case import Case
from conformance.model.result import Results
from conformance.model.verdict import KnownNote
from conformance.oracle.interpreter import check_shapes, is_own
from conformance.paths import find_paths
from conformance.run.options import OPTIONS
from conformance.words import printable

if TYPE_CHECKING:
    from conformance.compare.releases import History
    from conformance.report.overview import Background


def _completing(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """A function that completes a word to one of these names."""

    def complete(incomplete: str) -> list[str]:
        try:
            return sorted({name for name in names() if name.startswith(incomplete)})
        except ConformanceError:
            return []

    return complete


_adapters = _completing(lambda: [a.name for a in all_adapters(find_paths().adapters)])
_variants = _completing(
    lambda: [
        name
        for adapter in all_adapters(find_paths().adapters)
        for variant in adapter.variants
        for name in (variant.name, variant.id)
    ]
)
_cases = _completing(lambda: [case.id for case in load_folder(find_paths().cases)])


def _option(name: str, words: str, complete: Callable[[str], list[str]] | None = None) -> Any:
    return typer.Option(name, help=words, autocompletion=complete, show_default=False)


def _option_of_a_run(name: str) -> Any:
    """An option with the same meaning as in a run."""
    told = OPTIONS[name]
    return typer.Option(name, metavar=told["metavar"], help=told["help"], show_default=False)


_AN_ADAPTER = "An adapter's name, or the path of its folder"
AdapterName = Annotated[str, _option("--adapter", f"{_AN_ADAPTER}.", _adapters)]
AdapterNames = Annotated[list[str], _option("--adapter", f"{_AN_ADAPTER}; repeatable.", _adapters)]
VariantName = Annotated[str, _option("--variant", "A variant's name.", _variants)]
DeviceName = Annotated[str, _option_of_a_run("--device")]
ImplementationName = Annotated[str | None, _option_of_a_run("--implementation")]
ImplementationOptions = Annotated[list[str], _option_of_a_run("--option")]
ImplementationAlways = Annotated[list[str], _option_of_a_run("--always")]
CaseName = Annotated[
    str,
    typer.Argument(metavar="CASE", help="A case's id.", autocompletion=_cases, show_default=False),
]
CasesFolder = Annotated[Path | None, _option("--cases", "The folder of case files.")]
AdaptersFolder = Annotated[Path | None, _option("--adapters-folder", "The folder of adapters.")]
ReportsFolder = Annotated[
    Path | None, _option("--reports", "The folder of results [default: reports/]")
]


def well_formed(folder: Path) -> tuple[tuple[Case, ...], Exit]:
    """The cases in a folder, and the exit code: malformed cases are reported and left out."""
    refused: list[CaseError] = []
    loaded = load_folder(folder, refused)
    for error in refused:
        typer.echo(f"error: {printable(str(error))}", err=True)
    return loaded, Exit.BAD_INPUT if refused else Exit.OK


def case_named(name: str, folder: Path) -> tuple[Case, Exit]:
    """The case of that id, and the exit code: other cases that are malformed are reported.

    Raises `ConformanceError` with the most similar id.
    """
    loaded, code = well_formed(folder)
    for case in loaded:
        if case.id == name:
            if not is_own(folder):
                check_shapes([case])
            return case, code
    hint = nearest(name, [case.id for case in loaded])
    hint = hint if hint.startswith("did you mean") else "`conformance list` shows all cases"
    hint = "correct the malformed cases above" if code else hint
    raise ConformanceError(f"there is no case {name!r}", hint=hint)


def adapters_named(names: list[str], folder: Path) -> tuple[Adapter, ...]:
    if names:
        return tuple(find_adapter(name, folder) for name in names)
    return all_adapters(folder)


def in_report_order(runs: Iterable[Results], folder: Path) -> list[Results]:
    """Results in the order of reports: by the `place` of their adapters, the reference last. An adapter
    that is not in the folder has the default place.
    """
    places = {adapter.name: adapter.model.place for adapter in all_adapters(folder)}
    default = AdapterModel.model_fields["place"].default

    def rank(run: Results) -> tuple[bool, int, str]:
        name = run.header.adapter
        return name == REFERENCE, places.get(name, default), name

    return sorted(runs, key=rank)


def history_with(adapter: Adapter, files: Iterable[Path]) -> History:
    """An adapter's history, with the runs in these files of results. Raises `ResultsError`."""
    from conformance import store
    from conformance.compare import releases

    history = releases.read(adapter.folder / "history.csv")
    return history.with_runs(map(store.read, files), adapter.model.packages[0])


def background(folder: Path, cases: Iterable[Case], reports: Path | None = None) -> Background:
    """What the report says that is not in its results: of the adapters in a folder, of cases, and of
    runs on other releases below `reports`."""
    from conformance.compare import releases
    from conformance.report.costs import read_seconds
    from conformance.report.overview import Background

    adapters = all_adapters(folder)
    variants = [variant for adapter in adapters for variant in adapter.variants]
    seconds: dict[str, tuple[str, float]] = {}
    notes: dict[tuple[str, str], KnownNote] = {}
    programs: dict[tuple[str, str], str] = {}
    histories: dict[str, releases.History] = {}
    for adapter in adapters:
        seconds |= read_seconds(adapter.name, adapter.folder)
        for entry in read(adapter.known, unfinished=True):
            notes.setdefault((adapter.name, entry.cause), entry.note)
        files = [] if reports is None else releases.stored(reports, adapter.name)
        histories[adapter.name] = history_with(adapter, files)
        for file in (adapter.folder / "reproducers").glob("*.py"):
            programs[adapter.name, file.stem] = file.read_text("utf-8")
    return Background(
        titles={variant.id: variant.model.title for variant in variants},
        seconds=seconds,
        advice={
            f"{a.name}/{name}": said for a in adapters for name, said in a.model.advice.items()
        },
        notes=notes,
        programs=programs,
        uses={case.id: case.use for case in cases},
        histories=histories,
    )
