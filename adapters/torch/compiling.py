"""The lines of a program that have its forward pass compiled, by variant."""

from __future__ import annotations

IMPORTS = ("from torch._functorch import config as functorch_config",)
BACKENDS = {
    "compiled-aot-eager": "aot_eager",
    "compiled-eager": "eager",
    "compiled-inductor": "inductor",
    "memory-budget": "aot_eager",
}


#: What a region's function is decorated with where it is compiled itself.
INSIDE = '@torch.compile(backend="aot_eager")'


def again(variant: str, procedure: str) -> list[str]:
    """The lines of `run` that are needed where backward runs more than once through a compiled graph."""
    if procedure in ("per_output", "second_backward", "second_order", "third_order"):
        # By default a backward graph reuses the buffers of its inputs, so that it can run only once.
        return ["functorch_config.donated_buffer = False"]
    return []


def lines(variant: str, procedure: str) -> list[str]:
    """The lines of `run` before the forward pass."""
    written = []
    if BACKENDS[variant] != "eager":
        written += again(variant, procedure)
    if variant == "memory-budget":
        written.append("budget = 0.0 if forward is recomputed else 1.0")
        written.append("functorch_config.activation_memory_budget = budget")
    written.append(f'forward = torch.compile(forward, backend="{BACKENDS[variant]}")')
    return written
