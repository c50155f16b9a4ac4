"""One small model of transformers with random weights, as `conformance check` takes a program.

    MODEL=GPT2LMHeadModel REENTRANT=0 conformance check tools/model_program.py

`MODEL` names a class of transformers, `REENTRANT` the mode of `torch.utils.checkpoint`.
"""

import dataclasses
import inspect
import os
import re

import torch
import transformers

#: By the end of a setting's name, what makes a model small. The longest end counts.
SMALL = {
    **dict.fromkeys(("layers", "layer", "depth"), 2),
    **dict.fromkeys(("hidden_size", "dim", "d_model", "n_embd", "bottleneck_size"), 32),
    **dict.fromkeys(("embed_dim", "embedding_size", "ffn_hidden_size"), 32),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "d_ff"), 48),
    **dict.fromkeys(("head_dim", "d_kv", "d_state"), 8),
    **dict.fromkeys(("heads", "head", "experts"), 4),
    **dict.fromkeys(("key_value_heads", "experts_per_tok"), 2),
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), 128),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 64),
    **dict.fromkeys(("n_groups", "ngroups"), 1),
    **{"image_size": 32, "patch_size": 8, "window_size": 4, "rotary_dim": 4, "kv_shared_layers": 0},
}
#: Settings whose names end so and that are no sizes.
NO_SIZES = ("first_k_dense_replace", "attn_layer")
#: What else the configurations of some classes need, by name.
NEEDS = {
    "ASTConfig": {"max_length": 64},
    "AXK1Config": {"n_group": 1, "topk_group": 1},
    "BambaConfig": {"mamba_d_head": 16, "attn_layer_indices": [1]},
    "BltConfig": {
        **{"encoder_hash_byte_group_vocab": 64, "num_hidden_layers": 2},
        "encoder_config": {"hidden_size_global": 32},
        "decoder_config": {"hidden_size_global": 32},
    },
    "CohereCompassTextConfig": {
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}
    },
    "DbrxConfig": {"attn_config": {"rope_theta": 1e4, "clip_qkv": 8.0}},
    "DeepseekV2Config": {"num_experts_per_tok": 2},
    "DiffLlamaConfig": {"attention_dropout": 0.0},
    "DonutSwinConfig": {"embed_dim": 24, "depths": [1, 1], "num_heads": [2, 4]},
    "Dots1Config": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "EncoderDecoderConfig": {
        "decoder": {"is_decoder": True, "add_cross_attention": True},
        **{"decoder_start_token_id": 2, "pad_token_id": 0},
    },
    "Ernie4_5_MoeConfig": {"moe_k": 2},
    "EsmConfig": {"vocab_size": 128, "pad_token_id": 1, "mask_token_id": 2},
    "FalconH1Config": {"mamba_d_head": 16, "mamba_d_ssm": 64},
    "FunAsrNanoConfig": {"adaptor_config": {"intermediate_size": 8}},
    "GPTNeoConfig": {"attention_types": [[["global", "local"], 1]]},
    "GraniteMoeHybridConfig": {
        "mamba_d_head": 16,
        "layer_types": ["linear_attention", "full_attention"],
    },
    "GraniteSpeech5CTCConfig": {"encoder_config": {"context_size": 16}},
    "HunYuanDenseV1Config": {"head_dim": 8},
    "HunYuanMoEV1Config": {"head_dim": 8},
    "Lfm2MoeConfig": {"layer_types": ["conv", "full_attention"]},
    "JambaConfig": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "LongcatFlashConfig": {"qk_head_dim": 16},
    "Mamba2Config": {"head_dim": 16},
    "MinistralConfig": {"head_dim": 8},
    "MobileViTV2Config": {"image_size": 64},
    "MoonshineStreamingConfig": {"num_key_value_heads": 4},
    "NemotronConfig": {"num_key_value_heads": 4, "head_dim": 8},
    "NeoMMEConfig": {"head_dim": 16},
    "Qwen4ExpTextConfig": {
        **{"indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 8},
        **{"indexer_budget": 8, "indexer_compress_ratio": 4},
    },
    "RecurrentGemmaConfig": {"num_hidden_layers": 3},
    "SpeechEncoderDecoderConfig": {
        "decoder": {"is_decoder": True, "add_cross_attention": True},
        **{"decoder_start_token_id": 2, "pad_token_id": 0},
    },
    "SwinConfig": {"embed_dim": 24, "depths": [1, 1], "num_heads": [2, 4]},
    "Swinv2Config": {"embed_dim": 24, "depths": [1, 1], "num_heads": [2, 4]},
    "Wav2Vec2BertConfig": {"vocab_size": 32},
    "Wav2Vec2ConformerConfig": {"vocab_size": 32},
    "xLSTMConfig": {"hidden_size": 128, "embedding_dim": 128},
    "XmodConfig": {"default_language": "en_XX"},
    "ZambaConfig": {
        "attention_head_dim": 16,
        "attention_hidden_size": 64,
        "num_hidden_layers": 3,
        "layers_block_type": ["linear_attention", "hybrid", "hybrid"],
    },
}
#: The shape of one element of the main input, where the kind of input does not tell it.
SHAPES = {
    **{"AST": (64, 128), "GraniteSpeech5": (64, 320), "SeamlessM4T": (64, 32)},
    **{"Speech2Text": (64, 80), "Wav2Vec2Bert": (64, 32)},
}
#: Starts of the names of classes whose labels are of another form than the main input, and how many
#: codebooks stand below each other in the input of others.
NO_LABELS, CODEBOOKS = ("Dia", "Git", "Musicgen"), {"Musicgen": 4}
LENGTH, BATCH = 12, 2


