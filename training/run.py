"""One training run, from its config to its summary."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict
from typing import Any

import tensorflow as tf

from loaders.atomic import check_can_write, write_beside
from loaders.base import Loader
from loaders.check import find_bad_record
from loaders.cli import RunFailed
from loaders.config import LoaderConfig
from loaders.contract import last_line
from loaders.factory import make_loader
from loaders.reference import is_reference
from training.config import TrainingConfig
from training.devices import choose_device, set_seeds
from training.loop import History, evaluate, log_ids_file, train
from training.native_log import NativeLog
from training.step import Trainer

log = logging.getLogger(__name__)


def run(config: TrainingConfig, native_log: NativeLog) -> dict[str, Any]:
    """Train, evaluate, print, and give the summary that --json holds.

    Errors: ValueError for what the user can mend, RunFailed for the rest, OSError.
    """
    check_can_write("--json", config.json)
    check_can_write("--log-ids", config.log_ids)
    device = choose_device(config.device)
    set_seeds(config)
    loader = make_loader(
        LoaderConfig.of(config, form="train", device=device, with_ids=config.log_ids is not None)
    )
    held_out = _held_out_loader(config, loader, device)
    log.info("loader %s: %s", loader.name, loader.decode)
    trainer = Trainer(config, loader.source.schema)
    steps = config.steps or loader.source.plan.records * config.epochs // config.batch_size
    test = (lambda: evaluate(trainer, held_out, config.eval_records)) if held_out else None
    with log_ids_file(config.log_ids) as ids:
        history = _name_bad_records(
            config, lambda: train(trainer, loader, steps, evaluate=test, log_ids=ids), loader, held_out
        )
    native_log.settle()
    summary = _summarize(config, loader, device, history, native_log)
    _print(summary)
    if config.json:
        with write_beside(config.json) as file:
            file.write(json.dumps(summary, indent=1).encode())
    return summary


def _held_out_loader(config: TrainingConfig, loader: Loader, device: Any) -> Loader | None:
    """The loader of --eval-data; every worker evaluates all of it."""
    if not config.eval_data:
        return None
    # The model's shape is the training data's: other data must say so at once.
    schema = asdict(loader.source.schema)
    return make_loader(
        LoaderConfig.of(
            config,
            **schema,
            data=config.eval_data,
            form="eval",
            device=device,
            # What auto chose is said once; a loader of the user's goes by its reference.
            loader=config.loader if is_reference(config.loader) else loader.name,
            shard_id=0,
            num_shards=1,
        )
    )


def _name_bad_records(config: TrainingConfig, work: Any, *loaders: Loader | None) -> History:
    """Run ``work``; when the pipeline fails, say in one sentence on which record."""
    try:
        history: History = work()
    except (tf.errors.OpError, UnicodeError) as error:
        # UnicodeError: TensorFlow's message quotes bytes of a record that are no text.
        if is_reference(config.loader):
            raise RunFailed(f"--loader {config.loader}: {_first_words(error)}") from error
        log.info("the run failed; looking for the record that it failed on ...")
        for loader in loaders:
            if loader is None:
                continue
            decode = _reference_decoder(loader)
            bad = find_bad_record(loader.source.shards, loader.source.rules, decode)
            if bad is not None:
                raise ValueError(bad) from error
        raise RunFailed(_first_words(error)) from error
    return history


def _reference_decoder(loader: Loader) -> Any:
    channels = loader.source.schema.channels
    return lambda png: tf.io.decode_png(png, channels=channels)


def _first_words(error: Exception) -> str:
    """What TensorFlow says, without its graph and Python's traceback."""
    kind = type(error).__name__.removesuffix("Error")
    return f"TensorFlow stopped ({kind}): {last_line(error)}"


def _summarize(
    config: TrainingConfig, loader: Loader, device: str, history: History, native_log: NativeLog
) -> dict[str, Any]:
    last = history.evaluations[-1] if history.evaluations else {}
    return {
        "loader": loader.name,
        "decode": loader.decode,
        "xla": config.xla,
        "precision": config.precision,
        "device": device,
        "batch_size": config.batch_size,
        "steps": len(history.loss),
        "loss": history.loss,
        "step_s": history.times.step_s,
        "wait_s": history.times.wait_s,
        "warm_up_steps": history.times.warm_up,
        "images_per_s": history.times.images_per_s,
        "wait_share": history.times.wait_share,
        "compile_s": native_log.compile_s,
        "compiles": [{"name": each.name, "seconds": each.seconds} for each in native_log.compiles],
        "token_accuracy": last.get("token_accuracy"),
        "line_accuracy": last.get("line_accuracy"),
        "evaluations": history.evaluations,
        "versions": {"python": sys.version.split()[0], "tensorflow": tf.__version__},
    }


def _print(summary: dict[str, Any]) -> None:
    print(
        f"trained {summary['steps']} steps of {summary['batch_size']}: {summary['images_per_s']:.0f} img/s, "
        f"waiting for data {100 * summary['wait_share']:.0f} %, final loss {summary['loss'][-1]:.4f}"
    )
    if summary["xla"] == "auto":
        names = {compile_["name"] for compile_ in summary["compiles"]}
        what = f"{len(names)} clusters" if names else "no cluster: auto-clustering changed nothing"
        print(f"xla auto compiled {what} ({summary['compile_s']:.1f} s)")
    elif summary["xla"] == "jit":
        print(f"xla jit: {len(summary['compiles'])} compiles ({summary['compile_s']:.1f} s)")
    if summary["token_accuracy"] is not None:
        print(f"token accuracy {summary['token_accuracy']:.4f}, line accuracy {summary['line_accuracy']:.4f}")
