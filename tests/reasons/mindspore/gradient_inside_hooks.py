"""A recomputed cell cannot take a gradient itself, in PyNative mode with use_reentrant=False."""

import mindspore as ms
from mindspore import ops

from tests.reasons.mindspore.gradient_inside import raises, taken

REASON = "With use_reentrant=False a gradient that is taken inside the cell finds nothing"


def differs(changed: bool) -> bool:
    """Whether forward raises an error; with the change, the slope is written out."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    return raises(ops.cos if changed else taken, False, "input_args_info")
