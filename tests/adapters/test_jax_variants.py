"""JAX's jitted variants, loops, policies and sources of random numbers: what is counted and measured.

Counts are held to a second method that sees what really ran: probes on the host, called by the compiled
program. Bytes are derived by hand.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frameworks import framework

jax = framework("jax", "jax")

from conformance.language.features import required_by  # noqa: E402
from conformance.language.load import load_text  # noqa: E402
from conformance.model.case import Case  # noqa: E402
from conformance.model.observation import Leaf, Run  # noqa: E402
from conformance.model.program import Program  # noqa: E402
from conformance.observe.worker.entry import observe  # noqa: E402
from conformance.observe.worker.loaded import load_program  # noqa: E402
from tests.adapters.bench import ROOT, Bench  # noqa: E402
from tests.suite_cases import BY_ID  # noqa: E402

BENCH = Bench("jax")
ADAPTER, emitted, observed = BENCH.adapter, BENCH.emitted, BENCH.observed
ACTIVATION = 256 * 64 * 4
#: What the probes replace in a program, by the operation that it emits.
#: Their gradients do not read their results: a result that runs again is read by another statement.
PROBED = ("sin", "cos")


def chain(*body: str, after: str = "y = sin(h)", rounds: int = 4, more: str = "") -> Case:
    """A region over a tensor of `ACTIVATION` bytes, called in a chain, and something after it."""
    lines = "\n".join(f"          - {line}" for line in body)
    calls = "\n".join("      - {call: layer, takes: h, gives: h}" for _ in range(rounds - 1))
    (case,) = load_text(
        f"""family: written
cases:
  chain:
    title: A chain
    source: the test
    why: What it keeps is known.
    inputs:
      x: {{shape: [256, 64], normal: 0.5}}
    parameters:
      w: {{shape: [64, 64], normal: 0.1}}
    program:
      - h = negative(x)
      - recompute: layer
        takes: h
        gives: h
        {more}
        body:
{lines}
{calls}
      - {after}
      - z = sum(y)
    outputs: z
    gradients: {{of: z}}
""",
        "test",
    )
    return case


LAYER = ("p = matmul(h, w)", "s = sin(p)", "h = cos(s)")


def counted(run: Run, phase: str) -> dict[str, int]:
    """Executions by statement."""
    assert run.executions is not None
    return {e.statement: e.count for e in run.executions if e.phase == phase and e.statement}


# -- executions: what the observer reads, and what the host was called for -----------------------


def both_ways(program: Program) -> tuple[Counter[str], Counter[str]]:
    """Executions of the probed operations in the recomputed run, forward and again together: as the
    observer counts them, and as probes do that the compiled program calls."""
    seen: Counter[str] = Counter()
    ops = {(s.region, s.label): s.op for s in program.sites("statement", "recomputed")}
    for e in observe(str(ADAPTER.folder), program).recomputed.executions or ():
        if e.statement and ops[e.region, e.statement] in PROBED:
            seen[ops[e.region, e.statement]] += e.count
    ran: Counter[str] = Counter()
    module = load_program(program)
    module.jnp = Probed(module.jnp, ran)  # type: ignore[attr-defined]
    jax.block_until_ready(module.run(module.recomputed)["gradients"])
    jax.effects_barrier()
    return seen, ran


class Probed:
    """`jax.numpy`, with functions whose results pass through the host, which counts them.

    The derivative of the passage is that of the identity, so that gradients read what they did.
    """

    def __init__(self, original: Any, counts: Counter[str]) -> None:
        self._original, self._counts = original, counts

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._original, name)
        if name not in PROBED:
            return found

        def call(value: Any) -> Any:
            self._counts[name] += 1
            return np.asarray(value)

        @jax.custom_jvp  # type: ignore[untyped-decorator]
        def passed(x: Any) -> Any:
            return jax.pure_callback(call, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

        passed.defjvp(lambda primals, tangents: (passed(*primals), tangents[0]))
        return lambda x: passed(found(x))


def peaks(program: Program) -> tuple[float, float]:
    """Activations at most, plain and recomputed."""
    seen = observe(str(ADAPTER.folder), program)
    assert seen.plain.peak is not None
    assert seen.recomputed.peak is not None
    return seen.plain.peak / ACTIVATION, seen.recomputed.peak / ACTIVATION


def in_a_process(function: Callable[[Program], Any], program: Program) -> Any:
    """What a function of this file gives in a process that has the variant's environment: XLA reads
    its flags once."""
    code = f"""
