"""Flags of XLA that the installed jaxlib does not know. XLA ends the process on an unknown flag."""

import mmap
import os
from pathlib import Path

import jaxlib

_LIBRARIES = ("libjax_common.so", "xla_extension.so")  # the second up to jaxlib 0.5


def drop_unknown() -> None:
    """Take such flags out of `XLA_FLAGS`: what they switch off is not there either. XLA reads the flags
    when its first backend starts, and names all that it knows in its library, each as a
    text of C's."""
    folder = Path(jaxlib.__file__).parent
    library = next((folder / name for name in _LIBRARIES if (folder / name).is_file()), None)
    flags = os.environ.get("XLA_FLAGS", "").split()
    if library is None or not flags:
        return
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        names = {flag: flag.lstrip("-").partition("=")[0].encode() for flag in flags}
        known = [flag for flag in flags if text.find(b"\0" + names[flag] + b"\0") >= 0]
    os.environ["XLA_FLAGS"] = " ".join(known)
