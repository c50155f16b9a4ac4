"""docs/history.md: in which releases of each framework the known deviations show.

python tools/history.py [reports]

Results in `reports/<adapter>.db` and in `reports/<adapter>-<release>/`, where `tox run -e jax-0.6.2`
leaves them, take the place of what `adapters/<adapter>/history.csv` has of their releases. The page is
made of these files alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

from conformance.cli import options
from conformance.compare.releases import UNEXPECTED, History, in_words, stored, written
from conformance.drivers.adapter import Adapter, all_adapters
from conformance.judge.known import read as read_known
from conformance.words import counted
from tools.shared import ADAPTERS, ROOT, leaving, write_pages

PAGE = "docs/history.md"
_OPENING = """\
# Releases

Made by `python tools/history.py` from `adapters/*/history.csv`. `tox run -e jax-0.6.2` runs the cases on
one release; `adapters/*/releases.txt` lists those that are looked after. A number says in how many pairs
(case and variant) a deviation shows, – that it does not show; a field is empty where none of its pairs
ran. Some runs are of the smoke cases alone, so compare numbers only where as many pairs ran.
"""


def main() -> None:
    """Add the results of a folder to the histories, and make the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("reports", type=Path, nargs="?", help="folder with the results")
    given = parser.parse_args()
    leaving(lambda: write_pages(pages(given.reports)))


def pages(reports: Path | None) -> Mapping[str, str]:
    """The histories that results change, and the page; by their paths. Raises `ResultsError`."""
    made: dict[str, str] = {}
    told: list[str] = [_OPENING]
    for adapter in sorted(all_adapters(ADAPTERS), key=lambda a: a.model.place):
        found = [] if reports is None else stored(reports, adapter.name)
        if reports is not None and (newest := reports / f"{adapter.name}.db").is_file():
            found.append(newest)
        history = options.history_with(adapter, found)
        if found:
            file = adapter.folder / "history.csv"
            made[str(file.relative_to(ROOT))] = written(history)
        if len(history.releases) > 1:
            told += section(adapter, history)
    return made | {PAGE: "\n".join(told) + "\n"}


def section(adapter: Adapter, history: History) -> Iterator[str]:
    """The part of the page on one framework: a table of what changed."""
    says = {entry.cause: entry.reason for entry in read_known(adapter.known)}
    says[UNEXPECTED] = "Deviations without a cause."
    changed = [row for row in history.rows if row.changed]
    always = len(history.rows) - len(changed)
    yield f"## {adapter.model.title}\n"
    yield f"| | {' | '.join(history.releases)} |"
    yield f"|---|{'---|' * len(history.releases)}"
    yield f"| pairs that ran | {' | '.join(f'{history.pairs[r]:,}' for r in history.releases)} |"
    for row in changed:
        change = ", ".join(in_words(history, row))
        told = f"`{row.cause}`, {change}: {says.get(row.cause, '').replace('|', '&#124;')}"
        yield f"| {told} | {' | '.join(map(_number, row.shows))} |"
    yield f"\nThe other {counted(always, 'cause')} show in each release that ran their pairs.\n"


def _number(shows: int | None) -> str:
    return "" if shows is None else f"{shows:,}" if shows else "–"


if __name__ == "__main__":
    main()
