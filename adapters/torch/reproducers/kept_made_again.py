"""The backward of a compiled function recomputes a result that a policy has saved."""

from functools import partial

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts


class Sines(TorchDispatchMode):
    """Counts the sines that reach a kernel."""

    runs = 0

    @classmethod
    def ignore_compile_internals(cls):
        return True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.runs += func is torch.ops.aten.sin.default
        return func(*args, **kwargs or {})


@torch.compile(backend="aot_eager")
def region(x):
    s = x.sin()
    return s * s


x = torch.ones(4, requires_grad=True)
context = partial(create_selective_checkpoint_contexts, [torch.ops.aten.sin.default])
with Sines() as forward:
    y = checkpoint(region, x, use_reentrant=False, context_fn=context)
with Sines() as backward:
    y.sum().backward()
assert forward.runs == 1
assert backward.runs == 1
