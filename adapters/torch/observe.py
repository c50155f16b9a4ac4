"""How PyTorch is observed: each variant by the observer that sees what it runs."""

from __future__ import annotations

import os

from .eager import Observer as Eager

#: The variants whose programs `torch.compile` compiles.
COMPILED = ("compiled-aot-eager", "compiled-inductor", "memory-budget")
#: Those whose kernels run one by one although the program is compiled.
KERNELS = ("compiled-eager", "compiled-inside")


def Observer(variant: str) -> Eager:  # noqa: N802 (the name that adapters have in common)
    """The observer of a variant. Dynamo takes as long to import as PyTorch itself, so only variants that
    need it import it."""
    if variant in COMPILED:
        from .compiled import Compiled

        return Compiled(variant)
    if variant in KERNELS:
        from .kernels import Kernels

        return Kernels(variant)
    if os.environ.get("CONFORMANCE_DEVICE") == "cuda":
        from .cuda import OnCuda

        return OnCuda(variant)
    return Eager(variant)
