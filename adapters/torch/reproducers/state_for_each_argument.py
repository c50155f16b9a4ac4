"""A region with two tensors on one CUDA device keeps two copies of that device's random state."""

from unittest.mock import patch

import torch
from torch.utils.checkpoint import checkpoint

x, w = (torch.ones(3, device="cuda", requires_grad=True) for _ in range(2))
read = torch.cuda.get_rng_state
with patch.object(torch.cuda, "get_rng_state", side_effect=read) as reads:
    checkpoint(torch.mul, x, w, use_reentrant=False)
assert reads.call_count == 2, reads.call_count
