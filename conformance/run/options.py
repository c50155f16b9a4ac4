"""The options of a run, declared once: for pytest, and for `conformance run`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

_REPEATABLE: Mapping[str, Any] = {"action": "append", "default": []}

#: By name, what pytest is told of an option.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--adapter": {
        **_REPEATABLE,
        "metavar": "NAME_OR_PATH",
        "help": "an adapter, by its name or the path of its folder; repeatable",
    },
    "--variant": {
        **_REPEATABLE,
        "metavar": "NAME",
        "help": "only this variant (reentrant, torch/reentrant); repeatable",
    },
    "--case": {
        **_REPEATABLE,
        "metavar": "PATTERN",
        "help": "only the cases with such an id (memory/softmax, 'growth/*'); repeatable",
    },
    "--family": {
        **_REPEATABLE,
        "metavar": "NAME",
        "help": "only the cases of this family; repeatable, and beside those of --case",
    },
    "--smoke": {"action": "store_true", "help": "only the smoke cases: about 25 everyday ones"},
    "--shard": {
        "default": "",
        "metavar": "NUMBER/OF",
        "help": "run one of several parts, for as many machines: 2/4 is the second of four",
    },
    "--fresh": {
        "action": "store_true",
        "help": "start from the beginning, also where an earlier run was interrupted",
    },
    "--implementation": {
        "default": "",
        "metavar": "MODULE:FUNCTION_OR_FILE",
        "help": "run the cases through this function in the place of the framework's recompute",
    },
    "--option": {
        **_REPEATABLE,
        "metavar": "OPTION=KEYWORD",
        "help": "the function's keyword for an option of cases (preserve_rng=preserve_rng_state)",
    },
    "--always": {
        **_REPEATABLE,
        "metavar": "KEYWORD=VALUE",
        "help": "a keyword that the function is always given (use_reentrant=False)",
    },
    "--discipline": {
        "choices": ["whole", "early-stop", "minimal"],
        "help": "how much the function runs again: whole, early-stop or minimal",
    },
    "--known": {
        "type": Path,
        "metavar": "FILE",
        "help": "a list of known deviations, in the place of the adapter's; of an implementation also "
        "the variant that it is built on (torch/non-reentrant), whose deviations it shares",
    },
    "--time-limit": {
        "type": float,
        "metavar": "SECONDS",
        "help": "for one case on one variant, in the place of the adapter's",
    },
    "--memory-limit": {
        "type": float,
        "metavar": "GIB",
        "help": "that a worker may allocate, in the place of the adapter's",
    },
    "--cases": {"type": Path, "metavar": "DIR", "help": "folder of case files"},
    "--adapters-folder": {"type": Path, "metavar": "DIR", "help": "folder of adapters"},
    "--reports": {"type": Path, "metavar": "DIR", "help": "where results go: reports/"},
}


def listed() -> str:
    """The options as `--help` shows them, a line or more for each."""
    lines = []
    for name, told in OPTIONS.items():
        left = f"{name} {told['metavar']}" if "metavar" in told else name
        lines.append(f"  {left}\n      {told['help']}")
    return "\n".join(lines)
