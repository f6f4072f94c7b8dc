"""The flags of a comparison."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal

from loaders.config import LOADER_NAMES, DataFlags, check_at_least, check_loader_name, optional
from training.config import TrainingConfig, XlaMode

QUICK_ROUNDS = 1
QUICK_MEASURE_S = 2.0
QUICK_WARM_UP_S = 4.0


@dataclass(frozen=True, kw_only=True, slots=True)
class CompareConfig(DataFlags):
    """All that a comparison is made of. Every field is a flag.

    Errors: ValueError that names the field, the rule and the value.
    """

    loader: Annotated[tuple[str, ...], optional("all that are installed", "tfdata|dali...")] = ()
    """Loaders to compare."""
    xla: Annotated[tuple[XlaMode, ...], optional("off jit auto", "off|jit|auto...")] = ("off", "jit", "auto")
    """XLA modes to compare."""
    style: Literal["line", "photo"] = "line"
    """Without --data: which kind of data set is made, in the cache folder, and used."""

    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Keras's policy for the step."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """Where the step runs."""
    augment: Literal["none", "light"] = "none"
    """Augmentation in the step."""

    quick: bool = False
    """One round, under three minutes on two cores; cells that are close are not ranked."""
    rounds: int = 8
    """Times that every cell is run, each time in a fresh process."""
    measure_s: float = 3.0
    """Seconds that a cell is measured in a round, behind its warm-up."""
    warm_up_s: float = 20.0
    """Seconds after which a warm-up that has not become steady is cut off (and marked)."""
    out: str = "feedline-result.json"
    """File for the result, with every raw value."""

    def __post_init__(self) -> None:
        DataFlags.__post_init__(self)
        check_at_least(self, "rounds", 1)
        for field in ("measure_s", "warm_up_s"):
            if not 0.1 <= getattr(self, field) <= 3600:
                flag = field.replace("_", "-")
                raise ValueError(f"--{flag} must be from 0.1 to 3600 seconds: {getattr(self, field)}")
        for field in ("loader", "xla"):
            values = getattr(self, field)
            if len(set(values)) < len(values):
                raise ValueError(f"--{field} names one twice: {' '.join(values)}")
        for name in self.loader:
            check_loader_name(name, LOADER_NAMES)
        if not self.xla:
            raise ValueError("--xla must name at least one of off, jit and auto")

    @property
    def rounds_to_run(self) -> int:
        return QUICK_ROUNDS if self.quick else self.rounds

    @property
    def measure_limit_s(self) -> float:
        return QUICK_MEASURE_S if self.quick else self.measure_s

    @property
    def warm_up_limit_s(self) -> float:
        return QUICK_WARM_UP_S if self.quick else self.warm_up_s

    def training(self, **changes: Any) -> TrainingConfig:
        """The training run that a cell measures a part of."""
        known = {field.name for field in fields(TrainingConfig)} - {"loader", "xla"}
        taken = {name: value for name, value in asdict(self).items() if name in known}
        return TrainingConfig(**{**taken, **changes})
