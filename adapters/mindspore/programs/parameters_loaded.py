"""The parameters of cells that recompute, saved and loaded in other cells."""

import tempfile
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import nn, ops


def plain(cell):
    return cell


def recomputed(cell):
    cell.recompute()
    return cell


def made(wrap):
    layers = [nn.SequentialCell(nn.Dense(4, 4), nn.Tanh()) for _ in range(2)]
    return nn.SequentialCell(*map(wrap, layers))


def run(wrap):
    first, second = made(wrap), made(wrap)
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "model.ckpt"))
        ms.save_checkpoint(first, file)
        saved = ms.load_checkpoint(file)
    left_out, _ = ms.load_param_into_net(second, saved)
    x = ms.Tensor(np.random.randn(2, 4), ms.float32)
    gradient = ms.value_and_grad(lambda x: ops.sum(second(x) ** 2), 0, second.trainable_params())
    loss, (of_input, gradients) = gradient(x)
    names = {"names": list(saved), "left out": left_out}
    return {"loss": loss, "gradient": of_input, "gradients": gradients, **names}
