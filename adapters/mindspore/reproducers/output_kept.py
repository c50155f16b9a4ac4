"""In a graph of MindSpore 2.8, `output_recompute=True` has no effect: the output is kept."""

import os
import re
import tempfile
from pathlib import Path

folder = tempfile.TemporaryDirectory()
os.environ |= {"MS_DEV_SAVE_GRAPHS": "2", "MS_DEV_SAVE_GRAPHS_PATH": folder.name}
import mindspore as ms
from mindspore import nn, ops


class Block(nn.Cell):
    def construct(self, x):
        return ops.sin(ops.sin(x))


block = Block()


def loss(x):
    y = ms.recompute(block, x, output_recompute=True)
    return ops.sum(ms.recompute(block, y))


ms.jit(ms.value_and_grad(loss))(ops.ones((2, 3)))
(file,) = Path(folder.name).rglob("*_validate_*.ir")
# Backward needs the first three of four sines, and finds the second one kept.
assert len(re.findall(r"= \w*Sin\(", file.read_text())) == 4 + 2
