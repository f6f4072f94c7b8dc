"""What a user says of the data (``DataFlags``) and what a loader is built from (``LoaderConfig``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal, Self

from tyro.conf import arg

from loaders.reference import is_reference

Form = Literal["train", "eval", "predict"]
LOADER_NAMES = ("tfdata", "dali", "cached")
AUTO = 0
"""Where a number of parallel calls is asked for: let the backend choose."""


def optional(words: str, metavar: str) -> Any:
    """How --help shows a flag that may be left out: what stands for it then, instead of 'None'."""
    return arg(metavar=metavar, help_behavior_hint=f"(default: {words})")


_GUESSED_STR = optional("guessed", "STR")
_GUESSED_INT = optional("guessed", "INT")


@dataclass(frozen=True, kw_only=True, slots=True)
class DataFlags:
    """The flags that describe the data and how it is read. Every field is a flag.

    Errors: ValueError that names the field, the rule and the value.
    """

    data: Annotated[tuple[str, ...], arg(metavar="PATTERN...", help_behavior_hint="")] = ()
    """TFRecord shards: files, folders or patterns such as 'shards/train-*'."""

    image_feature: Annotated[str | None, _GUESSED_STR] = None
    """Feature with the PNG (bytes). Guessed from dataset.json or the first records, like the eight below."""
    target_feature: Annotated[str | None, _GUESSED_STR] = None
    """Feature with the codes of the text, or with one class label (int64)."""
    id_feature: Annotated[str | None, _GUESSED_STR] = None
    """Feature with the record's id (bytes)."""
    max_len: Annotated[int | None, _GUESSED_INT] = None
    """Codes a record; 1 is a class label."""
    height: Annotated[int | None, _GUESSED_INT] = None
    """Height of every image, pixels."""
    width: Annotated[int | None, _GUESSED_INT] = None
    """Width of every image, pixels."""
    channels: Annotated[int | None, _GUESSED_INT] = None
    """Channels to decode to: 1, 3 or 4."""
    num_classes: Annotated[int | None, _GUESSED_INT] = None
    """Number of codes, the padding 0 included; a code outside of it is an error."""
    alphabet: Annotated[str | None, _GUESSED_STR] = None
    """Character i of it has the code i + 1; for reading results."""

    batch_size: int = 64
    """Records a batch."""
    shuffle: Literal["records", "batches", "none"] = "records"
    """records: a window of --shuffle-buffer records; batches: the reference pipeline's order, which moves
    whole batches only (tfdata); none: as stored."""
    shuffle_buffer: int = 1024
    """Records that the shuffle window holds, undecoded."""
    shuffle_batches: int = 6
    """Batches that the window of --shuffle batches holds."""
    deterministic: bool = False
    """The same order in every run: shards by name, records in file order, then the seeded shuffle."""
    seed: int = 0
    """Seed of the shuffle, of the model's first weights and of the augmentation."""
    cycle_length: int = 4
    """Shards read in turn (tfdata; 1 when deterministic)."""
    parallel_reads: int = 4
    """Shards read at the same time, at most --cycle-length (tfdata); 0 lets tf.data choose."""
    parallel_calls: int = 0
    """Batches decoded at the same time (tfdata); 0 lets tf.data choose."""
    parallel_iterations: int = 4
    """Images of a batch decoded at the same time inside map_fn (tfdata)."""
    dali_threads: int = 0
    """Threads that decode (dali); 0 takes every core this process may use."""
    prefetch: int = 2
    """Batches kept ready."""
    image_dtype: Literal["uint8", "float16", "bfloat16", "float32"] = "uint8"
    """Type of the image batch."""
    scale: bool = False
    """Scale pixels from 0..255 to 0..1 (not with uint8; the training step scales what is unscaled)."""
    target_dtype: Literal["uint8", "int32"] = "uint8"
    """Type of the token batch."""
    missing: Literal["error", "default"] = "error"
    """A record without its target or id: an error, or zeros and no bytes (tfdata). A missing image is
    always an error."""
    id_bytes: int = 64
    """Bytes an id may have; ids come as uint8 vectors of this length, zero-padded."""
    shard_id: int = 0
    """Which share of the records this worker reads, from 0."""
    num_shards: int = 1
    """Workers that the records are shared among."""
    index_dir: Annotated[str | None, optional("beside the shards", "DIR")] = None
    """Folder for DALI's index files where the data's own folder can't be written."""
    trust_data: bool = False
    """Do not check the records (framing, checksums, features, sizes) before their first use. With dali,
    a wrong record may then give wrong values without an error."""

    def __post_init__(self) -> None:
        at_least_1 = (
            "batch_size",
            "shuffle_buffer",
            "shuffle_batches",
            "cycle_length",
            "parallel_iterations",
        )
        for field in (*at_least_1, "prefetch", "id_bytes", "num_shards"):
            check_at_least(self, field, 1)
        for field in ("parallel_reads", "parallel_calls", "dali_threads", "shard_id", "seed"):
            check_at_least(self, field, 0)
        for field in ("max_len", "height", "width", "num_classes"):
            if getattr(self, field) is not None:
                check_at_least(self, field, 1)
        if self.channels not in (None, 1, 3, 4):
            raise ValueError(f"--channels must be 1, 3 or 4: {self.channels}")
        if self.shard_id >= self.num_shards:
            raise ValueError(f"--shard-id must be below --num-shards {self.num_shards}: {self.shard_id}")
        if self.scale and self.image_dtype == "uint8":
            raise ValueError("--scale needs --image-dtype float16, bfloat16 or float32: uint8")


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderFlags(DataFlags):
    """The data flags, and which backend reads."""

    loader: Annotated[str, arg(metavar="auto|tfdata|dali|...")] = "auto"
    """tfdata (tf.data, decodes on the CPU), dali (NVIDIA DALI), auto (dali where it is installed and a GPU
    is there), cached (every record decoded once and kept in memory), or your own: path/to/file.py:function
    or module:function."""

    def __post_init__(self) -> None:
        # Two-argument super() does not work in a slotted dataclass.
        DataFlags.__post_init__(self)
        check_loader_name(self.loader, ("auto", *LOADER_NAMES))


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderConfig(LoaderFlags):
    """All that a loader is built from: the flags, and what the program decides."""

    form: Form = "train"
    """train: endless, remainder dropped. eval, predict: one pass in file order, nothing dropped, the last
    batch padded."""
    with_ids: bool = False
    """The training element carries image_id as well."""
    device: Literal["cpu", "gpu"] = "cpu"
    """Where the training step runs."""
    gpu_id: int = 0
    """Which GPU, where the device is one."""

    @classmethod
    def of(cls, flags: DataFlags, **changes: Any) -> Self:
        """A config with the data flags of ``flags`` (any subclass of theirs) and ``changes``."""
        known = {field.name for field in fields(cls)}
        taken = {name: value for name, value in asdict(flags).items() if name in known}
        return cls(**{**taken, **changes})


def check_loader_name(name: str, allowed: Sequence[str]) -> None:
    """Raise ValueError unless ``name`` is one of the ``allowed`` loaders, or the user's own."""
    if name not in allowed and not is_reference(name):
        raise ValueError(
            f"--loader must be one of {', '.join(allowed)}, or your own as path/to/file.py:function: {name!r}"
        )


def check_at_least(config: DataFlags, field: str, least: int) -> None:
    """Raise ValueError, in the words of the command line, when a field is below ``least``."""
    value = getattr(config, field)
    if value < least:
        raise ValueError(f"--{field.replace('_', '-')} must be at least {least}: {value}")
