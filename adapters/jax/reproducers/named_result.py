"""An operation whose gradient reads its result is recomputed although a policy saves it by name."""

import jax
import jax.ad_checkpoint
import jax.numpy as jnp

policy = jax.checkpoint_policies.save_only_these_names("kept")


def block(x):
    return jnp.sin(jax.ad_checkpoint.checkpoint_name(jnp.exp(x), "kept"))


step = jax.value_and_grad(jax.checkpoint(block, policy=policy))
assert str(jax.make_jaxpr(step)(1.0)).count("= exp ") == 2
