"""How PaddlePaddle is observed: program lines and allocator statistics, or what is in its graphs."""

from __future__ import annotations

import os
import re
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import paddle
import paddle.distributed as dist
from paddle.base import core, framework
from paddle.distributed.fleet.utils import recompute
from paddle.distributed.utils.launch_utils import find_free_ports
from paddle.jit.dy2static import program_translator

from conformance.model.observation import Array, Leaf, Observation, Run
from conformance.model.program import Program, Site
from conformance.observe.worker import ranks
from conformance.observe.worker.loaded import LoadedProgram
from conformance.observe.worker.meter import Meter
from conformance.observe.worker.observer import Growth
from conformance.observe.worker.observer import Observer as Base
from conformance.observe.worker.surroundings import Setting
from conformance.observe.worker.threads import others_busy
from conformance.observe.worker.trace import Trace, executions

from . import graphs, sot

#: Variants that Python runs once, to make a graph.
COMPILED, STATIC = "to-static-ast", "pir-pass"
#: The variant that makes graphs of what it can, and leaves the rest to Python.
MIXED = "to-static-sot"
#: Variants whose programs are networks of Paddle's own layers.
LAYERED = ("layers", "model-fit", "model-fit-hook")
#: How often the profiler is asked before an observation is given up.
ATTEMPTS = 3
#: Variants in which graphs run, whose tensors a thread of their own frees.
GRAPHS = (COMPILED, STATIC, MIXED)

#: Functions that a rank may be found in while it waits for others.
COLLECTIVES = ("all_reduce", "all_gather", "barrier", "broadcast")

#: Whether a tensor says how many bytes of memory it holds; up to Paddle 3.0 none does.
_HOLDERS = hasattr(paddle.Tensor, "_holder_size")
if not hasattr(paddle.nn, "Parameter"):  # up to Paddle 3.1 it has no public name
    paddle.nn.Parameter = lambda data, requires_grad=True: framework.EagerParamBase.from_tensor(
        data, trainable=requires_grad
    )

#: Bytes of the state of a generator's engine (std::mt19937_64): 312 words of 64 bits, and an index.
_ENGINE = 2504


class Layers(Trace):
    """Follows a program's lines, and the calls of the Paddle layers that were constructed on them."""

    @contextmanager
    def active(self) -> Iterator[Trace]:
        layer = paddle.nn.Layer
        make, call = layer.__init__, layer.__call__
        sites: weakref.WeakKeyDictionary[Any, Site] = weakref.WeakKeyDictionary()

        def made(own: Any, *args: Any, **options: Any) -> None:
            make(own, *args, **options)
            site = self.current("layer")
            if site is not None:
                sites[own] = site

        def called(own: Any, *args: Any, **options: Any) -> Any:
            with self.calling(sites.get(own)) as done:
                result = call(own, *args, **options)
                done(result)
            return result

        with (
            mock.patch.object(layer, "__init__", made),
            mock.patch.object(layer, "__call__", called),
            super().active(),
        ):
            yield self


#: What Paddle has set for the whole process.
SETTINGS: Mapping[str, Setting] = {
    "whether programs run at once": (
        paddle.in_dynamic_mode,
        lambda on: paddle.disable_static() if on else paddle.enable_static(),
    ),
    "the default dtype": (paddle.get_default_dtype, paddle.set_default_dtype),
    "the default device": (paddle.get_device, paddle.set_device),
    "whether gradients are recorded": (
        lambda: framework._dygraph_tracer()._has_grad,
        lambda on: setattr(framework._dygraph_tracer(), "_has_grad", on),
    ),
    "the check for NaN": (lambda: paddle.get_flags("FLAGS_check_nan_inf"), paddle.set_flags),
}


