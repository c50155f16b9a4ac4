"""Runs programs of reasons in one process: `python -m tests.reasons.run FILE... > LINES`.

Each line that begins with `MARK` is an object of JSON: the file, and for the program as it is and
as it is changed, whether the difference appears, or the error that ended it.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import sys
import traceback
from pathlib import Path
from typing import Any

MARK = "reason: "


def _told(module: Any, changed: bool) -> bool | str:
    gc.collect()  # garbage of the programs before would go while this one reads memory
    try:
        found = module.differs(changed)
    except Exception:
        return traceback.format_exc()
    return found if isinstance(found, bool) else f"differs() gave {found!r}, which is no bool"


def main(files: list[str]) -> None:
    """Run the programs in order, and print what they tell."""
    for file in files:
        # Its path is a program's name: two adapters may have files of one name.
        name = "reason_" + "_".join(Path(file).with_suffix("").parts[-2:])
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        told = {"file": file, "appears": _told(module, False), "stays": _told(module, True)}
        print(f"\n{MARK}{json.dumps(told)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
