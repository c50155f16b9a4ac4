"""A region as the one layer of a model of Hugging Face's transformers."""

from typing import Any

from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer


class Layer(GradientCheckpointingLayer):
    """What the library recomputes: a layer of a model."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)


class Model(PreTrainedModel):
    """A model of one layer. Its input is no list of token ids, as that of a decoder's layers."""

    config_class = PretrainedConfig
    main_input_name = "hidden_states"
    supports_gradient_checkpointing = True

    def __init__(self, module: nn.Module) -> None:
        super().__init__(PretrainedConfig())
        self.layer = Layer(module)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.layer(*args, **kwargs)


def checkpointed(module: nn.Module) -> nn.Module:
    """The module as a model in training whose layers are recomputed."""
    if not callable(module):
        raise TypeError("not a module")
    model = Model(module)
    model.train()
    model.gradient_checkpointing_enable()
    return model
