"""With `use_reentrant=True`, the tangent of a tensor that the function reads by closure is lost."""

import torch
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

x = torch.ones(2, requires_grad=True)
w = torch.full((2,), 2.0)


def tangent(call):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(w, w)
        return forward_ad.unpack_dual(call(lambda x: x * dual, x)).tangent


assert tangent(lambda f, x: f(x)).tolist() == [2.0, 2.0]
assert tangent(lambda f, x: checkpoint(f, x, use_reentrant=True)) is None
