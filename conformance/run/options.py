"""The options of a run, declared once: for pytest, and for `conformance run`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def _value(metavar: str, words: str, **told: Any) -> Mapping[str, Any]:
    """An option with a value; `told` is what else pytest is told of it."""
    return {"metavar": metavar, "help": words, **told}


def _repeatable(metavar: str, words: str) -> Mapping[str, Any]:
    return _value(metavar, words, action="append", default=[])


#: By name, what pytest is told of an option.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--adapter": _repeatable(
        "NAME_OR_PATH", "an adapter, by its name or the path of its folder; repeatable"
    ),
    "--variant": _repeatable("NAME", "only this variant (reentrant, torch/reentrant); repeatable"),
    "--case": _repeatable(
        "PATTERN", "only the cases with such an id (memory/softmax, 'growth/*'); repeatable"
    ),
    "--family": _repeatable(
        "NAME", "only the cases of this family; repeatable, and beside those of --case"
    ),
    "--smoke": {"action": "store_true", "help": "only the smoke cases: about 25 everyday ones"},
    "--shard": _value(
        "NUMBER/OF",
        "run one of several parts, for as many machines: 2/4 is the second of four",
        default="",
    ),
    "--fresh": {
        "action": "store_true",
        "help": "start from the beginning, also where an earlier run was interrupted",
    },
    "--implementation": _value(
        "MODULE:FUNCTION_OR_FILE",
        "run the cases through this function in the place of the framework's recompute",
        default="",
    ),
    "--option": _repeatable(
        "OPTION=KEYWORD",
        "the function's keyword for an option of cases (preserve_rng=preserve_rng_state)",
    ),
    "--always": _repeatable(
        "KEYWORD=VALUE", "a keyword that the function is always given (use_reentrant=False)"
    ),
    "--discipline": {
        "choices": ["whole", "early-stop", "minimal"],
        "help": "how much the function runs again: whole, early-stop or minimal",
    },
    "--known": _value(
        "FILE",
        "a list of known deviations, in the place of the adapter's; of an implementation also "
        "the variant that it is built on (torch/non-reentrant), whose deviations it shares",
        type=Path,
    ),
    "--time-limit": _value(
        "SECONDS", "for one case on one variant, in the place of the adapter's", type=float
    ),
    "--memory-limit": _value(
        "GIB", "that a worker may allocate, in the place of the adapter's", type=float
    ),
    "--cases": _value("DIR", "folder of case files", type=Path),
    "--adapters-folder": _value("DIR", "folder of adapters", type=Path),
    "--reports": _value("DIR", "where results go: reports/", type=Path),
}


def listed() -> str:
    """The options as `--help` shows them, a line or more for each."""
    lines = []
    for name, told in OPTIONS.items():
        left = f"{name} {told['metavar']}" if "metavar" in told else name
        lines.append(f"  {left}\n      {told['help']}")
    return "\n".join(lines)
