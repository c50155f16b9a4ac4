"""What observing costs: the time of each pass over a program, as a ratio to running it unwatched.

    python benchmarks/observing.py torch [--variant selective] [--case basics/mlp-block] [--repeats 5]

Run it in an environment that has the framework. Programs are observed as the worker observes them,
and the passes are timed meanwhile; the unwatched run of the same program comes between them. A pass
that runs a program several times is divided by how often. All figures come from one run on one
machine, so that they can be compared with each other and with nothing else.
"""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from conformance.drivers.adapter import Adapter, Variant, find_adapter
from conformance.emit.programs import write_programs
from conformance.language.features import required_by
from conformance.language.load import load_folder
from conformance.model.case import Case
from conformance.model.program import Program
from conformance.observe.worker import entry
from conformance.observe.worker.loaded import LoadedProgram
from conformance.paths import find_paths

#: Where none is named, each variant is measured on the first of these that it runs to its end.
DEFAULT = (
    "memory/chain-segments",
    "growth/each-layer[n=16]",
    "sequences/segments[k=2]",
    "sequences/segments[k=1]",
    "documents/resnet-single-relu",
)
#: Methods of an observer, and the column that their time goes to.
PASSES = {"values": "values", "count": "executions", "retained": "memory"}
#: What an adapter has beside the common passes, such as a peak of its own, is the rest.
COLUMNS = (*PASSES.values(), "rest")


class ProgramError(Exception):
    """A program raised an error, and there is nothing to time."""


class Stopwatch:
    """Times the passes of an observer over the recomputed run, and the run itself beside them."""

    def __init__(self, observer: Any) -> None:
        self.observer = observer
        #: Seconds of one run, unwatched or under a pass, by column.
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self._spent: Counter[str] = Counter()
        self._runs = 0
        for method in (*PASSES, "run"):
            setattr(observer, method, self._timed(method, getattr(observer, method)))

    def observe(self, program: Program) -> None:
        """Observe the plain and the recomputed run, as the worker does."""
        gc.collect()
        gc.freeze()
        self.observer.observe(program)

    def _timed(self, method: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(loaded: LoadedProgram, *rest: Any) -> Any:
            if loaded.path != "recomputed":
                return call(loaded, *rest)
            if method == "run":
                return self._whole(call, loaded, *rest)
            before = self._runs
            start = time.perf_counter()
            result = call(loaded, *rest)
            spent = time.perf_counter() - start
            self.seconds[PASSES[method]].append(spent / max(1, self._runs - before))
            self._spent["passes"] += spent
            if method == "values":
                if result.error is not None:
                    raise ProgramError(f"{loaded.program.file}: {result.error.message}")
                self._unwatched(loaded)
            return result

        return timed

    def _whole(self, call: Callable[..., Any], loaded: LoadedProgram, *rest: Any) -> Any:
        """All passes of a run, with those that an adapter has beside the common ones."""
        self._spent = Counter()

        def counted(**changes: Any) -> Any:
            self._runs += 1
            return loaded.run(**changes)

        start = time.perf_counter()
        result = call(replace(loaded, run=counted), *rest)
        whole = time.perf_counter() - start
        self.seconds["rest"].append(whole - self._spent.total())
        return result

    def _unwatched(self, loaded: LoadedProgram) -> None:
        start = time.perf_counter()
        for _ in range(2):
            before = time.perf_counter()
            loaded.run()
            self.observer.wait()
            self.seconds["run"].append(time.perf_counter() - before)
        self._spent["unwatched"] += time.perf_counter() - start


def main(
    adapter: Annotated[str, typer.Argument(help="The adapter's name or folder.")],
    variant: Annotated[list[str], typer.Option(help="Only these variants.")] = [],  # noqa: B006
    case: Annotated[list[str], typer.Option(help="Case ids, in place of the usual ones.")] = [],  # noqa: B006
    repeats: Annotated[int, typer.Option(help="How often each program is observed.", min=2)] = 5,
) -> None:
    """Print the median time of each pass as a ratio to the unwatched run."""
    paths = find_paths()
    found = find_adapter(adapter, paths.adapters)
    loaded = {c.id: c for c in load_folder(paths.cases)}
    cases = [loaded[name] for name in case or DEFAULT]
    chosen = [v for v in found.variants if not variant or v.name in variant]
    table = Table(title=f"time of each pass over the unwatched run, {found.model.title}")
    for column in ("variant", "case", "run", *COLUMNS):
        name = column in ("variant", "case")
        table.add_column(column, justify="left" if name else "right", no_wrap=name)
    if len(chosen) == 1:
        with tempfile.TemporaryDirectory(prefix="conformance-benchmark-") as folder, chdir(folder):
            rows = _measured(found, chosen[0], cases, repeats, len(case) or 1)
        for identity, row in rows:
            table.add_row(chosen[0].id, escape(identity), *row)
        Console(width=120).print(table)
        return
    # What a variant needs in its environment is read when the framework is imported.
    options = [word for name in case for word in ("--case", name)]
    for one in chosen:
        words = [sys.executable, __file__, adapter, "--variant", one.name, *options]
        subprocess.run([*words, "--repeats", str(repeats)], check=False)


def _measured(
    adapter: Adapter, variant: Variant, cases: list[Case], repeats: int, most: int
) -> list[tuple[str, list[str]]]:
    """A row of the table for each case that the variant runs, `most` of them; programs go to the current
    folder."""
    os.environ.update({**adapter.model.environment, **variant.model.environment})
    able = [c for c in cases if not required_by(c) & set(variant.model.lacks)]
    wanted = [(c, variant) for c in able]
    watch = Stopwatch(entry.observer(str(adapter.folder), variant.name))
    rows: list[tuple[str, list[str]]] = []
    for (identity, _), program in write_programs(adapter, wanted, Path.cwd()).items():
        if not isinstance(program, Program) or len(rows) == most:
            continue
        try:
            watch.observe(program)  # the first fills caches
            watch.seconds.clear()
            for _ in range(repeats):
                watch.observe(program)
        except ProgramError as error:
            print(error, file=sys.stderr)
        else:
            rows.append((identity, _row(watch.seconds)))
    return rows


def _row(seconds: dict[str, list[float]]) -> list[str]:
    run = statistics.median(seconds["run"])
    ratios = [statistics.median(seconds[c]) / run if seconds[c] else None for c in COLUMNS]
    return [f"{run * 1e3:.2f} ms", *map(_figure, ratios)]


def _figure(ratio: float | None) -> str:
    """Two figures, and nothing below a hundredth."""
    if ratio is None:
        return "–"
    return f"{ratio:.2g}" if ratio >= 0.01 else "0"


if __name__ == "__main__":
    typer.run(main)
