"""Checks the adapters' memory readings against the resident pages that the kernel reports.

    python benchmarks/rss.py torch [--variant non-reentrant] [--case memory/chain-each]

Run it in an environment that has the framework, on Linux with glibc. The cases are those of `memory`
with activations of 4 MiB, and all figures are in units of one activation. The exit status is 1 where a
difference exceeds the tolerance. See `pages.py` for how pages are measured.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from conformance.drivers.adapter import Adapter, Variant, find_adapter
from conformance.drivers.modules import load_file
from conformance.emit.programs import Key, write_programs
from conformance.language.features import required_by
from conformance.language.load import load_folder
from conformance.model.case import Case
from conformance.model.observation import Observation, Run
from conformance.model.program import Program
from conformance.observe.pool import Finished, Pool
from conformance.paths import find_paths

PAGES: Any = load_file(Path(__file__).resolve().with_name("pages.py"), "conformance_pages")
DEFAULT = ("memory/chain-each", "memory/chain-segments", "memory/chain-whole")
PATHS = ("plain", "recomputed")
#: Sizes of axes in the cases, and here: an activation is 4 MiB and a weight a 64th of it.
LARGE: Mapping[int, int] = {2048: 8192, 64: 128}
#: The same program with so few rows that nothing of an activation's size is touched.
SMALL: Mapping[int, int] = {2048: 16, 64: 128}
ACTIVATION = 8192 * 128 * 4
#: Activations: the greatest difference from the adapter's own reading.
TOLERANCE = 0.25


@dataclass(frozen=True)
class Settings:
    """What a framework needs so that the pages of its process tell.

    `environment` is set before its import. `pooled`: on the CPU too it has a pool of its own that
    never gives back. `wide` is how many bytes it has for one that it counts. `peak` is the greatest
    difference between peaks, in activations.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    pooled: bool = False
    wide: int = 1
    peak: float = 0.5


SETTINGS: Mapping[str, Settings] = {
    # What an operation lets go is freed by another thread, a little later.
    "jax": Settings(peak=1.25),
    "mindspore": Settings(pooled=True),
    # It counts the bytes of float32, and computes in float64.
    "reference": Settings(wide=2),
    # oneDNN's allocator would keep what it frees.
    "tf": Settings(environment={"TF_ONEDNN_USE_SYSTEM_ALLOCATOR": "1"}),
}


@dataclass(frozen=True)
class Compared:
    """One run of a case: what the adapter's observer read, and what pages tell. In activations."""

    variant: str
    case: str
    path: str
    retained: float
    retained_pages: float
    peak: float | None
    peak_pages: float | None

    def misses(self) -> tuple[str, ...]:
        """What differs by more than the tolerance."""
        found = []
        if abs(self.retained - self.retained_pages) > TOLERANCE:
            found.append("retained")
        if self.peak is not None and self.peak_pages is not None:
            limit = SETTINGS.get(self.variant.split("/")[0], Settings()).peak
            if abs(self.peak - self.peak_pages) > limit:
                found.append("peak")
        return tuple(found)


def compared(
    adapter: Adapter,
    pairs: Sequence[tuple[Case, Variant]],
    folder: Path,
    *,
    paths: Sequence[str] = PATHS,
    peak: bool = True,
    observe: Callable[[Program], Observation] | None = None,
) -> Iterator[Compared]:
    """Each run measured both ways. Pairs whose retained memory cannot be observed are left out.

    `observe` is how an adapter's observer is asked; if left out, in a worker process of its own. Where
    no `peak` is asked for, and the framework gives back what it frees, one process measures all `paths`
    of a program.
    Raises `BrokenAdapterError` where a program cannot be measured, and `RuntimeError` where it
    cannot be observed.
    """
    large = _programs(adapter, pairs, LARGE, folder / "large")
    small = _programs(adapter, pairs, SMALL, folder / "small")
    settings = SETTINGS.get(adapter.name, Settings())
    if observe is not None:
        observed = {key: observe(program) for key, program in large.items()}
    else:
        with Pool(adapter, folder / "log") as pool:
            observed = {key: _observed(pool, program) for key, program in large.items()}
    for key, program in large.items():
        if "retained memory" in observed[key].unobserved:
            continue
        own = adapter.variant(program.variant).model.environment
        environment = {**adapter.model.environment, **own, **settings.environment}
        together: Iterator[Any] | None = None
        if not (peak or settings.pooled):
            together = iter(PAGES.measure_retained(adapter.folder, program, paths, environment))
        for path in paths:
            run: Run = getattr(observed[key], path)
            if run.retained is None:
                raise RuntimeError(f"nothing was observed: {key} {run.error}")
            pages = (
                next(together)
                if together is not None
                else PAGES.measure(
                    adapter.folder,
                    program,
                    path,
                    environment,
                    warm_up=small[key] if settings.pooled else None,
                    pooled=ACTIVATION if settings.pooled else 0,
                    peak=peak,
                )
            )
            yield _compared(key, path, run, pages, ACTIVATION * settings.wide)


