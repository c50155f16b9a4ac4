"""What PyTorch has set for a whole process, and for the thread that programs run in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch.utils import _device

from conformance.observe.worker.surroundings import Setting


def _modes() -> tuple[int, ...]:
    """The depths of the stacks of torch-function modes and of dispatch modes."""
    return torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()


SETTINGS: Mapping[str, Setting] = {
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    # Not what `get_default_device` gives: setting that enters a mode.
    "the default device": (lambda: _device.CURRENT_DEVICE, torch.set_default_device),
    "whether gradients are recorded": (torch.is_grad_enabled, torch.set_grad_enabled),
    "the number of threads": (torch.get_num_threads, torch.set_num_threads),
    **{
        f"{what} on {device}": (partial(told, device), partial(change, device))
        for what, told, change in (
            ("autocast", torch.is_autocast_enabled, torch.set_autocast_enabled),
            ("autocast's dtype", torch.get_autocast_dtype, torch.set_autocast_dtype),
        )
        for device in ("cpu", "cuda")
    },
    "the detection of anomalies": (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    "deterministic algorithms": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    "the precision of products": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    # These cannot be left from outside: setting them fails, and the worker is replaced.
    "inference mode": (torch.is_inference_mode_enabled, lambda _: None),
    "modes": (_modes, lambda _: None),
}