class Observer(Base):
    """Observes PaddlePaddle on the CPU.

    In dynamic mode every line runs its kernels when it is reached. So it does under `to_static` where a
    line does not become part of a graph: `to_static` cannot compile `recompute`.
    """

    settings = SETTINGS
    resolution = 0
    state_readers = (("paddle", "get_rng_state"),)

    def __init__(self, variant: str) -> None:
        super().__init__(variant)
        self.methods = {
            "executions": "Python line trace, dynamic mode",
            "randomness": "values of the program's lines",
            "retained memory": "host_memory_stat_current_value, allocated bytes",
            "peak memory": "host_memory_stat_peak_value, allocated bytes",
            "release": "host_memory_stat_current_value, allocated bytes",
        }
        if variant in LAYERED:
            self.tracing = Layers
            self.methods["executions"] = "Python line trace, and calls of layers"
        self._names: Mapping[str, Any] = {}
        self._named: Callable[..., Any] | None = None  # the forward pass that they are of
        self._broken: list[BaseException] = []
        self._kept: list[Mapping[str, Any]] = []
        self.rehearsals = 0  # the passes before have filled the caches
        if variant != MIXED:  # what SOT makes of a program depends on how often it runs
            self.together = variant not in (COMPILED, STATIC)
        if variant in (COMPILED, STATIC):
            self.methods["executions"] = "operations of the programs, and kernels launched"
            self.methods["randomness"] = "gradients under one seed"

    def warm_up(self) -> None:
        paddle.device.set_device("cpu")
        x = paddle.ones([2])
        x.stop_gradient = False
        recompute(
            paddle.nn.ReLU(), x, use_reentrant=not self.variant.startswith("hook")
        ).sum().backward()
        if self.variant == MIXED:
            sot.warm_up()

    def leaf(self, value: object) -> Leaf | None:
        if self.variant == STATIC and isinstance(value, np.ndarray | np.generic):
            return Leaf(np.array(value), str(value.dtype))
        if not isinstance(value, paddle.Tensor):
            return None
        # Detached first: reading must add nothing to the graph, nor to what a rerun packs.
        detached = value.detach()
        if detached.dtype == paddle.bfloat16:
            detached = detached.astype("float32")
        dtype = str(value.dtype).removeprefix("paddle.")
        return Leaf(np.array(detached.numpy()), dtype)

    def generator(self) -> Array | None:
        if paddle.in_dynamic_mode():
            return np.array(paddle.rand([4]).numpy())
        with paddle.base.dygraph.guard():
            return np.array(paddle.rand([4]).numpy())

    def nbytes(self, value: object) -> int:
        """Bytes of the memory that a tensor holds: a view, such as a real part, holds all of it."""
        if not isinstance(value, paddle.Tensor):
            return 0
        return int(value._holder_size() if _HOLDERS else value.size * value.element_size())

    def state_bytes(self, state: object) -> int:
        """Bytes of the generators' engines in a saved state; Paddle offers no way to read their size."""
        if not isinstance(state, list):
            return 0
        return sum(_ENGINE for one in state if isinstance(one, core.GeneratorState))

    def identity(self, value: object) -> int:
        """The address of the memory that a tensor holds: a view shares it."""
        return value.data_ptr() - value._offset() if isinstance(value, paddle.Tensor) else id(value)

    def held(self) -> int:
        return int(core.host_memory_stat_current_value("Allocated", 0))

    def reset_peak(self) -> None:
        core.host_memory_stat_reset_peak_value("Allocated", 0)

    def peak(self) -> int:
        return int(core.host_memory_stat_peak_value("Allocated", 0))

    def wait(self) -> None:
        """Wait until no more memory is freed: a separate thread frees the tensors of a graph."""
        if self.variant not in GRAPHS:
            return
        before, same = self.held(), 0
        while same < 6:
            time.sleep(0.003)
            now = self.held()
            before, same = now, same + 1 if now == before and not others_busy() else 0

    def unobserved(self, program: Program) -> Mapping[str, str]:
        if self.variant == STATIC:
            return {
                "retained memory": "memory cannot be measured between forward and backward of a graph",
                "peak memory": "another thread frees tensors, at times that vary",
            }
        if not _HOLDERS:
            return {"retained memory": "this release does not say how large a view's memory is"}
        return {}

    # -- passes ----------------------------------------------------------------------------------

    def observe(self, program: Program) -> Observation:
        # to_static keeps what it has made of a source text, and with it the file that it was in.
        program_translator._FUNCTION_CACHE = program_translator.FunctionCache()
        if self.variant == MIXED:
            sot.forget()
        if program.ranks > 1:
            return self._on_ranks(program)
        try:
            return super().observe(program)
        finally:
            paddle.disable_static()  # the mode is the process's
            # Compiled programs would keep their threads, and are known by addresses that come again.
            core.clear_executor_cache()

    def _on_ranks(self, program: Program) -> Observation:
        ports = find_free_ports(program.ranks)
        places = [f"127.0.0.1:{port}" for port in sorted(ports)]

        def seen(rank: int, folder: str) -> Observation:
            os.environ |= {
                "PADDLE_TRAINER_ID": str(rank),
                "PADDLE_TRAINERS_NUM": str(program.ranks),
                "PADDLE_TRAINER_ENDPOINTS": ",".join(places),
                "PADDLE_CURRENT_ENDPOINT": places[rank],
                "PADDLE_MASTER": places[0],
                "PADDLE_DISTRI_BACKEND": "gloo",
            }
            dist.init_parallel_env()
            found = Base.observe(self, program)
            if found.plain.error is None and found.recomputed.error is None:
                dist.barrier()  # a rank that ends takes its connections along
            return found

        return ranks.observe(program, COLLECTIVES, seen)

    def run(self, loaded: LoadedProgram, unobserved: dict[str, str]) -> Run:
        if self.variant != MIXED:
            return super().run(loaded, unobserved)
        sot.forget()  # what it rewrites from here on is of this run
        observed = super().run(loaded, unobserved)
        rewritten = sot.rewritten(loaded.program.file)
        if observed.executions is None or not rewritten:
            return observed
        # Where only the forward pass is another function, regions are called and their lines reached.
        inside = sorted(set(rewritten) - {"plain", "recomputed"})
        if not inside:
            return replace(observed, samples=None)
        if loaded.path == "recomputed":
            names = ", ".join(f"{name}()" for name in inside)
            unobserved["executions"] = (
                f"SOT rewrote {names}, so Python does not run the program's lines there"
            )
        return replace(observed, executions=None, samples=None)

    def values(self, loaded: LoadedProgram) -> Run:
        if self.variant != STATIC:
            # An exception that left a backward pass, of an earlier program or of the plain run,
            # leaves gradients switched off in Paddle, for the rest of the process.
            framework._dygraph_tracer()._has_grad = True
            core.eager.reset_saved_tensors_hooks()
        run = super().values(loaded)
        if run.error is None:
            return run
        return replace(run, error=replace(run.error, message=essence(run.error.message)))

    def raised(self, error: BaseException) -> None:
        # A program that the pass has broken crashes the process when it is freed, whatever runs then.
        if self.variant == STATIC:
            self._broken.append(error)

    def count(self, loaded: LoadedProgram, run: Run, meter: Meter | None = None) -> Run:
        if self.variant not in (COMPILED, STATIC):
            return super().count(loaded, run, meter)
        before, after, runs = self._looked(loaded)
        # of regions, and of statements
        both = graphs.executions(loaded.program, loaded.path, before, after)
        if loaded.program.sites("statement", loaded.path) and not both[1]:
            raise RuntimeError("no operation comes from a line of the program")
        for counted in both:
            for key in counted:
                counted[key] *= runs
        return replace(run, executions=executions(*both))

    def _looked(self, loaded: LoadedProgram) -> tuple[list[Any], list[Any], int]:
        """The operations of the forward and of the backward graph, and how often they ran.

        The profiler gathers launches from several threads, and may miss one. A record that misses a
        kernel is discarded and taken again, at most `ATTEMPTS` times in all.
        """
        for _ in range(ATTEMPTS - 1):
            try:
                return self._seen(loaded)
            except graphs.MissedError:
                self.settle()
        return self._seen(loaded)

    def _seen(self, loaded: LoadedProgram) -> tuple[list[Any], list[Any], int]:
        program = loaded.program
        trace = graphs.Marking(program)

        def watched() -> None:
            with trace.active():
                loaded.run()

        launched = graphs.launches(watched)
        names = self._names = trace.names
        self._named = loaded.forward
        if self.variant == STATIC:
            # What the pass has made of a program is not freed while others run.
            self._kept.append(names)
            ops = graphs.operations(names["main"], program)
            before = [op for op in ops if not op.again]
            after = [op for op in ops if op.again]
            runs = graphs.times(program, ops, launched[""])
        else:
            compiled: Any = loaded.forward
            _, (_, layer) = compiled.program_cache.last()
            if program.procedure == "inference":
                before, after = graphs.operations(layer.infer_program.forward_program, program), []
            else:
                before = graphs.operations(layer.program.forward_program, program)
                after = graphs.operations(layer.program.backward_program, program)
            phase = "" if program.procedure == "inference" else "forward"
            runs = graphs.times(program, before, launched[phase])
        return before, after, runs

    # -- memory of a graph -----------------------------------------------------------------------

    def _step(self, module: ModuleType) -> Any:
        """Run the graph that the program has made once more."""
        names = self._names
        fed = names.get("feed", names["values"])
        return module.fetch(names["executor"], names["main"], fed, names["results"])

    def leftovers(self, loaded: LoadedProgram) -> tuple[Growth, Growth]:
        if self.variant != STATIC:
            return super().leftovers(loaded)
        if self._named is not loaded.forward:
            return None, None  # an error came before there was a graph: the names are another's
        # A step is a run of the graph, `run` makes a new one each time.
        return super().leftovers(replace(loaded, run=lambda: self._step(loaded.module)))


def essence(message: str) -> str:
    """An error's message on one line, without the stack, addresses and source position that Paddle
    writes into it."""
    message = re.sub(r"\n\s*At:\n.*?(?=={10}|\Z)", "\n", message, flags=re.DOTALL)
    message = re.sub(r"\(0x[0-9a-f]+\)|={10,}|\(at /paddle/\S*", "", message)
    return " ".join(message.split())
