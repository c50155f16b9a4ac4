"""A Jacobian raises if a recomputed function also returns a complex tensor that nothing reads."""

import tensorflow as tf


def region(x):
    return tf.complex(x, x), tf.sin(x)


def jacobian(function, **options):
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = function(x)[1]
    return tape.jacobian(y, x, **options)


jacobian(region)
jacobian(tf.recompute_grad(region), experimental_use_pfor=False)
try:
    jacobian(tf.recompute_grad(region))
except TypeError as error:
    assert "complex64 not in list of allowed values" in str(error)
else:
    raise AssertionError("no error is raised")
