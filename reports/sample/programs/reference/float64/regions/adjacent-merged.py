"""Two adjacent regions, merged.

Case regions/adjacent-merged, variant reference/float64.
Source: mindspore.recompute, output_recompute=True
"""

import numpy as np
import tape


def inputs():
    rng = np.random.default_rng(0)
    x = tape.tensor(0.5 * rng.standard_normal((1024, 64)), gradient=True)
    w1 = tape.tensor(0.1 * rng.standard_normal((64, 64)), gradient=True)
    w2 = tape.tensor(0.1 * rng.standard_normal((64, 64)), gradient=True)
    return {"x": x, "w1": w1, "w2": w2}


def plain(x, w1, w2):
    def first(x):
        h1 = tape.matmul(x, w1)
        s1 = tape.sin(h1)
        a1 = tape.sin(s1)
        return a1

    a1 = first(x)

    def second(a1):
        h2 = tape.matmul(a1, w2)
        s2 = tape.sin(h2)
        a2 = tape.sin(s2)
        return a2

    a2 = second(a1)
    z = tape.sum(a2)
    return z


def recomputed(x, w1, w2):
    def first(x):
        h1 = tape.matmul(x, w1)
        s1 = tape.sin(h1)
        a1 = tape.sin(s1)
        return a1

    recomputed_first = tape.recompute(first, merge_adjacent=True)
    a1 = recomputed_first(x)

    def second(a1):
        h2 = tape.matmul(a1, w2)
        s2 = tape.sin(h2)
        a2 = tape.sin(s2)
        return a2

    recomputed_second = tape.recompute(second)
    a2 = recomputed_second(a1)
    z = tape.sum(a2)
    return z


def run(forward):
    values = inputs()
    outputs = forward(**values)
    loss = outputs
    names = ["x", "w1", "w2"]
    wrt = [values[name] for name in names]
    first = tape.gradient(loss, wrt)
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": dict(zip(names, first, strict=True)),
    }


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
