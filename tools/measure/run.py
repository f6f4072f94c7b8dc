"""A whole comparison: data, proof of equality, rounds of cells, result."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import platformdirs

from loaders.base import Source
from loaders.config import LoaderConfig
from loaders.factory import open_source
from tools.measure.cells import Cell, order_of_round, plan_cells
from tools.measure.config import CompareConfig
from tools.measure.launch import run_job
from tools.measure.metadata import collect
from tools.measure.summary import Round, round_rate, summarize
from tools.measure.verdict import judge

log = logging.getLogger(__name__)

FORMAT = "feedline-comparison"
VERSION = 1

_PROOF_RECORDS = 1024
_START_S = 120.0
"""What a process may take on top of its warm-up and measurement: imports, checks, compiles."""
_MADE = {"line": 2048, "photo": 1024}
"""Records of the data set that is made where none is given."""

Tell = Callable[[str], None]


def compare(config: CompareConfig, tell: Tell) -> dict[str, Any]:
    """Prove that the loaders are equal, run every round, and return the result.

    ``tell`` gets a line for everything that was done. On Ctrl-C between or in rounds the
    finished ones are kept: the result's ``complete`` is False.
    Errors: ValueError for what the user can mend; RunFailed; OSError.
    """
    metadata = collect()
    if not config.data:
        config = replace(config, data=(str(_made_data(config.style, tell)),))
    loaders = config.loader or _installed_loaders()
    source = open_source(LoaderConfig.of(config, form="train", loader=loaders[0]))
    training = config.training(json=None)
    proof = run_job(
        "proof",
        replace(training, loader=loaders[0]),
        timeout_s=_START_S + 600,
        loaders=loaders,
        records=_PROOF_RECORDS,
    )
    tell(_proof_sentence(proof))
    cells = plan_cells(loaders, config.xla)
    rounds: dict[Cell, list[Round]] = {cell: [] for cell in cells}
    complete = _run_rounds(config, cells, rounds, tell)
    rows = summarize(cells, rounds, config.batch_size)
    verdict = judge(rows, proof["device"]) if complete or _whole_round(rounds) else None
    return {
        "format": FORMAT,
        "version": VERSION,
        "complete": complete,
        "verdict": verdict.sentence if verdict else None,
        "limit": verdict.limit if verdict else None,
        "use": {"loader": verdict.loader, "xla": verdict.xla} if verdict else None,
        "proof": {name: value for name, value in proof.items() if name not in ("compiles", "peak_rss_mib")},
        "device": proof["device"],
        "data": _describe(source),
        "config": asdict(config),
        "metadata": metadata,
        "cells": rows,
    }


def _run_rounds(
    config: CompareConfig, cells: list[Cell], rounds: dict[Cell, list[Round]], tell: Tell
) -> bool:
    """Fill ``rounds``; False when Ctrl-C cut it short."""
    total, done = config.rounds_to_run * len(cells), 0
    try:
        for number in range(config.rounds_to_run):
            for cell in order_of_round(cells, number):
                result = _run_cell(config, cell)
                rounds[cell].append(result)
                done += 1
                rate = round_rate(result, config.batch_size)
                note = "" if result["steady"] else " (never steady)"
                tell(f"[{done}/{total}] {cell.name}: {rate:.0f} img/s{note}")
    except KeyboardInterrupt:
        return False
    return True


def _run_cell(config: CompareConfig, cell: Cell) -> Round:
    changes = {"loader": cell.loader or "tfdata", "xla": cell.xla or "off"}
    return run_job(
        cell.kind,
        config.training(**changes),
        timeout_s=_START_S + config.warm_up_limit_s + 10 * config.measure_limit_s,
        measure_s=config.measure_limit_s,
        warm_up_s=config.warm_up_limit_s,
    )


def _whole_round(rounds: dict[Cell, list[Round]]) -> bool:
    return all(rounds.values())


def _installed_loaders() -> tuple[str, ...]:
    if importlib.util.find_spec("nvidia") and importlib.util.find_spec("nvidia.dali"):
        return ("tfdata", "dali")
    log.warning("DALI is not installed: only tfdata is measured (see the README on how to get DALI)")
    return ("tfdata",)


def _made_data(style: str, tell: Tell) -> Path:
    """The folder of the made data set, made on first use."""
    from tools.dataset.config import DatasetConfig
    from tools.dataset.make import make_dataset

    records = _MADE[style]
    folder = Path(platformdirs.user_cache_dir("feedline")) / "data" / f"{style}-256x256-{records}"
    if (folder / "dataset.json").exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    tell(f"making a data set of {records} records (style {style}) in {folder} ...")
    # Two comparisons may start at once: each makes its own, and one takes the place.
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        make_dataset(DatasetConfig(out=made, records=records, style=style), progress=True)  # type: ignore[arg-type]
        if not folder.exists():
            os.replace(made, folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder


def _proof_sentence(proof: dict[str, Any]) -> str:
    if len(proof["loaders"]) < 2:
        return f"one loader only ({proof['loaders'][0]}): nothing to prove equal"
    parts = ", ".join(proof["parts"])
    return f"{' and '.join(proof['loaders'])} give the same {proof['records']} records, bit for bit ({parts})"


def _describe(source: Source) -> dict[str, Any]:
    return {
        "shards": len(source.shards),
        "records": sum(source.plan.counts),
        "bytes": sum(shard.size for shard in source.shards),
        "schema": asdict(source.schema),
    }
