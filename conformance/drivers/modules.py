"""Imports Python files: an adapter's folder as a package, and single files by their path.

Separate from `conformance.drivers.adapter`, so that workers, which start often, import less.
"""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from conformance.errors import AdapterError, ConformanceError
from conformance.paths import find_paths


def load_module(folder: Path, name: str) -> ModuleType:
    """The file `<name>.py` of the adapter in `folder`, as a module; loaded once per process.

    The folder is treated as a package, wherever it is: its files may import each other
    (`from . import x`, `from .x import y`) and other adapters (`from ..torch import storages`). A
    framework is imported only if the file does so. Raises `AdapterError` if there is no such file, and
    whatever the file raises.
    """
    folder = folder.resolve()
    if "." in folder.name:
        raise AdapterError(
            f"the name of an adapter's folder has no dot, as a Python package's: {folder.name!r}",
            where=folder,
        )
    if not (folder / f"{name}.py").is_file():
        raise AdapterError(f"no such file: {name}.py", where=folder)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    package = "conformance_adapters_" + hashlib.sha256(str(folder.parent).encode()).hexdigest()[:8]
    _Finder.folders[package] = searched(folder)
    return importlib.import_module(f"{package}.{folder.name}.{name}")


def searched(folder: Path) -> tuple[Path, ...]:
    """The folders searched for adapters that the one in `folder` builds on: its parent, the suite's."""
    try:
        return folder.parent, find_paths().adapters
    except ConformanceError:  # an installation without adapters of its own
        return (folder.parent,)


def load_file(path: Path, name: str) -> ModuleType:
    """The Python file as a module under `name`; loaded once per process and path.

    Raises `AdapterError` where there is no such file, and whatever the file raises.
    """
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(path):
        return known
    if not path.is_file():
        raise AdapterError(f"no such file: {path.name}", where=path.parent)
    loader = _Source(name, str(path))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None, "a loader of files always has one"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _Finder(MetaPathFinder):
    """Import hook that finds adapters as subpackages of a package for the folder that contains them."""

    #: By name of a package that contains adapters, the folders that are searched for them.
    folders: dict[str, Sequence[Path]] = {}  # noqa: RUF012 (one for the process)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module of an adapter lies; `None` for anything else."""
        folders = self.folders.get(fullname.partition(".")[0])
        if folders is None:
            return None
        if path is None:
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(folder) for folder in folders]
            return spec
        specs = (FileFinder(folder, (_Source, [".py"])).find_spec(fullname) for folder in path)
        return next((spec for spec in specs if spec is not None), None)


class _Source(SourceFileLoader):
    """Loads a file from its text, never from kept bytecode.

    Python validates cached bytecode by the source's size and modification time in seconds (PEP 552): a
    program rewritten within a second may have the same of both.
    """

    def get_code(self, fullname: str) -> CodeType:
        """The code of the file as it is now. Raises `SyntaxError`."""
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code
