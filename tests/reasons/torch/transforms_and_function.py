"""torch.func's transforms refuse a reentrant checkpoint."""

import torch
from torch.utils.checkpoint import checkpoint

REASON = "torch.func's transforms, vmap among them"


def differs(changed: bool) -> bool:
    """Whether jvp and vmap refuse it; with the change, use_reentrant=False."""

    def region(x):
        return checkpoint(torch.sin, x, use_reentrant=not changed)

    x = torch.ones(3)
    refused = []
    for run in (lambda: torch.func.jvp(region, (x,), (x,)), lambda: torch.func.vmap(region)(x)):
        try:
            run()
        except RuntimeError as error:
            refused.append("setup_context" in str(error))
    return refused == [True, True]
