"""`conformance probe`: what somebody's own recompute offers, found by trying."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.console import Console
from rich.text import Text

from conformance.cli.options import (
    AdapterName,
    AdaptersFolder,
    CasesFolder,
    ImplementationAlways,
    ImplementationDiscipline,
    ImplementationName,
    ImplementationOptions,
    implementation_described,
)
from conformance.drivers.adapter import find_adapter
from conformance.drivers.implementation import Described
from conformance.errors import ConformanceError
from conformance.language.load import load_folder
from conformance.paths import Paths, find_paths
from conformance.run.prober import Probed, probe_implementation
from conformance.writing import write_text


def probe(
    adapter: AdapterName,
    implementation: ImplementationName = None,
    option: ImplementationOptions = [],  # noqa: B006 (typer copies it)
    always: ImplementationAlways = [],  # noqa: B006
    discipline: ImplementationDiscipline = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="File to write to [default: standard output]")
    ] = None,
    cases: CasesFolder = None,
    adapters_folder: AdaptersFolder = None,
) -> None:
    """Find what an implementation offers by trying, and write it as the file that `run` takes.

    Looks for how it is called, for the usual keywords, for what its reruns do and keep, for the variant
    of the framework that shows the same deviations, and for what it refuses with an error that says so.
    `conformance run --probe` does the same and then runs the cases.

    \b
    Example:
      conformance probe --adapter torch --implementation my.memory:checkpoint --output mine.yaml
      conformance run --adapter torch --implementation mine.yaml
    """
    described = implementation_described(implementation, option, always, discipline)
    if described is None:
        raise ConformanceError("name an implementation: --implementation package.module:function")
    probed = probe_and_print(adapter, described, find_paths(cases, adapters_folder))
    text = to_yaml(probed)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_text(output, text)
        typer.echo(f"implementation: {output}")


def probe_and_print(adapter: str, described: Described, paths: Paths) -> Probed:
    """Probe an implementation in an adapter, and print each thing found to standard error at once."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)

    def report(topic: str, result: str) -> None:
        console.print(Text(f"{topic}: ", style="bold").append(result, style="not bold"))

    owner = find_adapter(adapter, paths.adapters)
    return probe_implementation(owner, described, load_folder(paths.cases), paths, report)


def to_yaml(probed: Probed, *, folder: Path | None = None) -> str:
    """The implementation as the file that `run` takes, with comments on what could not be told.

    What it was described with, and so was not tried, is in it as well. A file that is to lie elsewhere
    than in `folder`, which paths are relative to, gets absolute ones, and the implementation's name.
    """
    model, capabilities = probed.described.model, probed.capabilities
    fields: dict[str, object] = {"function": model.function}
    fields |= model.model_dump(exclude={"function"}, exclude_defaults=True)
    if folder is not None:
        fields["name"] = probed.described.name
        fields["path"] = [str((folder / path).resolve()) for path in model.path]
    fields = {name: value for name, value in fields.items() if value is not None}
    comments = ["# Found by trying."]
    if model.discipline is None and not model.known:
        comments.append(
            "# No discipline fits its reruns: a run will say under `executions` what differs."
        )
    comments += [f"#   {misfit}" for misfit in probed.misfits]
    comments += [
        f"# Raises, and does not say that it refuses it, so that a run fails: {word} ({how})"
        for word, how in sorted(capabilities.faults.items())
    ]
    comments += [
        f"# Not told apart: {word} ({how})" for word, how in sorted(capabilities.unclear.items())
    ]
    return "\n".join([*comments, yaml.safe_dump(fields, sort_keys=False, width=96)])
