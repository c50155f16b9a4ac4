"""Which check caught which fault, and how many are caught of all: the mutation score."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from conformance.results import Result
from rich import box
from rich.console import Console
from rich.table import Table

from conformance.model.verdict import Level, Status
from tests.faulty.faults import Fault

#: How a check catches: what a MUST that does not hold can end as.
CATCHES = (Status.FAIL, Status.CRASHED, Status.TIMEOUT)


@dataclass(frozen=True)
class Found:
    """What was found of one implementation (`fault` is None for the sound one): for each case the
    checks that caught it, by case."""

    framework: str
    fault: Fault | None
    caught: Mapping[str, tuple[str, ...]]

    @property
    def by_check(self) -> Counter[str]:
        """In how many cases each check caught it."""
        return Counter(check for checks in self.caught.values() for check in checks)

    @property
    def as_meant(self) -> bool:
        """Whether the check that is meant to catch it did, in the case that is meant to."""
        fault = self.fault
        return fault is not None and fault.check in self.caught.get(fault.case, ())


def caught(result: Result) -> tuple[str, ...]:
    """The checks that caught something in a result."""
    return tuple(
        dict.fromkeys(
            verdict.check
            for verdict in result.verdicts
            if verdict.status in CATCHES and verdict.level is Level.MUST
        )
    )


def print_table(found: Mapping[str, Found], reporter: pytest.TerminalReporter) -> None:
    """Fault × check, each cell the number of cases in which that check caught it; the check that is
    meant to is marked. Then the mutation score."""
    checks = sorted({check for item in found.values() for check in item.by_check})
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("fault", no_wrap=True)
    for check in checks:
        table.add_column(check, justify="right")
    table.add_column("meant to, by")
    for name, item in sorted(found.items()):
        fault = item.fault
        cells = []
        for check in checks:
            number = item.by_check[check]
            mark = "*" if fault is not None and fault.check == check and item.as_meant else ""
            cells.append(f"{number}{mark}" if number else "")
        meant = "nothing: it is sound" if fault is None else f"{fault.check}: {fault.case}"
        table.add_row(name, *cells, meant.replace("[", r"\["))
    console = Console(file=io.StringIO(), width=220, highlight=False)
    console.print(table)
    faults = [item for item in found.values() if item.fault is not None]
    score = sum(item.as_meant for item in faults)
    reporter.section("faults")
    reporter.write_line(console.file.getvalue().rstrip())  # type: ignore[attr-defined]
    share = 100 * score / len(faults) if faults else 0
    reporter.write_line(f"mutation score: {score} of {len(faults)} caught, {share:.0f} %")
