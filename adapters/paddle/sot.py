"""Resets what SOT, the compiler of `to_static(full_graph=False)`, keeps from one program to the next.

SOT rewrites the bytecode of Python functions: ten operations or more become a graph, whose lines Python
never reaches, and the code after a call that it cannot translate becomes a function of its own. Whether
it does so depends on what the process ran before, in three ways (Paddle 3.3.1). Each would make a
verdict depend on earlier programs:

- Translations are cached by code object, and Python treats equal code objects from different files as
  equal. After twenty translations of one code SOT stops, and a cached one reads the globals of the
  program that it was made for.
- A function that ran ten times without a graph inside is skipped from then on, with all that it calls.
  Once that is Paddle's own `recompute`, no region is translated any more.
- Whether a function has a graph inside is looked up only in the first twenty calls of a code.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import paddle
from paddle.base import core
from paddle.distributed.fleet.utils import recompute
from paddle.jit.sot.opcode_translator.executor.executor_cache import OpcodeExecutorCache
from paddle.jit.sot.utils import StepInfoManager

import conformance

#: Operations in `warm_up`'s region: more than the ten from which SOT makes a graph.
ENOUGH = 16
#: What SOT has made for earlier programs. It knows functions by address: none may be freed.
_earlier: list[Any] = []


def warm_up() -> None:
    """Compile a region, so that SOT does not take `recompute` for a function without a graph inside.

    Also excludes the suite's own trace functions from translation.
    Raises `RuntimeError` where SOT makes no graph of the region.
    """

    def region(x: Any) -> Any:
        for _ in range(ENOUGH):
            x = paddle.sin(x)
        return x

    def forward(x: Any) -> Any:
        return recompute(region, x)

    x = paddle.ones([2])
    x.stop_gradient = False
    paddle.jit.to_static(forward, full_graph=False)(x).sum().backward()
    if region.__name__ not in rewritten(__file__):
        raise RuntimeError(f"SOT makes no graph of a region of {ENOUGH} operations")
    own = (Path(__file__).parent, *map(Path, conformance.__path__))
    core.eval_frame_skip_file_prefix(tuple(f"{folder}{os.sep}" for folder in own))


def forget() -> None:
    """Let SOT meet the next program as if it were the first."""
    cache = OpcodeExecutorCache()
    known = {name: value for name, value in vars(cache).items() if isinstance(value, dict)}
    _earlier.append(known)
    for name, value in known.items():
        empty = value.copy()
        empty.clear()
        setattr(cache, name, empty)
    StepInfoManager().step_record.clear()
    # SOT follows a warning into what the logger has looked up before.
    logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]


def rewritten(file: str) -> tuple[str, ...]:
    """The names of the file's functions that were called since `forget` and that SOT has rewritten.

    Functions that SOT has made itself from the rest of one (`$resume_…`) are left out.
    """
    return tuple(
        code.co_name
        for code, made in OpcodeExecutorCache().cache.items()
        if code.co_filename == file
        and not code.co_name.startswith("$")
        # From Paddle 3.1 on, a tree of guards follows the versions.
        and any(new.code is not None for new, _ in (made[0] if isinstance(made, tuple) else made))
    )
