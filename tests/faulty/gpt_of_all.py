"""A small GPT that calls a checkpoint function, put in its place, in many ways: with nested arguments
and results, many arguments, keywords, closures, a list outside that a region appends to, autocast,
complex numbers, a hook, an error that is caught, an evaluation before each training step and two
backward passes, whose gradients are added."""

from typing import NamedTuple

import torch
from torch import nn

#: Set by whoever loads this file.
checkpoint = None
WIDTH = 16
#: What regions leave here in a forward pass.
LEFT = []


class Output(NamedTuple):
    hidden: torch.Tensor
    aside: dict


def broken(x):
    raise ValueError("too long")


def leaves(x):
    LEFT.append(x.sin().mean())
    return x * 1.5


def listed(parts, negative=True):
    return [parts[0].cos(), -parts[1] if negative else parts[1]]


def twice(x):
    x = x.tanh()
    return x, x


def gated(run, x):
    return run(lambda given: given * x.sin(), x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, dropout=0.1, batch_first=True)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(0.1)

    def mlp(self, x):
        return self.drop(self.down(nn.functional.gelu(self.up(self.second(x)))))

    def forward(self, x, state, mask=None, scale=1.0):
        h = self.first(x * state["gate"][0])
        h = self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        x = x + scale * h
        x = x + self.mlp(x)
        count = (x.detach() > 0).sum()
        return Output(x, {"norms": [x.norm(dim=-1)], "count": count, "none": None})


class GPT(nn.Module):
    def __init__(self, run):
        super().__init__()
        self.run = run
        self.words, self.places = nn.Embedding(50, WIDTH), nn.Embedding(12, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.gate = nn.Parameter(torch.ones(WIDTH))
        self.shift, self.low = nn.Parameter(torch.zeros(WIDTH)), nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 50)

    def forward(self, ids):
        length = ids.shape[1]
        x = self.words(ids) + self.places(torch.arange(length))
        mask = torch.full((length, length), float("-inf")).triu(1)
        extra = []
        for number, block in enumerate(self.blocks):
            state = {"gate": [self.gate, None]}

            def region(*args, block=block, **named):
                return block(*args, **named)

            out = self.run(region, x, state, mask=mask, scale=1.0 + number)
            x, norms = out.hidden, out.aside["norms"]
            extra.append(norms[0].mean() + 0 * out.aside["count"])
        x = self.run(lambda x: torch.sin(x + self.shift), x)
        LEFT.clear()
        x = self.run(leaves, x)
        extra.append(LEFT[0])
        parts = self.run(listed, [x, 0.5 * x], negative=False)
        parts.append(x)
        x = sum(parts)
        x = sum(self.run(twice, x))
        x = x + self.run(lambda *many: sum(many), *(x / (10 + n) for n in range(12)))
        x = gated(self.run, x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = x + self.run(self.low, x).float()
        x = x + self.run(lambda x: torch.fft.fft(x), x).real
        try:
            self.run(broken, x)
        except ValueError as error:
            extra.append(len(str(error)))
        first, second, wide = self.run(lambda x: (torch.tanh(x), x * 2, x.double()), x)
        if first.requires_grad:
            first.register_hook(lambda gradient: gradient * 0.5)
        return self.head(first + second * wide.float()), sum(extra)


def plainly(function, *args, **kwargs):
    return function(*args, **kwargs)


def recomputing(function, *args, **kwargs):
    return checkpoint(function, *args, **kwargs)


def model(recompute):
    return GPT(recomputing if recompute else plainly)


def batch(step):
    return torch.randint(0, 50, (2, 13))


def loss(model, ids):
    with torch.no_grad():
        model.eval()
        before = model(ids[:, :-1])[0]
    model.train()
    losses = []
    for part in ids.split(1):  # gradients are accumulated
        logits, extra = model(part[:, :-1])
        losses.append(nn.functional.cross_entropy(logits.transpose(1, 2), part[:, 1:]) + extra)
    losses[0].backward()
    return losses[1], {"before": before, "first": losses[0].detach()}
