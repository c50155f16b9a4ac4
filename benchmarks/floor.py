"""What the suite costs beyond the programs that it runs: CPU seconds of `conformance run`, as a ratio
to running the same programs bare.

    python benchmarks/floor.py torch/non-reentrant torch/reentrant
    python benchmarks/floor.py jax                    # all variants of an adapter, as one run
    python benchmarks/floor.py torch/reentrant,method,wrapper     # some of them, as one run
    python benchmarks/floor.py torch/reentrant --update    # and write the rows into README.md

The floor is one process with one thread that imports the framework and then imports each program
that the run has emitted, and calls `run(plain)` and `run(recomputed)` once each. Variants that need
another environment have a process of their own. A program that ends the process costs the import of
the next one, which is left out. What the suite does beyond that (reading cases, writing programs,
watching them, the reference, judging, results) is in the ratio.

Run it in an environment that has the framework. Both figures are CPU seconds, of all threads and child
processes, measured one after the other on one machine: the ratio means something elsewhere, the
seconds do not.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from conformance.drivers.adapter import Adapter, Variant, find_adapter
from conformance.paths import Paths, find_paths

#: One thread, whatever an adapter's own environment says besides.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
#: Seconds after which a program is given up; those that never end are cases, too.
LIMIT = 120
README = Path(__file__).parent / "README.md"
_ROWS = "<!-- floor -->"


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a run and of its programs run bare. `lost` programs ended their process."""

    name: str
    programs: int
    lost: int
    floor: float
    run: float

    @property
    def ratio(self) -> float:
        return self.run / self.floor

    def cells(self) -> tuple[str, ...]:
        """As a row of a table."""
        lost = f" ({self.lost} ended the process)" if self.lost else ""
        figures = (f"{self.floor:.1f}", f"{self.run:.1f}", f"{self.ratio:.2f}")
        return (self.name, f"{self.programs}{lost}", *figures)


HEADINGS = ("variant", "programs", "floor, CPU s", "run, CPU s", "ratio")