import json, sys
sys.path[:0] = [{str(ROOT)!r}]
from conformance.model.program import Program, Site
from tests.adapters.test_jax_variants import {function.__name__}
print(json.dumps({function.__name__}({program!r})))
"""
    own = ADAPTER.variant(program.variant).model.environment
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **ADAPTER.model.environment, **own},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("variant", ["eager", "jit-two-phase", "jit-barriers-kept", "scan"])
def test_probes_that_run_count_what_is_read_from_the_program(variant: str, tmp_path: Path) -> None:
    program = emitted(chain(*LAYER), variant, tmp_path)
    kept = variant == "jit-barriers-kept"
    seen, ran = in_a_process(both_ways, program) if kept else both_ways(program)
    assert seen == ran
    # 4 calls, and a sine after them. Each call's sine runs again, as its cosine's gradient reads it;
    # each cosine is what the next call takes, and is kept.
    assert ran == {"sin": 4 + 4 + 1, "cos": 4}


@pytest.mark.parametrize("variant", ["eager", "jit-two-phase"])
@pytest.mark.parametrize(
    "identity",
    [
        *("regions/nested", "regions/siblings", "policies/save-two-operations"),
        *("in-place/inside", "in-place/view-returned"),
    ],
)
def test_probes_agree_on_published_cases(identity: str, variant: str, tmp_path: Path) -> None:
    seen, ran = both_ways(emitted(BY_ID[identity], variant, tmp_path))
    assert seen == ran
    assert ran


@pytest.mark.parametrize("variant", ["jit-two-phase", "scan"])
def test_one_more_operation_is_one_more_count(variant: str, tmp_path: Path) -> None:
    one = observed(chain(*LAYER), variant, tmp_path).recomputed
    more = observed(
        chain("p = matmul(h, w)", "s = sin(p)", "t = tanh(s)", "h = cos(t)"), variant, tmp_path
    ).recomputed
    for phase in ("forward", "rerun"):
        assert counted(one, phase)["s"] == counted(more, phase)["s"] == 4
        assert counted(more, phase)["t"] == 4
        assert "t" not in counted(one, phase)


@pytest.mark.parametrize("variant", ["eager", "jit-two-phase", "scan"])
def test_a_checkpoint_that_does_nothing_is_seen(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax, "checkpoint", lambda function, **_: function)
    seen = observed(chain(*LAYER), variant, tmp_path)
    assert not any(counted(seen.recomputed, "rerun").values())
    assert seen.recomputed.retained == seen.plain.retained
    assert seen.recomputed.peak == seen.plain.peak


def test_a_loop_of_one_round_is_written_where_the_case_says_so(tmp_path: Path) -> None:
    assert (
        "lax.scan(layer, h, length=1)" in emitted(BY_ID["control/one-round"], "scan", tmp_path).text
    )
    assert "single-call" in required_by(chain("h = cos(h)", rounds=1))


# -- policies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["eager", "jit-two-phase"])
def test_what_a_policy_keeps_does_not_run_again(variant: str, tmp_path: Path) -> None:
    body = ("p = matmul(h, w)", "s = sin(p)", "q = matmul(s, w)", "t = sin(q)", "h = cos(t)")
    reruns = {
        more: counted(
            observed(chain(*body, rounds=1, more=more), variant, tmp_path).recomputed, "rerun"
        )
        for more in ("", "save: [matmul]", "save: [q]", "save: [q, matmul]")
    }
    products = {more: (found["p"], found["q"]) for more, found in reruns.items()}
    assert products == {
        "": (1, 1),
        "save: [matmul]": (0, 0),
        "save: [q]": (1, 0),
        "save: [q, matmul]": (0, 0),
    }
    assert {found["t"] for found in reruns.values()} == {1}  # the cosine's gradient reads it


def test_a_policy_is_written_by_primitive_where_that_says_it_and_by_name_elsewhere(
    tmp_path: Path,
) -> None:
    def policy(*body: str, save: str) -> str:
        case = chain(*body, rounds=1, more=f"save: [{save}]")
        return emitted(case, "eager", tmp_path).text

    products = policy("p = matmul(h, w)", "h = sin(p)", save="matmul")
    assert "policy=jax.checkpoint_policies.dots_saveable" in products
    # A softmax has an exponential of its own, which a policy on primitives would keep as well.
    named = policy("e = exp(h)", "p = matmul(e, w)", "h = softmax(p)", save="exp")
    assert 'policy=jax.checkpoint_policies.save_only_these_names("e")' in named
    assert 'e = checkpoint_name(jnp.exp(h), "e")' in named


# -- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["eager", "jit-two-phase"])
@pytest.mark.parametrize("rounds", [1, 3])
def test_bytes_between_the_phases_are_those_of_the_calls_inputs(
    variant: str, rounds: int, tmp_path: Path
) -> None:
    seen = observed(chain(*LAYER, rounds=rounds), variant, tmp_path)
    # Each call keeps its input, and the sine after them its own or its cosine.
    assert seen.recomputed.retained == (rounds + 1) * ACTIVATION
    more = observed(chain(*LAYER, rounds=rounds + 1), variant, tmp_path)
    assert (more.recomputed.retained or 0) - seen.recomputed.retained == ACTIVATION


def test_a_peak_falls_where_the_rerun_is_kept_apart(tmp_path: Path) -> None:
    case = chain(
        "p = matmul(h, w)", "s = sin(p)", "q = matmul(s, w)", "t = sin(q)", "h = cos(t)", rounds=8
    )
    plain, recomputed = peaks(emitted(case, "jit", tmp_path))
    assert recomputed == plain  # the rerun is merged with its forward
    # 8 layers of 4 values each, or their 8 inputs and what one layer needs.
    assert plain > 8 * 4
    for variant in ("jit-barriers-kept", "jit-prevent-cse-false"):
        found = in_a_process(peaks, emitted(case, variant, tmp_path))
        assert found[0] == pytest.approx(plain, abs=0.01)
        if variant == "jit-barriers-kept":
            assert 8 < found[1] < 8 + 4 + 2
        else:
            assert found[1] == found[0]
    plain, recomputed = peaks(emitted(case, "scan", tmp_path))
    assert plain > 8 * 4
    assert 8 < recomputed < 8 + 4 + 2


# -- random numbers that do not come from a key --------------------------------------------------


@pytest.mark.parametrize("variant", ["eager", "jit", "jit-two-phase"])
@pytest.mark.parametrize(
    "identity",
    ["randomness/numpy-generator", "randomness/numpy-global", "randomness/python-random"],
)
def test_numbers_of_the_host_are_drawn_once_and_seen(
    identity: str, variant: str, tmp_path: Path
) -> None:
    seen = observed(BY_ID[identity], variant, tmp_path).recomputed
    assert seen.samples is not None
    assert [(d.statement, d.phase) for d in seen.samples] == [("u", "forward")]
    assert isinstance(seen.outputs, tuple)
    leaf = seen.outputs[1]
    assert isinstance(leaf, Leaf)
    np.testing.assert_array_equal(seen.samples[0].array, leaf.array)


# -- loops in an optimised module ----------------------------------------------------------------


def test_a_loop_counts_as_often_as_it_goes_round(tmp_path: Path) -> None:
    for rounds in (2, 5):
        program = emitted(chain(*LAYER, rounds=rounds), "scan", tmp_path)
        assert f"length={rounds})" in program.text
        run = observe(str(ADAPTER.folder), program).recomputed
        assert counted(run, "forward")["s"] == counted(run, "rerun")["s"] == rounds


@pytest.mark.parametrize(
    ("scopes", "again"), [(["", "rerun"], 1), (["", ""], 0), (["rerun"] * 2, 0)]
)
def test_what_forward_and_a_rerun_both_compute_is_a_rerun(
    scopes: list[str], again: int, tmp_path: Path
) -> None:
    """One value twice: in fusions of one phase it is a copy, in forward and in a rerun it is not."""
    hlo: Any = ADAPTER.load("hlo")
    program = emitted(chain(*LAYER), "jit", tmp_path)
    line = next(number for number, site in program.lines.items() if site.label == "s")

    class Module(hlo.Module):  # type: ignore[misc]
        def lines(self, frame: int, file: str) -> list[int]:
            return [line]

    names = {"": "jit(f)/sin", "rerun": f"jit(f)/transpose/{hlo.RERUN}/sin"}
    made = [
        hlo.Instruction(f"sin.{n}", "sine", "f32[2]", ("x",), "", "", names[scope], 1)
        for n, scope in enumerate(scopes)
    ]
    given = hlo.Instruction("x", "parameter", "f32[2]", (), "0", "", "", 0)
    values = hlo._Values(Module("main", {"main": [given, *made]}), program)
    values.run(apart=False)
    assert sum(values.counts().behind.values()) == again


def test_a_module_without_an_entry_is_refused() -> None:
    hlo: Any = ADAPTER.load("hlo")
    with pytest.raises(ValueError, match="no entry computation"):
        hlo.parse("HloModule nothing")


# -- how a run is made cheap ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("identity", "variant"),
    [
        ("procedures/third-order", "jit"),
        ("procedures/train", "jit"),
        ("randomness/two-dropouts", "jit-two-phase"),
        ("effects/accumulate", "jit"),
    ],
)
def test_what_was_traced_for_an_executable_counts_as_tracing_the_whole_run_does(
    identity: str, variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = BY_ID[identity]
    found = observed(case, variant, tmp_path)
    hosts = ADAPTER.load("hosts")
    # A program that draws by other means than keys is traced as a whole.
    monkeypatch.setattr(hosts, "samples_on_host", lambda program: True)
    whole = observed(case, variant, tmp_path)
    for path in ("plain", "recomputed"):
        one, other = getattr(found, path), getattr(whole, path)
        assert one.executions == other.executions
        assert [(d.statement, d.phase) for d in one.samples or ()] == [
            (d.statement, d.phase) for d in other.samples or ()
        ]
        for draw, same in zip(one.samples or (), other.samples or (), strict=True):
            np.testing.assert_array_equal(draw.array, same.array)


def test_an_optimised_module_is_the_same_without_the_optimisations_of_llvm(tmp_path: Path) -> None:
    program = emitted(BY_ID["basics/mlp-block"], "jit", tmp_path)
    code = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}]
import hashlib
from pathlib import Path
from conformance.drivers.modules import load_module
from conformance.model.program import Program, Site
from conformance.observe.worker.loaded import load_program
program = {program!r}
executables = load_module(Path({str(ADAPTER.folder)!r}), "executables")
known = executables.Executables(program)
module = load_program(program)
with known.active():
    module.run(module.recomputed)
(called,) = known.calls
print(hashlib.sha256(called.executable.compiled.as_text().encode()).hexdigest())
print(called.executable.temporary)
"""
    flags = ADAPTER.model.environment["XLA_FLAGS"]
    assert flags == "--xla_backend_optimization_level=1"
    seen = []
    for given in ("", flags):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"XLA_FLAGS": given, "JAX_PLATFORMS": "cpu", "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        seen.append(done.stdout)
    assert seen[0] == seen[1]


def test_numbers_are_right_with_few_optimisations_of_llvm() -> None:
    """With level 0, this gradient is NaN."""
    code = """
import jax
import jax.numpy as jnp

def loss(x, w):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return jnp.cos(((x - mean) * jax.lax.rsqrt(var) * w + w).max(-1)).sum()

x, w = jnp.array([[2.0, 4, 1, 3], [1, 2, 4, 3]]), jnp.array([0.1, -0.1, 0.2, 0.1])
assert jnp.isfinite(jax.jit(jax.grad(loss))(x, w)).all()
"""
    flags = ADAPTER.model.environment["XLA_FLAGS"]
    environment = {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)
