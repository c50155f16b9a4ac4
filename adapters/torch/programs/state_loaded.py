"""The state of wrapped layers, saved and loaded, and wrapped layers that are pickled."""

import io
import pickle

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper


def plain(layer):
    return layer


def recomputed(layer):
    return checkpoint_wrapper(layer)


def made(wrap):
    layers = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(2)]
    return nn.Sequential(*map(wrap, layers))


def run(wrap):
    first, second = made(wrap), made(wrap)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    saved = torch.load(file)
    second.load_state_dict(saved)
    copied = pickle.loads(pickle.dumps(second))
    x = torch.randn(2, 4, requires_grad=True)
    y = copied(x)
    y.square().sum().backward()
    gradients = [parameter.grad for parameter in copied.parameters()]
    return {"result": y, "gradient": x.grad, "gradients": gradients, "names": list(saved)}
