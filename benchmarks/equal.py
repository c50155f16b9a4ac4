"""Whether `conformance check` says the same each time.

    python benchmarks/equal.py examples/torch_gpt2.py [--runs 20]

Runs the command on each file that often, and compares what it prints, except for the line of the time.
Prints how many different answers there were, the first, and the lines in which they differ. The exit
status is 1 if there was more than one, or a check could not be done. Run it in an environment that has
the framework.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer


def answer(file: Path) -> tuple[str, ...]:
    """The lines that a check of a file prints, without the one of the time."""
    command = [sys.executable, "-m", "conformance", "check", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [f"exit status {ran.returncode}", *ran.stdout.splitlines()]
    return tuple(line for line in lines if not line.startswith("  time "))


def main(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", show_default=False)],
    runs: Annotated[int, typer.Option(help="How often each file is checked.")] = 20,
) -> None:
    """Check files several times, and say what differs."""
    equal = True
    for file in files:
        answers = Counter(answer(file) for _ in range(runs))
        print(f"{file.name}: {runs} runs, different answers: {len(answers)}", flush=True)
        print(*next(iter(answers)), sep="\n", flush=True)
        common = set.intersection(*map(set, answers))
        for found, number in answers.items():
            print(*(f"{number} × {line}" for line in found if line not in common), sep="\n")
        done = all(found[0] in ("exit status 0", "exit status 1") for found in answers)
        equal = equal and done and len(answers) == 1
    raise typer.Exit(int(not equal))


if __name__ == "__main__":
    typer.run(main)
