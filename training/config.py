"""The flags of a training run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import arg

from loaders.config import LoaderFlags, check_at_least, optional

XlaMode = Literal["off", "jit", "auto"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingConfig(LoaderFlags):
    """All that a training run is built from. Every field is a flag.

    Errors: ValueError that names the field, the rule and the value.
    """

    steps: Annotated[int | None, optional("by --epochs", "INT")] = None
    """Steps to train; without it, --epochs."""
    epochs: int = 1
    """Times that every record is read; a batch may hold the end of one epoch and the begin of the next."""
    eval_data: Annotated[tuple[str, ...], arg(metavar="PATTERN...", help_behavior_hint="")] = ()
    """Held-out shards: token and line accuracy are measured on them at the end."""
    eval_records: Annotated[int | None, optional("all", "INT")] = None
    """Evaluate on the first N held-out records only."""
    eval_every: int = 0
    """Evaluate every N steps as well; 0 only at the end."""

    xla: XlaMode = "off"
    """off: plain tf.function; jit: jit_compile=True on the step; auto: XLA's auto-clustering (global to
    the process)."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Keras's policy; mixed_float16 scales the loss."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """Where the step runs; auto takes a GPU where TensorFlow sees one."""
    model: Annotated[str | None, optional("the small recogniser", "FILE.py:FUNCTION")] = None
    """Your own model: a function from the schema to a Keras model that takes float images from 0 to 1
    [B, H, W, C] and gives float logits [B, max_len, num_classes]."""
    augment: Literal["none", "light"] = "none"
    """light: shift, brightness, contrast and noise, in the training step (compiled with it)."""
    learning_rate: float = 1e-3
    """Of the Adam optimizer."""

    log_every: int = 50
    """Steps between progress lines; only there does the host wait for the device."""
    logdir: Annotated[str | None, optional("none", "DIR")] = None
    """Folder for TensorBoard, and for the profile."""
    profile_steps: Annotated[str | None, optional("none", "A:B")] = None
    """A:B writes a TensorFlow profile of steps A to B - 1 (from 0) to --logdir."""
    json: Annotated[str | None, optional("none", "FILE")] = None
    """File for the summary of the run, with the loss and the time of every step."""
    log_ids: Annotated[str | None, optional("none", "FILE")] = None
    """File for epoch, step and image_id of every record that the run consumed."""

    def __post_init__(self) -> None:
        # Two-argument super() does not work in a slotted dataclass.
        LoaderFlags.__post_init__(self)
        for field in ("epochs", "log_every"):
            check_at_least(self, field, 1)
        for field in ("steps", "eval_records"):
            if getattr(self, field) is not None:
                check_at_least(self, field, 1)
        check_at_least(self, "eval_every", 0)
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate must be above 0: {self.learning_rate}")
        if (self.eval_records or self.eval_every) and not self.eval_data:
            raise ValueError("--eval-records and --eval-every need --eval-data")
        if self.profile_steps is not None:
            profile_range(self.profile_steps)
            if self.logdir is None:
                raise ValueError(
                    f"--profile-steps {self.profile_steps} needs --logdir, the folder to write it to"
                )


def profile_range(text: str) -> range:
    """The steps that ``A:B`` names. Errors: ValueError."""
    found = re.fullmatch(r"(\d{1,9}):(\d{1,9})", text, re.ASCII)
    if found is None or not int(found[1]) < int(found[2]):
        raise ValueError(f"--profile-steps must be A:B with A below B: {text!r}")
    return range(int(found[1]), int(found[2]))
