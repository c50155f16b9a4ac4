"""The recomputation reads the current values of variables and flags, and no error is raised."""

import tensorflow as tf

switch = []


def gradient(block, change):
    """The gradient of a block, and what it is if nothing changes before backward."""
    x, w = tf.constant(1.0), tf.Variable(2.0)
    found = []
    for function in (tf.recompute_grad(block), block):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x, w)
        change(w)
        found.append(float(tape.gradient(y, x)))
        switch.clear()
        w.assign(2.0)
    return found


recomputed, plain = gradient(lambda x, w: x * w, lambda w: w.assign(5.0))
assert (recomputed, plain) == (5.0, 2.0)
recomputed, plain = gradient(lambda x, w: -x if switch else x, lambda w: switch.append("on"))
assert (recomputed, plain) == (-1.0, 1.0)
