"""The reference on memory: what is kept between forward and backward."""

from __future__ import annotations

from conformance.oracle.expected import expect

from .test_reference_disciplines import _procedure, case


def test_memory_of_sines() -> None:
    layers = []
    for n in range(1, 5):
        x = "x" if n == 1 else f"h{n - 1}"
        body = [f"m{n} = matmul({x}, w{n})", f"s{n} = sin(m{n})", f"h{n} = sin(s{n})"]
        layers.append(f"r{n}({x}):\n" + "\n".join(f"  {line}" for line in body))
    memory = expect(case("\n".join(layers) + "\nz = sum(h4)"), "whole").memory
    unit = 4 * 4 * 4
    assert memory.unit == unit
    assert memory.plain == (11 * unit, 11 * unit)  # m, s of four layers, h of three
    assert memory.recomputed == (3 * unit, 3 * unit)  # h of three
    assert memory.drop == 8 * unit


def test_memory_of_relu_layers_need_not_fall() -> None:
    layers = []
    for n in range(1, 4):
        x = "x" if n == 1 else f"h{n - 1}"
        layers.append(f"r{n}({x}):\n  m{n} = matmul({x}, w{n})\n  h{n} = relu(m{n})")
    memory = expect(case("\n".join(layers), outputs="h3"), "whole").memory
    unit = 64
    assert memory.plain == (2 * unit, 5 * unit)  # h1 h2, or m1 m2 m3 with them
    assert memory.recomputed == (2 * unit, 2 * unit)
    assert memory.drop == 0


def test_merged_regions_keep_nothing_between_them() -> None:
    program = (
        "ra(x):{}\n  s = sin(x)\n  a = tanh(s)\nrb(a):\n  e = exp(a)\n  b = sigmoid(e)\nz = sum(b)"
    )
    apart = expect(case(program.format("")), "whole").memory
    merged = expect(case(program.format("!")), "whole").memory
    assert apart.recomputed == (64, 64)
    assert merged.recomputed == (0, 0)


def test_views_and_masks_widen_the_range() -> None:
    program = "r(x):\n  y = reshape(x, shape=[16])\n  d = dropout(y)\n  s = sin(d)\nz = sum(s)"
    memory = expect(case(program), "whole").memory
    assert memory.plain == (64 + 16, 64 + 64)
    assert memory.recomputed == (0, 0)
    assert memory.drop == 80


def test_inference_keeps_nothing_to_speak_of() -> None:
    assert expect(_procedure("    procedure: inference\n"), "whole").memory is None
