"""GPT-2 of transformers with random weights, and its own gradient checkpointing."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

CONFIG = GPT2Config(n_layer=4, n_embd=128, n_head=4, n_positions=128, vocab_size=1000)


def model(recompute):
    gpt2 = GPT2LMHeadModel(CONFIG)
    if recompute:
        gpt2.gradient_checkpointing_enable()
    return gpt2.train()


def batch(step):
    return torch.randint(0, 1000, (4, 128))


def loss(model, ids):
    return model(ids, labels=ids).loss
