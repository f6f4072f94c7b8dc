"""python -m training: trains the recogniser from one of the loaders."""

from __future__ import annotations

import logging

from loaders.cli import run_cli
from training.config import TrainingConfig

DESCRIPTION = "Trains a small text recogniser on PNGs in TFRecord shards."

log = logging.getLogger("training")


def main(config: TrainingConfig) -> int:
    # TensorFlow is imported only now, with its environment set, so that --help and a wrong
    # flag answer at once.
    from training.devices import set_environment
    from training.native_log import NativeLog, ask_for_compile_log

    set_environment(config.xla)
    ask_for_compile_log()
    with NativeLog() as native_log:
        from training.run import run

        run(config, native_log)
    return 0


if __name__ == "__main__":
    run_cli(main, TrainingConfig, prog="python -m training", description=DESCRIPTION)
