"""Python files as modules, found by path.

Apart from `conformance.drivers.adapter`, which reads more and imports more: workers start often, and
need only this.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from conformance.errors import AdapterError


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


class _Source(SourceFileLoader):
    """Loads a file from its text, never from kept bytecode.

    Python knows bytecode by the size of the file and the second of its time: a program that is
    written anew within a second can share both with the one before (PEP 552 names the limit).
    """

    def get_code(self, fullname: str) -> CodeType:
        """The code of the file as it is now. Raises `SyntaxError`."""
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code
