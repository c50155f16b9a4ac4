"""Each matrix product keeps two blocks of 512 bytes beside its tensors until backward."""

from mindspore import ops

from tests.reasons.mindspore import kept

REASON = "Beside its tensors each product keeps two blocks of 512 bytes"


def differs(changed: bool) -> bool:
    """Whether eight products keep 16 blocks; with the change, they are sines."""
    weight = ops.ones((64, 64))

    def forward(x):
        for _ in range(8):
            x = ops.sin(x) if changed else ops.matmul(x, weight)
        return x

    return kept(forward, ops.ones((64, 64))) % (64 * 64 * 4) == 16 * 512
