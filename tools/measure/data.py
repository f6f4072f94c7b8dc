"""The data set that a comparison makes where none is given."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import platformdirs

_RECORDS = {"line": 2048, "photo": 1024}


def made_data(style: Literal["line", "photo"], tell: Callable[[str], None]) -> Path:
    """The folder of the made data set, in the user's cache folder; made on first use."""
    from tools.dataset.config import DatasetConfig
    from tools.dataset.make import make_dataset

    records = _RECORDS[style]
    folder = Path(platformdirs.user_cache_dir("feedline")) / "data" / f"{style}-256x256-{records}"
    if (folder / "dataset.json").exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    tell(f"making a data set of {records} records (style {style}) in {folder} ...")
    # Two comparisons may start at once: each makes its own, and the first takes the place.
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        make_dataset(DatasetConfig(out=made, records=records, style=style), progress=True)
        if not folder.exists():
            os.replace(made, folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder
