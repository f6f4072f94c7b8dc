"""Makes a data set of text images in TFRecord shards: rendered, or packed from a folder."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from loaders.cli import run_cli
from tools.dataset.config import DatasetConfig

DESCRIPTION = """Make a data set of text images in TFRecord shards.

Lines of random text are rendered in real typefaces; --from-folder packs your own PNG files instead.
Beside every shard lies its index for DALI; dataset.json, written last, says that the set is whole."""


def main(config: DatasetConfig) -> int:
    # Imported here, so that --help and a wrong flag answer at once.
    from tools.dataset.make import make_dataset
    from tools.dataset.summary import summary

    # A job that is told to end cleans up as one that is interrupted.
    signal.signal(signal.SIGTERM, _end)
    dataset_file = make_dataset(config, progress=True)
    print(summary(dataset_file, config.name))
    return 0


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    run_cli(main, DatasetConfig, prog="make_dataset.py", description=DESCRIPTION)
