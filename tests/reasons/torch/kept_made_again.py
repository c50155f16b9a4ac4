"""The backward of a compiled region makes again what a policy has kept."""

from functools import partial

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

REASON = "A policy hands the rerun of a compiled region what it has kept, but"


class Sines(TorchDispatchMode):
    """Counts the sines that reach a kernel."""

    runs = 0

    @classmethod
    def ignore_compile_internals(cls):
        return True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.runs += func is torch.ops.aten.sin.default
        return func(*args, **(kwargs or {}))


def differs(changed: bool) -> bool:
    """Whether the kept sine runs again; with the change, the partitioner is the default one."""
    torch._dynamo.reset()

    @torch.compile(backend="aot_eager_default_partitioner" if changed else "aot_eager")
    def region(x):
        s = x.sin()
        return s * s

    x = torch.ones(4, requires_grad=True)
    context = partial(create_selective_checkpoint_contexts, [torch.ops.aten.sin.default])
    with Sines() as forward:
        y = checkpoint(region, x, use_reentrant=False, context_fn=context)
    with Sines() as backward:
        y.sum().backward()
    torch._dynamo.reset()
    assert forward.runs == 1
    return backward.runs == 1
