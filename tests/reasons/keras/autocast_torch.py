"""The rerun of a layer under mixed precision reads its variables in float32."""

import keras
import torch

ENVIRONMENT = {"KERAS_BACKEND": "torch"}
REASON = "The scope in which variables are read in the dtype of a layer's policy"


def differs(changed: bool) -> bool:
    """Whether backward raises an error; with the change, what is recomputed opens the scope."""
    with keras.RematScope(None if changed else "full"):
        layer = keras.layers.Dense(2, dtype="mixed_bfloat16")
    x = torch.ones(2, 3, requires_grad=True)
    layer.build(x.shape)
    y = keras.remat(layer)(x) if changed else layer(x)
    try:
        y.sum().backward()
    except torch.utils.checkpoint.CheckpointError as error:
        return "different metadata" in str(error)
    return False
