"""The process's settings: what must be said before TensorFlow is imported, and which device is used."""

from __future__ import annotations

import os
from typing import Literal

from training.config import TrainingConfig, XlaMode

Device = Literal["cpu", "gpu"]


def set_environment(xla: XlaMode) -> None:
    """What TensorFlow reads from the environment when it is imported.

    Auto-clustering on a CPU has no other switch; on a GPU the same flag serves.
    """
    if xla == "auto":
        flags = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"
        os.environ["TF_XLA_FLAGS"] = f"{os.environ.get('TF_XLA_FLAGS', '')} {flags}".strip()


def choose_device(requested: str) -> Device:
    """The device that the step runs on, made ready. Errors: ValueError for a GPU that isn't there."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if requested == "gpu" and not gpus:
        raise ValueError("--device gpu: TensorFlow sees no GPU (for NVIDIA's: `uv sync --extra gpu`)")
    if requested == "cpu" or not gpus:
        tf.config.set_visible_devices([], "GPU")
        return "cpu"
    for gpu in gpus:
        # TensorFlow would take all of the memory, and DALI needs some.
        tf.config.experimental.set_memory_growth(gpu, True)
    return "gpu"


def set_seeds(config: TrainingConfig) -> None:
    """Seed weights and augmentation; with --deterministic, forbid ops that vary from run to run."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(config.seed)
    if config.deterministic:
        tf.config.experimental.enable_op_determinism()