def measure(
    name: str, adapter: Adapter, variants: Sequence[Variant], paths: Paths, words: Sequence[str]
) -> Cost:
    """The cost of one run of these variants, and of the programs that it has emitted."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", "from conformance.cli import main; main()", "run"]
        command += ["--adapter", str(adapter.folder), "--reports", folder, "-q"]
        command += ["--cases", str(paths.cases), "--adapters-folder", str(paths.adapters)]
        command += [word for variant in variants for word in ("--variant", variant.name)]
        before = _children()
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
        run = _children() - before
        if done.returncode not in (0, 1):  # 1: unexpected verdicts, which cost what others cost
            raise typer.BadParameter(f"the run of {name} failed:\n{done.stdout}{done.stderr}")
        floor, programs, lost = 0.0, 0, 0
        for environment, files in _programs(adapter, variants, Path(folder)):
            seconds, ended = bare(adapter, environment, files, Path(folder))
            floor, programs, lost = floor + seconds, programs + len(files), lost + ended
    return Cost(name, programs, lost, floor, run)


def _programs(
    adapter: Adapter, variants: Sequence[Variant], folder: Path
) -> Iterator[tuple[Mapping[str, str], list[Path]]]:
    """The emitted programs of variants that share an environment, and the environment."""
    beside = set(adapter.model.beside)
    groups: dict[tuple[tuple[str, str], ...], list[Path]] = defaultdict(list)
    for variant in variants:
        environment = adapter.model.environment | variant.model.environment
        found = sorted((folder / "programs" / variant.id).rglob("*.py"))
        key = tuple(sorted(environment.items()))
        groups[key] += [file for file in found if file.name not in beside]
    for key, files in groups.items():
        yield dict(key), files


def bare(
    adapter: Adapter, environment: Mapping[str, str], files: Sequence[Path], folder: Path
) -> tuple[float, int]:
    """CPU seconds of importing the framework and running the programs, and how many of these ended
    their process."""
    asked, answers = folder / "asked.json", folder / "answers"
    answers.unlink(missing_ok=True)
    waiting, lost = list(files), 0
    while waiting:
        asked.write_text(json.dumps([str(file) for file in waiting]), "utf-8")
        command = [sys.executable, "-W", "ignore", __file__, "--bare", str(asked), str(answers)]
        subprocess.run(
            [*command, str(adapter.model.memory_limit)],
            env=os.environ | ONE_THREAD | environment,
            cwd=folder,
            capture_output=True,
            check=False,
        )
        ran = {json.loads(line)["file"] for line in answers.read_text("utf-8").splitlines()}
        left = [file for file in waiting if str(file) not in ran]
        lost += bool(left)
        waiting = left[1:]  # the first of those without an answer has ended the process
    lines = [json.loads(line) for line in answers.read_text("utf-8").splitlines()]
    imports = [line["seconds"] for line in lines if not line["file"]]
    return imports[0] + sum(line["seconds"] for line in lines if line["file"]), lost


def _bare(asked: Path, answers: Path, gibibytes: float) -> None:
    """In the process of the floor: import the framework, as the first program does, then run what is
    asked for, and note the seconds of each."""
    limit = int(gibibytes * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    files = [Path(name) for name in json.loads(asked.read_text("utf-8"))]
    with answers.open("a", encoding="utf-8", buffering=1) as out:
        _load(files[0], "program")
        out.write(json.dumps({"file": "", "seconds": _used()}) + "\n")
        for number, file in enumerate(files):
            before = _used()
            signal.alarm(LIMIT)
            _run(file, f"program_{number}")
            signal.alarm(0)
            seconds = _used() - before
            out.write(json.dumps({"file": str(file), "seconds": seconds}) + "\n")


def _used() -> float:
    """CPU seconds of this process so far, those of compilers that it has started included."""
    return time.process_time() + _children()


def _load(file: Path, name: str) -> ModuleType:
    """Import the program as a module; it can import the files beside it."""
    sys.path.insert(0, str(file.parent))
    try:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def _run(file: Path, name: str) -> None:
    """Run a program plain and recomputed. That it raises may be what its case asks for."""
    module = _load(file, name)
    for path in ("plain", "recomputed"):
        with contextlib.suppress(Exception):
            module.run(getattr(module, path))


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(costs: Sequence[Cost]) -> Table:
    """For the terminal."""
    made = Table(*HEADINGS)
    for cost in costs:
        made.add_row(*cost.cells())
    return made


def update(text: str, costs: Sequence[Cost]) -> str:
    """The README with these rows between its marks, in the place of those of the same name."""
    head, _, rest = text.partition(f"{_ROWS}\n")
    old, _, tail = rest.partition(f"{_ROWS}\n")
    rows = {line.split("|")[1].strip(): line for line in old.splitlines()[2:]}
    rows |= {
        f"`{c.name}`": "| " + " | ".join((f"`{c.name}`", *c.cells()[1:])) + " |" for c in costs
    }
    lines = [f"| {' | '.join(HEADINGS)} |", "|---|---|---|---|---|"]
    lines += [rows[name] for name in sorted(rows)]
    return head + "\n".join([_ROWS, *lines, _ROWS, ""]) + tail


def main(
    names: Annotated[list[str], typer.Argument(help="Adapters, or adapter/variant,variant.")],
    keyword: Annotated[str, typer.Option("-k", help="Only these cases, as pytest takes it.")] = "",
    write: Annotated[bool, typer.Option("--update", help="Write into README.md.")] = False,
) -> None:
    """Measure, print the table, and write it where that is asked for."""
    paths = find_paths()
    costs: list[Cost] = []
    for name in names:
        adapter_name, _, wanted = name.partition("/")
        adapter = find_adapter(adapter_name, paths.adapters)
        one_run = tuple(map(adapter.variant, wanted.split(","))) if wanted else adapter.variants
        words = ["-k", keyword] if keyword else []
        costs.append(measure(name, adapter, one_run, paths, words))
        Console().print(table(costs[-1:]))
        if write:
            README.write_text(update(README.read_text("utf-8"), costs[-1:]), "utf-8")
    if len(costs) > 1:
        Console().print(table(costs))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bare"]:
        _bare(Path(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4]))
    else:
        typer.run(main)