def _compared(key: Key, path: str, run: Run, pages: Any, activation: int) -> Compared:
    assert run.retained is not None
    return Compared(
        variant=key[1],
        case=key[0],
        path=path,
        retained=run.retained / ACTIVATION,
        retained_pages=pages.retained / activation,
        peak=None if run.peak is None else run.peak / ACTIVATION,
        peak_pages=None if pages.peak is None else pages.peak / activation,
    )


def _programs(
    adapter: Adapter, pairs: Sequence[tuple[Case, Variant]], sizes: Mapping[int, int], folder: Path
) -> dict[Key, Program]:
    found: dict[Key, Program] = {}
    of_size = [(PAGES.scaled(case, sizes), variant) for case, variant in pairs]
    for key, program in write_programs(adapter, of_size, folder).items():
        if not isinstance(program, Program):
            raise RuntimeError(f"{key}: {program.message}")
        found[key] = program
    return found


def _observed(pool: Pool, program: Program) -> Observation:
    outcome = pool.observe(program)
    if not isinstance(outcome, Finished):
        raise RuntimeError(f"{program.case} on {program.variant}: {outcome}")
    return outcome.observation


def main(
    adapter: Annotated[str, typer.Argument(help="The adapter's name or folder.")],
    variant: Annotated[list[str], typer.Option(help="Variants; all of them if left out.")] = [],  # noqa: B006
    case: Annotated[list[str], typer.Option(help="Case ids.")] = list(DEFAULT),  # noqa: B006
) -> None:
    """Print retained and peak memory, measured both ways."""
    reason = PAGES.unavailable()
    if reason is not None:
        raise typer.BadParameter(f"nothing can be measured here: {reason}")
    paths = find_paths()
    found = find_adapter(adapter, paths.adapters)
    variants = [found.variant(name) for name in variant] or found.variants
    cases = [c for c in load_folder(paths.cases) if c.id in case]
    pairs = [(c, v) for v in variants for c in cases if not required_by(c) & set(v.model.lacks)]
    table = Table(title=f"{found.model.title}: memory in activations of 4 MiB")
    for column in ("variant", "case", "run"):
        table.add_column(column, no_wrap=True)
    for column in ("retained", "by pages", "difference", "peak", "by pages", "difference"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("too far apart")
    failed, seen = False, set()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="conformance-benchmark-") as folder:
        for row in compared(found, pairs, Path(folder)):
            console.print(f"{row.variant} {row.case} {row.path}", style="dim")
            seen.add(row.variant)
            failed = failed or bool(row.misses())
            table.add_row(*_cells(row))
    console.print(table)
    for unseen in [v.id for v in variants if v.id not in seen]:
        console.print(f"{unseen}: lacks what the cases need, or retained memory is not observed")
    raise typer.Exit(1 if failed else 0)


def _cells(row: Compared) -> list[str]:
    cells = [row.variant, row.case, row.path]
    for native, pages in ((row.retained, row.retained_pages), (row.peak, row.peak_pages)):
        cells += ["-" if value is None else f"{value:.2f}" for value in (native, pages)]
        known = native is not None and pages is not None
        cells.append(f"{pages - native:+.3f}" if known else "-")
    return [*cells, ", ".join(row.misses())]


if __name__ == "__main__":
    typer.run(main)
