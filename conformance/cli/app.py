"""The application: its commands, and what becomes of an error."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from conformance import __version__
from conformance.cli import (
    behaviours,
    bug,
    cases,
    compare,
    coverage,
    diff,
    documents,
    frameworks,
    history,
    known,
    merge,
    probe,
    recorded,
    report,
    run,
    smoke,
)
from conformance.errors import ConformanceError

EXIT_CODES = """\b
Exit codes:
  0  nothing unexpected
  1  unexpected verdicts
  2  bad input: a case, an option, a file of results
  3  an adapter cannot run: its framework is missing or does not start"""

app = typer.Typer(
    name="conformance",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
    help="Check that recomputation (activation checkpointing) keeps its promise: the same values, "
    "gradients and random numbers, for one more run of the region and less memory.",
)
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
app.command(context_settings=PASS_ON, epilog=EXIT_CODES)(run.run)
app.command(epilog=EXIT_CODES)(merge.merge)
app.command(epilog=EXIT_CODES)(probe.probe)
app.command(epilog=EXIT_CODES)(compare.compare)
app.command(epilog=EXIT_CODES)(diff.diff)
app.command(epilog=EXIT_CODES)(history.history)
app.command(epilog=EXIT_CODES)(report.report)
app.command(epilog=EXIT_CODES)(behaviours.behaviours)
app.command(epilog=EXIT_CODES)(frameworks.frameworks)
app.command(epilog=EXIT_CODES)(documents.documents)
app.command(epilog=EXIT_CODES)(bug.bug)
app.command("list")(cases.list_cases)
app.command()(cases.show)
app.command()(cases.emit)
app.command()(cases.schema)
app.command()(cases.adapters)
app.command()(known.known)
app.command()(recorded.recorded)
app.command()(smoke.smoke)
app.command(epilog=EXIT_CODES)(coverage.coverage)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def conformance(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print it and leave."),
    ] = False,
) -> None:
    """Set nothing: options belong to commands."""


def run_app() -> None:
    """Run a command. Bad input is one message on standard error and the error's exit code."""
    try:
        app()
    except ConformanceError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(0)
