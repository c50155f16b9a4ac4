"""How programs of several ranks are written: `tf.distribute.MirroredStrategy` over as many logical CPUs,
each rank a replica."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.emit.emitter import Writer

OPERATIONS: Mapping[str, Writer] = {
    "all_reduce": 'tf.distribute.get_replica_context().all_reduce("sum", {x})',
    "all_gather": "tf.distribute.get_replica_context().all_gather({x}, axis=0)",
    "reduce_scatter": "reduce_scatter({x})",
}
#: A replica context has no operation that reduces and scatters.
HELPERS: Mapping[str, str] = {
    "reduce_scatter": """
        def reduce_scatter(x):
            replica = tf.distribute.get_replica_context()
            total = replica.all_reduce("sum", x)
            return tf.split(total, replica.num_replicas_in_sync)[rank()]
        """
}
RANK = """
    def rank():
        return int(tf.distribute.get_replica_context().replica_id_in_sync_group)
    """
#: A variable with a value of the rank's own.
OF_RANK = """
    def variable_of_rank(value, **options):
        # Where a replica makes a variable, every replica gets one, with the first one's value.
        mirrored = tf.Variable(value, **options)
        own = tf.distribute.get_strategy().experimental_local_results(mirrored)[rank()]
        own.assign(value)
        return own
    """
#: What ends a program: a replica for each rank.
START = """
    def on_rank():
        for forward in (plain, recomputed):
            print(rank(), forward.__name__, run(forward))


    if __name__ == "__main__":
        (cpu,) = tf.config.list_physical_devices("CPU")
        parts = [tf.config.LogicalDeviceConfiguration() for _ in range({ranks})]
        tf.config.set_logical_device_configuration(cpu, parts)
        devices = [f"CPU:{number}" for number in range({ranks})]
        tf.distribute.MirroredStrategy(devices).run(on_rank)
    """
