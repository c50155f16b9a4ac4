"""The gradient of the gradient of a gradient.

Case procedures/third-order, variant autograd/arguments.
Source: tensorflow's custom gradient tests, testCustomGradientRecomputeGradHigherOrder
"""

import autograd.numpy as np
from autograd import checkpoint, make_vjp


def inputs():
    rng = np.random.default_rng(0)
    x = np.array(0.5 * rng.standard_normal((3, 4)), dtype=np.float32)
    w = np.array(0.5 * rng.standard_normal((4, 4)), dtype=np.float32)
    return {"x": x, "w": w}


def plain(x, w):
    def block(x, w):
        h = x @ w
        s = np.sin(h)
        a = np.exp(s)
        return a

    a = block(x, w)
    z = a * a
    return z


def recomputed(x, w):
    def block(x, w):
        h = x @ w
        s = np.sin(h)
        a = np.exp(s)
        return a

    a = checkpoint(block)(x, w)
    z = a * a
    return z


def run(forward):
    values = inputs()
    wanted = {"x": values["x"]}
    seen = []
    taken = []

    def loss_of(wanted):
        outputs = forward(**{**values, **wanted})
        seen.append(outputs)
        return np.sum(outputs)

    def total_of(wanted):
        vjp, loss = make_vjp(loss_of)(wanted)
        gradients = vjp(np.ones_like(loss))
        taken.append((loss, gradients))
        return sum(np.sum(gradients[name]) for name in ("x",))

    def second_total_of(wanted):
        vjp, total = make_vjp(total_of)(wanted)
        gradients = vjp(np.ones_like(total))
        return sum(np.sum(gradients[name]) for name in ("x",))

    vjp, total = make_vjp(second_total_of)(wanted)
    again = vjp(np.ones_like(total))
    loss, gradients = taken[0]
    outputs = seen[0]
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": {"x": gradients["x"]},
        "again": {"x": again["x"]},
    }


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
