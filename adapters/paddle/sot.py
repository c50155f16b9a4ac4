"""What SOT, the compiler of `to_static(full_graph=False)`, carries from one program to the next.

SOT rewrites the bytecode of Python functions: ten operations or more become a graph, whose lines Python
never reaches, and what follows a call that it cannot translate becomes a function of its own. Whether
it does depends on what the process ran before, in three ways (Paddle 3.3.1), each of which would make a
verdict one of the programs that came earlier:

- What it has made of a function is found again by its code, and Python takes two codes for the same
  whose files differ. After twenty of them it translates no more, and what it has made for one program
  reads names of that program.
- It leaves a function alone that ran ten times without a graph inside, and all that it calls. Once that
  is Paddle's own `recompute`, no region is translated any more.
- Which functions have a graph inside is looked up in the first twenty calls of a code.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import paddle
from paddle.base import core
from paddle.distributed.fleet.utils import recompute
from paddle.jit.sot.opcode_translator.executor.executor_cache import OpcodeExecutorCache
from paddle.jit.sot.utils import StepInfoManager

import conformance

#: Operations from which on SOT makes a graph of them, and some more.
ENOUGH = 16
#: What SOT has made for earlier programs. It knows functions by address: none may be freed.
_earlier: list[Any] = []


def warm_up() -> None:
    """Compile a region, so that SOT never counts `recompute` among what has no graph inside.

    From then on the suite's own functions, which follow a program's lines, are none to translate.
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
    _earlier.append((cache.cache, cache.code_symbolic_inputs))
    cache.cache, cache.code_symbolic_inputs = {}, {}
    cache.compile_time_stats.clear()
    cache.consecutive_cache_hit_count.clear()
    StepInfoManager().step_record.clear()


def rewritten(file: str) -> tuple[str, ...]:
    """The functions of a file that have been called since `forget` and that SOT has rewritten.

    What it has made of the rest of one, `$resume_…`, is none of the file's.
    """
    return tuple(
        code.co_name
        for code, (versions, _) in OpcodeExecutorCache().cache.items()
        if code.co_filename == file
        and not code.co_name.startswith("$")
        and any(new.code is not None for new, _ in versions)
    )
