"""Makes a data set: records from a source, shards in a folder, dataset.json last."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from loaders.cores import usable_cores
from loaders.spec import Schema
from loaders.writer import write_shard
from tools.dataset.config import DatasetConfig, least_len, shards_for
from tools.dataset.manifest import claim, publish, shard_name, withdraw
from tools.dataset.progress import with_progress
from tools.dataset.record import Record


def make_dataset(config: DatasetConfig, progress: bool = False) -> Path:
    """Make the data set that ``config`` describes; return the path of its dataset.json.

    With ``progress``, what is done so far is told on stderr. When anything fails, the
    shards that were finished are removed with the rest.

    Errors: ValueError for what the user can mend; OSError; RunFailed.
    """
    schema, records, total = _source(config)
    claim(config.out, config.name, schema, overwrite=config.overwrite)
    with closing(records):
        try:
            shards = _write_shards(config, with_progress(records, total=total, shown=progress), total)
            return publish(config.out, config.name, schema, shards=shards, options=_options(config))
        except BaseException:
            withdraw(config.out, config.name)
            raise


def shard_sizes(records: int, shards: int) -> list[int]:
    """Records of each shard; they differ by one at most, the larger ones first."""
    each, left = divmod(records, shards)
    return [each + (shard < left) for shard in range(shards)]


def _source(config: DatasetConfig) -> tuple[Schema, Generator[Record], int]:
    """The schema, the records and how many there will be. Whatever can be wrong is found here."""
    # Imported here: either source needs libraries that --help and a wrong flag need not wait for.
    if config.from_folder is not None:
        from tools.dataset.folder import packed_records, read_folder

        folder = read_folder(config)
        return folder.schema, packed_records(folder), len(folder.labels)
    from tools.dataset.render import recipe_of, rendered_records

    recipe = recipe_of(config)
    workers = config.workers or usable_cores()
    return recipe.schema, rendered_records(recipe, records=config.records, workers=workers), config.records


def _write_shards(config: DatasetConfig, records: Iterator[Record], total: int) -> list[dict[str, Any]]:
    shards = []
    count = shards_for(config, total)
    for number, size in enumerate(shard_sizes(total, count)):
        tally = _Tally()
        path = config.out / shard_name(config.name, number, count)
        written = write_shard(path, tally.examples(islice(records, size)))
        shards.append({**asdict(written), "image_bytes": tally.image_bytes})
    return shards


class _Tally:
    """Adds up the sizes of the images that pass by."""

    def __init__(self) -> None:
        self.image_bytes = 0

    def examples(self, records: Iterator[Record]) -> Iterator[bytes]:
        for record in records:
            self.image_bytes += record.image_bytes
            yield record.example


def _options(config: DatasetConfig) -> dict[str, Any]:
    """What dataset.json tells of how the set was made."""
    if config.from_folder is not None:
        return {"from_folder": config.from_folder.name}
    return {"style": config.style, "seed": config.seed, "min_len": least_len(config)}
