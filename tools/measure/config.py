"""The flags of a comparison."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal

from loaders.config import LOADER_NAMES, DataFlags, check_at_least, check_loader_name, optional
from tools.measure.against import parse_percent
from tools.measure.cells import Kind
from tools.measure.knee import parse_sweep
from training.config import TrainingConfig, XlaMode

QUICK_ROUNDS = 1
QUICK_MEASURE_S = 1.5
QUICK_WARM_UP_S = 4.0

CEILING = "none"
"""The loader's name that stands for no loader at all: the ceiling, which is always measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompareConfig(DataFlags):
    """All that a comparison is made of. Every field is a flag.

    Errors: ValueError that names the field, the rule and the value.
    """

    loader: Annotated[tuple[str, ...], optional("tfdata, dali, cached", "tfdata|dali|cached|none|...")] = ()
    """Loaders to compare: tfdata, dali (where it is installed), cached (every record decoded once and kept
    in memory), none (the ceiling), or your own as path/to/file.py:function or module:function."""
    xla: Annotated[tuple[XlaMode, ...], optional("off jit auto", "off|jit|auto...")] = ("off", "jit", "auto")
    """XLA modes to compare."""
    kinds: Annotated[tuple[Kind, ...], optional("all", "train|loader|ceiling...")] = (
        "train",
        "loader",
        "ceiling",
    )
    """What to measure: loaders with the step, loaders alone, the step alone."""
    sweep: Annotated[tuple[str, ...], optional("none", "SETTING=N,N...")] = ()
    """Measure each loader alone under other settings too, such as batch_size=32,64,128 parallel=1,2,4."""
    style: Literal["line", "photo"] = "line"
    """Without --data: which kind of data set is made, in the cache folder, and used."""

    model: Annotated[str | None, optional("the small recogniser", "FILE.py:FUNCTION")] = None
    """Your own model: a function from the schema to a Keras model."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Keras's policy for the step."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """Where the step runs."""
    augment: Literal["none", "light"] = "none"
    """Augmentation in the step."""

    quick: bool = False
    """One round without the cached loader, under three minutes on two cores; cells that are close are not
    ranked."""
    rounds: int = 8
    """Times that every cell is run, each time in a fresh process; with more than 8, it stops as soon as every
    pair of loaders is told apart or found equal."""
    budget_s: Annotated[float | None, optional("none", "S")] = None
    """Seconds for the whole comparison: behind the first round, which is always run, none is begun that would
    not end in time."""
    measure_s: float = 2.0
    """Seconds that a cell is measured in a round, behind its warm-up."""
    warm_up_s: float = 20.0
    """Seconds after which a warm-up that has not become steady is cut off (and marked)."""
    cold: bool = False
    """Drop the shards from the page cache before every cell, so that they are read from the disk."""
    allow_different: bool = False
    """Go on where the loaders do not give the same batches; the result says so."""

    out: str = "feedline-result.json"
    """File for the result, with every raw value."""
    html: Annotated[str | None, optional("beside the result", "FILE")] = None
    """File for the page."""
    against: Annotated[str | None, optional("none", "OLD.json")] = None
    """Say what got faster or slower than in this earlier result."""
    fail_if_slower: Annotated[str | None, optional("never", "PERCENT")] = None
    """With --against: exit 1 where a cell is surely slower by more than this, such as 5%."""

    def __post_init__(self) -> None:
        DataFlags.__post_init__(self)
        check_at_least(self, "rounds", 1)
        for field in ("measure_s", "warm_up_s", "budget_s"):
            value = getattr(self, field)
            if value is not None and not 0.1 <= value <= 86_400:
                raise ValueError(f"--{field.replace('_', '-')} must be from 0.1 to 86400 seconds: {value}")
        for field in ("loader", "xla", "kinds"):
            values = getattr(self, field)
            if len(set(values)) < len(values):
                raise ValueError(f"--{field} names one twice: {' '.join(values)}")
        for name in self.loader:
            check_loader_name(name, (*LOADER_NAMES, CEILING))
        if not self.xla or not self.kinds:
            raise ValueError("--xla and --kinds must name at least one each")
        parse_sweep(self.sweep)
        if self.fail_if_slower is not None:
            parse_percent(self.fail_if_slower)
            if self.against is None:
                raise ValueError("--fail-if-slower needs --against, the result to hold this one against")

    @property
    def rounds_to_run(self) -> int:
        return QUICK_ROUNDS if self.quick else self.rounds

    @property
    def measure_limit_s(self) -> float:
        return min(QUICK_MEASURE_S, self.measure_s) if self.quick else self.measure_s

    @property
    def warm_up_limit_s(self) -> float:
        return min(QUICK_WARM_UP_S, self.warm_up_s) if self.quick else self.warm_up_s

    def training(self, **changes: Any) -> TrainingConfig:
        """The training run that a cell measures a part of."""
        known = {field.name for field in fields(TrainingConfig)} - {"loader", "xla"}
        taken = {name: value for name, value in asdict(self).items() if name in known}
        return TrainingConfig(**{**taken, **changes})
