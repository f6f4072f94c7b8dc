"""What a user reads when a data set is there."""

from __future__ import annotations

import shlex
from pathlib import Path

from tools.dataset.manifest import shards_listed


def summary(dataset_file: Path, name: str) -> str:
    """Where the set lies, how much it holds, and the command that trains on it."""
    shards = shards_listed(dataset_file, name)
    records = sum(shard["records"] for shard in shards)
    size_mb = sum(shard["bytes"] for shard in shards) / 1e6
    png_kb = sum(shard["image_bytes"] for shard in shards) / records / 1e3
    pattern = shlex.quote(str(dataset_file.parent / f"{name}-*"))
    return (
        f"{dataset_file.parent}: {records} records in {len(shards)} shards, "
        f"{size_mb:.1f} MB, {png_kb:.1f} KB a PNG\n"
        f"train on it: uv run python -m training --loader tfdata --data {pattern}"
    )
