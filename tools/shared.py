"""What the tools share: results, names in registers, and how a tool runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from conformance.cli import options
from conformance.cli.compare import read_all
from conformance.drivers.adapter import all_adapters
from conformance.errors import ConformanceError, nearest
from conformance.language.load import load_folder
from conformance.model.case import Case
from conformance.model.result import Results
from conformance.report.overview import Background
from conformance.writing import write_text

ROOT = Path(__file__).resolve().parent.parent
ADAPTERS = ROOT / "adapters"


class RegisterError(ConformanceError):
    """A register is malformed, or names what does not exist."""


def check_name(kind: str, name: str, known: Iterable[str], where: object) -> None:
    """Raise `RegisterError` for a name of a variant or a check that does not exist."""
    if name not in known:
        raise RegisterError(f"no {kind} {name!r}", where=where, hint=nearest(name, known))


def cases_named(name: str, cases: Sequence[Case], where: object) -> tuple[Case, ...]:
    """The cases with that id; an id without axes means all expansions. Raises `RegisterError`."""
    found = tuple(case for case in cases if name in (case.id, _bare(case)))
    if not found:
        check_name("case", name, {_bare(case) for case in cases}, where)
        raise RegisterError(f"no case {name!r}", where=where)
    return found


def _bare(case: Case) -> str:
    return case.id.partition("[")[0]


def variants() -> list[str]:
    """The full ids of the variants of all adapters."""
    return [variant.id for adapter in all_adapters(ADAPTERS) for variant in adapter.variants]


def read_runs(reports: Path) -> list[Results]:
    """The results in a folder of the adapters in `adapters/`, in the order of reports.

    Raises `ResultsError`. Says on standard error which run is not whole, or of part of the cases.
    """
    own = {adapter.name for adapter in all_adapters(ADAPTERS)}
    runs = [run for run in read_all([], reports) if run.header.adapter in own]
    for run in runs:
        for part in filter(None, (run.lacks, run.header.selection)):
            print(f"{run.path} is not whole: {part}", file=sys.stderr)
    return options.in_report_order(runs, ADAPTERS)


def background() -> Background:
    """What pages say that is not in results: of the adapters and the cases of this checkout."""
    return options.background(ADAPTERS, load_folder(ROOT / "cases"))


Maker = Callable[[Sequence[Results]], Mapping[str, str]]


def write_pages(made: Mapping[str, str], root: Path = ROOT) -> None:
    """Write pages, given by their paths below `root`, and print these. Raises `WriteError`."""
    for name, text in made.items():
        write_text(root / name, text)
        print(name)


def main(make: Maker, description: str | None) -> None:
    """Run a tool that makes pages of the results in a folder. Exits with a message on bad input."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "reports",
        type=Path,
        nargs="?",
        default=ROOT / "reports",
        help="folder with the results of all adapters [default: reports/]",
    )
    parser.add_argument(
        "--to", type=Path, default=ROOT, help="folder to write to [default: this checkout]"
    )
    given = parser.parse_args()
    leaving(lambda: write_pages(make(read_runs(given.reports)), given.to))


def leaving(run: Callable[[], None]) -> None:
    """Run; bad input is one message on standard error and the exit code of the error."""
    try:
        run()
    except ConformanceError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
