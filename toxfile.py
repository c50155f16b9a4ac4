"""Environments for releases: `tox run -e jax-0.6.2` runs the cases on that release of JAX, and
`tox run -e jax-latest` on the newest that can be installed, `tox run -e tf-nightly` on last night's
build. Results go to `reports/jax-0.6.2/`.

The release takes the place of the pin in `adapters/jax/requirements.txt`; `adapters/jax/releases.txt`
lists the releases that are looked after, each with what else has to be installed with it and with the
Python that it needs (`python3.12`), if not 3.11, and what a nightly build is made of.
"""

import re
from pathlib import Path

from packaging.requirements import Requirement
from tox.config.loader.memory import MemoryLoader
from tox.config.sets import CoreConfigSet
from tox.config.types import Command
from tox.plugin import impl
from tox.session.state import State
from tox.tox_env.python.pip.req_file import PythonDeps

_ROOT = Path(__file__).parent
_ADAPTERS = _ROOT / "adapters"
_PYTHON = re.compile(r"python\d+\.\d+")
_RELEASE = re.compile(r"(?P<adapter>[a-z]+)-(?P<release>latest|nightly|\d+(?:\.\w+)+)")


def requirements(adapter: Path, release: str) -> list[str]:
    """What is installed for a release: the pins of the newest, but for what its line in `releases.txt`
    says; of its first package, the release. Raises `OSError` for a folder without requirements."""
    pinned = [line.partition("#")[0].strip() for line in _lines(adapter / "requirements.txt")]
    further = [word for word in _words(adapter, release) if not _PYTHON.fullmatch(word)]
    if release == "nightly":
        return further
    framework = Requirement(pinned[0])
    extras = f"[{','.join(framework.extras)}]" if framework.extras else ""
    own = {Requirement(text).name: text for text in pinned[1:]}
    own |= {Requirement(text).name: text for text in further}
    version = "" if release == "latest" else f"=={release}"
    return [f"{framework.name}{extras}{version}", *own.values()]


def python(adapter: Path, release: str) -> str:
    """The Python that a release runs on: the one that its line in `releases.txt` names, or 3.11."""
    return next(filter(_PYTHON.fullmatch, _words(adapter, release)), "python3.11")


def _words(adapter: Path, release: str) -> list[str]:
    """What the line of a release in `releases.txt` says beside the release."""
    lines = [line.split() for line in _lines(adapter / "releases.txt")]
    return next((words for name, *words in lines if name == release), [])


def _lines(file: Path) -> list[str]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [line for line in lines if line.strip() and not line.startswith("#")]


@impl
def tox_extend_envs() -> list[str]:
    """The names that tox would refuse: it takes numbers for factors, and no other words."""
    files = sorted(_ADAPTERS.glob("*/releases.txt"))
    nightly = [file for file in files if any(line.startswith("nightly ") for line in _lines(file))]
    return [f"{f.parent.name}-latest" for f in files] + [
        f"{f.parent.name}-nightly" for f in nightly
    ]


@impl
def tox_add_core_config(core_conf: CoreConfigSet, state: State) -> None:
    """Configure the environments that are asked for and are named after a release."""
    for name in re.split(r"[,\s]+", str(getattr(state.conf.options, "env", ""))):
        found = _RELEASE.fullmatch(name)
        if found and (_ADAPTERS / found["adapter"] / "requirements.txt").is_file():
            loader = MemoryLoader(**_environment(name, **found.groupdict(), state=state))
            state.conf.memory_seed_loaders[name].append(loader)


def _environment(name: str, adapter: str, release: str, state: State) -> dict[str, object]:
    run = ["conformance", "run", "--adapter", adapter, "--reports", f"{_ROOT}/reports/{name}"]
    run += ["--cases", f"{_ROOT}/cases", "--adapters-folder", str(_ADAPTERS)]
    return {
        "description": f"Run the cases on {adapter} {release}",
        "base_python": [python(_ADAPTERS / adapter, release)],
        "deps": PythonDeps("\n".join(requirements(_ADAPTERS / adapter, release)), _ROOT),
        "commands": [Command([*run, *(state.conf.pos_args(None) or ())])],
    }
