"""Where cases and adapters lie, and where reports go."""

from dataclasses import dataclass
from pathlib import Path

from conformance.errors import ConformanceError

_PACKAGE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Paths:
    """Absolute folders: `cases` and `adapters` exist, `reports` is made when needed."""

    cases: Path
    adapters: Path
    reports: Path


def find_paths(
    cases: Path | None = None,
    adapters: Path | None = None,
    reports: Path | None = None,
    *,
    package: Path = _PACKAGE,
) -> Paths:
    """The folders: as given, else beside the package in a checkout, else in the installed wheel.

    Reports go to `reports/` in the current directory unless told otherwise. Raises
    `ConformanceError` where a folder does not exist.
    """
    return Paths(
        cases=_folder("cases", cases, package),
        adapters=_folder("adapters", adapters, package),
        reports=(reports or Path("reports")).absolute(),
    )


def _folder(name: str, given: Path | None, package: Path) -> Path:
    if given is not None:
        if not given.is_dir():
            raise ConformanceError(f"no such folder of {name}", where=given)
        return given.resolve()
    # Beside an installed package, folders of these names belong to somebody else.
    checkout = package.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / name).is_dir():
        return checkout / name
    if (package / name).is_dir():
        return package / name
    raise ConformanceError(
        f"found no {name}, neither beside the package nor inside it",
        where=package,
        hint="name the folder with an option",
    )
