"""What the doctor is asked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from loaders.reference import is_reference

LEAST_BUDGET_S = 20.0
"""Two processes that import TensorFlow, and one look at a pipeline."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DoctorConfig:
    """Options of tools/diagnose.py, checked at construction.

    Errors: ValueError, in one sentence, that names the field, the rule and the value.
    """

    dataset: Annotated[str, tyro.conf.Positional] = ""
    """The function that returns the tf.data.Dataset: path/to/file.py:make_dataset or module:make_dataset."""
    step: str | None = None
    """The training step, file.py:train_step: called with the parts of each element."""
    fit: str | None = None
    """A function that returns a compiled Keras model; its fit() is the step."""
    args: str | None = None
    """Named arguments for make_dataset, as a JSON object: '{"batch_size": 64}'."""
    verify: bool = False
    """Apply the fixes that can be applied mechanically, one at a time, and measure each."""
    budget_s: float = 120.0
    """Seconds after which it ends with what is known so far."""
    json: str | None = None
    """File for the whole result as JSON."""
    html: str | None = None
    """File for the result as a page that needs nothing else."""
    profile: str | None = None
    """Instead of running anything, read the TensorFlow profile under this folder."""

    def __post_init__(self) -> None:
        if self.profile is None and not self.dataset:
            raise ValueError("name the pipeline, as path/to/file.py:make_dataset or module:make_dataset")
        if self.profile is not None and (self.dataset or self.step or self.fit):
            raise ValueError(
                "--profile reads a profile and runs nothing: leave out the pipeline and the step"
            )
        for flag, value in (
            ("the pipeline", self.dataset or None),
            ("--step", self.step),
            ("--fit", self.fit),
        ):
            if value is not None and not is_reference(value):
                raise ValueError(f"{flag} must be path/to/file.py:function or module:function: {value!r}")
        if self.step and self.fit:
            raise ValueError("--step and --fit are two ways to train: name one of them")
        if not self.budget_s >= LEAST_BUDGET_S:
            raise ValueError(f"--budget-s must be at least {LEAST_BUDGET_S:g}: {self.budget_s:g}")
        self.arguments()

    def arguments(self) -> dict[str, Any]:
        """What ``args`` says. Errors: ValueError."""
        if self.args is None:
            return {}
        try:
            told = json.loads(self.args)
        except ValueError as error:
            raise ValueError(f"--args must be a JSON object: {self.args!r}: {error}") from None
        if not isinstance(told, dict):
            raise ValueError(f"--args must be a JSON object: {self.args!r}")
        return told
