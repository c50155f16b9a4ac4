"""How programs with split layers are written: as those of one rank, whose weights lie on several
devices. XLA adds what these tell each other."""

#: A note for the observer: all ranks are one program.
SPLIT = "layers are split"
HELPERS = """
    mesh = jax.sharding.Mesh(jax.devices()[:{ranks}], ("ranks",))


    def split(x, *axes):
        spec = jax.sharding.PartitionSpec(*axes)
        return jax.device_put(x, jax.sharding.NamedSharding(mesh, spec))
    """
#: The axes of a weight that lie on several devices.
AXES = {"columns": '"ranks", None', "rows": 'None, "ranks"'}
