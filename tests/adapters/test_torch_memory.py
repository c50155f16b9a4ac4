"""The PyTorch adapter's bytes: kept, at the peak and left over, by hand and by the profiler."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from conformance.observe.worker.loaded import LoadedProgram
from tests.adapters.bench import Bench
from tests.frameworks import framework
from tests.suite_cases import BY_ID as CASES

torch = framework("torch", "torch")

BENCH = Bench("torch")
VARIANTS = ("reentrant", "non-reentrant", "non-reentrant-whole")
#: One activation of the cases of `memory`, one weight, and a float32 scalar.
ACTIVATION, WEIGHT, SCALAR = 2048 * 64 * 4, 64 * 64 * 4, 4
#: The state of the CPU's generator, which a checkpoint that preserves it keeps.
RNG_STATE = 5056


@contextmanager
def backward_announced(announce: Callable[[], None]) -> Iterator[None]:
    """Call `announce` just before a backward pass begins."""
    own = torch.Tensor.backward

    def backward(self: Any, *args: Any, **options: Any) -> None:
        announce()
        own(self, *args, **options)

    torch.Tensor.backward = backward
    try:
        yield
    finally:
        torch.Tensor.backward = own


def profiled(module: ModuleType, forward: Callable[..., Any]) -> tuple[int, int]:
    """(kept when backward begins, peak): bytes beyond those at the start of forward, summed up from
    the profiler's events of allocation."""

    def mark(name: str) -> None:
        with torch.profiler.record_function(name):
            pass

    def marked(**values: Any) -> Any:
        mark("at forward")
        return forward(**values)

    module.run(forward)
    gc.collect()
    with (
        backward_announced(lambda: mark("at backward")),
        torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
        ) as profile,
    ):
        module.run(marked)
    events = profile.profiler.kineto_results.events()
    at = {e.name(): e.start_ns() for e in events if e.name().startswith("at ")}
    found = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    kept = sum(n for time, n in found if at["at forward"] <= time < at["at backward"])
    total = peak = 0
    for time, n in found:
        if time >= at["at forward"]:
            total += n
            peak = max(peak, total)
    return kept, peak


@pytest.mark.parametrize(
    ("variant", "path", "regions"),
    [("non-reentrant", "plain", 0), *((variant, "recomputed", 8) for variant in VARIANTS)],
)
def test_kept_and_peak_agree_with_the_profiler(
    variant: str, path: str, regions: int, tmp_path: Path
) -> None:
    program, module, observer = BENCH.made(CASES["memory/chain-each"], variant, tmp_path)
    loaded = LoadedProgram.of(program, module, path)
    kept = observer.retained(loaded)
    peak = observer.highest
    assert kept is not None
    assert peak is not None
    kept_seen, peak_seen = profiled(module, loaded.forward)
    assert kept_seen == kept + SCALAR + regions * RNG_STATE  # `z` is the program's own
    if regions == 0:
        assert peak_seen == peak
    else:  # the state of the generator is put aside once more during a rerun
        assert 0 <= peak_seen - peak <= (regions + 1) * RNG_STATE
        assert (peak_seen - peak) % RNG_STATE == 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_kept_tensor_more_moves_bytes_by_exactly_that(variant: str, tmp_path: Path) -> None:
    program, module, observer = BENCH.made(CASES["memory/chain-whole"], variant, tmp_path)
    loaded = LoadedProgram.of(program, module, "recomputed")
    kept: list[Any] = []

    def keeping(count: int) -> Callable[..., Any]:
        def forward(**values: Any) -> Any:
            kept.extend(values["x"].detach() + n for n in range(count))
            return module.recomputed(**values)

        return forward

    found = []
    for count in (0, 1, 3):
        bytes_kept = observer.retained(replace(loaded, run=partial(module.run, keeping(count))))
        found.append((bytes_kept, observer.highest))
    (none, peak), *more = found
    assert none == 0
    assert more == [(n * ACTIVATION, peak + n * ACTIVATION) for n in (1, 3)]


def test_peak_derived_by_hand(tmp_path: Path) -> None:
    """Sixteen activations, then backward: the cotangent, and what the first sine's gradient makes."""
    program, module, observer = BENCH.made(CASES["memory/chain-whole"], "non-reentrant", tmp_path)
    observer.retained(LoadedProgram.of(program, module, "plain"))
    assert observer.highest == 18 * ACTIVATION + 2 * SCALAR
    observer.retained(LoadedProgram.of(program, module, "recomputed"))
    assert observer.highest == 18 * ACTIVATION + 2 * SCALAR  # all of them are back


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_left_over_is_seen(variant: str, tmp_path: Path) -> None:
    """Nothing grows; a tensor kept by the user grows, one in a cycle of objects grows too."""
    program, module, observer = BENCH.made(CASES["memory/chain-whole"], variant, tmp_path)
    loaded = LoadedProgram.of(replace(program, release=4), module, "recomputed")
    held, alive = observer.leftovers(loaded)
    assert held == (0,) * 4
    assert alive == (0,) * 4
    kept: list[Any] = []

    def leaking(**values: Any) -> Any:
        kept.append(values["x"].detach() + 1)
        return module.recomputed(**values)

    held, alive = observer.leftovers(replace(loaded, run=partial(module.run, leaking)))
    assert held == tuple(n * ACTIVATION for n in (1, 2, 3, 4))
    assert alive == (1, 2, 3, 4)
    kept.clear()

    def cyclic(**values: Any) -> Any:
        cycle: list[Any] = [values["ws"][0].detach() + 1]
        cycle.append(cycle)
        return module.recomputed(**values)

    held, alive = observer.leftovers(replace(loaded, run=partial(module.run, cyclic)))
    assert held == tuple(n * WEIGHT for n in (1, 2, 3, 4))
    assert alive == (1, 2, 3, 4)
