"""`torch.func.jvp` and `vmap` raise for a checkpoint with `use_reentrant=True`."""

import torch
from torch.utils.checkpoint import checkpoint


def region(x):
    return checkpoint(torch.sin, x, use_reentrant=True)


x = torch.ones(3)
refused = []
for run in (lambda: torch.func.jvp(region, (x,), (x,)), lambda: torch.func.vmap(region)(x)):
    try:
        run()
    except RuntimeError as error:
        refused.append("setup_context" in str(error))
assert refused == [True, True]