def small(kind, needs=None):
    """A configuration of a class with small sizes and with dropout, and with one layer of each kind."""
    needs = {**NEEDS.get(kind.__name__, {}), **(needs or {})}
    whole, fields = kind(), {field.name for field in dataclasses.fields(kind)}
    settings = {}
    for name, value in vars(whole).items():
        if isinstance(value, transformers.PretrainedConfig):
            settings[name] = small(type(value), needs.pop(name, None))
        elif name not in fields or isinstance(value, bool) or name.endswith(NO_SIZES):
            continue
        elif isinstance(value, float) and "drop" in name and not re.search("layer|path", name):
            settings[name] = 0.1
        elif isinstance(value, int) and value >= 100 and name.endswith("token_id"):
            settings[name] = 2
        elif isinstance(value, int) and value > 0:
            ends = [end for end in SMALL if name == end or name.endswith(f"_{end}")]
            if ends:
                settings[name] = min(value, SMALL[max(ends, key=len)])
            if name.endswith("key_value_heads"):
                heads = name.replace("key_value", "attention")
                if value == getattr(whole, heads, None):
                    settings[name] = min(value, SMALL["heads"])
    for name in ("layer_types", "layers_block_type"):
        layers = getattr(whole, name, None)
        if layers and name in fields and "num_hidden_layers" in settings:
            different = list(dict.fromkeys(layers))
            settings[name] = (different * 2)[: max(2, len(different))]
            settings["num_hidden_layers"] = len(settings[name])
    if getattr(whole, "is_encoder_decoder", False) and not hasattr(whole, "decoder_start_token_id"):
        settings["decoder_start_token_id"] = 0
    return kind(**{**settings, **needs})


def setting(config, name, otherwise):
    """A setting of a configuration, or of one inside it."""
    found = getattr(config, name, None)
    parts = [one for one in vars(config).values() if isinstance(one, transformers.PretrainedConfig)]
    inner = (setting(one, name, None) for one in parts)
    return next((one for one in (found, *inner) if one is not None), otherwise)


KIND = getattr(transformers, os.environ.get("MODEL", "GPT2LMHeadModel"))
REENTRANT = os.environ.get("REENTRANT", "0") == "1"
CONFIG = small(KIND.config_class)


def model(recompute):
    made = KIND(CONFIG)
    if sum(parameter.numel() for parameter in made.parameters()) > 20_000_000:
        raise ValueError("the model is not small")
    if recompute:
        options = {"use_reentrant": REENTRANT}
        made.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
    return made.train()


def tokens(*shape):
    highest = min(100, setting(CONFIG, "vocab_size", 100))
    return torch.randint(3, highest, (BATCH, *shape))


def batch(step):
    """What `forward` is called with, by the name of its main input."""
    name, given = KIND.main_input_name, {}
    names = inspect.signature(KIND.forward).parameters
    shape = next((s for start, s in SHAPES.items() if KIND.__name__.startswith(start)), None)
    bins = setting(CONFIG, "num_mel_bins", None) or setting(CONFIG, "feature_size", 80)
    if shape is not None and name != "input_ids":
        given[name] = torch.randn(BATCH, *shape)
    elif "spatial_shapes" in names:
        pixels = getattr(CONFIG, "vision_config", CONFIG).patch_size ** 2
        given[name] = torch.randn(BATCH, 16, 3 * pixels)
        given["pixel_attention_mask"] = torch.ones(BATCH, 16, dtype=torch.int64)
        given["spatial_shapes"] = torch.full((BATCH, 2), 4)
    elif name == "pixel_values":
        size = getattr(CONFIG, "image_size", 32)
        height, width = size if isinstance(size, list | tuple) else (size, size)
        given[name] = torch.randn(BATCH, getattr(CONFIG, "num_channels", 3), height, width)
    elif name == "input_features":
        positions = setting(CONFIG, "max_source_positions", None)
        given[name] = torch.randn(
            BATCH, *((64, bins) if positions is None else (bins, 2 * positions))
        )
    elif name in ("input_values", "inputs"):
        given[name] = torch.randn(BATCH, 4000)
    else:
        books = next((n for start, n in CODEBOOKS.items() if KIND.__name__.startswith(start)), 1)
        given[name] = torch.cat([tokens(LENGTH) for _ in range(books)])
    if KIND.__name__.startswith(NO_LABELS) or "Classification" in KIND.__name__:
        names = names.keys() - {"labels"}
    if name == "input_ids" and "labels" in names:
        given["labels"] = given[name]
    elif "decoder_input_ids" in names:
        given["decoder_input_ids"] = tokens(LENGTH)
    return given


def loss(model, given):
    outputs = model(**given)
    found = getattr(outputs, "loss", None)
    if found is None:
        found = next(value for value in outputs.values() if isinstance(value, torch.Tensor))
        found = found.float().square().mean()
    return found
