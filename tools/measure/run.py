"""A whole comparison: data, proof of equality, rounds of cells, result."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from loaders.base import Source
from loaders.config import LoaderConfig
from loaders.factory import dali_is_installed, open_source
from loaders.reference import is_reference
from tools.measure.cells import Cell, plan_cells, plan_sweep
from tools.measure.config import CEILING, CompareConfig
from tools.measure.data import made_data
from tools.measure.knee import parse_sweep
from tools.measure.launch import run_job
from tools.measure.metadata import collect, fingerprint_of_data, fingerprint_of_machine, now
from tools.measure.page_cache import page_cache_share
from tools.measure.result import FORMAT, VERSION
from tools.measure.rounds import START_S, Progress, Rounds, batch_size_of, run_rounds
from tools.measure.summary import compare_pairs, summarize
from tools.measure.sweep import describe_sweep
from tools.measure.verdict import judge

log = logging.getLogger(__name__)

_PROOF_RECORDS = 1024
_PROOF_S = 600.0


def compare(
    config: CompareConfig, say: Callable[[str], None], tell: Callable[[Progress], None]
) -> dict[str, Any]:
    """Prove that the loaders are equal, run every round, and return the result (docs/result.md).

    ``say`` gets a sentence for each stage, ``tell`` the progress after every cell. On Ctrl-C in the
    rounds the finished ones are kept: the result's ``complete`` is False.
    Errors: ValueError for what the user can mend; RunFailed; OSError.
    """
    metadata = collect()
    began = time.monotonic()
    if not config.data:
        config = replace(config, data=(str(made_data(config.style, say)),))
    loaders = loaders_of(config)
    source = open_source(LoaderConfig.of(config, form="train", loader="tfdata"))
    proof = _prove(config, loaders)
    say(_proof_sentence(proof))
    say(_cache_sentence(source, cold=config.cold))
    cells = [
        *plan_cells(loaders, config.xla, config.kinds),
        *plan_sweep([loader for loader in loaders if loader != "cached"], parse_sweep(config.sweep)),
    ]
    rounds = run_rounds(config, cells, source.paths, tell, spent_s=time.monotonic() - began)
    return _result(config, source, proof, rounds, metadata)


def loaders_of(config: CompareConfig) -> tuple[str, ...]:
    """The loaders to compare: those that were named, or all that are there."""
    if config.loader:
        return tuple(name for name in config.loader if name != CEILING)
    extra = () if config.quick or config.sweep else ("cached",)
    if dali_is_installed():
        return ("tfdata", "dali", *extra)
    log.warning("DALI is not installed: it is left out (the README says how to get it)")
    return ("tfdata", *extra)


def _prove(config: CompareConfig, loaders: tuple[str, ...]) -> dict[str, Any]:
    return run_job(
        "proof",
        config.training(loader=loaders[0] if loaders else "tfdata"),
        timeout_s=START_S + _PROOF_S,
        sampled=False,
        loaders=loaders or ("tfdata",),
        records=_PROOF_RECORDS,
        allow_different=config.allow_different,
    )


def _result(
    config: CompareConfig, source: Source, proof: dict[str, Any], rounds: Rounds, metadata: dict[str, Any]
) -> dict[str, Any]:
    device = proof["device"]
    plain: list[Cell] = [cell for cell in rounds.of if not cell.settings]
    rows = summarize(
        plain,
        rounds.of,
        batch_size=config.batch_size,
        records=source.plan.records,
        device=device,
        cores=metadata["usable_cores"],
    )
    verdict = judge(rows, device)
    shares = rounds.sampling_cost_shares
    return {
        "format": FORMAT,
        "version": VERSION,
        "complete": rounds.complete,
        "why_stopped": rounds.why_stopped,
        "verdict": verdict.sentence if verdict else None,
        "limit": verdict.limit if verdict else None,
        "use": {"loader": verdict.loader, "xla": verdict.xla} if verdict and verdict.loader else None,
        "device": device,
        "data": _describe(source),
        "config": asdict(config),
        "metadata": {**metadata, "ended": now(), "fingerprint": fingerprint_of_machine(metadata)},
        "proof": {
            name: value for name, value in proof.items() if name not in ("compiles", "peak_rss_mib", "device")
        },
        "cells": rows,
        "comparisons": compare_pairs(rows),
        "sweep": describe_sweep(
            {c: rounds.rates(c, batch_size_of(c, config)) for c in rounds.of if c.settings}
        ),
        "sampling_cost_share": sum(shares) / len(shares) if shares else None,
    }


def _describe(source: Source) -> dict[str, Any]:
    return {
        "shards": len(source.shards),
        "records": sum(source.plan.counts),
        "bytes": sum(shard.size for shard in source.shards),
        "schema": asdict(source.schema),
        "fingerprint": fingerprint_of_data(source),
    }


def _proof_sentence(proof: dict[str, Any]) -> str:
    if proof["difference"]:
        return f"not the same batches, and --allow-different goes on: {proof['difference']}"
    if len(proof["loaders"]) < 2:
        return f"one loader only ({proof['loaders'][0]}): nothing to prove equal"
    parts = ", ".join(proof["parts"])
    names = " and ".join(("your own " + name) if is_reference(name) else name for name in proof["loaders"])
    return f"{names} give the same {proof['records']} records, bit for bit ({parts})"


def _cache_sentence(source: Source, *, cold: bool) -> str:
    if cold:
        return "the shards are dropped from the page cache before every cell"
    share = page_cache_share(source.paths)
    if share is None:
        return "whether the shards are read from memory or from the disk is not known here"
    if share > 0.99:
        return (
            "the shards lie in the page cache: the figures are for cached data (--cold reads from the disk)"
        )
    return f"{100 * share:.0f} % of the shards lie in the page cache; the rest is read from the disk at first"
