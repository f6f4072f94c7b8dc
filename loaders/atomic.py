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

    Errors: OSError, as the file system raises it.
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
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
