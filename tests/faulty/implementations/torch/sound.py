"""No fault: the control for the others."""

import torch.utils.checkpoint


def checkpoint(function, *args, **options):
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
