"""Checks one program in this process: what the command `conformance check` calls in its worker."""

from __future__ import annotations

import faulthandler
import os
import platform
import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, NamedTuple

from conformance.drivers.installed import version
from conformance.drivers.modules import load_file, load_module
from conformance.model.checked import Checked
from conformance.observe.worker.checking.base import Framework
from conformance.observe.worker.checking.session import Session, raised_by
from conformance.observe.worker.checking.steps import check_program, check_training

#: The module that the program's file becomes.
_NAME = "checked_program"


class Request(NamedTuple):
    """What is to be checked: the file, absolute, and whether it has `model` and `loss` or else `run`."""

    file: str
    trains: bool
    steps: int
    bisect: bool
    packages: tuple[str, ...]
    time_limit: float


#: Where the process says which run it is in, for a message if it dies: `NOW` in its own folder.
#: And `STACK` is what Python is running when it dies or is about to be late.
NOW, STACK = "now.txt", "stack.txt"
_folder: list[Path] = []
_stack: list[IO[str]] = []


def start(environment: Mapping[str, str], folder: str, scratch: str) -> None:
    """Prepare the process. The program's own folder is searched first, as for `python FILE`."""
    for name, value in environment.items():
        os.environ.setdefault(name, value)
    sys.path.insert(0, folder)
    _folder.append(Path(scratch))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)


def check(adapter: str, request: Request) -> Checked:
    """Run a program with and without recomputation. Raises where the suite is at fault."""
    for folder in _folder:
        _stack.append((folder / STACK).open("w"))
        faulthandler.enable(_stack[-1])
        faulthandler.dump_traceback_later(0.9 * request.time_limit, file=_stack[-1])
    framework: Framework = load_module(Path(adapter), "checking").Framework()
    framework.observer.warm_up()
    regions = framework.regions(request.file)
    versions = _versions(request.packages)
    name = Path(adapter).name
    try:
        file = load_file(Path(request.file), _NAME)
        missing = _missing(file, request.trains)
        if missing:
            raise TypeError(missing)
    except BaseException as error:  # `sys.exit` in it is an error of the file's, too
        seen = raised_by(error, request.file, 0, "import")
        return Checked(name, versions, plain_raised=seen)
    session = Session(framework, file, request.file, regions)
    session.tell = lambda text: _folder and (_folder[0] / NOW).write_text(text)
    run = check_training if request.trains else check_program
    nothing = Checked(name, versions, unit=framework.unit, told=tuple(framework.told))
    return run(session, nothing, request.steps, request.bisect)


def _missing(file: ModuleType, trains: bool) -> str:
    names: Sequence[str] = ("model", "batch", "loss") if trains else ("plain", "recomputed", "run")
    lacking = [name for name in names if not callable(getattr(file, name, None))]
    return f"no function {' or '.join(map(repr, lacking))} is defined" if lacking else ""


def _versions(packages: Sequence[str]) -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in packages:
        versions[package] = version(package)
    return versions
