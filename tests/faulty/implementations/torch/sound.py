"""No fault: what the others are compared with."""

import torch.utils.checkpoint


def checkpoint(function, *args, **options):
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
