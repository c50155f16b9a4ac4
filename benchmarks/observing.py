"""What observing costs: the time of each pass over a program, as a ratio to running it unwatched.

    python benchmarks/observing.py torch [--case basics/mlp-block] [--repeats 20]

Run it in an environment that has the framework. All figures come from one run on one machine, so that
they can be compared with each other and with nothing else.
"""

from __future__ import annotations

import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from conformance.adapter import find_adapter
from conformance.capabilities import required_by
from conformance.load import load_folder
from conformance.observation import Run
from conformance.places import find_places
from conformance.program import Program
from conformance.programs import write_programs
from conformance.worker import entry
from conformance.worker.observer import load_program

DEFAULT = ("basics/mlp-block", "randomness/two-dropouts", "memory/chain-each")


def main(
    adapter: Annotated[str, typer.Argument(help="The adapter's name or folder.")],
    case: Annotated[list[str], typer.Option(help="Case ids.")] = list(DEFAULT),  # noqa: B006
    repeats: Annotated[int, typer.Option(help="How often each pass runs.", min=3)] = 10,
) -> None:
    """Print the median time of each pass as a ratio to the unwatched run."""
    folder = tempfile.mkdtemp(prefix="conformance-benchmark-")
    places = find_places(reports=Path(folder) / "reports")
    found = find_adapter(adapter, places.adapters)
    os.environ.update(found.model.environment)
    os.chdir(folder)
    cases = [c for c in load_folder(places.cases) if c.id in case]
    table = Table(title=f"time of each pass over the unwatched run, {found.model.title}")
    for column in ("variant", "case", "run", "values", "executions", "retained memory"):
        name = column in ("variant", "case")
        table.add_column(column, justify="left" if name else "right", no_wrap=name)
    for variant in found.variants:
        wanted = [(c, variant) for c in cases if not required_by(c) & set(variant.model.lacks)]
        for (identity, _), program in write_programs(found, wanted, places.reports).items():
            if isinstance(program, Program):
                row = _row(str(found.folder), program, repeats)
                table.add_row(variant.id, identity, *row)
    Console().print(table)


def _row(folder: str, program: Program, repeats: int) -> list[str]:
    observer = entry.observer(folder, program.adapter, program.variant)
    module = load_program(program)
    forward = module.recomputed
    gc.collect()  # as the worker does before each program
    gc.freeze()
    unwatched = _median(lambda: module.run(forward), repeats)
    hidden = observer.unobserved(program)
    passes: list[tuple[str, Callable[[], object]]] = [
        ("value", lambda: observer.values(program, module, forward)),
        ("executions", lambda: observer.count(program, module, forward, Run())),
        ("retained memory", lambda: observer.retained(program, module, forward)),
    ]
    row = [f"{unwatched * 1e3:.2f} ms"]
    for name, call in passes:
        row.append("-" if name in hidden else f"{_median(call, repeats) / unwatched:.1f}")
    return row


def _median(call: Callable[[], object], repeats: int) -> float:
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


if __name__ == "__main__":
    typer.run(main)
