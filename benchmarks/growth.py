"""Whether a run grows in proportion to what it is given: more cases, and longer programs.

    python benchmarks/growth.py cases reference --sizes 10,100,1000,10000
    python benchmarks/growth.py cases torch/non-reentrant --sizes 10,100,1000
    python benchmarks/growth.py statements torch/non-reentrant --sizes 10,100,1000,10000

`cases` generates that many small cases (chains in a region, of different lengths and with other
numbers each), runs them, and prints CPU seconds per case beyond what a run of one case costs, and the
most memory that the process that judges had. `statements` generates one case of that many statements,
in regions of a hundred, observes its program as the worker does, and prints CPU seconds per statement,
beside those of the program run bare. A column divides each row by the first: 1 means that the run grows
in proportion.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.console import Console
from rich.table import Table

from conformance.drivers.adapter import Adapter, Variant, find_adapter
from conformance.drivers.modules import load_file
from conformance.emit.programs import write_programs
from conformance.language.load import load_folder
from conformance.model.program import Program
from conformance.observe.worker import entry
from conformance.paths import find_paths

app = typer.Typer(add_completion=False, help=__doc__)
#: Statements of the regions of the generated cases.
LENGTHS = (2, 3, 5)
#: Statements of one region.
LONGEST = 100
#: Cases of one file: no file may hold more than 200,000 values.
IN_A_FILE = 500
#: Runs of a size below this are made three times, of which the quickest counts: a few milliseconds of
#: a case are little beside what a run costs in itself.
SMALL = 1000
MIB = 2**20


def write_cases(folder: Path, number: int, lengths: Sequence[int]) -> None:
    """A file of cases, each a chain of statements of one of the lengths, in regions of at most
    `LONGEST`."""
    cases = {}
    for index in range(number):
        length = lengths[index % len(lengths)]
        program = []
        for start in range(0, length, LONGEST):
            names = [f"h{place}" for place in range(start, min(start + LONGEST, length) + 1)]
            body = [f"{after} = sin({before})" for before, after in pairwise(names)]
            region = {"recompute": f"chain-{start}", "takes": names[0], "gives": names[-1]}
            program.append(region | {"body": body})
        cases[f"chain-{index}"] = {
            "title": f"A chain of {length} statements, the {index}th",
            "source": "generated",
            "why": "To see what a run costs.",
            "inputs": {"h0": {"shape": [2, 2], "full": 1.0 + index / 1000}},
            "program": program,
            "outputs": f"h{length}",
            "gradients": {"of": f"sum(h{length})"},
        }
    folder.mkdir(parents=True, exist_ok=True)
    named = list(cases.items())
    for start in range(0, number, IN_A_FILE):
        part = {"family": f"generated-{start}", "cases": dict(named[start : start + IN_A_FILE])}
        text = yaml.safe_dump(part, sort_keys=False)
        (folder / f"generated-{start}.yaml").write_text(text, "utf-8")


@app.command()
def cases(
    name: Annotated[str, typer.Argument(help="An adapter, or adapter/variant.")],
    sizes: Annotated[str, typer.Option(help="Numbers of cases.")] = "10,100,1000,10000",
) -> None:
    """Runs of more and more small cases."""
    table = Table("cases", "CPU s", "ms per case", "against the first", "MiB of the judge")
    alone = quickest(name, 1)[0]
    first = 0.0
    for size in map(int, sizes.split(",")):
        seconds, peak = quickest(name, size)
        each = (seconds - alone) / max(1, size - 1) * 1000
        first = first or each
        row = (f"{seconds:.1f}", f"{each:.1f}", f"{each / first:.2f}", f"{peak:.0f}")
        table.add_row(f"{size:,}", *row)
    Console().print(table)


def quickest(name: str, number: int) -> tuple[float, float]:
    """What `run_of` gives for the quickest of three runs, where they are short."""
    return min(run_of(name, number) for _ in range(3 if number < SMALL else 1))


def run_of(name: str, number: int) -> tuple[float, float]:
    """CPU seconds of a run of so many cases, worker included, and the most MiB that its own process
    had."""
    paths = find_paths()
    adapter, _, variant = name.partition("/")
    with tempfile.TemporaryDirectory() as folder:
        write_cases(Path(folder) / "cases", number, LENGTHS)
        command = [sys.executable, __file__, "judge", "--adapter", adapter, "-q"]
        command += ["--variant", variant] if variant else []
        # A whole run would complain about known deviations that none of these cases shows.
        command += ["-k", "generated"]
        command += ["--cases", f"{folder}/cases", "--reports", f"{folder}/reports"]
        command += ["--adapters-folder", str(paths.adapters)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise typer.BadParameter(f"the run failed:\n{done.stdout}{done.stderr}")
        peak = float(done.stdout.splitlines()[-1])
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, peak


def judge(arguments: Sequence[str]) -> None:
    """`conformance run`, and then the most MiB that this process had."""
    from conformance.cli import main

    code = 0
    sys.argv = ["conformance", "run", *arguments]
    try:
        main()
    except SystemExit as left:
        code = int(left.code or 0)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MIB)
    raise SystemExit(code)


@app.command()
def statements(
    name: Annotated[str, typer.Argument(help="adapter/variant")],
    sizes: Annotated[str, typer.Option(help="Numbers of statements.")] = "10,100,1000,10000",
) -> None:
    """One program of more and more statements."""
    paths = find_paths()
    adapter_name, _, variant_name = name.partition("/")
    adapter = find_adapter(adapter_name, paths.adapters)
    variant = adapter.variant(variant_name) if variant_name else adapter.variants[0]
    os.environ.update(adapter.model.environment | variant.model.environment)
    table = Table("statements", "bare, ms each", "observed, ms each", "against the first", "ratio")
    first = 0.0
    for size in map(int, sizes.split(",")):
        bare, observed = (seconds / size * 1000 for seconds in observing(adapter, variant, size))
        first = first or observed
        row = (
            f"{bare:.3f}",
            f"{observed:.3f}",
            f"{observed / first:.2f}",
            f"{observed / bare:.1f}",
        )
        table.add_row(f"{size:,}", *row)
    Console().print(table)


def observing(adapter: Adapter, variant: Variant, size: int) -> tuple[float, float]:
    """CPU seconds of running a program of so many statements bare, plain and recomputed, and of
    observing it."""
    with tempfile.TemporaryDirectory() as folder:
        write_cases(Path(folder) / "cases", 1, (size,))
        pairs = [(case, variant) for case in load_folder(Path(folder) / "cases")]
        (program,) = write_programs(adapter, pairs, Path(folder)).values()
        if not isinstance(program, Program):
            raise typer.BadParameter(program.message)
        entry.observe(str(adapter.folder), program)  # the first fills caches
        start = time.process_time()
        entry.observe(str(adapter.folder), program)
        observed = time.process_time() - start
        module = load_file(Path(program.file), "bare")
        start = time.process_time()
        for path in ("plain", "recomputed"):
            module.run(getattr(module, path))
        return time.process_time() - start, observed


if __name__ == "__main__":
    if sys.argv[1:2] == ["judge"]:
        judge(sys.argv[2:])
    else:
        app()
