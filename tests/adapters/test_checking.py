"""`conformance check` on the examples of each framework, and on programs that are wrong."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import conformance
from conformance.checking import Result

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
#: The adapter, its example, and what must be installed.
RIGHT = [
    ("torch", "torch_gpt2", "transformers"),
    ("jax", "jax_flax", "flax"),
    ("tf", "tf_mlp", "tensorflow"),
    ("keras", "keras_transformer", "keras"),
    ("paddle", "paddle_transformer", "paddle"),
    ("mindspore", "mindspore_transformer", "mindspore"),
    ("mlx", "mlx_transformer", "mlx"),
]
FROZEN = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

class Model(nn.Module):
    def __init__(self, again):
        super().__init__()
        self.again, self.first, self.head = again, nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        h = checkpoint(self.first, x, use_reentrant=True) if self.again else self.first(x)
        return self.head(h)

def model(recompute):
    return Model(recompute)

def batch(step):
    return torch.randn(8, 4)

def loss(model, x):
    return model(x).square().mean()
"""
RULE = """
import jax
import jax.numpy as jnp

def plain(w, x):
    return jnp.sin(x @ w)

again = jax.custom_vjp(plain)
again.defvjp(
    lambda w, x: (plain(w, x), (w, x)), lambda kept, given: jax.vjp(plain, *kept)[1](given)
)

def model(recompute):
    return {"w": jnp.ones((4, 4)), "function": plain if not recompute else again}

def batch(step):
    return jnp.ones((8, 4))

def loss(model, x):
    return model["function"](model["w"], x).sum()
"""
#: The adapter, an example's text and what is replaced in it, the lines that fail, and the cause.
WRONG = [
    ("torch", FROZEN, "", "", ["gradients", "ran again"], "frozen_input"),
    (
        "tf",
        "tf_mlp",
        "tf.nn.experimental.stateless_dropout(tf.nn.gelu(x @ self.up), 0.1, seed)",
        "tf.nn.dropout(tf.nn.gelu(x @ self.up), 0.1)",
        ["gradients", "random state"],
        "draws",
    ),
    ("mlx", "mlx_transformer", "4, 256)", "4, 256, 0.1)", ["gradients", "random state"], "draws"),
    (
        "paddle",
        "paddle_transformer",
        "x = self.embed(ids)",
        "x = run_again(self.embed, ids) if self.recompute else self.embed(ids)",
        ["gradients"],
        "no_argument_requires_gradient",
    ),
]


def installed(adapter: str) -> bool:
    module = {"tf": "tensorflow"}.get(adapter, adapter)
    return importlib.util.find_spec(module) is not None


def failed(result: Result) -> list[str]:
    return [one.check for one in result.lines if one.status.value == "fail"]


@pytest.mark.parametrize(("adapter", "example", "needs"), RIGHT, ids=[row[0] for row in RIGHT])
def test_an_example_is_right_and_saves_memory(adapter: str, example: str, needs: str) -> None:
    if not installed(adapter) or importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed here")
    result = conformance.check(EXAMPLES / f"{example}.py")
    assert result.checked.framework == adapter
    assert result.ok, str(result)
    told = {one.check: one for one in result.lines}
    assert {"loss", "gradients", "parameters", "random state", "ran again", "memory"} <= set(told)
    assert "repeats" not in told
    before, after = result.checked.memory_plain, result.checked.memory_recomputed
    assert before.kept is not None
    assert after.kept is not None
    assert after.kept < before.kept / 2


@pytest.mark.parametrize(
    ("adapter", "text", "old", "new", "wrong", "cause"), WRONG, ids=[row[0] for row in WRONG]
)
def test_what_is_wrong_is_told_with_its_cause(
    adapter: str, text: str, old: str, new: str, wrong: list[str], cause: str, tmp_path: Path
) -> None:
    if not installed(adapter):
        pytest.skip(f"{adapter} is not installed here")
    file = EXAMPLES / f"{text}.py"
    program = text if "\n" in text else file.read_text()
    assert program.count(old) == 1 or not old
    (tmp_path / "mine.py").write_text(program.replace(old, new) if old else program)
    result = conformance.check(tmp_path / "mine.py", bisect=True)
    assert failed(result) == wrong, str(result)
    assert cause in [guess.cause for guess in result.guesses]


def test_regions_that_are_told_not_to_preserve_the_random_state_are_named(tmp_path: Path) -> None:
    if not installed("torch"):
        pytest.skip("torch is not installed here")
    program = FROZEN.replace("nn.Linear(4, 4)", "nn.Sequential(nn.Linear(4, 4), nn.Dropout())")
    program = program.replace("use_reentrant=True", "use_reentrant=False, preserve_rng_state=False")
    (tmp_path / "mine.py").write_text(program)
    result = conformance.check(tmp_path / "mine.py")
    assert failed(result) == ["gradients", "random state"], str(result)
    told = {one.check: one.details for one in result.lines}
    assert told["random state"] == ("regions that are told not to preserve it: first",)
    assert not result.guesses


def test_a_compiled_module_is_right_and_says_what_is_not_observed(tmp_path: Path) -> None:
    if not installed("torch"):
        pytest.skip("torch is not installed here")
    program = FROZEN.replace("use_reentrant=True", "use_reentrant=False").replace(
        "return Model(recompute)", 'return torch.compile(Model(recompute), backend="aot_eager")'
    )
    (tmp_path / "mine.py").write_text(program)
    result = conformance.check(tmp_path / "mine.py")
    assert result.ok, str(result)
    told = {one.check: one for one in result.lines}
    assert told["ran again"].status.value == "unsupported"
    assert "torch.compile" in told["ran again"].message


def test_the_reentrant_mode_is_right_in_a_model_of_transformers(tmp_path: Path) -> None:
    if not installed("torch") or importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed here")
    program = (EXAMPLES / "torch_gpt2.py").read_text()
    enabled = "gradient_checkpointing_enable("
    assert program.count(enabled) == 1
    (tmp_path / "mine.py").write_text(
        program.replace(enabled, f"{enabled}{{'use_reentrant': True}}")
    )
    result = conformance.check(tmp_path / "mine.py")
    assert result.ok, str(result)
    assert {one.status.value for one in result.lines} == {"pass", "report"}, str(result)


def test_parameters_are_not_counted_as_kept(tmp_path: Path) -> None:
    if not installed("torch"):
        pytest.skip("torch is not installed here")
    program = FROZEN.replace("use_reentrant=True", "use_reentrant=False").replace(
        "return Model(recompute)",
        "made = Model(recompute)\n    made.head.weight.requires_grad = False\n    return made",
    )
    (tmp_path / "mine.py").write_text(program)
    checked = conformance.check(tmp_path / "mine.py").checked
    # The frozen weight is seen first as a view, in the first matrix product. The batch is gone.
    assert checked.memory_plain.left == checked.memory_recomputed.left == -(8 * 4 * 4)


def test_what_a_rule_of_custom_vjp_runs_again_is_not_observed(tmp_path: Path) -> None:
    if not installed("jax"):
        pytest.skip("jax is not installed here")
    (tmp_path / "mine.py").write_text(RULE)
    result = conformance.check(tmp_path / "mine.py")
    assert result.ok, str(result)
    (line,) = (one for one in result.lines if one.check == "ran again")
    assert line.status.value == "unsupported", line
    (tmp_path / "mine.py").write_text(RULE.replace("plain if not recompute", "plain if True"))
    assert failed(conformance.check(tmp_path / "mine.py")) == ["ran again"]
