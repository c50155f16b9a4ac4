"""`conformance coverage`: what of other suites' tests, and of upstream defects, the cases cover."""

from __future__ import annotations

from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from conformance.cli.options import AdaptersFolder, CasesFolder
from conformance.drivers.adapter import all_adapters
from conformance.errors import ConformanceError
from conformance.judge.known import read
from conformance.language.load import load_folder
from conformance.paths import find_paths
from conformance.report import coverage as covered


def coverage(
    lines: Annotated[
        bool, typer.Option("--lines", help="Every test and defect, with the cases that cover it.")
    ] = False,
    cases: CasesFolder = None,
    adapters_folder: AdaptersFolder = None,
) -> None:
    """Say what the cases cover: tests of the frameworks' own suites, and upstream defects.

    A defect counts where a MUST fails because of it; what is noted, or unsupported, is counted apart.

    \b
    Examples:
      conformance coverage
      conformance coverage --lines | grep vmap
    """
    paths = find_paths(cases=cases, adapters=adapters_folder)
    listed = covered.read(paths.cases / covered.FILE)
    loaded = load_folder(paths.cases)
    adapters = all_adapters(paths.adapters)
    covered.validate(listed, loaded, [v.id for a in adapters for v in a.variants])
    known = {adapter.name: read(adapter.known) for adapter in adapters}
    unexplained = covered.unexplained(listed, loaded, known)
    if unexplained:
        raise ConformanceError("\n".join(unexplained), hint="add it to the adapter's known.yaml")
    console = Console(highlight=False, soft_wrap=True)
    if lines:
        for line in listed:
            what = Text(f"{line.framework} {line.subject}", style="bold")
            covering = ", ".join(line.cases) or "not covered"
            where = f" [{', '.join(line.variants)}] {line.check}" if line.variants else ""
            why = f" ({line.why})" if line.why else ""
            failed = ", fails" if covered.fails(line, listed, loaded, known) else ""
            console.print(what, Text(f"  {covering}{where}{failed}{why}"), sep="\n")
        return
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("covered by a case", no_wrap=True)
    table.add_column("")
    for fraction in covered.fractions(listed, loaded, known):
        table.add_row(fraction.title, str(fraction))
    console.print(table)
