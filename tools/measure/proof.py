"""Equality first: the loaders' records, ids, tokens and pixels, held against each other bit for bit."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from loaders.base import element_names
from loaders.cli import RunFailed
from loaders.config import LoaderConfig
from loaders.factory import make_loader, open_source
from loaders.reference import short_name
from tools.measure.pictures import draw_proof
from training.config import TrainingConfig


def prove_equal(
    config: TrainingConfig, device: Any, names: Sequence[str], *, records: int, allow_different: bool
) -> dict[str, Any]:
    """Hold the first ``records`` records (at most one epoch) of each loader against the first loader's.

    In file order, in the training form that is measured, with ids where the records have some.
    Returns what was compared, a digest of it, and a picture of one batch of each loader.
    Errors: RunFailed that names the first difference, unless ``allow_different``: then it is in
    the result.
    """
    flags = replace(config, deterministic=True, shuffle="none")
    source = open_source(LoaderConfig.of(flags, device=device))
    with_ids = source.schema.id_feature is not None
    configs = [
        LoaderConfig.of(replace(flags, loader=name), device=device, with_ids=with_ids) for name in names
    ]
    loaders = [make_loader(each) for each in configs]
    steps = max(1, min(records, source.plan.records) // config.batch_size)
    digest = hashlib.sha256()
    iterators = [iter(loader.dataset()) for loader in loaders]
    parts = element_names(configs[0])
    difference = None
    first_batches: list[Any] = []
    for step in range(steps):
        batches = [[part.numpy() for part in next(iterator)] for iterator in iterators]
        first_batches = first_batches or [batch[0] for batch in batches]
        for name, batch in zip(names[1:], batches[1:], strict=True):
            between = (short_name(names[0]), short_name(name))
            found = first_difference(batches[0], batch, parts, between=between)
            difference = difference or (f"the loaders differ in batch {step}, {found}" if found else None)
        if difference and not allow_different:
            raise RunFailed(f"{difference} (--allow-different goes on all the same)")
        for part in batches[0]:
            digest.update(np.ascontiguousarray(part).tobytes())
    return {
        "loaders": list(names),
        "records": steps * config.batch_size,
        "parts": list(parts),
        "sha256": digest.hexdigest(),
        "difference": difference,
        "decode": {name: loader.decode for name, loader in zip(names, loaders, strict=True)},
        "pictures": draw_proof([short_name(name) for name in names], first_batches),
    }


def first_difference(
    ours: Sequence[Any], theirs: Sequence[Any], names: Sequence[str], between: tuple[str, str]
) -> str | None:
    """Where two batches (numpy arrays, a part each) first differ in type, shape or bits; None if nowhere."""
    for name, left, right in zip(names, ours, theirs, strict=True):
        if left.dtype != right.dtype or left.shape != right.shape:
            return (
                f"{name}: {left.dtype}{list(left.shape)} from {between[0]}, "
                f"{right.dtype}{list(right.shape)} from {between[1]}"
            )
        # As bytes, so that every bit counts and NaN equals itself.
        if left.tobytes() != right.tobytes():
            place = tuple(int(axis[0]) for axis in np.nonzero(left != right))
            return f"{name}{list(place)}: {left[place]} from {between[0]}, {right[place]} from {between[1]}"
    return None
