"""How programs of several ranks are written: `jax.shard_map` over as many devices, and what is seen of
each. Arrays are divided among the ranks: each has its part of the rows on its device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from conformance.emit.emitter import Writer
from conformance.model.observation import Array, Leaf, Observation, RandomState, Run

#: Lines before the import of JAX, and after it.
START = ("import os", 'os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count={ranks}"')
OPERATIONS: Mapping[str, Writer] = {
    "all_reduce": 'lax.psum({x}, "ranks")',
    "all_gather": 'lax.all_gather({x}, "ranks", tiled=True)',
    "reduce_scatter": 'lax.psum_scatter({x}, "ranks", tiled=True)',
}
HELPERS = """
    mesh = jax.sharding.Mesh(jax.devices()[:{ranks}], ("ranks",))
    each_rank = jax.sharding.PartitionSpec("ranks")


    def on_ranks(forward):
        @jax.jit
        @partial(jax.shard_map, mesh=mesh, in_specs=each_rank, out_specs=each_rank)
        def on_rank(values):
            return forward(**values)

        @wraps(forward)
        def on_all(**values):
            return on_rank(values)

        return on_all


    def by_rank(arrays):
        return jax.tree.map(lambda x: x.reshape({ranks}, -1, *x.shape[1:]), arrays)
    """
INPUTS = """
    def inputs():
        ranks = [inputs_of(rank) for rank in range({ranks})]
        sharding = jax.sharding.NamedSharding(mesh, each_rank)
        return jax.tree.map(lambda *parts: jax.device_put(jnp.concat(parts), sharding), *ranks)
    """


def text(lines: str, ranks: int) -> str:
    return lines.replace("{ranks}", str(ranks))


def divided(observation: Observation, ranks: int) -> Observation:
    """What was seen of all ranks, as what each of them has seen."""
    first, *others = (
        replace(
            observation,
            plain=_of_rank(observation.plain, rank, ranks),
            recomputed=_of_rank(observation.recomputed, rank, ranks),
        )
        for rank in range(ranks)
    )
    return replace(first, others=tuple(others))


def _of_rank(run: Run, rank: int, ranks: int) -> Run:
    def part(array: Array) -> Array:
        parts: Array = array.reshape(ranks, -1, *array.shape[1:])
        return parts[rank]

    state = run.random_state
    if state is not None:
        state = RandomState(state.nbytes // ranks, state.copies // ranks)
    return replace(
        run,
        random_state=state,
        outputs=_mapped(part, run.outputs),
        losses=run.losses[rank::ranks],
        gradients={n: None if g is None else part(g) for n, g in run.gradients.items()},
        parameters={name: part(array) for name, array in run.parameters.items()},
        retained=None if run.retained is None else run.retained // ranks,
    )


def _mapped(part: Callable[[Array], Array], tree: Any) -> Any:
    if isinstance(tree, Leaf):
        return replace(tree, array=part(tree.array))
    if isinstance(tree, dict):
        return {key: _mapped(part, one) for key, one in tree.items()}
    if isinstance(tree, tuple | list):
        return type(tree)(_mapped(part, one) for one in tree)
    return tree
