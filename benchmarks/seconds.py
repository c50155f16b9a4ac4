"""How long a step takes with recompute, as a ratio to the same step without.

    .tox/torch/bin/python benchmarks/seconds.py torch

Runs the program that costs are measured on in each variant of an adapter that offers it: each in a
process of its own with the adapter's environment, plain and recomputed by turns, some rounds of both
unmeasured. What counts are CPU seconds of the process, of each the least of all rounds, so that other
work on the machine does not count. Inputs are made within a step. A variant that compiles in every step
is left out, as its plain step takes far longer than that of the quickest one in that environment: there
the ratio would be that of two compilations.

Writes `seconds.json` into the adapter's folder, with the version that was measured; reports show it
beside results of that version.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from conformance.cli.options import case_named
from conformance.drivers.adapter import Variant, find_adapter
from conformance.drivers.modules import load_file
from conformance.emit.programs import EmitFailure, texts
from conformance.language.features import required_by
from conformance.paths import find_paths
from conformance.report.costs import PROGRAM, SECONDS
from conformance.writing import write_text

app = typer.Typer(add_completion=False, help=__doc__)
#: Rounds that are not measured, and that are.
WARM, ROUNDS = 2, 9
#: How much longer a variant's plain step may take than the quickest one's, if it does not compile.
LONGEST = 2.0
#: Seconds for one variant.
LIMIT = 400.0


@app.command()
def measure(names: Annotated[list[str], typer.Argument(help="Adapters.")]) -> None:
    """Measure all variants of these adapters."""
    paths = find_paths()
    case = case_named(PROGRAM, paths.cases)
    for name in names:
        adapter = find_adapter(name, paths.adapters)
        asked = required_by(case)
        found: dict[str, tuple[float, float]] = {}
        for variant in adapter.variants:
            only = variant.model.only
            if asked & {*variant.model.lacks, *variant.model.refuses}:
                continue
            if only is not None and only.leaves_out(case.id):
                continue
            text = texts(adapter, [(case, variant)])[case.id, variant.id]
            if isinstance(text, EmitFailure):
                typer.echo(f"{variant.id}: not written: {text.message}")
                continue
            pair = _in_a_process(text.text, variant, adapter.model.environment, adapter.beside)
            if pair is not None:
                found[variant.name] = pair
        version = importlib.metadata.version(adapter.model.packages[0])
        least: dict[str, float] = {}
        for name, (plain, _) in found.items():
            setting = str(adapter.variant(name).model.environment)
            least[setting] = min(plain, least.get(setting, plain))
        ratios = {
            name: round(recomputed / plain, 2)
            for name, (plain, recomputed) in found.items()
            if plain <= LONGEST * least[str(adapter.variant(name).model.environment)]
        }
        said = {"program": PROGRAM, "version": version, "ratios": ratios}
        write_text(adapter.folder / SECONDS, json.dumps(said, indent=1) + "\n")


def _in_a_process(
    text: str, variant: Variant, environment: Mapping[str, str], beside: Mapping[str, Path]
) -> tuple[float, float] | None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"
        file.write_text(text, "utf-8")
        for name, other in beside.items():
            shutil.copy(other, Path(folder) / name)
        own = {**environment, **variant.model.environment}
        command = [sys.executable, __file__, "step", str(file)]
        try:
            done = subprocess.run(
                command,
                env={**os.environ, **own},
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
                timeout=LIMIT,
            )
        except subprocess.TimeoutExpired:
            typer.echo(f"{variant.id}: no end within {LIMIT:g} s")
            return None
    if done.returncode:
        typer.echo(f"{variant.id}: {done.stderr.strip().splitlines()[-1:]}")
        return None
    plain, recomputed, first = map(float, done.stdout.split()[-3:])
    typer.echo(
        f"{variant.id}: {recomputed / plain:.2f}; plain {plain * 1000:.0f} ms, the first "
        f"{first * 1000:.0f} ms"
    )
    return plain, recomputed


@app.command()
def step(file: Path) -> None:
    """Print the CPU seconds of a plain and of a recomputed step of a program, and of the first."""
    module = load_file(file, "program")
    seconds: dict[str, list[float]] = {"plain": [], "recomputed": []}
    for _ in range(WARM + ROUNDS):
        for path, taken in seconds.items():
            start = time.process_time()
            result = module.run(getattr(module, path))
            for gradient in result["gradients"].values():
                np.asarray(gradient)
            taken.append(time.process_time() - start)
    least = [min(taken[WARM:]) for taken in seconds.values()]
    typer.echo(f"{least[0]} {least[1]} {seconds['plain'][0]}")


if __name__ == "__main__":
    app()
