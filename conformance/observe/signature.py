"""Reads the signature of somebody's own recompute, in a worker process."""

from __future__ import annotations

import tempfile
from pathlib import Path

from conformance.drivers.adapter import Adapter
from conformance.drivers.implementation import Described, adapt, by_signature
from conformance.errors import BrokenAdapterError
from conformance.observe.pool import Pool


def completed(adapter: Adapter, described: Described) -> Described:
    """The description with what the function's signature says of its options.

    It stays as it is where the signature cannot be read: a run says why the import failed. Raises
    `ImplementationError` where the function cannot be called as it is described.
    """
    own = adapt(adapter, described)
    with (
        tempfile.TemporaryDirectory(prefix="conformance-signature-") as folder,
        Pool(own, Path(folder) / "log.txt") as pool,
    ):
        variant = own.variants[0].name
        try:
            pool.describe([variant])  # what a function imports may come with the adapter
            signature = pool.signature(variant, described.model.function)
        except BrokenAdapterError:
            return described
    return described if signature is None else by_signature(adapter, described, signature)
