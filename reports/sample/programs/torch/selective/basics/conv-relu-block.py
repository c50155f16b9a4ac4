"""A convolution and its ReLU recomputed together.

Case basics/conv-relu-block, variant torch/selective.
Source: the family of programs that every framework's page on recompute opens with
"""

from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts


def inputs():
    rng = np.random.default_rng(0)
    x = torch.tensor(
        rng.standard_normal((2, 3, 6, 6)), dtype=torch.float32, requires_grad=True
    )
    w1 = torch.tensor(
        0.3 * rng.standard_normal((4, 3, 3, 3)), dtype=torch.float32, requires_grad=True
    )
    w2 = torch.tensor(
        0.3 * rng.standard_normal((2, 4, 3, 3)), dtype=torch.float32, requires_grad=True
    )
    return {"x": x, "w1": w1, "w2": w2}


def plain(x, w1, w2):
    def block(x):
        c = F.conv2d(x, w1, padding="same")
        r = F.relu(c)
        return F.conv2d(r, w2)

    y = block(x)
    p = F.max_pool2d(y, 2)
    return F.avg_pool2d(p, 2)


def recomputed(x, w1, w2):
    def block(x):
        c = F.conv2d(x, w1, padding="same")
        r = F.relu(c)
        return F.conv2d(r, w2)

    y = checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=partial(create_selective_checkpoint_contexts, []),
    )
    p = F.max_pool2d(y, 2)
    return F.avg_pool2d(p, 2)


def run(forward):
    values = inputs()
    outputs = forward(**values)
    loss = outputs.sum()
    loss.backward()
    gradients = {
        "x": values["x"].grad,
        "w1": values["w1"].grad,
        "w2": values["w2"].grad,
    }
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
