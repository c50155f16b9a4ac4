"""One small model of transformers with random weights, as `conformance check` takes a program.

    MODEL=GPT2LMHeadModel REENTRANT=0 conformance check tools/model_program.py

`MODEL` names a class of transformers, `REENTRANT` the mode of `torch.utils.checkpoint`.
"""

import contextlib
import inspect
import os

import torch
import transformers

#: By the end of a setting's name, what makes a model small. The longest end counts.
SMALL = {
    "layers": 2,
    "layer": 2,
    "depth": 2,
    "hidden_size": 32,
    "embed_dim": 32,
    "embedding_size": 32,
    "dim": 32,
    "d_model": 32,
    "n_embd": 32,
    "intermediate_size": 48,
    "ffn_dim": 48,
    "d_ff": 48,
    "d_kv": 8,
    "head_dim": 8,
    "heads": 4,
    "head": 4,
    "key_value_heads": 2,
    "vocab_size": 128,
    "vocab_size_per_layer_input": 128,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "experts": 4,
    "experts_per_tok": 2,
    "image_size": 32,
    "patch_size": 8,
    "window_size": 4,
}
#: Settings whose names end so and that are no sizes.
NO_SIZES = ("first_k_dense_replace", "rotary_dim", "attn_layer")
LENGTH, BATCH = 12, 2


def small(config):
    """The configuration with small sizes, and with dropout."""
    for name, value in list(vars(config).items()):
        if isinstance(value, transformers.PretrainedConfig):
            small(value)
        elif isinstance(value, bool) or name in NO_SIZES:
            continue
        elif (
            isinstance(value, float)
            and "drop" in name
            and "layer" not in name
            and "path" not in name
        ):
            set_to(config, name, 0.1)
        elif isinstance(value, int) and value > 0:
            ends = [end for end in SMALL if name == end or name.endswith(f"_{end}")]
            if ends:
                set_to(config, name, min(value, SMALL[max(ends, key=len)]))
        if name.endswith("token_id") and isinstance(value, int) and value >= 100:
            set_to(config, name, 2)
    layers = getattr(config, "layer_types", None)
    if layers and isinstance(getattr(config, "num_hidden_layers", None), int):
        config.layer_types = list(layers)[: config.num_hidden_layers]
    return config


def set_to(config, name, value):
    with contextlib.suppress(AttributeError, NotImplementedError, ValueError):
        setattr(config, name, value)


KIND = getattr(transformers, os.environ.get("MODEL", "GPT2LMHeadModel"))
REENTRANT = os.environ.get("REENTRANT", "0") == "1"
CONFIG = small(KIND.config_class())


def model(recompute):
    made = KIND(CONFIG)
    if sum(parameter.numel() for parameter in made.parameters()) > 20_000_000:
        raise ValueError("the model is not small")
    if recompute:
        options = {"use_reentrant": REENTRANT}
        made.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
    return made.train()


def batch(step):
    """What `forward` is called with, by the name of its main input."""
    name, given = KIND.main_input_name, {}
    if name == "pixel_values":
        size = getattr(CONFIG, "image_size", 32)
        height, width = size if isinstance(size, list | tuple) else (size, size)
        given[name] = torch.randn(BATCH, getattr(CONFIG, "num_channels", 3), height, width)
    elif name == "input_features":
        bins = getattr(CONFIG, "num_mel_bins", None) or getattr(CONFIG, "feature_size", 80)
        frames = 2 * getattr(CONFIG, "max_source_positions", 32)
        whisper = getattr(CONFIG, "max_source_positions", None) is not None
        given[name] = torch.randn(BATCH, bins, frames) if whisper else torch.randn(BATCH, 64, bins)
    elif name == "input_values":
        given[name] = torch.randn(BATCH, 4000)
    else:
        given[name] = torch.randint(3, 100, (BATCH, LENGTH))
    names = inspect.signature(KIND.forward).parameters
    if name == "input_ids" and "labels" in names and "LM" in KIND.__name__ + "LM":
        given["labels"] = given[name]
    elif "decoder_input_ids" in names:
        given["decoder_input_ids"] = torch.randint(3, 100, (BATCH, LENGTH))
    return given


def loss(model, given):
    outputs = model(**given)
    found = getattr(outputs, "loss", None)
    if found is None:
        found = next(value for value in outputs.values() if isinstance(value, torch.Tensor))
        found = found.float().square().mean()
    return found
