"""Atomic file writes: a reader sees either the old or the new content, never a part of either."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conformance.errors import WriteError

#: Error numbers for a disk that is full or read-only, an exceeded quota, or a file that is too large.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


def check_full(error: OSError, where: Path) -> None:
    """Raise `WriteError` if an error is one of `FULL`; return otherwise."""
    if error.errno in FULL:
        with writing(where):
            raise error


@contextmanager
def writing(where: Path) -> Iterator[None]:
    """Inside the `with`, an `OSError` becomes a `WriteError` that names the file."""
    try:
        yield
    except OSError as error:
        raise WriteError(
            f"cannot be written: {error.strerror or error}",
            where=where,
            hint="make room, or name another folder (--reports, --output)",
        ) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, atomically. Raises `WriteError`."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically; its folder is made if missing. Raises `WriteError`."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # a terminal, a pipe
            path.write_bytes(content)
            return
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
        made = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            made.chmod(0o644)
            made.replace(path)
        except BaseException:
            made.unlink(missing_ok=True)
            raise
