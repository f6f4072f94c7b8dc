"""Whether a loader keeps the contract of ``base.Loader``: for loaders that somebody else wrote.

The same function serves the test suite of the project's own backends.
"""

from __future__ import annotations

import re
from typing import Any

from loaders.base import element_names, element_spec
from loaders.config import LoaderConfig
from loaders.spec import Schema

_BATCHES = 2
"""Batches that are looked at."""


def check_contract(loader: Any, config: LoaderConfig) -> None:
    """Raise ValueError that names what ``loader`` breaks: its attributes, its element_spec, or the
    type and shape of the tensors in its first batches."""
    who = f"--loader {config.loader}"
    for attribute in ("name", "decode", "source", "element_spec", "dataset"):
        if not hasattr(loader, attribute):
            raise ValueError(
                f"{who}: what it returns must have {attribute!r}: {type(loader).__name__} has not"
            )
    schema = getattr(loader.source, "schema", None)
    if not isinstance(schema, Schema):
        raise ValueError(f"{who}: source.schema must be a loaders.spec.Schema: {type(schema).__name__}")
    wanted = element_spec(config, schema)
    names = element_names(config)
    if tuple(loader.element_spec) != wanted:
        raise ValueError(f"{who}: element_spec must be {_words(names, wanted)}: {loader.element_spec}")
    seen = 0
    for batch in _batches(loader, who):
        if len(batch) != len(names):
            raise ValueError(
                f"{who}: an element must be {len(names)} tensors ({', '.join(names)}): {len(batch)}"
            )
        for name, part, spec in zip(names, batch, wanted, strict=True):
            if part.dtype != spec.dtype or tuple(part.shape) != tuple(spec.shape):
                raise ValueError(
                    f"{who}: {name} must be {spec.dtype.name}{spec.shape.as_list()}: "
                    f"{part.dtype.name}{list(part.shape)}"
                )
        seen += 1
        if seen == _BATCHES:
            break
    if not seen:
        raise ValueError(f"{who}: its dataset gives no batch")


def _batches(loader: Any, who: str) -> Any:
    try:
        yield from loader.dataset()
    except Exception as error:
        raise ValueError(f"{who}: its dataset raised {type(error).__name__}: {last_line(error)}") from error


def last_line(error: BaseException) -> str:
    """The line of an error that names its cause: TensorFlow puts its own graph around a user's words."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[A-Za-z_.]*(Error|Exception|Interrupt): ", line)]
    return (named or lines or ["no message"])[-1 if named else 0]


def _words(names: Any, specs: Any) -> str:
    return ", ".join(
        f"{name} {spec.dtype.name}{spec.shape.as_list()}" for name, spec in zip(names, specs, strict=True)
    )
