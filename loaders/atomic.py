"""Files that are either whole or not there: written beside, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def write_beside(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yield a binary file that takes the place of ``path`` when the block ends well.

    When the block raises (a full disk, Ctrl-C), nothing is left behind and what
    stood at ``path`` before stays as it was.

    Errors: OSError, as the file system raises it, with the name of ``path`` where it has none.
    """
    path = Path(path)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files for their owner alone; a data set is for its readers.
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        # A full disk is found by a write, which knows a descriptor but no name.
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)
        raise


def check_can_write(flag: str, path: str | None) -> None:
    """Raise ValueError, before hours of work, where the file of ``flag`` could not be written."""
    if path is None:
        return
    folder = Path(path).parent
    if not folder.is_dir():
        raise ValueError(f"{flag} {path}: there is no folder {folder}")
    if Path(path).is_dir():
        raise ValueError(f"{flag} {path}: is a folder")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{flag} {path}: the folder {folder} can't be written to")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
